"""A function of rows as an ONNX model: ONNX's own operator, or the operators that exporters write.

Source: ONNX, docs/Operators.md (Softmax 13, LayerNormalization 17, Gelu 20, RMSNormalization and RotaryEmbedding 23).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from samebits.numbers.format import numpy_dtype
from samebits.problems.row_functions import RowFunction

_OPSET, _IR = 23, 11
_PLAIN_OPSET, _PLAIN_IR = 17, 8


def build_function(onnx: Any, problem: RowFunction, *, plain: bool) -> Any:
    """The model that computes `y` of the problem's operands by their names; `plain`: of operators up to opset 17."""
    dtype = numpy_dtype(problem.dtype)
    element = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    built = _Nodes(onnx, dtype)
    ways = {"softmax": _add_softmax, "layernorm": _add_layer_norm, "rmsnorm": _add_rms_norm, "gelu": _add_gelu,
            "rope": _add_rotation}  # fmt: skip
    ways[problem.kind](built, problem, plain)
    inputs = [
        onnx.helper.make_tensor_value_info(name, element, shape) for name, shape in problem.operand_shapes.items()
    ]
    graph = onnx.helper.make_graph(
        built.nodes,
        "samebits",
        inputs,
        [onnx.helper.make_tensor_value_info("y", element, problem.x)],
        [onnx.numpy_helper.from_array(array, name) for name, array in built.constants.items()],
    )
    opset = onnx.helper.make_opsetid("", _PLAIN_OPSET if plain else _OPSET)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=_PLAIN_IR if plain else _IR)


class _Nodes:
    """Nodes that are written one after the other, and their constants."""

    def __init__(self, onnx: Any, dtype: np.dtype):
        self.onnx, self.dtype = onnx, dtype
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def add(self, operator: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        made = to or f"v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), [made], **attributes))
        return made

    def hold(self, value: Any, dtype: Any = None) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array(value, dtype or self.dtype)
        return name


def _add_softmax(nodes: _Nodes, problem: RowFunction, plain: bool) -> None:
    nodes.add("Softmax", "x", to="y", axis=problem.axis)


def _add_layer_norm(nodes: _Nodes, problem: RowFunction, plain: bool) -> None:
    weight = "weight" if problem.has_weight else nodes.hold(np.ones(problem.normalized_shape))
    given = ["x", weight, *(["bias"] if problem.has_bias else [])]
    nodes.add("LayerNormalization", *given, to="y", axis=-problem.axes, epsilon=problem.eps)


def _add_rms_norm(nodes: _Nodes, problem: RowFunction, plain: bool) -> None:
    if not plain:
        weight = "weight" if problem.has_weight else nodes.hold(np.ones(problem.normalized_shape))
        nodes.add("RMSNormalization", "x", weight, to="y", axis=-problem.axes, epsilon=problem.eps)
        return
    squares = nodes.add("Mul", "x", "x")
    mean = nodes.add("ReduceMean", squares, axes=list(range(-problem.axes, 0)), keepdims=1)
    root = nodes.add("Sqrt", nodes.add("Add", mean, nodes.hold(problem.eps)))
    normalized = nodes.add("Div", "x", root, to="" if problem.has_weight else "y")
    if problem.has_weight:
        nodes.add("Mul", normalized, "weight", to="y")


def _add_gelu(nodes: _Nodes, problem: RowFunction, plain: bool) -> None:
    if not plain:
        nodes.add("Gelu", "x", to="y", approximate=problem.approximate)
        return
    if problem.approximate == "tanh":
        cube = nodes.add("Mul", nodes.add("Mul", "x", "x"), "x")
        bent = nodes.add("Add", "x", nodes.add("Mul", cube, nodes.hold(0.044715)))
        bent = nodes.add("Tanh", nodes.add("Mul", bent, nodes.hold(math.sqrt(2 / math.pi))))
    else:
        bent = nodes.add("Erf", nodes.add("Div", "x", nodes.hold(math.sqrt(2))))
    half = nodes.add("Mul", "x", nodes.add("Add", bent, nodes.hold(1.0)))
    nodes.add("Mul", half, nodes.hold(0.5), to="y")


def _add_rotation(nodes: _Nodes, problem: RowFunction, plain: bool) -> None:
    if not plain:
        positions = nodes.hold(np.tile(np.arange(problem.x[2]), (problem.x[0], 1)), np.int64)
        given = {"num_heads": problem.x[1], "interleaved": int(problem.interleaved)}
        nodes.add("RotaryEmbedding", "x", "cos", "sin", positions, to="y", **given)
        return
    a, b = _part(nodes, problem)
    first = nodes.add("Sub", nodes.add("Mul", a, "cos"), nodes.add("Mul", b, "sin"))
    second = nodes.add("Add", nodes.add("Mul", b, "cos"), nodes.add("Mul", a, "sin"))
    if not problem.interleaved:
        nodes.add("Concat", first, second, to="y", axis=-1)
        return
    last = nodes.hold([4], np.int64)
    joined = nodes.add("Concat", nodes.add("Unsqueeze", first, last), nodes.add("Unsqueeze", second, last), axis=-1)
    nodes.add("Reshape", joined, nodes.hold(problem.x, np.int64), to="y")


def _part(nodes: _Nodes, problem: RowFunction) -> Iterator[str]:
    """The first and the second numbers of all pairs."""
    features, axis = problem.x[3], nodes.hold([3], np.int64)
    half = features // 2
    spans = [(0, features, 2), (1, features, 2)] if problem.interleaved else [(0, half, 1), (half, features, 1)]
    for span in spans:
        begin, end, step = (nodes.hold([one], np.int64) for one in span)
        yield nodes.add("Slice", "x", begin, end, axis, step)
