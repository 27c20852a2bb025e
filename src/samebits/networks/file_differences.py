"""Two files of one network: where a converter lost, moved, rounded or replaced something; nothing is run for it.

Nodes correspond by the names of what they make, as exporters and converters keep them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.networks.constant_differences import compare_constants, differ_by_rounding, show_value
from samebits.networks.conversions import Conversion
from samebits.networks.folded_weights import FOLDING_ROUNDINGS, compare_folded, find_norm
from samebits.networks.function_bodies import find_default
from samebits.networks.matched_files import COMMUTING, digest
from samebits.networks.model_conclusion import Outcome
from samebits.networks.model_runners import OtherFileRunner
from samebits.networks.model_sentences import say_odd_weights, say_own_file, say_refolded, say_unmatched
from samebits.networks.network import Network, Node
from samebits.networks.operations import MOVES
from samebits.networks.product_nodes import PRODUCTS
from samebits.networks.same_operations import AXES, SHAPED, are_other_functions, have_same_axes, have_same_sizes
from samebits.networks.units import fold_constants
from samebits.networks.written_out import PLAIN_DOMAINS

_CAUSES = {
    "pads": CauseCode.PADDING,
    "auto_pad": CauseCode.PADDING,
    "output_padding": CauseCode.TRANSPOSED_GEOMETRY,
    "output_shape": CauseCode.TRANSPOSED_GEOMETRY,
    "perm": CauseCode.AXIS_ORDER,
}
# Values at other places, and windows of other sizes.
_SHOWN = (CauseCode.AXIS_ORDER, CauseCode.PADDING, CauseCode.TRANSPOSED_GEOMETRY)
# So few nodes are left out where a mask or a branch is.
_MOST_SKIPPED = 3
_SHOWN_ATTRIBUTES = ("ceil_mode", "dilations", "group", "kernel_shape", "strides")
# The nodes that read a constant of several numbers, each with the number of the input that it is, by what it holds.
_Holders = dict[tuple[object, ...], dict[str, int]]


@dataclass(frozen=True)
class FileDifference:
    """A difference of the second file at a node of the first, and the cause that it would be."""

    node: str
    cause: CauseCode
    says: str
    # Other nodes, which may do the same, and not other numbers.
    is_rewriting: bool = False
    # The same numbers but for their last bits.
    is_rounding: bool = False
    # Nothing in the second file was found for the node.
    is_unmatched: bool = False
    # The attribute that differs, if one does.
    attribute: str = ""

    @property
    def shows_always(self) -> bool:
        """Whether any inputs show it: a unit that is right on some has what makes up for it in another node."""
        return self.cause in _SHOWN or self.attribute in _SHOWN_ATTRIBUTES


def list_file_differences(first: Network, second: Network) -> list[FileDifference]:
    """How the second file differs from the first, in the first one's sequence."""
    return list(_list_all(first, second))


