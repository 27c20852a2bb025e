"""What is known about a recorded result before any hypothesis is tried, and sums of a sample of its outputs.

A hypothesis predicts what an engine would have returned. Predictions are made in float64 for a sample of outputs first:
some rows (output channels) at some positions, borders and tails among them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from samebits.findings import Verdict
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import (
    Distances,
    estimate_transform_noise,
    mark_outside,
    mark_unclipped,
    measure_distances,
)
from samebits.mechanisms.facts.stored_result import Stored, find_stored
from samebits.problems import Problem
from samebits.problems.problem import PRODUCTS
from samebits.problems.terms import Terms, find_terms
from samebits.sums.emulators.result_rounding import round_operands, round_wide
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.truth import compute_truth

Floats = npt.NDArray[np.float64]
# Of some positions: which of their terms count, [positions, volume].
Mark = Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]]
_MOST_ROWS, _MOST_POSITIONS = 24, 160
_RANDOM_POSITIONS = 48
# Samples in which a clip leaves fewer are added to.
_LEAST_UNCLIPPED = 1 / 16
_MOST_GATHERED = 2_000_000
# A group's source is copied for a gather where it is at most so many times as large as what is gathered.
_MOST_COPIED = 4
_SEED = 4
FEW_CHANNELS = 4


@dataclass(frozen=True)
class Sample:
    """A grid of outputs: `rows` number groups * rows, `positions` number batch * outputs (see `Terms`)."""

    terms: Terms
    rows: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]

    def pick(self, array: np.ndarray) -> np.ndarray:
        """The sample's elements of an array over the result, [rows, positions]."""
        view = self.terms.view_result(np.broadcast_to(array, self.terms.problem.out_shape))
        g, m = np.divmod(self.rows, self.terms.rows)
        b, s = np.divmod(self.positions, math.prod(self.terms.outputs))
        return view[g[:, None], m[:, None], b[None], s[None]]

    def mark(self) -> npt.NDArray[np.bool_]:
        """A mask over the result."""
        marked = np.zeros(self.terms.problem.out_shape, bool)
        view = self.terms.view_result(marked)
        g, m = np.divmod(self.rows, self.terms.rows)
        b, s = np.divmod(self.positions, math.prod(self.terms.outputs))
        view[g[:, None], m[:, None], b[None], s[None]] = True
        return marked

    def thin(self, rows: int, positions: int) -> Sample:
        """At most so many of its rows and positions, evenly spread."""
        return Sample(self.terms, _spread(self.rows, rows), _spread(self.positions, positions))


