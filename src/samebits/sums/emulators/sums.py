"""Executing a direct recipe: every output is a sum of products along a tree. `sums_scalar` is the readable form."""

from __future__ import annotations

import concurrent.futures
import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from samebits.errors import RecipeError, ResourceLimitError
from samebits.machine import count_cores
from samebits.numbers.format import FLOAT32, find_format
from samebits.problems import Problem, format_problem
from samebits.problems.terms import Terms, find_terms
from samebits.problems.windows import name_axes
from samebits.sums.emulators.program import Plan, Program, compile_tree, plan_sums
from samebits.sums.emulators.rounding_kernel import Target, make_target
from samebits.sums.emulators.sums_kernel import gather_columns, run_rows32, run_rows64, run_rows_any
from samebits.sums.recipes.order import KeyedOrder, Order, expand_order, expand_orders, list_stored_formats
from samebits.sums.recipes.order_map import Places, array_from_places
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.tree import Item, has_fused, list_terms, restrict_tree
from samebits.sums.tiles.memory import count_available_bytes
from samebits.sums.tiles.running import find_pool

# Columns of one tile stay within a core's second-level cache.
_TILE_BYTES = 2**18
_LEAST_PLACES, _MOST_PLACES = 16, 4096
# A job is at least this many products, so that handing it out costs little.
_LEAST_PRODUCTS = 2**18
_MOST_FORMATS = 4
# An index of 8 bytes, and what is made of it on the way.
_BYTES_PER_REACH = 32
_SEED = 5
# Tables of reaches below this fill no memory; reading how much is free takes as long as a small layer.
_SMALL_BYTES = 2**24
# Programs of sums of at most so many terms are kept, many of short ones: recipes that are tried in turn often share
# their order.
_MOST_KEPT_TERMS, _MOST_KEPT = 2048, 512
_SHORT_TERMS, _MOST_SHORT_KEPT = 256, 8192
# Where outputs lie is kept from one recipe to the next: of so many of them, in results of so many.
_MOST_MARKED_KEPT = 2**23
_MOST_KEPT_OUTPUTS, _MOST_SOURCES_KEPT, _MOST_PLACES_KEPT = 2**18, 2**16, 8


class Batch(NamedTuple):
    """Outputs that share a program: those of some groups, in some rows, at some places, which are (batch, s) pairs.

    `sources` is what `_locate` finds of all these places, where it is known.
    """

    groups: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    program: Program | None
    sources: tuple[np.ndarray, np.ndarray] | None = None


@dataclass(frozen=True)
class Machine:
    """Which compiled stack machine executes a recipe, and its constants."""

    dtype: np.dtype
    targets: Mapping[str, Target] = field(default_factory=dict[str, Target])
    product: Target | None = None
    # What a multi-term addition is rounded to.
    fused: Target | None = None
    units: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)


def sum_products(
    problem: Problem,
    recipe: Recipe,
    operands: Mapping[str, np.ndarray],
    *,
    wanted: npt.NDArray[np.bool_] | None = None,
) -> npt.NDArray[np.floating]:
    """The sums of all outputs, bias added where the recipe adds it to the sum, in the accumulator's format.

    `operands` are already rounded as the recipe says, in float32 or float64. With `wanted`, a mask over the result's
    shape, only those outputs are computed (and possibly others); the rest is zero. Result: the problem's out_shape,
    float32 where the accumulator is, else float64.
    """
    terms = find_terms(problem)
    _check_tables(terms)
    machine = _choose_machine(problem, recipe)
    weights = np.ascontiguousarray(terms.view_rows(operands[terms.rows_operand]), machine.dtype)
    weights = weights.reshape(terms.groups, terms.rows, terms.count)
    source = np.ascontiguousarray(terms.view_source(operands[terms.source_operand]), machine.dtype)
    bias = _arrange_bias(problem, recipe, terms, operands, machine.dtype)
    result = np.zeros(problem.out_shape, machine.dtype)
    skips = _must_skip(recipe, weights, terms)
    executor = _Executor(problem, recipe, terms, machine, weights, source, bias, terms.view_result(result))
    executor.run(skips, wanted)
    if not skips and recipe.padding == "skipped" and _can_underflow(machine, recipe.flush.results, weights, source):
        zeros = result == 0 if wanted is None else (result == 0) & wanted
        if zeros.any() and not terms.patterns[1].all():
            # A sum that underflowed to -0 would become +0 by the zero products of padding.
            executor.run(True, zeros)
    return result