def _list_all(first: Network, second: Network) -> Iterator[FileDifference]:
    if first.opset != second.opset:
        says = f"opset {second.opset} in place of {first.opset}: operators may mean something else"
        yield FileDifference("", CauseCode.DROPPED_ATTRIBUTE, says)
    fusing = {v: n.op_type for n in second.stored.graph.node if n.domain not in PLAIN_DOMAINS for v in n.output if v}
    constant, other_constant = fold_constants(first), fold_constants(second)
    holders = _list_holders(first, constant)
    for node in first.nodes:
        if all(v in constant for v in node.outputs if v):
            # Whatever makes it, it is compared where it is read.
            continue
        place = next((second.producers[v] for v in node.outputs if v in second.producers), None)
        if place is None and _is_folded(first, node, second):
            continue
        if fused := _find_fused(first, node, second, fusing):
            yield FileDifference(node.name, CauseCode.FUSION, f"is computed by {fused} in the second file", True)
            continue
        if place is None:
            says = f"no node of the second file corresponds to this {node.operator}"
            yield FileDifference(node.name, CauseCode.FUSION, says, True, is_unmatched=True)
            continue
        other = second.nodes[place]
        if node.operator == "BatchNormalization" and other.operator in PRODUCTS:
            yield from _compare_with_folded(first, constant, other_constant, node, other)
            continue
        if other.operator != node.operator:
            if node.operator == "Add" and other.operator == "Gemm":
                yield from _compare_with_row(first, constant, other_constant, node, other)
            says = f"{other.operator} makes what {node.operator} makes in the first file"
            yield FileDifference(node.name, CauseCode.FUSION, says, not are_other_functions(constant, node, other))
            continue
        newest = max(first.opset, second.opset)
        says_sizes = node.operator in SHAPED and have_same_sizes(first, node, second, other)
        says_sizes |= node.operator in AXES and have_same_axes(first, constant, node, other_constant, other)
        skipped = {pair for pair in zip(other.inputs, node.inputs, strict=False) if _skips(first, constant, *pair)}
        yield from _compare_nodes(
            constant, other_constant, node, other, newest, holders, says_sizes=says_sizes, skipped=skipped
        )


def _skips(first: Network, constant: Mapping[str, np.ndarray], read: str, value: str) -> bool:
    """Whether the first file makes a value of this one and of others that depend on what comes in: a mask, a branch."""
    asked, mixes = [value], False
    for _ in range(_MOST_SKIPPED):
        if read in asked or not asked:
            break
        place = first.producers.get(asked.pop(0))
        own = [] if place is None else [v for v in first.nodes[place].inputs if v and v not in constant]
        mixes |= len(own) > 1
        asked += own
    return mixes and read in asked


def _compare_nodes(
    constant: Mapping[str, np.ndarray],
    other_constant: Mapping[str, np.ndarray],
    node: Node,
    other: Node,
    opset: int,
    holders: _Holders,
    *,
    says_sizes: bool = False,
    skipped: Collection[tuple[str, str]] = (),
) -> Iterator[FileDifference]:
    """How two nodes of one operator differ; `opset` is the newer one of both files.

    `says_sizes`: their second inputs say the same sizes, however these are written. `skipped`: see `_compare_inputs`.
    """
    moved = _find_moved(constant, other_constant, node, other)
    for found in _compare_attributes(node, other, opset, [*_list_meaningless(node, constant), *moved]):
        # Several moves may do together what one does.
        yield replace(found, is_rewriting=node.operator in MOVES)
    if moved:
        # What one file says as an input the other says as an attribute.
        shorter = min(len(node.inputs), len(other.inputs))
        node, other = (replace(n, inputs=n.inputs[:shorter]) for n in (node, other))
    if says_sizes:
        node, other = (replace(n, inputs=n.inputs[:1]) for n in (node, other))
    yield from _compare_inputs(constant, other_constant, node, other, holders, skipped)


def _compare_with_folded(
    first: Network,
    constant: Mapping[str, np.ndarray],
    other_constant: Mapping[str, np.ndarray],
    norm: Node,
    other: Node,
) -> Iterator[FileDifference]:
    """How a product with a batch normalisation folded in differs from both of the first file."""
    place = first.producers.get(norm.inputs[0])
    if place is None or first.nodes[place].operator != other.operator:
        return
    product = first.nodes[place]
    yield from _compare_attributes(product, other, first.opset)
    found = compare_folded(constant, other_constant, product, norm, other)
    if found is not None:
        yield FileDifference(product.name, *found)


