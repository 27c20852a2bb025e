"""The types of a network's values: inferred here where that is enough, elsewhere where shapes are computed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from samebits.errors import ModelError, ResourceLimitError
from samebits.networks.network import ValueType

_PROGRAM = Path(__file__).with_name("inference_process.py")
# Twice what Python and onnx take by themselves; copies of a model: as text, as messages, and inferred.
_BYTES_OF_ITS_OWN, _COPIES = 2**31, 6
# Sizes are computed from short arrays; of longer constants the process is given the type alone.
_LONGEST_SHAPE = 1024
DEFAULT_TIME_LIMIT_S = 300.0


def infer_types(
    name: str, model: Any, inputs: Mapping[str, ValueType], time_limit_s: float = DEFAULT_TIME_LIMIT_S
) -> dict[str, ValueType]:
    """The types of all values of an ONNX model, inputs as they are given. Raises ModelError, ResourceLimitError."""
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError, RuntimeError) as error:
        raise ModelError(f"{name}: shapes do not fit: {first_line(error)}") from None
    inferred = (*graph.value_info, *graph.output)
    known = {value.name for value in inferred if _is_known(value)}
    if all(value in known for node in model.graph.node for value in node.output if value):
        return {**_read_types(inferred), **inputs}
    return {**_infer_elsewhere(name, model, time_limit_s), **inputs}


def _is_known(value: Any) -> bool:
    """Whether a value's dtype and all its sizes are known."""
    tensor = value.type.tensor_type
    has_sizes = tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)
    return bool(tensor.elem_type) and has_sizes


def _infer_elsewhere(name: str, model: Any, time_limit_s: float) -> dict[str, ValueType]:
    """With the numbers of shapes carried along, in a process whose memory and time are limited."""
    import onnx

    data = strip_constants(model).SerializeToString()
    most = _BYTES_OF_ITS_OWN + _COPIES * len(data)
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(_PROGRAM), str(most)],
            input=data, capture_output=True, timeout=time_limit_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ResourceLimitError(f"{name}: inferring its sizes takes more than {time_limit_s:g} s") from None
    if done.returncode:
        said = first_line(RuntimeError(done.stderr.decode("utf-8", "replace")))
        if done.returncode != 1 or "memory" in said or "bad_alloc" in said:
            raise ResourceLimitError(f"{name}: inferring its sizes takes more than {most / 2**30:.1f} GiB")
        raise ModelError(f"{name}: shapes do not fit: {said}")
    inferred = onnx.ModelProto()
    inferred.ParseFromString(done.stdout)
    return _read_types(inferred.graph.value_info)


def strip_constants(model: Any) -> Any:
    """A copy without the values of large constants, whose types stay."""
    import onnx

    graph = model.graph
    stripped = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    stripped.graph.node.extend(graph.node)
    for field in ("input", "output", "value_info"):
        getattr(stripped.graph, field).extend(getattr(graph, field))
    given = {value.name for value in graph.input}
    for tensor in graph.initializer:
        if sum(tensor.dims) <= _LONGEST_SHAPE:
            stripped.graph.initializer.append(tensor)
        elif tensor.name not in given:
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            stripped.graph.input.append(info)
    return stripped


def _read_types(values: Iterable[Any]) -> dict[str, ValueType]:
    return {value.name: read_type(value) for value in values}


def read_type(value: Any) -> ValueType:
    """The type of a value as a model declares it; an unknown dtype is empty, an unknown size None."""
    import onnx

    tensor = value.type.tensor_type
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    except (KeyError, ValueError):
        dtype = ""
    sizes = tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)
    return ValueType(dtype, sizes)


def read_tensor(tensor: Any) -> np.ndarray:
    """The array of a tensor; one whose data stays in a file of its own is mapped, and read where it is used."""
    import onnx

    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return onnx.numpy_helper.to_array(tensor)
    given = {entry.key: entry.value for entry in tensor.external_data}
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    return np.memmap(given["location"], dtype, "r", int(given.get("offset", "0")), tuple(tensor.dims))


def first_line(error: BaseException) -> str:
    """What an error of a library says, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
