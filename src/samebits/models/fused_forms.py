"""What engines make of a product and the nodes behind it: forms whose bits differ from those of the plain sequence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from samebits.models.network import Node
from samebits.models.unit_causes import add_bias, find_row
from samebits.problems import Problem


@dataclass(frozen=True)
class Candidate:
    """A product with so much of what follows as one problem expresses, and the nodes that remain.

    `addend` is what its blocks are added to, where that is not nothing; `makes` the value that comes of it.
    """

    problem: Problem
    operands: dict[str, np.ndarray]
    rest: tuple[Node, ...]
    makes: str
    constant_weights: bool
    addend: np.ndarray | None = None


def fold_scale(plain: Candidate, rest: Sequence[Node], folded: Mapping[str, np.ndarray]) -> Iterator[Candidate]:
    """A constant factor behind the product (and its bias) multiplied into an operand beforehand, and into the bias."""
    problem, operands, left = plain.problem, plain.operands, list(rest)
    output = plain.makes
    if left and left[0].operator == "Add" and not problem.bias:
        row = find_row(problem, folded.get(_other(left[0], output)))
        if row is None:
            return
        problem, operands = add_bias(problem, operands, row)
        output = left.pop(0).outputs[0]
    if (
        not left
        or left[0].operator not in ("Mul", "Div")
        or (left[0].operator == "Div" and left[0].inputs[0] != output)
    ):
        return
    factor = folded.get(_other(left[0], output))
    if factor is None or factor.dtype != np.float32 or problem.dtype != "float32":
        return
    with np.errstate(divide="ignore"):
        factor = factor if left[0].operator == "Mul" else (np.float32(1) / factor).astype(np.float32)
    scaled = replace(plain, problem=problem, rest=tuple(left[1:]), makes=left[0].outputs[0])
    row = (
        np.broadcast_to(factor.reshape(-1), (1,))
        if factor.size == 1
        else find_row(replace(problem, bias=False), factor)
    )
    if row is None:
        return
    bias = {"bias": operands["bias"] * row} if problem.bias else {}
    # Where w's output channels lie: first, but last for matmul.
    shaped = row if problem.kind == "matmul" or row.size == 1 else row.reshape(-1, *(1,) * (len(problem.w) - 1))
    yield replace(scaled, operands={**operands, "w": operands["w"] * shaped, **bias})
    if row.size == 1:
        yield replace(scaled, operands={**operands, "x": operands["x"] * row, **bias})


def _other(node: Node, value: str) -> str:
    """The input of a node that is not this value."""
    return next((v for v in node.inputs if v != value), "")


def multiply_instead(node: Node, folded: Mapping[str, np.ndarray]) -> Node:
    """A division by one constant as engines fuse it: a product with its rounded reciprocal; any other node as it is."""
    import onnx

    divisor = folded.get(node.inputs[1]) if node.operator == "Div" and len(node.inputs) == 2 else None
    if divisor is None or divisor.size != 1 or divisor.dtype != np.float32:
        return node
    name = f"{node.inputs[1]}#reciprocal"
    with np.errstate(divide="ignore"):
        value = onnx.numpy_helper.from_array((np.float32(1) / divisor).astype(np.float32))
    constant = onnx.helper.make_node("Constant", [], [name], value=value)
    stored = onnx.helper.make_node("Mul", [node.inputs[0], name], list(node.outputs))
    return Node(node.name, "Mul", (node.inputs[0], name), node.outputs, {}, (constant, stored))
