"""Operands that became others on their way into the sums: an activation that ran in place, a conversion that saturates,
the products of whole tiles rounded and those of the remainder not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from samebits import thresholds
from samebits.findings.causes import CauseCode
from samebits.mechanisms.epilogue.unasked_activations import ACTIVATIONS, UNITS
from samebits.mechanisms.evidence.nearness import measure_nearness
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample
from samebits.mechanisms.other_weights.refitted import name_axis
from samebits.numbers.format import find_format
from samebits.numbers.whole_number import as_decimal
from samebits.sums.emulators.result_rounding import round_wide
from samebits.sums.recipes.recipe import Rounding

_ROUNDINGS = ("bfloat16", "tf32", "float16")
# Products that a tile of a matrix unit, or a vector, takes at once.
_BLOCKS = (64, 32, 16, 8, 4)
# Limits that are tried, in shares of the largest value, and how often what is between two of them is divided.
_LIMITS, _HALVINGS = np.geomspace(1 / 32, 1, 16), 40
# Significant bits that are tried, but for those that a format has, which are tried as such; bits of long codes.
_FEWEST_DIGITS, _MOST_DIGITS, _DIGITS_OF_FORMATS, _STEP_BITS = 5, 16, (8, 11), (9, 10, 12, 16)
_SATURATING = ("float16", "float8_e4m3fn", "float8_e5m2")
_IN_PLACE = {
    "relu": lambda a: np.maximum(a, 0.0),
    "clip to 0 ... 6": lambda a: np.clip(a, 0.0, 6.0),
    "magnitude": np.abs,
    **ACTIVATIONS,
}


def list_altered_hypotheses(observation: Observation) -> Iterator[Hypothesis]:
    """All altered operands that need no fitted numbers."""
    for operand in ("x", "dy"):
        if operand in observation.operands:
            yield from (_activated(operand, name) for name in _IN_PLACE)
    sample = observation.choose_sample()
    for operand in ("x", "dy"):
        if operand in observation.operands and (clipped := _clip(observation, sample, operand)):
            yield clipped
    for format_ in _SATURATING:
        yield from _list_saturating(observation, format_)
    yield from _list_short(observation)
    depth = observation.terms.depth
    declared = find_format(observation.problem.dtype)
    for format_ in _ROUNDINGS:
        if find_format(format_).precision < declared.precision:
            heads = (depth // block * block for block in _BLOCKS)
            what = f"{depth} {name_axis(observation, 0)}s"
            yield from (_rounds_head(format_, head, what) for head in dict.fromkeys(heads) if 0 < head < depth)


def _activated(operand: str, name: str) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats:
        with np.errstate(all="ignore"):
            values = _IN_PLACE[name](observation.operands[operand].astype(np.float64))
        return observation.sum_instead({**observation.operands, operand: values}, sample)

    says = f"multiplies {operand} behind an activation ({name}), as where that ran in place"
    unit = UNITS * float(find_format("float32").unit_roundoff)
    return Hypothesis(CauseCode.OTHER_OPERANDS, "wrong", says, predict, unit=unit)


def _clip(observation: Observation, sample: Sample, name: str) -> Hypothesis | None:
    """An operand clipped to one magnitude, as gradients are before a step: the limit that comes closest."""
    values = observation.operands[name].astype(np.float64)
    size = np.abs(values)
    largest = float(size.max(initial=0.0))
    # To sums that are all alike a limit can always be fitted.
    alike = len(np.unique(sample.pick(observation.truth))) < thresholds.FEWEST_PER_CHANNEL
    if alike or not np.isfinite(largest) or largest == 0:
        return None

    def sum_clipped(observation: Observation, sample: Sample, limit: float) -> Floats:
        return observation.sum_instead({**observation.operands, name: np.clip(values, -limit, limit)}, sample)

    def measure(limit: float) -> float:
        return measure_nearness(observation, sample, sum_clipped(observation, sample, limit))

    limits = largest * _LIMITS
    distances = [measure(limit) for limit in limits]
    best = int(np.argmin(distances))
    if best == len(limits) - 1 or distances[best] > thresholds.EXPLAINS * distances[-1]:
        return None
    low, high = limits[max(best - 1, 0)], limits[best + 1]
    for _ in range(_HALVINGS):
        third = (high - low) / 3
        low, high = (low, high - third) if measure(low + third) < measure(high - third) else (low + third, high)
    limit = as_decimal((low + high) / 2)
    says = f"multiplies {name} clipped to magnitudes up to {limit:.6g}"

    def predict(observation: Observation, sample: Sample) -> Floats:
        return sum_clipped(observation, sample, limit)

    return Hypothesis(CauseCode.OTHER_OPERANDS, "wrong", says, predict, fitted=True)


def _list_short(observation: Observation) -> Iterator[Hypothesis]:
    """Operands rounded to so many significant bits as no format has, or to steps of 9 bits and more."""
    terms, digits = observation.terms, find_format(observation.problem.dtype).precision
    names = (terms.rows_operand, terms.source_operand)
    for bits in (b for b in range(_FEWEST_DIGITS, min(_MOST_DIGITS, digits - 1) + 1) if b not in _DIGITS_OF_FORMATS):
        for chosen in ((names[0],), (names[1],), names):
            says = f"rounds {' and '.join(chosen)} to {bits} significant bits before it multiplies"
            change = functools.partial(_shorten, bits=bits)
            yield _change(CauseCode.REDUCED_PRECISION_OPERANDS, says, dict.fromkeys(chosen, change))
    for bits in (b for b in _STEP_BITS if b < digits):
        for name in names:
            whole = functools.partial(_put_on_steps, most=2.0 ** (bits - 1) - 1)
            says = f"multiplies {name} as stored in {bits} bits with one step"
            yield _change(CauseCode.QUANTIZED_OPERANDS, says, {name: whole})
        by_row = functools.partial(_put_on_steps, most=2.0 ** (bits - 1) - 1, view=terms.view_rows)
        says = f"multiplies {names[0]} as stored in {bits} bits with a step per channel"
        yield _change(CauseCode.QUANTIZED_OPERANDS, says, {names[0]: by_row})


def _change(cause: CauseCode, says: str, changes: Mapping[str, Callable[[Floats], Floats]]) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats:
        changed = {n: change(observation.operands[n].astype(np.float64)) for n, change in changes.items()}
        return observation.sum_instead({**observation.operands, **changed}, sample)

    return Hypothesis(cause, "downgrade", says, predict)


def _shorten(values: Floats, bits: int) -> Floats:
    """Values rounded to so many significant bits, ties to even."""
    mantissas, exponents = np.frexp(values)
    return np.ldexp(np.rint(mantissas * 2.0**bits), exponents - bits)


def _put_on_steps(values: Floats, most: float, view: Callable[[Floats], Floats] | None = None) -> Floats:
    """Values as whole steps, the largest magnitude being so many of them; with a view [groups, rows ...] row by row."""
    changed = values.copy()
    own = changed if view is None else view(changed)
    axes = None if view is None else tuple(range(2, own.ndim))
    step = np.abs(own).max(axis=axes, keepdims=True, initial=0.0) / most
    step = np.where(step > 0, step, 1.0)
    own[...] = np.rint(own / step) * step
    return changed


def _list_saturating(observation: Observation, name: str) -> Iterator[Hypothesis]:
    """Operands in a narrower format whose largest number stands for all that are larger."""
    format_ = find_format(name)
    largest = float(format_.largest)
    beyond = [
        n for n, a in observation.operands.items() if n != "bias" and (np.abs(a.astype(np.float64)) > largest).any()
    ]
    if not beyond or format_.precision >= find_format(observation.problem.dtype).precision:
        return
    names = [n for n in observation.operands if n != "bias"]
    for rounded in dict.fromkeys([tuple(beyond), tuple(names)]):

        def predict(observation: Observation, sample: Sample, rounded: tuple[str, ...] = rounded) -> Floats:
            operands = dict(observation.operands)
            for n in rounded:
                operands[n] = round_wide(np.clip(operands[n].astype(np.float64), -largest, largest), Rounding(name))
            return observation.sum_instead(operands, sample)

        says = f"rounds {' and '.join(rounded)} to {name}, larger values to its largest number"
        yield Hypothesis(CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade", says, predict)


def _rounds_head(name: str, head: int, what: str) -> Hypothesis:
    """The first so many channels, or products of a matrix, rounded on both sides."""

    def predict(observation: Observation, sample: Sample) -> Floats:
        terms, operands = observation.terms, dict(observation.operands)
        for n, view in ((terms.rows_operand, terms.view_rows), (terms.source_operand, terms.view_source)):
            operands[n] = operands[n].astype(np.float64)
            own = view(operands[n])
            own[:, :, :head] = round_wide(own[:, :, :head], Rounding(name))
        return observation.sum_instead(operands, sample)

    says = f"rounds the first {head} of {what} to {name} before it multiplies, and the others not"
    return Hypothesis(CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade", says, predict)
