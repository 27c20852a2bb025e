"""The operands of an autotuner's call to the last bit, and the outputs of it that a log prints: true sums, emulations.

Only what these outputs read is made: their rows of one operand, their batch items or channels of the other.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample, gather_terms
from samebits.numbers.format import find_format, numpy_dtype
from samebits.problems import Problem
from samebits.problems.languages.hlo import CallMemory
from samebits.problems.terms import find_terms
from samebits.questions.explain.logged.autotuner_buffers import HOST_BUFFER_LENGTH, fill_operands, locate_elements
from samebits.sums.bounds import bound_errors
from samebits.sums.truth import compute_truth

# So many outputs of a log are computed, so many products in all (one output at least), so many elements held.
_MOST_OUTPUTS, _MOST_PRODUCTS, _MOST_ELEMENTS = 16, 4e7, 6e7
# XLA prints so many digits of a value.
_DIGITS = 6


@dataclass(frozen=True)
class RebuiltCall:
    """Outputs of a call that a log prints. `kept` number the log's values among all that it prints.

    `observation` is the call with no more rows and batch items than these outputs need, its result unknown; `at` are
    the places of outputs in its grid of rows and positions, `sample`; `channels` are their channels in the whole call.
    """

    observation: Observation
    sample: Sample
    at: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    kept: npt.NDArray[np.int64]
    channels: npt.NDArray[np.int64]

    def thin(self, most: int) -> RebuiltCall:
        """The same with at most so many of its outputs, evenly spread."""
        some = _spread(len(self.kept), most)
        (rows, r), (positions, p) = (np.unique(at[some], return_inverse=True) for at in self.at)
        sample = replace(self.sample, rows=self.sample.rows[rows], positions=self.sample.positions[positions])
        return RebuiltCall(self.observation, sample, (r, p), self.kept[some], self.channels[some])

    def predict(self, hypothesis: Hypothesis) -> Floats | None:
        """What a hypothesis gives for the outputs, as numbers of the result; None where it cannot apply."""
        predicted = hypothesis.predict(self.observation, self.sample)
        if predicted is None:
            return None
        with np.errstate(over="ignore"):
            return predicted[self.at].astype(self.observation.result.dtype).astype(np.float64)

    @functools.cached_property
    def sums(self) -> Floats:
        """The true values in float64, correctly rounded."""
        return np.array([self._settle(i, "float64").item() for i in range(len(self.kept))])

    @functools.cached_property
    def truth(self) -> Floats:
        """The correctly rounded results."""
        return np.array([self._settle(i, self.observation.problem.out).item() for i in range(len(self.kept))])

    @functools.cached_property
    def bounds(self) -> Floats:
        """How far a result may be from the truth, for any order of addition; plus what printing rounds away."""
        # Nothing that the autotuner makes is negative: a sum is the sum of its magnitudes.
        out = self.observation.problem.out
        truth = self.truth.astype(numpy_dtype(out))
        problem = self.observation.problem
        largest = {"bias": self.observation.operands["bias"].max(keepdims=True)} if problem.bias else {}
        bounds = bound_errors(self._find_single(out), largest, truth, magnitudes=self.sums)
        return bounds.reshape(-1) + self.measure_steps(self.truth) / 2

    @functools.cached_property
    def spread(self) -> float:
        """The standard deviation of the outputs among each other."""
        return float(self.sums.std(ddof=1)) if len(self.sums) > 1 else 0.0

    @functools.cached_property
    def spread_of_levels(self) -> float:
        """The standard deviation of the level that all sums share, from one buffer of random numbers to another."""
        drawn = min(self.observation.problem.reduction_length, HOST_BUFFER_LENGTH)
        # Of uniform numbers from zero the mean is known to 1 / sqrt(3 n) of itself; of two operands, to sqrt(2) that.
        return abs(float(self.sums.mean())) * math.sqrt(2 / (3 * drawn))

    def measure_steps(self, values: Floats) -> Floats:
        """The uncertainty of a printed value: the step of the result's numbers or of its last digit, the larger one."""
        size = np.maximum(np.abs(values), np.finfo(np.float64).tiny)
        format_ = find_format(self.observation.problem.out)
        printed = 10.0 ** (np.floor(np.log10(size)) - (_DIGITS - 1))
        return np.maximum(np.ldexp(1.0, np.frexp(size)[1] - format_.precision), printed)

    def is_printed_as(self, exact: Floats, logged: Floats) -> npt.NDArray[np.bool_]:
        """Which results are equal to the logged values in all digits that a log prints."""
        same = (f"{a:.{_DIGITS}g}" == f"{b:.{_DIGITS}g}" for a, b in zip(exact, logged, strict=True))
        return np.fromiter(same, bool, len(exact))

    def measure_chance(self, logged: Floats) -> float:
        """How likely sums of other such numbers would come as near to the true ones as these values do.

        Both would have to: the level of all, and how each lies about it, where all must come as near as the farthest
        that counts does. Nothing nearer than the printed digits counts. A product p of two such chances is as small by
        chance with p (1 - ln p) (Fisher, 1932).
        """
        # Sums of whole numbers lie one apart at least.
        apart = 1.0 if (self.sums == np.rint(self.sums)).all() else 0.0
        step = max(float(self.measure_steps(self.sums).max()), apart) / 2
        away = logged - self.sums
        if not self.spread_of_levels or not np.isfinite(self.truth).all():
            return 1.0
        level = math.erf(max(abs(float(away.mean())), step) / (self.spread_of_levels * math.sqrt(2)))
        if not self.spread:
            return level
        about = np.maximum(np.abs(away - away.mean()), step)
        each = [math.erf(a / (self.spread * math.sqrt(2))) for a in about]
        # The mean was taken from the same values: of n, one less is free.
        both = level * max(each) ** (len(each) - 1)
        return both * (1 - math.log(both)) if both else 0.0

    def _find_single(self, out: str) -> Problem:
        """One output as a convolution that has no other."""
        problem, shape = self.observation.problem, (1, self.sample.terms.count, 1)
        return Problem("conv1d", shape, shape, bias=problem.bias, dtype=problem.dtype, out=out, then=problem.then)

    def _settle(self, number: int, out: str) -> np.ndarray:
        """The correctly rounded value of one output."""
        small, operands, terms = self._find_single(out), self.observation.operands, self.sample.terms
        row, position = self.at[0][number], self.at[1][number]
        one = Sample(terms, self.sample.rows[row : row + 1], self.sample.positions[position : position + 1])
        w, x = gather_terms(terms, operands[terms.rows_operand], operands[terms.source_operand], one)
        dtype = numpy_dtype(small.dtype)
        own = {"x": x.reshape(small.x).astype(dtype), "w": w.reshape(small.w).astype(dtype)}
        own |= {"bias": operands["bias"][one.rows]} if small.bias else {}
        return compute_truth(small, own).values


