"""Operators on codes in place of numbers, as onnxruntime's quantizer writes them: written out in plain ones.

A code stands for (code - zero point) * scale: an operator on codes is the plain one between DequantizeLinear and
QuantizeLinear, and its own codes may be either of two where the result lies at a middle within rounding. Sources:
ONNX's QLinearConv and QLinearMatMul, onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from samebits.networks.operator_writer import CODES_OF_8_BITS, OperatorWriter, Write


def _read(w: OperatorWriter, place: int, axis: int | None = None) -> str:
    """The numbers that codes stand for; codes, scale and zero point are inputs one behind the other."""
    along: dict[str, Any] = {} if axis is None else {"axis": axis}
    return w.add("DequantizeLinear", *w.take_all(place, place + 3), **along)


def _store(w: OperatorWriter, value: str, place: int) -> None:
    """Numbers as the node's codes; scale and zero point are inputs one behind the other."""
    w.add("QuantizeLinear", value, *w.take_all(place, place + 2), makes=w.node.output[0])


def _conv(w: OperatorWriter) -> None:
    bias: list[str] = []
    if w.take(8):
        step = w.add("Mul", w.take(1), w.take(4))
        bias = [w.add("Mul", w.cast(w.take(8), np.float32), step)]
    _store(w, w.add("Conv", _read(w, 0), _read(w, 3, axis=0), *bias, **w.given), 6)


def _matmul(w: OperatorWriter) -> None:
    last = w.find_rank(w.take(3)) - 1
    _store(w, w.add("MatMul", _read(w, 0), _read(w, 3, axis=last)), 6)


def _gemm(w: OperatorWriter) -> None:
    kept = {name: value for name, value in w.given.items() if name != "alpha"}
    w.refuse_unless(float(w.given.get("alpha", 1.0)) == 1.0)
    third: list[str] = []
    if w.take(6):
        step = w.add("Mul", w.take(1), w.take(4))
        third = [w.add("Mul", w.cast(w.take(6), np.float32), step)]
    axis = 0 if w.given.get("transB") else 1
    value = w.add("Gemm", _read(w, 0), _read(w, 3, axis=axis), *third, **kept)
    if w.take(7):
        _store(w, value, 7)
    else:
        w.end(value)


def _two(w: OperatorWriter, *, operator: str) -> None:
    _store(w, w.add(operator, _read(w, 0), _read(w, 3)), 6)


def _one(w: OperatorWriter, *, operator: str) -> None:
    w.refuse_unless(not w.given.get("channels_last"))
    kept = {name: value for name, value in w.given.items() if name not in ("channels_last", "opset")}
    _store(w, w.add(operator, _read(w, 0), **kept), 3)


def _choose(w: OperatorWriter) -> None:
    _store(w, w.add("Where", w.take(0), _read(w, 1), _read(w, 4)), 7)


def _concat(w: OperatorWriter) -> None:
    parts = [_read(w, place) for place in range(2, len(w.node.input), 3)]
    _store(w, w.add("Concat", *parts, axis=int(w.given["axis"])), 0)


def _multiply_codes(w: OperatorWriter, codes: tuple[str, str], zeros: list[str], step: str, bias: str) -> None:
    """The product of codes as whole numbers, times the step that both scales make."""
    names = [*codes, *zeros]
    while not names[-1]:
        names.pop()
    product = w.cast(w.add("MatMulInteger", *names), np.float32)
    value = w.add("Mul", product, step)
    w.end(w.add("Add", value, bias) if bias else value)


def _scaled_product(w: OperatorWriter) -> None:
    step = w.add("Mul", w.take(2), w.take(3))
    _multiply_codes(w, (w.take(0), w.take(1)), [w.take(4), w.take(5)], step, w.take(6))


def _dynamic_product(w: OperatorWriter) -> None:
    codes, scale, zero = w.add_several("DynamicQuantizeLinear", [w.take(0)], 3)
    step = w.add("Mul", scale, w.take(2))
    _multiply_codes(w, (codes, w.take(1)), [zero, w.take(3)], step, w.take(4))


def _recurrent(w: OperatorWriter) -> None:
    """DynamicQuantizeLSTM: LSTM with the weights that the codes [directions, inputs, gates] stand for.

    What it is fed, and its state at every step, pass through codes of 8 bits: the LSTM allows for that.
    """
    weights: list[str] = []
    for place, at in ((1, 8), (2, 10)):
        codes, scale = w.find_constant(w.take(place)), w.find_constant(w.take(at)).astype(np.float64)
        zero = w.find_constant(w.take(at + 1)).astype(np.float64) if w.take(at + 1) else np.zeros(codes.shape[0])
        scale, zero = (v.reshape(codes.shape[0], 1, -1) for v in (scale, zero))
        weights.append(w.keep(((codes.astype(np.float64) - zero) * scale).transpose(0, 2, 1), np.float32))
    kept = {**w.given, CODES_OF_8_BITS: 1}
    rest = w.take_all(3, 8)
    made = [w.node.output[i] if w.has_output(i) else "" for i in range(3)]
    w.add_node("LSTM", [w.take(0), *weights, *rest], made, kept)


