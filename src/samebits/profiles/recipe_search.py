"""From answers of probes to a recipe: put together, tried by replay, corrected where an alternative fits better."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from samebits.errors import ProbeStopped
from samebits.findings import Evidence
from samebits.formats.format import find_format
from samebits.probes.accumulator import Accumulator, choose_triples, find_accumulator
from samebits.probes.bias_position import BiasPosition, find_bias_position
from samebits.probes.family import ImpulseResponse, find_family
from samebits.probes.interview import Interview
from samebits.probes.operand_rounding import OperandRounding, find_operand_roundings
from samebits.probes.product_rounding import ProductRounding, find_product_rounding
from samebits.probes.special_values import find_nan_reach, find_overflow, find_padding_rule, find_zero_sign
from samebits.probes.subnormals import Subnormals, find_subnormals
from samebits.probes.summation_order import FoundOrders, find_summation_orders
from samebits.problems import Problem
from samebits.problems.windows import name_axes
from samebits.profiles.order_names import name_orders
from samebits.profiles.refining import Refiner, operand_roundings
from samebits.profiles.replaying import Replayer, make_replayers, score_all
from samebits.recipes.order import IN_ORDER, Key, KeyedOrder, Level, Order, TreeOrder, expand_order
from samebits.recipes.places import Places, places_from_array
from samebits.recipes.recipe import Bias, Fft, Flush, FusedSum, Recipe, Rounding, Winograd
from samebits.recipes.tree import Chain, Item, carry_sums, fuse_singles, has_fused, list_terms, swap_first_pairs

_LIKELY_FUSED_BITS = (24, 25, 23, 13)
_HIDDEN_ROUNDINGS = (
    ("tf32", "toward_zero"),
    ("tf32", "nearest_even"),
    ("bfloat16", "nearest_even"),
    ("float16", "nearest_even"),
)
# Of terms that the running sum holds when they are two.
_FIRST_PAIR = 2
# A transform of the right size but another sequence of channels still gives this share of the bits.
_LEAST_TRANSFORM_MATCH = 0.2


@dataclass
class SearchResult:
    """Everything that was learnt on the way to a recipe."""

    recipe: Recipe | None = None
    matched: float = 0.0
    compared: int = 0
    family: ImpulseResponse | None = None
    orders: FoundOrders | None = None
    order_calls: int = 0
    order_time_s: float = 0.0
    accumulators: list[Accumulator] = field(default_factory=list[Accumulator])
    operands: dict[str, OperandRounding] = field(default_factory=dict[str, OperandRounding])
    product: ProductRounding | None = None
    bias: BiasPosition | None = None
    tried: int = 0
    evidence: list[Evidence] = field(default_factory=list[Evidence])
    replayers: list[Replayer] = field(default_factory=list[Replayer])
    tree: Item | None = None
    position: int = 0
    subnormals: Subnormals | None = None
    special: dict[str, str | None] = field(default_factory=dict[str, "str | None"])


def search_recipe(interview: Interview, found: SearchResult | None = None) -> SearchResult:
    """Asks the runner, puts a recipe together and replays it; `found` is filled as answers come in.

    Raises EngineFailure where the runner fails, ProbeStopped where not even the first questions fit the budget.
    """
    found = found if found is not None else SearchResult()
    found.replayers = make_replayers(interview)
    found.family = find_family(interview)
    if found.family.family in ("winograd", "fft"):
        _try_all(found, _propose_transforms(interview, found))
    if found.matched < _LEAST_TRANSFORM_MATCH:
        _search_direct(interview, found)
    try:
        _ask_special(interview, found)
    except ProbeStopped as stop:
        found.evidence.append(Evidence("probe", str(stop)))
    return found


def _search_direct(interview: Interview, found: SearchResult) -> None:
    _find_orders(interview, found)
    found.tree, found.position = _choose_read_position(interview, found)
    try:
        _probe_arithmetic(interview, found, found.tree, found.position)
    except ProbeStopped as stop:
        found.evidence.append(Evidence("probe", str(stop)))
    _try_all(found, _propose_direct(interview, found))
    if found.recipe and found.matched < 1.0:
        _refine(interview, found)


def _ask_special(interview: Interview, found: SearchResult) -> None:
    """Subnormals, padding, NaN, zeros, overflow; what a recipe can say of them enters it."""
    terms, position = interview.terms, found.position
    at = terms.locate_sources(np.array([position % int(np.prod(terms.outputs))]))[0]
    own = np.flatnonzero(np.tile(at >= 0, terms.depth))
    if not len(own):
        return
    found.subnormals = find_subnormals(interview, int(own[len(own) // 2]), position)
    found.special["padding"] = find_padding_rule(interview)
    found.special["nan"] = find_nan_reach(interview)
    found.special["sum of negative zeros"] = find_zero_sign(interview, position)
    sequence = list_terms(found.tree) if found.tree is not None else []
    if len(sequence) > 2 and interview.problem.then is None:
        found.special["overflow"] = find_overflow(interview, (sequence[0], sequence[1], sequence[-1]), position)
    if found.recipe is None or found.matched < 1.0 or found.recipe.algorithm is not None:
        return
    # A narrower range loses float32's subnormals without flushing anything.
    names = [interview.problem.dtype, found.recipe.accumulator.format]
    names += [r.format for r in (found.recipe.x, found.recipe.w) if r]
    wide = all(find_format(n).exponent_bits == find_format("float32").exponent_bits for n in names)
    lost = found.subnormals
    flush = Flush(not (lost.rows and lost.source), lost.results is False) if wide else Flush()
    padding = "multiplied" if found.special["padding"] == "multiplied as zeros" else "skipped"
    # A sum that starts from the bias starts from what that is.
    starts = not (interview.problem.bias and found.recipe.bias == "first")
    start = "product" if starts and found.special["sum of negative zeros"] == "-0" else "zero"
    nan = "bound" if interview.problem.then and found.special["nan"] == "becomes a number" else "kept"
    for more in ({"flush": flush}, {"padding": padding}, {"start": start}, {"nan": nan}):
        candidate = replace(found.recipe, **more)
        if candidate != found.recipe and score_all(found.replayers, candidate, sampled=True)[0] == 1.0:
            found.recipe = candidate


def _refine(interview: Interview, found: SearchResult) -> None:
    assert found.recipe is not None
    try:
        found.recipe = Refiner(interview, found.recipe, list(found.replayers)).refine()
    except ProbeStopped as stop:
        found.evidence.append(Evidence("probe", str(stop)))
    found.matched, found.compared = score_all(found.replayers, found.recipe)


def _find_orders(interview: Interview, found: SearchResult) -> None:
    calls, time_s = interview.calls, interview.time_s
    found.orders = find_summation_orders(interview)
    found.order_calls, found.order_time_s = interview.calls - calls, interview.time_s - time_s
    found.evidence += [Evidence("probe", note) for note in found.orders.notes]


def _choose_read_position(interview: Interview, found: SearchResult) -> tuple[Item | None, int]:
    """The order most positions use, and a position that has all of its terms."""
    assert found.orders is not None
    terms = interview.terms
    number, masks = terms.patterns
    sizes = np.tile(masks.sum(axis=1)[number], terms.batch) * terms.depth
    if not found.orders.trees:
        return None, int(sizes.argmax())
    places = found.orders.places.reshape(-1)
    used = np.bincount(places[places >= 0], minlength=len(found.orders.trees))
    best = int(used.argmax())
    own = np.flatnonzero((places == best) & (sizes == len(list_terms(found.orders.trees[best]))))
    if not len(own):
        return None, int(sizes.argmax())
    return found.orders.trees[best], int(own[len(own) // 2])


def _probe_arithmetic(interview: Interview, found: SearchResult, tree: Item | None, position: int) -> None:
    terms = interview.terms
    places = int(np.prod(terms.outputs))
    at = terms.locate_sources(np.array([position % places]))[0]
    own = np.flatnonzero(np.tile(at >= 0, terms.depth))
    if not len(own):
        return
    term = int(own[len(own) // 2])
    everywhere = np.flatnonzero(np.tile(terms.patterns[1][:, term % terms.volume][terms.patterns[0]], terms.batch))
    found.operands = find_operand_roundings(interview, term, everywhere[:: max(len(everywhere) // 512, 1)])
    if tree is None:
        return
    for triple in choose_triples(tree):
        accumulator = find_accumulator(interview, triple, position)
        if accumulator:
            # Ten fraction bits, but a mask that float16 has no room for came through.
            wide = found.orders is not None and found.orders.scale is not None and found.orders.scale.mask > 2.0**15
            is_tf32 = wide and accumulator.format == "float16"
            found.accumulators.append(replace(accumulator, format="tf32") if is_tf32 else accumulator)
    pair = _find_first_pair(tree)
    if pair:
        accumulator_name, mode = _main_accumulator(interview, found)
        x, w = (_as_rounding(found, n) for n in ("x", "w"))
        roundings = operand_roundings(terms, Recipe(x=x, w=w))
        found.product = find_product_rounding(interview, pair, np.array([position]), accumulator_name, mode, roundings)
    if interview.problem.bias and found.orders and found.orders.scale:
        accumulator_name, _ = _main_accumulator(interview, found)
        found.bias = find_bias_position(interview, tree, found.orders.scale, position, accumulator_name)


def _find_first_pair(tree: Item) -> tuple[int, int] | None:
    """Two single terms of which the second is added to the first."""
    if not isinstance(tree, Chain):
        return None
    first, second = tree.items[0], tree.items[1] if len(tree.items) > 1 else None
    if isinstance(first, int) and isinstance(second, int):
        return first, second
    for part in tree.items:
        pair = _find_first_pair(part)
        if pair:
            return pair
    return None


def _main_accumulator(interview: Interview, found: SearchResult) -> tuple[str, str]:
    """Format and mode of the innermost running sum, as far as is known: float32 where nothing says otherwise."""
    for accumulator in found.accumulators:
        if accumulator.format:
            return accumulator.format, accumulator.mode or "nearest_even"
    return ("float64" if interview.problem.dtype == "float64" else "float32"), "nearest_even"


def _propose_transforms(interview: Interview, found: SearchResult) -> Iterator[Recipe]:
    """The transforms that reproduce the response to one source value, with all sequences of channels."""
    names = ["float32", "float16"] if interview.problem.dtype == "float16" else ["float32"]
    biases: list[Bias] = (
        ["last", "rounded"] if interview.problem.bias and interview.problem.out != "float32" else ["last"]
    )
    assert found.family is not None
    impulse = Replayer(interview.problem, found.family.operands, found.family.result)
    plain = [Recipe(algorithm=a, accumulator=Rounding(n), bias=b)
             for a in (Fft(), Winograd(2), Winograd(4), Winograd(6)) for n in names for b in biases]  # fmt: skip
    for recipe in plain:
        if impulse.score(recipe)[0] < 1.0:
            continue
        yield recipe
        if isinstance(recipe.algorithm, Winograd):
            for product, order in itertools.product(
                ("fused", "rounded"), _propose_channel_orders(interview.terms.depth)
            ):
                yield replace(recipe, product=product, orders=(order,))


def _propose_channel_orders(depth: int) -> Iterator[Order]:
    """Sequences in which the channels of a transformed position may be added."""
    yield IN_ORDER
    rules = ("halves", "pairs", "splits")
    yield from (KeyedOrder((Level((Key("c"),), rule),)) for rule in rules)
    for block in (4, 8, 16, 32, 2, 64):
        if block < depth:
            yield KeyedOrder((Level((Key("c", block),)), Level((Key("c"),))))
            yield KeyedOrder((Level((Key("c", 1, block),)), Level((Key("c"),))))
            for rule in rules:
                yield KeyedOrder((Level((Key("c", 1, block),), rule), Level((Key("c"),))))
                yield KeyedOrder((Level((Key("c", block),)), Level((Key("c"),), rule)))


def _propose_direct(interview: Interview, found: SearchResult) -> Iterator[Recipe]:
    """The recipe that the answers spell, then its neighbours where they leave something open."""
    problem = interview.problem
    multi_term = any(has_fused(t) for t in (found.orders.trees if found.orders else []))
    accumulators = _propose_accumulators(interview, found, multi_term)
    possible = set(found.product.possible) if found.product else {"fused", "rounded"}
    if "fused_reversed" in possible:
        possible.add("fused")
    products = [p for p in ("fused", "rounded") if p in possible] or ["fused", "rounded"]
    biases: list[tuple[Bias, int]] = [("last", 0), ("first", 0), ("rounded", 0)]
    if found.bias and found.bias.position:
        biases = [(found.bias.position, found.bias.terms)]
        if found.bias.terms == _FIRST_PAIR:
            # Or the sum starts from the bias and the other term of the pair comes first.
            biases.append(("first", 0))
    if not problem.bias:
        biases = [("last", 0)]
    # Compilers convert to eight bits by way of sixteen.
    vias = ("", "float16") if find_format(problem.out).width_bits <= 8 else ("",)
    sequences = (_name_places(interview, found, swap=swap) for swap in _propose_swaps(found))
    carried = ((orders, where) for named, where in sequences for orders in _propose_carries(interview, found, named))
    for (orders, where), (accumulator, fused), product, (bias, bias_terms) in _product_of(
        carried, list(itertools.product(accumulators, products, biases))
    ):
        for (x, w), via in itertools.product(_propose_roundings(problem, found, accumulator), vias):
            yield Recipe(
                x=x, w=w, product=product, accumulator=accumulator, orders=tuple(orders), where=where, fused=fused,
                bias=bias, bias_terms=bias_terms, via=via,
            )  # fmt: skip


def _propose_roundings(
    problem: Problem, found: SearchResult, accumulator: Rounding
) -> Iterator[tuple[Rounding | None, Rounding | None]]:
    """What was seen of the operands; first without it where the running sum alone could have rounded them so."""
    x, w = (_as_rounding(found, n) for n in ("x", "w"))
    names = [accumulator.format, *(a.format for a in found.accumulators if a.format)]
    narrow = min(find_format(n).precision for n in names)
    hidden = narrow < find_format(problem.dtype).precision and all(
        r is None or find_format(r.format).precision >= narrow for r in (x, w)
    )
    if hidden:
        yield None, None
    yield x, w
    if hidden:
        # The running sum hides what is finer than it is.
        both = (Rounding(f, m) for f, m in _HIDDEN_ROUNDINGS if find_format(f).precision >= narrow or f == "bfloat16")
        yield from ((r, r) for r in both)


def _product_of(outer: Iterator[Any], inner: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """As itertools.product, without running through the outer iterator beforehand."""
    for first in outer:
        for rest in inner:
            yield first, *rest


def _propose_swaps(found: SearchResult) -> tuple[bool, bool]:
    """Masks do not tell which of the first two terms comes first: the lower, unless the products say otherwise."""
    reversed_ = found.product and "fused_reversed" in found.product.possible and "fused" not in found.product.possible
    return (True, False) if reversed_ else (False, True)


def _propose_carries(interview: Interview, found: SearchResult, named: list[Order]) -> list[list[Order]]:
    """The orders with finished sums kept in a narrower format than terms are, where the probes saw one."""
    known = [a for a in found.accumulators if a.format]
    if len(known) < 2 or find_format(str(known[1].format)).precision >= find_format(str(known[0].format)).precision:
        return [named]
    name, terms = str(known[1].format), interview.terms
    both: list[list[Order]] = []
    for twice in (False, True):
        orders: list[Order] = []
        for order in named:
            if isinstance(order, KeyedOrder) and len(order.levels) > 1:
                outer = replace(order.levels[0], format=name)
                again = (Level(outer.keys, "chain", name),) if twice else ()
                orders.append(KeyedOrder((outer, *again, *order.levels[1:])))
            else:
                tree = expand_order(order, terms.axis_names, terms.axis_sizes)
                orders.append(TreeOrder(carry_sums(tree, name, twice=twice)))
        both.append(orders)
    return both


def _name_places(interview: Interview, found: SearchResult, *, swap: bool) -> tuple[list[Order], Places]:
    terms = interview.terms
    if not found.orders or not found.orders.trees or terms.count == 1:
        return [IN_ORDER], 0
    trees = [fuse_singles(t) if has_fused(t) else t for t in found.orders.trees]
    if swap:
        trees = [swap_first_pairs(t) for t in trees]
    orders, numbers = name_orders(trees, terms)
    places = np.array([*numbers, 0])[found.orders.places]
    full = np.zeros(interview.problem.out_shape, np.int64)
    terms.view_result(full)[...] = places[None, None]
    return orders, places_from_array(full, name_axes(interview.problem))


def _propose_accumulators(
    interview: Interview, found: SearchResult, multi_term: bool
) -> list[tuple[Rounding, FusedSum]]:
    name, mode = _main_accumulator(interview, found)
    if not multi_term:
        known = Rounding(name, mode if name != "float64" else "nearest_even")
        # A sum of one product, or two, leaves no term to ask with.
        others = [] if found.accumulators else [Rounding(n) for n in ("float16", "bfloat16", "tf32") if n != name]
        return [(r, FusedSum()) for r in (known, *others)]
    bits = [a.fraction_bits for a in found.accumulators if a.fraction_bits in range(1, 29)]
    rounded = [a for a in found.accumulators if a.format and a.format != "float64"]
    formats = [Rounding(a.format, a.mode or "toward_zero") for a in rounded if a.format]
    formats += [
        Rounding("float32", "toward_zero"),
        Rounding("float32"),
        Rounding("float16"),
        Rounding("e8m13", "toward_zero"),
    ]
    both = itertools.product(dict.fromkeys(formats), dict.fromkeys([*bits, *_LIKELY_FUSED_BITS]))
    return [(format_, FusedSum(b)) for format_, b in both]


def _as_rounding(found: SearchResult, name: str) -> Rounding | None:
    """What the operand in this place is rounded to; dy stands where x or w is missing."""
    known = found.operands.get(name) or (found.operands.get("dy") if name not in found.operands else None)
    if known is None or known.format is None or known.mode is None:
        return None
    return Rounding(known.format, known.mode)


def _try_all(found: SearchResult, candidates: Iterator[Recipe]) -> None:
    """Keeps the candidate that reproduces most; stops at the first that reproduces everything."""
    best: Recipe | None = None
    score = -1.0
    for recipe in candidates:
        found.tried += 1
        matched, compared = score_all(found.replayers, recipe, sampled=True)
        if matched > score and compared:
            best, score = recipe, matched
        if matched == 1.0 and compared:
            break
    if best is not None:
        found.recipe = best
        found.matched, found.compared = score_all(found.replayers, best)
