"""Hypotheses of operands that were stored in eight bits or fewer and read back, or split into bfloat16 parts.

Scales are those that quantisers choose: the largest magnitude of a tensor, a channel or a group of channels becomes the
largest code. Where a range came from other data the step is searched for.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from samebits.findings.causes import CauseCode
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample, gather_source
from samebits.mechanisms.quantised.storage_schemes import (
    FLOAT8,
    Divide,
    Scheme,
    divide_in_float32,
    divide_nudged,
    list_block_schemes,
    list_item_schemes,
    list_power_schemes,
    list_schemes,
    list_shared_exponents,
    list_shift_schemes,
    list_short_schemes,
    list_tensor_schemes,
    multiply_by_inverse,
    read_back,
    read_back_rows,
)
from samebits.numbers.format import find_format
from samebits.problems import Problem
from samebits.problems.terms import Terms, find_terms
from samebits.sums.emulators.result_rounding import round_wide
from samebits.sums.recipes.recipe import Rounding

_GROUPS = (32, 64, 128)
# Steps searched for lie between these shares of the largest magnitude, so close together that codes hardly differ.
_LEAST_STEP, _MOST_STEP, _STEPS = 1 / 1000, 1 / 60, 2200
_WIDTHS, _FINER_STEPS = (2e-3, 1e-4, 5e-6, 2.5e-7), 41
_SIGNED, _UNSIGNED = ((-128, 127), (-127, 127)), ((0, 255), (0, 127))
_SEARCHED_ROWS, _SEARCHED_POSITIONS = 6, 48
_MOST_SEARCHED, _FEWEST_SEARCHED = 250_000, 24
# All steps are tried on some outputs, these best ones on all; so many numbers at once lie in a cache.
_COARSE_EVERY, _FEWEST_COARSE, _BEST_STEPS = 4, 24, 32
_MOST_AT_ONCE = 65_536
# Elements of an operand that is kept in another form between two hypotheses.
_MOST_KEPT = 500_000
# So near the middle between two codes an engine's own division decides; relative.
_NUDGE, _LEAST_TIES = 2.0**-21, 2.0**-12
_WAYS: dict[str, Divide] = {
    "quotient": divide_in_float32,
    "inverse": multiply_by_inverse,
    "up": functools.partial(divide_nudged, _NUDGE),
    "down": functools.partial(divide_nudged, -_NUDGE),
}


def list_quantized_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Weights alone first, as most quantised models have them; then activations; then both."""
    if find_format(problem.dtype).precision <= find_format(FLOAT8[0]).precision:
        return
    terms = find_terms(problem)
    rows, source = terms.rows_operand, terms.source_operand
    groups = tuple(str(n) for n in _GROUPS if n < terms.depth)
    of_rows = list(list_schemes(blocks=("tensor", "channel", *groups), bits=(8, 4)))
    of_source = list(list_schemes(blocks=("tensor",), bits=(8,)))
    if problem.stated:
        of_source = list(list_schemes(blocks=("tensor", "channel", *groups), bits=(8, 4)))
    for scheme in of_rows:
        yield _quantises(terms, {rows: scheme})
    for scheme in of_source:
        yield _quantises(terms, {source: scheme})
    for scheme in list_block_schemes(terms):
        yield _quantises(terms, {rows: scheme})
    for a, b in itertools.product(of_rows, of_source):
        # A float8 format, or a number of bits, is a choice for both.
        if problem.stated is None or a.blocks == b.blocks:
            yield _quantises(terms, {rows: a, source: b})
    yield from _list_powers_of_two(terms)
    yield from _list_smaller_blocks(terms)
    # Of a product either operand may be the weights.
    for weights, others in ((rows, source), (source, rows))[: 1 if problem.stated is None else 2]:
        yield from _list_dynamic(terms, weights, others)


def _list_smaller_blocks(terms: Terms) -> Iterator[Hypothesis]:
    """Activations with a step per item; microscaling formats of either operand, and of both."""
    rows, source = terms.rows_operand, terms.source_operand
    if terms.problem.stated is None and terms.batch > 1 and terms.form == "gather":
        for scheme in list_item_schemes():
            yield _quantises(terms, {source: scheme})
    for scheme in list_shared_exponents() if terms.depth > 1 else ():
        for schemes in ({rows: scheme, source: scheme}, {rows: scheme}, {source: scheme}):
            yield _quantises(terms, schemes)


