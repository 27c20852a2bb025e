"""The same ONNX model with other outputs, and with values given to it that it would compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from samebits.networks.network import Network

_OVERRULED = "#overruled"


def rewire(network: Network, outputs: Sequence[str], given: Mapping[str, np.ndarray] | None = None) -> bytes:
    """The model as bytes, returning `outputs` in their sequence; values in `given` are inputs instead of computed.

    Nodes stay as they are, so that what an engine fuses stays as it is as far as outputs and inputs allow.
    """
    import onnx

    given = given or {}
    model = onnx.ModelProto()
    model.CopyFrom(network.stored)
    graph = model.graph
    declared = {v.name: v for v in (*graph.output, *graph.value_info)}
    kept = [_declare(value, declared, network) for value in outputs]
    del graph.output[:]
    graph.output.extend(kept)
    for node in graph.node:
        for i, value in enumerate(node.output):
            if value in given:
                node.output[i] = value + _OVERRULED
    for value, array in given.items():
        element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(onnx.helper.make_tensor_value_info(value, element, array.shape))
    return model.SerializeToString()


def _declare(value: str, declared: Mapping[str, Any], network: Network) -> Any:
    """What is known of a value's type; engines infer the rest."""
    import onnx

    if value in declared:
        return declared[value]
    known = network.types.get(value)
    if known and known.dtype:
        element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(known.dtype))
        return onnx.helper.make_tensor_value_info(value, element, None)
    return onnx.ValueInfoProto(name=value)
