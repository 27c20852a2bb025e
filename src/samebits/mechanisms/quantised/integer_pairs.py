"""Integer products of 8 bits whose pairs saturate in 16 bits, or whose sums do, or wrap around there.

As x86's vpmaddubsw adds pairs of unsigned times signed bytes. Operands on record are whole steps, of one size for the
source and one per output channel for the rows, so that their codes are known; or they are stored in 8 bits on the way,
with steps from their own range.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample, gather_source
from samebits.mechanisms.facts.result_steps import FEWEST_TELLING, find_common_step
from samebits.mechanisms.quantised.integer_sums import PairOrder, list_pair_orders
from samebits.problems import Problem
from samebits.problems.case_file import Case, lower_case
from samebits.problems.lowering import lower_problem
from samebits.problems.terms import Terms, find_terms

Add = Callable[[Floats], Floats]
_LEAST, _MOST = -(2**15), 2**15 - 1
# Values that are looked at first: of operands in 8 bits no more are different.
_LOOKED_AT, _CODES = 4096, 256
_MOST_HELD = 4_000_000


@dataclass(frozen=True)
class _Codes:
    """Codes of the source's view, and of the rows [all rows, depth, volume], with the steps of both.

    `shift` is added to the source's codes for unsigned bytes; `says` how operands became codes that are none on record.
    """

    source: Floats
    rows: Floats
    source_step: float
    row_steps: Floats
    shift: float
    says: str = ""


def list_integer_pairs(observation: Observation) -> Iterator[Hypothesis]:
    """Sums of 8-bit products that saturate or wrap around in 16 bits, channels or taps fastest; none without codes."""
    terms = observation.terms
    if terms.count < 2:
        return
    codes = _find_codes(terms, observation.operands)
    if codes is None:
        for made in _make_codes(observation):
            yield from _list_pairs(terms, made)
        return
    yield from _list_pairs(terms, codes)
    for order in list_pair_orders(terms.depth, terms.volume)[:2]:
        says = f"saturates running sums of integer products at 16 bits{_say_order(terms, order)}"
        yield _assume(CauseCode.INT8_SATURATION, says, codes, order, _add_saturating)
    says = "saturates sums of integer products at 16 bits, at their end"
    yield _assume(CauseCode.INT8_SATURATION, says, codes, PairOrder.TAPS, _saturate_end)
    says = "lets sums of integer products wrap around in 16 bits"
    yield _assume(CauseCode.OVERFLOW, says, codes, PairOrder.TAPS, _wrap)


def _say_order(terms: Terms, order: PairOrder) -> str:
    return f", {order}" if min(terms.depth, terms.volume) > 1 else ""


def _list_pairs(terms: Terms, codes: _Codes) -> Iterator[Hypothesis]:
    for order in list_pair_orders(terms.depth, terms.volume):
        says = f"saturates sums of two integer products at 16 bits{_say_order(terms, order)}{codes.says}"
        yield _assume(CauseCode.INT8_SATURATION, says, codes, order, _add_pairs)


def saturate_pairs(problem: Problem, operands: dict[str, np.ndarray], order: PairOrder, lift: float) -> Floats | None:
    """The sums, with their bias, of operands in whole steps where pairs of products of their codes saturate in 16 bits.

    `lift` makes unsigned bytes of the source's codes. None where the operands are no such codes or nothing saturates.
    """
    lowering, case = lower_problem(problem), lower_case(Case(problem, operands))
    terms = find_terms(case.problem)
    codes = _find_codes(terms, case.operands)
    if codes is None or not 0 <= codes.source.min() + lift <= codes.source.max() + lift < _CODES:
        return None
    codes = replace(codes, shift=lift)
    sample = Sample(terms, np.arange(terms.groups * terms.rows), np.arange(terms.batch * math.prod(terms.outputs)))
    sums, whole = (_sum_codes(terms, codes, sample, order, add) for add in (_add_pairs, _add_wholly))
    if (sums == whole).all():
        return None
    sums *= codes.source_step * codes.row_steps[:, None]
    if case.problem.bias:
        sums += case.operands["bias"].astype(np.float64).reshape(-1, 1)
    result = np.empty(case.problem.out_shape)
    view = terms.view_result(result)
    view[...] = sums.reshape(view.shape)
    return lowering.restore_result(result) if lowering.is_product else result


def _find_codes(terms: Terms, operands: Mapping[str, np.ndarray]) -> _Codes | None:
    """The codes of operands that are whole steps on record."""
    met = operands[terms.source_operand]
    if not _has_few_values(met):
        return None
    source = terms.view_source(met.astype(np.float64))
    step = find_common_step(source.reshape(-1))
    found = None if step is None else _find_row_codes(terms, operands)
    if step is None or found is None:
        return None
    codes = np.rint(source / step)
    # Codes with a sign have 128 added, as unsigned bytes need.
    return _Codes(codes, found[0], step, found[1], 128.0 if codes.min() < 0 else 0.0)


def _make_codes(observation: Observation) -> Iterator[_Codes]:
    """Codes of operands that are stored in 8 bits on the way, from the range of all their values."""
    terms = observation.terms
    met = observation.operands[terms.source_operand].astype(np.float64)
    if not (np.isfinite(met).all() and met.any()):
        return
    found = _find_row_codes(terms, observation.operands)
    rows = [(found, "")] if found else list(_make_row_codes(terms, observation.operands))
    source = terms.view_source(met)
    low, high = min(float(met.min()), 0.0), max(float(met.max()), 0.0)
    for (row_codes, row_steps), row_says in rows:
        says = f", {terms.source_operand} as stored in 8 bits{row_says}"
        wide = (high - low) / 255
        zero = float(np.rint(-low / wide))
        codes = np.clip(np.rint(source / wide), -zero, 255 - zero)
        yield _Codes(codes, row_codes, wide, row_steps, zero, f"{says}, from a zero point")
        if low < 0:
            step = max(-low, high) / 127
            yield _Codes(np.rint(source / step), row_codes, step, row_steps, 128.0, says)


def _make_row_codes(terms: Terms, operands: Mapping[str, np.ndarray]) -> Iterator[tuple[tuple[Floats, Floats], str]]:
    """Codes of the rows with a step of each row's own, and with one of all."""
    rows = _view_rows(terms, operands)
    if not (np.isfinite(rows).all() and rows.any()):
        return
    largest = np.abs(rows).max(axis=(1, 2))
    for says, most in (("a step per channel", largest), ("one step", np.full(len(rows), largest.max()))):
        steps = np.where(most > 0, most, 1.0) / 127
        yield (np.rint(rows / steps[:, None, None]), steps), f" and weights in 8 bits with {says}"


