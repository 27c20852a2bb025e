"""Einsum of two operands as what it is: transpositions, a matrix product, and transpositions back.

So it is judged, explained and replayed as any product. Engines run the model as its file has it: they do not know the
values in between.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from samebits.networks.network import Node, ValueType

_EQUATION = re.compile(r"([A-Za-z]+),([A-Za-z]+)(?:->([A-Za-z]*))?")


def expand_einsums(
    nodes: Iterable[Node], types: Mapping[str, ValueType]
) -> tuple[tuple[Node, ...], dict[str, np.ndarray]]:
    """The nodes with every Einsum of two operands expanded where its sizes are known, and the shapes that this needs.

    Left as they are: ellipses, diagonals (a letter twice in one operand) and letters that are summed in one operand.
    """
    expanded: list[Node] = []
    constants: dict[str, np.ndarray] = {}
    for node in nodes:
        made = _Expansion.begin(node, types) if node.operator == "Einsum" else None
        if made is None:
            expanded.append(node)
            continue
        made.build()
        expanded += made.nodes
        constants |= made.constants
    return tuple(expanded), constants


class _Expansion:
    """One Einsum: which letters are batches, which are summed, which belong to one operand alone."""

    def __init__(self, node: Node, sides: tuple[str, str], output: str, sizes: Mapping[str, int]):
        self.node, self.sides, self.output, self.sizes = node, sides, output, sizes
        a, b = sides
        self.batch = [c for c in output if c in a and c in b]
        self.summed = [c for c in a if c in b and c not in output]
        self.left = [c for c in output if c not in b]
        self.right = [c for c in output if c not in a]
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}

    @classmethod
    def begin(cls, node: Node, types: Mapping[str, ValueType]) -> _Expansion | None:
        """The expansion of a node; None for a node that stays as it is."""
        found = _EQUATION.fullmatch(str(node.attributes.get("equation", "")).replace(" ", ""))
        if found is None or len(node.inputs) != 2:
            return None
        a, b, output = found[1], found[2], found[3]
        if output is None:
            output = "".join(sorted(c for c in {*a, *b} if (a + b).count(c) == 1))
        known = [types[v].shape if v in types else () for v in node.inputs]
        if any(len(shape) != len(letters) for shape, letters in zip(known, (a, b), strict=True)):
            return None
        pairs = [p for letters, shape in zip((a, b), known, strict=True) for p in zip(letters, shape, strict=True)]
        sizes = {letter: size for letter, size in pairs if size is not None}
        is_repeated = any(len(set(letters)) != len(letters) for letters in (a, b, output))
        is_alone = any((c in a) != (c in b) and c not in output for c in {*a, *b})
        if is_repeated or is_alone or {*output} - {*a, *b} or any(sizes.get(c) != size for c, size in pairs):
            return None
        return cls(node, (a, b), output, sizes)

    def build(self) -> None:
        """The nodes, in sequence."""
        a, b = self.node.inputs
        x = self._arrange(a, self.sides[0], (self.left, self.summed), "x")
        w = self._arrange(b, self.sides[1], (self.summed, self.right), "w")
        made = [*self.batch, *self.left, *self.right]
        order = [made.index(c) for c in self.output]
        turns, splits = order != sorted(order), len(self.left) != 1 or len(self.right) != 1
        output = self.node.outputs[0]
        product = self._name("product") if turns or splits else output
        self._add("MatMul", (x, w), product, self.node.name)
        if splits:
            apart = self._name("apart") if turns else output
            product = self._reshape(product, [self.sizes[c] for c in made], apart)
        if turns:
            self._add("Transpose", (product,), output, f"{self.node.name}#y", {"perm": order})

    def _arrange(self, value: str, letters: str, parts: tuple[list[str], list[str]], side: str) -> str:
        """An operand with its batches first and each of its two parts as one axis."""
        wanted = [*self.batch, *parts[0], *parts[1]]
        order = [letters.index(c) for c in wanted]
        if order != sorted(order):
            turned = self._name(side)
            self._add("Transpose", (value,), turned, f"{self.node.name}#{side}", {"perm": order})
            value = turned
        if any(len(part) != 1 for part in parts):
            shape = [self.sizes[c] for c in self.batch]
            shape += [math.prod(self.sizes[c] for c in part) for part in parts]
            value = self._reshape(value, shape, self._name(f"{side}_flat"))
        return value

    def _reshape(self, value: str, shape: list[int], made: str) -> str:
        self.constants[f"{made}.shape"] = np.array(shape, np.int64)
        self._add("Reshape", (value, f"{made}.shape"), made, f"{self.node.name}#{made}")
        return made

    def _name(self, name: str) -> str:
        return f"{self.node.outputs[0]}#{name}"

    def _add(
        self, operator: str, inputs: tuple[str, ...], output: str, name: str, attributes: dict[str, Any] | None = None
    ) -> None:
        import onnx

        stored = onnx.helper.make_node(operator, list(inputs), [output], name=name, **(attributes or {}))
        self.nodes.append(Node(name, operator, inputs, (output,), attributes or {}, stored))
