"""Recipe search: probes asked stage by stage, their answers put together, candidates replayed on random data."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from samebits import thresholds
from samebits.engines.probes.accumulator import Accumulator, choose_triples, find_accumulator
from samebits.engines.probes.bias_position import BiasPosition, find_bias_position
from samebits.engines.probes.family import ImpulseResponse, find_family
from samebits.engines.probes.operand_rounding import find_operand_roundings
from samebits.engines.probes.order_search import FoundOrders
from samebits.engines.probes.product_rounding import ProductRounding, find_product_rounding
from samebits.engines.probes.session import ProbeSession
from samebits.engines.probes.summation_order import find_summation_orders
from samebits.engines.recipe_search.candidates import (
    propose_channel_sums,
    propose_direct,
    propose_plain_transforms,
    propose_units,
)
from samebits.engines.recipe_search.refining import Refiner, operand_roundings
from samebits.engines.recipe_search.replaying import Replayer, make_replayers, score_all
from samebits.engines.recipe_search.special_questions import ask_special, complete_recipe
from samebits.engines.recipe_search.stages import ArithmeticStage, OrderStage, RecipeStage, SearchResult
from samebits.errors import ProbeStopped
from samebits.sums.recipes.recipe import Recipe, Rounding, Winograd
from samebits.sums.recipes.tree import Chain, Item, list_terms

# A mask larger than float16 can hold came through: ten fraction bits are then TF32's.
_LARGEST_HALF_MASK = 2.0**15
# A wrong order reproduces some outputs by chance; a right one with a wrong bias or product rarely fewer than this.
_LEAST_GUESS_MATCH = 0.5
_MOST_POSITIONS_ASKED = 512


def search_recipe(session: ProbeSession) -> SearchResult:
    """Asks the runner, puts a recipe together and replays it.

    Never raises: what ends the search early (a failing runner, a spent budget) stands in `stopped` of what was found.
    """
    found = SearchResult()
    try:
        for stage in _search(session):
            found = stage
    except Exception as error:  # A runner may be anybody's code; the caller decides what its failure means.
        return replace(found, stopped=error)
    return found


def _search(session: ProbeSession) -> Iterator[SearchResult]:
    """What is known after each stage."""
    found = SearchResult(replayers=tuple(make_replayers(session)))
    yield found
    found = replace(found, family=find_family(session))
    yield found
    if found.family and found.family.family in ("winograd", "fft"):
        found = replace(found, chosen=_try_all(found, _propose_transforms(session, found.family)))
        yield found
    if found.chosen.matched < thresholds.LEAST_TRANSFORM_MATCH:
        for stage in _search_direct(session, found):
            found = stage
            yield found
    try:
        for special in ask_special(session, found):
            found = replace(found, special=special)
            yield found
    except ProbeStopped as stop:
        yield replace(found, notes=(*found.notes, str(stop)))
        return
    yield replace(found, chosen=complete_recipe(session.problem, found))


def _search_direct(session: ProbeSession, found: SearchResult) -> Iterator[SearchResult]:
    """The stages of a sum of products: its order, its arithmetic, the recipe, and what that misses."""
    order = _find_orders(session)
    found = replace(found, order=order, notes=(*found.notes, *order.orders.notes))
    yield found
    for arithmetic, note in _probe_arithmetic(session, order):
        found = replace(found, arithmetic=arithmetic, notes=(*found.notes, *([note] if note else [])))
        yield found
    found = replace(found, chosen=_try_all(found, propose_direct(session.problem, order, found.arithmetic)))
    yield found
    if not found.chosen.is_whole:
        found = replace(found, chosen=_choose_better(found.chosen, _try_all(found, propose_units(session.problem))))
        yield found
    if order.orders.guessed and found.chosen.matched < _LEAST_GUESS_MATCH:
        order = _find_orders(session, may_guess=False)
        found = replace(found, order=order, notes=(*found.notes, *order.orders.notes))
        found = replace(found, chosen=_try_all(found, propose_direct(session.problem, order, found.arithmetic)))
        yield found
    if found.recipe and not found.chosen.is_whole:
        yield _refine(session, found, found.recipe)


def _refine(session: ProbeSession, found: SearchResult, recipe: Recipe) -> SearchResult:
    notes = found.notes
    try:
        recipe = Refiner(session, recipe, list(found.replayers)).refine()
    except ProbeStopped as stop:
        notes = (*notes, str(stop))
    matched, compared = score_all(found.replayers, recipe)
    return replace(found, notes=notes, chosen=RecipeStage(recipe, matched, compared, found.chosen.tried))


def _find_orders(session: ProbeSession, *, may_guess: bool = True) -> OrderStage:
    calls, time_s = session.calls, session.time_s
    orders = find_summation_orders(session, may_guess=may_guess)
    tree, position = _choose_read_position(session, orders)
    return OrderStage(orders, session.calls - calls, session.time_s - time_s, tree, position)


def _choose_read_position(session: ProbeSession, orders: FoundOrders) -> tuple[Item | None, int]:
    """The order most positions use, and a position that has all of its terms."""
    terms = session.terms
    number, masks = terms.patterns
    sizes = np.tile(masks.sum(axis=1)[number], terms.batch) * terms.depth
    if not orders.trees:
        return None, int(sizes.argmax())
    places = orders.places.reshape(-1)
    used = np.bincount(places[places >= 0], minlength=len(orders.trees))
    best = int(used.argmax())
    own = np.flatnonzero((places == best) & (sizes == len(list_terms(orders.trees[best]))))
    if not len(own):
        return None, int(sizes.argmax())
    return orders.trees[best], int(own[len(own) // 2])


def _probe_arithmetic(session: ProbeSession, order: OrderStage) -> Iterator[tuple[ArithmeticStage, str]]:
    """What is known of the arithmetic after each question, and a note where the budget ends the questions."""
    known = ArithmeticStage()
    try:
        for known in _ask_arithmetic(session, order):
            yield known, ""
    except ProbeStopped as stop:
        yield known, str(stop)


def _ask_arithmetic(session: ProbeSession, order: OrderStage) -> Iterator[ArithmeticStage]:
    terms, tree = session.terms, order.tree
    places = int(np.prod(terms.outputs))
    at = terms.locate_sources(np.array([order.position % places]))[0]
    own = np.flatnonzero(np.tile(at >= 0, terms.depth))
    if not len(own):
        return
    term = int(own[len(own) // 2])
    everywhere = np.flatnonzero(np.tile(terms.patterns[1][:, term % terms.volume][terms.patterns[0]], terms.batch))
    asked = everywhere[:: max(len(everywhere) // _MOST_POSITIONS_ASKED, 1)]
    known = ArithmeticStage(operands=find_operand_roundings(session, term, asked))
    yield known
    if tree is None:
        return
    for triple in choose_triples(tree):
        accumulator = find_accumulator(session, triple, order.position)
        if accumulator:
            known = replace(known, accumulators=(*known.accumulators, _distinguish_tf32(accumulator, order)))
            yield known
    known = replace(known, product=_ask_product(session, order, known, tree))
    yield known
    yield replace(known, bias=_ask_bias(session, order, known, tree))


def _distinguish_tf32(accumulator: Accumulator, order: OrderStage) -> Accumulator:
    """Ten fraction bits are float16's, unless a mask that float16 has no room for came through."""
    scale = order.orders.scale
    wide = scale is not None and scale.mask > _LARGEST_HALF_MASK
    return replace(accumulator, format="tf32") if wide and accumulator.format == "float16" else accumulator


