"""Comparing the sides of one problem: run all, judge each against the truth, and each against the others."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from samebits import thresholds
from samebits.engines.registry.runner_text import EMULATE, TRUTH
from samebits.engines.registry.runners import enter_runner
from samebits.engines.runner import Kernel, Runner, check_result
from samebits.engines.runner.guarded_runner import list_runners
from samebits.engines.runner.lowered_runner import lower_runner
from samebits.errors import EngineFailure
from samebits.findings import Comparison, Side, Verdict, is_agreement
from samebits.findings.causes import CauseCode, gravest_cause
from samebits.judging.attribution import attribute
from samebits.judging.comparing_cost import announce_cost, check_memory
from samebits.judging.references import Reference, list_differences, make_reference, start_document
from samebits.judging.side_running import Ran, judge_exact, judge_ran, run_on_both
from samebits.judging.sides import (
    Attribution,
    Recorded,
)
from samebits.judging.verdict_rules import judge_all
from samebits.mechanisms.facts.observation import Observation
from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.ulps import has_same_bits
from samebits.problems import Problem
from samebits.problems.case_file import Case
from samebits.problems.languages.any_language import read_subject
from samebits.problems.lowering import lower_problem
from samebits.problems.operands import make_exact, make_normal, make_uniform
from samebits.progress import FirstVerdict, Progress, ignore_progress, prefix_progress, rename_progress
from samebits.questions.compare.order_difference import explain_difference
from samebits.questions.comparing_arguments import Data, check_arguments
from samebits.questions.comparison_sentences import summarize_comparison

# The number of whole results computed by an emulator whose recipe is looked for too.
_PROBED = 12
# Further drawings of exact integers for a side that nothing explains, in so many seconds.
_MORE_INTEGERS, _MORE_INTEGERS_S = 20, 2.0
MAKERS: dict[str, Callable[[Problem, int], dict[str, np.ndarray]]] = {
    "normal": make_normal,
    "uniform": make_uniform,
    "exact": make_exact,
}


@default_float_environment()
def compare(
    subject: str | Path | Problem | Case,
    on: str | Runner | Kernel | Sequence[str | Runner | Kernel] = (),
    *,
    data: Data = "normal",
    seed: int = 0,
    time_limit_s: float = 300.0,
    attributes: bool = True,
    fix: bool = False,
    calls: int | None = None,
    progress: Progress = ignore_progress,
) -> Comparison:
    """Runs one problem on every runner in `on` and judges each result against the truth and against the others.

    `subject` is a problem, its text (ours, XLA HLO, benchdnn, MIOpenDriver), or a case (file), whose recorded results
    become sides too. Runners are texts such as "torch:threads=1", which are opened and closed here, or objects with the
    Runner protocol, which stay open. Every runner is tried on exact integers, where any difference is a fault, and on
    `data` (the case's own operands, if it has any). Each runs both `calls` times, to see whether its bits repeat; None:
    twice and, where that takes next to no time, up to 200 times, or once with `attributes` off. A runner that fails
    is a finding of its side. Where results differ and `attributes` is set, every runner's recipe is found by probing
    and replayed on the same operands. With `fix` settings of the engines are tried
    until the sides agree, which may take minutes. `progress` hears what is being done and the share done. Raises
    SamebitsError for a subject, a runner's text or a size that cannot be dealt with.
    """
    check_arguments(data, seed, time_limit_s, calls)
    on = list_runners(on)
    case = read_subject(subject)
    lowering = lower_problem(case.problem if isinstance(case, Case) else case)
    check_memory(problem := lowering.stated, len(on) + 2)
    emulated = sum(1 for runner in on if isinstance(runner, str) and runner.startswith(EMULATE))
    announce_cost(problem, 2, (_PROBED if attributes and len(on) > 1 else 2) * emulated, progress)
    with contextlib.ExitStack() as opened:
        operands = case.operands if isinstance(case, Case) else MAKERS[data](problem, seed)
        recorded = case.results if isinstance(case, Case) else {}
        # Of a product the convolution with the same sums is judged; only engines know that they are asked for less.
        problem, operands = lowering.convolution, lowering.lower_operands(operands)
        recorded = {name: lowering.lower_result(result) for name, result in recorded.items()}
        runners = [lower_runner(enter_runner(runner, opened, time_limit_s), lowering) for runner in on]
        exact_operands = make_exact(problem, seed)
        on_integers = rename_progress(progress, "computing exact integers")
        exact = make_reference(problem, exact_operands, on_integers, rounds=False)
        reference = make_reference(problem, operands, progress)
        ran = [Ran(Recorded(name, result)) for name, result in recorded.items()]
        for i, runner in enumerate(runners):
            progress(f"running {runner.text}", i / len(runners))
            # The truth, and what an emulator computes, are the same bits by construction.
            is_own = runner.text == TRUTH or runner.text.startswith(EMULATE)
            often = 1 if is_own or (calls is None and not attributes) else calls
            ran.append(run_on_both(runner, problem, exact_operands, operands, calls=often))
        found: list[Attribution | None] = [None] * len(ran)
        if attributes and (_some_differ(ran) or _some_deviate(ran, reference, exact)):
            _say_first(reference, exact, _name_apart(ran), progress)
            found[len(recorded) :] = _attribute_all(runners, ran[len(recorded) :], reference, operands, progress)
        ran = _name_apart(ran)
        sides = [judge_ran(reference, exact, r, attribution) for r, attribution in zip(ran, found, strict=True)]
        if attributes:
            judged = zip(sides, ran, strict=True)
            sides = [_name_function(side, r, reference, exact, operands, progress) for side, r in judged]
            asked = zip(runners, ran[len(recorded) :], sides[len(recorded) :], strict=True)
            own = [_ask_more_integers(runner, r, side, reference, seed, progress) for runner, r, side in asked]
            sides = [*sides[: len(recorded)], *own]
    concluded = _conclude(reference, ran, sides, "given" if isinstance(case, Case) else f"{data}, seed {seed}")
    if not fix:
        return concluded
    from samebits.judging.fixes import FixSearch, ProblemTrials, list_asked

    drawn = make_normal(problem, seed + 1)
    random = drawn, make_reference(problem, drawn, rename_progress(progress, "computing random operands"))
    place = ProblemTrials(lowering, (exact_operands, exact), (operands, reference), random, time_limit_s)
    texts = [*[None] * len(recorded), *(runner if isinstance(runner, str) else None for runner in on)]
    fixes, evidence = FixSearch(place, list_asked(ran, sides, texts), progress).run()
    return msgspec.structs.replace(concluded, fixes=fixes, evidence=[*concluded.evidence, *evidence])


def _ask_more_integers(
    runner: Runner, ran: Ran, side: Side, reference: Reference, seed: int, progress: Progress
) -> Side:
    """A side beyond its bound that was right on exact integers, on further ones: a term that it loses may have been 0.

    Most terms of long sums are, so that all partial sums stay exact.
    """
    if side.verdict != "undecided" or side.exact_data is None or side.exact_data.differing:
        return side
    problem, ends = reference.problem, time.monotonic() + _MORE_INTEGERS_S
    for number in range(1, _MORE_INTEGERS + 1):
        if time.monotonic() > ends:
            break
        progress(f"asking {side.name[:60]} for more integers", 0.0)
        operands = make_exact(problem, seed + number)
        try:
            result = check_result(problem, runner.run(problem, operands))
        except EngineFailure:
            break
        exact = make_reference(problem, operands, ignore_progress, rounds=False)
        if judge_exact(exact, result)[1]:
            return judge_ran(reference, exact, replace(ran, on_exact=result, exact_calls=None))
    return side


def _name_function(
    side: Side, ran: Ran, reference: Reference, exact: Reference, operands: dict[str, np.ndarray], progress: Progress
) -> Side:
    """A side that deviates for a reason that its recipe does not show, with what explains its result, if anything."""
    result = ran.recorded.result
    explained = side.cause is not None or side.verdict not in ("wrong", "undecided")
    if result is None or explained or side.repeats is False:
        return side
    if result.size < thresholds.FEWEST_TELLING:
        # Few outputs fit one hypothesis or another by chance.
        return side
    observation = Observation(
        reference.problem, operands, result, reference.truth, reference.bound, reference.magnitudes,
        likely=reference.likely,
    )  # fmt: skip
    # Hundreds of modules, of which most comparisons need none.
    from samebits.mechanisms.search.mechanism_finding import find_mechanism

    mechanism = find_mechanism(observation, prefix_progress(progress, f"{side.name}: ")).mechanism
    if mechanism is None:
        return side
    # The recipe of another function is that of its own operands: executed on these, it gives other bits.
    recipe = None if mechanism.verdict == "wrong" else mechanism.recipe
    attribution = Attribution(recipe, mechanism.replay, mechanism, mechanism.evidence)
    return judge_ran(reference, exact, ran, attribution)


def _some_differ(ran: list[Ran]) -> bool:
    """Whether two results differ in a bit."""
    results = [r.recorded.result for r in ran if r.recorded.result is not None]
    return any(not has_same_bits(results[0], other) for other in results[1:])


def _some_deviate(ran: list[Ran], reference: Reference, exact: Reference) -> bool:
    """Whether a result, though all have the same bits, is beyond its bound or rounds exact integers."""
    return any(not is_agreement(judge_ran(reference, exact, r, None).verdict) for r in ran)


def _attribute_all(
    runners: list[Runner], ran: list[Ran], reference: Reference, operands: dict[str, np.ndarray], progress: Progress
) -> list[Attribution | None]:
    found: list[Attribution | None] = []
    for i, (runner, r) in enumerate(zip(runners, ran, strict=True)):
        if r.recorded.result is None or runner.text == TRUTH or r.repeats is False:
            found.append(None)
            continue
        progress(f"probing how {runner.text[:60]} adds", i / len(runners))
        found.append(attribute(runner, reference, operands, r.recorded.result))
    return found


def _name_apart(ran: list[Ran]) -> list[Ran]:
    """The same runner given twice gets two names, so that differences can say which is meant."""
    seen: dict[str, int] = {}
    named: list[Ran] = []
    for r in ran:
        name = r.recorded.name
        seen[name] = seen.get(name, 0) + 1
        own = f"{name} #{seen[name]}" if seen[name] > 1 else name
        named.append(replace(r, recorded=replace(r.recorded, name=own)))
    return named


def _conclude(reference: Reference, ran: list[Ran], sides: list[Side], data: str) -> Comparison:
    problem = reference.problem
    differences = list_differences(problem, [(r.recorded.name, r.recorded.result) for r in ran])
    verdict = judge_all([s.verdict for s in sides if s.failure is None or s.verdict == "wrong"], differences)
    # How a side adds says nothing of one that computes another function.
    same_function = [s for s in sides if s.verdict != "wrong"]
    named = {s.name for s in same_function}
    why = explain_difference(problem, same_function, [d for d in differences if {d.a, d.b} <= named])
    return msgspec.structs.replace(
        start_document(reference, sides, differences, data),
        verdict=verdict,
        cause=_name_common_cause(verdict, sides),
        evidence=[why] if why else [],
        summary=summarize_comparison(verdict, sides),
    )


def _say_first(reference: Reference, exact: Reference, ran: list[Ran], progress: Progress) -> None:
    """Says what is known of all sides before it is found out how they add, where somebody listens."""
    if progress is not ignore_progress:
        first = _conclude(reference, ran, [judge_ran(reference, exact, r, None) for r in ran], "")
        progress(FirstVerdict.of(first.verdict, first.summary, "How each side adds is being looked for."), 1.0)


def _name_common_cause(verdict: Verdict, sides: list[Side]) -> CauseCode | None:
    """The cause of the whole comparison: the gravest of the sides', if every side that ran is explained."""
    causes = {s.cause for s in sides if s.failure is None and s.verdict != "identical"}
    if verdict in ("identical", "wrong") or None in causes:
        return None
    return gravest_cause(c for c in causes if c)
