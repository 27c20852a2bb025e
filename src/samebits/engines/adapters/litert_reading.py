"""A LiteRT file (.tflite) as the ONNX model that says the same: operators of reals between quantised tensors.

Every value keeps its tensor's name and its layout. A quantised operator is what it stands for: its inputs dequantised,
the operator on reals, the result quantised. Source: LiteRT's schema and operator definitions (tensorflow/lite).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from samebits.engines.adapters.litert_file import LitertFile, Shown
from samebits.engines.adapters.litert_graph import find_same_padding
from samebits.errors import EngineUnsupported

# Codes of 16 bits came later.
_OPSET, _OPSET_OF_WIDE, _IR = 18, 21, 10
# Beyond the end of any axis.
_FAR = 2**62
_TO_FIRST, _TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)
_PLAIN = {
    "ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div", "MAXIMUM": "Max", "MINIMUM": "Min", "LOGISTIC": "Sigmoid",
    "TANH": "Tanh", "EXP": "Exp", "SQRT": "Sqrt", "ABS": "Abs", "NEG": "Neg", "FLOOR": "Floor", "CEIL": "Ceil",
    "HARD_SWISH": "HardSwish", "RELU": "Relu", "POW": "Pow", "LOG": "Log", "SIN": "Sin", "COS": "Cos", "PRELU": "PRelu",
    "BATCH_MATMUL": "MatMul",
}  # fmt: skip
_REDUCTIONS = {"MEAN": "ReduceMean", "SUM": "ReduceSum", "REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin"}
_CLIPS = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
_RESHAPES = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
# What an operator's own flags would make of its result in a way that is not written here.
_REFUSED_FLAGS = ("adjX", "adjY")


class Coarse(NamedTuple):
    """How far LiteRT's fixed-point numbers may be off before they are rounded to codes.

    `steps` is one number, or one for each channel, which are last; `share` is a part of the value itself.
    """

    steps: list[float]
    share: float


@dataclass(frozen=True)
class ReadFile:
    """A file, the ONNX model that says the same, and which values of that the file's tensors show."""

    file: LitertFile
    model: Any
    shown: dict[str, Shown]
    # By the name of a QuantizeLinear.
    coarse: dict[str, Coarse]


def read_file(onnx: Any, content: bytes) -> ReadFile:
    """Reads a file; raises EngineUnsupported for what is none, or says what cannot be written in ONNX.

    An operator that is not known here becomes one of the domain `litert`, which is not judged.
    """
    file = LitertFile(content)
    writer = _Writer(onnx, file)
    return ReadFile(file, writer.write(), writer.shown, writer.coarse)


