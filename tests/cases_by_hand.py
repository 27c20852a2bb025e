"""Recorded cases made by hand: operands, a plain convolution, and what explain says of a result."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from samebits.mechanisms.search.recorded_case import explain_case
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case


def convolve(x, w, stride=1):
    """A valid convolution in float32: windows gathered, one product of matrices."""
    reach = w.shape[2:]
    seen = sliding_window_view(x, reach, axis=tuple(range(2, x.ndim)))
    step = (slice(None, None, stride),) * len(reach)
    seen = np.moveaxis(seen[(slice(None), slice(None), *step)], 1, x.ndim - 1)
    flat = seen.reshape(*seen.shape[: x.ndim - 1], -1).astype(np.float32)
    return np.moveaxis(flat @ w.reshape(len(w), -1).T.astype(np.float32), -1, 1)


def explain(text, operands, result):
    (side,) = explain_case(Case(parse_problem_text(text), operands, {"a": result})).sides
    return side


def make(text, seed):
    problem, rng = parse_problem_text(text), np.random.default_rng(seed)
    operands = {n: rng.normal(size=s).astype(np.float32) for n, s in problem.operand_shapes.items()}
    return operands, rng
