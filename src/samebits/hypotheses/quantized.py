"""Hypotheses of operands that were stored in eight bits or fewer and read back, or split into bfloat16 parts.

Scales are those that quantisers choose: the largest magnitude of a tensor, a channel or a group of channels becomes the
largest code. Where a range came from other data the step is searched for.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from samebits.emulators.result_rounding import round_wide
from samebits.findings.causes import CauseCode
from samebits.formats.format import find_format
from samebits.hypotheses.hypothesis import Hypothesis
from samebits.hypotheses.observation import Floats, Observation, Sample, gather_terms
from samebits.problems import Problem
from samebits.problems.terms import Terms, find_terms
from samebits.recipes.recipe import Rounding

# Of values in blocks along the last axis, each with a scale; a nudge moves what lies in the middle between two codes.
Quantise = Callable[[Floats, float], Floats]
_GROUPS = (32, 64, 128)
_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
# Steps searched for lie between these shares of the largest magnitude, so close together that codes hardly differ.
_LEAST_STEP, _MOST_STEP, _STEPS = 1 / 400, 1 / 60, 1500
_WIDTHS, _FINER_STEPS = (2e-3, 1e-4, 5e-6, 2.5e-7), 41
_SIGNED, _UNSIGNED = ((-128, 127), (-127, 127)), ((0, 255), (0, 127))
_SEARCHED_ROWS, _SEARCHED_POSITIONS = 6, 48
_MOST_SEARCHED, _FEWEST_SEARCHED = 500_000, 24
# Elements of an operand that is kept in another form between two hypotheses.
_MOST_KEPT = 500_000
# So near the middle between two codes an engine's own division decides; relative.
_NUDGE, _LEAST_TIES = 2.0**-21, 2.0**-12


@dataclass(frozen=True)
class _Scheme:
    """One way to store an operand: in words, over which blocks a scale is chosen, and how."""

    says: str
    blocks: str  # tensor, channel, or a number of channels
    quantise: Quantise


def _divide(values: Floats, step: Floats, nudge: float) -> Floats:
    """Values in steps as float32 has them, where the middle between two codes is met; or all a little off that."""
    return (values / step).astype(np.float32).astype(np.float64) if nudge == 0 else values / step * (1 + nudge)


def _whole_steps(codes: int, lowest: int, values: Floats, nudge: float) -> Floats:
    step = np.abs(values).max(axis=-1, keepdims=True) / codes
    step = np.where(step > 0, step, 1.0)
    return np.clip(np.rint(_divide(values, step, nudge)), lowest, codes) * step


def _from_zero_point(codes: int, values: Floats, nudge: float) -> Floats:
    """Unsigned codes from the least to the largest value, zero among them."""
    low = np.minimum(values.min(axis=-1, keepdims=True), 0.0)
    high = np.maximum(values.max(axis=-1, keepdims=True), 0.0)
    step = (high - low) / codes
    step = np.where(step > 0, step, 1.0)
    zero = np.rint(-low / step)
    return (np.clip(np.rint(_divide(values, step, nudge)) + zero, 0, codes) - zero) * step


def _scaled_to(name: str, values: Floats, nudge: float) -> Floats:
    scale = np.abs(values).max(axis=-1, keepdims=True) / float(find_format(name).largest)
    scale = np.where(scale > 0, scale, 1.0)
    return _round_to(name, _divide(values, scale, nudge)) * scale


def _round_to(name: str, values: Floats) -> Floats:
    return round_wide(values, Rounding(name))


def _list_schemes(*, blocks: tuple[str, ...], bits: tuple[int, ...]) -> Iterator[_Scheme]:
    for block in blocks:
        where = {"tensor": "with one step", "channel": "with a step per channel"}.get(block)
        where = where or f"with a step per {block} channels"
        for bit in bits:
            most = 2 ** (bit - 1)
            yield _Scheme(f"in {bit} bits {where}", block, functools.partial(_whole_steps, most - 1, -most))
            yield _Scheme(f"in {bit} bits {where}, from a zero point", block,
                          functools.partial(_from_zero_point, 2**bit - 1))  # fmt: skip
        for name in _FLOAT8:
            scales = where.replace("step", "scale")
            yield _Scheme(f"in {name} {scales}", block, functools.partial(_scaled_to, name))
    for name in _FLOAT8:
        yield _Scheme(f"in {name}", "tensor", lambda values, _, name=name: _round_to(name, values))


def list_quantized_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Weights alone first, as most quantised models have them; then activations; then both."""
    if find_format(problem.dtype).precision <= find_format(_FLOAT8[0]).precision:
        return
    terms = find_terms(problem)
    rows, source = terms.rows_operand, terms.source_operand
    groups = tuple(str(n) for n in _GROUPS if n < terms.depth)
    of_rows = list(_list_schemes(blocks=("tensor", "channel", *groups), bits=(8, 4)))
    of_source = list(_list_schemes(blocks=("tensor",), bits=(8,)))
    if problem.stated:
        of_source = list(_list_schemes(blocks=("tensor", "channel", *groups), bits=(8, 4)))
    for scheme in of_rows:
        yield _quantises(terms, {rows: scheme})
    for scheme in of_source:
        yield _quantises(terms, {source: scheme})
    for a, b in itertools.product(of_rows, of_source):
        # A float8 format, or a number of bits, is a choice for both.
        if problem.stated is None or a.blocks == b.blocks:
            yield _quantises(terms, {rows: a, source: b})