def _view_rows(terms: Terms, operands: Mapping[str, np.ndarray]) -> Floats:
    own = operands[terms.rows_operand].astype(np.float64)
    return terms.view_rows(own).reshape(-1, terms.depth, terms.volume)


def _find_row_codes(terms: Terms, operands: Mapping[str, np.ndarray]) -> tuple[Floats, Floats] | None:
    """Codes and steps of rows that are whole steps on record, one step for all or one each."""
    rows = _view_rows(terms, operands)
    if not rows.any() or not np.isfinite(rows).all():
        return None
    filled = np.flatnonzero(rows.any(axis=(1, 2)))
    one = find_common_step(rows.reshape(-1))
    if one is None and find_common_step(rows[filled[0]].reshape(-1)) is None:
        return None
    steps = [one or find_common_step(row.reshape(-1)) for row in rows[filled]]
    if None in steps:
        return None
    row_steps = np.ones(len(rows))
    row_steps[filled] = steps
    return np.rint(rows / row_steps[:, None, None]), row_steps


def _has_few_values(array: np.ndarray) -> bool:
    flat = array.reshape(-1)
    return len(np.unique(np.abs(flat[:_LOOKED_AT]))) <= _CODES and bool(np.isfinite(flat.astype(np.float64)).all())


def _assume(cause: CauseCode, says: str, codes: _Codes, order: PairOrder, add: Add) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats | None:
        sums = _sum_codes(observation.terms, codes, sample, order, add)
        if codes.says:
            whole = _sum_codes(observation.terms, codes, sample, order, _add_wholly)
            if (sums == whole).all():
                return None  # Where nothing saturates it is the storing that is seen.
        sums *= codes.source_step * codes.row_steps[sample.rows][:, None]
        return observation.finish(sums, sample)

    return Hypothesis(cause, "wrong", says, predict)


