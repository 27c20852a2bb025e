"""Hypotheses of operands that were stored in eight bits or fewer and read back, or split into bfloat16 parts.

Scales are those that quantisers choose: the largest magnitude of a tensor, a channel or a group of channels becomes the
largest code. Where a range came from other data the step is searched for.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample, gather_terms
from samebits.mechanisms.quantised.storage_schemes import (
    FLOAT8,
    Divide,
    Scheme,
    divide_in_float32,
    divide_nudged,
    list_block_schemes,
    list_item_schemes,
    list_power_schemes,
    list_schemes,
    list_shared_exponents,
    list_shift_schemes,
    list_short_schemes,
    list_tensor_schemes,
    multiply_by_inverse,
    read_back,
    read_back_rows,
)
from samebits.numbers.format import find_format
from samebits.problems import Problem
from samebits.problems.terms import Terms, find_terms
from samebits.sums.emulators.result_rounding import round_wide
from samebits.sums.recipes.recipe import Rounding

_GROUPS = (32, 64, 128)
# Steps searched for lie between these shares of the largest magnitude, so close together that codes hardly differ.
_LEAST_STEP, _MOST_STEP, _STEPS = 1 / 1000, 1 / 60, 2200
_WIDTHS, _FINER_STEPS = (2e-3, 1e-4, 5e-6, 2.5e-7), 41
_SIGNED, _UNSIGNED = ((-128, 127), (-127, 127)), ((0, 255), (0, 127))
_SEARCHED_ROWS, _SEARCHED_POSITIONS = 6, 48
_MOST_SEARCHED, _FEWEST_SEARCHED = 250_000, 24
# Elements of an operand that is kept in another form between two hypotheses.
_MOST_KEPT = 500_000
# So near the middle between two codes an engine's own division decides; relative.
_NUDGE, _LEAST_TIES = 2.0**-21, 2.0**-12
_WAYS: dict[str, Divide] = {
    "quotient": divide_in_float32,
    "inverse": multiply_by_inverse,
    "up": functools.partial(divide_nudged, _NUDGE),
    "down": functools.partial(divide_nudged, -_NUDGE),
}


def list_quantized_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Weights alone first, as most quantised models have them; then activations; then both."""
    if find_format(problem.dtype).precision <= find_format(FLOAT8[0]).precision:
        return
    terms = find_terms(problem)
    rows, source = terms.rows_operand, terms.source_operand
    groups = tuple(str(n) for n in _GROUPS if n < terms.depth)
    of_rows = list(list_schemes(blocks=("tensor", "channel", *groups), bits=(8, 4)))
    of_source = list(list_schemes(blocks=("tensor",), bits=(8,)))
    if problem.stated:
        of_source = list(list_schemes(blocks=("tensor", "channel", *groups), bits=(8, 4)))
    for scheme in of_rows:
        yield _quantises(terms, {rows: scheme})
    for scheme in of_source:
        yield _quantises(terms, {source: scheme})
    for scheme in list_block_schemes(terms):
        yield _quantises(terms, {rows: scheme})
    for a, b in itertools.product(of_rows, of_source):
        # A float8 format, or a number of bits, is a choice for both.
        if problem.stated is None or a.blocks == b.blocks:
            yield _quantises(terms, {rows: a, source: b})
    yield from _list_powers_of_two(terms)
    yield from _list_smaller_blocks(terms)
    # Of a product either operand may be the weights.
    for weights, others in ((rows, source), (source, rows))[: 1 if problem.stated is None else 2]:
        yield from _list_dynamic(terms, weights, others)


def _list_smaller_blocks(terms: Terms) -> Iterator[Hypothesis]:
    """Activations with a step per item; microscaling formats of either operand, and of both."""
    rows, source = terms.rows_operand, terms.source_operand
    if terms.problem.stated is None and terms.batch > 1 and terms.form == "gather":
        for scheme in list_item_schemes():
            yield _quantises(terms, {source: scheme})
    for scheme in list_shared_exponents() if terms.depth > 1 else ():
        for schemes in ({rows: scheme, source: scheme}, {rows: scheme}, {source: scheme}):
            yield _quantises(terms, schemes)


def _list_powers_of_two(terms: Terms) -> Iterator[Hypothesis]:
    """Weights that are shifts, and steps that are, of either operand or of both."""
    rows, source = terms.rows_operand, terms.source_operand
    for scheme in list_shift_schemes():
        yield _quantises(terms, {rows: scheme})
    powers = list(list_power_schemes())
    of_source = [p for p in powers if p.blocks == "tensor"]
    yield from (_quantises(terms, {rows: p}) for p in powers)
    yield from (_quantises(terms, {source: p}) for p in of_source)
    yield from (_quantises(terms, {rows: a, source: b}) for a, b in itertools.product(powers, of_source))


