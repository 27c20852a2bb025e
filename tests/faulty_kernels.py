"""Kernels with one fault each, put over NumPy's exact sums: where they are wrong is known, and so is when."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from plain_sums import finish, lay_out, put_back, sum_exactly
from samebits.engines.runner import Identity
from samebits.errors import EngineUnsupported, ProblemShapeError
from samebits.problems import Problem

Predicate = Callable[[Problem], bool]
Harm = Callable[[Problem, np.ndarray], np.ndarray]
_MOST = 4_000_000


@dataclass
class FaultyKernel:
    """Right wherever `is_faulty` is not true; elsewhere, as at `start`, `harm` changes its result."""

    text: str
    is_faulty: Predicate
    harm: Harm
    start: Problem

    def identify(self) -> Identity:
        return Identity(self.text, "faulty", "1", "CPU")

    def run(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        if problem.multiply_adds > _MOST:
            raise EngineUnsupported("too large for a kernel of plain NumPy")
        try:
            result = compute_exactly(problem, operands)
        except ValueError:
            raise EngineUnsupported("cropped on all sides, which plain NumPy does not pad") from None
        return (self.harm(problem, result) if self.is_faulty(problem) else result).astype(result.dtype)

    def close(self) -> None:
        return


def compute_exactly(problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
    """The result on integers, in the problem's float32."""
    sums = put_back(problem, sum_exactly(lay_out(problem, operands)))
    return finish(problem, sums, operands.get("bias")).astype(np.float32)


# -- what goes wrong ------------------------------------------------------------------------------------------------


def everywhere(problem: Problem, result: np.ndarray) -> np.ndarray:
    return result + 3


def last_output(problem: Problem, result: np.ndarray) -> np.ndarray:
    changed = result.copy()
    changed.ravel()[-1] += 1
    return changed