class _Writer:
    def __init__(self, onnx: Any, file: LitertFile) -> None:
        self.onnx, self.file = onnx, file
        self.nodes: list[Any] = []
        self.tensors: dict[str, Any] = {}
        self.real: dict[int, str] = {}
        self.shown = {name: Shown(i) for i, name in enumerate(file.names)}
        self.coarse: dict[str, Coarse] = {}
        self._count = 0

    def write(self) -> Any:
        helper, file = self.onnx.helper, self.file
        for operator in file.graph.operators:
            self._add(operator)
        ends = [[self._declare(t) for t in numbers] for numbers in (file.graph.inputs, file.graph.outputs)]
        produced = {value for node in self.nodes for value in node.output}
        inner = [
            self._declare(t)
            for t in range(len(file.names))
            if file.names[t] in produced and t not in set(file.graph.outputs)
        ]
        graph = helper.make_graph(self.nodes, "litert", *ends, list(self.tensors.values()), value_info=inner)
        is_wide = any(file.read_scaling(t) and file.read_dtype(t) == "int16" for t in range(len(file.names)))
        domains = [helper.make_opsetid("", _OPSET_OF_WIDE if is_wide else _OPSET), helper.make_opsetid("litert", 1)]
        return helper.make_model(graph, opset_imports=domains, ir_version=_IR)

    def _declare(self, tensor: int) -> Any:
        element = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(self.file.read_dtype(tensor)))
        shape = self.file.read_shape(tensor)
        return self.onnx.helper.make_tensor_value_info(self.file.names[tensor], element, shape)

    # Small parts that operators are made of.

    def _name(self, what: str) -> str:
        self._count += 1
        return f"{what}~{self._count}"

    def _constant(self, array: Any) -> str:
        name = self._name("constant")
        self.tensors[name] = self.onnx.numpy_helper.from_array(np.asarray(array), name)
        return name

    def _node(self, operator: str, inputs: Sequence[str], output: str = "", domain: str = "", **attributes: Any) -> str:
        output = output or self._name(operator.lower())
        node = self.onnx.helper.make_node(operator, list(inputs), [output], domain=domain, **attributes)
        node.name = output
        self.nodes.append(node)
        return output

    def _read(self, tensor: int, order: Sequence[int] = ()) -> str:
        """A tensor as a real value; a constant with its axes in another order."""
        held = self.file.read_constant(tensor)
        if held is None:
            if tensor not in self.real:
                self.real[tensor] = self._dequantise(tensor, self.file.names[tensor], None)
                self.shown.setdefault(self.real[tensor], Shown(tensor, is_real=True))
            return self.real[tensor]
        arranged = held.transpose(order) if order else held
        if arranged.dtype == np.float16:
            return self._constant(arranged.astype(np.float32))
        return self._dequantise(tensor, self._constant(arranged), order or range(held.ndim))

    def _dequantise(self, tensor: int, name: str, order: Sequence[int] | None) -> str:
        scaling = self.file.read_scaling(tensor)
        if scaling is None:
            return name
        scale, zero, axis = scaling
        dtype = self.file.read_dtype(tensor)
        inputs = [name, self._constant(scale if len(scale) > 1 else scale[0])]
        if dtype != "int32":
            inputs.append(self._constant((zero if len(zero) > 1 else zero[0]).astype(dtype)))
        attributes: dict[str, Any] = {}
        if len(scale) > 1:
            attributes["axis"] = axis if order is None else list(order).index(axis)
        return self._node("DequantizeLinear", inputs, **attributes)

    def _make(self, tensor: int, operator: str, inputs: Sequence[str], **attributes: Any) -> None:
        """The operator whose result, quantised where the tensor is, is the tensor."""
        scaling = self.file.read_scaling(tensor)
        name = self.file.names[tensor]
        if scaling is None:
            self._node(operator, inputs, name, **attributes)
            return
        scale, zero, axis = scaling
        real = self._node(operator, inputs, **attributes)
        dtype = self.file.read_dtype(tensor)
        parts = [self._constant(scale if len(scale) > 1 else scale[0])]
        parts.append(self._constant((zero if len(zero) > 1 else zero[0]).astype(dtype)))
        own: dict[str, Any] = {"axis": axis} if len(scale) > 1 else {}
        self._node("QuantizeLinear", [real, *parts], name, **own)

    def _finish(self, tensor: int, value: str, fused: int = 0, *, back: bool = False) -> None:
        """The tensor from a real value: what the operator's own activation makes of it, channels last again."""
        kinds = {number: name for name, number in vars(self.file.schema.ActivationFunctionType).items()}
        kind = kinds.get(fused, "?")
        steps: list[tuple[str, list[str], dict[str, Any]]] = []
        if kind == "RELU":
            steps.append(("Relu", [], {}))
        elif kind in _CLIPS:
            steps.append(("Clip", [self._constant(np.float32(limit)) for limit in _CLIPS[kind]], {}))
        elif kind == "TANH":
            steps.append(("Tanh", [], {}))
        elif kind != "NONE":
            raise EngineUnsupported(f"an activation {kind} is not known")
        if back:
            steps.append(("Transpose", [], {"perm": _TO_LAST}))
        if not steps:
            steps.append(("Identity", [], {}))
        for operator, more, attributes in steps[:-1]:
            value = self._node(operator, [value, *more], **attributes)
        operator, more, attributes = steps[-1]
        if operator == "Transpose" and self.file.read_scaling(tensor) is None:
            self.shown[value] = Shown(tensor, order=_TO_FIRST)
        self._make(tensor, operator, [value, *more], **attributes)

    def _to_first(self, tensor: int) -> str:
        value = self._node("Transpose", [self._read(tensor)], perm=_TO_FIRST)
        self.shown[value] = Shown(tensor, is_real=True, order=_TO_FIRST)
        return value

    def _list_pads(
        self, operator: Any, sizes: Sequence[int], kernel: Sequence[int], dilation: Sequence[int]
    ) -> list[int]:
        """Padding before and after each axis, as SAME or VALID mean it."""
        options = operator.builtinOptions
        if options.padding != self.file.schema.Padding.SAME:
            return [0] * (2 * len(kernel))
        strides = (options.strideH, options.strideW)
        pads = [find_same_padding(*one) for one in zip(sizes, kernel, dilation, strides, strict=True)]
        return [before for before, _ in pads] + [after for _, after in pads]

    def _note_product(self, tensor: int, *factors: int, by: float = 1.0) -> None:
        """That a sum of whole numbers is rescaled by a multiplier of 31 bits: its first rounding is `2^(e - 1)` steps.

        The multiplier is the product of the factors' scales over the result's: a mantissa times 2^e. Sums of 64 bits
        have one of 15 bits, which is off by up to 2^-15 of itself.
        """
        scalings = [self.file.read_scaling(t) for t in factors]
        own = self.file.read_scaling(tensor)
        if own is None or None in scalings:
            return
        product = np.float64(by)
        for found in scalings:
            assert found is not None
            product = product * found[0].astype(np.float64)
        exponents = np.frexp(np.atleast_1d(product / float(own[0][0])))[1]
        is_wide = self.file.read_dtype(tensor) == "int16"
        steps = [float(np.ldexp(0.5, int(e))) for e in exponents]
        self.coarse[self.file.names[tensor]] = Coarse(steps, 2.0**-15 if is_wide else 0.0)

    def _note_sum(self, tensor: int, *addends: int) -> None:
        """That addends are brought to one scale with 20 more bits, each rounded twice, and their sum rescaled."""
        scales = [found[0][0] for t in addends if (found := self.file.read_scaling(t)) is not None]
        own = self.file.read_scaling(tensor)
        if own is not None and len(scales) == len(addends) == 2:
            unit = 2 * float(max(scales)) / float(own[0][0]) * 2.0**-20
            self.coarse[self.file.names[tensor]] = Coarse([3 * unit], 0.0)

    # The operators.

    def _add(self, operator: Any) -> None:
        name = self.file.name_operator(operator)
        options = operator.builtinOptions
        own: dict[str, Callable[[Any, Any], None]] = {
            "CONV_2D": self._add_convolution, "DEPTHWISE_CONV_2D": self._add_convolution,
            "FULLY_CONNECTED": self._add_product, "AVERAGE_POOL_2D": self._add_pool, "MAX_POOL_2D": self._add_pool,
            "CONCATENATION": self._add_concatenation, "PAD": self._add_pad, "PADV2": self._add_pad,
            "SOFTMAX": self._add_softmax, "TRANSPOSE": self._add_transpose, "QUANTIZE": self._add_identity,
            "DEQUANTIZE": self._add_identity, "LEAKY_RELU": self._add_leaky, "RESIZE_BILINEAR": self._add_resize,
            "RESIZE_NEAREST_NEIGHBOR": self._add_resize, "TRANSPOSE_CONV": self._add_transposed,
            "RSQRT": self._add_rsqrt, "SQUARED_DIFFERENCE": self._add_squared, "RELU6": self._add_clip,
            "RELU_N1_TO_1": self._add_clip, "STRIDED_SLICE": self._add_slice, "SLICE": self._add_slice,
            "SHAPE": self._add_shape, "PACK": self._add_pack,
        }  # fmt: skip
        if options is not None and any(getattr(options, flag, False) for flag in _REFUSED_FLAGS):
            self._add_unknown(operator, name)
        elif name in own:
            own[name](operator, options)
        elif name in _RESHAPES:
            shape = self._constant(np.array(self.file.read_shape(operator.outputs[0]), np.int64))
            value = self._node("Reshape", [self._read(operator.inputs[0]), shape])
            self._finish(operator.outputs[0], value)
        elif name in _REDUCTIONS and options is not None:
            axes = self._constant(np.ravel(self._need(operator.inputs[1])).astype(np.int64))
            value = self._node(
                _REDUCTIONS[name], [self._read(operator.inputs[0]), axes], keepdims=int(options.keepDims)
            )
            self._finish(operator.outputs[0], value)
            sizes = [math.prod(self.file.read_shape(t)) for t in (operator.inputs[0], operator.outputs[0])]
            self._note_product(operator.outputs[0], operator.inputs[0], by=sizes[1] / max(sizes[0], 1))
        elif name in _PLAIN:
            value = self._node(_PLAIN[name], [self._read(t) for t in operator.inputs])
            self._finish(operator.outputs[0], value, getattr(options, "fusedActivationFunction", 0))
            if name in ("ADD", "SUB"):
                self._note_sum(operator.outputs[0], *operator.inputs)
            elif name in ("MUL", "BATCH_MATMUL"):
                self._note_product(operator.outputs[0], *operator.inputs)
        else:
            self._add_unknown(operator, name)

    def _need(self, tensor: int) -> np.ndarray:
        held = self.file.read_constant(tensor)
        if held is None:
            raise EngineUnsupported(f"{self.file.names[tensor]} is computed where a constant is needed")
        return held

    def _add_unknown(self, operator: Any, name: str) -> None:
        inputs = [self._read(t) if t >= 0 else "" for t in operator.inputs]
        outputs = [self.file.names[t] for t in operator.outputs]
        node = self.onnx.helper.make_node(name, inputs, outputs, domain="litert", name=outputs[0])
        self.nodes.append(node)

    def _read_bias(self, operator: Any) -> list[str]:
        inputs = list(operator.inputs)
        return [self._read(inputs[2])] if len(inputs) > 2 and inputs[2] >= 0 else []

    def _add_convolution(self, operator: Any, options: Any) -> None:
        x, w = operator.inputs[0], operator.inputs[1]
        by_channel = self.file.name_operator(operator) == "DEPTHWISE_CONV_2D"
        order = (3, 0, 1, 2) if by_channel else (0, 3, 1, 2)
        sizes, shape = self.file.read_shape(x), self.file.read_shape(w)
        kernel, dilation = shape[1:3], (options.dilationHFactor, options.dilationWFactor)
        groups = sizes[3] if by_channel else sizes[3] // shape[3]
        self._need(w)
        value = self._node(
            "Conv", [self._to_first(x), self._read(w, order), *self._read_bias(operator)], group=groups,
            strides=[options.strideH, options.strideW], dilations=list(dilation),
            pads=self._list_pads(operator, sizes[1:3], kernel, dilation), kernel_shape=list(kernel),
        )  # fmt: skip
        self._finish(operator.outputs[0], value, options.fusedActivationFunction, back=True)
        self._note_product(operator.outputs[0], x, w)

    def _add_transposed(self, operator: Any, options: Any) -> None:
        _, w, x = operator.inputs[:3]
        wanted, kernel = self.file.read_shape(operator.outputs[0]), self.file.read_shape(w)[1:3]
        sizes, strides = self.file.read_shape(x), (options.strideH, options.strideW)
        pads = self._list_pads(operator, wanted[1:3], kernel, (1, 1))
        extra = [
            int(wanted[1 + i]) - ((sizes[1 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[2 + i]) for i in range(2)
        ]
        bias = [self._read(operator.inputs[3])] if len(operator.inputs) > 3 and operator.inputs[3] >= 0 else []
        self._need(w)
        value = self._node(
            "ConvTranspose", [self._to_first(x), self._read(w, (3, 0, 1, 2)), *bias], strides=list(strides), pads=pads,
            output_padding=extra, kernel_shape=list(kernel),
        )  # fmt: skip
        self._finish(operator.outputs[0], value, getattr(options, "fusedActivationFunction", 0), back=True)
        self._note_product(operator.outputs[0], x, w)

    def _add_product(self, operator: Any, options: Any) -> None:
        x, w = operator.inputs[:2]
        length = self.file.read_shape(w)[1]
        value = self._read(x)
        if self.file.read_shape(x)[-1] != length or len(self.file.read_shape(x)) != 2:
            rows = int(np.prod(self.file.read_shape(x))) // length
            value = self._node("Reshape", [value, self._constant(np.array([rows, length], np.int64))])
        if self.file.read_constant(w) is None:
            weights = self._node("Transpose", [self._read(w)], perm=[1, 0])
        else:
            weights = self._read(w, (1, 0))
        value = self._node("Gemm", [value, weights, *self._read_bias(operator)])
        shape = self.file.read_shape(operator.outputs[0])
        if len(shape) != 2:
            value = self._node("Reshape", [value, self._constant(np.array(shape, np.int64))])
        self._finish(operator.outputs[0], value, options.fusedActivationFunction)
        self._note_product(operator.outputs[0], x, w)

    def _add_pool(self, operator: Any, options: Any) -> None:
        kernel = (options.filterHeight, options.filterWidth)
        sizes = self.file.read_shape(operator.inputs[0])
        pads = self._list_pads(operator, sizes[1:3], kernel, (1, 1))
        kind = "AveragePool" if self.file.name_operator(operator) == "AVERAGE_POOL_2D" else "MaxPool"
        value = self._node(
            kind, [self._to_first(operator.inputs[0])], kernel_shape=list(kernel), pads=pads,
            strides=[options.strideH, options.strideW],
        )  # fmt: skip
        self._finish(operator.outputs[0], value, options.fusedActivationFunction, back=True)

    def _add_concatenation(self, operator: Any, options: Any) -> None:
        value = self._node("Concat", [self._read(t) for t in operator.inputs], axis=options.axis)
        self._finish(operator.outputs[0], value, options.fusedActivationFunction)

    def _add_pad(self, operator: Any, _: Any) -> None:
        pads = self._need(operator.inputs[1]).T.reshape(-1).astype(np.int64)
        more = [self._read(operator.inputs[2])] if len(operator.inputs) > 2 else []
        value = self._node("Pad", [self._read(operator.inputs[0]), self._constant(pads), *more])
        self._finish(operator.outputs[0], value)

    def _add_softmax(self, operator: Any, options: Any) -> None:
        value = self._read(operator.inputs[0])
        if options.beta != 1:
            value = self._node("Mul", [value, self._constant(np.float32(options.beta))])
        self._finish(operator.outputs[0], self._node("Softmax", [value], axis=-1))

    def _add_transpose(self, operator: Any, _: Any) -> None:
        order = [int(axis) for axis in self._need(operator.inputs[1])]
        self._finish(operator.outputs[0], self._node("Transpose", [self._read(operator.inputs[0])], perm=order))

    def _add_identity(self, operator: Any, _: Any) -> None:
        self._finish(operator.outputs[0], self._read(operator.inputs[0]))
        self._note_product(operator.outputs[0], operator.inputs[0])

    def _add_leaky(self, operator: Any, options: Any) -> None:
        value = self._node("LeakyRelu", [self._read(operator.inputs[0])], alpha=float(options.alpha))
        self._finish(operator.outputs[0], value)

    def _add_clip(self, operator: Any, _: Any) -> None:
        low, high = _CLIPS[self.file.name_operator(operator)]
        limits = [self._constant(np.float32(low)), self._constant(np.float32(high))]
        self._finish(operator.outputs[0], self._node("Clip", [self._read(operator.inputs[0]), *limits]))

    def _add_rsqrt(self, operator: Any, _: Any) -> None:
        root = self._node("Sqrt", [self._read(operator.inputs[0])])
        self._finish(operator.outputs[0], self._node("Reciprocal", [root]))

    def _add_squared(self, operator: Any, _: Any) -> None:
        away = self._node("Sub", [self._read(t) for t in operator.inputs])
        self._finish(operator.outputs[0], self._node("Mul", [away, away]))

    def _add_shape(self, operator: Any, _: Any) -> None:
        shape = self._node("Shape", [self._read(operator.inputs[0])])
        element = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(self.file.read_dtype(operator.outputs[0])))
        self._finish(operator.outputs[0], self._node("Cast", [shape], to=element))

    def _add_pack(self, operator: Any, options: Any) -> None:
        axis = self._constant(np.array([options.axis], np.int64))
        parts = [self._node("Unsqueeze", [self._read(t), axis]) for t in operator.inputs]
        self._finish(operator.outputs[0], self._node("Concat", parts, axis=options.axis))

    def _add_resize(self, operator: Any, options: Any) -> None:
        shape = self.file.read_shape(operator.outputs[0])
        sizes = self._constant(np.array([shape[0], shape[3], *shape[1:3]], np.int64))
        is_linear = self.file.name_operator(operator) == "RESIZE_BILINEAR"
        place = "align_corners" if options.alignCorners else "half_pixel" if options.halfPixelCenters else "asymmetric"
        attributes: dict[str, Any] = {"mode": "linear" if is_linear else "nearest"}
        if not is_linear:
            # Halves are rounded up from aligned corners, and cut off otherwise.
            attributes["nearest_mode"] = "round_prefer_ceil" if options.alignCorners else "floor"
        value = self._node(
            "Resize", [self._to_first(operator.inputs[0]), "", "", sizes], coordinate_transformation_mode=place,
            **attributes,
        )  # fmt: skip
        self._finish(operator.outputs[0], value, back=True)

    def _add_slice(self, operator: Any, options: Any) -> None:
        value, parts = operator.inputs[0], [self._need(t).astype(np.int64) for t in operator.inputs[1:]]
        sizes, shape = self.file.read_shape(value), self.file.read_shape(operator.outputs[0])
        begins, count = parts[0].copy(), len(parts[0])
        if self.file.name_operator(operator) == "SLICE":
            ends = np.where(parts[1] < 0, sizes, begins + parts[1])
            steps = np.ones(count, np.int64)
        else:
            if options.ellipsisMask or options.newAxisMask:
                self._add_unknown(operator, "STRIDED_SLICE")
                return
            ends, steps = parts[1].copy(), parts[2]
            for axis in range(count):
                least, most = (0, _FAR) if steps[axis] > 0 else (_FAR, -sizes[axis] - 1)
                begins[axis] = least if options.beginMask >> axis & 1 else begins[axis]
                ends[axis] = most if options.endMask >> axis & 1 else ends[axis]
                if options.shrinkAxisMask >> axis & 1:
                    ends[axis] = begins[axis] + 1 if begins[axis] != -1 else _FAR
        inputs = [self._constant(array) for array in (begins, ends, np.arange(count), steps)]
        found = self._node("Slice", [self._read(value), *inputs])
        shaped = self._node("Reshape", [found, self._constant(np.array(shape, np.int64))])
        self._finish(operator.outputs[0], shaped)
