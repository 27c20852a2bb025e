"""The shapes of products: `linear` as torch's, `matmul` as NumPy's, with one name for every axis.

Every axis of an operand or a result has a label: `m` rows and `n` columns of the result, `k` what is summed, and one
label for each axis of the batch, the last one nearest to the rows. NumPy's rules hold: batches are aligned at their
last axes, an axis of size 1 is repeated, and an operand with one axis has no row (or column) of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from samebits.errors import ProblemShapeError

Shape = tuple[int, ...]
Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProductShapes:
    """Labels of each operand's axes and of the result's, and how long each label is in each of them."""

    labels: dict[str, Labels]
    sizes: dict[str, Shape]

    def find_size(self, name: str, label: str) -> int:
        """The size an operand has along a label; 1 where it has no such axis."""
        labels = self.labels[name]
        return self.sizes[name][labels.index(label)] if label in labels else 1

    @property
    def length(self) -> int:
        """K: how many products each sum has."""
        return self.find_size("x", "k")

    @property
    def shared(self) -> Labels:
        """Batch axes along which each x meets its own w."""
        return tuple(b for b in self._batch if self.find_size("x", b) > 1 and self.find_size("w", b) > 1)

    @property
    def of_x(self) -> Labels:
        """Axes of the result that come from x alone, the rows last."""
        own = tuple(b for b in self._batch if self.find_size("w", b) == 1)
        return (*own, *(label for label in ("m",) if label in self.labels["y"]))

    @property
    def of_w(self) -> Labels:
        """Axes of the result that come from w alone, the columns last."""
        own = tuple(b for b in self._batch if self.find_size("x", b) == 1 and self.find_size("w", b) > 1)
        return (*own, *(label for label in ("n",) if label in self.labels["y"]))

    @property
    def _batch(self) -> Labels:
        return tuple(label for label in self.labels["y"] if label not in ("m", "n"))

    def count(self, labels: Labels) -> int:
        """The product of the result's sizes along labels."""
        return math.prod(self.find_size("y", label) for label in labels)


def find_product_shapes(kind: str, x: Shape, w: Shape) -> ProductShapes:
    """The labels and sizes of a product; raises ProblemShapeError where the shapes do not multiply."""
    return _find_linear(x, w) if kind == "linear" else _find_matmul(x, w)


def _find_linear(x: Shape, w: Shape) -> ProductShapes:
    if len(w) != 2:
        raise ProblemShapeError(f"linear needs w with 2 sizes, N x K, not {len(w)}")
    if not x:
        raise ProblemShapeError("linear needs x with at least 1 size, K")
    if x[-1] != w[1]:
        raise ProblemShapeError(f"the last size of x is {x[-1]}, but w, N x K, has {w[1]}; they must be equal")
    batch = _name_batch(len(x) - 1)
    labels = {"x": (*batch, "k"), "w": ("n", "k"), "bias": ("n",), "y": (*batch, "n")}
    return ProductShapes(labels, {"x": x, "w": w, "bias": w[:1], "y": (*x[:-1], w[0])})


def _find_matmul(x: Shape, w: Shape) -> ProductShapes:
    if not x or not w:
        raise ProblemShapeError("matmul needs operands with at least 1 size each")
    of_x = ("m", "k")[-len(x) :]
    of_w = ("k", "n") if len(w) > 1 else ("k",)
    length = w[of_w.index("k") - len(of_w)]
    if x[-1] != length:
        where = "the last but one size of w" if len(w) > 1 else "w"
        raise ProblemShapeError(f"the last size of x is {x[-1]}, but {where} is {length}; they must be equal")
    batch_x, batch_w = x[: len(x) - len(of_x)], w[: len(w) - len(of_w)]
    names = _name_batch(max(len(batch_x), len(batch_w)))
    sizes: list[int] = []
    for i in range(len(names), 0, -1):
        a = batch_x[-i] if i <= len(batch_x) else 1
        b = batch_w[-i] if i <= len(batch_w) else 1
        if a != b and 1 not in (a, b):
            raise ProblemShapeError(f"batch sizes {a} of x and {b} of w are neither equal nor is one of them 1")
        sizes.append(b if a == 1 else a)
    labels = {
        "x": (*names[len(names) - len(batch_x) :], *of_x),
        "w": (*names[len(names) - len(batch_w) :], *of_w),
        "y": (*names, *(label for label in ("m",) if label in of_x), *(label for label in ("n",) if label in of_w)),
    }
    own = {label: size for name, shape in (("x", x), ("w", w)) for label, size in zip(labels[name], shape, strict=True)}
    result = (*sizes, *(own[label] for label in labels["y"][len(names) :]))
    return ProductShapes(labels, {"x": x, "w": w, "y": result})


def _name_batch(count: int) -> Labels:
    """batch for one axis; batch0, batch1 ... for several."""
    return ("batch",) if count == 1 else tuple(f"batch{i}" for i in range(count))