def _ask_product(
    session: ProbeSession, order: OrderStage, known: ArithmeticStage, tree: Item
) -> ProductRounding | None:
    pair = _find_first_pair(tree)
    if pair is None:
        return None
    main = known.find_main_accumulator(session.problem.dtype)
    read = Recipe(x=known.find_rounding("x"), w=known.find_rounding("w"))
    roundings = operand_roundings(session.terms, read)
    return find_product_rounding(session, pair, np.array([order.position]), main.format, main.mode, roundings)


def _ask_bias(session: ProbeSession, order: OrderStage, known: ArithmeticStage, tree: Item) -> BiasPosition | None:
    scale = order.orders.scale
    if not session.problem.bias or not scale:
        return None
    main: Rounding = known.find_main_accumulator(session.problem.dtype)
    return find_bias_position(session, tree, scale, order.position, main.format)


def _find_first_pair(tree: Item) -> tuple[int, int] | None:
    """Two single terms of which the second is added to the first."""
    if not isinstance(tree, Chain):
        return None
    first, second = tree.items[0], tree.items[1] if len(tree.items) > 1 else None
    if isinstance(first, int) and isinstance(second, int):
        return first, second
    return next((pair for pair in map(_find_first_pair, tree.items) if pair), None)


def _propose_transforms(session: ProbeSession, family: ImpulseResponse) -> Iterator[Recipe]:
    """The transforms that reproduce the response to one source value, with all sequences of channels."""
    impulse = Replayer(session.problem, family.operands, family.result)
    for recipe in propose_plain_transforms(session.problem):
        if impulse.score(recipe)[0] < 1.0:
            continue
        more = propose_channel_sums(recipe, session.terms.depth) if isinstance(recipe.algorithm, Winograd) else ()
        yield from itertools.chain([recipe], more)


def _choose_better(one: RecipeStage, other: RecipeStage) -> RecipeStage:
    """The stage that reproduces more; it counts the tries of both."""
    better = other if other.recipe and other.matched > one.matched else one
    return replace(better, tried=other.tried)


def _try_all(found: SearchResult, candidates: Iterable[Recipe]) -> RecipeStage:
    """The candidate that reproduces most; stops at the first that reproduces everything."""
    best: Recipe | None = None
    score, tried = -1.0, 0
    for recipe in candidates:
        tried += 1
        matched, compared = score_all(found.replayers, recipe, sampled=True)
        if matched > score and compared:
            best, score = recipe, matched
        if matched == 1.0 and compared:
            break
    tried += found.chosen.tried
    if best is None:
        return replace(found.chosen, tried=tried)
    matched, compared = score_all(found.replayers, best)
    return RecipeStage(best, matched, compared, tried)
