"""Hypotheses with a number that is found from the result: a scale, or the sum that weights are divided by."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.mechanisms.attention.plain_attention import Altered, Bend, Floats, Operands, weigh_plainly
from samebits.problems.attention import Attention

# Scales from a 32nd to 32 times the declared one are tried, four to an octave, then the best of them is refined.
_OCTAVES, _PER_OCTAVE = 5, 4
_REFINED = 40
_GOLDEN = (math.sqrt(5) - 1) / 2
# A fitted scale so near to 1 / sqrt(n) is that.
_NEAR_ROOT = 1e-4
_MOST_ROOT = 4096
# One number for each query is fitted to so many features at least.
_FEWEST_FEATURES = 4


def find_scale(asked: Attention, operands: Operands, leaves: Callable[[Altered], float]) -> Iterator[Altered]:
    """The scale that leaves least of the distance, if any leaves little."""
    declared = asked.scale if asked.scale is not None else asked.q[3] ** -0.5

    def leave(power: float) -> float:
        return leaves(Altered("", CauseCode.DROPPED_ATTRIBUTE, replace(asked, scale=declared * 2.0**power), operands))

    steps = np.arange(-_OCTAVES * _PER_OCTAVE, _OCTAVES * _PER_OCTAVE + 1) / _PER_OCTAVE
    tried = [leave(float(step)) for step in steps]
    best = int(np.argmin(tried))
    if not 0 < best < len(steps) - 1 or steps[best] == 0:
        return
    found = declared * 2.0 ** _refine(leave, float(steps[best - 1]), float(steps[best + 1]))
    root = round(1 / found**2) if found > 1 / math.sqrt(_MOST_ROOT) else 0
    is_root = root > 0 and abs(found * math.sqrt(root) - 1) < _NEAR_ROOT
    scale = root**-0.5 if is_root else found
    named = f"1/sqrt({root}) = {scale:.6g}" if is_root and root > 1 else f"{scale:.6g}"
    says = f"has a scale of {named} in place of {declared:.6g}"
    yield Altered(says, CauseCode.DROPPED_ATTRIBUTE, replace(asked, scale=scale), operands, is_fitted=True)


def _refine(leave: Callable[[float], float], low: float, high: float) -> float:
    """Golden-section search."""
    a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_a, at_b = leave(a), leave(b)
    for _ in range(_REFINED):
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - _GOLDEN * (high - low)
            at_a = leave(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + _GOLDEN * (high - low)
            at_b = leave(b)
    return (low + high) / 2


def find_row_sums(asked: Attention, operands: Operands, result: Floats, truth: Floats) -> Iterator[Altered]:
    """Each query's result as the right one times a number: the weights were divided by another sum."""
    if asked.v[3] < _FEWEST_FEATURES:
        return
    with np.errstate(all="ignore"):
        factors = (result * truth).sum(axis=-1, keepdims=True) / (truth * truth).sum(axis=-1, keepdims=True)
    off = np.abs(factors - 1)
    if not np.isfinite(factors).all() or (factors <= 0).any() or not off.max() > 0:
        return
    typical = float(np.median(factors[off > _NEAR_ROOT])) if (off > _NEAR_ROOT).any() else 1.0
    says = f"divides the weights by another sum than theirs: results are about {typical:.4g} times the right ones"
    yield Altered(says, CauseCode.SOFTMAX, asked, operands, _multiply(factors), needs_all=True, is_fitted=True)


def _multiply(factors: Floats) -> Bend:
    def bend(scores: Floats, values: Floats) -> tuple[Floats, Floats]:
        result, magnitudes = weigh_plainly(scores, values)
        return result * factors, magnitudes * np.abs(factors)

    return bend
