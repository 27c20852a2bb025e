"""A product as the convolution with kernels of size 1 that has the same sums, operands and results rearranged.

Judging, replaying and probing sums of products know convolutions only. A problem that is one already stays as it is;
`linear` and `matmul` become `conv1d` (or one of its gradients): rows of x are items of the batch, columns of w are
output channels, batches that both operands have are groups. All ways there and back are permutations of elements, so
no bit changes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from samebits.problems.problem import Problem
from samebits.problems.product_shapes import Labels


@dataclass(frozen=True)
class Arrangement:
    """How one array's axes stand in the other: its labels with their sizes, and the sequence they are taken in."""

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    lowered: tuple[int, ...]

    def lower(self, array: np.ndarray) -> np.ndarray:
        """An array of the product as one of the convolution."""
        return array.reshape(self.sizes).transpose(self.order).reshape(self.lowered)

    def restore(self, array: np.ndarray) -> np.ndarray:
        """An array of the convolution as one of the product."""
        moved = [self.sizes[i] for i in self.order]
        return array.reshape(moved).transpose(np.argsort(self.order)).reshape(self.shape)


@dataclass(frozen=True)
class Lowering:
    """A stated problem, the convolution that is computed for it, and how their arrays correspond.

    Where the stated problem is a convolution, both are the same and arrays pass through as they are.
    """

    stated: Problem
    convolution: Problem
    arrangements: Mapping[str, Arrangement]

    @property
    def is_product(self) -> bool:
        """Whether the stated problem is a product."""
        return bool(self.arrangements)

    def lower_operands(self, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The stated problem's operands as the convolution's; contiguous."""
        return {name: self._lower(name, array) for name, array in operands.items()}

    def restore_operands(self, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The convolution's operands as the stated problem's; contiguous."""
        return {name: self._restore(name, array) for name, array in operands.items()}

    def lower_result(self, result: np.ndarray) -> np.ndarray:
        """A result of the stated problem (or anything of its shape) as the convolution's."""
        return self._lower(_RESULT, result)

    def restore_result(self, result: np.ndarray) -> np.ndarray:
        """A result of the convolution (or anything of its shape) as the stated problem's."""
        return self._restore(_RESULT, result)

    def restore_index(self, index: tuple[int, ...]) -> tuple[int, ...]:
        """Where an output of the convolution stands in the stated problem's result."""
        if not self.is_product:
            return index
        own = self.arrangements[_RESULT]
        moved = np.unravel_index(np.ravel_multi_index(index, own.lowered), [own.sizes[i] for i in own.order])
        back = [int(moved[own.order.index(i)]) for i in range(len(own.sizes))]
        flat = np.ravel_multi_index(back, own.sizes) if back else 0
        return tuple(int(i) for i in np.unravel_index(flat, own.shape)) if own.shape else ()

    def _lower(self, name: str, array: np.ndarray) -> np.ndarray:
        own = self.arrangements.get(name)
        return array if own is None else np.ascontiguousarray(own.lower(array))

    def _restore(self, name: str, array: np.ndarray) -> np.ndarray:
        own = self.arrangements.get(name)
        # Not ascontiguousarray, which makes a vector of a scalar.
        return array if own is None else np.array(own.restore(array), order="C", copy=None)


_RESULT = "result"


@functools.lru_cache(maxsize=64)
def lower_problem(problem: Problem) -> Lowering:
    """The convolution of a problem, with the way there and back."""
    product = problem.product
    if product is None:
        return Lowering(problem, problem, {})
    shared, of_x, of_w = product.shared, product.of_x, product.of_w
    groups, rows, columns, length = product.count(shared), product.count(of_x), product.count(of_w), product.length
    convolution = Problem(
        kind="conv1d",
        x=(rows, groups * length, 1),
        w=(groups * columns, length, 1),
        direction=problem.direction,
        bias=problem.bias,
        groups=groups,
        dtype=problem.dtype,
        out=problem.out,
        then=problem.then,
        stated=problem,
    )
    orders: dict[str, Labels] = {"x": (*of_x, *shared, "k"), "w": (*shared, *of_w, "k"), "y": (*of_x, *shared, *of_w)}
    if problem.bias:
        orders["bias"] = ("n",)
    lowered = {"x": convolution.x, "w": convolution.w, "y": convolution.y_shape, "bias": (groups * columns,)}
    arranged = {name: _arrange(problem, name, order, lowered[name]) for name, order in orders.items()}
    own = {"forward": "y", "grad_input": "x", "grad_weight": "w"}[problem.direction]
    operands = {("dy" if name == "y" else name): a for name, a in arranged.items()}
    return Lowering(problem, convolution, {**operands, _RESULT: arranged[own]})


def state_index(problem: Problem, index: tuple[int, ...]) -> tuple[int, ...]:
    """The index of a convolution's output as a person knows it: in the stated product's result, if there is one."""
    return lower_problem(problem.stated).restore_index(index) if problem.stated else index


def _arrange(problem: Problem, name: str, order: Labels, lowered: tuple[int, ...]) -> Arrangement:
    """The arrangement of one array; axes of size 1 that the convolution has no place for are dropped."""
    assert problem.product is not None
    labels, shape = problem.product.labels[name], problem.product.sizes[name]
    kept = [(label, size) for label, size in zip(labels, shape, strict=True) if label in order]
    assert math.prod(size for _, size in kept) == math.prod(shape)
    present = [label for label, _ in kept]
    taken = tuple(present.index(label) for label in order if label in present)
    return Arrangement(shape, tuple(size for _, size in kept), taken, lowered)
