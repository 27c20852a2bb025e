"""How public reports are simulated: makers of a problem, its operands and the results that the report describes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from samebits.problems import Problem
from samebits.problems.operands import make_normal, make_uniform
from samebits.problems.problem import Epilogue
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from injected_cases import MECHANISMS
from injected_faults import Operands, compute

Made = tuple[Problem, Operands, dict[str, np.ndarray]]
Maker = Callable[[Problem, np.random.Generator], Made]


def injected(mechanism: str, maker: Callable[[Problem, int], Operands] = make_normal) -> Maker:
    """A mechanism of the injected cases on the report's problem."""

    def make(problem: Problem, rng: np.random.Generator) -> Made:
        problem, operands, result = MECHANISMS[mechanism][0](problem, maker(problem, 5), rng)
        return problem, operands, {"a": result}

    return make


def recipe(text: str, data: Callable[[Problem], Operands] = make_normal) -> Maker:
    """The report's problem computed by a recipe."""

    def make(problem: Problem, rng: np.random.Generator) -> Made:
        operands = data(problem)
        return problem, operands, {"a": emulate(problem, parse_recipe(text), operands)}

    return make


def fault_free(*texts: str, data: Callable[[Problem], Operands] = make_normal, names: str = "ab") -> Maker:
    """Two correct ways to add."""

    def make(problem: Problem, rng: np.random.Generator) -> Made:
        operands = data(problem)
        results = [emulate(problem, parse_recipe(t), operands) for t in texts]
        labels = ["run 1", "run 2"] if names == "runs" else list(names)
        return problem, operands, dict(zip(labels, results, strict=False))

    return make


