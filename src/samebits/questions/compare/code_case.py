"""A case of recorded codes: engines run its operator on these codes and scales, beside what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from samebits.engines.runner import Identity, Runner
from samebits.errors import ArgumentError, EngineFailure
from samebits.findings import Comparison, Evidence, Failure, Side
from samebits.judging.comparing_cost import check_memory
from samebits.networks.integer_problems import write_integer_network
from samebits.networks.model_runners import ModelRunner, open_model_runner
from samebits.problems.integer_problem import parse_integer_problem
from samebits.progress import Progress
from samebits.questions.explain.integer_results import judge_codes
from samebits.questions.given_integers import Recorded, take_recorded
from samebits.questions.given_operands import read_members, read_problem_text


def compare_codes(
    subject: str | Path,
    on: Sequence[str | ModelRunner | Runner],
    *,
    time_limit_s: float,
    calls: int | None,
    progress: Progress,
) -> Comparison:
    """Runs the case on every engine, `calls` times, at least twice, and judges all results by its exact sums.

    Raises SamebitsError for codes that do not fit, and for an engine's text that cannot be dealt with.
    """
    problem = parse_integer_problem(str(read_problem_text(subject)))
    check_memory(problem.plain, 2)
    recorded = take_recorded(problem, read_members(subject), needs_result=False)
    ran: dict[str, _Ran] = {}
    for one in on:
        made = _Ran(one, recorded, time_limit_s, max(calls or 0, 2), progress)
        if made.text in recorded.results:
            raise ArgumentError(f"two sides are called {made.text!r}; name the recorded one otherwise")
        count = sum(1 for r in ran.values() if r.text == made.text)
        ran[f"{made.text} #{count + 1}" if count else made.text] = made
    results = {**recorded.results, **{name: r.codes for name, r in ran.items() if r.codes is not None}}
    found = judge_codes(replace(recorded, results=results), progress)
    sides = [_add_engine(s, ran.get(s.name)) for s in found.sides]
    failed = [r.as_failed(name) for name, r in ran.items() if r.codes is None]
    summary = found.summary or "No side returned a result."
    return msgspec.structs.replace(found, sides=[*sides, *failed], summary=summary)


class _Ran:
    """An engine, and what it made of the case, again and again."""

    def __init__(
        self,
        one: str | ModelRunner | Runner,
        recorded: Recorded,
        time_limit_s: float,
        calls: int,
        progress: Progress,
    ):
        self.calls = calls
        runner = open_model_runner(one, time_limit_s=time_limit_s, codes=True)
        self.text, self.codes, self.repeats = runner.text, None, None
        self.identity: Identity | None = None
        self.failure: Failure | None = None
        progress(f"running {runner.text[:60]}", 0.0)
        network, inputs = write_integer_network(recorded.case)
        try:
            self.identity = runner.identify()
            first, *more = (runner.run_network(network, inputs, (), network.outputs, {}) for _ in range(calls))
        except EngineFailure as error:
            # Failure lists the kinds that EngineFailure and its classes declare as plain text.
            self.failure = Failure(error.kind, str(error))  # type: ignore[arg-type]  (one of the kinds)
        else:
            name = network.outputs[0]
            self.codes = first[name].astype(np.int64)
            self.repeats = all(np.array_equal(first[name], again[name]) for again in more)
        finally:
            if isinstance(one, str):
                runner.close()

    def as_failed(self, name: str) -> Side:
        """A side without a result."""
        says = [] if self.failure is None else [Evidence("open", f"no result: {self.failure.says}")]
        side = Side(name=name, engine=self.text, verdict="undecided", certainty="open", evidence=says)
        return _add_engine(side, self)


def _add_engine(side: Side, ran: _Ran | None) -> Side:
    if ran is None:
        return side
    identity = ran.identity
    notes = [Evidence("setting", note) for note in (identity.notes if identity else ())]
    varies = [] if ran.repeats is not False else [Evidence("structure", "calls on the same codes gave other codes")]
    return msgspec.structs.replace(
        side,
        engine=ran.text,
        version=identity.version if identity else None,
        device=identity.device if identity else None,
        settings=identity.settings if identity else {},
        failure=ran.failure,
        repeats=ran.repeats,
        calls=None if ran.repeats is None else ran.calls,
        evidence=[*side.evidence, *varies, *notes],
    )
