"""What engines and converters are known to get wrong at one operator: attributes lost, padding, inputs exchanged.

Each is the node as it would be then, to be computed and compared with what an engine returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.networks.network import Node
from samebits.networks.operations import JOINS_BATCH
from samebits.networks.pooling import NO_END, find_pads
from samebits.networks.product_nodes import PRODUCTS
from samebits.networks.quantising_operations import CUTS
from samebits.networks.reducing_operations import WRAPS
from samebits.networks.region_operations import CLAMPS
from samebits.networks.resampling import EXTRAPOLATES

_EPSILONS = (1e-5, 1e-6, 1e-3, 1e-12, 0.0)
# Attributes that converters lose or change, with the values that frameworks give them.
_ATTRIBUTES: dict[str, dict[str, tuple[float | int | str, ...]]] = {
    "LayerNormalization": {"epsilon": _EPSILONS},
    "InstanceNormalization": {"epsilon": _EPSILONS},
    "GroupNormalization": {"epsilon": _EPSILONS},
    "BatchNormalization": {"epsilon": _EPSILONS},
    "RMSNormalization": {"epsilon": _EPSILONS},
    "Gelu": {"approximate": ("none", "tanh")},
    "Softmax": {"axis": (-1, 1, 2, 0)},
    "LogSoftmax": {"axis": (-1, 1, 2, 0)},
    "LeakyRelu": {"alpha": (0.01, 0.1, 0.2, 0.3)},
    "Elu": {"alpha": (1.0,)},
    "Celu": {"alpha": (1.0,)},
    "HardSigmoid": {"alpha": (0.2, 1 / 6), "beta": (0.5,)},
    "AveragePool": {"count_include_pad": (0, 1)},
    "LpPool": {"p": (1, 2)},
    "LpNormalization": {"p": (1, 2)},
    "Resize": {
        "coordinate_transformation_mode": (
            "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric",
        ),
        "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
        "cubic_coeff_a": (-0.75, -0.5),
        "exclude_outside": (0, 1),
        "antialias": (0, 1),
    },
    "GridSample": {
        "align_corners": (0, 1),
        "padding_mode": ("zeros", "border", "reflection"),
        "mode": ("linear", "bilinear", "nearest", "cubic", "bicubic"),
    },
    "TopK": {"largest": (0, 1)},
    "ArgMax": {"select_last_index": (0, 1)},
    "ArgMin": {"select_last_index": (0, 1)},
    "CumSum": {"exclusive": (0, 1), "reverse": (0, 1)},
    "DepthToSpace": {"mode": ("DCR", "CRD")},
    "Pad": {"mode": ("constant", "reflect", "edge", "wrap")},
    "Mod": {"fmod": (0, 1)},
    "RotaryEmbedding": {"interleaved": (0, 1)},
    "Attention": {"is_causal": (0, 1)},
}  # fmt: skip
_POOLS = ("AveragePool", "MaxPool", "LpPool")
# What attributes are called in a sentence, and the causes of their loss that have names of their own.
_PLAIN = {"pads": "padding", "auto_pad": "padding", "dilations": "dilation"}
_CAUSES = {
    "pads": CauseCode.PADDING, "auto_pad": CauseCode.PADDING, "perm": CauseCode.AXIS_ORDER,
    "output_padding": CauseCode.TRANSPOSED_GEOMETRY, "output_shape": CauseCode.TRANSPOSED_GEOMETRY,
}  # fmt: skip
_SAME = {"SAME_UPPER": "SAME_LOWER", "SAME_LOWER": "SAME_UPPER"}
# Operators that mean something else with their inputs in reverse, and how many of these come first.
_ORDERED = {"Sub": 0, "Div": 0, "Pow": 0, "Mod": 0, "Concat": 0, "Where": 1}

Fault = tuple[CauseCode, str, dict[str, Any]]


def list_faults(node: Node, sizes: tuple[int, ...] | None) -> Iterator[Fault]:
    """Cause, what the node does then, and what of it is changed; `sizes` are those of its first input, if known."""
    dropped = CauseCode.DROPPED_ATTRIBUTE
    for name, values in _ATTRIBUTES.get(node.operator, {}).items():
        own = node.attributes.get(name)
        for value in values:
            if value != own:
                declared = "its default" if own is None else own
                said = f"computes {node.operator} with {name} = {value} in place of {declared}"
                yield dropped, said, {"attributes": {**node.attributes, name: value}}
    if node.operator in _POOLS:
        yield from _list_pools(node, sizes)
    yield from _list_marked(node)
    first = _ORDERED.get(node.operator)
    if first is not None and len(node.inputs) - first == 2 and all(node.inputs):
        reverse = (*node.inputs[:first], *node.inputs[first:][::-1])
        yield CauseCode.AXIS_ORDER, f"takes the inputs of {node.operator} in reverse", {"inputs": reverse}


def _list_marked(node: Node) -> Iterator[Fault]:
    """Faults that no attribute of ONNX says: our rules compute an operator with a mark so."""
    mode = str(node.attributes.get("mode", ""))
    if node.operator == "GridSample" and mode in ("cubic", "bicubic"):
        says = "moves points of GridSample that lie outside into the image, before it looks around them"
        yield CauseCode.PADDING, says, _change(node, **{CLAMPS: 1})
    if node.operator in ("Resize", "Upsample") and mode == "linear":
        says = f"goes on past the first pixels of {node.operator} where it should stay there"
        yield CauseCode.PADDING, says, _change(node, **{EXTRAPOLATES: 1})
    if node.operator == "Resize" and mode in ("", "nearest"):
        yield from _list_nearest(node)
    if node.operator.startswith("Reduce"):
        says = f"adds whole numbers of {node.operator} in their own format, which overflows"
        yield CauseCode.OVERFLOW, says, _change(node, **{WRAPS: 1})
    if node.operator == "QuantizeLinear":
        says = "cuts off the fraction of a step where QuantizeLinear rounds it"
        yield CauseCode.REQUANTIZATION, says, _change(node, **{CUTS: 1})
    if node.operator in ("InstanceNormalization", "GroupNormalization"):
        says = f"takes the mean and variance of {node.operator} over the batch, too"
        yield CauseCode.AXIS_ORDER, says, _change(node, **{JOINS_BATCH: 1})


def list_lost(node: Node, opset: int) -> Iterator[Fault]:
    """Each attribute and each input that the operator may do without, lost: its default is computed with."""
    schema = _find_schema(node, opset)
    required = {name for name, one in schema.attributes.items() if one.required} if schema else set[str]()
    listed = _ATTRIBUTES.get(node.operator, {})
    for name in node.attributes:
        if name not in required and name not in listed and name != "kernel_shape":
            kept = {other: value for other, value in node.attributes.items() if other != name}
            said = f"ignores {node.operator}'s {_PLAIN.get(name, name)}"
            yield _CAUSES.get(name, CauseCode.DROPPED_ATTRIBUTE), said, {"attributes": kept}
    for i, formal in enumerate(schema.inputs if schema else ()):
        # The bounds of a clip have words of their own.
        optional = formal.option == formal.option.Optional and node.operator not in ("Clip", *PRODUCTS)
        if optional and i < len(node.inputs) and node.inputs[i]:
            inputs = (*node.inputs[:i], "", *node.inputs[i + 1 :])
            yield CauseCode.DROPPED_ATTRIBUTE, f"ignores {node.operator}'s {formal.name}", {"inputs": inputs}


def list_code_faults(
    node: Node, given: Sequence[np.ndarray | None]
) -> Iterator[tuple[CauseCode, str, Mapping[int, np.ndarray]]]:
    """What happens to codes that are made into numbers: other inputs of a DequantizeLinear, by their places."""
    codes, scale, zero = (*given, None, None, None)[:3]
    if node.operator != "DequantizeLinear" or codes is None:
        return
    if scale is not None and scale.size > 1:
        firsts = {i: np.full_like(one, one.flat[0]) for i, one in ((1, scale), (2, zero)) if one is not None}
        yield CauseCode.QUANTIZED_OPERANDS, "unpacks all codes with the first scale and zero point", firsts
    if codes.dtype.kind == "i" and codes.size and int(codes.min()) < 0:
        yield CauseCode.QUANTIZED_OPERANDS, "takes codes below zero for 0", {0: np.maximum(codes, 0)}


def _find_schema(node: Node, opset: int) -> Any:
    """What ONNX says of an operator; None of those that are not ONNX's own."""
    import onnx

    known = node.stored.domain in ("", "ai.onnx") and onnx.defs.has(node.operator, opset, "")
    return onnx.defs.get_schema(node.operator, opset, "") if known else None


