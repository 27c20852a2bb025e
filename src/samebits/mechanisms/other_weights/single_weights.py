"""Single values of an operand that are others: errors of a channel are one column of its products times a number."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.facts.observation import Floats, Observation, Sample, gather_source
from samebits.mechanisms.other_weights.refitted import view_own
from samebits.numbers.format import find_format
from samebits.problems.lowering import lower_problem

# Channels with a value of another kind, of all at most so many; values gathered for one of them.
_MOST_ROWS, _MOST_SHARE, _MOST_GATHERED = 8, 1 / 4, 8_000_000
# Numbers that are fitted, as a value is: of sums in float64, relative; and what is said of as a power of two.
_SAME, _MOST_POWER = 1e-3, 40


@dataclass(frozen=True)
class _Single:
    """A value of a row, by its place among the products of a sum, what it is and what stands on record."""

    row: int
    place: int
    value: float
    own: float


def explain_single_weights(observation: Observation) -> Mechanism | None:
    """One value of an operand, or one in each of a few channels, that is another than on record.

    All other outputs are within their bounds, and those of the channel differ by what this value meets, times a number.
    """
    terms = observation.terms
    total = terms.groups * terms.rows
    wrong = observation.distances.over_bound > 1.0
    if not wrong.any() or total < 1 / _MOST_SHARE:
        return None
    whole = observation.whole()
    by_row = np.flatnonzero(whole.pick(wrong).any(axis=1))
    if len(by_row) > min(_MOST_ROWS, total * _MOST_SHARE):
        return None
    found: list[_Single] = []
    for row in by_row:
        single = _find_single(observation, int(row))
        if single is None:
            return None
        found.append(single)
    says = _say(observation, found)
    evidence = (
        f"{int(wrong.sum()):,} of {wrong.size:,} outputs are beyond their bound; that many differ by what the value"
        " meets times one number, and all others are within theirs"
    )
    return Mechanism(CauseCode.OTHER_OPERANDS, "wrong", says, "bound", evidence=(Evidence("structure", evidence),))


def _find_single(observation: Observation, row: int) -> _Single | None:
    """The value of a row that makes all of its outputs fit; None where none does, several do, or chance may."""
    terms = observation.terms
    sample = Sample(terms, np.array([row]), np.arange(terms.positions))
    given, truth, bound = (
        sample.pick(a)[0].astype(np.float64) for a in (observation.result, observation.truth, observation.bound)
    )
    unclipped = mark_unclipped(observation.problem, given) & mark_unclipped(observation.problem, truth)
    told = unclipped & np.isfinite(given) & np.isfinite(truth)
    if terms.count < 2 or not told.any() or not given.any() or terms.positions * terms.count > _MOST_GATHERED:
        return None
    source = terms.view_source(observation.operands[terms.source_operand])
    met = gather_source(terms, source, row // terms.rows, sample.positions)
    if not np.isfinite(met).all():
        return None
    errors, some = (given - truth)[told], met[told]
    squares = (some**2).sum(axis=0)
    numbers = np.where(squares > 0, some.T @ errors / np.where(squares > 0, squares, 1.0), 0.0)
    left = np.where(squares > 0, float((errors**2).sum()) - numbers**2 * squares, math.inf)
    nearest = np.argsort(left)[:2]
    unit = float(find_format(observation.problem.out).unit_roundoff)
    sums = observation.sum_with_bias(sample)[0]

    def measure_room(place: int) -> Floats:
        # Roundings are a little more where one of the terms is larger, and the last one is as large as the result.
        return bound + 2.0**-20 * np.abs(numbers[place] * met[:, place]) + 2 * unit * np.abs(given)

    def fits(place: int) -> bool:
        predicted = observation.apply_epilogue(sums + numbers[place] * met[:, place])
        return bool(numbers[place] != 0 and (np.abs(given - predicted) <= measure_room(place)).all())

    place = int(nearest[0])
    if not fits(place) or fits(int(nearest[1])):
        return None
    # By chance an output that is off so much would fit in one case of `off` over its room.
    with np.errstate(divide="ignore"):
        bits = np.log2(np.maximum(np.abs(errors) / measure_room(place)[told], 1.0)).sum()
    if not bits - 24 - math.log2(terms.count) >= thresholds.FEWEST_BITS:
        return None
    own = float(view_own(observation).reshape(terms.groups * terms.rows, -1)[row, place])
    return _Single(row, place, own + float(numbers[place]), own)


def _say(observation: Observation, found: list[_Single]) -> str:
    name = observation.terms.rows_operand
    said = [_say_one(name, _locate(observation, one), one) for one in found[:3]]
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return f"multiplies another value of {name} than the one on record: {'; '.join(said)}{more}"


def _locate(observation: Observation, one: _Single) -> npt.NDArray[np.int64]:
    """The index of the value in its operand."""
    terms, stated = observation.terms, observation.problem.stated
    name, shape = terms.rows_operand, observation.operands[terms.rows_operand].shape
    numbers = np.arange(math.prod(shape)).reshape(shape)
    flat = terms.view_rows(numbers).reshape(terms.groups * terms.rows, -1)
    number = int(flat[one.row, one.place])
    if stated is None:
        return np.array(np.unravel_index(number, shape))
    return np.argwhere(lower_problem(stated).restore_operands({name: numbers})[name] == number)[0]


def _say_one(name: str, index: npt.NDArray[np.int64], one: _Single) -> str:
    at = f"{name}[{', '.join(map(str, index.tolist()))}]"
    if abs(one.value) <= _SAME * abs(one.own):
        return f"{at} as zero, where {one.own:.6g} is on record"
    if one.own and abs(one.value + one.own) <= _SAME * abs(one.own):
        return f"{at} with the other sign, where {one.own:.6g} is on record"
    said = f"{at} as {one.value:.6g}, where {one.own:.6g} is on record"
    power = math.log2(abs(one.value / one.own)) if one.own else 0.0
    if 1 <= abs(power) <= _MOST_POWER and abs(power - round(power)) <= _SAME and one.value / one.own > 0:
        return f"{said} (2^{round(power)} times it, as by a bit of its exponent)"
    return said