def _check_tables(terms: Terms) -> None:
    """Raises ResourceLimitError where the tables of which output reads what along an axis would fill the memory."""
    needed = _BYTES_PER_REACH * sum(o * s for o, s in zip(terms.outputs, terms.spans, strict=True))
    if needed <= _SMALL_BYTES:
        return
    available = count_available_bytes()
    if needed > 0.5 * available:
        raise ResourceLimitError(
            f"emulating {format_problem(terms.problem)} needs about {needed / 2**30:.1f} GiB, and"
            f" {available / 2**30:.1f} GiB are free; make the kernel or the spatial size smaller"
        )


@dataclass(frozen=True)
class _Executor:
    """Runs batches of one problem on all cores."""

    problem: Problem
    recipe: Recipe
    terms: Terms
    machine: Machine
    weights: np.ndarray
    source: np.ndarray
    bias: np.ndarray
    view: np.ndarray

    def run(self, skips: bool, wanted: npt.NDArray[np.bool_] | None) -> None:
        batches = list(_plan_batches(self.problem, self.recipe, self.terms, skips, wanted))
        jobs = [job for b in batches for job in _divide(b, self.terms.count, self.machine.dtype.itemsize)]
        if sum(_count_sums(job) for job in jobs) * self.terms.count <= _LEAST_PRODUCTS:
            # Handing it out would take longer than computing it.
            for job in jobs:
                self._run_batch(job)
            return
        pool = find_pool(count_cores())
        futures = [pool.submit(self._run_batch, job) for job in jobs]
        try:
            for future in concurrent.futures.as_completed(futures):
                future.result()
        finally:
            for future in futures:
                future.cancel()

    def _run_batch(self, batch: Batch) -> None:
        rows, places, dtype = batch.rows, batch.places, self.machine.dtype
        offsets, where = batch.sources or _locate(self.terms, places)
        columns = np.empty((self.terms.count, len(places)), dtype)
        out = np.empty((len(rows), len(places)), dtype)
        every = len(rows) == self.terms.rows
        for g in batch.groups:
            target = (g, rows[:, None], places[None, :, 0], places[None, :, 1])
            bias = self.bias[g] if every else self.bias[g][rows]
            if batch.program is None:
                self.view[target] = bias[:, None] if self.recipe.bias != "rounded" else 0.0
                continue
            gather_columns(self.source[g], offsets, where, columns)
            weights = self.weights[g] if every else self.weights[g][rows]
            _execute(self.machine, batch.program, weights, columns, bias, out)
            self.view[target] = out