def _list_dynamic(terms: Terms, weights: str, others: str) -> Iterator[Hypothesis]:
    """Activations in 8 bits, or in 7, as they come, and weights in 8 bits, with one step or one per channel."""
    eight = list(list_schemes(blocks=("tensor",), bits=(8,)))
    each = [*list_schemes(blocks=("channel",), bits=(8,)), *list_tensor_schemes()]
    for a, b in itertools.product(each, eight):
        if terms.problem.stated is not None or a.says.endswith("127.5th"):
            yield _quantises(terms, {weights: a, others: b})
    *activations, of_channels = list_short_schemes()
    for a, b in itertools.product((*eight, *each, of_channels), activations):
        yield _quantises(terms, {weights: a, others: b})
    for b in eight:
        yield _quantises(terms, {weights: of_channels, others: b})
    for scheme in activations:
        yield _quantises(terms, {others: scheme})


def _quantises(terms: Terms, schemes: dict[str, Scheme]) -> Hypothesis:
    said = [f"{name} as stored {scheme.says}" for name, scheme in sorted(schemes.items(), reverse=True)]

    def predict(observation: Observation, sample: Sample) -> Floats:
        """How the engine divides decides where the middle between two codes goes: what comes closest is taken."""
        read = {n: _read_ways(observation, terms, n, scheme, sample) for n, scheme in schemes.items()}
        given = sample.pick(observation.result).astype(np.float64)
        ways = [dict(zip(read, way, strict=True)) for way in itertools.product(*read.values())]
        declared = find_format(observation.problem.dtype)
        if declared.precision < find_format("float32").precision:
            # What is read back is often kept in the declared format.
            ways += [{n: _round_kept(observation, a, declared.name) for n, a in way.items()} for way in ways]
        sums = (observation.sum_instead({**observation.operands, **way}, sample) for way in ways)
        return min(sums, key=lambda predicted: float(np.nansum((given - predicted) ** 2)))

    says = f"multiplies {', and '.join(said)}"
    return Hypothesis(CauseCode.QUANTIZED_OPERANDS, "downgrade", says, predict)


