"""What engines make of a product and the nodes behind it: forms whose bits differ from those of the plain sequence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from samebits.networks.network import Node
from samebits.networks.product_nodes import find_product
from samebits.networks.turned_units import TurnedUnit
from samebits.networks.unit_causes import add_bias, find_row, state_whole
from samebits.problems import Problem
from samebits.problems.lowering import lower_problem
from samebits.sums.emulators import emulate
from samebits.sums.functions.fused import multiply_add
from samebits.sums.recipes.order import TreeOrder
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.tree import Chain, Fused, Item, flatten_chain, list_terms


@dataclass(frozen=True)
class Candidate:
    """A product with as many of the following nodes as one problem expresses, and the nodes that remain.

    `addend` is the array that its blocks are added to, if any; `makes` names the value that results.
    """

    problem: Problem
    operands: dict[str, np.ndarray]
    rest: tuple[Node, ...]
    makes: str
    # The setting with which the engine, asked for the problem alone, computes it as in the network.
    setting: tuple[str, str] | None = None
    addend: np.ndarray | None = None
    # A factor and a shift for every channel, applied to the result; in one rounding where they are fused.
    affine: tuple[np.ndarray, np.ndarray, bool] | None = None
    # Its name among the candidates of a unit.
    form: str = "product"
    # Constants that the remaining nodes read beside the network's own.
    constants: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])


def list_candidates(
    turned: TurnedUnit, setting: tuple[str, str] | None = None, *, has_layouts: bool = False
) -> Iterator[Candidate]:
    """As one problem; the product and the rest; the product added to what comes next; quotients as products.

    Only of units that begin with their one product and have one output. `setting` is the one with which an engine takes
    weights that are computed; one that `has_layouts` may compute with its channels last.
    """
    network, folded, unit, seen = turned.network, turned.folded, turned.unit, turned.seen
    if len(unit.products) != 1 or len(unit.outputs) != 1 or unit.places[0] != unit.products[0]:
        return
    node, *rest = [network.nodes[p] for p in unit.places]
    known = {**folded, **seen}
    inputs = [known[v] if v else None for v in node.inputs]
    setting = None if node.inputs[1] in folded else setting
    whole = state_whole(network, folded, unit, seen)
    if whole is not None:
        yield Candidate(whole[0], whole[1], (), unit.outputs[0], setting, form="whole")
    product = find_product(node, inputs)
    if product.alpha != 1.0 or product.adds_third:
        return
    plain = Candidate(product.problem, product.arrange(inputs), tuple(rest), node.outputs[0], setting)
    bases = [*fold_norm(plain, rest, folded), plain, *fold_bias(plain, rest, folded), *fold_scale(plain, rest, folded)]
    if has_layouts and product.problem.product is None:
        # What a transposition left with its channels last is computed so.
        bases += [replace(base, setting=("layout", "channels_last")) for base in (plain, *bases)]
    for base in bases:
        yield base
        after = base.rest
        if after and after[0].operator in ("Add", "Sum") and base.affine is None:
            others = [v for v in after[0].inputs if v != base.makes]
            if len(others) == 1 and others[0] in known:
                yield replace(
                    base, rest=after[1:], makes=after[0].outputs[0], addend=known[others[0]], form=f"{base.form}+addend"
                )
    multiplied = [multiply_instead(n, folded) for n in rest]
    constants = {name: value for _, held in multiplied for name, value in held.items()}
    if constants:
        yield replace(plain, rest=tuple(n for n, _ in multiplied), constants=constants, form="reciprocal")


def fold_norm(plain: Candidate, rest: Sequence[Node], folded: Mapping[str, np.ndarray]) -> Iterator[Candidate]:
    """A batch norm behind the product: folded into weights and bias, or applied as a factor and a shift."""
    if not rest or rest[0].operator != "BatchNormalization" or plain.problem.dtype != "float32":
        return
    parts = [folded.get(v) for v in rest[0].inputs[1:5]]
    if len(parts) < 4 or any(p is None or p.dtype != np.float32 for p in parts):
        return
    scale, shift, mean, variance = (p for p in parts if p is not None)
    epsilon = np.float32(rest[0].attributes.get("epsilon", 1e-5))
    left = replace(plain, rest=tuple(rest[1:]), makes=rest[0].outputs[0])
    with np.errstate(all="ignore"):
        wide = (1 / np.sqrt(variance.astype(np.float64) + float(epsilon))).astype(np.float32)
        root = np.sqrt(variance + epsilon)
        factors = (scale / root, scale * (np.float32(1) / root), scale * wide)
        for number, factor in enumerate(factors, 1):
            moved = shift - mean * factor
            bias = plain.operands.get("bias", np.zeros_like(shift))
            axis = 1 if plain.problem.is_transposed and plain.problem.groups == 1 else 0
            if plain.problem.product is None and (axis == 0) != plain.problem.is_transposed:
                shape = [1] * plain.operands["w"].ndim
                shape[axis] = -1
                w = plain.operands["w"] * factor.reshape(shape)
                for way, own in (("a", (bias - mean) * factor + shift), ("b", bias * factor + moved)):
                    operands = {**plain.operands, "w": w, "bias": own}
                    problem = replace(plain.problem, bias=True)
                    yield replace(left, problem=problem, operands=operands, form=f"norm{number}{way}")
            # The shift itself may be computed in one rounding.
            for way, own in (("c", multiply_add(-mean, factor, shift)), ("d", moved)):
                yield replace(left, affine=(factor, own, True), form=f"norm{number}{way}-fused")
                yield replace(left, affine=(factor, own, False), form=f"norm{number}{way}")


def fold_bias(plain: Candidate, rest: Sequence[Node], folded: Mapping[str, np.ndarray]) -> Iterator[Candidate]:
    """Candidates with a row that is added to the product as the bias of the product itself."""
    if not rest or rest[0].operator != "Add" or plain.problem.bias:
        return
    row = find_row(plain.problem, folded.get(_other(rest[0], plain.makes)))
    if row is not None:
        problem, operands = add_bias(plain.problem, plain.operands, row)
        yield replace(
            plain, problem=problem, operands=operands, rest=tuple(rest[1:]), makes=rest[0].outputs[0], form="bias"
        )


def fold_scale(plain: Candidate, rest: Sequence[Node], folded: Mapping[str, np.ndarray]) -> Iterator[Candidate]:
    """Candidates with a constant factor behind the product (and bias) multiplied into an operand and the bias."""
    problem, operands, left = plain.problem, plain.operands, list(rest)
    output = plain.makes
    if left and left[0].operator == "Add" and not problem.bias:
        row = find_row(problem, folded.get(_other(left[0], output)))
        if row is None:
            return
        problem, operands = add_bias(problem, operands, row)
        output = left.pop(0).outputs[0]
    if (
        not left
        or left[0].operator not in ("Mul", "Div")
        or (left[0].operator == "Div" and left[0].inputs[0] != output)
    ):
        return
    factor = folded.get(_other(left[0], output))
    if factor is None or factor.dtype != np.float32 or problem.dtype != "float32":
        return
    with np.errstate(divide="ignore"):
        factor = factor if left[0].operator == "Mul" else (np.float32(1) / factor).astype(np.float32)
    scaled = replace(plain, problem=problem, rest=tuple(left[1:]), makes=left[0].outputs[0])
    row = (
        np.broadcast_to(factor.reshape(-1), (1,))
        if factor.size == 1
        else find_row(replace(problem, bias=False), factor)
    )
    if row is None:
        return
    bias = {"bias": operands["bias"] * row} if problem.bias else {}
    # Where w's output channels lie: first, but last for matmul.
    shaped = row if problem.kind == "matmul" or row.size == 1 else row.reshape(-1, *(1,) * (len(problem.w) - 1))
    yield replace(scaled, operands={**operands, "w": operands["w"] * shaped, **bias}, form="scaled-w")
    if row.size == 1:
        yield replace(scaled, operands={**operands, "x": operands["x"] * row, **bias}, form="scaled-x")


def apply_affine(candidate: Candidate, made: np.ndarray) -> np.ndarray:
    """The result times its factor, plus its shift: rounded twice, or once where they are fused."""
    assert candidate.affine is not None
    factor, shift, fused = candidate.affine
    shape = candidate.problem.bias_shape
    factor, shift = factor.reshape(shape), shift.reshape(shape)
    if not fused:
        return made * factor + shift
    return multiply_add(made, factor, shift)


def _other(node: Node, value: str) -> str:
    """The input of a node that is not this value."""
    return next((v for v in node.inputs if v != value), "")


def multiply_instead(node: Node, folded: Mapping[str, np.ndarray]) -> tuple[Node, dict[str, np.ndarray]]:
    """A division by one constant as engines fuse it: a product with its rounded reciprocal, which comes with it.

    Any other node is returned as it is.
    """
    import onnx

    divisor = folded.get(node.inputs[1]) if node.operator == "Div" and len(node.inputs) == 2 else None
    if divisor is None or divisor.size != 1 or divisor.dtype != np.float32:
        return node, {}
    name = f"{node.inputs[1]}#reciprocal"
    with np.errstate(divide="ignore"):
        value = (np.float32(1) / divisor).astype(np.float32)
    stored = onnx.helper.make_node("Mul", [node.inputs[0], name], list(node.outputs))
    return Node(node.name, "Mul", (node.inputs[0], name), node.outputs, {}, stored), {name: value}


def emulate_onto(
    problem: Problem, recipe: Recipe, operands: Mapping[str, np.ndarray], addend: np.ndarray
) -> np.ndarray | None:
    """The product's blocks added to `addend` one after the other, then its bias; float32, of the result's shape.

    A recipe without blocks of channels is one block: the addend meets the whole sum before the bias does. None where
    several orders, groups or transforms leave open what is added to what. Raises RecipeError as `emulate` does.
    """
    blocks = _find_blocks(problem, recipe)
    if not blocks or problem.then is not None or problem.out != "float32":
        return None
    lowering = lower_problem(problem)
    convolution, arrays = lowering.convolution, lowering.lower_operands(operands)
    plain = replace(convolution, bias=False)
    running = lowering.lower_result(np.broadcast_to(addend, problem.y_shape).astype(np.float32))
    for part, inner in blocks:
        x, w = np.ascontiguousarray(arrays["x"][:, part]), np.ascontiguousarray(arrays["w"][:, part])
        small = replace(plain, x=x.shape, w=w.shape, stated=None)
        running = running + emulate(small, inner, {"x": x, "w": w})
    if problem.bias:
        running = running + arrays["bias"].reshape(convolution.bias_shape)
    return lowering.restore_result(running)


def _find_blocks(problem: Problem, recipe: Recipe) -> list[tuple[slice, Recipe]]:
    """The blocks of channels that a recipe adds by themselves, each with its own recipe; none where it is not so."""
    convolution = lower_problem(problem).convolution
    if recipe.algorithm is not None or len(recipe.orders) != 1 or convolution.groups != 1 or convolution.is_transposed:
        return []
    if problem.direction != "forward" or (problem.bias and recipe.bias != "last"):
        return []
    channels, whole = convolution.x[1], replace(recipe, bias="last")
    (order,) = recipe.orders
    if isinstance(order, TreeOrder):
        return _divide_tree(order, whole, channels, math.prod(convolution.w[2:]))
    size, inner = channels, whole
    first = order.levels[0]
    if len(order.levels) > 1 and len(first.keys) == 1 and first.rule == "chain" and not first.format:
        key = first.keys[0]
        is_channel = key.axis == "c" or (key.axis == "k" and math.prod(convolution.w[2:]) == 1)
        if is_channel and not key.modulus and not key.descending:
            size, inner = key.block, replace(whole, orders=(replace(order, levels=order.levels[1:]),))
    return [(slice(start, min(start + size, channels)), inner) for start in range(0, channels, size)]


def _divide_tree(order: TreeOrder, recipe: Recipe, channels: int, volume: int) -> list[tuple[slice, Recipe]]:
    """The blocks of a tree whose last additions join whole ranges of channels, in their sequence; else one block."""
    whole = [(slice(0, channels), recipe)]
    if not isinstance(order.tree, Chain) or order.tree.format:
        return whole
    items = flatten_chain(order.tree).items
    later = [item for item in items if isinstance(item, Chain)]
    leading = items[: len(items) - len(later)]
    if not later or not leading or items[len(leading) :] != tuple(later):
        return whole
    found: list[tuple[slice, Recipe]] = []
    begin = 0
    for block in (Chain(leading), *later):
        terms = sorted(list_terms(block))
        if terms != list(range(begin, begin + len(terms))) or begin % volume or len(terms) % volume:
            return whole
        own = TreeOrder(_move_terms(block, -begin), order.own)
        found.append((slice(begin // volume, (begin + len(terms)) // volume), replace(recipe, orders=(own,))))
        begin += len(terms)
    return found


def _move_terms(item: Item, by: int) -> Item:
    if isinstance(item, int):
        return item + by
    if isinstance(item, Fused):
        return Fused(tuple(term + by for term in item.terms))
    return Chain(tuple(_move_terms(part, by) for part in item.items), item.format)