@dataclass(frozen=True)
class Observation:
    """One recorded result of a problem: operands, correctly rounded truth, bound, sums of magnitudes.

    `truth`, `bound` and `magnitudes` have the result's shape; `result` is the recorded one, of the result's dtype.
    `stored` is what its values show of how they were rounded on the way, `likely` the probabilistic bound, if known.
    """

    problem: Problem
    operands: Mapping[str, np.ndarray]
    result: np.ndarray
    truth: np.ndarray
    bound: Floats
    magnitudes: Floats
    cache: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    stored: Stored | None = None
    likely: Floats | None = None

    @property
    def terms(self) -> Terms:
        """The terms of the problem's sums."""
        return find_terms(self.problem)

    @functools.cached_property
    def distances(self) -> Distances:
        """How far every output is from the truth."""
        return measure_distances(self.problem, self.result, self.truth, self.bound, self.magnitudes)

    @functools.cached_property
    def transform_noise(self) -> Floats:
        """How far a transform's rounding may take any output."""
        return estimate_transform_noise(self.problem, self.magnitudes)

    def whole(self) -> Sample:
        """Every output."""
        terms = self.terms
        return Sample(terms, np.arange(terms.groups * terms.rows), np.arange(terms.positions))

    def is_small(self, most_products: float) -> bool:
        """Whether all outputs can be predicted with so many products."""
        terms = self.terms
        return terms.groups * terms.rows * terms.positions * terms.count <= most_products

    def choose_sample(self) -> Sample:
        """First, last and random rows of first, last and random groups, at corners, edges and random positions.

        Where a clip hides nearly all outputs, those that it leaves are among them.
        """
        return self._sample

    @functools.cached_property
    def _sample(self) -> Sample:
        terms = self.terms
        random = np.random.default_rng(_SEED)
        groups = _ends_and_random(terms.groups, 6, random)
        inner = _ends_and_random(terms.rows, max(_MOST_ROWS // len(groups), 2), random)
        rows = (groups[:, None] * terms.rows + inner[None]).reshape(-1)
        places = np.zeros(1, np.int64)
        for size in terms.outputs:
            chosen = np.unique(np.clip([0, 1, size // 2, size - 2, size - 1], 0, size - 1))
            places = (places[:, None] * size + chosen[None]).reshape(-1)
        count = math.prod(terms.outputs)
        if len(places) > _MOST_POSITIONS - _RANDOM_POSITIONS:
            places = random.permutation(places)[: _MOST_POSITIONS - _RANDOM_POSITIONS]
        some = np.unique(np.concatenate([places, random.integers(0, count, _RANDOM_POSITIONS)]))
        batch = _ends_and_random(terms.batch, max(3, _MOST_POSITIONS // len(some)), random)
        positions = (batch[:, None] * count + some[None]).reshape(-1)
        if len(positions) > 2 * _MOST_POSITIONS:
            positions = np.sort(random.permutation(positions)[: 2 * _MOST_POSITIONS])
        return self._add_unclipped(Sample(terms, rows, positions))

    def _add_unclipped(self, sample: Sample) -> Sample:
        """The sample plus the rows and positions with most unclipped outputs, where it has next to none."""
        if self.problem.then is None:
            return sample
        every = self.whole()
        tells = every.pick(mark_unclipped(self.problem, self.truth))
        if tells[np.ix_(sample.rows, sample.positions)].mean() >= _LEAST_UNCLIPPED:
            return sample
        by_row = np.argsort(-tells.sum(axis=1), kind="stable")[:_MOST_ROWS]
        by_row = by_row[tells[by_row].any(axis=1)]
        by_position = np.argsort(-tells[by_row].sum(axis=0), kind="stable")[:_MOST_POSITIONS]
        by_position = by_position[tells[np.ix_(by_row, by_position)].any(axis=0)]
        return replace(
            sample, rows=np.union1d(sample.rows, by_row), positions=np.union1d(sample.positions, by_position)
        )

    def bare_sums(self) -> Floats:
        """The correctly rounded sums of products in float64, without bias and epilogue; computed once."""
        if "bare" not in self.cache:
            bare = replace(self.problem, bias=False, then=None, out="float64")
            operands = {n: a for n, a in self.operands.items() if n != "bias"}
            self.cache["bare"] = compute_truth(bare, operands).values
        return self.cache["bare"]

    def detect_output_grid(self) -> Observation:
        """The observation with `stored`: what the values of the result show of how they were stored."""
        stored = find_stored(self.problem, self.terms, self.operands, self.result, self.truth, self.magnitudes)
        return self if stored is None else replace(self, stored=stored)

    def mark_outside(self) -> npt.NDArray[np.bool_]:
        """Outputs that the epilogue cannot return."""
        return mark_outside(self.problem, self.result)

    def as_bare_sums(self) -> Observation:
        """The observation of the sums alone: no bias, no epilogue, not stored in another format."""
        bare = replace(self.problem, bias=False, then=None)
        return replace(self, problem=bare, stored=None, cache={})

    def read_operands(self, recipe: Recipe) -> dict[str, np.ndarray]:
        """The operands as a recipe multiplies them: rounded, flushed."""
        return {n: a for n, a in round_operands(self.problem, recipe, self.operands).items() if n != "bias"}

    def sum_instead(
        self,
        operands: Mapping[str, np.ndarray],
        sample: Sample,
        terms: Terms | None = None,
        bias: np.ndarray | None = None,
    ) -> Floats:
        """Finished sums of a sample with other operands, another bias or terms, in place of the declared ones."""
        terms = terms or sample.terms
        sums = sum_terms(terms, operands[terms.rows_operand], operands[terms.source_operand], sample)
        return self.finish(sums, sample, bias)

    def finish(self, sums: Floats, sample: Sample, bias: np.ndarray | None = None) -> Floats:
        """Sums of a sample as results: bias (the operand's own by default) added, epilogue applied, not rounded."""
        stored = self.stored
        if stored is not None and stored.late:
            sums = stored.keep(sums, sample.rows, sample.positions)
        if self.problem.bias:
            own = self.operands["bias"].astype(np.float64) if bias is None else bias.astype(np.float64)
            if stored is not None and stored.bias is not None:
                own = round_wide(own, stored.bias)
            with np.errstate(invalid="ignore"):  # A bias beyond a hypothesis' format meets infinite sums.
                sums = sums + own[sample.rows][:, None]
        values = self.apply_epilogue(sums)
        return values if stored is None or stored.late else stored.keep(values, sample.rows, sample.positions)

    def sum_with_bias(self, sample: Sample) -> Floats:
        """The declared sums of a sample with their bias, neither rounded nor clipped."""
        sums = sample.pick(self.bare_sums())
        return sums + self.operands["bias"].astype(np.float64)[sample.rows][:, None] if self.problem.bias else sums

    def apply_epilogue(self, values: Floats) -> Floats:
        """The problem's epilogue."""
        then = self.problem.then
        return values if then is None else np.minimum(np.maximum(values, then.low), then.high)


def shrink_problem(problem: Problem) -> Problem:
    """The same sums for fewer outputs: few channels, and one item of the batch where the batch is not summed over."""
    if problem.kind in PRODUCTS:
        return _shrink_product(problem)
    if problem.groups > 1:
        return problem
    small_in, small_out = (FEW_CHANNELS, problem.w[1]) if problem.is_transposed else (problem.w[1], FEW_CHANNELS)
    batch = 1
    if problem.direction == "grad_weight":
        batch, small_in, small_out = problem.x[0], FEW_CHANNELS, FEW_CHANNELS
    elif (problem.direction == "forward") == problem.is_transposed:
        small_in, small_out = (problem.x[1], FEW_CHANNELS) if problem.is_transposed else (FEW_CHANNELS, problem.w[0])
    c_in, c_out = min(problem.x[1], small_in), min(problem.c_out, small_out)
    w = (c_in, c_out) if problem.is_transposed else (c_out, c_in)
    return replace(problem, x=(batch, c_in, *problem.x[2:]), w=(*w, *problem.w[2:]))


def _shrink_product(problem: Problem) -> Problem:
    """A product with few columns; its gradients as they are."""
    if problem.direction != "forward" or len(problem.w) < 2:
        return problem
    (*before, inner, columns) = problem.w if problem.kind == "matmul" else problem.w[::-1]
    few = min(columns, FEW_CHANNELS)
    return replace(problem, w=(*before, inner, few) if problem.kind == "matmul" else (few, inner))


def sum_terms(
    terms: Terms, rows_array: np.ndarray, source_array: np.ndarray, sample: Sample, mark: Mark | None = None
) -> Floats:
    """float64 sums of products of a sample, [rows, positions]; a source index -1 contributes nothing.

    `terms` may have other axes than the problem, and `mark` tells of some positions which terms count. Error at most
    K 2^-53 sum |x||w|: negligible next to float32's.
    """
    rows, source = terms.view_rows(rows_array), terms.view_source(source_array)
    sums = np.empty((len(sample.rows), len(sample.positions)))
    step = max(_MOST_GATHERED // terms.count, 1)
    group_of = sample.rows // terms.rows
    for g in np.unique(group_of):
        own = np.flatnonzero(group_of == g)
        weights = rows[g, sample.rows[own] % terms.rows].astype(np.float64).reshape(len(own), -1)
        for start in range(0, len(sample.positions), step):
            part = slice(start, start + step)
            with np.errstate(all="ignore"):
                met = gather_source(terms, source, int(g), sample.positions[part])
                if mark is not None:
                    counts = mark(sample.positions[part])[:, None]
                    met = np.where(counts, met.reshape(len(met), terms.depth, -1), 0.0).reshape(met.shape)
                sums[own, part] = weights @ met.T
    return sums


def gather_source(
    terms: Terms, source: np.ndarray, group: int, positions: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """The source values that terms of some positions read in one group, [positions, terms]; `source` is a view."""
    own = source[group]
    if own.size > _MOST_COPIED * terms.count * len(positions):
        b, s = np.divmod(positions, math.prod(terms.outputs))
        at = terms.locate_sources(s)
        met = own[b[:, None, None], np.arange(terms.depth)[None, :, None], at[:, None, :]]
        return np.where(at[:, None, :] >= 0, met.astype(np.float64), 0.0).reshape(len(positions), -1)
    flat = np.empty(own.size + 1)
    flat[:-1].reshape(own.shape)[...] = own
    flat[-1] = 0.0
    return flat.take(_locate_met(terms, np.asarray(positions, np.int64).tobytes()))


# Hypotheses are compared on one sample: where its terms lie is the same for each of them.
@functools.lru_cache(maxsize=4)
def _locate_met(terms: Terms, positions: bytes) -> npt.NDArray[np.int64]:
    """Flat indices into a group's source of what terms of some positions read; past its end where they read nothing."""
    b, s = np.divmod(np.frombuffer(positions, np.int64), math.prod(terms.outputs))
    at = terms.locate_sources(s)
    size = math.prod(terms.source_sizes)
    line = b[:, None, None] * terms.depth + np.arange(terms.depth)[None, :, None]
    met = np.where(at[:, None, :] >= 0, line * size + at[:, None, :], terms.batch * terms.depth * size)
    return met.reshape(len(at), -1)


def gather_terms(
    terms: Terms, rows_array: np.ndarray, source_array: np.ndarray, sample: Sample
) -> tuple[Floats, Floats]:
    """The factors of a small sample's products: weights [rows, terms], and what they meet, [rows, positions, terms]."""
    rows, source = terms.view_rows(rows_array), terms.view_source(source_array)
    weights = rows.reshape(terms.groups * terms.rows, -1)[sample.rows].astype(np.float64)
    by_group = {
        int(g): gather_source(terms, source, int(g), sample.positions) for g in np.unique(sample.rows // terms.rows)
    }
    return weights, np.stack([by_group[int(r) // terms.rows] for r in sample.rows])


def _spread(values: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    return values[np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).astype(np.int64))]


def _ends_and_random(size: int, most: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    if size <= most:
        return np.arange(size)
    inner = random.choice(np.arange(1, size - 1), most - 2, replace=False)
    return np.sort(np.concatenate([[0, size - 1], inner])).astype(np.int64)


# Values of a sample, [rows, positions], in float64; None where the hypothesis cannot apply.
Predict = Callable[[Observation, Sample], Floats | None]


@dataclass(frozen=True)
class Hypothesis:
    """What is assumed, the cause it would be, and what the result would be.

    `says` continues a sentence that begins with a side's name ("pads with ..."). `verdict` is what the side
    deserves if the hypothesis is accepted. Where another problem or other operands compute just what is assumed,
    `alter` returns them, so that recipes (`recipe`, where that is given too) can be replayed on them. `unit` is the
    unit roundoff of a rounding that the prediction ends with in addition to the declared ones. A `fitted` one has
    numbers taken from the result itself, which `say_fit` puts in words.
    """

    cause: CauseCode
    verdict: Verdict
    says: str
    predict: Predict
    alter: Callable[[Observation], tuple[Problem, dict[str, np.ndarray]] | None] | None = None
    recipe: Recipe | None = None
    unit: float = 0.0
    fitted: bool = False
    say_fit: Callable[[Observation, Sample], str] | None = None