def _compare_with_row(
    first: Network, constant: Mapping[str, np.ndarray], other_constant: Mapping[str, np.ndarray], add: Node, gemm: Node
) -> Iterator[FileDifference]:
    """How a Gemm differs from a MatMul and the Add of a row that the first file has in its place."""
    makers = [first.nodes[first.producers[v]] for v in add.inputs if v in first.producers]
    product = next((m for m in makers if m.operator in ("MatMul", "Gemm")), None)
    row = next((constant[v] for v in add.inputs if v in constant), None)
    if product is None or row is None:
        return
    weights, held = constant.get(product.inputs[1]), other_constant.get(gemm.inputs[1])
    bias = other_constant.get(gemm.inputs[2]) if len(gemm.inputs) > 2 and gemm.inputs[2] else None
    if weights is not None and held is not None:
        turned = bool(product.attributes.get("transB", 0)) != bool(gemm.attributes.get("transB", 0))
        found = compare_constants(weights, held.T if turned else held)
        if found is not None:
            yield FileDifference(product.name, found[0], f"input 2 of {product.operator} {found[1]}")
    if bias is not None and (found := compare_constants(row.reshape(-1), bias.reshape(-1))) is not None:
        yield FileDifference(add.name, found[0], f"the row that is added {found[1]}")


def _is_folded(first: Network, node: Node, second: Network) -> bool:
    """Whether the second file computes a product of the first together with the batch norm behind it."""
    norm = find_norm(first, node)
    if norm is None:
        return False
    place = second.producers.get(norm.outputs[0])
    return place is not None and second.nodes[place].operator in PRODUCTS


def _find_fused(first: Network, node: Node, second: Network, makers: Mapping[str, str]) -> str:
    """The fused operator of the second file that makes what this node leads to; "" where none does.

    `makers` has these operators by what they make.
    """
    asked, seen = [v for v in node.outputs if v], set[str]()
    while asked and len(seen) < _MOST_FUSED:
        value = asked.pop()
        seen.add(value)
        if value in makers:
            return makers[value]
        if value not in second.producers:
            asked += [v for r in first.consumers.get(value, ()) for v in first.nodes[r].outputs if v and v not in seen]
    return ""


# What every element of a list is that an operator takes where none is written. Source: ONNX's operators.
_PLAIN_ELEMENTS = {"pads": 0, "output_padding": 0, "strides": 1, "dilations": 1}
# What follows from the shapes of the constants.
_REPEATED = ("kernel_shape",)


def _find_moved(
    constant: Mapping[str, np.ndarray], other_constant: Mapping[str, np.ndarray], node: Node, other: Node
) -> list[str]:
    """Attributes of one node that the other has as its last inputs, as newer opsets have them, of the same value."""
    for one, two, known in ((node, other, other_constant), (other, node, constant)):
        names = [name for name in one.attributes if name not in two.attributes]
        extra = two.inputs[len(one.inputs) :]
        if extra and all(v in known for v in extra if v):
            held = [known[v].ravel().tolist() for v in extra if v]
            moved = [n for n in names if np.ravel(one.attributes[n]).tolist() in held]
            if len(moved) == len(held):
                return moved
    return []


def _list_meaningless(node: Node, constant: Mapping[str, np.ndarray]) -> Sequence[str]:
    """Attributes that mean nothing for what this node reads."""
    shape = constant.get(node.inputs[1]) if node.operator == "Reshape" else None
    return ("allowzero",) if shape is not None and shape.all() else ()


def _compare_attributes(
    node: Node, other: Node, opset: int, meaningless: Sequence[str] = ()
) -> Iterator[FileDifference]:
    for name in sorted({*node.attributes, *other.attributes} - set(meaningless)):
        a, b = node.attributes.get(name), other.attributes.get(name)
        if name in _REPEATED and None in (a, b) and node.operator in PRODUCTS:
            continue
        a, b = (_fill_in(node.operator, name, *pair, opset) for pair in ((a, b), (b, a)))
        if not _are_equal(a, b):
            cause = _CAUSES.get(name, CauseCode.DROPPED_ATTRIBUTE)
            said = "lost" if b is None else f"{show_value(b)} in place of {'none' if a is None else show_value(a)}"
            yield FileDifference(node.name, cause, f"{node.operator}'s {name} is {said}", attribute=name)