def _quantises(terms: Terms, schemes: dict[str, _Scheme]) -> Hypothesis:
    said = [f"{name} as stored {scheme.says}" for name, scheme in sorted(schemes.items(), reverse=True)]

    def predict(observation: Observation, sample: Sample) -> Floats:
        """How the engine divides decides where the middle between two codes goes: what comes closest is taken."""
        read = {n: _read_ways(observation, terms, n, scheme) for n, scheme in schemes.items()}
        given = sample.pick(observation.result).astype(np.float64)
        sums = (
            observation.sum_instead({**observation.operands, **dict(zip(read, way, strict=True))}, sample)
            for way in itertools.product(*read.values())
        )
        return min(sums, key=lambda predicted: float(np.nansum((given - predicted) ** 2)))

    says = f"multiplies {', and '.join(said)}"
    return Hypothesis(CauseCode.QUANTIZED_OPERANDS, "downgrade", says, predict)


def _read_ways(observation: Observation, terms: Terms, name: str, scheme: _Scheme) -> list[np.ndarray]:
    """An operand as it may be read back: one way, unless values lie in the middle between two codes."""
    up, down = (_apply(observation, terms, name, scheme, nudge) for nudge in (_NUDGE, -_NUDGE))
    if np.array_equal(up, down, equal_nan=True):
        return [up]
    own = _apply(observation, terms, name, scheme, 0.0)
    # Of many values single ones are always near the middle.
    return [own, up, down] if (up != down).mean() >= _LEAST_TIES else [own]


def _apply(observation: Observation, terms: Terms, name: str, scheme: _Scheme, nudge: float) -> np.ndarray:
    """An operand as it is read back; a small one is made once for each scheme."""
    key = f"{name} {scheme.says} {nudge}"
    if key in observation.cache:
        return observation.cache[key]
    array = _read_back(observation, terms, name, scheme, nudge)
    if array.size <= _MOST_KEPT:
        observation.cache[key] = array
    return array


def _read_back(observation: Observation, terms: Terms, name: str, scheme: _Scheme, nudge: float) -> np.ndarray:
    array = np.array(observation.operands[name], np.float64)
    view = terms.view_rows(array) if name == terms.rows_operand else terms.view_source(array)
    g, m, depth, _ = view.shape
    with np.errstate(all="ignore"):
        if scheme.blocks == "tensor":
            view[...] = scheme.quantise(view.reshape(1, -1), nudge).reshape(view.shape)
        elif scheme.blocks == "channel":
            view[...] = scheme.quantise(view.reshape(g, m, -1), nudge).reshape(view.shape)
        else:
            size = int(scheme.blocks)
            for first in range(0, depth, size):
                part = view[:, :, first : first + size]
                part[...] = scheme.quantise(part.reshape(g, m, -1), nudge).reshape(part.shape)
    return array


