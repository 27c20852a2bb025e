"""What a unit should have returned for what it was really fed, and how far from it rounding may take it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from samebits.networks import bounded
from samebits.networks.bounded import Arithmetic, Bounded, Floats
from samebits.networks.function_bodies import apply_body, has_body
from samebits.networks.network import Network
from samebits.networks.operations import apply_node
from samebits.networks.product_nodes import PRODUCTS, apply_product
from samebits.networks.recurrent_operations import returns_states
from samebits.networks.units import Unit
from samebits.networks.values import Value
from samebits.numbers.format import BFLOAT16, FLOAT16, FORMATS, Format, find_format, numpy_dtype

# Operators that round nothing: where only these follow a product, its correctly rounded truth gives the unit's.
_KEEPS_ROUNDING = ("Relu", "Clip")
# Formats that engines compute in wider ones, where they may leave out the rounding between two operations.
HALVES = ("float16", "bfloat16")
_LOST = 2.0**FLOAT16.smallest_normal_exponent
# Engines that compute a Gelu as one take its erf from 1 - t (a1 + t (a2 + ...)) exp(-x^2) with t = 1 / (1 + p x), exact
# to 1.5e-7 or 2.5 units of float32 (Abramowitz and Stegun, 7.1.26). Near 0, where t is 1, each rounding of the
# polynomial is one of its partial sums (3.2 units in all), the two of t count 3.4 times, and exp, its argument, two
# products and the difference take 5 more.
_ERF_BESIDE_ONE = 18.0


@dataclass(frozen=True)
class OutputReference:
    """One output of a unit: its values in float64, rounded to its dtype, and the largest error that rounding allows.

    `bound` is None where an operator of the unit, `unknown`, has no known bound. `usual` is the size of error that a
    plain computation seldom exceeds on the whole: the unit roundoff times what was added up.
    """

    truth: np.ndarray
    value: Floats
    bound: Floats | None
    usual: float = np.inf
    unknown: str = ""


def refer_unit(
    network: Network,
    folded: Mapping[str, np.ndarray],
    unit: Unit,
    fed: Mapping[str, np.ndarray],
    *,
    narrow: bool = False,
    unrounded: bool = False,
) -> dict[str, OutputReference]:
    """What each output of a unit should be for these inputs; outputs of whole numbers and truth values included.

    With `narrow` the bounds are those of the same function in bfloat16 throughout; with `unrounded` what other units
    made may have had more digits than its format holds. What cannot be computed has none.
    """
    passed = {v for v in fed if unrounded and v not in network.inputs}
    values: dict[str, Value | None] = {
        v: _take_value(network, folded, fed, v, passed)
        for place in unit.places
        for v in network.nodes[place].inputs
        if v in folded or v in fed
    }
    format_ = find_unit_format(network, unit, fed)
    a = bounded.arithmetic_in(format_, unit=float(BFLOAT16.unit_roundoff) if narrow else 0.0)
    if narrow:
        # As `bound_narrowest_errors` allows: what lies below float16's smallest normal number may be lost.
        a = replace(a, least=_LOST)
    usual: list[float] = []
    # By value, the first operator on its way whose error nobody can bound.
    unknown: dict[str, str] = {}
    plain = len(unit.products) == 1 and all(o in _KEEPS_ROUNDING for o in unit.operators[1:])
    for place in unit.places:
        node = network.nodes[place]
        inputs = [values.get(v) if v else None for v in node.inputs]
        names = [v for v in node.outputs if v]
        if any(value is None for value, name in zip(inputs, node.inputs, strict=True) if name):
            results: list[Value] | None = None
        elif node.operator in PRODUCTS:
            results = apply_product(a, node, inputs, format_.name, rounds=plain)
        elif has_body(node, network.opset):
            returned = fed.get(node.outputs[0]) if returns_states(node) else None
            results = apply_body(a, node, inputs, network.opset, format_.name, returned=returned)
        else:
            outside = [v in folded or v in fed for v in node.inputs]
            given = [_narrow(a, v) if narrow and o else v for v, o in zip(inputs, outside, strict=True)]
            results = apply_node(a, node, given, network.opset)
        if results:
            results = _allow_for_context(a, network, folded, place, inputs, results)
        if node.operator in PRODUCTS and results:
            usual.append(_find_usual(results[0], format_))
        if results is None:
            before = next((unknown[v] for v in node.inputs if v in unknown), node.operator)
            unknown |= dict.fromkeys(names, before)
        values |= dict(zip(names, results, strict=False)) if results is not None else dict.fromkeys(names)
    size = usual[0] if len(usual) == 1 else np.inf
    return {v: _conclude(values.get(v), format_, size, unknown.get(v, ""), fed.get(v)) for v in unit.outputs}


def _allow_for_context(
    a: Arithmetic,
    network: Network,
    folded: Mapping[str, np.ndarray],
    place: int,
    inputs: Sequence[Value | None],
    results: list[Value],
) -> list[Value]:
    """A node's results with what engines may do to it together with its neighbours."""
    first = results[0]
    if network.nodes[place].operator in ("Add", "Sub") and _are_whole(a, inputs, results):
        # Such as one less a mask: no way to compute it rounds.
        return [bounded.exactly(v.value) for v in results if isinstance(v, Bounded)]
    if isinstance(first, Bounded) and _is_multiplied_out(network, folded, place):
        # (x - m) k may be computed as x k - m k: both parts are rounded.
        return [replace(first, growth=max(first.growth, a.unit)), *results[1:]]
    if isinstance(first, Bounded) and _is_added_to_one(network, folded, place):
        return [replace(first, error=first.error + _ERF_BESIDE_ONE * a.unit)]
    return results