def tail_of(axis: int, block: int) -> Harm:
    """What is left over behind whole blocks along an axis is never written."""

    def harm(problem: Problem, result: np.ndarray) -> np.ndarray:
        changed = np.moveaxis(result.copy(), axis, 0)
        changed[changed.shape[0] // block * block :] = 1000
        return np.moveaxis(changed, 0, axis)

    return harm


def from_on(axis: int, first: int) -> Harm:
    """What lies beyond so many along an axis is written twice."""

    def harm(problem: Problem, result: np.ndarray) -> np.ndarray:
        changed = np.moveaxis(result.copy(), axis, 0)
        changed[first:] = changed[first:] * 2 + 1
        return np.moveaxis(changed, 0, axis)

    return harm


# -- when it goes wrong ---------------------------------------------------------------------------------------------


def list_families(rng: random.Random) -> list[tuple[str, Predicate, Harm, str]]:
    """One fault of each family, with numbers drawn: its name, when, what, and the kind of its problems."""
    block, other = rng.choice((3, 4, 6, 8, 16)), rng.choice((2, 4, 8))
    least, second = rng.randint(2, 20), rng.randint(2, 9)
    axis = rng.choice((0, 1))
    out = lambda p: p.y_shape[2 + axis]  # noqa: E731  (short names for quantities)
    return [
        (f"tail of {block} columns", lambda p: p.y_shape[3] % block != 0, tail_of(3, block), "conv2d"),
        (f"tail of {block} channels", lambda p: p.c_out % block != 0, tail_of(1, block), "conv2d"),
        (
            f"tail of {block} channels from {least} columns on",
            lambda p: p.c_out % block != 0 and p.y_shape[3] >= least,
            tail_of(1, block), "conv2d",
        ),
        (f"tile beyond {least}", lambda p: out(p) > least, from_on(2 + axis, least), "conv2d"),
        (
            f"tile beyond {least} by {second}",
            lambda p: p.y_shape[3] > least and p.y_shape[2] > second,
            from_on(3, least), "conv2d",
        ),
        ("dilation ignored", lambda p: p.w[2 + axis] > 1 and p.dilation[axis] > 1, everywhere, "conv2d"),
        ("groups ignored", lambda p: p.groups > 1, everywhere, "conv2d"),
        ("bias lost", lambda p: p.bias, everywhere, "conv2d"),
        ("stride on small kernels", lambda p: p.stride[axis] > p.w[2 + axis], last_output, "conv2d"),
        ("uneven padding", lambda p: p.axes[axis].pad_begin != p.axes[axis].pad_end, last_output, "conv2d"),
        ("odd channels", lambda p: p.c_in % 2 == 1, last_output, "conv2d"),
        (f"odd columns, {least} channels", lambda p: p.x[3] % 2 == 1 and p.c_in >= least, last_output, "conv2d"),
        ("even kernels", lambda p: p.w[3] % 2 == 0, last_output, "conv2d"),
        (f"from {least} channels on", lambda p: p.c_in >= least, last_output, "conv2d"),
        (
            f"from {least} channels and {second} out on",
            lambda p: p.c_in >= least and p.c_out >= second,
            last_output, "conv2d",
        ),
        ("one channel, stride", lambda p: p.c_in == 1 and p.stride[axis] > 1, last_output, "conv2d"),
        ("1x1 with stride", lambda p: p.w[2:] == (1, 1) and p.stride[axis] > 1, last_output, "conv2d"),
        ("depthwise", lambda p: p.groups > 1 and p.w[1] == 1, last_output, "conv2d"),
        (f"batch from {second} on", lambda p: p.x[0] >= second, from_on(0, second - 1), "conv1d"),
        (f"length multiple of {other}", lambda p: p.x[2] % other == 0, last_output, "conv1d"),
        (f"one output, batch {second}", lambda p: p.y_shape[2] == 1 and p.x[0] >= second, everywhere, "conv1d"),
        (f"rows from {least} on", lambda p: p.x[0] >= least, from_on(0, least - 1), "linear"),
        (f"K no multiple of {block}", lambda p: p.x[-1] % block != 0, everywhere, "linear"),
        (
            f"K no multiple of {block}, {second} columns",
            lambda p: p.x[-1] % block != 0 and p.w[0] >= second,
            everywhere, "linear",
        ),
        (f"one row, {least} columns", lambda p: p.x[0] == 1 and p.w[0] >= least, last_output, "linear"),
        (f"output padding, {second} channels", lambda p: p.output_padding[0] > 0 and p.c_in >= second, last_output,
         "conv_transpose2d"),
        ("stride without overlap", lambda p: p.stride[axis] >= p.w[2 + axis] > 1, last_output, "conv_transpose2d"),
    ]  # fmt: skip


def draw_problem(rng: random.Random, kind: str) -> Problem | None:
    """A problem of moderate size, whatever the dice say; None where they say none."""
    try:
        if kind == "linear":
            rows, terms, columns = (rng.choice((1, *range(1, 40))) for _ in range(3))
            return Problem("linear", (rows, terms), (columns, terms), bias=rng.random() < 0.3)
        rank = int(kind[-2])
        groups = rng.choice((1, 1, 1, 2, 3, 4))
        c_in, c_out = (rng.choice((1, 1, *range(1, 24))) for _ in range(2))
        kernel, stride, dilation = (tuple(rng.choice((1, 1, 2, 3)) for _ in range(rank)) for _ in range(3))
        transposed = kind.startswith("conv_transpose")
        pads = (0,) if transposed else (0, 0, 1)
        padding = tuple((rng.choice(pads), rng.choice(pads)) for _ in range(rank))
        first, second = (c_in * groups, c_out) if transposed else (c_out * groups, c_in)
        return Problem(
            kind,  # type: ignore[arg-type]  (one of the kinds)
            (rng.randint(1, 9), c_in * groups, *(rng.randint(1, 30) for _ in range(rank))),
            (first, second, *kernel),
            bias=rng.random() < 0.3,
            stride=stride,
            padding=padding,
            dilation=dilation,
            output_padding=tuple(rng.choice((0, 1)) for _ in range(rank)) if transposed else (0,) * rank,
            groups=groups,
        )
    except ProblemShapeError:
        return None


def make_kernels(count: int, seed: int) -> list[FaultyKernel]:
    """So many faulty kernels, every family in turn, each with a problem that it is wrong at."""
    rng, found = random.Random(seed), list[FaultyKernel]()
    while len(found) < count:
        for name, is_faulty, harm, kind in list_families(rng):
            start = next(
                p
                for p in iter(lambda kind=kind: draw_problem(rng, kind), 0)
                if p is not None and p.multiply_adds < _MOST and is_faulty(p)
            )
            found.append(FaultyKernel(name, is_faulty, harm, start))
    return found[:count]
