"""Compiles our own arithmetic for every format, to avoid the delay on first use (`samebits doctor --compile`)."""

from __future__ import annotations

import numpy as np

from samebits.numbers.format import numpy_dtype
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal
from samebits.progress import Progress
from samebits.questions.explain.explaining import explain
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe
from samebits.sums.truth import compute_truth

# One problem for each pair of types that arrays of operands and results are stored in, as engines pair them.
_FORMATS = (
    "dtype=float32", "dtype=float16", "dtype=float16 out=float32", "dtype=float8_e4m3fn",
    "dtype=float8_e4m3fn out=float16", "dtype=float8_e4m3fn out=float32", "dtype=float64",
)  # fmt: skip
# One recipe for each machine that executes sums, and each algorithm.
_RECIPES = ("direct", "direct acc=float64", "direct acc=float16", "winograd(2)")


def compile_ahead(progress: Progress) -> None:
    """Compiles what is not compiled yet, by computing a tiny problem in every way; several minutes the first time."""
    for i, formats in enumerate(_FORMATS):
        progress(f"compiling for {formats}", i / (len(_FORMATS) + 1))
        problem = parse_problem_text(f"conv2d x=1x2x5x5 w=2x2x3x3 bias {formats}")
        operands = make_normal(problem)
        # An explanation asks for truth, bounds and hypotheses; outputs without a product are rounded by themselves.
        explain(Case(problem, operands, {"zeros": np.zeros(problem.out_shape, numpy_dtype(problem.out))}))
        spread = parse_problem_text(f"conv_transpose1d x=1x1x2 w=1x1x1 stride=3 bias {formats}")
        compute_truth(spread, make_normal(spread))
    progress("compiling emulators", len(_FORMATS) / (len(_FORMATS) + 1))
    problem = parse_problem_text("conv2d x=1x2x5x5 w=2x2x3x3 bias")
    for text in _RECIPES:
        emulate(problem, parse_recipe(text), make_normal(problem))
