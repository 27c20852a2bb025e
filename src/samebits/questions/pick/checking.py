"""One candidate of one problem: does it keep the contract, on exact integers, on random operands, from run to run?"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from samebits.engines.probes.invariances import is_invariant_to_batch_position, is_invariant_to_batch_size
from samebits.engines.runner import Runner
from samebits.engines.runner.lowered_runner import lower_runner
from samebits.engines.runner.timed_runs import time_runs
from samebits.errors import EngineFailure, SamebitsError
from samebits.findings import Replay, Side, is_agreement
from samebits.findings.causes import CauseCode
from samebits.judging.attribution import attribute
from samebits.judging.references import Reference, make_reference
from samebits.judging.side_running import Ran, judge_ran, run_on_both
from samebits.numbers.ulps import digest_bits
from samebits.problems import Problem
from samebits.problems.case_file import Case
from samebits.problems.lowering import Lowering, lower_problem
from samebits.problems.operands import make_exact, make_normal
from samebits.progress import Progress, rename_progress
from samebits.questions.explain.explaining import explain
from samebits.questions.pick.pick_schema import Contract, Rejection
from samebits.questions.pick.pick_sentences import (
    say_batch_dependent,
    say_loses,
    say_many_results,
    say_memory_unknown,
    say_other_bits,
    say_too_far,
    say_too_large,
    say_verdict,
)
from samebits.sums.recipes import format_recipe

# Enough calls to see results that change, and time enough for a first look at the time.
_FEWEST_RUNS, _MOST_RUNS, _RUNS_TAKE_S = 5, 30, 0.2
_SEED = 0


@dataclass(frozen=True)
class ProblemData:
    """A problem with two sets of operands and the reference for each."""

    stated: Problem
    lowering: Lowering
    given: Mapping[str, np.ndarray]
    exact: tuple[dict[str, np.ndarray], Reference]
    normal: tuple[dict[str, np.ndarray], Reference]


def prepare_data(problem: Problem, progress: Progress) -> ProblemData:
    """Exact integers and normal operands, with the truth of each."""
    lowering = lower_problem(problem)
    convolution = lowering.convolution
    exact, normal = make_operands(lowering)
    on_integers = rename_progress(progress, "computing exact integers")
    given = lowering.restore_operands(normal)
    return ProblemData(
        problem,
        lowering,
        given,
        (exact, make_reference(convolution, exact, on_integers, rounds=False)),
        (normal, make_reference(convolution, normal, progress)),
    )


def make_operands(lowering: Lowering) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Exact integers and normal operands, the same each time."""
    return make_exact(lowering.convolution, _SEED), lowering.lower_operands(make_normal(lowering.stated, _SEED))


@dataclass(frozen=True)
class Checked:
    """The outcome for one candidate: why it is rejected, if it is; its first timing, and its bits.

    `time_s` is a median, `fastest_s` the fastest of its first runs; `digests` name its bits on both sets of operands,
    `seen` those of all runs on the normal ones, as a caller sees them.
    """

    text: str
    rejection: Rejection | None
    time_s: float = np.inf
    fastest_s: float = np.inf
    peak_bytes: int | None = None
    digests: tuple[str, ...] = ()
    seen: frozenset[str] = frozenset()


def check_candidate(runner: Runner, data: ProblemData, contract: Contract) -> Checked:
    """Runs a candidate on both sets of operands, then repeatedly; a failure rejects it."""
    text, lowered = runner.text, lower_runner(runner, data.lowering)
    operands = dict(data.given)
    try:
        # Before anything else: memory that a process has once had is not seen to grow again.
        first = time_runs(runner, data.stated, operands, 1)
    except EngineFailure as error:
        return Checked(text, Rejection(text, str(error)))
    ran = run_on_both(lowered, data.lowering.convolution, data.exact[0], data.normal[0])
    if ran.recorded.failure is not None or ran.recorded.result is None or ran.on_exact is None:
        failure = ran.recorded.failure
        return Checked(text, Rejection(text, failure.says if failure else "returned nothing"))
    side = judge_ran(data.normal[1], data.exact[1], ran)
    rejection = _reject_result(side, contract)
    if rejection is not None:
        if rejection.cause is None:
            rejection = _name_cause(rejection, lowered, data, ran)
        return Checked(text, rejection)
    # As a caller sees it, the result is the product's; judged was the convolution's.
    seen = frozenset((digest_bits(data.lowering.restore_result(ran.recorded.result)), *first.digests))
    found = Checked(text, None, peak_bytes=first.peak_bytes, digests=_digest_both(ran), seen=seen)
    try:
        return _check_runs(runner, data, contract, found, operands, first.seconds[0])
    except EngineFailure as error:
        return Checked(text, Rejection(text, str(error)))


def _reject_result(side: Side, contract: Contract) -> Rejection | None:
    lost = side.verdict == "wrong" if contract.within == "any" else not is_agreement(side.verdict)
    if lost:
        return Rejection(side.name, say_verdict(side), side.cause)
    farthest = side.error.max_ulp if side.error is not None else None
    if contract.max_ulp is not None and farthest is not None and farthest > contract.max_ulp:
        return Rejection(side.name, say_too_far(farthest, contract.max_ulp), side.cause)
    return None


