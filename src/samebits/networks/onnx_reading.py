"""ONNX files, read as those of a stranger: nothing is believed before it is checked, no file outside is touched."""

from __future__ import annotations

import contextlib
import graphlib
import math
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samebits.errors import ModelError, ResourceLimitError
from samebits.limits import NODES, RESULT_BYTES, VALUE_BYTES, Deadline
from samebits.networks.einsum_nodes import expand_einsums
from samebits.networks.graph_names import list_captured, list_graphs
from samebits.networks.network import Network, Node, ValueType
from samebits.networks.sequence_operators import SEQUENCES
from samebits.networks.value_types import DEFAULT_TIME_LIMIT_S, first_line, infer_types, read_tensor, read_type
from samebits.networks.written_out import PLAIN_DOMAINS, find_writer, is_newer, stand_in, write_out
from samebits.regular_files import read_regular
from samebits.sums.tiles.memory import count_available_bytes

# The most that a protocol buffer holds. Where external data does not fit in one together with everything else, tensors
# of so many bytes stay in their files.
LARGEST_BYTES, _MAPPED_BYTES = 2**31 - 1, 2**16
_LONGEST_RANK = 16
# NumPy's arrays have no more axes.
_MOST_AXES = 64
# Elements of fewer than eight bits lie packed in a file; in memory each has a byte.
_PACKED_BITS = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6}
# How NumPy calls the dtype of strings.
_TEXT = "object"


def read_onnx(path: str | Path, *, time_limit_s: float = DEFAULT_TIME_LIMIT_S) -> Network:
    """The network in an ONNX file, with external data that lies beside it.

    Raises ModelError for what is no ONNX, is damaged, has loops, unknown operators or data outside of its
    folder; ResourceLimitError for what does not fit in memory, beyond the limits, or takes longer than `time_limit_s`.
    """
    path, deadline = Path(path), Deadline(time_limit_s, str(path))
    if path.suffix == ".tflite":
        raise ModelError(
            f"{path}: a LiteRT file is read by compare alone, and not behind --against: samebits compare {path}"
        )
    data = _read_file(path)
    import google.protobuf.message
    import onnx

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (google.protobuf.message.DecodeError, RecursionError) as error:
        raise ModelError(f"{path}: no ONNX model, or a damaged one ({first_line(error)})") from None
    if not model.graph.node:
        raise ModelError(f"{path}: no ONNX model, or one without nodes")
    if not all(isinstance(text, str) for text in _list_texts(model)):
        raise ModelError(f"{path}: a damaged ONNX model: a name in it is no text")
    deadline.find_left_s()
    tensors = list(list_tensors(model))
    for tensor in tensors:
        _check_tensor(path, tensor)
    _load_external(path, tensors, {tensor.name for tensor in model.graph.initializer})
    return make_network(model, str(path), deadline)


def make_network(model: Any, name: str, deadline: Deadline | None = None) -> Network:
    """The network of an ONNX model whose data is loaded; raises ModelError, ResourceLimitError."""
    deadline = deadline or Deadline(DEFAULT_TIME_LIMIT_S, name)
    import onnx
    from onnx import inliner

    check_inlined(model, name)
    if model.functions:
        try:
            model = inliner.inline_local_functions(model)
        except (onnx.checker.ValidationError, RuntimeError) as error:
            raise ModelError(f"{name}: its functions cannot be put in place: {first_line(error)}") from None
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if not 7 <= opset <= onnx.defs.onnx_opset_version():
        raise ModelError(
            f"{name}: opset {opset or 'unnamed'} is none that the installed onnx knows (7 to"
            f" {onnx.defs.onnx_opset_version()})"
        )
    _check_nodes(name, model, opset)
    _open_negative_sizes(model)
    _sort_nodes(model)
    written = write_out(model, opset)
    constants = {tensor.name: _as_array(name, tensor) for tensor in written.graph.initializer}
    nodes = tuple(read_node(i, node) for i, node in enumerate(written.graph.node))
    inputs = {v.name: read_type(v) for v in model.graph.input if v.name not in constants}
    outputs = tuple(v.name for v in model.graph.output)
    if not outputs:
        raise ModelError(f"{name}: the model has no outputs")
    _check_order(name, nodes, {*inputs, *constants}, outputs)
    types = infer_types(name, stand_in(written, opset), inputs, deadline.find_left_s())
    _check_size(name, types)
    own = {v for node in model.graph.node for v in node.output}
    declared = {n: ValueType(a.dtype.name, a.shape) for n, a in constants.items()}
    ends = tuple(v for node in model.graph.node if _is_several(node, opset) for v in node.output if v)
    nodes, shapes = expand_einsums(nodes, {**types, **declared})
    hidden = tuple(v for node in nodes for v in node.outputs if v and v not in own)
    return Network(
        name, nodes, inputs, outputs, {**constants, **shapes}, types, opset, model,
        hidden=hidden, ends=ends, plain=written,
    )  # fmt: skip


