"""Faults put into ONNX models by plain surgery: what a converter or an engine does wrong, at a node of one's choice.

Each takes a model and a place, changes one operation there and keeps all names, so that the faulty model runs beside
the right one in any engine. Returns False where the place has nothing that the fault could spoil.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper, numpy_helper

Model = onnx.ModelProto
Fault = Callable[[Model, int], bool]
# 2^13 + 1: what is left of float32's 24 bits are TF32's 11 (Dekker's splitting).
_SPLITTER = np.float32(8193.0)


def _constant(model: Model, name: str, array: np.ndarray) -> str:
    model.graph.initializer.append(numpy_helper.from_array(array, name))
    return name


def _weights(model: Model, node: onnx.NodeProto, which: int) -> onnx.TensorProto | None:
    if len(node.input) <= which:
        return None
    return next((t for t in model.graph.initializer if t.name == node.input[which]), None)


def _change_weights(model: Model, place: int, which: int, change: Callable[[np.ndarray], np.ndarray | None]) -> bool:
    """Another node may read the same weights: the changed ones have a name of their own."""
    node = model.graph.node[place]
    tensor = _weights(model, node, which)
    changed = change(numpy_helper.to_array(tensor)) if tensor is not None else None
    if tensor is None or changed is None or np.array_equal(changed, numpy_helper.to_array(tensor)):
        return False
    node.input[which] = _constant(model, f"{node.input[which]}#{place}", np.ascontiguousarray(changed))
    return True


def _insert(model: Model, place: int, nodes: list[onnx.NodeProto]) -> None:
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*rest[:place], *nodes, *rest[place:]])


def _round_input(model: Model, place: int, make: Callable[[str, str], list[onnx.NodeProto]]) -> None:
    """What a node multiplies, rounded first."""
    node = model.graph.node[place]
    source, name = node.input[0], f"{node.input[0]}#rounded{place}"
    node.input[0] = name
    _insert(model, place, make(source, name))


def _through(format_: int) -> Callable[[str, str], list[onnx.NodeProto]]:
    def make(source: str, name: str) -> list[onnx.NodeProto]:
        cast = helper.make_node("Cast", [source], [f"{name}#narrow"], to=format_)
        return [cast, helper.make_node("Cast", [f"{name}#narrow"], [name], to=onnx.TensorProto.FLOAT)]

    return make


def _round_array(array: np.ndarray, bits: int) -> np.ndarray:
    """float32 values rounded to so many significant bits, ties to even."""
    codes = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    drop = 24 - bits
    codes = (codes + (1 << (drop - 1)) - 1 + ((codes >> drop) & 1)) >> drop << drop
    return codes.astype(np.uint32).view(np.float32)


def tf32_operands(model: Model, place: int) -> bool:
    """x by Dekker's splitting, w beforehand."""

    def make(source: str, name: str) -> list[onnx.NodeProto]:
        factor = _constant(model, f"{name}#splitter", np.array(_SPLITTER))
        return [
            helper.make_node("Mul", [source, factor], [f"{name}#large"]),
            helper.make_node("Sub", [f"{name}#large", source], [f"{name}#rest"]),
            helper.make_node("Sub", [f"{name}#large", f"{name}#rest"], [name]),
        ]

    if not _change_weights(model, place, 1, lambda w: _round_array(w, 11)):
        return False
    _round_input(model, place, make)
    return True


def half_convolution(model: Model, place: int) -> bool:
    """Operands and result in float16."""
    if not _change_weights(model, place, 1, lambda w: w.astype(np.float16).astype(np.float32)):
        return False
    node = model.graph.node[place]
    _round_output(model, place, node)
    _round_input(model, place, _through(onnx.TensorProto.FLOAT16))
    return True


def _round_output(model: Model, place: int, node: onnx.NodeProto) -> None:
    output, name = node.output[0], f"{node.output[0]}#exact"
    node.output[0] = name
    _insert(model, place + 1, _through(onnx.TensorProto.FLOAT16)(name, output))


def half_weights(model: Model, place: int) -> bool:
    """Weights stored in float16."""
    return _change_weights(model, place, 1, lambda w: w.astype(np.float16).astype(np.float32))


def bfloat16_operands(model: Model, place: int) -> bool:
    """x and w in bfloat16."""
    if not _change_weights(model, place, 1, lambda w: _round_array(w, 8)):
        return False
    _round_input(model, place, _through(onnx.TensorProto.BFLOAT16))
    return True


