"""What engines and converters are known to get wrong at one operator: attributes lost, padding, inputs exchanged.

Each is the node as it would be then, to be computed and compared with what an engine returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from samebits.findings.causes import CauseCode
from samebits.networks.network import Node
from samebits.networks.pooling import find_pads

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
    first = _ORDERED.get(node.operator)
    if first is not None and len(node.inputs) - first == 2 and all(node.inputs):
        reverse = (*node.inputs[:first], *node.inputs[first:][::-1])
        yield CauseCode.AXIS_ORDER, f"takes the inputs of {node.operator} in reverse", {"inputs": reverse}


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
    if any(pads):
        yield padding, f"ignores {name}'s padding", _change(node, pads=(0,) * 2 * rank)
    if sizes is not None and own.get("ceil_mode"):
        ends = find_pads(sizes[2:], own)
        whole = (*(begin for begin, _ in ends), *(end for _, end in ends))
        if whole != pads and name == "AveragePool":
            says = f"counts what {name}'s windows reach beyond the padding, where the size is rounded up"
            yield padding, says, _change(node, pads=whole, ceil_mode=0, count_include_pad=1)
    rounds = {1: "up", 0: "down"}[0 if own.get("ceil_mode") else 1]
    yield dropped, f"rounds {name}'s size {rounds}", _change(node, ceil_mode=0 if own.get("ceil_mode") else 1)
    for attribute in ("strides", "kernel_shape", "dilations"):
        value = tuple(own.get(attribute) or ())
        if len(set(value)) > 1:
            yield dropped, f"exchanges the {attribute} of {name}'s axes", _change(node, **{attribute: value[::-1]})
    if any(d != 1 for d in own.get("dilations") or ()):
        yield dropped, f"ignores {name}'s dilation", _change(node, dilations=(1,) * rank)


def _change(node: Node, **attributes: Any) -> dict[str, Any]:
    return {"attributes": {**node.attributes, **attributes}}
