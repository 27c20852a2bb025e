"""What was measured of a side, in sentences: on exact integers, inside its bound, beyond it, beyond any."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from samebits.findings import ExactData, Side, Varying
from samebits.findings.words.number_words import say_count
from samebits.findings.words.place_words import describe_places
from samebits.problems.any_problem import AnyProblem
from samebits.problems.attention import Attention
from samebits.problems.row_functions import RowFunction
from samebits.sums.bounds import accumulator_format
from samebits.sums.bounds.probabilistic import ERROR_PROBABILITY


def _describe_sums(problem: AnyProblem) -> str:
    """What is added, and in which format."""
    if isinstance(problem, Attention):
        wide = "float64" if problem.dtype == "float64" else "float32"
        return (
            f"scores of {problem.q[3]:,} products and weights of {problem.k[2]:,} keys computed in {wide} in any order"
            " and any blocks"
        )
    if isinstance(problem, RowFunction):
        wide = "float64" if problem.dtype == "float64" else "float32"
        return f"{problem.kind} of {say_count(problem.row_length, 'number')} computed in {wide} in any order"
    return f"{problem.reduction_length:,} products added in {accumulator_format(problem).name} in any order"


def _name_declared(problem: AnyProblem) -> str:
    return problem.kind if isinstance(problem, RowFunction) else "sum"


def _name_sums(problem: AnyProblem) -> str:
    if isinstance(problem, RowFunction):
        return f"{problem.kind} of these numbers"
    return "attention to these keys" if isinstance(problem, Attention) else "sum of these products"


def say_right_on_integers(exact: ExactData) -> str:
    """No difference where nothing can round."""
    return f"all {exact.elements:,} outputs are right on exact integers"


def say_wrong_on_integers(exact: ExactData) -> str:
    """A difference that rounding cannot make."""
    return (
        f"{exact.differing:,} of {exact.elements:,} outputs differ on exact integers, {exact.where};"
        f" the first at {exact.first_index}: {exact.first_value:g} instead of {exact.first_truth:g}"
    )


def say_other_bits(varying: Varying) -> str:
    """Calls on the same operands that differ."""
    said = f"{varying.other:,} of {varying.calls:,} calls on the same operands return other bits"
    return f"{said}: {varying.outputs:,} of {varying.elements:,} outputs vary, {varying.where}"


def say_inexact(exact: ExactData) -> str:
    """A small difference where a sum of products has none."""
    return (
        f"{exact.differing:,} of {exact.elements:,} outputs differ on exact integers, where a sum of products does not"
        " round, by so little that a transform (Winograd, FFT) could"
    )


def say_within(problem: AnyProblem, over_bound: npt.NDArray[np.float64], over_likely: float | None = None) -> str:
    """Every output inside its bound, and how much of it is used; of the probabilistic one, too."""
    said = (
        f"every output is within its bound for {_describe_sums(problem)}; the largest error is {over_bound.max():.2g}"
        " of its bound"
    )
    if over_likely is None:
        return said
    likely = (
        f"the likely one, which independent roundings exceed once in 10^{-math.log10(ERROR_PROBABILITY):.0f} results"
    )
    if over_likely <= 1:
        return f"{said} and {over_likely:.2g} of {likely}"
    return (
        f"{said} but {over_likely:.2g} times {likely}: it rounds more than declared, or to one side, or does something"
        " else"
    )


def say_beyond_likely(sides: Sequence[Side]) -> str:
    """A clause to add to the largest share of a bound where errors exceed what independent roundings reach."""
    shares = [s.error.max_over_likely or 0.0 for s in sides if s.error]
    largest = max(shares, default=0.0)
    return f", but {largest:.2g} times what independent roundings reach" if largest > 1 else ""


def say_another_function(problem: AnyProblem, beyond: npt.NDArray[np.bool_]) -> str:
    """Outputs that no sum of the declared products gives, not even one rounded to bfloat16 throughout."""
    return (
        f"bounds prove that no {_name_sums(problem)} gives this, not even in bfloat16: {int(beyond.sum()):,} of"
        f" {beyond.size:,} outputs are farther from the truth than rounding everything to bfloat16 could take them"
        f"{', or not finite' if isinstance(problem, (Attention, RowFunction)) else ''},"
        f" {describe_places(problem, beyond)}"
    )


def say_beyond(problem: AnyProblem, over_bound: npt.NDArray[np.float64]) -> str:
    """Outputs beyond the bound of what was declared."""
    beyond, largest = over_bound > 1.0, float(over_bound.max())
    times = f", by up to {largest:.3g} times" if np.isfinite(largest) else ""
    return (
        f"bounds prove that this is not the declared {_name_declared(problem)} in the declared formats:"
        f" {int(beyond.sum()):,} of"
        f" {beyond.size:,} outputs are beyond the bound for {_describe_sums(problem)}{times},"
        f" {describe_places(problem, beyond)}"
    )
