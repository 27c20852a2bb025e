"""The error bound of the declared formats: any summation order, with or without fused multiply-adds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.format import BFLOAT16, FLOAT16, FLOAT32, Format, find_format
from samebits.problems import Problem
from samebits.progress import Progress, ignore_progress
from samebits.sums.tiles.magnitudes import sum_magnitudes


def accumulator_format(problem: Problem) -> Format:
    """What a problem's declared formats promise to add in: float64 for float64 operands, else at least float32."""
    operands = find_format(problem.dtype)
    return operands if operands.precision > FLOAT32.precision else FLOAT32


@default_float_environment()
def bound_errors(
    problem: Problem,
    operands: Mapping[str, np.ndarray],
    truth: np.ndarray,
    *,
    magnitudes: npt.NDArray[np.float64] | None = None,
    rounds_result: bool = True,
    accumulator: Format | None = None,
    progress: Progress = ignore_progress,
) -> npt.NDArray[np.float64]:
    """The largest |result - truth| that adding in the declared accumulator and rounding once can cause, per output.

    n u S + u_out (|y| + n u S) [+ u_out (|y| + |bias| + n u S)] + underflow, with S = sum |x| |w| + |bias|, n = K + 1
    terms where there is a bias, u and u_out the unit roundoffs of accumulator and result (u_out = 0 where both are one
    format), plus half a unit of y itself, because y is the rounded truth. The bracket stands where there is a bias and
    the result's format is narrower than the accumulator: frameworks round the convolution to its own dtype before they
    add the bias. The inner product's bound n u S holds for every order of summation, products rounded or fused
    (Jeannerod and Rump, Improved error bounds for inner products in floating-point arithmetic, SIAM J. Matrix Anal.
    Appl. 34(2), 2013, theorem 3.1; the sum alone: Rump, BIT Numer. Math. 52(1), 2012). `truth` has the result's dtype;
    `magnitudes` is S if already known. With `rounds_result=False` the last rounding is left out: the bound for data
    whose exact result needs none. Holds unless a partial sum leaves the range of the accumulator or of the result.
    """
    if magnitudes is None:
        magnitudes = sum_magnitudes(problem, operands, progress=progress)
    accumulator = accumulator or accumulator_format(problem)
    summed = bound_sums(problem, magnitudes, accumulator)
    return add_conversions(problem, operands, truth, summed, accumulator) if rounds_result else summed


def bound_sums(problem: Problem, magnitudes: npt.NDArray[np.float64], accumulator: Format) -> npt.NDArray[np.float64]:
    """n u S + n times what may underflow: the part of `bound_errors` that the sums themselves have."""
    terms = problem.reduction_length + (1 if problem.bias else 0)
    with np.errstate(over="ignore", invalid="ignore"):
        return terms * float(accumulator.unit_roundoff) * magnitudes + terms * float(accumulator.smallest_subnormal)


def add_conversions(
    problem: Problem,
    operands: Mapping[str, np.ndarray],
    truth: np.ndarray,
    summed: npt.NDArray[np.float64],
    accumulator: Format,
) -> npt.NDArray[np.float64]:
    """The bound of a result from the bound of its sums: the roundings to its format, its own and the truth's."""
    result = find_format(problem.out)
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.abs(truth.astype(np.float64))
        unit = float(result.unit_roundoff)
        of_truth = unit * value + float(result.smallest_subnormal)
        if result is accumulator:
            return summed + of_truth
        converted = unit * (value + summed) + float(result.smallest_subnormal)
        if problem.bias:
            bias = np.abs(operands["bias"].astype(np.float64)).reshape(problem.bias_shape)
            converted = 2 * converted + unit * bias
        return summed + of_truth + converted


@default_float_environment()
def bound_narrowest_errors(
    problem: Problem, truth: np.ndarray, magnitudes: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The largest error of the same function computed wholly in bfloat16: a result beyond it is another function.

    Operands, products and all partial sums rounded with u = 2^-8: every term passes n + 3 roundings, so the error is at
    most g S with g = (n + 3) u / (1 - (n + 3) u) (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
    lemma 3.1), n the number of terms; infinite from n + 3 = 256 on, where nothing can be said. Each term may also be
    lost below float16's smallest normal number, 2^-14, and the result is rounded to its own format and to bfloat16:
    4 u (|y| + error of the sum). Where the result is narrower than bfloat16, u is here the result's, of which truth,
    conversion and sum with the bias take one each, and the conversion before the bias takes u |bias| <= u S more.
    Holds for operands that are normal numbers of bfloat16, or zero.
    """
    unit, result = float(BFLOAT16.unit_roundoff), find_format(problem.out)
    roundings = (problem.reduction_length + (1 if problem.bias else 0) + 3) * unit
    if roundings >= 1.0:
        return np.full(problem.out_shape, np.inf)
    growth = roundings / (1.0 - roundings)
    lost = (problem.reduction_length + 1) * 2.0**FLOAT16.smallest_normal_exponent
    with np.errstate(over="ignore", invalid="ignore"):
        summed = growth * magnitudes + lost
        last = max(unit, float(result.unit_roundoff))
        converted = 4 * last * (np.abs(truth.astype(np.float64)) + summed) + 2 * float(result.smallest_subnormal)
        if problem.bias and last > unit:
            converted = converted + last * magnitudes
        return summed + converted
