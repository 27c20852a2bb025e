"""One result compared with the truth: within the bound of its accumulator, or the very bits of a recipe."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from samebits.display.visible_text import format_value
from samebits.errors import ArgumentError, SamebitsError
from samebits.findings.words.place_words import describe_places
from samebits.judging.measuring import Distances, mark_outside, measure_distances
from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.format import FORMATS, find_format
from samebits.numbers.ulps import mark_differing_bits
from samebits.problems import Problem, format_problem
from samebits.problems.case_file import Case, save_case
from samebits.problems.languages.any_language import read_problem
from samebits.problems.operands import check_operands
from samebits.questions.explain.explaining import explain
from samebits.sums.bounds import bound_errors
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe
from samebits.sums.tiles.magnitudes import sum_magnitudes
from samebits.sums.truth import compute_truth
from samebits.sums.truth.functional import read_array

# The folder that case files of failures go to; empty: none are written.
CASES_VARIABLE, CASES_FOLDER = "SAMEBITS_CASES", "samebits-cases"
_LONGEST_NAME = 80
# A failing test of pytest's shows no line of these functions.
__tracebackhide__ = True


def assert_conv_close(
    actual: Any,
    problem: Problem | str,
    operands: Mapping[str, Any],
    *,
    accumulator: str | None = None,
    recipe: str | None = None,
    name: str = "actual",
) -> None:
    """Asserts that a result of a convolution or matrix product is what its problem says, or raises AssertionError.

    `actual` and `operands` are arrays of any library, of the problem's shapes and dtypes (`problem` is its text or a
    Problem). Without `recipe` every output must be within the bound of sums in `accumulator` (default: the declared
    one, float32 or float64) in any order, fused or not, and rounded once: no sound kernel fails, whatever its order.
    With `recipe` every output must have the bits that the recipe gives. The message of a failure is a verdict with its
    cause, found as `samebits explain` finds it, and names a case file with operands and result (in `samebits-cases`, or
    the folder that SAMEBITS_CASES names; none where that is empty). Raises SamebitsError for arguments that are no
    problem, format, recipe or fitting operands.

    >>> import numpy as np
    >>> x, w = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    >>> assert_conv_close(x @ w, "matmul x=2x3 w=3x2", {"x": x, "w": w})
    """
    # Not as a decorator, whose frame a failing test would show.
    with default_float_environment():
        try:
            stated = read_problem(problem) if isinstance(problem, str) else problem
            if not isinstance(operands, Mapping):
                raise ArgumentError(
                    f"operands are given by name, as in {{'x': x, 'w': w}}, not {type(operands).__name__}"
                )
            arrays = check_operands(stated, {key: read_array(array, key) for key, array in operands.items()})
        except SamebitsError as error:
            # From here: whoever reads a failing test learns nothing from where a text is parsed.
            raise error.with_traceback(None) from None
        if accumulator is not None and accumulator not in FORMATS:
            raise SamebitsError(f"accumulator is one of {', '.join(FORMATS)}, not {accumulator[:40]!r}")
        result = read_array(actual, name)
        complaint = _say_misfit(stated, result)
        if complaint is not None:
            raise AssertionError(f"{name}: {complaint}")
        if recipe is not None:
            complaint = _compare_bits(stated, arrays, result, recipe)
        else:
            complaint = _compare_bounds(stated, arrays, result, accumulator)
        if complaint is not None:
            raise AssertionError(describe_failure(stated, arrays, result, name, complaint))


def measure(
    problem: Problem, operands: Mapping[str, np.ndarray], result: np.ndarray, accumulator: str | None
) -> Distances:
    """The distances of a result from the truth, as shares of the bound of sums in a format."""
    truth = compute_truth(problem, operands).values
    magnitudes = sum_magnitudes(problem, operands)
    format_ = find_format(accumulator) if accumulator else None
    bound = bound_errors(problem, operands, truth, magnitudes=magnitudes, accumulator=format_)
    return measure_distances(problem, result, truth, bound, magnitudes)


def describe_failure(
    problem: Problem, operands: Mapping[str, np.ndarray], result: np.ndarray, name: str, complaint: str
) -> str:
    """What a failed check says: the complaint, the verdict with its cause, and where the case is kept."""
    lines = [f"{name}: {complaint}", format_problem(problem)]
    with contextlib.suppress(SamebitsError):
        found = explain(Case(problem, dict(operands), {name: result}))
        lines.append(f"{found.verdict.upper()} {found.summary}")
        if worst := found.sides[0].worst:
            got, expected = format_value(worst.value), format_value(worst.truth)
            lines.append(f"worst at {worst.index}: got {got}, expected {expected}")
        lines += [e.says for e in found.sides[0].evidence]
    path = keep_case(problem, operands, result, name)
    if path is not None:
        lines.append(f"kept as {path}: samebits explain {path}")
    return "\n  ".join(lines)


def keep_case(problem: Problem, operands: Mapping[str, np.ndarray], result: np.ndarray, name: str) -> Path | None:
    """Writes a case file and returns its path; None where that is not wanted, or cannot be."""
    folder = os.environ.get(CASES_VARIABLE, CASES_FOLDER)
    if not folder:
        return None
    # pytest's name of the test that runs: "test_kernel.py::test_sums (call)".
    test = os.environ.get("PYTEST_CURRENT_TEST", name).rsplit(" ", 1)[0].rsplit("::", 1)[-1]
    stem = re.sub(r"[^\w.-]+", "_", f"{test}-{name}")[:_LONGEST_NAME].strip("._") or "case"
    path = Path(folder) / f"{stem}.npz"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_case(path, problem, operands, {name: result})
    except (OSError, SamebitsError):
        return None
    return path


def _say_misfit(problem: Problem, result: np.ndarray) -> str | None:
    if result.shape != problem.out_shape:
        return f"shape {result.shape} where {format_problem(problem)} has {problem.out_shape}"
    if result.dtype.name != problem.out:
        return f"dtype {result.dtype.name} where {format_problem(problem)} has {problem.out}"
    return None


def _compare_bounds(
    problem: Problem, operands: Mapping[str, np.ndarray], result: np.ndarray, accumulator: str | None
) -> str | None:
    distances = measure(problem, operands, result, accumulator)
    beyond = (distances.over_bound > 1.0) | mark_outside(problem, result)
    if not beyond.any():
        return None
    largest = float(distances.over_bound.max())
    times = f", by up to {largest:.3g} times" if np.isfinite(largest) else ""
    where = f", {describe_places(problem, beyond)}"
    bound = f"the bound of sums in {accumulator}" if accumulator else "their error bound"
    return f"{int(beyond.sum()):,} of {beyond.size:,} outputs are beyond {bound}{times}{where}"


def _compare_bits(problem: Problem, operands: Mapping[str, np.ndarray], result: np.ndarray, recipe: str) -> str | None:
    differs = mark_differing_bits(emulate(problem, parse_recipe(recipe), operands), result)
    if not differs.any():
        return None
    return f"{int(differs.sum()):,} of {differs.size:,} outputs have other bits than the recipe {recipe} gives"