def _are_whole(a: Arithmetic, inputs: Sequence[Value | None], results: Sequence[Value]) -> bool:
    """Whether known whole numbers become whole numbers, all so small that the format holds them."""
    for value in (*inputs, *results):
        if not isinstance(value, Bounded) or float(np.abs(value.value).max(initial=0.0)) * a.unit >= 0.5:
            return False
        if value.growth or not (value.value == np.rint(value.value)).all():
            return False
    return not any(isinstance(v, Bounded) and v.error.any() for v in inputs)


def _is_multiplied_out(network: Network, folded: Mapping[str, np.ndarray], place: int) -> bool:
    """Whether a node adds a constant and the next one scales by a constant: compilers may multiply that out."""
    node = network.nodes[place]
    if node.operator not in ("Add", "Sub") or not any(v in folded for v in node.inputs):
        return False
    readers = [network.nodes[r] for r in network.consumers.get(node.outputs[0], ())]
    return any(r.operator in ("Mul", "Div") and any(v in folded for v in r.inputs) for r in readers)


def _is_added_to_one(network: Network, folded: Mapping[str, np.ndarray], place: int) -> bool:
    """Whether a node is the erf of a Gelu: whatever reads it adds 1."""
    node = network.nodes[place]
    if node.operator != "Erf" or node.outputs[0] in network.outputs:
        return False
    readers = [network.nodes[r] for r in network.consumers.get(node.outputs[0], ())]
    return all(r.operator == "Add" and any(v in folded and (folded[v] == 1).all() for v in r.inputs) for r in readers)


def find_unit_format(network: Network, unit: Unit, fed: Mapping[str, np.ndarray]) -> Format:
    """The narrowest floating format among what a unit is fed: that in which it computes; float32 where it has none."""
    formats = [FORMATS[fed[v].dtype.name] for v in unit.inputs if v in fed and fed[v].dtype.name in FORMATS]
    return min(formats, key=lambda f: f.precision, default=find_format("float32"))


def _take_value(
    network: Network, folded: Mapping[str, np.ndarray], fed: Mapping[str, np.ndarray], value: str, passed: set[str]
) -> Value:
    """What a unit takes: a constant, as far as rounding lets it be known, or what was fed."""
    if value not in folded:
        return _as_value(fed[value], unrounded=value in passed)
    # Others' constants, rounded for a hypothesis, are what they are.
    own = folded is network.folded and network.folded_bounds.get(value)
    return own or _as_value(folded[value])


def _as_value(array: np.ndarray, *, unrounded: bool = False) -> Value:
    if array.dtype.name not in FORMATS:
        return array
    value = bounded.exactly(array)
    if not unrounded or array.dtype.name not in HALVES:
        return value
    format_ = find_format(array.dtype.name)
    half_step = float(format_.unit_roundoff) * np.abs(value.value) + float(format_.smallest_subnormal) / 2
    return Bounded(value.value, np.where(np.isfinite(value.value), half_step, 0.0), value.magnitude)


def _narrow(a: Arithmetic, value: Value | None) -> Value | None:
    """What came in, rounded to the narrow format first; products allow for that themselves."""
    if not isinstance(value, Bounded):
        return value
    found = bounded.rounded(a, value.value, value.error)
    return Bounded(value.value, found.error, value.magnitude, value.growth)


def _conclude(
    value: Value | None, format_: Format, usual: float, unknown: str, returned: np.ndarray | None
) -> OutputReference:
    """The reference of one output; an empty one, without a bound, if its value is not known."""
    if value is None:
        return OutputReference(np.empty(0), np.empty(0), None, unknown=unknown)
    if not isinstance(value, Bounded):
        return OutputReference(value, value.astype(np.float64), np.zeros(value.shape))
    if returned is not None and returned.dtype.kind in "iu":  # Codes, of which some may be either of two.
        return OutputReference(value.value.astype(returned.dtype), value.value, value.error)
    with np.errstate(over="ignore", invalid="ignore"):
        truth = value.value.astype(numpy_dtype(format_.name))
        # Moves and choices are exact; anything else was rounded to its format at the end.
        last = np.where(value.error > 0, float(format_.unit_roundoff) * np.abs(value.value), 0.0)
        bound = value.error + last
        # Of an unlimited error times 0 nothing is known either.
        bound = np.where(np.isnan(bound) & np.isfinite(value.value), np.inf, bound)
        return OutputReference(truth, value.value, bound, usual)


def _find_usual(value: Value, format_: Format) -> float:
    if not isinstance(value, Bounded):
        return np.inf
    magnitudes = value.magnitude[np.isfinite(value.magnitude)]
    if not magnitudes.size:
        return np.inf
    return float(format_.unit_roundoff) * float(np.sqrt((magnitudes**2).mean()))