def _fill_in(operator: str, name: str, value: object, other: object, opset: int) -> object:
    """An attribute's value, or what stands for it where none is written; None where nothing does."""
    if value is not None:
        return value
    if isinstance(other, (list, tuple)) and name in _PLAIN_ELEMENTS:
        return [_PLAIN_ELEMENTS[name]] * len(other)
    return find_default(operator, name, opset)


def _are_equal(a: object, b: object) -> bool:
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        return a is not None and b is not None and list(a) == list(b)  # type: ignore[call-overload]  (both lists)
    same = a == b
    return same if isinstance(same, bool) else str(a) == str(b)


def _list_holders(network: Network, constant: Mapping[str, np.ndarray]) -> _Holders:
    found: _Holders = {}
    for node in network.nodes:
        for number, value in enumerate(node.inputs, 1):
            if value in constant and constant[value].size > 1:
                found.setdefault(digest(constant[value]), {}).setdefault(node.name, number)
    return found


def _compare_inputs(
    constant: Mapping[str, np.ndarray],
    other_constant: Mapping[str, np.ndarray],
    node: Node,
    other: Node,
    holders: _Holders,
    skipped: Collection[tuple[str, str]] = (),
) -> Iterator[FileDifference]:
    """The differences of a node's inputs: missing ones, other ones, or weights with other values.

    `skipped` are pairs of values of which the first file makes the second of the first and of what else comes in.
    """
    count = max(len(node.inputs), len(other.inputs))
    reads, those = node.inputs, other.inputs
    if node.operator in COMMUTING:
        # What both read stands beside itself, and constants beside constants.
        both = [v for v in reads if v in those]
        reads = [*both, *sorted((v for v in reads if v not in both), key=lambda v: v in constant)]
        those = [*both, *sorted((v for v in those if v not in both), key=lambda v: v in other_constant)]
    pairs = zip((*reads, *[""] * count)[:count], (*those, *[""] * count)[:count], strict=True)
    refolded = False
    for place, (a, b) in enumerate(pairs):
        number = (node.inputs.index(a) if a in node.inputs else place) + 1
        held, holds = constant.get(a), other_constant.get(b)
        if held is not None and holds is not None:
            found = compare_constants(held, holds)
            if found is None:
                continue
            is_rounding = differ_by_rounding(held, holds)
            # Where weights were folded otherwise their bias was, too, and sums lose what the numbers do not show.
            refolded = refolded or (is_rounding and node.operator in PRODUCTS)
            cause, says = _name_owner(found, holders.get(digest(holds), {}), node)
            says = "holds the first file's values but for their last bits" if is_rounding else says
            says = f"input {number} of {node.operator} {says}"
            yield FileDifference(node.name, cause, says, refolded, is_rounding=is_rounding)
        elif bool(a) != bool(b):
            cause = CauseCode.DROPPED_ATTRIBUTE
            which = "is lost" if a else "is new"
            # A bias may be added by a node of its own.
            yield FileDifference(node.name, cause, f"input {number} of {node.operator} {which}", True)
        elif held is None and holds is None and a != b and b in node.inputs and node.operator not in COMMUTING:
            says = f"{node.operator} reads its inputs in another sequence"
            yield FileDifference(node.name, CauseCode.AXIS_ORDER, says)
        elif (held is None) == (holds is None) and held is None and a != b:
            says = f"input {number} of {node.operator} is {b[:40]} in place of {a[:40]}"
            yield FileDifference(node.name, CauseCode.FUSION, says, (b, a) not in skipped)
        elif (held is None) != (holds is None):
            says = f"input {number} of {node.operator} is a constant in one file only"
            yield FileDifference(node.name, CauseCode.OTHER_OPERANDS, says, True)