def _list_powers_of_two(terms: Terms) -> Iterator[Hypothesis]:
    """Weights that are shifts, and steps that are, of either operand or of both."""
    rows, source = terms.rows_operand, terms.source_operand
    for scheme in list_shift_schemes():
        yield _quantises(terms, {rows: scheme})
    powers = list(list_power_schemes())
    of_source = [p for p in powers if p.blocks == "tensor"]
    yield from (_quantises(terms, {rows: p}) for p in powers)
    yield from (_quantises(terms, {source: p}) for p in of_source)
    yield from (_quantises(terms, {rows: a, source: b}) for a, b in itertools.product(powers, of_source))


def _list_dynamic(terms: Terms, weights: str, others: str) -> Iterator[Hypothesis]:
    """Activations in 8 bits, or in 7, as they come, and weights in 8 bits, with one step or one per channel."""
    eight = list(list_schemes(blocks=("tensor",), bits=(8,)))
    each = [*list_schemes(blocks=("channel",), bits=(8,)), *list_tensor_schemes()]
    for a, b in itertools.product(each, eight):
        if terms.problem.stated is not None or a.says.endswith("127.5th"):
            yield _quantises(terms, {weights: a, others: b})
    *activations, of_channels = list_short_schemes()
    for a, b in itertools.product((*eight, *each, of_channels), activations):
        yield _quantises(terms, {weights: a, others: b})
    for b in eight:
        yield _quantises(terms, {weights: of_channels, others: b})
    for scheme in activations:
        yield _quantises(terms, {others: scheme})


def _quantises(terms: Terms, schemes: dict[str, Scheme]) -> Hypothesis:
    said = [f"{name} as stored {scheme.says}" for name, scheme in sorted(schemes.items(), reverse=True)]

    def predict(observation: Observation, sample: Sample) -> Floats:
        """How the engine divides decides where the middle between two codes goes: what comes closest is taken."""
        read = {n: _read_ways(observation, terms, n, scheme, sample) for n, scheme in schemes.items()}
        given = sample.pick(observation.result).astype(np.float64)
        ways = [dict(zip(read, way, strict=True)) for way in itertools.product(*read.values())]
        declared = find_format(observation.problem.dtype)
        if declared.precision < find_format("float32").precision:
            # What is read back is often kept in the declared format.
            ways += [{n: _round_kept(observation, a, declared.name) for n, a in way.items()} for way in ways]
        sums = (observation.sum_instead({**observation.operands, **way}, sample) for way in ways)
        return min(sums, key=lambda predicted: float(np.nansum((given - predicted) ** 2)))

    says = f"multiplies {', and '.join(said)}"
    return Hypothesis(CauseCode.QUANTIZED_OPERANDS, "downgrade", says, predict)