def list_split_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """float32 operands multiplied as sums of bfloat16 parts, the smallest products left out."""
    if problem.dtype != "float32":
        return

    def predict(observation: Observation, sample: Sample) -> Floats:
        names = [n for n in observation.operands if n != "bias"]
        high = {n: _round_to("bfloat16", observation.operands[n].astype(np.float64)) for n in names}
        low = {n: _round_to("bfloat16", observation.operands[n] - high[n]) for n in names}
        bare = observation.as_bare_sums()
        first, second = names
        kept = [{first: high[first], second: high[second]}, {first: high[first], second: low[second]},
                {first: low[first], second: high[second]}]  # fmt: skip
        return observation.finish(np.sum([bare.sum_instead(k, sample) for k in kept], axis=0), sample)

    says = "multiplies float32 operands as two bfloat16 parts each, without the product of the smaller parts"
    yield Hypothesis(CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade", says, predict)


def list_searched_hypotheses(observation: Observation, sample: Sample) -> Iterator[Hypothesis]:
    """Operands in whole steps whose size is searched for, as where a range was calibrated on other data."""
    terms = observation.terms
    if find_format(observation.problem.dtype).precision <= find_format(_FLOAT8[0]).precision:
        return
    # Thousands of steps are tried: long sums leave time for fewer outputs, and for none beyond that.
    outputs = _MOST_SEARCHED // terms.count
    if outputs < _FEWEST_SEARCHED:
        return
    few = sample.thin(min(_SEARCHED_ROWS, outputs), max(min(_SEARCHED_POSITIONS, outputs // _SEARCHED_ROWS), 1))
    weights, met = gather_terms(terms, observation.operands[terms.rows_operand],
                                observation.operands[terms.source_operand], few)  # fmt: skip
    given = few.pick(observation.result).astype(np.float64)
    for name, is_rows in ((terms.source_operand, False), (terms.rows_operand, True)):
        values = observation.operands[name].astype(np.float64)
        largest = float(np.abs(values).max())
        for codes in _SIGNED if bool((values < 0).any()) else _UNSIGNED:

            def multiply(step: float, is_rows: bool = is_rows, codes: tuple[int, int] = codes) -> Floats:
                a, b = (_step(weights, step, codes), met) if is_rows else (weights, _step(met, step, codes))
                return np.einsum("rk,rpk->rp", a, b)

            def miss(step: float, multiply: Callable[[float], Floats] = multiply) -> float:
                away = given - observation.finish(multiply(step), few)
                return float((away * away).sum())

            step = float(min(largest * np.geomspace(_LEAST_STEP, _MOST_STEP, _STEPS), key=miss))
            step = _refine(step, miss)
            yield _searched(name, step, codes)


def _refine(step: float, miss: Callable[[float], float]) -> float:
    """The step near this one with the smallest miss: ever narrower ranges, as codes near the middle tell it exactly."""
    for width in _WIDTHS:
        step = float(min(step * np.linspace(1 - width, 1 + width, _FINER_STEPS), key=miss))
    return step


def _step(values: Floats, step: float, codes: tuple[int, int]) -> Floats:
    return np.clip(np.rint(values / step), *codes) * step


def _searched(name: str, step: float, codes: tuple[int, int]) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats | None:
        own = observation.operands[name].astype(np.float64)
        changed = _step(own, step, codes)
        if (np.abs(changed - own) <= _NUDGE * np.abs(own)).all():
            return None  # Whole steps as they are; a step a little off is a factor fitted to the result.
        return observation.sum_instead({**observation.operands, name: changed}, sample)

    says = f"multiplies {name} as stored in 8 bits with steps of {step:.4g}"
    return Hypothesis(CauseCode.QUANTIZED_OPERANDS, "downgrade", says, predict)
