"""From an ONNX Conv or ConvTranspose node to a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from samebits.errors import ProblemShapeError
from samebits.problems.problem import Padding, Problem, Shape, as_kind


def problem_from_onnx_node(
    op_type: str, attributes: Mapping[str, Any], x: Shape, w: Shape, *, bias: bool, dtype: str
) -> Problem:
    """The problem that an ONNX node computes (operators Conv-22 and ConvTranspose-22, all attributes).

    `attributes` are the node's, as Python values. Raises ProblemShapeError for another operator or rank, for a
    kernel_shape that is not w's, and for an output_shape that no padding gives.
    """
    rank = len(x) - 2
    if op_type not in ("Conv", "ConvTranspose") or not 1 <= rank <= 3:
        raise ProblemShapeError(f"ONNX {op_type} with {rank} spatial axes is no convolution that samebits knows")
    kernel = tuple(attributes.get("kernel_shape") or w[2:])
    if kernel != tuple(w[2:]):
        raise ProblemShapeError(f"ONNX kernel_shape {kernel} is not that of the weights, {tuple(w[2:])}")
    kind = as_kind(f"{'conv_transpose' if op_type == 'ConvTranspose' else 'conv'}{rank}d")
    stride = tuple(attributes.get("strides") or (1,) * rank)
    dilation = tuple(attributes.get("dilations") or (1,) * rank)
    extra = tuple(attributes.get("output_padding") or (0,) * rank)
    padding = _padding(attributes, rank)
    output_shape = attributes.get("output_shape")
    if output_shape:
        upper = attributes.get("auto_pad", "NOTSET") == "SAME_UPPER"
        padding, extra = _padding_for(output_shape[-rank:], x[2:], kernel, stride, dilation, extra, upper)
    return Problem(
        kind=kind, x=tuple(x), w=tuple(w), bias=bias, stride=stride, padding=padding, dilation=dilation,
        output_padding=extra, groups=attributes.get("group", 1), dtype=dtype,
    )  # fmt: skip


def _padding(attributes: Mapping[str, Any], rank: int) -> Padding:
    auto = attributes.get("auto_pad", "NOTSET")
    if auto == "SAME_UPPER":
        return "same_upper"
    if auto == "SAME_LOWER":
        return "same_lower"
    pads = list(attributes.get("pads") or [0] * 2 * rank) if auto == "NOTSET" else [0] * 2 * rank
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
