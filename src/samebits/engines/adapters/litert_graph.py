"""A LiteRT model (.tflite) built operator by operator, in LiteRT's layout: channels last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.errors import EngineUnsupported
from samebits.problems import Axis

_VERSION, _IDENTIFIER = 3, b"TFL3"
# Operators with codes above this have it in the field that older readers know.
_LARGEST_OLD_CODE = 127
_TYPES = {
    "float32": "FLOAT32", "float16": "FLOAT16", "int32": "INT32", "int64": "INT64", "int8": "INT8", "uint8": "UINT8",
    "int16": "INT16", "bool": "BOOL",
}  # fmt: skip
_FUSED = {(0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1"}


@dataclass(frozen=True)
class Scaling:
    """How codes are read: one scale, or one for each index along `axis`, and the zero points."""

    scale: np.ndarray
    zero: np.ndarray
    axis: int = 0


class LitertGraph:
    """One subgraph, filled from the inputs on. Tensors are known by their numbers."""

    def __init__(self) -> None:
        from ai_edge_litert import schema_py_generated

        self.schema: Any = schema_py_generated
        self._model: Any = self.schema.ModelT()
        self._model.version, self._model.description = _VERSION, "samebits"
        self._model.buffers, self._model.operatorCodes = [self.schema.BufferT()], []
        self._graph: Any = self.schema.SubGraphT()
        self._graph.tensors, self._graph.operators = [], []
        self._model.subgraphs = [self._graph]
        self.shapes: list[tuple[int, ...]] = []
        self.dtypes: list[str] = []

    def add_tensor(
        self, shape: Sequence[int], dtype: str, data: np.ndarray | None = None, scaling: Scaling | None = None
    ) -> int:
        """A tensor: a constant where it has `data`. Raises EngineUnsupported for a format that LiteRT has not."""
        if dtype not in _TYPES:
            raise EngineUnsupported(f"LiteRT has no {dtype}")
        tensor = self.schema.TensorT()
        tensor.shape, tensor.type = [int(size) for size in shape], getattr(self.schema.TensorType, _TYPES[dtype])
        tensor.name = f"t{len(self.shapes)}"
        if scaling is not None:
            tensor.quantization = self._quantize(scaling)
        if data is not None:
            buffer = self.schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self._model.buffers.append(buffer)
            tensor.buffer = len(self._model.buffers) - 1
        self._graph.tensors.append(tensor)
        self.shapes.append(tuple(tensor.shape))
        self.dtypes.append(dtype)
        return len(self.shapes) - 1

    def add_constant(self, array: np.ndarray, scaling: Scaling | None = None) -> int:
        """A constant."""
        return self.add_tensor(array.shape, array.dtype.name, array, scaling)

    def _quantize(self, scaling: Scaling) -> Any:
        parameters = self.schema.QuantizationParametersT()
        parameters.scale = np.ravel(scaling.scale).astype(np.float32)
        parameters.zeroPoint = np.broadcast_to(scaling.zero, parameters.scale.shape).astype(np.int64)
        parameters.quantizedDimension = scaling.axis
        return parameters

    def add_operator(
        self,
        code: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        dtype: str,
        *,
        options: str = "",
        scaling: Scaling | None = None,
        **values: Any,
    ) -> int:
        """An operator with one result, whose number is returned. `options` names its table, `values` are in it."""
        result = self.add_tensor(shape, dtype, scaling=scaling)
        number = getattr(self.schema.BuiltinOperator, code)
        known = self.schema.OperatorCodeT()
        known.builtinCode, known.deprecatedBuiltinCode, known.version = number, min(number, _LARGEST_OLD_CODE), 1
        self._model.operatorCodes.append(known)
        operator = self.schema.OperatorT()
        operator.opcodeIndex = len(self._model.operatorCodes) - 1
        operator.inputs, operator.outputs = list(inputs), [result]
        if options:
            table = getattr(self.schema, f"{options}T")()
            for name, value in values.items():
                setattr(table, name, value)
            operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, options)
            operator.builtinOptions = table
        self._graph.operators.append(operator)
        return result

    def finish(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The model in LiteRT's file format."""
        import flatbuffers

        self._graph.inputs, self._graph.outputs = list(inputs), list(outputs)
        builder: Any = flatbuffers.Builder(1024)
        builder.Finish(self._model.Pack(builder), _IDENTIFIER)
        return bytes(builder.Output())

    def find_fused(self, low: float, high: float) -> int | None:
        """The activation that an operator applies itself; None for a clip that none has."""
        kinds = self.schema.ActivationFunctionType
        if (low, high) == (-np.inf, np.inf):
            return kinds.NONE
        if low == 0 and high == np.inf:
            return kinds.RELU
        name = _FUSED.get((low, high))
        return None if name is None else getattr(kinds, name)

    def add_clip(self, value: int, low: float, high: float) -> int:
        """A clip by operators of its own: what is below `low`, then what is above `high`."""
        shape = self.shapes[value]
        for limit, code in ((low, "MAXIMUM"), (high, "MINIMUM")):
            if np.isfinite(limit):
                other = self.add_constant(np.array(limit, np.float32))
                value = self.add_operator(code, [value, other], shape, "float32", options="MaximumMinimumOptions")
        return value

    def transpose(self, value: int, order: Sequence[int], scaling: Scaling | None = None) -> int:
        """The same numbers with axes in another sequence."""
        shape = [self.shapes[value][axis] for axis in order]
        axes = self.add_constant(np.array(order, np.int32))
        return self.add_operator(
            "TRANSPOSE", [value, axes], shape, self.dtypes[value], options="TransposeOptions", scaling=scaling
        )

    def pad(self, value: int, pads: Sequence[tuple[int, int]], scaling: Scaling | None = None) -> int:
        """Zeros around every axis; of codes the zero point."""
        if not any(map(any, pads)):
            return value
        shape = [size + sum(pair) for size, pair in zip(self.shapes[value], pads, strict=True)]
        amounts = self.add_constant(np.array(pads, np.int32))
        return self.add_operator(
            "PAD", [value, amounts], shape, self.dtypes[value], options="PadOptions", scaling=scaling
        )

    def convolve(
        self,
        x: int,
        w: np.ndarray,
        bias: np.ndarray,
        axes: Sequence[Axis],
        groups: int,
        *,
        fused: int,
        scalings: Mapping[str, Scaling] | None = None,
    ) -> int:
        """A two-dimensional convolution of `x` (N H W C) with weights as torch has them; the number of its result.

        Padding that LiteRT calls SAME is asked for so, any other by an operator of its own. `scalings` are those of
        x, w, bias and y.
        """
        given = scalings or {}
        is_same = all(map(_is_same, axes))
        if not is_same:
            pads = [(0, 0), *((a.pad_begin, a.pad_end) for a in axes), (0, 0)]
            x = self.pad(x, pads, given.get("x"))
        (down, across), (high, wide) = ((a.stride for a in axes), (a.dilation for a in axes))
        window = {
            "padding": self.schema.Padding.SAME if is_same else self.schema.Padding.VALID, "strideH": down,
            "strideW": across, "dilationHFactor": high, "dilationWFactor": wide, "fusedActivationFunction": fused,
        }  # fmt: skip
        shape = (self.shapes[x][0], *(a.size_small for a in axes), w.shape[0])
        is_by_channel = 1 < groups == w.shape[1] * groups
        if is_by_channel:
            arranged, axis = w.transpose(1, 2, 3, 0), 3
            code, options = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"
            window["depthMultiplier"] = w.shape[0] // groups
        else:
            arranged, axis = w.transpose(0, 2, 3, 1), 0
            code, options = "CONV_2D", "Conv2DOptions"
        of_weights = given.get("w")
        if of_weights is not None:
            of_weights = Scaling(of_weights.scale, of_weights.zero, axis)
        constants = [self.add_constant(arranged, of_weights), self.add_constant(bias, given.get("bias"))]
        return self.add_operator(
            code, [x, *constants], shape, self.dtypes[x], options=options, scaling=given.get("y"), **window
        )


def find_same_padding(size: int, kernel: int, dilation: int, stride: int) -> tuple[int, int]:
    """What LiteRT calls SAME: as much padding as ceil(size / stride) results need, the larger half of it behind."""
    needed = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return needed // 2, needed - needed // 2


def _is_same(axis: Axis) -> bool:
    """Whether the padding is what LiteRT calls SAME."""
    if axis.size_small != -(-axis.size_large // axis.stride):
        return False
    same = find_same_padding(axis.size_large, axis.kernel, axis.dilation, axis.stride)
    return (axis.pad_begin, axis.pad_end) == same