def _is_several(node: Any, opset: int) -> bool:
    """Whether a node that computes is read as several."""
    if node.op_type in SEQUENCES:
        return False
    return node.op_type == "Einsum" or find_writer(node.domain, node.op_type, opset) is not None


def _open_negative_sizes(model: Any) -> None:
    """Sizes below zero, as converters write for any, are left open."""
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.HasField("dim_value") and dim.dim_value < 0:
                dim.ClearField("dim_value")


def _sort_nodes(model: Any) -> None:
    """Puts nodes behind those they read from, where a file has them in another sequence; circles stay as they are."""
    nodes = list(model.graph.node)
    makers = {value: i for i, node in enumerate(nodes) for value in node.output if value}
    before = {
        i: {makers[v] for v in (*node.input, *list_captured(node)) if v in makers} - {i} for i, node in enumerate(nodes)
    }
    if all(source < i for i, sources in before.items() for source in sources):
        return
    try:
        order = list(graphlib.TopologicalSorter(before).static_order())
    except graphlib.CycleError:
        return
    placed = [type(nodes[i]).FromString(nodes[i].SerializeToString()) for i in order]
    del model.graph.node[:]
    model.graph.node.extend(placed)


def list_external_files(path: Path) -> list[str]:
    """The files in a model's folder that hold its tensors' data, by name there; none for what is no model."""
    import onnx

    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:
        # Reading it whole says what is wrong.
        return []
    named = {entry.value for t in list_tensors(model) for entry in t.external_data if entry.key == "location"}
    return sorted(name for name in named if find_beside(path, name) is not None)


def find_beside(path: Path, location: str) -> Path | None:
    """The regular file that a location names in a model's folder; None where there is none, or where it leads out.

    Hugging Face's cache holds links to files of one other folder: data may lie where the model itself really lies.
    """
    if not location or "\0" in location or Path(location).is_absolute() or ".." in Path(location).parts:
        return None
    try:
        file = (path.parent / location).resolve()
        folders = path.parent.resolve(), path.resolve().parent
        return file if file.is_file() and any(file.is_relative_to(folder) for folder in folders) else None
    except (OSError, RuntimeError):
        # A name that is too long, or a link to itself.
        return None


def _read_file(path: Path) -> bytes:
    try:
        return read_regular(path, LARGEST_BYTES)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from None


def _list_texts(model: Any) -> Iterator[Any]:
    """Every name that is read: what is no UTF-8 arrives as bytes."""
    graph = model.graph
    for named in (*graph.input, *graph.output, *graph.value_info):
        yield named.name
    for tensor in list_tensors(model):
        yield tensor.name
        yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))
    yield from (opset.domain for opset in model.opset_import)
    yield from _list_node_texts(graph)


