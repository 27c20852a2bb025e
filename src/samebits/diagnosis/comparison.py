"""Comparing the sides of one problem: run all, judge each against the truth, and each against the others."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from samebits.bounds import bound_errors, bound_narrowest_errors
from samebits.contraction.magnitudes import sum_magnitudes
from samebits.contraction.memory import count_available_bytes
from samebits.diagnosis.attribution import (
    Attribution,
    attribute,
    explain_parting,
    judge_attributed,
    name_common_cause,
)
from samebits.diagnosis.judging import Measured, judge_all, judge_side
from samebits.diagnosis.measuring import (
    compare_results,
    find_worst,
    mark_differing_bits,
    measure_distances,
    summarize_error,
)
from samebits.diagnosis.places import describe_places
from samebits.diagnosis.summary import summarize
from samebits.errors import ArgumentError, EngineFailure, ResourceLimitError, SamebitsError
from samebits.findings import Comparison, Evidence, ExactData, Failure, Side
from samebits.problems import Problem, format_problem
from samebits.problems.case_file import Case
from samebits.problems.operands import make_exact, make_normal, make_uniform
from samebits.problems.subject import read_subject
from samebits.registry import TRUTH, open_runner
from samebits.runner import Identity, Runner, check_result
from samebits.truth import Truth, compute_truth
from samebits.version import VERSION

Data = Literal["normal", "uniform", "exact"]
MAKERS: dict[str, Callable[[Problem, int], dict[str, np.ndarray]]] = {
    "normal": make_normal,
    "uniform": make_uniform,
    "exact": make_exact,
}
# Results of up to this many outputs are shown value by value.
FEW_OUTPUTS = 16
LONGEST_TIME_LIMIT_S = 1e6
Report = Callable[[str, float], None]


@dataclass
class _Bench:
    """What is known about one data set of a problem before any side is judged on it."""

    problem: Problem
    operands: dict[str, np.ndarray]
    truth: Truth
    bound: np.ndarray
    narrowest: np.ndarray


@dataclass
class _Ran:
    """What one runner did."""

    name: str
    engine: str | None
    identity: Identity | None = None
    result: np.ndarray | None = None
    on_exact: np.ndarray | None = None
    failure: Failure | None = None
    attribution: Attribution | None = None
    notes: list[str] = field(default_factory=list)


def compare(
    subject: str | Path | Problem | Case,
    on: Sequence[str | Runner] = (),
    *,
    data: Data = "normal",
    seed: int = 0,
    time_limit_s: float = 300.0,
    attributes: bool = True,
    report: Report | None = None,
) -> Comparison:
    """Puts one problem to every runner in `on` and judges each result against the truth and against the others.

    `subject` is a problem, its text (ours, XLA HLO, benchdnn, MIOpenDriver), or a case (file), whose recorded results
    become sides too. Runners are texts such as "torch:threads=1" or objects with the Runner protocol. Every runner is
    tried on exact integers, where any difference is a fault, and on `data` (the case's own operands, if it has any).
    A runner that fails is a finding of its side. Where results differ and `attributes` is set, every runner's recipe
    is found by probing and replayed on the same operands. `report` hears what is being done and the share done. Raises
    SamebitsError for a subject, a runner's text or a size that cannot be dealt with.
    """
    _check_arguments(on, data, seed, time_limit_s)
    case = read_subject(subject)
    problem = case.problem if isinstance(case, Case) else case
    say = report or (lambda what, share: None)
    check_memory(problem, len(on) + 2)
    runners = _open_all(on, time_limit_s)
    try:
        exact = _prepare(problem, make_exact(problem, seed), "exact integers", say)
        operands = case.operands if isinstance(case, Case) else MAKERS[data](problem, seed)
        bench = _prepare(problem, operands, "the truth", say)
        recorded = case.results if isinstance(case, Case) else {}
        ran = [_Ran(name, None, result=result) for name, result in recorded.items()]
        for i, runner in enumerate(runners):
            say(f"running {runner.text}", i / len(runners))
            ran.append(_run(runner, exact, bench))
        if attributes and _some_differ(ran):
            _attribute_all(runners, ran[len(ran) - len(runners) :], bench, say)
    finally:
        for runner in runners:
            runner.close()
    described = "given" if isinstance(case, Case) else f"{data}, seed {seed}"
    return _conclude(bench, exact, _distinct_names(ran), described)


def _open_all(on: Sequence[str | Runner], time_limit_s: float) -> list[Runner]:
    """All runners, opened together so that their processes load side by side; none is left open if one text is bad."""
    opened: list[Runner] = []
    try:
        for runner in on:
            opened.append(open_runner(runner, time_limit_s=time_limit_s) if isinstance(runner, str) else runner)
    except SamebitsError:
        for runner in opened:
            runner.close()
        raise
    return opened


def _check_arguments(on: Sequence[str | Runner], data: str, seed: int, time_limit_s: float) -> None:
    """Raises ArgumentError for what `compare` does not take."""
    if data not in MAKERS:
        raise ArgumentError(f"data must be one of {', '.join(MAKERS)}, not {data!r}")
    if not isinstance(seed, int) or seed < 0:
        raise ArgumentError(f"seed must be a whole number from 0, not {seed!r}")
    if not isinstance(time_limit_s, (int, float)) or not 0 < time_limit_s <= LONGEST_TIME_LIMIT_S:
        raise ArgumentError(f"time_limit_s must be above 0 and at most {LONGEST_TIME_LIMIT_S:g}, not {time_limit_s!r}")
    if isinstance(on, str) or not isinstance(on, Sequence):
        raise ArgumentError(f"on must be a list of engine texts or runners, not {on!r}")
    for runner in on:
        if not isinstance(runner, (str, Runner)):
            raise ArgumentError(f"{runner!r} is neither an engine's text nor a runner")


def check_memory(problem: Problem, sides: int) -> None:
    """Raises ResourceLimitError if operands, truth, bound and results would not fit in what is free now."""
    operands = sum(math.prod(s) for s in problem.operand_shapes.values()) * 8 * 3
    results = math.prod(problem.out_shape) * 8 * (4 + sides)
    needed, available = operands + results, count_available_bytes()
    if needed > 0.8 * available:
        raise ResourceLimitError(
            f"{format_problem(problem)} needs about {needed / 2**30:.1f} GiB to compare, and"
            f" {available / 2**30:.1f} GiB are free; make the batch or the spatial size smaller"
        )


def _prepare(problem: Problem, operands: dict[str, np.ndarray], what: str, say: Report) -> _Bench:
    truth = compute_truth(problem, operands, progress=lambda share: say(f"computing {what}", share))
    magnitudes = sum_magnitudes(problem, operands, progress=lambda share: say(f"bounding errors on {what}", share))
    rounds = what != "exact integers"
    bound = bound_errors(problem, operands, truth.values, magnitudes=magnitudes, rounds_result=rounds)
    narrowest = bound_narrowest_errors(problem, truth.values, magnitudes)
    return _Bench(problem, operands, truth, bound, narrowest)


def _run(runner: Runner, exact: _Bench, bench: _Bench) -> _Ran:
    ran = _Ran(runner.text, runner.text)
    problem = bench.problem
    try:
        ran.identity = runner.identify()
        ran.notes = list(ran.identity.notes)
        ran.on_exact = check_result(problem, runner.run(problem, exact.operands))
        ran.result = check_result(problem, runner.run(problem, bench.operands))
    except EngineFailure as error:
        # Failure lists the kinds that EngineFailure and its classes declare as plain text.
        ran.failure = Failure(error.kind, str(error))  # type: ignore[arg-type]
    except Exception as error:  # A runner is anybody's code: whatever it raises is a finding of its side.
        ran.failure = Failure("error", f"{type(error).__name__}: {error}")
    return ran


def _some_differ(ran: list[_Ran]) -> bool:
    """Whether two results differ in a bit."""
    return len({r.result.tobytes() for r in ran if r.result is not None}) > 1


def _attribute_all(runners: list[Runner], ran: list[_Ran], bench: _Bench, say: Report) -> None:
    for i, (runner, r) in enumerate(zip(runners, ran, strict=True)):
        if r.result is not None and runner.text != TRUTH:
            say(f"probing how {runner.text[:60]} adds", i / len(runners))
            r.attribution = attribute(runner, bench.problem, bench.operands, r.result)


def _distinct_names(ran: list[_Ran]) -> list[_Ran]:
    """The same runner asked twice gets two names, so that differences can be told apart."""
    seen: dict[str, int] = {}
    for r in ran:
        seen[r.name] = seen.get(r.name, 0) + 1
        if seen[r.name] > 1:
            r.name = f"{r.name} #{seen[r.name]}"
    return ran


def _conclude(bench: _Bench, exact: _Bench, ran: list[_Ran], data: str) -> Comparison:
    problem = bench.problem
    sides = [_judge(bench, exact, r) for r in ran]
    results = [(r.name, r.result) for r in ran if r.result is not None]
    differences = [compare_results(problem, a, b) for a, b in itertools.combinations(results, 2)]
    verdict = judge_all([s.verdict for s in sides if s.failure is None or s.verdict == "wrong"], differences)
    parting = explain_parting(problem, sides, differences)
    return Comparison(
        problem=format_problem(problem),
        verdict=verdict,
        cause=name_common_cause(verdict, sides),
        evidence=[parting] if parting else [],
        summary=summarize(verdict, sides),
        data=data,
        outputs=bench.truth.values.size,
        reduction_length=problem.reduction_length,
        truth=few_values(bench.truth.values),
        settled=bench.truth.settled,
        sides=sides,
        differences=differences,
        samebits_version=VERSION,
    )


def _judge(bench: _Bench, exact: _Bench, ran: _Ran) -> Side:
    problem, truth, result = bench.problem, bench.truth.values, ran.result
    on_exact, beyond = _judge_exact(exact, ran.on_exact) if ran.on_exact is not None else (None, False)
    measured = Measured(on_exact, beyond)
    if result is not None:
        distances = measure_distances(problem, result, truth, bench.bound)
        differs = bool(mark_differing_bits(result, truth).any())
        measured = Measured(on_exact, beyond, distances, differs, distances.mark_beyond(bench.narrowest))
    verdict, evidence = judge_side(problem, measured)
    if ran.failure and verdict != "wrong":
        verdict = "undecided"
    attribution = ran.attribution
    verdict = judge_attributed(verdict, attribution)
    evidence = evidence + (attribution.evidence if attribution else [])
    identity, distances = ran.identity, measured.distances
    return Side(
        name=ran.name,
        engine=ran.engine,
        version=identity.version if identity else None,
        device=identity.device if identity else None,
        settings=identity.settings if identity else {},
        verdict=verdict,
        cause=attribution.cause if attribution and verdict in ("rounding", "downgrade") else None,
        recipe=attribution.recipe if attribution else None,
        replay=attribution.replay if attribution else None,
        error=summarize_error(distances, truth) if distances else None,
        values=few_values(result),
        worst=find_worst(problem, result, truth, distances) if distances and result is not None else None,
        where=describe_places(problem, distances.over_bound > 1.0) if distances else None,
        exact_data=on_exact,
        failure=ran.failure,
        evidence=evidence + [Evidence("setting", note) for note in ran.notes],
    )


def _judge_exact(exact: _Bench, result: np.ndarray) -> tuple[ExactData, bool]:
    """What happened on exact integers, and whether any difference is beyond what rounding could make."""
    truth = exact.truth.values
    distances = measure_distances(exact.problem, result, truth, exact.bound)
    differing = distances.absolute > 0
    places = np.argwhere(differing)
    first = tuple(int(i) for i in places[0]) if len(places) else None
    found = ExactData(
        differing=int(differing.sum()),
        elements=result.size,
        where=describe_places(exact.problem, differing),
        first_index=list(first) if first else None,
        first_value=float(result[first]) if first else None,
        first_truth=float(truth[first]) if first else None,
    )
    return found, not distances.within_bound


def few_values(values: np.ndarray | None) -> list[float | None] | None:
    if values is None or values.size > FEW_OUTPUTS:
        return None
    return [float(v) for v in values.ravel()]