def _list_nearest(node: Node) -> Iterator[Fault]:
    """Both attributes that choose the nearest pixel changed: each alone is in the table."""
    ways, given = _ATTRIBUTES["Resize"], node.attributes
    own_way = given.get("coordinate_transformation_mode", "half_pixel")
    own_rounding = given.get("nearest_mode", "round_prefer_floor")
    for way in (w for w in ways["coordinate_transformation_mode"] if w != own_way):
        for rounding in (r for r in ways["nearest_mode"] if r != own_rounding):
            says = f"computes Resize as {way} with nearest_mode = {rounding}"
            changed = _change(node, coordinate_transformation_mode=way, nearest_mode=rounding)
            yield CauseCode.DROPPED_ATTRIBUTE, says, changed


def _list_pools(node: Node, sizes: tuple[int, ...] | None) -> Iterator[Fault]:
    """Windows that lie elsewhere, or count other cells."""
    own, name = node.attributes, node.operator
    rank = len(own["kernel_shape"])
    pads = tuple(own.get("pads") or (0,) * 2 * rank)
    padding, dropped = CauseCode.PADDING, CauseCode.DROPPED_ATTRIBUTE
    if own.get("auto_pad") in _SAME:
        other = _SAME[own["auto_pad"]]
        yield padding, f"pads {name} as {other} in place of {own['auto_pad']}", _change(node, auto_pad=other)
    if pads[:rank] != pads[rank:]:
        turned = (*pads[rank:], *pads[:rank])
        yield padding, f"exchanges the beginning and the end of {name}'s padding", _change(node, pads=turned)
    if name == "AveragePool" and own.get("count_include_pad"):
        yield padding, f"leaves the padding behind the data out of {name}'s count", _change(node, **{NO_END: 1})
    if sizes is not None and own.get("ceil_mode"):
        ends = find_pads(sizes[2:], own)
        whole = (*(begin for begin, _ in ends), *(end for _, end in ends))
        if whole != pads and name == "AveragePool":
            says = f"counts what {name}'s windows reach beyond the padding, where the size is rounded up"
            yield padding, says, _change(node, pads=whole, ceil_mode=0, count_include_pad=1)
        if (kept := _keep_last_windows(sizes[2:], own)) is not None:
            says = f"keeps windows of {name} that begin in the end padding"
            yield padding, says, _change(node, pads=kept, ceil_mode=0)
    rounds = {1: "up", 0: "down"}[0 if own.get("ceil_mode") else 1]
    yield dropped, f"rounds {name}'s size {rounds}", _change(node, ceil_mode=0 if own.get("ceil_mode") else 1)
    for attribute in ("strides", "kernel_shape", "dilations"):
        value = tuple(own.get(attribute) or ())
        if len(set(value)) > 1:
            yield dropped, f"exchanges the {attribute} of {name}'s axes", _change(node, **{attribute: value[::-1]})


def _keep_last_windows(sizes: tuple[int, ...], own: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Paddings with which windows that rounding up would make, and ONNX leaves out, are there; None without such."""
    ends, kept = find_pads(sizes, own), []
    rank = len(ends)
    pads = tuple(own.get("pads") or (0,) * 2 * rank)
    strides = tuple(own.get("strides") or (1,) * rank)
    for axis, (begin, end) in enumerate(ends):
        over = pads[rank + axis] - end
        left = (sizes[axis] + begin + pads[rank + axis] - _reach(own, axis)) % strides[axis]
        kept.append(end + strides[axis] - left if left and over == 0 else end)
    if [end for _, end in ends] == kept or own.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    return (*(begin for begin, _ in ends), *kept)


def _reach(own: Mapping[str, Any], axis: int) -> int:
    """How many cells a window spans along an axis."""
    dilations = own.get("dilations") or (1,) * len(own["kernel_shape"])
    return (own["kernel_shape"][axis] - 1) * dilations[axis] + 1


def _change(node: Node, **attributes: Any) -> dict[str, Any]:
    return {"attributes": {**node.attributes, **attributes}}