def altered(change: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Maker:
    """A fault-free result, then changed."""

    def make(problem: Problem, rng: np.random.Generator) -> Made:
        operands = make_normal(problem, 5)
        return problem, operands, {"a": change(compute(problem, operands, rng).copy(), rng)}

    return make


def misread(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Maker:
    """A result of other operands than those on record."""

    def make(problem: Problem, rng: np.random.Generator) -> Made:
        operands = make_normal(problem, 5)
        other = {**operands, name: np.ascontiguousarray(change(operands[name]))}
        return problem, operands, {"a": compute(problem, other, rng)}

    return make


def repadded(padding: tuple[tuple[int, int], ...]) -> Maker:
    """The same problem with other padding (or crop) of the same sum."""

    def make(problem: Problem, rng: np.random.Generator) -> Made:
        operands = make_normal(problem, 5)
        return problem, operands, {"a": compute(replace(problem, padding=padding), operands, rng)}

    return make


def padded(mode: str, widths: tuple[tuple[int, int], ...]) -> Maker:
    """Padding with other values, or along other axes, made by hand."""

    def make(problem: Problem, rng: np.random.Generator) -> Made:
        operands = make_normal(problem, 5)
        x = np.pad(operands["x"], [(0, 0), (0, 0), *widths], mode=mode)  # type: ignore[call-overload]  (mode is one of NumPy's)
        plain = replace(problem, x=x.shape, padding=((0, 0),) * problem.rank)
        result = compute(plain, {**operands, "x": x}, rng)
        return problem, operands, {"a": result[(slice(None), slice(None), *(slice(n) for n in problem.out_shape[2:]))]}

    return make


def input_padding(problem: Problem, rng: np.random.Generator) -> Made:
    """A transposed convolution that pads its input where it should crop its output."""
    operands = make_normal(problem, 5)
    pad = problem.axes[0].pad_begin
    x = np.pad(operands["x"], [(0, 0), (0, 0), *[(pad, pad)] * problem.rank])
    whole = compute(replace(problem, x=x.shape, padding=((0, 0),) * problem.rank, output_padding=(0,) * problem.rank),
                    {**operands, "x": x}, rng)  # fmt: skip
    return problem, operands, {"a": whole[(slice(None), slice(None), *(slice(n) for n in problem.out_shape[2:]))]}


def undilated(problem: Problem, rng: np.random.Generator) -> Made:
    """A transposed convolution without its dilation; the rows that are missing then are zero."""
    operands = make_normal(problem, 5)
    narrow = compute(replace(problem, dilation=(1,) * problem.rank), operands, rng)
    result = np.zeros(problem.out_shape, narrow.dtype)
    result[(slice(None), slice(None), *(slice(n) for n in narrow.shape[2:]))] = narrow
    return problem, operands, {"a": result}


def swapped_pads(problem: Problem, rng: np.random.Generator) -> Made:
    """The padding of one axis used for the other."""
    operands = make_normal(problem, 5)
    (a, b), (c, d) = ((axis.pad_begin, axis.pad_end) for axis in problem.axes)
    x = np.pad(operands["x"], [(0, 0), (0, 0), (c, a + b + 4), (a, c + d + 4)])
    result = compute(replace(problem, x=x.shape, padding=((0, 0), (0, 0))), {**operands, "x": x}, rng)
    return problem, operands, {"a": result[:, :, : problem.out_shape[2], : problem.out_shape[3]]}


def epilogue(declared: Epilogue | None, applied: Epilogue | None) -> Maker:
    """Another epilogue than the declared one."""

    def make(problem: Problem, rng: np.random.Generator) -> Made:
        operands = make_normal(problem, 5)
        operands["x"] = operands["x"] * 10
        result = compute(replace(problem, then=applied), operands, rng)
        return replace(problem, then=declared), operands, {"a": result}

    return make


def bias_view(problem: Problem, rng: np.random.Generator) -> Made:
    """One column of a larger array as bias, its stride ignored: all but the first number are read from elsewhere."""
    operands = make_normal(problem, 5)
    columns = rng.standard_normal((problem.c_out, 4)).astype(operands["bias"].dtype)
    result = compute(problem, {**operands, "bias": columns.reshape(-1)[: problem.c_out].copy()}, rng)
    return problem, {**operands, "bias": columns[:, 0].copy()}, {"a": result}


def nan_weight(problem: Problem, rng: np.random.Generator) -> Made:
    """A NaN among the weights that does not reach the result."""
    operands = make_normal(problem, 5)
    operands["w"][3, 2, 1] = np.nan
    read = {**operands, "w": np.nan_to_num(operands["w"], nan=0.0)}
    return problem, operands, {"a": compute(problem, read, rng)}


def make_positive(problem: Problem) -> Operands:
    return make_uniform(problem, 3)


def make_xla(problem: Problem) -> Operands:
    return make_uniform(problem, 3, 0.0, 0.1)


def make_ones(problem: Problem) -> Operands:
    return {n: np.ones_like(a) for n, a in make_normal(problem).items()}


def make_integers(problem: Problem) -> Operands:
    rng = np.random.default_rng(4)
    return {n: rng.integers(0, 4, a.shape).astype(a.dtype) for n, a in make_normal(problem).items()}


def make_large(scale: float) -> Callable[[Problem], Operands]:
    return lambda problem: {
        n: (a.astype(np.float32) * (scale if n == "x" else 1)).astype(a.dtype) for n, a in make_normal(problem).items()
    }


def make_largest(problem: Problem) -> Operands:
    """The report's probe: the largest half times itself, once with each sign."""
    largest = np.float16(65504)
    return {"x": np.full(problem.x, largest), "w": np.array([largest, -largest]).reshape(problem.w)}


def make_overflowing(problem: Problem) -> Operands:
    """Operands whose partial sums leave float16's range, most of them to come back."""
    rng = np.random.default_rng(6)
    sizes = {"x": 1500.0, "w": 3.0}
    return {n: (rng.standard_normal(s) * sizes[n]).astype(np.float16) for n, s in problem.operand_shapes.items()}


def make_wide_weights(problem: Problem) -> Operands:
    operands = make_uniform(problem, 3, 0.0, 0.01)
    rng = np.random.default_rng(8)
    operands["w"] = (10.0 ** rng.uniform(-8, 8, operands["w"].shape)).astype(np.float32)
    return operands


def write_zeros(part: tuple[slice, ...]) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    def change(result: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        result[part] = 0
        return result

    return change


def write_other(
    part: tuple[slice, ...], value: float | None = None
) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    def change(result: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        numbers = rng.standard_normal(result[part].shape) * result.std() if value is None else value
        result[part] = np.asarray(numbers).astype(result.dtype)
        return result

    return change


def fill_from(share: float, value: float = 0.0) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    def change(result: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        flat = result.reshape(-1)
        flat[int(share * flat.size) | 1 :] = value
        return result

    return change