def half_partial_sums(model: Model, place: int) -> bool:
    """Two halves of the channels, each sum kept in float16, added there."""
    node = model.graph.node[place]
    tensor = _weights(model, node, 1)
    group = next((a.i for a in node.attribute if a.name == "group"), 1)
    if node.op_type != "Conv" or tensor is None or group != 1 or tensor.dims[1] < 4:
        return False
    w, half = numpy_helper.to_array(tensor), tensor.dims[1] // 2
    name, parts, nodes = f"{node.output[0]}#{place}", [], []
    for i, part in enumerate((slice(0, half), slice(half, None))):
        ends = [(0, half), (half, w.shape[1])][i]
        limits = [_constant(model, f"{name}#{i}{e}", np.array([v], np.int64)) for e, v in zip("be", ends, strict=True)]
        axis = _constant(model, f"{name}#{i}axis", np.array([1], np.int64))
        nodes.append(helper.make_node("Slice", [node.input[0], *limits, axis], [f"{name}#x{i}"]))
        weights = _constant(model, f"{name}#w{i}", np.ascontiguousarray(w[:, part]))
        inputs = [f"{name}#x{i}", weights, *(list(node.input[2:]) if i else [])]
        conv = helper.make_node("Conv", inputs, [f"{name}#y{i}"])
        conv.attribute.extend(node.attribute)
        nodes += [conv, *_through(onnx.TensorProto.FLOAT16)(f"{name}#y{i}", f"{name}#h{i}")]
        parts.append(f"{name}#h{i}")
    # An addition in float16 itself is one that ONNX Runtime does in float32.
    nodes.append(helper.make_node("Add", parts, [f"{name}#sum"]))
    nodes += _through(onnx.TensorProto.FLOAT16)(f"{name}#sum", node.output[0])
    del model.graph.node[place]
    _insert(model, place, nodes)
    return True


def lose_bias(model: Model, place: int) -> bool:
    """The bias is zero."""
    node = model.graph.node[place]
    which = 2 if node.op_type != "Add" else 1
    return _change_weights(model, place, which, np.zeros_like)


def shift_bias(model: Model, place: int) -> bool:
    """The bias of the channel before."""
    node = model.graph.node[place]
    return _change_weights(model, place, 2 if node.op_type != "Add" else 1, lambda b: np.roll(b, 1))


def move_pads(model: Model, place: int) -> bool:
    """All padding at the end."""
    for attribute in model.graph.node[place].attribute:
        if attribute.name == "pads" and any(attribute.ints):
            rank = len(attribute.ints) // 2
            total = [attribute.ints[i] + attribute.ints[rank + i] for i in range(rank)]
            attribute.ints[:] = [0] * rank + total
            return True
    return False


def flip_kernel(model: Model, place: int) -> bool:
    """A true convolution."""
    return _change_weights(
        model, place, 1, lambda w: np.flip(w, tuple(range(2, w.ndim))) if w.ndim > 2 and max(w.shape[2:]) > 1 else None
    )


def swap_axes(model: Model, place: int) -> bool:
    """The last two axes of the weights exchanged."""
    return _change_weights(
        model, place, 1, lambda w: w.swapaxes(-1, -2) if w.shape[-1] == w.shape[-2] and w.shape[-1] > 1 else None
    )


def drop_operation(model: Model, place: int) -> bool:
    """An activation, or an addition of two tensors, left out: the first input goes on."""
    node = model.graph.node[place]
    same = helper.make_node("Identity", [node.input[0]], list(node.output))
    del model.graph.node[place]
    _insert(model, place, [same])
    return True


def lose_upper_bound(model: Model, place: int) -> bool:
    """Clip without its maximum."""
    node = model.graph.node[place]
    if node.op_type != "Clip" or len(node.input) < 3:
        return False
    del node.input[2]
    return True


def change_epsilon(model: Model, place: int) -> bool:
    """A normalisation with the smallest usual epsilon replaced by a large one."""
    node = model.graph.node[place]
    kept = [a for a in node.attribute if a.name != "epsilon"]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("epsilon", 1e-3)])
    return True


def approximate_gelu(model: Model, place: int) -> bool:
    """Gelu by its tanh form."""
    node = model.graph.node[place]
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("approximate", "tanh"))
    return True


# The fault, which operators it may spoil, and the cause that is to be found.
FAULTS: tuple[tuple[Fault, tuple[str, ...], str], ...] = (
    (tf32_operands, ("Conv", "ConvTranspose", "MatMul", "Gemm"), "reduced-precision-operands"),
    (half_convolution, ("Conv", "MatMul", "Gemm"), "reduced-precision-operands"),
    (half_weights, ("Conv", "ConvTranspose", "MatMul", "Gemm"), "reduced-precision-operands"),
    (bfloat16_operands, ("Conv", "ConvTranspose", "MatMul", "Gemm"), "reduced-precision-operands"),
    (half_partial_sums, ("Conv",), "low-precision-accumulator"),
    (lose_bias, ("Conv", "Gemm"), "dropped-attribute"),
    (shift_bias, ("Conv", "Gemm"), "axis-order"),
    (move_pads, ("Conv",), "padding"),
    (flip_kernel, ("Conv",), "axis-order"),
    (swap_axes, ("Conv",), "axis-order"),
    (drop_operation, ("Relu", "Clip", "Add", "Sigmoid", "Gelu", "Tanh"), "fusion"),
    (lose_upper_bound, ("Clip",), "fusion"),
    (change_epsilon, ("LayerNormalization", "InstanceNormalization"), "dropped-attribute"),
    (approximate_gelu, ("Gelu",), "dropped-attribute"),
)


def list_places(model: Model, operators: tuple[str, ...]) -> list[int]:
    """An early node of these operators, two in the middle, and a late one."""
    found = [i for i, node in enumerate(model.graph.node) if node.op_type in operators]
    last = len(found) - 1
    return [found[i] for i in sorted({0, last // 3, 2 * last // 3, last})] if found else []