def _read_ways(observation: Observation, terms: Terms, name: str, scheme: Scheme, sample: Sample) -> list[np.ndarray]:
    """An operand as it may be read back: one way, unless values lie in the middle between two codes.

    For large weights only the sample's rows are read back; the others are not looked at.
    """
    if name != terms.rows_operand or observation.operands[name].size <= _MOST_KEPT:
        return _choose_ways(lambda how: _apply(observation, terms, name, scheme, how))
    if scheme.blocks.endswith("values"):
        return [observation.operands[name].astype(np.float64)]  # Too long to try.
    rows, key = sample.rows, f"{name} {scheme.says} {sample.rows.tobytes().hex()}"

    def apply(how: str) -> np.ndarray:
        if f"{key} {how}" not in observation.cache:
            own = terms.view_rows(observation.operands[name]).astype(np.float64)
            observation.cache[f"{key} {how}"] = read_back_rows(own, rows, scheme, _WAYS[how])
        return observation.cache[f"{key} {how}"]

    ways = []
    for some in _choose_ways(apply):
        array = np.zeros(observation.operands[name].shape)
        terms.view_rows(array)[rows // terms.rows, rows % terms.rows] = some
        ways.append(array)
    return ways


def _choose_ways(apply: Callable[[str], np.ndarray]) -> list[np.ndarray]:
    up, down = apply("up"), apply("down")
    if np.array_equal(up, down, equal_nan=True):
        return [up]
    own, other = apply("quotient"), apply("inverse")
    ways = [own] if np.array_equal(own, other, equal_nan=True) else [own, other]
    # Of many values single ones are always near the middle.
    return [*ways, up, down] if (up != down).mean() >= _LEAST_TIES else ways


def _apply(observation: Observation, terms: Terms, name: str, scheme: Scheme, how: str) -> np.ndarray:
    """An operand as it is read back; a small one is made once for each scheme."""
    key = f"{name} {scheme.says} {how}"
    if key in observation.cache:
        return observation.cache[key]
    array = read_back(observation, terms, name, scheme, _WAYS[how])
    if array.size <= _MOST_KEPT:
        observation.cache[key] = array
    return array


def _round_kept(observation: Observation, array: np.ndarray, name: str) -> np.ndarray:
    """An operand read back, rounded to a format; small ones are cached by id, and kept so that the id stays theirs."""
    if array.size > _MOST_KEPT:
        return round_wide(array, Rounding(name))
    key = f"{id(array)} rounded to {name}"
    if key not in observation.cache:
        observation.cache[key], observation.cache[f"{key} from"] = round_wide(array, Rounding(name)), array
    return observation.cache[key]


def list_split_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """float32 operands multiplied as sums of two bfloat16 parts, the smallest products left out or not."""
    if problem.dtype == "float32":
        yield from _list_splits(Rounding("bfloat16"), "two bfloat16 parts each")
        yield from _list_splits(Rounding("bfloat16", "toward_zero"), "two parts each that bfloat16 is cut to")


def _list_splits(rounding: Rounding, what: str) -> Iterator[Hypothesis]:
    def predict(observation: Observation, sample: Sample) -> Floats:
        high, low = _split(observation, rounding)
        bare = observation.as_bare_sums()
        first, second = high
        kept = [{first: high[first], second: high[second]}, {first: high[first], second: low[second]},
                {first: low[first], second: high[second]}]  # fmt: skip
        return observation.finish(np.sum([bare.sum_instead(k, sample) for k in kept], axis=0), sample)

    def predict_all(observation: Observation, sample: Sample) -> Floats:
        high, low = _split(observation, rounding)
        return observation.sum_instead({**observation.operands, **{n: high[n] + low[n] for n in high}}, sample)

    says = f"multiplies float32 operands as {what}"
    less = f"{says}, without the product of the smaller parts"
    yield Hypothesis(CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade", less, predict)
    yield Hypothesis(CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade", says, predict_all)


def _split(observation: Observation, rounding: Rounding) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Every operand rounded, and its remainder rounded to the same format."""
    own = {n: a.astype(np.float64) for n, a in observation.operands.items() if n != "bias"}
    high = {n: round_wide(a, rounding) for n, a in own.items()}
    return high, {n: round_wide(a - high[n], rounding) for n, a in own.items()}


def list_searched_hypotheses(observation: Observation, sample: Sample) -> Iterator[Hypothesis]:
    """Operands in whole steps whose size is searched for, as where a range was calibrated on other data."""
    terms = observation.terms
    if find_format(observation.problem.dtype).precision <= find_format(FLOAT8[0]).precision:
        return
    # Thousands of steps are tried: long sums leave time for fewer outputs, and for none beyond that.
    outputs = _MOST_SEARCHED // terms.count
    if outputs < _FEWEST_SEARCHED:
        return
    few = sample.thin(min(_SEARCHED_ROWS, outputs), max(min(_SEARCHED_POSITIONS, outputs // _SEARCHED_ROWS), 1))
    weights, met = gather_terms(terms, observation.operands[terms.rows_operand],
                                observation.operands[terms.source_operand], few)  # fmt: skip
    for name, is_rows in ((terms.source_operand, False), (terms.rows_operand, True)):
        for codes in _choose_codes(observation, name):

            def multiply(step: float, is_rows: bool = is_rows, codes: tuple[int, int] = codes) -> Floats:
                a, b = (_step(weights, step, codes), met) if is_rows else (weights, _step(met, step, codes))
                return np.einsum("rk,rpk->rp", a, b)

            yield _searched(name, _search_step(observation, name, few, multiply), codes)
    for scheme in (s for s in list_schemes(blocks=("channel", "tensor"), bits=(8,)) if s.says.startswith("in 8 bits")):
        stored = read_back(observation, terms, terms.rows_operand, scheme, divide_in_float32)
        codes = next(iter(_choose_codes(observation, terms.source_operand)))
        factors = terms.view_rows(stored).reshape(terms.groups * terms.rows, -1)[few.rows]

        def multiply_both(step: float, factors: Floats = factors, codes: tuple[int, int] = codes) -> Floats:
            return np.einsum("rk,rpk->rp", factors, _step(met, step, codes))

        step = _search_step(observation, terms.source_operand, few, multiply_both)
        yield _searched(terms.source_operand, step, codes, stored, scheme)


def _choose_codes(observation: Observation, name: str) -> tuple[tuple[int, int], ...]:
    return _SIGNED if bool((observation.operands[name].astype(np.float64) < 0).any()) else _UNSIGNED


def _search_step(observation: Observation, name: str, few: Sample, multiply: Callable[[float], Floats]) -> float:
    """The step of an operand with which sums of it come nearest to the result."""
    given = few.pick(observation.result).astype(np.float64)
    largest = float(np.abs(observation.operands[name].astype(np.float64)).max())

    def miss(step: float) -> float:
        away = given - observation.finish(multiply(step), few)
        return float((away * away).sum())

    return _refine(float(min(largest * np.geomspace(_LEAST_STEP, _MOST_STEP, _STEPS), key=miss)), miss)


def _refine(step: float, miss: Callable[[float], float]) -> float:
    """The step near this one with the smallest miss: ever narrower ranges, as codes near the middle tell it exactly."""
    for width in _WIDTHS:
        step = float(min(step * np.linspace(1 - width, 1 + width, _FINER_STEPS), key=miss))
    return step


def _step(values: Floats, step: float, codes: tuple[int, int]) -> Floats:
    return np.clip(np.rint(values / step), *codes) * step


def _searched(
    name: str, step: float, codes: tuple[int, int], weights: np.ndarray | None = None, scheme: Scheme | None = None
) -> Hypothesis:
    """An operand in steps, and the weights as they are or as a scheme stores them."""

    def predict(observation: Observation, sample: Sample) -> Floats | None:
        own = observation.operands[name].astype(np.float64)
        changed = _step(own, step, codes)
        if (np.abs(changed - own) <= _NUDGE * np.abs(own)).all():
            return None  # Whole steps as they are; a step a little off is a factor fitted to the result.
        beside = {} if weights is None else {observation.terms.rows_operand: weights}
        return observation.sum_instead({**observation.operands, **beside, name: changed}, sample)

    says = f"multiplies {name} as stored in 8 bits with steps of {step:.4g}"
    if scheme is not None:
        says += f", and weights as stored {scheme.says}"
    return Hypothesis(CauseCode.QUANTIZED_OPERANDS, "downgrade", says, predict)