def _choose_machine(problem: Problem, recipe: Recipe) -> Machine:
    accumulator, flushes = recipe.accumulator, recipe.flush.results
    carries = {name for o in recipe.orders for name in list_stored_formats(o)}
    multi_term = any(_has_fused(o) for o in recipe.orders)
    products = {recipe.for_order(n).product for n in range(len(recipe.orders))}
    read = {name: _format_read(problem, recipe, name) for name in ("x", "w")}
    if multi_term and not recipe.fused.fraction_bits:
        raise RecipeError("an order with multi-term additions needs fused=, the fraction bits they keep")
    if accumulator.format == "float64":
        if carries or multi_term or flushes:
            raise RecipeError("a float64 accumulator stores, fuses and flushes nothing")
        return Machine(np.dtype(np.float64))
    wide = [name for name, f in read.items() if find_format(f).precision > FLOAT32.precision]
    if wide:
        raise RecipeError(
            f"{' and '.join(wide)} in float64 need a float64 accumulator, or rounding first: {wide[0]}=float32"
        )
    plain = accumulator.format == "float32" and accumulator.mode == "nearest_even" and not carries and not multi_term
    if plain and products <= {"fused", "rounded", "float32"}:
        return Machine(np.dtype(np.float32))
    narrower = products - {"fused", "rounded"}
    if len(narrower) > 1 or (narrower and "rounded" in products):
        raise RecipeError("products of one recipe are rounded to one format only")
    product = find_format(next(iter(narrower), accumulator.format))
    names = {accumulator.format, *carries}
    if len(names) > _MOST_FORMATS:
        raise RecipeError(f"at most {_MOST_FORMATS} formats in one sum, not {len(names)}")
    terms = find_terms(problem)
    unit = recipe.fused.rounding or accumulator
    units = (
        recipe.fused.fraction_bits,
        _least_exponent(_format_read(problem, recipe, terms.source_operand)),
        _least_exponent(_format_read(problem, recipe, terms.rows_operand)),
        _least_exponent(unit.format),
        int({accumulator.format, *read.values(), *carries} == {"float16"}),
    )
    return Machine(
        np.dtype(np.float64),
        {n: make_target(find_format(n), accumulator.mode, flushes=flushes) for n in names},
        make_target(product, "nearest_even" if narrower else accumulator.mode, flushes=flushes),
        make_target(find_format(unit.format), unit.mode, flushes=flushes),
        units,
    )


def _format_read(problem: Problem, recipe: Recipe, name: str) -> str:
    """The format an operand's values have when they are multiplied."""
    rounding = recipe.find_rounding(problem, name)
    return rounding.format if rounding else problem.dtype


def _least_exponent(name: str) -> int:
    return find_format(name).smallest_normal_exponent + 1023


def _has_fused(order: Order) -> bool:
    if isinstance(order, KeyedOrder):
        return any(level.rule == "fused" for level in order.levels)
    return has_fused(order.tree)


def _arrange_bias(
    problem: Problem, recipe: Recipe, terms: Terms, operands: Mapping[str, np.ndarray], dtype: np.dtype
) -> np.ndarray:
    """[groups, rows]; zeros where the sum takes none."""
    if not problem.bias:
        return np.zeros((terms.groups, terms.rows), dtype)
    return np.ascontiguousarray(operands["bias"].reshape(terms.groups, terms.rows), dtype)


def _must_skip(recipe: Recipe, rows: np.ndarray, terms: Terms) -> bool:
    """Whether leaving a padded term out differs from multiplying its zero.

    Adding a zero product changes no sum but a negative zero, and no finite weight makes more of it than zero.
    """
    if recipe.padding == "multiplied":
        return False
    patterns = terms.patterns[1]
    if patterns.all():
        return False
    return recipe.start == "product" or not bool(np.isfinite(rows).all())


def _can_underflow(machine: Machine, flushes: bool, weights: np.ndarray, source: np.ndarray) -> bool:
    """Whether any product may be rounded, or flushed, to zero."""
    if flushes:
        return True
    smallest = [np.abs(a).min(initial=np.inf, where=a != 0).astype(np.float64) for a in (weights, source)]
    quanta = [t.drop + t.least_exponent - 1075 for t in machine.targets.values()]
    quantum = max(quanta, default=-149 if machine.dtype == np.float32 else -1074)
    return float(np.log2(smallest[0]) + np.log2(smallest[1])) < quantum + 1


def _plan_batches(
    problem: Problem, recipe: Recipe, terms: Terms, skips: bool, wanted: npt.NDArray[np.bool_] | None
) -> Iterator[Batch]:
    """All outputs, divided by order and by the terms they have."""
    trees = expand_orders(recipe.orders, terms.axis_names, terms.axis_sizes)
    masks = (terms.patterns if skips else terms.phases)[1]
    size, count = math.prod(problem.out_shape), None if wanted is None else int(wanted.sum())
    if recipe.where == 0 and size <= _MOST_MARKED_KEPT and (size if count is None else count) <= _MOST_KEPT_OUTPUTS:
        parts = _keep_parts(problem, skips, None if wanted is None else np.ascontiguousarray(wanted).tobytes())
    else:
        parts = _divide_outputs(problem, recipe.where, skips, wanted)
    if parts and (last := max(part.order for part in parts)) >= len(trees):
        raise RecipeError(f"where= names order {last}; there are {len(trees)}")
    recipes = {n: recipe.for_order(n) for n in {part.order for part in parts}}
    programs: dict[tuple[int, int], Program | None] = {}
    for part in parts:
        key = (part.order, part.pattern)
        if key not in programs:
            n = part.order
            programs[key] = _find_program(recipe.orders[n], trees[n], terms, masks[part.pattern], recipes[n])
        yield Batch(part.groups, part.rows, part.places, programs[key], part.sources)


