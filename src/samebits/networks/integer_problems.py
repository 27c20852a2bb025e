"""Problems on integers (`dtype=uint8 weights=int8 out=int8`) as the operators of ONNX that compute them.

`out=int32` is ConvInteger or MatMulInteger, `out=float32` that sum times its scale (as dynamic quantisation writes it),
`out=uint8` and `int8` QLinearConv, QLinearMatMul or, with a bias, onnxruntime's QGemm. Codes use their whole range and
zero points are not zero but for signed weights, as in networks that quantisers write. `weights=uint4` and `int4` are
onnxruntime's MatMulNBits: a linear layer of float inputs whose weights are stored in 4 bits, in blocks along the sum
with a scale each (`scale=group:32`), and with a zero point each where they are unsigned.

Sources: ONNX's operator specifications; onnxruntime, docs/ContribOperators.md (QGemm, MatMulNBits).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from samebits.errors import ProblemTextError
from samebits.mechanisms.quantised.integer_sums import IntegerCase
from samebits.networks.network import Network
from samebits.networks.onnx_reading import make_network
from samebits.problems.integer_problem import (
    CODES,
    FLOATS,
    PACKED,
    RESULTS,
    IntegerProblem,
    format_integer_problem,
    parse_integer_problem,
)
from samebits.problems.problem import PRODUCTS, Problem

# Zero points that are no round numbers; signed weights have none, as quantisers write them.
_ZEROS = {"x": {"uint8": 121, "int8": 3}, "w": {"uint8": 119, "int8": 0}, "y": {"uint8": 117, "int8": -4}}
_X_SCALE, _W_SCALE = 0.02, 0.01
# A sum's usual size, in shares of the codes' largest, so that few results are clamped.
_SPREAD, _WIDE = 3.0, 127
_OPSET, _IR = 17, 9


def make_integer_network(text: str, seed: int = 0) -> tuple[Network, dict[str, tuple[float, float]]]:
    """The network of one operator that computes an integer problem, and what its input is drawn from.

    Weights, bias and scales are drawn by `seed`. Raises ProblemTextError for what no operator computes.
    """
    asked = parse_integer_problem(text)
    _check_written(asked, text)
    rng = np.random.default_rng(seed)
    is_packed = asked.w in PACKED
    limits = (-1, 1) if is_packed else (np.iinfo(asked.x).min, np.iinfo(asked.x).max)
    network = _write(asked, _draw_packed(asked, rng) if is_packed else _draw_constants(asked, rng))
    return network, {"x": (float(limits[0]), float(limits[1]))}


def write_integer_network(case: IntegerCase) -> tuple[Network, dict[str, np.ndarray]]:
    """The network of one operator that computes a case with 8-bit or 32-bit results, and the input that it is fed.

    Raises ProblemTextError for what no operator computes.
    """
    asked = case.problem
    _check_written(asked, format_integer_problem(asked))
    w = case.w.astype(asked.w)
    found: dict[str, np.ndarray] = {
        "w": np.ascontiguousarray(w.T) if asked.plain.kind == "linear" else w,
        "x_zero": np.array(case.x_zero, asked.x),
        "w_zero": _take_one(case.w_zero.astype(asked.w), asked),
    }
    if asked.out in CODES:
        scales = {"x_scale": case.x_scale, "w_scale": case.w_scale, "y_scale": case.y_scale}
        found |= {name: _take_one(np.float32(scale), asked) for name, scale in scales.items()}
        found["y_zero"] = np.array(case.y_zero, asked.out)
    if asked.plain.bias:
        bias = case.bias.astype(np.int32)
        found["bias"] = bias if asked.out in CODES else _align(asked.plain, bias)
    return _write(asked, found), {"x": case.x.astype(asked.x)}


def _take_one(values: Any, asked: IntegerProblem) -> np.ndarray:
    """One number for a tensor, or one a channel where the problem's scale is by channel and there are several."""
    array = np.asarray(values)
    if not array.ndim:
        return array
    by_channel = asked.scale == "channel" and asked.out in CODES
    return np.array(np.broadcast_to(array, asked.channels)) if by_channel else array.reshape(-1)[0]


def _check_written(asked: IntegerProblem, text: str) -> None:
    """Raises ProblemTextError for what no operator of ONNX computes, though others may."""
    if asked.plain.bias and asked.plain.kind in PRODUCTS and asked.out in CODES and len(asked.plain.x) != 2:
        raise ProblemTextError("with a bias and 8-bit results x is a matrix", text)


