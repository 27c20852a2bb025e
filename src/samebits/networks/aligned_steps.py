"""Steps of two files that do one thing, where exporters or optimizers wrote it with other nodes.

A step is a node, or a product with what exporters write as one with it: the batch normalisation behind it, the constant
that is added, the shape that a row-wise product gets back. Two steps correspond where they are of one kind, make a
value of the same shape, and lead back, through as many products with weights of the same shapes, to the same values
that correspond already. What only moves numbers, or follows from sizes, is part of what reads it.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from samebits.networks.folded_weights import Folded, find_norm, scale_weights
from samebits.networks.network import Network, Node
from samebits.networks.operations import MOVES, OF_SIZES
from samebits.networks.product_nodes import PRODUCTS

# Operators that compute one function where they make values of one shape of the same values.
KINDS = {
    "GlobalAveragePool": "mean",
    "ReduceMean": "mean",
    "Gemm": "matmul",
    "MatMul": "matmul",
}
# These give all their numbers another shape.
_RESHAPES = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
# So many nodes may lie between a step and the values that both files have: an attention has about thirty.
_MOST_BETWEEN = 60


@dataclass(frozen=True)
class Step:
    """What a step is (`kind`), what it makes and reads, and the weights of a product as that file has them.

    `inner` is what it makes on the way, "" where there is nothing: a product before a row is added to it, and rows
    before they get another shape.
    """

    kind: str
    makes: tuple[str, ...]
    inner: tuple[str, str]
    reads: tuple[str, ...]
    shape: tuple[int | None, ...]
    constants: tuple[tuple[int, ...], ...]
    weights: np.ndarray | None


class Steps:
    """The steps of one file; `folded` are its constants."""

    def __init__(self, network: Network, folded: Folded) -> None:
        self.network, self._folded = network, folded
        # Values that follow from constants and sizes.
        self._known = set(folded)
        for node in network.nodes:
            if node.operator in OF_SIZES or all(v in self._known for v in node.inputs if v):
                self._known.update(v for v in node.outputs if v)

    @functools.cached_property
    def by_look(self) -> Mapping[tuple[object, ...], Sequence[Step]]:
        """All steps by kind and by the shape of what they make."""
        found: dict[tuple[object, ...], list[Step]] = {}
        for node in self.network.nodes:
            if (step := self.find(node)) is not None:
                found.setdefault((step.kind, step.shape), []).append(step)
        return found

    def find(self, node: Node) -> Step | None:
        """The step that begins with a node; None where its result is constant or its shape not known."""
        end, weights, alone, rows = node, None, "", ""
        if node.operator in MOVES or not node.outputs[0]:
            return None
        if node.operator in PRODUCTS:
            weights = self._folded.get(node.inputs[1])
            if (behind := self._find_behind(node)) is not None:
                end, alone = behind, node.outputs[0] if behind.operator == "Add" else ""
                weights = scale_weights(self._folded, node, behind, weights)
            if (reshape := self._find_reshape(end)) is not None:
                rows, end = end.outputs[0], reshape
        elif node.operator in ("BatchNormalization", "Add") and self._is_absorbed(node):
            return None
        type_ = self.network.types.get(end.outputs[0])
        if type_ is None or None in type_.shape or any(v in self._known for v in end.outputs if v):
            return None
        kind = KINDS.get(node.operator, node.operator)
        reads = tuple(v for v in node.inputs if v and v not in self._known)
        constants: tuple[tuple[int, ...], ...] = ()
        if weights is not None:
            constants = (tuple(sorted(weights.shape)),)
        elif kind == node.operator:
            held = [self._folded[v] for v in node.inputs if v in self._folded]
            constants = tuple(array.shape for array in held if array.size > 1)
        return Step(kind, end.outputs, (alone, rows), reads, type_.shape, constants, weights)

    def _find_behind(self, product: Node) -> Node | None:
        """The batch normalisation of a product, or what adds a constant to it, if that alone reads it."""
        value = product.outputs[0]
        readers = [self.network.nodes[r] for r in self.network.consumers.get(value, ())]
        if len(readers) != 1 or value in self.network.outputs:
            return None
        if find_norm(self.network, product) is not None:
            return readers[0]
        rows = [self._folded[v] for v in readers[0].inputs if v in self._folded]
        return readers[0] if readers[0].operator == "Add" and [row.ndim for row in rows] == [1] else None

    def _find_reshape(self, node: Node) -> Node | None:
        """What gives the rows of a product their shape back, if that alone reads them."""
        value = node.outputs[0]
        readers = [self.network.nodes[r] for r in self.network.consumers.get(value, ())]
        known = self.network.types.get(value)
        is_rows = known is not None and len(known.shape) == 2 and value not in self.network.outputs
        return readers[0] if is_rows and [r.operator for r in readers] == ["Reshape"] else None

    def _is_absorbed(self, node: Node) -> bool:
        makers = [self.network.nodes[self.network.producers[v]] for v in node.inputs if v in self.network.producers]
        return any(m.operator in PRODUCTS and self._find_behind(m) is node for m in makers)

    def lead_back(self, step: Step, shared: Collection[str], names: Mapping[str, str]) -> Counter[object] | None:
        """The nearest values behind a step that both files have, by the first one's names, and the products between.

        Each product is there by the shape of its weights. None where the values are far.
        """
        asked, seen = list(step.reads), set[str]()
        found: Counter[object] = Counter()
        while asked:
            value = asked.pop()
            named = names.get(value, value)
            maker = self.network.nodes[self.network.producers[value]] if value in self.network.producers else None
            if maker is None or (named in shared and maker.operator not in _RESHAPES):
                found[named] = 1
            elif value not in seen:
                seen.add(value)
                if len(seen) > _MOST_BETWEEN:
                    return None
                if maker.operator in PRODUCTS:
                    weights = self._folded.get(maker.inputs[1])
                    found[None if weights is None else tuple(sorted(weights.shape))] += 1
                asked += [v for v in maker.inputs if v and v not in self._known]
        return found


def choose_step(wanted: Step, candidates: Sequence[Step], names: Mapping[str, str]) -> Step | None:
    """The one step that corresponds to `wanted`; None where several may.

    Of several, those that read the same values directly come first; then the product whose weights point most nearly
    where those wanted do.
    """
    same = [c for c in candidates if c.constants == wanted.constants and len(c.makes) == len(wanted.makes)]
    direct = [c for c in same if Counter(c.reads) == Counter(names.get(v, v) for v in wanted.reads)]
    for left in (direct, same):
        if len(left) == 1:
            return left[0]
        likeness = [_compare_directions(wanted.weights, c.weights) for c in left]
        if likeness and likeness.count(max(likeness)) == 1:
            return left[likeness.index(max(likeness))]
    return None


def _compare_directions(a: np.ndarray | None, b: np.ndarray | None) -> float:
    """The cosine of two weights; 0 where they cannot be compared."""
    if a is None or b is None:
        return 0.0
    if a.shape != b.shape:
        b = b.T
    if a.shape != b.shape:
        return 0.0
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    cosine = float(x @ y) / size if size else 0.0
    return cosine if np.isfinite(cosine) else 0.0