class _Part(NamedTuple):
    """Outputs of one order, the terms of which exist in one pattern."""

    groups: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    order: int
    pattern: int
    sources: tuple[np.ndarray, np.ndarray] | None = None


@functools.lru_cache(maxsize=_MOST_PLACES_KEPT)
def _keep_parts(problem: Problem, skips: bool, wanted: bytes | None) -> list[_Part]:
    chosen = None if wanted is None else np.frombuffer(wanted, bool).reshape(problem.out_shape)
    parts, terms = _divide_outputs(problem, 0, skips, chosen), find_terms(problem)
    fits = [len(part.places) * terms.count <= _MOST_SOURCES_KEPT for part in parts]
    return [p._replace(sources=_locate(terms, p.places)) if f else p for p, f in zip(parts, fits, strict=True)]


def _locate(terms: Terms, places: npt.NDArray[np.int64]) -> tuple[np.ndarray, np.ndarray]:
    """Where the sources of all terms lie for each distinct s of some places, and which batch and s each place is."""
    chosen, inverse = np.unique(places[:, 1], return_inverse=True)
    return terms.locate_sources(chosen), np.stack([places[:, 0], inverse.reshape(-1)], axis=1)


def _divide_outputs(problem: Problem, where: Places, skips: bool, wanted: npt.NDArray[np.bool_] | None) -> list[_Part]:
    """All outputs, or those that are wanted, divided by order and by pattern."""
    terms = find_terms(problem)
    pattern, masks = terms.patterns if skips else terms.phases
    numbers = terms.view_result(array_from_places(where, name_axes(problem), problem.out_shape))
    chosen = terms.view_result(wanted) if wanted is not None else None
    found: list[_Part] = []
    for groups, rows in _group_rows(numbers, chosen):
        own = numbers[groups[0], rows[0]]
        some = None if chosen is None else chosen[np.ix_(groups, rows)].any(axis=(0, 1))
        for n in np.unique(own):
            for f in range(len(masks)):
                mask = (own == n) & (pattern == f)[None, :]
                places = np.argwhere(mask if some is None else mask & some)
                if len(places):
                    found.append(_Part(groups, rows, places, int(n), f))
    return found