def rebuild_call(problem: Problem, memory: CallMemory, indices: Sequence[int]) -> RebuiltCall | None:
    """The call whose result has these places in memory printed.

    None where an operand, or an axis of one, is too large to be made, and where a place lies beyond the result.
    """
    if not _is_small(problem) or max(indices) >= math.prod(problem.out_shape):
        return None
    places = np.array(indices, np.int64)
    most = int(min(_MOST_OUTPUTS, max(_MOST_PRODUCTS // problem.reduction_length, 1)))
    kept = _spread(len(places), most)
    index = locate_elements(memory.result, problem.out_shape, places[kept])
    # Rows are the outer axis of a weight gradient, the channels of any other result.
    of_rows, of_batch = (0, 1) if problem.direction == "grad_weight" else (1, 0)
    (rows, row_at), (batch, batch_at) = (np.unique(index[:, a], return_inverse=True) for a in (of_rows, of_batch))
    if problem.groups > 1:
        rows, row_at = np.arange(problem.out_shape[of_rows]), index[:, of_rows]
        batch, batch_at = np.arange(problem.out_shape[of_batch]), index[:, of_batch]
    picked = {n: tuple(np.arange(s) for s in shape) for n, shape in problem.operand_shapes.items()}
    narrow = _narrow(problem, picked, rows, batch)
    if sum(math.prod(s) for s in narrow.operand_shapes.values()) > _MOST_ELEMENTS:
        return None
    operands = fill_operands(problem, memory, picked)
    unknown = np.broadcast_to(np.array(np.nan, numpy_dtype(problem.out)), narrow.out_shape)
    blank = np.broadcast_to(np.nan, narrow.out_shape)
    observation = Observation(narrow, operands, unknown, unknown, blank, blank)
    space = np.ravel_multi_index(tuple(index[:, 2:].T), narrow.out_shape[2:])
    positions = batch_at * math.prod(narrow.out_shape[2:]) + space
    (own_rows, r), (own_positions, p) = (np.unique(a, return_inverse=True) for a in (row_at, positions))
    return RebuiltCall(
        observation, Sample(find_terms(narrow), own_rows, own_positions), (r, p), kept, index[:, of_rows]
    )


def _is_small(problem: Problem) -> bool:
    """Whether places in memory fit in 64 bits, and what every axis reads fits into memory."""
    shapes = [problem.out_shape, *problem.operand_shapes.values()]
    reached = (max(a.size_small, a.size_large) * a.kernel for a in problem.axes)
    return max(map(math.prod, shapes)) < 2**62 and max(*map(max, shapes), *reached) <= _MOST_ELEMENTS


def _spread(count: int, most: int) -> npt.NDArray[np.int64]:
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))


def _narrow(
    problem: Problem,
    picked: dict[str, tuple[npt.NDArray[np.int64], ...]],
    rows: npt.NDArray[np.int64],
    batch: npt.NDArray[np.int64],
) -> Problem:
    """The problem of these rows and batch items (channels of x, for a weight gradient); `picked` is updated."""
    if problem.groups > 1:
        return problem
    wanted = {
        "forward": {("x", 0): batch, ("w", 0): rows, ("bias", 0): rows},
        "grad_input": {("dy", 0): batch, ("w", 1): rows},
        "grad_weight": {("x", 1): batch, ("dy", 1): rows},
    }[problem.direction]
    for (name, axis), values in wanted.items():
        if name in picked:
            picked[name] = (*picked[name][:axis], values, *picked[name][axis + 1 :])
    n, c_in, *space = problem.x
    c_out, depth, *kernel = problem.w
    if problem.direction == "forward":
        n, c_out = len(batch), len(rows)
    elif problem.direction == "grad_input":
        n, c_in, depth = len(batch), len(rows), len(rows)
    else:
        c_in, depth, c_out = len(batch), len(batch), len(rows)
    return replace(problem, x=(n, c_in, *space), w=(c_out, depth, *kernel))
