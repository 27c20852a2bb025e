"""A model with the operators that ONNX lacks, or defines in words alone, written out in ONNX's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from samebits.networks.graph_names import list_captured
from samebits.networks.operator_writer import OperatorWriter, UnwritableError, Write
from samebits.networks.optimised_operators import NORMALIZATIONS, OPTIMISED
from samebits.networks.quantised_operators import OF_WORDS, QUANTISED
from samebits.networks.sequence_operators import LIST_MAKERS, SEQUENCES
from samebits.networks.value_types import read_tensor

PLAIN_DOMAINS = ("", "ai.onnx")
_MICROSOFT = "com.microsoft"
# Longer constants decide no sizes.
_LONGEST_LIST = 64


def find_writer(domain: str, operator: str, opset: int) -> Write | None:
    """What writes an operator out; None for one that is judged as it is, or that nothing here knows."""
    if domain == _MICROSOFT:
        return OPTIMISED.get(operator) or QUANTISED.get(operator)
    if domain not in PLAIN_DOMAINS:
        return None
    written = OF_WORDS.get(operator) or SEQUENCES.get(operator)
    return written or (NORMALIZATIONS.get(operator) if is_newer(operator, opset) else None)


def is_newer(operator: str, opset: int) -> bool:
    """Whether an operator is not one of ONNX's in this opset: it came later, or never."""
    import onnx

    return not onnx.defs.has(operator, opset, "")


def write_out(model: Any, opset: int) -> Any:
    """The model with such nodes written out as far as they can be; the model itself where it has none."""
    if not any(find_writer(node.domain, node.op_type, opset) for node in model.graph.node):
        return model
    import onnx

    written = onnx.ModelProto()
    written.CopyFrom(model)
    del written.graph.node[:]
    known = _Known(model, opset)
    for node in model.graph.node:
        made, constants = _write_node(node, known)
        known.learn(made, constants)
        written.graph.node.extend(made)
        written.graph.initializer.extend(onnx.numpy_helper.from_array(a, name) for name, a in constants.items())
    _drop_unread_lists(written.graph)
    return written


def _drop_unread_lists(graph: Any) -> None:
    """Drops what makes lists of tensors that nothing reads any more."""
    read, kept = {v.name for v in graph.output}, list[Any]()
    for node in reversed(graph.node):
        if node.op_type in LIST_MAKERS and not read & set(node.output):
            continue
        read |= {*node.input, *list_captured(node)}
        kept.append(type(node).FromString(node.SerializeToString()))
    if len(kept) < len(graph.node):
        del graph.node[:]
        graph.node.extend(reversed(kept))


def _write_node(node: Any, known: _Known) -> tuple[Sequence[Any], Mapping[str, np.ndarray]]:
    write = find_writer(node.domain, node.op_type, known.opset)
    if write is None:
        return [node], {}
    writer = OperatorWriter(node, known.types, known.constants, known.lists, known.opset)
    try:
        write(writer)
    except (UnwritableError, KeyError, ValueError, IndexError, TypeError, ArithmeticError):
        # Also one that lacks what it must have: engines say what is wrong with it.
        return [node], {}
    return writer.nodes, writer.made


class _Known:
    """What is known of the values so far: their types, and the arrays of those that are constants."""

    def __init__(self, model: Any, opset: int):
        import onnx

        graph = model.graph
        self.opset = opset
        self.lists: dict[str, Sequence[str]] = {}
        self.types: dict[str, Any] = {v.name: v.type for v in (*graph.input, *graph.value_info)}
        self.constants = {t.name: read_tensor(t) for t in graph.initializer}
        for node in graph.node:
            for attribute in node.attribute if node.op_type == "Constant" else ():
                if attribute.name == "value":
                    self.constants[node.output[0]] = onnx.numpy_helper.to_array(attribute.t)
        self._short = {name: t for name, a in self.constants.items() if (t := _shorten(name, a)) is not None}
        self._opsets = [onnx.helper.make_opsetid("", opset)]
        for name, array in self.constants.items():
            self._learn_array(name, array)

    def learn(self, nodes: Sequence[Any], constants: Mapping[str, np.ndarray]) -> None:
        """Takes in more nodes, and their constants."""
        for name, array in constants.items():
            self.constants[name] = array
            if (short := _shorten(name, array)) is not None:
                self._short[name] = short
            self._learn_array(name, array)
        for node in nodes:
            self.types |= self._infer(node)

    def _learn_array(self, name: str, array: np.ndarray) -> None:
        import onnx

        element = int(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
        self.types[name] = onnx.helper.make_tensor_type_proto(element, array.shape)

    def _infer(self, node: Any) -> Mapping[str, Any]:
        import onnx

        if node.domain not in PLAIN_DOMAINS:
            return {}
        if is_newer(node.op_type, self.opset):
            kept = self.types.get(node.input[0]) if node.input else None
            return {} if kept is None else {node.output[0]: kept}
        given = {v: self.types[v] for v in node.input if v in self.types}
        short = {v: self._short[v] for v in node.input if v in self._short}
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opset, "")
            return onnx.shape_inference.infer_node_outputs(schema, node, given, short, opset_imports=self._opsets)
        except Exception:  # It raises anything; what it says of the whole model is what counts.
            return {}


def _shorten(name: str, array: np.ndarray) -> Any:
    import onnx

    return onnx.numpy_helper.from_array(array, name) if array.size <= _LONGEST_LIST else None


def stand_in(model: Any, opset: int) -> Any:
    """A copy for inferring types: what returns its first input's type, and is newer than the opset, is Identity."""
    import onnx

    if not any(n.domain in PLAIN_DOMAINS and is_newer(n.op_type, opset) for n in model.graph.node):
        return model
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for node in plain.graph.node:
        if node.domain in PLAIN_DOMAINS and is_newer(node.op_type, opset):
            node.CopyFrom(onnx.helper.make_node("Identity", node.input[:1], [node.output[0]], name=node.name))
    return plain