def _group_rows(
    numbers: np.ndarray, chosen: np.ndarray | None
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Groups and rows whose outputs use the same orders everywhere (and have outputs that are wanted)."""
    groups, rows = numbers.shape[:2]
    flat = numbers.reshape(groups * rows, -1)
    if (flat == flat[:1]).all():
        sets = [np.arange(groups * rows)]
    else:
        inverse = _number_rows(flat)
        sets = [np.flatnonzero(inverse == i) for i in range(int(inverse.max()) + 1)]
    if chosen is not None:
        some = np.asarray(chosen.reshape(groups * rows, -1).any(axis=1))
        sets = [s[some[s]] for s in sets]
    for own in sets:
        if len(own) == 0:
            continue
        if len(own) == groups * rows:
            yield np.arange(groups), np.arange(rows)
            continue
        for g in np.unique(own // rows):
            yield np.array([g]), own[own // rows == g] % rows


def _number_rows(table: np.ndarray) -> npt.NDArray[np.int64]:
    """For every row which of the distinct rows it is; by a random sum of each, as sorting whole rows takes seconds."""
    weights = np.random.default_rng(_SEED).integers(-(2**62), 2**62, table.shape[1])
    _, first, inverse = np.unique(table @ weights, return_index=True, return_inverse=True)
    if not np.array_equal(table[first][inverse], table):
        _, inverse = np.unique(table, axis=0, return_inverse=True)
    return inverse.reshape(-1)


def _find_program(
    order: Order, tree: Item, terms: Terms, mask: npt.NDArray[np.bool_], recipe: Recipe
) -> Program | None:
    """The program over the terms of a pattern; None where it has no term."""
    plan = plan_sums(recipe, terms.problem.bias)
    # Orders that store sums in no other format have the same steps whatever format they add in.
    accumulator = recipe.accumulator.format
    named = accumulator if accumulator in list_stored_formats(order) else _ANY_ACCUMULATOR
    bias_terms = recipe.bias_terms if recipe.bias == "after" and terms.problem.bias else -1
    if terms.count > _MOST_KEPT_TERMS:
        found = _restrict_program(tree, np.tile(mask, terms.depth), named, bias_terms)
    else:
        keep = _keep_short if terms.count <= _SHORT_TERMS else _keep_program
        axes = (tuple(terms.axis_names), tuple(terms.axis_sizes))
        found = keep(order, axes, mask.tobytes(), terms.depth, named, bias_terms)
    return found and found._replace(formats=(accumulator, *found.formats[1:]), plan=plan)


_ANY_ACCUMULATOR = "accumulator"
_NO_PLAN = Plan(False, False, False, False, False)


def _make_program(
    order: Order,
    axes: tuple[tuple[str, ...], tuple[int, ...]],
    mask: bytes,
    depth: int,
    accumulator: str,
    bias_terms: int,
) -> Program | None:
    exists = np.tile(np.frombuffer(mask, bool), depth)
    return _restrict_program(expand_order(order, *axes), exists, accumulator, bias_terms)


_keep_program = functools.lru_cache(maxsize=_MOST_KEPT)(_make_program)
_keep_short = functools.lru_cache(maxsize=_MOST_SHORT_KEPT)(_make_program)


def _restrict_program(tree: Item, exists: npt.NDArray[np.bool_], accumulator: str, bias_terms: int) -> Program | None:
    """The steps over the terms that exist; what else they are run by is put in its place afterwards."""
    kept = tree if exists.all() else restrict_tree(tree, exists)
    if kept is None:
        return None
    after = int(exists[list_terms(tree)[:bias_terms]].sum()) if bias_terms >= 0 else -1
    return compile_tree(kept, accumulator, _NO_PLAN, after)


def _count_sums(batch: Batch) -> int:
    return len(batch.groups) * len(batch.rows) * len(batch.places)


def _divide(batch: Batch, count: int, itemsize: int) -> Iterator[Batch]:
    """The batch in parts whose columns fit the cache, several groups together where each has little to do."""
    size = max(min(_TILE_BYTES // (itemsize * count), _MOST_PLACES), _LEAST_PLACES) // 16 * 16
    groups = max(_LEAST_PRODUCTS // (len(batch.rows) * min(size, len(batch.places)) * count), 1)
    for at in range(0, len(batch.groups), groups):
        for i in range(0, len(batch.places), size):
            places = batch.places[i : i + size]
            sources = batch.sources if len(places) == len(batch.places) else None
            yield batch._replace(groups=batch.groups[at : at + groups], places=places, sources=sources)


def _execute(
    machine: Machine, program: Program, weights: np.ndarray, columns: np.ndarray, bias: np.ndarray, out: np.ndarray
) -> None:
    stack = np.empty((program.depth, columns.shape[1]), machine.dtype)
    common = (program.steps, program.terms, weights, columns, bias, tuple(program.plan), stack, out)
    if machine.dtype == np.float32:
        run_rows32(*common)
    elif machine.product is None:
        run_rows64(*common)
    else:
        targets = tuple(machine.targets[name] for name in program.formats)
        # Compiled code is made for one length of tuple.
        targets += targets[:1] * (_MOST_FORMATS - len(targets))
        run_rows_any(*common, (*targets, machine.fused), machine.product, machine.units)
