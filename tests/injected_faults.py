"""Faults of an engine and fault-free ways to add, as makers of recorded results.

A fault is made by altering problem, operands or result and emulating with a random order of addition, so that no
hypothesis's own prediction is the injected result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from samebits.numbers.format import numpy_dtype
from samebits.problems import Problem
from samebits.problems.operands import make_normal, make_uniform
from samebits.problems.problem import Epilogue
from samebits.sums.bounds import bound_errors
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe
from samebits.sums.truth import compute_truth

Operands = dict[str, np.ndarray]
# Returns problem, operands and result; raises Skip where it does not apply.
Maker = Callable[[Problem, Operands, np.random.Generator], tuple[Problem, Operands, np.ndarray]]
_ORDERS = (
    "c,kh,kw",
    "kh,kw,c",
    "k/37|k",
    "halves:k%8|k",
    "pairs:k",
    "k/29|k",
    "c|kh,kw",
    "kh,kw|c",
    "k%5|k",
    "pairs:k%4|k",
    "-k",
)


class Skip(Exception):
    """This mechanism does not apply to the problem, or leaves no trace in these data."""


def choose_recipe(problem: Problem, rng: np.random.Generator, text: str = "") -> str:
    """A random correct way to add, with `text` added."""
    order = str(rng.choice(_ORDERS))
    if problem.rank != 2:
        spatial = {1: "kw", 3: "kd,kh,kw"}[problem.rank]
        order = order.replace("kh,kw", spatial)
    if problem.direction == "grad_weight":
        order = order.replace("kh,kw", "oh,ow").replace("c", "n")
    parts = ["direct", f"product={rng.choice(['fused', 'rounded'])}"]
    if "order=" not in text:
        parts.append(f"order={order}")
    if problem.dtype == "float64" and "acc=" not in text:
        parts.append("acc=float64")
    if problem.bias and "bias=" not in text:
        parts.append(f"bias={rng.choice(['first', 'last'])}")
    return " ".join([*parts, text]).strip()


def compute(problem: Problem, operands: Operands, rng: np.random.Generator, text: str = "") -> np.ndarray:
    """A result by a random correct way."""
    needed = {n: operands[n] for n in problem.operand_shapes}
    return emulate(problem, parse_recipe(choose_recipe(problem, rng, text)), needed)


def is_seen(problem: Problem, operands: Operands, result: np.ndarray, *, least: int = 1) -> bool:
    """Whether a result is beyond the bound of the declared function somewhere."""
    truth = compute_truth(problem, operands).values
    bound = bound_errors(problem, operands, truth)
    with np.errstate(invalid="ignore"):
        away = np.abs(result.astype(np.float64) - truth.astype(np.float64))
    return int((~(away <= bound)).sum()) >= least


def make_data(problem: Problem, rng: np.random.Generator) -> Operands:
    kind = rng.integers(0, 4)
    seed = int(rng.integers(0, 2**31))
    if kind == 0:
        return make_uniform(problem, seed)
    operands = make_normal(problem, seed)
    if kind == 1 and problem.dtype in ("float32", "float64"):
        scale = float(rng.choice([1e-3, 1e6, 1e13]))
        operands = {n: (a * (scale if n in ("x", "dy", "bias") else 1)).astype(a.dtype) for n, a in operands.items()}
    return operands


def make_fault_free(problem: Problem, operands: Operands, rng: np.random.Generator):
    return problem, operands, compute(problem, operands, rng)


def needs(condition: bool) -> None:
    if not condition:
        raise Skip


def with_recipe(text: Callable[[np.random.Generator], str], dtypes: tuple[str, ...]) -> Maker:
    def make(problem: Problem, operands: Operands, rng: np.random.Generator):
        needs(problem.dtype in dtypes)
        return problem, operands, compute(problem, operands, rng, text(rng))

    return make


def pick(*texts: str) -> Callable[[np.random.Generator], str]:
    return lambda rng: str(rng.choice(texts))


def store_partial_sums(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(problem.dtype in ("float32", "float16", "bfloat16") and problem.reduction_length > 16)
    names = (
        ["float16", "bfloat16"]
        if problem.dtype == "float32"
        else ["float16" if problem.dtype == "float16" else "bfloat16"]
    )
    block = int(rng.choice([n for n in (4, 8, 10, 16, 32, 64, 20, 40) if n < problem.reduction_length]))
    name = str(rng.choice(names))
    recipe = f"direct order=chain@{name}:k/{block}|k"
    if problem.direction == "grad_weight" and rng.random() < 0.5:
        recipe = f"direct order=chain@{name}:n|oh,ow"
    return problem, operands, emulate(problem, parse_recipe(recipe), operands)


def accumulate_in(name: str) -> Maker:
    def make(problem: Problem, operands: Operands, rng: np.random.Generator):
        needs(problem.dtype in ("float32", "float16", "bfloat16") and problem.reduction_length > 4)
        # Nobody adds float16 products in bfloat16, or the reverse.
        needs(problem.dtype == "float32" or name in (problem.dtype, "float32/toward_zero"))
        first, inner = ("n", "o") if problem.direction == "grad_weight" else ("c", "k")
        spatial = ",".join(inner + a for a in {1: "w", 2: "hw", 3: "dhw"}[problem.rank])
        order = str(rng.choice([f"{first},{spatial}", f"{spatial},{first}"]))
        return (
            problem,
            operands,
            compute(
                problem,
                operands,
                rng,
                f"order={order} acc={name} bias=last" if problem.bias else f"order={order} acc={name}",
            ),
        )

    return make


def transform_with(text: str) -> Maker:
    def make(problem: Problem, operands: Operands, rng: np.random.Generator):
        square = all(a.kernel == 3 and a.stride == 1 and a.dilation == 1 for a in problem.axes)
        needs(square and problem.rank == 2 and problem.direction == "forward" and not problem.is_transposed)
        needs(problem.dtype in ("float32", "float16"))
        wanted = text if problem.dtype == "float16" else text.replace(" acc=float16", "")
        return problem, operands, emulate(problem, parse_recipe(wanted), operands)

    return make


def flush(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(problem.dtype == "float32" and not problem.bias)
    names = list(problem.operand_shapes)
    operands = dict(operands)
    operands[names[0]] = (make_normal(problem, 5)[names[0]] * np.float32(2.0**-126)).astype(np.float32)
    flush = str(rng.choice(["results", "operands", "operands,results"]))
    return problem, operands, compute(problem, operands, rng, f"flush={flush}")


def overflow(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(problem.dtype == "float16" and problem.direction == "forward")
    operands = {
        n: (a.astype(np.float32) * (3e3 if n == "x" else 16)).clip(-6e4, 6e4).astype(np.float16)
        for n, a in operands.items()
    }
    result = emulate(problem, parse_recipe("direct acc=float16"), operands)
    truth = compute_truth(problem, operands).values
    needs(bool((np.isfinite(truth) & ~np.isfinite(result)).any()))
    return problem, operands, result


def saturate(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(problem.dtype == "float16")
    operands = {n: np.abs(a.astype(np.float32) * 300).clip(0, 6e4).astype(np.float16) for n, a in operands.items()}
    result = compute(problem, operands, rng)
    needs(np.isinf(result).any())
    return problem, operands, np.where(np.isinf(result), np.sign(result) * np.float16(65504), result).astype(np.float16)


def move_padding(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(not problem.is_transposed and problem.direction == "forward")
    axis = int(rng.integers(0, problem.rank))
    begin, end = problem.axes[axis].pad_begin, problem.axes[axis].pad_end
    total = begin + end
    needs(total > 0)
    other = int(rng.choice([b for b in range(total + 1) if b != begin]))
    padding = [(a.pad_begin, a.pad_end) for a in problem.axes]
    padding[axis] = (other, total - other)
    return problem, operands, compute(replace(problem, padding=tuple(padding)), operands, rng)


def mix_padding(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(problem.direction == "forward" and problem.rank == 2 and not problem.is_transposed)
    (a, b), (c, d) = ((axis.pad_begin, axis.pad_end) for axis in problem.axes)
    needs(a != c)
    x = np.pad(operands["x"].astype(np.float32), [(0, 0), (0, 0), (c, a + b + 8), (a, c + d + 8)]).astype(
        operands["x"].dtype
    )
    wide = replace(problem, x=x.shape, padding=((0, 0), (0, 0)))
    result = compute(wide, {**operands, "x": x}, rng)
    return problem, operands, np.ascontiguousarray(result[:, :, : problem.out_shape[2], : problem.out_shape[3]])


def pad_otherwise(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(
        problem.direction == "forward"
        and not problem.is_transposed
        and any(a.pad_begin or a.pad_end for a in problem.axes)
    )
    mode = str(rng.choice(["wrap", "reflect", "edge"]))
    widths = [(0, 0), (0, 0), *((a.pad_begin, a.pad_end) for a in problem.axes)]
    x = np.pad(operands["x"].astype(np.float64), widths, mode=mode).astype(operands["x"].dtype)
    return (
        problem,
        operands,
        compute(replace(problem, x=x.shape, padding=((0, 0),) * problem.rank), {**operands, "x": x}, rng),
    )


def move_crop(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(problem.is_transposed and problem.direction == "forward")
    begin, end = problem.axes[0].pad_begin, problem.axes[0].pad_end
    needs(begin + end > 0)
    other = int(rng.choice([b for b in range(begin + end + 1) if b != begin]))
    moved = replace(problem, padding=((other, begin + end - other),) * problem.rank)
    return problem, operands, compute(moved, operands, rng)


def flip_kernel(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(problem.direction == "forward" and max(a.kernel for a in problem.axes) > 1)
    w = np.ascontiguousarray(operands["w"][(slice(None), slice(None), *(slice(None, None, -1),) * problem.rank)])
    return problem, operands, compute(problem, {**operands, "w": w}, rng)


def relay_weights(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs("w" in operands)
    w = operands["w"]
    order = [(*range(2, w.ndim), 1, 0), (0, *range(2, w.ndim), 1)][int(rng.integers(0, 2))]
    other = np.ascontiguousarray(w.transpose(order)).reshape(w.shape)
    return problem, operands, compute(problem, {**operands, "w": other}, rng)


def swap_kernel(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(problem.rank == 2 and "w" in operands and problem.w[2] == problem.w[3] > 1)
    return (
        problem,
        operands,
        compute(problem, {**operands, "w": np.ascontiguousarray(operands["w"].swapaxes(2, 3))}, rng),
    )


def shuffle_channels(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(1 < problem.groups < problem.c_out and problem.direction == "forward")
    order = np.arange(problem.c_out).reshape(problem.groups, -1).T.reshape(-1)
    return problem, operands, np.ascontiguousarray(compute(problem, operands, rng)[:, order])


def misread_view(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs("x" in operands and problem.x[1] > 1)
    x = operands["x"]
    other = np.ascontiguousarray(np.moveaxis(x, 1, -1)).reshape(x.shape)
    return problem, operands, compute(problem, {**operands, "x": other}, rng)


def expand_first(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs("w" in operands and problem.w[0] > 1)
    w = np.ascontiguousarray(np.broadcast_to(operands["w"][:1], operands["w"].shape))
    return problem, operands, compute(problem, {**operands, "w": w}, rng)


def ignore_dilation(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(max(problem.dilation) > 1 and problem.direction == "forward" and not problem.is_transposed)
    shift = [(a.dilation - 1) * (a.kernel - 1) for a in problem.axes]
    narrow = replace(
        problem,
        dilation=(1,) * problem.rank,
        padding=tuple((a.pad_begin, a.pad_end - s) for a, s in zip(problem.axes, shift, strict=True)),
    )
    x, pads = operands["x"], [(a.pad_begin, max(a.pad_end - s, 0)) for a, s in zip(problem.axes, shift, strict=True)]
    narrow = replace(narrow, padding=tuple(pads))
    result = compute(narrow, {**operands, "x": x}, rng)
    return (
        problem,
        operands,
        np.ascontiguousarray(result[(slice(None), slice(None), *(slice(0, n) for n in problem.out_shape[2:]))]),
    )


def swap_strides(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(
        problem.rank == 2
        and problem.stride[0] != problem.stride[1]
        and problem.direction == "forward"
        and not problem.is_transposed
    )
    x = np.pad(operands["x"].astype(np.float32), [(0, 0), (0, 0), *((a.pad_begin, 60) for a in problem.axes)]).astype(
        operands["x"].dtype
    )
    other = replace(problem, x=x.shape, padding=((0, 0), (0, 0)), stride=problem.stride[::-1])
    result = compute(other, {**operands, "x": x}, rng)
    return problem, operands, np.ascontiguousarray(result[:, :, : problem.out_shape[2], : problem.out_shape[3]])


def change_bias(change: Callable[[np.ndarray], np.ndarray]) -> Maker:
    def make(problem: Problem, operands: Operands, rng: np.random.Generator):
        needs(problem.bias and problem.direction == "forward")
        return (
            problem,
            operands,
            compute(problem, {**operands, "bias": change(operands["bias"]).astype(operands["bias"].dtype)}, rng),
        )

    return make


def exchange_epilogue(declared: Epilogue | None, applied: Epilogue | None) -> Maker:
    def make(problem: Problem, operands: Operands, rng: np.random.Generator):
        needs(problem.direction == "forward")
        result = compute(replace(problem, then=applied), operands, rng)
        return replace(problem, then=declared), operands, result

    return make


def scale_channels(problem: Problem, operands: Operands, rng: np.random.Generator):
    needs(problem.direction == "forward" and math.prod(problem.out_shape) // problem.c_out >= 60)
    result = compute(problem, operands, rng).astype(np.float64)
    shape = (1, -1, *(1,) * problem.rank)
    scale = rng.uniform(0.5, 1.5, problem.c_out).reshape(shape)
    shift = rng.uniform(-0.5, 0.5, problem.c_out).reshape(shape) * float(np.abs(result).mean())
    return problem, operands, (result * scale + shift).astype(numpy_dtype(problem.out))


def _garbage(shape: tuple[int, ...], result: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Other numbers of the result's own size: a sum of the wrong things."""
    spread = float(np.nanstd(result.astype(np.float64))) or 1.0
    return (rng.standard_normal(shape) * spread).astype(result.dtype)


