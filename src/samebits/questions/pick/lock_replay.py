"""A choice out of a lock: taken as it stands where it is known, checked by its bits elsewhere, or refused."""

from __future__ import annotations

import msgspec

from samebits.engines.runner.lowered_runner import lower_runner
from samebits.errors import LockError, SamebitsError
from samebits.judging.side_running import run_on_both
from samebits.numbers.same_bits import digest_bits
from samebits.problems import Problem
from samebits.problems.lowering import lower_problem
from samebits.progress import Progress
from samebits.questions.pick.checking import make_operands
from samebits.questions.pick.open_runners import OpenRunners
from samebits.questions.pick.pick_schema import Choice
from samebits.questions.pick.places import find_place


def replay_choice(choice: Choice, problem: Problem, runners: OpenRunners, progress: Progress) -> Choice:
    """The choice, without timing. Raises LockError where its engine is missing or gives other bits here."""
    text = choice.engine or ""
    try:
        here = find_place(text, runners.identify_given(text))
    except SamebitsError as error:
        raise LockError(f"the lock's choice for {choice.problem} cannot be used: {error}") from None
    if here in choice.places:
        return msgspec.structs.replace(choice, picked_by="lock")
    progress(f"checking {text[:60]}, which the lock has from elsewhere", 0.5)
    lowering = lower_problem(problem)
    exact, normal = make_operands(lowering)
    try:
        ran = run_on_both(lower_runner(runners.find(text), lowering), lowering.convolution, exact, normal)
    except SamebitsError as error:
        raise LockError(f"the lock's choice for {choice.problem} cannot be used: {error}") from None
    if ran.recorded.result is None or ran.on_exact is None:
        says = ran.recorded.failure.says if ran.recorded.failure else "it returned nothing"
        raise LockError(f"the lock's choice for {choice.problem} cannot be used: {text}: {says}")
    if [digest_bits(ran.on_exact), digest_bits(ran.recorded.result)] != choice.digests:
        known = "; ".join(f"{place.version} on {place.device}" for place in choice.places)
        raise LockError(
            f"{text} gives other bits here ({here.version} on {here.device}) than where the lock was"
            f" made ({known}), for {choice.problem}; --again picks anew"
        )
    return msgspec.structs.replace(choice, picked_by="checked lock", places=[*choice.places, here])