def _packed_product(w: OperatorWriter) -> None:
    """MatMulNBits: weights of few bits, packed into bytes, in blocks along the sum with a scale each."""
    given, w_codes = w.given, w.find_constant(w.take(1))
    bits, block, depth, columns = (int(given[name]) for name in ("bits", "block_size", "K", "N"))
    w.refuse_unless(bits in (2, 4, 8) and not w.take(4))
    blocks = -(-depth // block)
    codes = _unpack(w_codes.reshape(columns, blocks, -1), bits)[..., :block].astype(np.float64)
    scales = w.find_constant(w.take(2)).reshape(columns, blocks, 1)
    zeros: Any = float(2 ** (bits - 1))
    if w.take(3):
        given_zeros = w.find_constant(w.take(3))
        is_packed = given_zeros.dtype == np.uint8
        rows = _unpack(given_zeros.reshape(columns, -1), bits) if is_packed else given_zeros.reshape(columns, -1)
        zeros = rows[:, :blocks, None].astype(np.float64)
    # A product of constants: engines round the weights that it gives, or multiply by the scale later.
    codes = np.pad(codes, ((0, 0), (0, 0), (0, block - codes.shape[2]))) - zeros
    weights = w.add("Mul", w.keep(codes, scales.dtype), w.keep(scales, scales.dtype))
    weights = w.slice(w.reshape(weights, (columns, blocks * block)), 1, 0, depth)
    product = w.add("MatMul", w.take(0), w.turn(weights, (1, 0)))
    w.end(w.add("Add", product, w.take(5)) if w.take(5) else product)


def _gather_packed(w: OperatorWriter) -> None:
    """GatherBlockQuantized: rows of a table of few bits, in blocks along its last axis with a scale each."""
    given, table = w.given, w.find_constant(w.take(0))
    bits, block, rank = int(given.get("bits", 4)), int(given.get("block_size", 128)), table.ndim
    along, is_packed = int(given.get("quantize_axis", 1)) % rank, table.dtype == np.uint8
    w.refuse_unless(along == rank - 1 and (is_packed or table.dtype.itemsize == 1))
    codes = _unpack(table, bits) if is_packed else table
    scales = w.find_constant(w.take(2))
    default = float(2 ** (bits - 1)) if is_packed else 0.0
    zeros: Any = default
    if w.take(3):
        given_zeros = w.find_constant(w.take(3))
        zeros = (_unpack(given_zeros, bits) if is_packed else given_zeros).astype(np.float64)[..., : scales.shape[-1]]
        zeros = np.repeat(zeros, block, -1)[..., : codes.shape[-1]]
    steps = np.repeat(scales.astype(np.float64), block, -1)[..., : codes.shape[-1]]
    rows = w.keep((codes.astype(np.float64) - zeros) * steps, scales.dtype)
    w.add("Gather", rows, w.take(1), axis=int(given.get("gather_axis", 0)), makes=w.node.output[0])


def _unpack(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers in bytes, the lowest bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (packed[..., None] >> shifts) & np.uint8(2**bits - 1)
    return parts.reshape(*packed.shape[:-1], -1)


QUANTISED: dict[str, Write] = {
    "QuantizeLinear": lambda w: w.add_same("QuantizeLinear"),
    "DequantizeLinear": lambda w: w.add_same("DequantizeLinear"),
    "QGemm": _gemm,
    "QLinearAdd": functools.partial(_two, operator="Add"),
    "QLinearMul": functools.partial(_two, operator="Mul"),
    "QLinearConcat": _concat,
    "QLinearWhere": _choose,
    "QLinearConv": _conv,
    "QLinearSigmoid": functools.partial(_one, operator="Sigmoid"),
    "QLinearLeakyRelu": functools.partial(_one, operator="LeakyRelu"),
    "QLinearSoftmax": functools.partial(_one, operator="Softmax"),
    "QLinearAveragePool": functools.partial(_one, operator="AveragePool"),
    "QLinearGlobalAveragePool": functools.partial(_one, operator="GlobalAveragePool"),
    "MatMulIntegerToFloat": _scaled_product,
    "DynamicQuantizeMatMul": _dynamic_product,
    "DynamicQuantizeLSTM": _recurrent,
    "MatMulNBits": _packed_product,
    "GatherBlockQuantized": _gather_packed,
}
# ONNX has these itself, and says what they compute in words.
OF_WORDS: dict[str, Write] = {"QLinearConv": _conv, "QLinearMatMul": _matmul}