def spoil_part(choose: Callable[[Problem, np.random.Generator], tuple[slice, ...]], *, zeros: bool) -> Maker:
    def make(problem: Problem, operands: Operands, rng: np.random.Generator):
        result = compute(problem, operands, rng).copy()
        part = choose(problem, rng)
        result[part] = 0 if zeros else _garbage(result[part].shape, result, rng)
        return problem, operands, result

    return make


def last_channels(problem: Problem, rng: np.random.Generator):
    axis = 0 if problem.direction == "grad_weight" else 1
    size = problem.out_shape[axis]
    needs(size >= 4)
    part = [slice(None)] * len(problem.out_shape)
    part[axis] = slice(size - int(rng.integers(1, max(size // 4, 2))), None)
    return tuple(part)


def last_columns(problem: Problem, rng: np.random.Generator):
    size = problem.out_shape[-1]
    needs(size >= 6)
    return (..., slice(size - int(rng.integers(1, size // 3)), None))


def one_group(problem: Problem, rng: np.random.Generator):
    needs(problem.groups > 1 and problem.direction == "forward")
    size, g = problem.c_out // problem.groups, int(rng.integers(0, problem.groups))
    return (slice(None), slice(g * size, (g + 1) * size))


def one_item(problem: Problem, rng: np.random.Generator):
    needs(problem.out_shape[0] > 2 and problem.direction != "grad_weight")
    n = int(rng.integers(1, problem.out_shape[0]))
    return (slice(n, n + 1),)
