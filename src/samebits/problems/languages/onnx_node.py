"""From an ONNX Conv, ConvTranspose, Gemm or MatMul node to a problem."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.errors import ProblemShapeError
from samebits.problems.problem import Padding, Problem, Shape, as_kind


def problem_from_onnx_node(
    op_type: str, attributes: Mapping[str, Any], x: Shape, w: Shape, *, bias: bool, dtype: str
) -> Problem:
    """The problem that an ONNX node computes (operators Conv-22, ConvTranspose-22, Gemm-13, MatMul-13, all attributes).

    A Gemm's operands have their shapes as multiplied, transposed where transA or transB say so: `linear` with the bias
    or where B is turned, else `matmul`; alpha and beta must be 1, and a bias one row. `attributes` are the node's, as
    Python values. Raises ProblemShapeError for another operator or rank, for attributes that are not of the type and
    number ONNX says, for a kernel_shape that is not w's, and for an output_shape that no padding gives.
    """
    x, w = _whole_numbers(x, "the shape of x"), _whole_numbers(w, "the shape of w")
    if op_type == "MatMul":
        if bias:
            raise ProblemShapeError("ONNX MatMul has no bias; an Add that follows it makes the two a linear layer")
        return Problem("matmul", x, w, dtype=dtype)
    if op_type == "Gemm":
        return _read_gemm(attributes, x, w, bias=bias, dtype=dtype)
    rank = len(x) - 2
    if op_type not in ("Conv", "ConvTranspose") or not 1 <= rank <= 3:
        raise ProblemShapeError(f"ONNX {op_type} with {rank} spatial axes is no convolution that samebits knows")
    if len(w) != rank + 2:
        raise ProblemShapeError(f"ONNX {op_type}: weights of {len(w)} axes do not go with data of {rank + 2}")
    given = _Attributes(attributes, rank)
    kernel = given.read("kernel_shape", w[2:])
    if kernel != w[2:]:
        raise ProblemShapeError(f"ONNX kernel_shape {kernel} is not that of the weights, {w[2:]}")
    kind = as_kind(f"{'conv_transpose' if op_type == 'ConvTranspose' else 'conv'}{rank}d")
    stride, dilation = given.read("strides", (1,) * rank), given.read("dilations", (1,) * rank)
    extra = given.read("output_padding", (0,) * rank)
    padding = _padding(given, rank)
    output_shape = attributes.get("output_shape")
    if output_shape is not None and len(wanted := _whole_numbers(output_shape, "ONNX output_shape")):
        # Its length may count batch and channels too.
        target = wanted[-rank:]
        if len(target) != rank:
            raise ProblemShapeError(f"ONNX output_shape must be {rank} whole numbers, not {target}")
        upper = given.auto_pad == "SAME_UPPER"
        padding, extra = _padding_for(target, x[2:], kernel, stride, dilation, extra, upper)
    (groups,) = _whole_numbers((attributes.get("group", 1),), "ONNX group")
    return Problem(
        kind=kind, x=x, w=w, bias=bias, stride=stride, padding=padding, dilation=dilation,
        output_padding=extra, groups=groups, dtype=dtype,
    )  # fmt: skip


def _read_gemm(attributes: Mapping[str, Any], x: Shape, w: Shape, *, bias: bool, dtype: str) -> Problem:
    if len(x) != 2 or len(w) != 2:
        raise ProblemShapeError(f"ONNX Gemm takes matrices, not operands of {len(x)} and {len(w)} axes")
    for name in ("alpha", "beta"):
        if attributes.get(name, 1.0) != 1.0 and (name == "alpha" or bias):
            raise ProblemShapeError(f"ONNX Gemm with {name}={attributes[name]!r} is not what a problem can express")
    turns = {name: _whole_numbers((attributes.get(name, 0),), f"ONNX {name}")[0] for name in ("transA", "transB")}
    x = x[::-1] if turns["transA"] else x
    if bias or turns["transB"]:
        return Problem("linear", x, w if turns["transB"] else w[::-1], bias=bias, dtype=dtype)
    return Problem("matmul", x, w, dtype=dtype)


@dataclass(frozen=True)
class _Attributes:
    """Attributes of a node with so many spatial axes, checked when they are read."""

    values: Mapping[str, Any]
    rank: int

    @property
    def auto_pad(self) -> str:
        """NOTSET, VALID, SAME_UPPER or SAME_LOWER."""
        found = self.values.get("auto_pad", "NOTSET")
        if isinstance(found, bytes):
            # As onnx.helper.get_attribute_value returns it.
            found = found.decode("ascii", "replace")
        if found not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
            raise ProblemShapeError(f"ONNX auto_pad {found!r} is none that ONNX has")
        return found

    def read(self, name: str, default: Shape, per_axis: int = 1) -> Shape:
        """An attribute of whole numbers, `per_axis` of them for every spatial axis; empty ones are not set."""
        found = self.values.get(name)
        numbers = () if found is None else _whole_numbers(found, f"ONNX {name}")
        if not numbers:
            return default
        if len(numbers) != per_axis * self.rank:
            raise ProblemShapeError(f"ONNX {name} must be {per_axis * self.rank} whole numbers, not {numbers}")
        return numbers


def _whole_numbers(values: Any, name: str) -> Shape:
    try:
        if isinstance(values, (str, bytes)):
            raise TypeError
        return tuple(operator.index(v) for v in values)
    except TypeError:
        raise ProblemShapeError(f"{name} must be whole numbers, not {values!r}") from None


def _padding(given: _Attributes, rank: int) -> Padding:
    auto = given.auto_pad
    if auto == "SAME_UPPER":
        return "same_upper"
    if auto == "SAME_LOWER":
        return "same_lower"
    pads = given.read("pads", (0,) * 2 * rank, 2) if auto == "NOTSET" else (0,) * 2 * rank
    return tuple((pads[a], pads[rank + a]) for a in range(rank))


def _padding_for(
    target: Sequence[int], x: Shape, kernel: Shape, stride: Shape, dilation: Shape, extra: Shape, upper: bool
) -> tuple[Padding, Shape]:
    """Padding and output_padding that give `target`; the odd one goes to the end for SAME_UPPER, else to the beginning.

    That is the formula in ConvTranspose's documentation; what is missing, not superfluous, becomes output_padding.
    """
    pads: list[tuple[int, int]] = []
    extras: list[int] = []
    for size, k, s, d, e, wanted in zip(x, kernel, stride, dilation, extra, target, strict=True):
        total = s * (size - 1) + e + (k - 1) * d + 1 - wanted
        small = max(total, 0) // 2
        pads.append((small, max(total, 0) - small) if upper else (max(total, 0) - small, small))
        extras.append(e + max(-total, 0))
    return tuple(pads), tuple(extras)