def _name_owner(found: tuple[CauseCode, str], owners: Mapping[str, int], node: Node) -> tuple[CauseCode, str]:
    """How constants differ; those that the first file has at another input, or in another node, are named by it."""
    if found[0] not in (CauseCode.OTHER_OPERANDS, CauseCode.AXIS_ORDER) or not owners:
        return found
    if node.name in owners:
        return CauseCode.AXIS_ORDER, f"holds what input {owners[node.name]} holds in the first file"
    return CauseCode.AXIS_ORDER, f"holds what {next(iter(owners))} has in the first file"


_MOST_DIFFERENCES = 12
# So many values may lie within what is fused: an attention has about thirty.
_MOST_FUSED = 60
# A product of codes is cast, scaled, and gets its bias.
_MOST_BEHIND = 6
_ROUNDED_OPERATORS = CauseCode.REDUCED_PRECISION_OPERANDS


def blame_file(outcome: Outcome, differences: Sequence[FileDifference], own: Sequence[str] | None) -> None:
    """Makes a file difference the cause where a unit of the other file deviates and its nodes differ in that file.

    `own` are the units of the other file in which the engine does not compute what that file says; None where that was
    not asked. Where it does, and only the last bits of weights differ, that is rounding.
    """
    side = outcome.asked[-1].name
    deviating = outcome.list_deviating(side)
    _leave_unmatched_open(outcome, differences)
    for unit in deviating:
        names = {outcome.network.nodes[p].name for p in unit.unit.places}
        # What has other numbers explains a difference; what is merely written otherwise may do the same.
        all_own = sorted((d for d in differences if d.node in names), key=lambda d: d.is_rewriting)
        if not all_own:
            continue
        first, *others = all_own
        judged = unit.sides[side]
        others = [o for o in others if first.is_rewriting or not o.is_rewriting]
        said = [Evidence("file", o.says) for o in (first, *others[: _MOST_DIFFERENCES - 1])]
        rounds = any(d.is_rounding for d in all_own) and all(d.is_rounding or d.is_rewriting for d in all_own)
        # No more than the last bits of weights can make: a bias may be lost at the same node.
        over = None if judged.own is None else judged.own.max_over_bound
        near = over is not None and over <= 1 + 2 * FOLDING_ROUNDINGS
        if own == [] and rounds and near:
            unit.sides[side] = replace(
                judged, verdict="rounding", certainty="bounds", cause=None, cause_certainty=None,
                says=say_refolded(), evidence=(*said, *judged.evidence), own=None,
            )  # fmt: skip
            continue
        is_open = judged.verdict == "undecided"
        level = judged.cause_certainty if judged.cause == first.cause else "statistics"
        unit.sides[side] = replace(
            judged,
            verdict=("downgrade" if first.cause == _ROUNDED_OPERATORS else "wrong") if is_open else judged.verdict,
            certainty="statistics" if is_open else judged.certainty,
            cause=first.cause,
            cause_certainty=level,
            says=f"differs in the file: {first.says}",
            evidence=(*said, *judged.evidence),
        )


def _leave_unmatched_open(outcome: Outcome, differences: Sequence[FileDifference]) -> None:
    """Units of several products of which some were not found in the second file: their wide bounds say little.

    Where that file holds all constants of the unit, whichever nodes read them, it is taken for what an optimizer wrote.
    """
    side = outcome.asked[-1].name
    runner = outcome.asked[-1].runner
    held = fold_constants(runner.other) if isinstance(runner, OtherFileRunner) else {}
    by_size: dict[int, list[np.ndarray]] = {}
    for array in held.values():
        by_size.setdefault(array.size, []).append(array)
    unmatched = {d.node for d in differences if d.is_unmatched}
    for unit in outcome.judged:
        names = {outcome.network.nodes[p].name for p in unit.unit.products}
        judged = unit.sides.get(side)
        if judged is None or judged.verdict != "rounding" or len(names) < 2 or not names & unmatched:
            continue
        own = fold_constants(outcome.network)
        read = {v for p in unit.unit.places for v in outcome.network.nodes[p].inputs if v in own}
        if not all(_is_held(own[v], by_size.get(own[v].size, ())) for v in read):
            unit.sides[side] = replace(judged, verdict="undecided", certainty="open", says=say_unmatched(len(names)))


