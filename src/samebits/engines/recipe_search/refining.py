"""Outputs that a recipe misses: tails of a kernel, borders, single rows that are added or rounded otherwise.

They are distinguished by replay on several sets of random data. Then, in sequence: another way of rounding products
or placing the bias, tried by replay; products asked about term by term; the order asked again, with questions in the
rows that are missed and answers from the positions that are.

        columns (output positions)
        . . . . . . . x     A recipe that holds for the bulk misses (x) the last column, which a kernel for the rest
        . . . . . . . x     computes, and one row, whose products another block adds. Each part gets an order of its
    row x x x x x x x x     own (`Own`), and its lines are found from where outputs are missed: whole columns, rows,
        . . . . . . . x     or borders, on all sets of data.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from samebits.engines.probes.mask_values import choose_scale
from samebits.engines.probes.product_rounding import Product, Roundings, find_term_products
from samebits.engines.probes.query_batch import classify_rows
from samebits.engines.probes.session import ProbeSession
from samebits.engines.probes.summation_order import find_summation_orders
from samebits.engines.probes.swapped_roles import SwappedSession, can_swap
from samebits.engines.recipe_search.order_names import name_orders
from samebits.engines.recipe_search.replaying import Replayer
from samebits.errors import ProbeStopped
from samebits.problems import Problem
from samebits.problems.operands import make_normal
from samebits.problems.terms import Terms, find_terms
from samebits.problems.windows import name_axes
from samebits.sums.recipes.order import Order, Own, TreeOrder, expand_order
from samebits.sums.recipes.order_map import array_from_places, places_from_array
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.tree import Chain, Item, list_terms

# Two ways of rounding agree on an output by chance about every second time: small problems can afford to be sure.
_LEAST_DATA_SETS = 6
_MOST_DATA_SETS = 24
_MOST_REPLAYED_PRODUCTS = 4e9
_LEAST_DENSITY = 0.1
_LEAST_LINE_DENSITY = 0.2
_LEAST_SOLVED = 0.02
_POSITIONS_PER_TERM = 24
_MOST_ROUNDS = 8
# Terms asked one by one, each in a row: so many calls at most to ask each of them once.
_MOST_PRODUCT_CALLS = 160
_MOST_PRODUCTS = 1e9
_MOST_TIME_S = 60.0
# The share of that time for finding the missed outputs; at least two sets of data are used.
_MOST_COLLECTING, _FEWEST_DATA_SETS = 0.1, 2
_SEED = 12


class _TimeSpentError(Exception):
    """Refining took too long; what was found so far stays."""


@dataclass
class Refiner:
    """A recipe on its way to reproduce everything."""

    session: ProbeSession
    recipe: Recipe
    replayers: list[Replayer]
    asked_again: set[bytes] = field(default_factory=set[bytes])
    deadline: float = np.inf

    def refine(self) -> Recipe:
        """The recipe with own orders and ways for the outputs it missed, as far as they could be found."""
        if self.session.problem.multiply_adds > _MOST_PRODUCTS:
            return self.recipe
        self.deadline = time.perf_counter() + _MOST_TIME_S
        best, fewest = self.recipe, math.inf
        try:
            missed = self._collect_missed()
            fewest = int(missed.sum())
            for _ in range(_MOST_ROUNDS):
                if not missed.any():
                    break
                better = self._try_ways(missed) or self._ask_products(missed) or self._ask_orders(missed)
                if better is None:
                    break
                self.recipe = better
                missed = self._mark_missed(better)
                if int(missed.sum()) < fewest:
                    best, fewest = better, int(missed.sum())
            return self._unify_rows(best)
        except _TimeSpentError:
            return best

    def _unify_rows(self, recipe: Recipe) -> Recipe:
        """Replaces a row's several orders by one of them wherever that misses no more: the others fitted by chance."""
        if len(recipe.orders) == 1:
            return recipe
        terms = find_terms(self.session.problem)
        where = array_from_places(recipe.where, self._axes, self.session.problem.out_shape)
        used = np.stack([terms.view_result(where == n).sum(axis=(2, 3)) for n in range(len(recipe.orders))])
        likeliest = np.argsort(-used, axis=0, kind="stable")
        open_ = (used > 0).sum(axis=0) > 1
        missed_before = self._mark_missed(recipe)
        before = terms.view_result(missed_before).sum(axis=(2, 3))
        for place in range(int((used > 0).sum(axis=0).max())):
            chosen = likeliest[place]
            trial = where.copy()
            view = terms.view_result(trial)
            view[...] = np.where(open_[:, :, None, None], chosen[:, :, None, None], view)
            changed = trial != where
            missed = self._mark_missed(_use_orders(self.session.problem, recipe, trial), changed)
            missed = terms.view_result(missed | (missed_before & ~changed))
            own = np.take_along_axis(used, chosen[None], axis=0)[0] > 0
            better = open_ & own & (missed.sum(axis=(2, 3)) <= before)
            view = terms.view_result(where)
            view[...] = np.where(better[:, :, None, None], chosen[:, :, None, None], view)
            open_ &= ~better
            if not open_.any():
                break
        return _use_orders(self.session.problem, recipe, where)

    @property
    def _terms(self) -> Terms:
        return find_terms(self.session.problem)

    @property
    def _axes(self) -> tuple[str, ...]:
        return name_axes(self.session.problem)

    @property
    def _where(self) -> npt.NDArray[np.int64]:
        return array_from_places(self.recipe.where, self._axes, self.session.problem.out_shape)

    def _collect_missed(self) -> npt.NDArray[np.bool_]:
        """The outputs missed on any data set; as many sets are tried as the problem's size and the time allow."""
        until = time.perf_counter() + _MOST_TIME_S * _MOST_COLLECTING
        missed = self._mark_missed(self.recipe)
        affordable = int(_MOST_REPLAYED_PRODUCTS / self.session.problem.multiply_adds)
        most = min(_MOST_DATA_SETS, max(_LEAST_DATA_SETS, affordable))
        while missed.any() and len(self.replayers) < most:
            if time.perf_counter() > until and len(self.replayers) >= _FEWEST_DATA_SETS:
                break
            operands = make_normal(self.session.problem, 1000 + len(self.replayers))
            result = self.session.ask(operands)
            self.replayers.append(Replayer(self.session.problem, operands, result))
            missed |= self.replayers[-1].score(self.recipe)[2]
        return missed

    def _mark_missed(self, recipe: Recipe, among: npt.NDArray[np.bool_] | None = None) -> npt.NDArray[np.bool_]:
        """Which outputs (of all, or of some) a recipe misses on any data set; what one shows is not asked again."""
        shape = self.session.problem.out_shape
        missed = np.zeros(shape, bool)
        left = np.ones(shape, bool) if among is None else among
        for replayer in self.replayers:
            if time.perf_counter() > self.deadline:
                raise _TimeSpentError
            if not left.any():
                break
            found = replayer.score(recipe, among=left)[2]
            missed |= found
            left = left & ~found
        return missed

    def _misses_less(self, recipe: Recipe, missed: npt.NDArray[np.bool_], cells: npt.NDArray[np.bool_]) -> bool:
        """Whether a recipe that differs only in `cells` misses fewer of these than are missed now."""
        return bool(self._mark_missed(recipe, cells).sum() < (missed & cells).sum())

    def _box(self, missed: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Whole rows times whole positions around what is missed."""
        terms = find_terms(self.session.problem)
        view = terms.view_result(missed)
        rows, positions = np.asarray(view.any(axis=(2, 3))), np.asarray(view.any(axis=(0, 1)))
        box = np.zeros_like(missed)
        terms.view_result(box)[...] = rows[:, :, None, None] & positions[None, None]
        return box

    def _spread(self, missed: npt.NDArray[np.bool_]) -> Iterator[npt.NDArray[np.bool_]]:
        """Sets of outputs to try a way on: rows, positions of which many are missed; the box; the missed alone."""
        terms = find_terms(self.session.problem)
        view = terms.view_result(missed)
        for axes in ((2, 3), (0, 1)):
            dense = np.asarray(view.mean(axis=axes, keepdims=True) > _LEAST_LINE_DENSITY)
            if dense.any() and not dense.all():
                lines = np.zeros_like(missed)
                terms.view_result(lines)[...] = dense
                yield lines
        box = self._box(missed)
        if missed.sum() > _LEAST_DENSITY * box.sum():
            yield box
        yield missed

    def _try_ways(self, missed: npt.NDArray[np.bool_]) -> Recipe | None:
        """Other ways of rounding, each for the positions that it reproduces in all rows that are missed there."""
        terms = find_terms(self.session.problem)
        for cells in self._spread(missed):
            left, candidate = cells.copy(), self.recipe
            for own in self._list_ways():
                changed = change_orders(
                    self.session.problem, candidate, left, lambda order, w=own: replace(order, own=w)
                )
                wrong = np.asarray(terms.view_result(self._mark_missed(changed, left)).any(axis=(0, 1)))
                solved = left.copy()
                terms.view_result(solved)[...] &= ~wrong[None, None]
                if solved.sum() > _LEAST_SOLVED * cells.sum():
                    candidate = change_orders(
                        self.session.problem, candidate, solved, lambda order, w=own: replace(order, own=w)
                    )
                    left &= ~solved
                if not left.any():
                    break
            if candidate != self.recipe and self._misses_less(candidate, missed, cells):
                return candidate
        return None

    def _list_ways(self) -> Iterator[Own]:
        biases = ["", "first", "last", "rounded"] if self.session.problem.bias else [""]
        for bias, product in itertools.product(biases, ("fused", "rounded")):
            yield Own(product=product, bias=bias)

    def _ask_products(self, missed: npt.NDArray[np.bool_]) -> Recipe | None:
        """The trees of missed outputs, with the terms marked whose products are rounded before they are added."""
        if self.recipe.product not in ("fused", "rounded") or self.recipe.accumulator.mode != "nearest_even":
            return None
        terms = self._terms
        apart: dict[Order, Order] = {}
        for number in np.unique(self._where[missed]):
            view = terms.view_result(missed & (self._where == number))
            rows = np.flatnonzero(view.any(axis=(2, 3)).reshape(-1))
            positions = np.flatnonzero(view.any(axis=(0, 1)).reshape(-1))
            exists = _find_terms_of(terms, positions)
            order = self.recipe.orders[number]
            tree = expand_order(order, terms.axis_names, terms.axis_sizes)
            pairs = [(a, b) for a, b in _list_joins(tree) if exists[a] and exists[b]]
            found = self._find_products(pairs, rows, positions, _list_starts(tree) & set(pairs))
            fused = (order.own.product or self.recipe.product) == "fused"
            others = {b for (_, b), way in found.items() if way == ("rounded" if fused else "fused")}
            swapped = {pair for pair, way in found.items() if way == "fused_reversed"}
            if others or swapped:
                rounded = others if fused else {b for _, b in set(_list_joins(tree)) - swapped} - others
                apart[order] = TreeOrder(_set_apart(tree, rounded, swapped), replace(order.own, product="fused"))
        return self._accept(missed, apart) if apart else None

    def _find_products(
        self,
        pairs: list[tuple[int, int]],
        rows: npt.NDArray[np.int64],
        positions: npt.NDArray[np.int64],
        starting: set[tuple[int, int]],
    ) -> dict[tuple[int, int], Product]:
        """As `find_term_products`, asked by positions where rows are few; of long sums at both ends only."""
        terms, session, roundings = self._terms, self.session, operand_roundings(self._terms, self.recipe)
        carriers = (np.arange(terms.groups)[:, None] * terms.positions + positions).reshape(-1)
        if len(pairs) > _MOST_PRODUCT_CALLS * len(rows) and len(carriers) > len(rows) and can_swap(terms):
            session, roundings = SwappedSession.swap(session), (roundings[1], roundings[0])
            rows, positions = carriers, np.unique(rows % terms.rows)
        most = _MOST_PRODUCT_CALLS * len(rows)
        if len(pairs) > most:
            # Differently rounded products are at the ends of a sum: in its tail, or before its lanes begin.
            in_sequence = sorted(pairs, key=lambda pair: pair[1])
            pairs = in_sequence[: most // 2] + in_sequence[-(most // 2) :]
            starting = starting & set(pairs)
        read = _choose_some(positions, _POSITIONS_PER_TERM)
        return find_term_products(session, pairs, rows, read, self.recipe.accumulator.format, roundings, starting)

    def _ask_orders(self, missed: npt.NDArray[np.bool_]) -> Recipe | None:
        """The recipe with orders found by asking the missed outputs again; None where it stays the same."""
        terms = find_terms(self.session.problem)
        view = terms.view_result(missed)
        rows = np.flatnonzero(view.any(axis=(2, 3)).reshape(-1))
        positions = np.asarray(view.any(axis=(0, 1)))
        key = rows.tobytes() + positions.tobytes()
        if key in self.asked_again or (len(rows) == terms.groups * terms.rows and positions.all()):
            return None
        self.asked_again.add(key)
        box = self._box(missed)
        candidate = self.recipe
        for alike in self._classify_rows(rows, positions):
            cells = np.zeros_like(missed)
            flat, own = terms.view_result(cells), terms.view_result(box)
            at = (alike // terms.rows, alike % terms.rows)
            flat[at] = own[at]
            changed = self._ask_rows(candidate, cells, alike)
            # Products may still be rounded differently: a right order need not miss fewer outputs at once.
            if len(alike) < len(rows) or self._mark_missed(changed).sum() <= self._mark_missed(candidate).sum():
                candidate = changed
        return candidate if candidate != self.recipe else None

    def _classify_rows(
        self, rows: npt.NDArray[np.int64], positions: npt.NDArray[np.bool_]
    ) -> list[npt.NDArray[np.int64]]:
        try:
            scale = choose_scale(self.session)
            return [rows] if scale is None else classify_rows(self.session, scale, rows, positions)
        except ProbeStopped:
            return [rows]

    def _ask_rows(self, recipe: Recipe, cells: npt.NDArray[np.bool_], rows: npt.NDArray[np.int64]) -> Recipe:
        """The recipe with the orders found by asking some rows, in those `cells` whose position has an order."""
        terms = find_terms(self.session.problem)
        positions = np.asarray(terms.view_result(cells).any(axis=(0, 1)))
        found = find_summation_orders(self.session, rows=rows, positions=positions)
        if not found.trees:
            return recipe
        names, numbers = name_orders(found.trees, terms)
        for number, name in enumerate(names):
            own = np.zeros_like(cells)
            terms.view_result(own)[...] = np.isin(found.places, np.flatnonzero(np.array(numbers) == number))[None, None]
            recipe = change_orders(self.session.problem, recipe, own & cells, lambda _, n=name: n)
        return recipe

    def _accept(self, missed: npt.NDArray[np.bool_], orders: dict[Order, Order]) -> Recipe | None:
        """The recipe with orders replaced on the first set of outputs where that misses fewer; None without one."""
        for cells in self._spread(missed):
            candidate = change_orders(self.session.problem, self.recipe, cells, lambda o: orders.get(o, o))
            if self._misses_less(candidate, missed, cells):
                return candidate
        return None


def operand_roundings(terms: Terms, recipe: Recipe) -> Roundings:
    """Format and mode of the source's and the rows' rounding."""

    def of(name: str) -> tuple[str, str] | None:
        rounding = recipe.find_rounding(terms.problem, name)
        return (rounding.format, rounding.mode) if rounding else None

    return of(terms.source_operand), of(terms.rows_operand)


def change_orders(
    problem: Problem, recipe: Recipe, cells: npt.NDArray[np.bool_], change: Callable[[Order], Order]
) -> Recipe:
    """The recipe in which some outputs, a mask over the result, use what `change` makes of their order."""
    axes = name_axes(problem)
    where = array_from_places(recipe.where, axes, problem.out_shape)
    moved = where.copy()
    every = list(recipe.orders)
    for number in np.unique(where[cells]):
        order = change(recipe.orders[number])
        if order not in every:
            every.append(order)
        moved[cells & (where == number)] = every.index(order)
    return _use_orders(problem, replace(recipe, orders=tuple(every)), moved)


def _use_orders(problem: Problem, recipe: Recipe, where: npt.NDArray[np.int64]) -> Recipe:
    """The recipe with its orders at other places, those that no output uses left out."""
    used, numbers = np.unique(where, return_inverse=True)
    places = places_from_array(numbers.reshape(where.shape), name_axes(problem))
    return replace(recipe, orders=tuple(recipe.orders[n] for n in used), where=places)


def _choose_some(positions: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """At random: every n-th position may be the border of every row."""
    if len(positions) <= most:
        return positions
    return np.sort(np.random.default_rng(_SEED).choice(positions, most, replace=False))


def _find_terms_of(terms: Terms, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which terms any of some positions has."""
    number, masks = terms.patterns
    return np.tile(masks[np.unique(number[positions % len(number)])].any(axis=0), terms.depth)


def _list_joins(tree: Item) -> list[tuple[int, int]]:
    """For every term that is added to a running sum: that sum's first term, and the term."""
    if not isinstance(tree, Chain):
        return []
    first = list_terms(tree)[0]
    joins = [(first, part) for part in tree.items[1:] if isinstance(part, int)]
    for part in tree.items:
        joins += _list_joins(part)
    return joins


def _list_starts(tree: Item) -> set[tuple[int, int]]:
    """The first two items of every sum that begins with two terms."""
    if not isinstance(tree, Chain):
        return set()
    starts = set().union(*(_list_starts(part) for part in tree.items))
    match tree.items[:2]:
        case (int(a), int(b)):
            starts.add((a, b))
    return starts


def _set_apart(tree: Item, terms: set[int], swapped: set[tuple[int, int]]) -> Item:
    """The tree with some terms as sums of their own, so that their products are rounded before they are added.

    Of `swapped` pairs of terms that begin a sum, the second begins it.
    """
    if not isinstance(tree, Chain):
        return tree
    items = tree.items
    if items[:2] in swapped:
        items = (items[1], items[0], *items[2:])
    items = items[:1] + tuple(Chain((p,)) if isinstance(p, int) and p in terms else p for p in items[1:])
    return Chain(
        tuple(_set_apart(p, terms, swapped) if isinstance(p, Chain) and len(p.items) > 1 else p for p in items),
        tree.format,
    )