def _write(asked: IntegerProblem, constants: Mapping[str, np.ndarray]) -> Network:
    from onnx import helper, numpy_helper

    nodes = [_make_packed(asked, constants)] if asked.w in PACKED else _list_nodes(asked)
    kinds = {name: helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in (*RESULTS, *FLOATS)}
    graph = helper.make_graph(
        nodes,
        "integers",
        [helper.make_tensor_value_info("x", kinds[asked.x], asked.plain.x)],
        [helper.make_tensor_value_info("y", kinds[asked.out], asked.plain.out_shape)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    domains = [helper.make_opsetid("", _OPSET), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=_IR)
    return make_network(model, format_integer_problem(asked))


def _draw_packed(asked: IntegerProblem, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Two codes in a byte, the first in its low half; the last block is filled with codes that nothing multiplies."""
    columns, length = asked.plain.w
    size = int(asked.scale.partition(":")[2])
    blocks = -(-length // size)
    codes = rng.integers(0, 16, (columns, blocks, size), dtype=np.uint8)
    scales = (_W_SCALE * np.exp2(rng.uniform(-1, 1, columns * blocks))).astype(asked.x)
    found = {"w": codes[..., ::2] | codes[..., 1::2] << 4, "w_scale": scales}
    if asked.w == "uint4":
        zeros = rng.integers(0, 16, (columns, 2 * -(-blocks // 2)), dtype=np.uint8)
        found["w_zero"] = (zeros[:, ::2] | zeros[:, 1::2] << 4).reshape(-1)
    return found


def _make_packed(asked: IntegerProblem, constants: Mapping[str, np.ndarray]) -> Any:
    from onnx import helper

    columns, length = asked.plain.w
    size = int(asked.scale.partition(":")[2])
    attributes: dict[str, Any] = {"K": length, "N": columns, "bits": 4, "block_size": size}
    inputs = ["x", *constants]
    return helper.make_node("MatMulNBits", inputs, ["y"], name="product", domain="com.microsoft", **attributes)


def _draw_constants(asked: IntegerProblem, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Weights, zero points, scales and bias, by name, shaped as the operator reads them."""
    plain = asked.plain
    low, high = np.iinfo(asked.w).min, np.iinfo(asked.w).max
    # Symmetric quantisers leave the least code out.
    w = rng.integers(low + (low < 0), high + 1, plain.w, dtype=asked.w)
    columns = plain.w[-1] if plain.kind == "matmul" else plain.w[0]
    found: dict[str, np.ndarray] = {
        "w": np.ascontiguousarray(w.T) if plain.kind == "linear" else w,
        "x_zero": np.array(_ZEROS["x"][asked.x], asked.x),
        "w_zero": np.array(_ZEROS["w"][asked.w], asked.w),
    }
    per_channel = asked.scale == "channel"
    w_scale = np.full(columns if per_channel else (), _W_SCALE, np.float32)
    w_scale = w_scale * (np.exp2(rng.uniform(-1, 1, columns)).astype(np.float32) if per_channel else np.float32(1))
    x_scale = np.float32(_X_SCALE)
    usual = _SPREAD * math.sqrt(plain.reduction_length) * np.iinfo("int8").max ** 2 / 3
    if asked.out in CODES:
        y_scale = np.float32(_X_SCALE * _W_SCALE * usual / _WIDE)
        found |= {"x_scale": np.array(x_scale), "w_scale": np.asarray(w_scale), "y_scale": np.array(y_scale)}
        found["y_zero"] = np.array(_ZEROS["y"][asked.out], asked.out)
        if per_channel:
            found["w_zero"] = np.full(columns, found["w_zero"])
    elif asked.out == "float32":
        found["scale"] = _align(plain, np.asarray(x_scale * w_scale))
    if plain.bias:
        codes = rng.integers(-int(usual), int(usual) + 1, columns, dtype=np.int32)
        found["bias"] = codes if asked.out in CODES else _align(plain, codes)
        if asked.out == "float32":
            found["bias"] = (found["bias"] * (_X_SCALE * _W_SCALE)).astype(np.float32)
    return found


def _align(plain: Problem, values: np.ndarray) -> np.ndarray:
    """One number for each channel of the result, along its axis."""
    is_plain = plain.kind in PRODUCTS or not values.ndim
    return values if is_plain else values.reshape(-1, *(1,) * plain.rank)


def _list_nodes(asked: IntegerProblem) -> list[Any]:
    from onnx import helper

    plain, is_product = asked.plain, asked.plain.kind in PRODUCTS
    window = {} if is_product else _describe_window(plain)
    quantised = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero"]
    if asked.out in CODES:
        if is_product and plain.bias:
            inputs = [*quantised, "bias", "y_scale", "y_zero"]
            return [helper.make_node("QGemm", inputs, ["y"], name="product", domain="com.microsoft")]
        operator = "QLinearMatMul" if is_product else "QLinearConv"
        inputs = [*quantised, "y_scale", "y_zero", *(["bias"] if plain.bias else [])]
        return [helper.make_node(operator, inputs, ["y"], name="product", **window)]
    operator, steps = "MatMulInteger" if is_product else "ConvInteger", list[Any]()
    steps.append((operator, ["x", "w", "x_zero", "w_zero"], window))
    if asked.out == "float32":
        steps += [("Cast", ["{}"], {"to": 1}), ("Mul", ["{}", "scale"], {})]
    if plain.bias:
        steps.append(("Add", ["{}", "bias"], {}))
    nodes: list[Any] = []
    value = "x"
    for number, (name, inputs, attributes) in enumerate(steps):
        made = "y" if number == len(steps) - 1 else f"step_{number}"
        own = [value if one == "{}" else one for one in inputs]
        nodes.append(helper.make_node(name, own, [made], name=f"{name.lower()}_{number}", **attributes))
        value = made
    return nodes


def _describe_window(plain: Problem) -> dict[str, Any]:
    """A convolution's attributes as ONNX has them."""
    begins, ends = [a.pad_begin for a in plain.axes], [a.pad_end for a in plain.axes]
    return {
        "strides": list(plain.stride), "dilations": list(plain.dilation), "pads": begins + ends, "group": plain.groups,
    }  # fmt: skip