def _is_held(array: np.ndarray, others: Sequence[np.ndarray]) -> bool:
    """Whether one of these has the same numbers but for their last bits, in any sequence; true of single numbers."""
    if array.dtype.kind != "f" or array.size == 1:
        return True
    mine = np.sort(array, axis=None)
    return any(other.dtype == array.dtype and differ_by_rounding(mine, np.sort(other, axis=None)) for other in others)


def blame_conversion(
    outcome: Outcome, other: Network, conversion: Conversion, own: Sequence[str] | None, odd: Sequence[str]
) -> None:
    """Makes what the other file was converted to the cause of every unit that deviates on its side.

    `own` are the units of the other file in which the engine does not compute what that file says; None where that
    could not be judged. `odd` are its products whose weights are no converted ones of the first file: that is the cause
    of their units. In all other units the conversion is all there is: no side computes another function.
    """
    side = outcome.asked[-1].name
    located = [_locate(outcome.network, other, name) for name in odd]
    for unit in outcome.list_deviating(side):
        judged, names = unit.sides[side], {outcome.network.nodes[p].name for p in unit.unit.places}
        said = Evidence("file", say_own_file(own, odd))
        if names & set(located):
            says = say_odd_weights()
            unit.sides[side] = replace(
                judged,
                verdict="wrong",
                certainty="statistics",
                cause=CauseCode.OTHER_OPERANDS,
                cause_certainty="statistics",
                says=f"differs in the file: {says}",
                evidence=(Evidence("file", says), said, *judged.evidence),
            )
            continue
        # Weights that belong to no unit that is known may be those of any.
        is_proved = own is not None and None not in located and not names & set(own)
        # Where an engine computes something else than a converted file says, what it is of the first file is open.
        is_own = own is not None and not is_proved and not odd
        unit.sides[side] = replace(
            judged,
            verdict="downgrade" if is_proved else "undecided" if is_own else judged.verdict,
            certainty="bounds" if is_proved else "open" if is_own else judged.certainty,
            cause=conversion.cause,
            # The file says so, whatever else an engine does.
            cause_certainty="bounds",
            says=conversion.says,
            evidence=(said, *judged.evidence),
        )


def _locate(first: Network, other: Network, name: str) -> str | None:
    """The node of the first file that makes what a product of the other one leads to; None where that is not seen."""
    node = next((n for n in other.nodes if n.name == name), None)
    for _ in range(_MOST_BEHIND):
        if node is None or name in {n.name for n in first.nodes}:
            break
        value = node.outputs[0]
        if value in first.producers:
            return first.nodes[first.producers[value]].name
        readers = other.consumers.get(value, ())
        node = other.nodes[readers[0]] if len(readers) == 1 else None
    return name if name in {n.name for n in first.nodes} else None


def list_sentences(differences: Sequence[FileDifference]) -> list[str]:
    """The differences of the two files, in sentences: one for all nodes that differ alike."""
    nodes: dict[str, list[str]] = {}
    for difference in differences:
        nodes.setdefault(difference.says, []).append(difference.node)
    says = [_say_difference(text, [n for n in names if n]) for text, names in nodes.items()][:_MOST_DIFFERENCES]
    if len(nodes) > len(says):
        says.append(f"and {len(nodes) - len(says)} more kinds of differences of the two files")
    return says or ["the two files do not differ: every node and constant of one corresponds to the other's"]


def _say_difference(text: str, nodes: Sequence[str]) -> str:
    if not nodes:
        return text
    return f"{nodes[0]}: {text}" if len(nodes) == 1 else f"{text}: {nodes[0]} and {len(nodes) - 1} more"
