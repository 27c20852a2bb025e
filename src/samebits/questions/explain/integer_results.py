"""Recorded results of integer kernels: which codes are right, which are sound, and what made the others.

Sums of codes are exact, so that nothing is a matter of rounding before the sum is rescaled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings import Certainty, Comparison, Difference, Error, Evidence, Replay, Side, Verdict
from samebits.findings.causes import CauseCode, worst_verdict
from samebits.findings.settings_advice import advise
from samebits.findings.words.place_words import describe_indices
from samebits.judging.comparing_cost import check_memory
from samebits.mechanisms.parts.moved_parts import WIDTHS, say_multiples
from samebits.mechanisms.quantised.integer_faults import Fault, list_faults
from samebits.mechanisms.quantised.integer_sums import IntegerCase, Whole, sum_exactly
from samebits.mechanisms.quantised.requantising import Steps, Way, clamp, find_steps, list_ways
from samebits.problems.array_files import Given
from samebits.problems.integer_problem import format_integer_problem, parse_integer_problem
from samebits.problems.problem import PRODUCTS
from samebits.progress import Progress
from samebits.questions.explain.part_relations import find_part_relation
from samebits.questions.given_integers import Recorded, take_recorded
from samebits.version import VERSION

_NEAR = 1
_AT_HALVES = CauseCode.REQUANTIZATION


@dataclass(frozen=True)
class _Judged:
    """One result: where it differs from the right codes, and where no sound kernel could have it."""

    name: str
    codes: Whole
    right: Whole
    beyond: npt.NDArray[np.bool_]
    error: Error
    limits: tuple[int, int]

    @property
    def is_telling(self) -> bool:
        """Whether enough codes differ from the right ones that are at no limit: what gives them all is no chance."""
        low, high = self.limits
        inside = (self.codes != self.right) & (self.codes > low) & (self.codes < high)
        return int(inside.sum()) >= thresholds.FEWEST_TELLING

    @property
    def differing(self) -> int:
        return int((self.codes != self.right).sum())

    @property
    def verdict(self) -> Verdict:
        return "wrong" if self.beyond.any() else "rounding" if self.differing else "identical"

    def say_worst(self) -> str:
        """The code that is farthest from the right one."""
        at = np.unravel_index(
            int(np.where(self.beyond, np.abs(self.codes - self.right), -1).argmax()), self.codes.shape
        )
        index = ", ".join(str(int(i)) for i in at)
        return f"the farthest is at [{index}]: {self.codes[at]} where {self.right[at]} is right"

    def say_count(self) -> str:
        """How many codes are what."""
        size, wrong = self.codes.size, int(self.beyond.sum())
        away = np.abs(self.codes - self.right)
        if not self.differing:
            return f"all {size:,} codes are the nearest to the exact result"
        if not wrong:
            are = "is" if self.differing == 1 else "are"
            return f"{self.differing:,} of {size:,} codes {are} one step from the nearest, as a sound kernel may be"
        are = "is" if wrong == 1 else "are"
        said = f"{wrong:,} of {size:,} codes {are} wrong, by up to {int(away[self.beyond].max()):,}"
        sound = self.differing - wrong
        are = "is" if sound == 1 else "are"
        return f"{said}; {sound:,} more {are} one step away, as a sound kernel may be" if sound else said


@dataclass(frozen=True)
class _Found:
    """What reproduces a result, and how many ways to rescale do."""

    says: str
    cause: CauseCode | None
    others: int
    is_whole: bool
    also: str = ""
    # Whether a way to rescale stays within the bound on any sums.
    is_sound: bool = False


def explain_integers(problem_text: str, given: Mapping[str, Given], progress: Progress) -> Comparison:
    """Which recorded codes are right, and what made the others; raises OperandError for operands that do not fit."""
    problem = parse_integer_problem(problem_text)
    check_memory(problem.plain, 2)
    return judge_codes(take_recorded(problem, given), progress)


def judge_codes(recorded: Recorded, progress: Progress) -> Comparison:
    """Which of these results are right, and what made the others."""
    case, problem = recorded.case, recorded.case.problem
    progress("adding codes exactly", 0.0)
    sums = sum_exactly(case)
    steps = find_steps(case, sums) if problem.out != "int32" else None
    limits = case.low, case.high
    judged = [_judge(name, codes, sums, steps, limits) for name, codes in recorded.results.items()]
    faults: list[Fault] = []
    if any(j.beyond.any() for j in judged):
        progress("adding codes as kernels go wrong", 0.3)
        faults = list(list_faults(case, sums))
    sides = [_make_side(case, sums, j, _find(case, sums, j, faults, progress)) for j in judged]
    worst = worst_verdict([s.verdict for s in sides])
    odd = next((s for s in sides if s.verdict == worst), sides[0])
    return Comparison(
        problem=format_integer_problem(problem),
        verdict=worst,
        cause=odd.cause,
        summary=_summarize_all(judged, sides),
        data="given",
        outputs=sums.size,
        reduction_length=problem.plain.reduction_length,
        settled={},
        sides=sides,
        differences=list(_list_differences(judged)),
        # That a step at a half is no fault is no advice for codes that are wrong.
        fixes=[]
        if odd.cause is None or (worst == "wrong" and odd.cause == _AT_HALVES)
        else advise([odd.cause], product=problem.plain.kind in PRODUCTS, codes=True),
        samebits_version=VERSION,
    )


def _judge(name: str, codes: Whole, sums: Whole, steps: Steps | None, limits: tuple[int, int]) -> _Judged:
    right = sums if steps is None else steps.right
    beyond = codes != right if steps is None else (codes < steps.least) | (codes > steps.most)
    away = np.abs(codes - right).astype(np.float64)
    size = float(np.linalg.norm(right)) or 1.0
    over = 0.0 if not away.any() else None
    if steps is not None:
        shares = np.where(codes == right, 0.0, np.abs(codes - steps.real) / (0.5 + steps.away))
        over = float(shares.max(initial=0.0))
    largest = float(away.max(initial=0.0))
    error = Error(largest, largest, float(np.linalg.norm(away)) / size, over)
    return _Judged(name, codes, right, beyond, error, limits)


def _find(case: IntegerCase, sums: Whole, judged: _Judged, faults: list[Fault], progress: Progress) -> _Found | None:
    """What reproduces every code: another way to rescale, else a fault; None where nothing does."""
    plain = Fault(CauseCode.REQUANTIZATION, "", case, sums)
    if judged.verdict == "wrong" and judged.codes.size > 1 and (judged.codes == judged.codes.flat[0]).all():
        says = f"returns {judged.codes.flat[0]} everywhere, as memory that was never written may"
        return _Found(says, CauseCode.UNINITIALIZED_MEMORY, 0, is_whole=False)
    if case.problem.out == "int32":
        exact = _choose([_Found(f.says, f.cause, 0, True) for f in faults if np.array_equal(f.sums, judged.codes)])
        return exact or _find_relation(judged) or _find_multiples(case, judged)
    if judged.verdict != "identical" and (found := _replay(plain, judged)):
        return found
    if judged.verdict != "wrong":
        return None
    nearest, left = _list_nearest(plain, judged), thresholds.EXPLAINS_WITHIN * judged.differing
    whole: list[_Found] = []
    for number, fault in enumerate(faults):
        progress(f"trying {fault.says[:60]}", 0.4 + 0.6 * number / len(faults))
        distance = np.abs(_end(fault, _rescale_plainly(fault)) - judged.codes)
        if distance.max(initial=0) <= _NEAR and (found := _replay(fault, judged)):
            whole.append(found)
        nearest.append((int((distance > 0).sum()), fault.says, fault.cause))
    if whole:
        return _choose(whole)
    if related := _find_relation(judged):
        return related
    count, says, cause = min(nearest, key=lambda one: one[0])
    return _Found(says, cause, 0, is_whole=False) if count <= left else None


def _find_relation(judged: _Judged) -> _Found | None:
    """Right codes that stand elsewhere."""
    parts = find_part_relation(judged.right, judged.codes) if judged.verdict == "wrong" else None
    return _Found(parts.says.format(other="the right result"), parts.cause, 0, is_whole=False) if parts else None


def _find_multiples(case: IntegerCase, judged: _Judged) -> _Found | None:
    """Sums that are off by multiples of a power of two that the codes do not all have anyway."""
    away = (judged.codes - judged.right)[judged.codes != judged.right]
    own = int(np.gcd.reduce(np.abs(case.x.reshape(-1)))) * int(np.gcd.reduce(np.abs(case.w.reshape(-1))))
    for width in WIDTHS if len(away) else ():
        spare = width - math.log2(own & -own) if own else 0.0
        if not (away % 2**width).any() and len(away) * spare >= thresholds.FEWEST_BITS:
            return _Found(say_multiples(away / 2**width, width), CauseCode.OVERFLOW, 0, is_whole=False)
    return None


def _choose(found: list[_Found]) -> _Found | None:
    """The first of several that give every code, and what else does."""
    if not found:
        return None
    return replace(found[0], also="; ".join(dict.fromkeys(f.says for f in found[1:] if f.says != found[0].says)))


def _list_nearest(plain: Fault, judged: _Judged) -> list[tuple[int, str, CauseCode]]:
    """The ways to rescale that no sound kernel has: how many codes each leaves unexplained."""
    return [
        (int((_end(plain, way.run(plain.case, plain.sums)) != judged.codes).sum()), way.rounds or way.says, plain.cause)
        for way in list_ways()
        if not way.is_sound
    ]


def _replay(fault: Fault, judged: _Judged) -> _Found | None:
    """The first way to rescale that reproduces every code, and how many others do."""
    same = [way for way in list_ways() if np.array_equal(_end(fault, way.run(fault.case, fault.sums)), judged.codes)]
    if judged.verdict != "wrong":
        same = [way for way in same if way.is_sound] or same
    if not same:
        return None
    says = _say_ways(same)
    says = f"{fault.says}, and {says}" if fault.says and len(same) == 1 else fault.says or says
    return _Found(says, fault.cause, len(same) - 1, is_whole=True, is_sound=same[0].is_sound)


def _say_ways(same: list[Way]) -> str:
    """What ways to rescale that give the same codes have in common; else the first, and that there are others."""
    if len(same) == 1:
        return same[0].says
    rounds = {way.rounds for way in same}
    if len(rounds) == 1 and "" not in rounds:
        return rounds.pop()
    return f"{same[0].says} (or another way that gives the same codes)"


def _rescale_plainly(fault: Fault) -> Whole:
    case = fault.case
    factor = case.align(case.x_scale * case.w_scale / case.y_scale)
    return np.rint(np.clip(fault.sums * factor, -(2.0**40), 2.0**40)).astype(np.int64) + case.y_zero


def _end(fault: Fault, codes: Whole) -> Whole:
    return clamp(fault.case, codes if fault.end is None else fault.end(codes))


def _make_side(case: IntegerCase, sums: Whole, judged: _Judged, found: _Found | None) -> Side:
    facts = [Evidence("structure", judged.say_count())]
    if judged.beyond.any():
        facts.append(Evidence("structure", judged.say_worst()))
    replay = None
    if found is not None and found.is_whole:
        replay = Replay(1.0, judged.codes.size)
        which = f", with any of {found.others + 1} known ways to rescale," if found.others else ""
        facts.append(Evidence("replay", f"{found.says}: that{which} gives every one of {judged.codes.size:,} codes"))
        if found.also:
            facts.append(Evidence("open", f"as well as this: {found.also}"))
    elif judged.verdict == "identical" and case.problem.out != "int32":
        facts.append(Evidence("replay", _say_fitting(case, sums, judged)))
    level: Certainty = "bits" if judged.verdict == "identical" else "bounds"
    return Side(
        name=judged.name,
        engine=None,
        verdict=judged.verdict,
        certainty=level,
        cause=found.cause if found else None,
        cause_certainty=None if found is None else _find_level(judged, found),
        says=found.says if found else None,
        replay=replay,
        error=judged.error,
        where=describe_indices(judged.beyond) if judged.beyond.any() else None,
        evidence=facts,
    )


def _find_level(judged: _Judged, found: _Found) -> Certainty:
    """Few codes that tell, and several faults that give them all, leave a cause inferred."""
    is_sure = (
        found.is_whole and not found.also and (judged.is_telling or (judged.verdict == "rounding" and found.is_sound))
    )
    return "bits" if is_sure else "statistics"


def _say_fitting(case: IntegerCase, sums: Whole, judged: _Judged) -> str:
    """Which ways to rescale give codes that are all the nearest."""
    fitting = [w for w in list_ways() if np.array_equal(clamp(case, w.run(case, sums)), judged.codes)]
    if not fitting:
        return "none of the known ways to rescale gives all of them"
    return f"{len(fitting)} of the known ways to rescale give all of them; the first {fitting[0].says}"


def _summarize_all(judged: Sequence[_Judged], sides: Sequence[Side]) -> str:
    """A sentence for each result, and one for all of which the same is to be said."""
    said: dict[str, list[str]] = {}
    for one, side in zip(judged, sides, strict=True):
        said.setdefault(_summarize(one, side), []).append(one.name)
    return " ".join(f"{' and '.join(names)}{says}" for says, names in said.items())


def _summarize(judged: _Judged, side: Side) -> str:
    """What is said of a result, behind its name."""
    count = judged.say_count()
    if side.says is None or judged.verdict == "identical":
        return f": {count}."
    level = "" if side.cause_certainty == "bits" else " (inferred)"
    return f" {side.says}{level}: {count}."


def _list_differences(judged: list[_Judged]) -> Iterator[Difference]:
    for i, a in enumerate(judged):
        for b in judged[i + 1 :]:
            away = np.abs(a.codes - b.codes)
            largest = float(away.max(initial=0))
            yield Difference(a=a.name, b=b.name, differing=int((away > 0).sum()), max_abs=largest, max_ulp=largest)