def _sum_codes(terms: Terms, codes: _Codes, sample: Sample, order: PairOrder, add: Add) -> Floats:
    """Sums of products of codes [rows, positions]."""
    shift = codes.shift
    sums = np.empty((len(sample.rows), len(sample.positions)))
    step = max(_MOST_HELD // terms.count, 1)
    arrange: Callable[[Floats], Floats] = functools.partial(_flatten, terms, order)
    for group in np.unique(sample.rows // terms.rows):
        for start in range(0, len(sample.positions), step):
            part = slice(start, start + step)
            met = arrange(gather_source(terms, codes.source, int(group), sample.positions[part]) + shift)
            for i in np.flatnonzero(sample.rows // terms.rows == group):
                weights = arrange(codes.rows[sample.rows[i]].reshape(1, -1))
                sums[i, part] = add(met * weights) - shift * weights.sum()
    return sums


def _flatten(terms: Terms, order: PairOrder, values: Floats) -> Floats:
    """[.., terms] with taps fastest as they come, or with channels fastest."""
    if order is PairOrder.TAPS:
        return values
    arranged = values.reshape(len(values), terms.depth, terms.volume).swapaxes(1, 2)
    if order is PairOrder.EVEN_CHANNELS and terms.depth % 2:
        arranged = np.pad(arranged, ((0, 0), (0, 0), (0, 1)))
    return arranged.reshape(len(values), -1)


def _add_pairs(products: Floats) -> Floats:
    if products.shape[1] % 2:
        products = np.pad(products, ((0, 0), (0, 1)))
    return np.clip(products[:, ::2] + products[:, 1::2], _LEAST, _MOST).sum(axis=1)


def _add_wholly(products: Floats) -> Floats:
    return products.sum(axis=1)


def _add_saturating(products: Floats) -> Floats:
    sums: npt.NDArray[np.float64] = np.zeros(len(products))
    for k in range(products.shape[1]):
        sums = np.clip(sums + products[:, k], _LEAST, _MOST)
    return sums


def _saturate_end(products: Floats) -> Floats:
    return np.clip(products.sum(axis=1), _LEAST, _MOST)


def _wrap(products: Floats) -> Floats:
    return (products.sum(axis=1) - _LEAST) % 2**16 + _LEAST


_MOST_BITS, _FEWEST_VALUES, _MOST_FIXED_HELD = 22, 64, 4_000_000
_WAYS: Mapping[str, Callable[[Floats], Floats]] = {"rounded down": np.floor, "rounded": np.rint, "truncated": np.trunc}


def list_fixed_products(observation: Observation) -> Iterator[Hypothesis]:
    """Products on the result's own grid, then operands whose fractional bits add up to the result's."""
    bits = _find_fractional_bits(observation)
    if bits is None:
        return
    for how, keep in _WAYS.items():
        yield _keeps_products(bits, how, keep)
    terms = observation.terms
    for own in range(bits + 1):
        yield _round_operands({terms.rows_operand: own, terms.source_operand: bits - own})


def _find_fractional_bits(observation: Observation) -> int | None:
    """The fewest fractional bits that all of the result's values have; None if those are many, or the truth's, too."""
    given = observation.result.astype(np.float64)
    told = mark_unclipped(observation.problem, given) & np.isfinite(given)
    values, true = given[told], observation.truth.astype(np.float64)[told]
    if len(np.unique(values)) < _FEWEST_VALUES:
        return None
    for bits in range(_MOST_BITS + 1):
        if (np.ldexp(values, bits) % 1 == 0).all():
            true = true[np.isfinite(true)]
            return bits if (np.ldexp(true, bits) % 1 != 0).sum() >= FEWEST_TELLING else None
    return None


def _keeps_products(bits: int, how: str, keep: Callable[[Floats], Floats]) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats:
        terms, unit = observation.terms, 2.0**bits
        rows = terms.view_rows(observation.operands[terms.rows_operand]).reshape(terms.groups * terms.rows, -1)
        source = terms.view_source(observation.operands[terms.source_operand])
        sums = np.empty((len(sample.rows), len(sample.positions)))
        step = max(_MOST_FIXED_HELD // terms.count, 1)
        for start in range(0, len(sample.positions), step):
            for group in np.unique(sample.rows // terms.rows):
                met = gather_source(terms, source, int(group), sample.positions[start : start + step]) * unit
                for i in np.flatnonzero(sample.rows // terms.rows == group):
                    weights = rows[sample.rows[i]].astype(np.float64)
                    sums[i, start : start + step] = keep(met * weights).sum(axis=1) / unit
        return observation.finish(sums, sample)

    says = f"keeps products in fixed point with {bits} fractional bits, {how}"
    return Hypothesis(CauseCode.LOW_PRECISION_ACCUMULATOR, "downgrade", says, predict)


def _round_operands(bits: Mapping[str, int]) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats:
        operands = dict(observation.operands)
        for name, count in bits.items():
            operands[name] = np.ldexp(np.rint(np.ldexp(operands[name].astype(np.float64), count)), -count)
        return observation.sum_instead(operands, sample)

    said = " and ".join(f"{name} to {count}" for name, count in sorted(bits.items(), reverse=True))
    says = f"rounds {said} fractional bits (fixed point)"
    return Hypothesis(CauseCode.QUANTIZED_OPERANDS, "downgrade", says, predict)
