"""A unit that is one function of rows, as the problem of that name: what explains such results explains it, too."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from samebits.errors import SamebitsError
from samebits.judging.formula_reference import make_formula_reference
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.row_functions.row_search import find_row_mechanism
from samebits.networks.network import Network, Node
from samebits.networks.units import Unit
from samebits.problems.row_functions import RowFunction

_NORMS = {"LayerNormalization": "layernorm", "RMSNormalization": "rmsnorm"}
_OPSET_OF_PLAIN_SOFTMAX = 13


def explain_rows(
    network: Network, folded: Mapping[str, np.ndarray], unit: Unit, seen: Mapping[str, np.ndarray]
) -> Mechanism | None:
    """What made the result of a unit that is one softmax, norm or Gelu and deviates; None where nothing is found."""
    if len(unit.places) != 1 or len(unit.outputs) != 1:
        return None
    node = network.nodes[unit.places[0]]
    inputs = [folded.get(v, seen.get(v)) if v else None for v in node.inputs]
    result = seen[unit.outputs[0]]
    try:
        asked, operands = _state_rows(node, inputs, network.opset)
        if result.shape != asked.x or result.dtype != operands["x"].dtype:
            return None
        reference = make_formula_reference(asked, operands)
        return find_row_mechanism(reference, operands, reference.without_empty(result))
    except (SamebitsError, LookupError):
        return None


def _state_rows(node: Node, inputs: list[np.ndarray | None], opset: int) -> tuple[RowFunction, dict[str, np.ndarray]]:
    """The problem and its operands; raises LookupError where a node is none of these functions."""
    x, weight, bias = (*inputs, None, None, None)[:3]
    if x is None or not x.ndim:
        raise LookupError
    given, dtype, rank = node.attributes, x.dtype.name, x.ndim
    if node.operator in _NORMS:
        axes = rank - int(given.get("axis", -1)) % rank
        eps = float(given.get("epsilon", 1e-5))
        asked = RowFunction(
            _NORMS[node.operator], x.shape, axes=axes, eps=eps, has_weight=weight is not None,
            has_bias=bias is not None, dtype=dtype,
        )  # fmt: skip
    elif node.operator == "Softmax" and opset >= _OPSET_OF_PLAIN_SOFTMAX:
        asked = RowFunction("softmax", x.shape, axis=int(given.get("axis", -1)), dtype=dtype)
    elif node.operator == "Gelu" and not node.stored.domain:
        asked = RowFunction("gelu", x.shape, approximate=str(given.get("approximate", "none")), dtype=dtype)
    else:
        raise LookupError
    operands = {name: a for name, a in (("x", x), ("weight", weight), ("bias", bias)) if a is not None}
    shapes = asked.operand_shapes
    if {name: a.shape for name, a in operands.items()} != shapes or any(a.dtype != x.dtype for a in operands.values()):
        raise LookupError
    return asked, operands