def _read_ways(observation: Observation, terms: Terms, name: str, scheme: Scheme, sample: Sample) -> list[np.ndarray]:
    """An operand as it may be read back: one way, unless values lie in the middle between two codes.

    For large weights only the sample's rows are read back; the others are not looked at.
    """
    if name != terms.rows_operand or observation.operands[name].size <= _MOST_KEPT:
        return _choose_ways(lambda how: _apply(observation, terms, name, scheme, how))
    if scheme.blocks.endswith("values"):
        return [observation.operands[name].astype(np.float64)]  # Too long to try.
    rows, key = sample.rows, f"{name} {scheme.says} {sample.rows.tobytes().hex()}"

    def apply(how: str) -> np.ndarray:
        if f"{key} {how}" not in observation.cache:
            own = terms.view_rows(observation.operands[name]).astype(np.float64)
            observation.cache[f"{key} {how}"] = read_back_rows(own, rows, scheme, _WAYS[how])
        return observation.cache[f"{key} {how}"]

    ways = []
    for some in _choose_ways(apply):
        array = np.zeros(observation.operands[name].shape)
        terms.view_rows(array)[rows // terms.rows, rows % terms.rows] = some
        ways.append(array)
    return ways


def _choose_ways(apply: Callable[[str], np.ndarray]) -> list[np.ndarray]:
    up, down = apply("up"), apply("down")
    if np.array_equal(up, down, equal_nan=True):
        return [up]
    own, other = apply("quotient"), apply("inverse")
    ways = [own] if np.array_equal(own, other, equal_nan=True) else [own, other]
    # Of many values single ones are always near the middle.
    return [*ways, up, down] if (up != down).mean() >= _LEAST_TIES else ways


def _apply(observation: Observation, terms: Terms, name: str, scheme: Scheme, how: str) -> np.ndarray:
    """An operand as it is read back; a small one is made once for each scheme."""
    key = f"{name} {scheme.says} {how}"
    if key in observation.cache:
        return observation.cache[key]
    array = read_back(observation, terms, name, scheme, _WAYS[how])
    if array.size <= _MOST_KEPT:
        observation.cache[key] = array
    return array


def _round_kept(observation: Observation, array: np.ndarray, name: str) -> np.ndarray:
    """An operand read back, rounded to a format; small ones are cached by id, and kept so that the id stays theirs."""
    if array.size > _MOST_KEPT:
        return round_wide(array, Rounding(name))
    key = f"{id(array)} rounded to {name}"
    if key not in observation.cache:
        observation.cache[key], observation.cache[f"{key} from"] = round_wide(array, Rounding(name)), array
    return observation.cache[key]


def list_split_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """float32 operands multiplied as sums of two bfloat16 parts, the smallest products left out or not."""
    if problem.dtype == "float32":
        yield from _list_splits(Rounding("bfloat16"), "two bfloat16 parts each")
        yield from _list_splits(Rounding("bfloat16", "toward_zero"), "two parts each that bfloat16 is cut to")


def _list_splits(rounding: Rounding, what: str) -> Iterator[Hypothesis]:
    def predict(observation: Observation, sample: Sample) -> Floats:
        high, low = _split(observation, rounding)
        bare = observation.as_bare_sums()
        first, second = high
        kept = [{first: high[first], second: high[second]}, {first: high[first], second: low[second]},
                {first: low[first], second: high[second]}]  # fmt: skip
        return observation.finish(np.sum([bare.sum_instead(k, sample) for k in kept], axis=0), sample)

    def predict_all(observation: Observation, sample: Sample) -> Floats:
        high, low = _split(observation, rounding)
        return observation.sum_instead({**observation.operands, **{n: high[n] + low[n] for n in high}}, sample)

    says = f"multiplies float32 operands as {what}"
    less = f"{says}, without the product of the smaller parts"
    yield Hypothesis(CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade", less, predict)
    yield Hypothesis(CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade", says, predict_all)


def _split(observation: Observation, rounding: Rounding) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Every operand rounded, and its remainder rounded to the same format."""
    own = {n: a.astype(np.float64) for n, a in observation.operands.items() if n != "bias"}
    high = {n: round_wide(a, rounding) for n, a in own.items()}
    return high, {n: round_wide(a - high[n], rounding) for n, a in own.items()}


def list_searched_hypotheses(observation: Observation, sample: Sample) -> Iterator[Hypothesis]:
    """Operands in whole steps whose size is searched for, as where a range was calibrated on other data."""
    terms = observation.terms
    if find_format(observation.problem.dtype).precision <= find_format(FLOAT8[0]).precision:
        return
    # Thousands of steps are tried: long sums leave time for fewer outputs, and for none beyond that.
    outputs = _MOST_SEARCHED // terms.count
    if outputs < _FEWEST_SEARCHED:
        return
    few = sample.thin(min(_SEARCHED_ROWS, outputs), max(min(_SEARCHED_POSITIONS, outputs // _SEARCHED_ROWS), 1))
    searched = _StepSearch.prepare(observation, few)
    for name in (terms.source_operand, terms.rows_operand):
        for codes in _choose_codes(observation, name):
            yield _searched(name, searched.find(name, codes), codes)
    for scheme in (s for s in list_schemes(blocks=("channel", "tensor"), bits=(8,)) if s.says.startswith("in 8 bits")):
        stored = read_back(observation, terms, terms.rows_operand, scheme, divide_in_float32)
        codes = next(iter(_choose_codes(observation, terms.source_operand)))
        factors = terms.view_rows(stored).reshape(terms.groups * terms.rows, -1)[few.rows]
        step = replace(searched, weights=factors.astype(np.float64)).find(terms.source_operand, codes)
        yield _searched(terms.source_operand, step, codes, stored, scheme)


def _choose_codes(observation: Observation, name: str) -> tuple[tuple[int, int], ...]:
    return _SIGNED if bool((observation.operands[name].astype(np.float64) < 0).any()) else _UNSIGNED


@dataclass(frozen=True)
class _StepSearch:
    """A search for the step of one operand: its sums of a few outputs, for many steps at once.

    `weights` are [rows, terms], `met` what they meet by group, [groups, positions, terms]; `group_of` says of each row
    which of these groups is its own.
    """

    observation: Observation
    few: Sample
    weights: Floats
    met: Floats
    group_of: npt.NDArray[np.int64]
    given: Floats

    @staticmethod
    def prepare(observation: Observation, few: Sample) -> _StepSearch:
        """The factors of the products of a few outputs."""
        terms = few.terms
        groups, group_of = np.unique(few.rows // terms.rows, return_inverse=True)
        source = terms.view_source(observation.operands[terms.source_operand])
        met = np.stack([gather_source(terms, source, int(g), few.positions) for g in groups])
        rows = terms.view_rows(observation.operands[terms.rows_operand])
        weights = rows.reshape(terms.groups * terms.rows, -1)[few.rows].astype(np.float64)
        given = few.pick(observation.result).astype(np.float64)
        return _StepSearch(observation, few, weights, met, group_of.reshape(-1), given)

    def find(self, name: str, codes: tuple[int, int]) -> float:
        """The step of an operand with which sums of it come nearest to the result.

        Codes near the middle of two tell it exactly, so that steps lie close: all of them are tried on some outputs,
        the best of those on all, and those near the best in ever narrower ranges.
        """
        largest = float(np.abs(self.observation.operands[name].astype(np.float64)).max())
        steps = largest * np.geomspace(_LEAST_STEP, _MOST_STEP, _STEPS)
        coarse = self._thin()
        if coarse is not None:
            steps = steps[np.argsort(coarse._miss(name, codes, steps), kind="stable")[:_BEST_STEPS]]
        step = self._choose(name, codes, steps)
        for width in _WIDTHS:
            step = self._choose(name, codes, step * np.linspace(1 - width, 1 + width, _FINER_STEPS))
        return step

    def _choose(self, name: str, codes: tuple[int, int], steps: Floats) -> float:
        return float(steps[np.argmin(self._miss(name, codes, steps))])

    def _thin(self) -> _StepSearch | None:
        """The same of every fourth position; None where those are too few to tell a step."""
        at = np.arange(0, len(self.few.positions), _COARSE_EVERY)
        if len(at) * len(self.few.rows) < _FEWEST_COARSE:
            return None
        few = Sample(self.few.terms, self.few.rows, self.few.positions[at])
        return replace(self, few=few, met=np.ascontiguousarray(self.met[:, at]), given=self.given[:, at])

    def _miss(self, name: str, codes: tuple[int, int], steps: Floats) -> Floats:
        """For every step the squared distance of the finished sums from the result."""
        missed = np.empty(len(steps))
        is_rows = name == self.few.terms.rows_operand
        size = self.weights.size if is_rows else self.met.size
        many = max(_MOST_AT_ONCE // size, 1)
        for start in range(0, len(steps), many):
            part = slice(start, start + many)
            sums = self._sum(steps[part, None, None, None], codes, is_rows)
            missed[part] = [np.square(self.given - finished).sum() for finished in self._finish(sums)]
        return missed

    def _sum(self, steps: Floats, codes: tuple[int, int], is_rows: bool) -> Floats:
        """The sums for some steps, [steps, rows, positions]."""
        sums = np.empty((len(steps), *self.given.shape))
        for g, met in enumerate(self.met):
            own = np.flatnonzero(self.group_of == g)
            weights = self.weights[own]
            if is_rows:
                sums[:, own] = _step(weights, steps[:, 0], codes) @ met.T
            else:
                sums[:, own] = weights @ _step(met, steps[:, 0], codes).swapaxes(1, 2)
        return sums

    def _finish(self, sums: Floats) -> Floats | list[Floats]:
        """Sums with bias and epilogue; one after the other where they are stored in a format."""
        if self.observation.stored is not None:
            return [self.observation.finish(own, self.few) for own in sums]
        return self.observation.finish(sums, self.few)


def _step(values: Floats, step: float | Floats, codes: tuple[int, int]) -> Floats:
    """Values in whole steps; with several steps, [steps, 1, 1], for each of them."""
    stepped = values / step
    np.rint(stepped, out=stepped)
    np.clip(stepped, *codes, out=stepped)
    stepped *= step
    return stepped


def _searched(
    name: str, step: float, codes: tuple[int, int], weights: np.ndarray | None = None, scheme: Scheme | None = None
) -> Hypothesis:
    """An operand in steps, and the weights as they are or as a scheme stores them."""

    def predict(observation: Observation, sample: Sample) -> Floats | None:
        own = observation.operands[name].astype(np.float64)
        changed = _step(own, step, codes)
        if (np.abs(changed - own) <= _NUDGE * np.abs(own)).all():
            return None  # Whole steps as they are; a step a little off is a factor fitted to the result.
        beside = {} if weights is None else {observation.terms.rows_operand: weights}
        return observation.sum_instead({**observation.operands, **beside, name: changed}, sample)

    says = f"multiplies {name} as stored in 8 bits with steps of {step:.4g}"
    if scheme is not None:
        says += f", and weights as stored {scheme.says}"
    return Hypothesis(CauseCode.QUANTIZED_OPERANDS, "downgrade", says, predict)
