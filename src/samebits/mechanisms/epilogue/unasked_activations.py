"""Hypotheses of an activation that the problem does not have, and of one factor or offset for all outputs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from samebits import thresholds
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample
from samebits.numbers.format import find_format
from samebits.numbers.whole_number import as_decimal
from samebits.problems import Problem

# Exponentials in float32 are off by a few units in the last place; their sums and quotients by some more.
UNITS = 32
_erf: Callable[[Floats], Floats] = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(values: Floats) -> Floats:
    return 1 / (1 + np.exp(-values))


def _softplus(values: Floats) -> Floats:
    return np.logaddexp(0.0, values)


ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "gelu": lambda a: 0.5 * a * (1 + _erf(a / math.sqrt(2))),
    "gelu (by tanh)": lambda a: 0.5 * a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))),
    "silu (swish)": lambda a: a * _sigmoid(a),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "hardswish": lambda a: a * np.clip(a + 3, 0, 6) / 6,
    "hardsigmoid": lambda a: np.clip(a + 3, 0, 6) / 6,
    "hardsigmoid of ONNX": lambda a: np.clip(0.2 * a + 0.5, 0, 1),
    "elu": lambda a: np.where(a > 0, a, np.expm1(np.minimum(a, 0))),
    "selu": lambda a: 1.0507009873554805 * np.where(a > 0, a, 1.6732632423543772 * np.expm1(np.minimum(a, 0))),
    "softplus": _softplus,
    "mish": lambda a: a * np.tanh(_softplus(a)),
    "gelu (by sigmoid)": lambda a: a * _sigmoid(1.702 * a),
}


def list_activation_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Every activation of the usual ones, in place of the problem's own; a leaky relu whose slope is fitted."""
    if problem.direction != "forward":
        return
    for name, function in ACTIVATIONS.items():
        yield _finished(
            problem, f"applies {name}, which the problem does not have", functools.partial(_apply, function)
        )
    says = "applies a leaky relu, which the problem does not have, of slope"
    yield replace(_finished(problem, says, _leak), say_fit=_say(_find_slope))
    yield _finished(problem, "takes the magnitude of every output", lambda o, s: np.abs(o.sum_with_bias(s)))
    if problem.stated is None and problem.x == problem.out_shape:
        yield _finished(problem, "adds its own input to the sums (a residual)", _add_input)
        if problem.then is not None:
            says = "adds its own input after the epilogue (a residual)"
            yield _finished(problem, says, lambda o, s: o.apply_epilogue(o.sum_with_bias(s)) + _pick_input(o, s))


def list_scale_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """One factor, and one offset, for all outputs."""
    fits = [("multiplies every output by", _scale, _find_factor), ("adds to every output", _shift, _find_offset)]
    if problem.then is not None:
        fits.append(("adds to every output, after the epilogue,", _shift_late, _find_late_offset))
    for says, predict, find in fits:
        yield replace(_finished(problem, says, predict), fitted=True, say_fit=_say(find))


def _pick_input(observation: Observation, sample: Sample) -> Floats:
    return sample.pick(observation.operands["x"]).astype(np.float64)


def _add_input(observation: Observation, sample: Sample) -> Floats:
    return observation.apply_epilogue(observation.sum_with_bias(sample) + _pick_input(observation, sample))


def _finished(problem: Problem, says: str, predict: Callable[[Observation, Sample], Floats | None]) -> Hypothesis:
    unit = UNITS * float(find_format("float32" if problem.out != "float64" else "float64").unit_roundoff)
    # What is activated was rounded before.
    unit = max(unit, 2 * float(find_format(problem.out).unit_roundoff))
    return Hypothesis(CauseCode.FUSION, "wrong", says, predict, unit=unit)


def _apply(function: Callable[[Floats], Floats], observation: Observation, sample: Sample) -> Floats:
    with np.errstate(all="ignore"):
        return function(observation.sum_with_bias(sample))


def _leak(observation: Observation, sample: Sample) -> Floats | None:
    """Slope times what is negative."""
    slope, values = _find_slope(observation, sample), observation.sum_with_bias(sample)
    return None if slope is None else np.where(values < 0, slope * values, values)


def _find_slope(observation: Observation, sample: Sample) -> float | None:
    """The median quotient of negative sums."""
    values = observation.sum_with_bias(sample)
    given = sample.pick(observation.result).astype(np.float64)
    negative = (values < 0) & (given < 0) & np.isfinite(given)
    return as_decimal(float(np.median(given[negative] / values[negative]))) if negative.sum() > 1 else None


def _scale(observation: Observation, sample: Sample) -> Floats | None:
    factor = _find_factor(observation, sample)
    return None if factor is None else sample.pick(observation.truth).astype(np.float64) * factor


def _find_factor(observation: Observation, sample: Sample) -> float | None:
    """One factor for all, by the largest outputs: rounding is least there."""
    values = sample.pick(observation.truth).astype(np.float64)
    given = sample.pick(observation.result).astype(np.float64)
    usable = np.isfinite(values) & np.isfinite(given)
    if not _tell(values[usable]):
        return None
    with np.errstate(all="ignore"):
        squares = float((values[usable] ** 2).sum())
        factor = float((given[usable] * values[usable]).sum()) / squares if squares else 0.0
    return factor if factor not in (0.0, 1.0) else None


def _shift(observation: Observation, sample: Sample) -> Floats | None:
    offset = _find_offset(observation, sample)
    return None if offset is None else observation.apply_epilogue(observation.sum_with_bias(sample) + offset)


def _find_offset(observation: Observation, sample: Sample) -> float | None:
    values = observation.sum_with_bias(sample)
    given = sample.pick(observation.result).astype(np.float64)
    usable = mark_unclipped(observation.problem, given) & np.isfinite(values)
    return (float(np.median(given[usable] - values[usable])) or None) if _tell(values[usable]) else None


def _shift_late(observation: Observation, sample: Sample) -> Floats | None:
    offset = _find_late_offset(observation, sample)
    return None if offset is None else sample.pick(observation.truth).astype(np.float64) + offset


def _find_late_offset(observation: Observation, sample: Sample) -> float | None:
    values = sample.pick(observation.truth).astype(np.float64)
    away = sample.pick(observation.result).astype(np.float64) - values
    usable = np.isfinite(away)
    return (float(np.median(away[usable])) or None) if _tell(values[usable]) else None


def _tell(values: Floats) -> bool:
    """Whether enough sums are distinct for one number fitted to them to mean something."""
    return len(np.unique(values)) >= thresholds.FEWEST_PER_CHANNEL


def _say(find: Callable[[Observation, Sample], float | None]) -> Callable[[Observation, Sample], str]:
    """The number that a fit found, as the end of a sentence: "multiplies every output by 0.98"."""

    def say(observation: Observation, sample: Sample) -> str:
        number = find(observation, sample)
        return " one number" if number is None else f" {number:.6g}"

    return say
