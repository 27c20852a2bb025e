"""Sound sums whose last rounding to a half format is not the declared one: truncated, rounded twice, or by chance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.evidence.acceptance import is_stochastic
from samebits.mechanisms.facts.observation import Floats, Observation
from samebits.mechanisms.facts.stored_result import Stored
from samebits.numbers.format import find_format
from samebits.sums.bounds import accumulator_format, bound_likely_errors
from samebits.sums.emulators.result_rounding import round_wide
from samebits.sums.recipes.recipe import Rounding

# Through which formats results may go, the widest last.
_THROUGH = ("bfloat16", "float16", "tf32", "e8m13")
# What float64 sums are off by, in shares of the sum of magnitudes.
_SLACK = 2.0**-40


def explain_last_rounding(observation: Observation) -> Mechanism | None:
    """The last rounding of a result in a half format; None where rounding to the nearest, once or late, explains all.

    Every output must lie between the rounded values of the sum minus, and of the sum plus, the likely error of sums in
    the declared format.
    """
    problem = observation.problem
    if find_format(problem.out).precision >= find_format("float32").precision or observation.stored is not None:
        return None
    sums = _find_range(observation)
    if sums is None or any(sums.fits(once) for once in _list_sound(problem.out, late=problem.bias)):
        return None
    for way in _list_ways(problem.out):
        if not sums.fits(way) or (way.stored.direction == "either" and not sums.is_stochastic(way.stored)):
            continue
        says_way = way.stored.says
        if way.first:
            alike = [w.first for w in _list_ways(problem.out) if w.first and sums.fits(w)]
            says_way = f"rounds its result twice, to {' or '.join(alike)} and then to {problem.out}"
        missed = min(sums.count_missed(once) for once in _list_sound(problem.out, late=problem.bias))
        if missed < thresholds.FEWEST_TELLING:
            return None
        says = (
            f"all {observation.result.size:,} outputs are what this makes of sums within the likely error of float32"
            f" sums; {missed:,} are not what rounding to the nearest makes of any"
        )
        return Mechanism(
            CauseCode.RESULT_ROUNDING, "downgrade", says_way, "nearness", evidence=(Evidence("statistic", says),)
        )
    return None


@dataclass(frozen=True)
class _Way:
    """Sums rounded to `first` if that is named, then stored; `late`: stored, the bias added, and stored again."""

    stored: Stored
    first: str = ""
    late: bool = False


def _list_sound(out: str, *, late: bool) -> Iterator[_Way]:
    """What correct engines do: one rounding, or another before a bias."""
    for is_late in (False, True)[: 1 + late]:
        yield _Way(Stored("", Rounding(out)), late=is_late)


def _list_ways(out: str) -> Iterator[_Way]:
    yield _Way(Stored(f"truncates its result to {out}", Rounding(out, "toward_zero")))
    for name in _THROUGH:
        if find_format(name).precision > find_format(out).precision:
            yield _Way(Stored("", Rounding(out)), first=name)
    says = f"rounds its result to {out} to either side, as stochastic rounding does"
    yield _Way(Stored(says, Rounding(out), direction="either"))


@dataclass(frozen=True)
class _Range:
    """The sums with their bias, what a late bias adds, and their likely error, all [rows, positions]."""

    observation: Observation
    sums: Floats
    bias: Floats
    likely: Floats

    def fits(self, way: _Way) -> bool:
        """Whether every output is what a way makes of some sum in its range."""
        return self.count_missed(way) == 0

    def is_stochastic(self, stored: Stored) -> bool:
        """Whether outputs often are the farther of the two numbers around a sum."""
        given = self.observation.whole().pick(self.observation.result).astype(np.float64)
        counts = mark_unclipped(self.observation.problem, given)
        return is_stochastic(stored, self.sums, given, self.likely, counts)

    def count_missed(self, way: _Way) -> int:
        """The number of outputs that a way gives for no sum in its range."""
        observation, every = self.observation, self.observation.whole()
        given = every.pick(observation.result).astype(np.float64)
        low, high = (self._keep(way, self.sums + sign * self.likely, upper=sign > 0) for sign in (-1, 1))
        fits = (low <= given) & (given <= high) | ~mark_unclipped(observation.problem, given)
        return int((~fits).sum())

    def _keep(self, way: _Way, sums: Floats, *, upper: bool) -> Floats:
        every, stored = self.observation.whole(), way.stored
        rounded = round_wide(sums, Rounding(way.first)) if way.first else sums
        if way.late:
            rounded = stored.keep(rounded - self.bias, every.rows, every.positions) + self.bias
        ends = stored.keep_between(rounded, rounded, every.rows, every.positions)
        return ends[1] if upper else ends[0]


def _find_range(observation: Observation) -> _Range | None:
    """The sums that correct engines may have; None where any is infinite or NaN."""
    every, problem = observation.whole(), observation.problem
    # What the last rounding adds is what is asked here.
    wide = replace(problem, out=accumulator_format(problem).name)
    likely = bound_likely_errors(wide, observation.operands, observation.truth, magnitudes=observation.magnitudes)
    sums, room = observation.sum_with_bias(every), every.pick(likely + _SLACK * observation.magnitudes)
    if not (np.isfinite(sums).all() and np.isfinite(room).all() and np.isfinite(observation.result).all()):
        return None
    bias = np.zeros_like(sums)
    if problem.bias:
        bias = bias + observation.operands["bias"].astype(np.float64)[every.rows][:, None]
    return _Range(observation, sums, bias, room)


# What texts are printed with, and what a shared exponent leaves each number, its sign not counted.
_DIGITS, _BITS, _BLOCKS = range(2, 8), range(3, 13), (16, 32, 64, 128)
# Of the bits that a float32 number has more; so much of chance is ruled out.
_CHANCE_BITS = 60.0


def explain_coarse_result(observation: Observation) -> Mechanism | None:
    """The mechanism of the grid that all outputs lie on and that is fine enough for all errors; None without one.

    Every output must be within a step of the truth, beyond what its own bound allows.
    """
    given, true = observation.result.astype(np.float64), observation.truth.astype(np.float64)
    if not (np.isfinite(given).all() and np.isfinite(true).all()) or not given.any():
        return None
    told = mark_unclipped(observation.problem, given) & (given != 0)
    if not told.any():
        return None
    for says, steps in _list_grids(given):
        noise = 2 * float(find_format(observation.problem.out).unit_roundoff) * np.abs(given)
        fine = noise <= steps / 8
        off = np.abs(given - np.rint(given / steps) * steps)
        if (off > noise)[told & fine].any() or not (told & fine).any():
            continue
        values = np.unique(given[told & fine])
        bits = np.log2(steps[told & fine] / noise[told & fine]).clip(0, 20)
        enough = bits.mean() * len(values) >= _CHANCE_BITS and len(values) >= thresholds.FEWEST_TELLING
        within = np.abs(given - true) <= steps + noise + observation.bound
        if enough and within.all() and not observation.distances.within_bound:
            evidence = f"all {given.size:,} outputs are such numbers, and within a step of what was declared"
            return Mechanism(
                CauseCode.RESULT_ROUNDING, "downgrade", f"stores its result {says}", "bound",
                evidence=(Evidence("structure", evidence),),
            )  # fmt: skip
    return None


def _list_grids(given: Floats) -> Iterator[tuple[str, Floats]]:
    """In words, and the step at every output: the coarsest first."""
    size = np.abs(given)
    exponent = np.floor(np.log10(np.where(size > 0, size, 1.0)) + 1e-12)
    for digits in _DIGITS:
        yield f"with {digits} significant decimal digits", 10.0 ** (exponent - digits + 1)
    for count in _BLOCKS:
        largest = _find_block_largest(size, count)
        if largest is None:
            continue
        power = np.floor(np.log2(np.where(largest > 0, largest, 1.0)))
        for bits in _BITS:
            says = f"as numbers of {bits} bits and a sign that share an exponent in blocks of {count} channels"
            yield says, 2.0 ** (power - bits + 1)


def _find_block_largest(size: Floats, count: int) -> Floats | None:
    """For every output the largest of its block along axis 1; None where there is no second block."""
    channels = size.shape[1]
    if channels <= count:
        return None
    starts = np.arange(0, channels, count)
    largest = np.maximum.reduceat(size, starts, axis=1)
    return np.repeat(largest, np.diff([*starts, channels]), axis=1)