def _list_node_texts(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
        for inner in list_graphs(node):
            yield from (value.name for value in (*inner.input, *inner.output))
            yield from _list_node_texts(inner)


def list_tensors(message: Any) -> Iterator[Any]:
    """Every tensor anywhere in a model: also in functions, in graphs and attributes of nodes, and in sparse tensors."""
    import google.protobuf.message
    import onnx

    pending = [message]
    while pending:
        found = pending.pop()
        if isinstance(found, onnx.TensorProto):
            yield found
            continue
        for field, value in found.ListFields():
            if field.message_type is not None:
                pending += [value] if isinstance(value, google.protobuf.message.Message) else list(value)


def check_inlined(model: Any, name: str) -> None:
    """Counts what a model becomes where its functions stand in place of their calls: each call is a copy.

    Raises ResourceLimitError beyond the limits, ModelError for functions that call themselves.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    known: dict[tuple[str, str, str], tuple[int, int]] = {}
    waiting: set[tuple[str, str, str]] = set()

    def count(nodes: Iterable[Any]) -> tuple[int, int]:
        total, held = 0, 0
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            more, bytes_more = count_function(key) if key in functions else (1, 0)
            total, held = total + more, held + bytes_more
            for attribute in node.attribute:
                held += sum(t.ByteSize() for t in (attribute.t, *attribute.tensors))
                for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                    more, bytes_more = count(graph.node)
                    total, held = total + more, held + bytes_more
        return total, held

    def count_function(key: tuple[str, str, str]) -> tuple[int, int]:
        if key in waiting:
            raise ModelError(f"{name}: function {key[1][:60]} calls itself")
        if key not in known:
            waiting.add(key)
            known[key] = count(functions[key].node)
            waiting.remove(key)
        return known[key]

    try:
        nodes, held = count(model.graph.node)
    except RecursionError:
        raise ModelError(f"{name}: its functions call each other too deep") from None
    NODES.check(nodes, name)
    VALUE_BYTES.check(held, f"{name}, its functions in place of their calls,")


def _check_tensor(path: Path, tensor: Any) -> None:
    """Raises ModelError unless the data a tensor declares is really there."""
    import onnx

    name = tensor.name[:60] or "of an attribute"
    sizes = list(tensor.dims)
    if len(sizes) > _LONGEST_RANK or any(size < 0 for size in sizes):
        raise ModelError(f"{path}: tensor {name} has impossible sizes {sizes[:_LONGEST_RANK]}")
    try:
        onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except (KeyError, ValueError):
        raise ModelError(f"{path}: tensor {name} has no dtype that ONNX knows ({tensor.data_type})") from None
    count = math.prod(sizes)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        _check_external(path, tensor, _count_packed(tensor))
        return
    if tensor.HasField("raw_data"):
        held = len(tensor.raw_data)
        if held == _count_packed(tensor):
            return
        raise ModelError(f"{path}: tensor {name} declares {count:,} values but holds {held:,} bytes")
    fields = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
    held = sum(len(getattr(tensor, field)) for field in fields)
    if held not in (count, 2 * count, -(-count // 2)):
        raise ModelError(f"{path}: tensor {name} declares {count:,} values but holds {held:,}")


def _check_external(path: Path, tensor: Any, needed: int) -> None:
    """Raises ModelError unless a tensor's external data lies in the model's folder, and is all there."""
    given = {entry.key: entry.value for entry in tensor.external_data}
    if len(given) < len(tensor.external_data):
        raise ModelError(f"{path}: the external data of tensor {tensor.name[:60]} has a key twice")
    location, name = given.get("location", ""), tensor.name[:60]
    file = find_beside(path, location)
    if file is None:
        raise ModelError(f"{path}: tensor {name} wants its data from {location[:200]!r}, not in the model's folder")
    try:
        offset, length = int(given.get("offset", "0")), int(given.get("length", str(needed)))
        size = file.stat().st_size
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: the external data of tensor {name} cannot be read: {error}") from None
    if offset < 0 or length != needed or offset + length > size:
        raise ModelError(
            f"{path}: tensor {name} needs {needed:,} bytes at {offset:,} of {location}, which holds {size:,}"
        )


def _count_held(tensor: Any) -> int:
    """The bytes of a tensor's elements, each in whole bytes."""
    import onnx

    return math.prod(tensor.dims) * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize


def _count_packed(tensor: Any) -> int:
    """The bytes of a tensor's elements, as they lie in a file."""
    import onnx

    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    bits = _PACKED_BITS.get(onnx.TensorProto.DataType.Name(tensor.data_type), 8 * dtype.itemsize)
    return -(-math.prod(tensor.dims) * bits // 8)


def _load_external(path: Path, tensors: Sequence[Any], weights: Collection[str]) -> None:
    """Loads data that lies beside a model; what is too much for one message stays there if it is one of the weights."""
    import onnx

    external = [t for t in tensors if t.data_location == onnx.TensorProto.EXTERNAL]
    is_too_much = sum(map(_count_held, external)) + os.path.getsize(path) > LARGEST_BYTES
    try:
        for tensor in external:
            location = next(entry for entry in tensor.external_data if entry.key == "location")
            file = find_beside(path, location.value)
            if file is None:
                raise OSError(f"{location.value[:200]!r} is gone")
            if is_too_much and tensor.name in weights and _count_held(tensor) >= _MAPPED_BYTES:
                location.value = str(file)
                continue
            tensor.raw_data = _read_part(file, tensor)
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]
    except OSError as error:
        raise ModelError(f"{path}: external data cannot be read: {first_line(error)}") from None


def _read_part(file: Path, tensor: Any) -> bytes:
    """A tensor's bytes, that were found to be in the file."""
    offset = next((int(entry.value) for entry in tensor.external_data if entry.key == "offset"), 0)
    with file.open("rb") as opened:
        opened.seek(offset)
        return opened.read(_count_packed(tensor))


def _as_array(name: str, tensor: Any) -> np.ndarray:
    try:
        return read_tensor(tensor)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{name}: tensor {tensor.name[:60]} cannot be read: {first_line(error)}") from None


def _check_nodes(name: str, model: Any, opset: int) -> None:
    """Raises ModelError for operators that ONNX does not have."""
    for node in model.graph.node:
        said = f"{name}: node {node.name[:60] or node.output[0][:60] if node.output else '?'}"
        is_plain = node.domain in PLAIN_DOMAINS
        if is_plain and is_newer(node.op_type, opset) and find_writer("", node.op_type, opset) is None:
            raise ModelError(f"{said}: operator {node.op_type[:60]} is none of ONNX's opset {opset}")
        if not node.output:
            raise ModelError(f"{said} ({node.op_type}) has no outputs")


def _check_order(name: str, nodes: tuple[Node, ...], known: set[str], outputs: tuple[str, ...]) -> None:
    """Raises ModelError unless every value is made once, before it is read."""
    made = set(known)
    for node in nodes:
        for value in node.inputs:
            if value and value not in made:
                raise ModelError(f"{name}: node {node.name} reads {value[:60]}, which nothing before it makes")
        for value in node.outputs:
            if value and value in made:
                raise ModelError(f"{name}: node {node.name} makes {value[:60]} a second time")
            made.add(value)
    for value in outputs:
        if value not in made:
            raise ModelError(f"{name}: nothing makes the output {value[:60]}")


def read_node(i: int, node: Any) -> Node:
    """A node as data; one without a name is called by its operator and its place."""
    import onnx

    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        with contextlib.suppress(ValueError):
            value = onnx.helper.get_attribute_value(attribute)
            attributes[attribute.name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    name = node.name or f"{node.op_type}_{i}"
    # An operator of another domain may have the name of one of ONNX's.
    operator = node.op_type if node.domain in PLAIN_DOMAINS else f"{node.domain}.{node.op_type}"
    # What the graphs of a node read from outside must be there before it, too.
    inputs = (*node.input, *(v for v in list_captured(node) if v not in node.input))
    return Node(name, operator, inputs, tuple(node.output), attributes, node)


def _check_size(name: str, types: dict[str, ValueType]) -> None:
    """Raises ModelError for sizes below zero and strings, ResourceLimitError for a value that memory does not hold."""
    free = count_available_bytes()
    total = sum(count_bytes(type_) for type_ in types.values())
    VALUE_BYTES.check(total, name)
    for value, type_ in types.items():
        if len(type_.shape) > _MOST_AXES:
            raise ModelError(
                f"{name}: value {value[:60]} has {len(type_.shape)} axes; arrays have at most {_MOST_AXES}"
            )
        if type_.dtype == _TEXT:
            raise ModelError(f"{name}: value {value[:60]} holds strings, which are not supported")
        if any(size is not None and size < 0 for size in type_.shape):
            raise ModelError(f"{name}: value {value[:60]} has impossible sizes {type_.shape}")
        needed = count_bytes(type_)
        RESULT_BYTES.check(needed, f"{name}: value {value[:60]}")
        if needed > 0.5 * free:
            raise ResourceLimitError(
                f"{name}: value {value[:60]} of sizes {'x'.join(map(str, type_.shape))} needs {needed / 2**30:.1f} GiB,"
                f" of which {free / 2**30:.1f} GiB are free"
            )


def count_bytes(type_: ValueType) -> int:
    """The bytes of a value; sizes that are open count as 1, an unknown dtype as float32."""
    try:
        item = np.dtype(type_.dtype).itemsize if type_.dtype else 4
    except TypeError:
        item = 4
    return item * math.prod(1 if size is None else max(size, 0) for size in type_.shape)