def _name_cause(rejection: Rejection, runner: Runner, data: ProblemData, ran: Ran) -> Rejection:
    """The rejection with its cause: from the recipe, else from explaining the result as a recorded case."""
    result = ran.recorded.result
    assert result is not None
    try:
        found = attribute(runner, data.normal[1], data.normal[0], result)
        if found is not None and found.mechanism is not None:
            return Rejection(rejection.engine, f"{rejection.why}: {found.mechanism.says}", found.mechanism.cause)
        own = {"result": data.lowering.restore_result(result)}
        (side,) = explain(Case(data.stated, dict(data.given), own)).sides
    except SamebitsError:
        return rejection
    says = f"{rejection.why}: {side.says}" if side.says and side.cause else rejection.why
    return Rejection(rejection.engine, says, side.cause)


def _check_runs(
    runner: Runner,
    data: ProblemData,
    contract: Contract,
    found: Checked,
    operands: Mapping[str, np.ndarray],
    first_s: float,
) -> Checked:
    """Runs a candidate many times: whether its bits stay, its fastest run; then its memory, and other batch sizes.

    The fastest run says which candidates are worth timing: other load on the machine only ever adds time.
    """
    runs = int(np.clip(_RUNS_TAKE_S / max(first_s, 1e-9), _FEWEST_RUNS, _MOST_RUNS))
    more = time_runs(runner, data.stated, operands, runs)
    seen = found.seen | {*more.digests}
    rejection = None
    if contract.deterministic and len(seen) > 1:
        rejection = Rejection(found.text, say_many_results(len(seen)), CauseCode.NONDETERMINISM)
    elif contract.workspace is not None:
        rejection = _reject_memory(found, contract.workspace)
    if rejection is None and contract.batch_invariant:
        rejection = _reject_batches(runner, data, found.text)
    if rejection is not None:
        return Checked(found.text, rejection)
    return replace(found, time_s=statistics.median(more.seconds), fastest_s=min(more.seconds), seen=seen)


def _reject_memory(checked: Checked, limit: int) -> Rejection | None:
    if checked.peak_bytes is None:
        return Rejection(checked.text, say_memory_unknown())
    return Rejection(checked.text, say_too_large(checked.peak_bytes, limit)) if checked.peak_bytes > limit else None


def _reject_batches(runner: Runner, data: ProblemData, text: str) -> Rejection | None:
    for asks in (is_invariant_to_batch_size, is_invariant_to_batch_position):
        if asks(runner, data.stated) is False:
            why = say_batch_dependent(of_size=asks is is_invariant_to_batch_size)
            return Rejection(text, why, CauseCode.SHAPE_SPECIFIC_KERNEL if asks is is_invariant_to_batch_size else None)
    return None


@dataclass(frozen=True)
class Proof:
    """The last checks of a candidate that is to be chosen: its recipe, or why it is rejected."""

    rejection: Rejection | None
    recipe: str | None = None
    replay: Replay | None = None


def prove_choice(
    runner: Runner, second: Runner | None, data: ProblemData, contract: Contract, checked: Checked
) -> Proof:
    """The last checks, which cost most: the recipe, by replay; and the same bits from a second process."""
    lowered = lower_runner(runner, data.lowering)
    try:
        ran = run_on_both(lowered, data.lowering.convolution, data.exact[0], data.normal[0])
        again = ran
        if contract.deterministic and second is not None:
            other = lower_runner(second, data.lowering)
            again = run_on_both(other, data.lowering.convolution, data.exact[0], data.normal[0])
        failure = ran.recorded.failure or again.recorded.failure
        if failure is not None or ran.recorded.result is None:
            return Proof(Rejection(checked.text, failure.says if failure else "returned nothing"))
        if contract.deterministic and {_digest_both(again), _digest_both(ran)} != {checked.digests}:
            return Proof(Rejection(checked.text, say_other_bits(), CauseCode.NONDETERMINISM))
        # Bits that may change may have become wrong.
        rejection = _reject_result(judge_ran(data.normal[1], data.exact[1], ran), contract)
        if rejection is not None:
            return Proof(rejection)
        found = attribute(lowered, data.normal[1], data.normal[0], ran.recorded.result)
    except SamebitsError as error:
        return Proof(Rejection(checked.text, str(error)))
    if found is None or found.recipe is None:
        return Proof(None)
    mechanism = found.mechanism
    if mechanism is not None and contract.within == "bound" and not is_agreement(mechanism.verdict):
        return Proof(Rejection(checked.text, say_loses(mechanism.says), mechanism.cause))
    return Proof(None, format_recipe(found.recipe), found.replay)


def _digest_both(ran: Ran) -> tuple[str, ...]:
    """Names for the bits on exact integers and on normal operands, as far as there are results."""
    return tuple(digest_bits(r) for r in (ran.on_exact, ran.recorded.result) if r is not None)
