"""Hypotheses that read other positions: padding moved, dropped or of another kind; crop; flip; stride; dilation.

All of them are the problem's own sums under another relation large = small * stride - begin + tap * dilation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from samebits.errors import ProblemShapeError
from samebits.findings import Verdict
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample, sum_terms
from samebits.numbers.format import find_format
from samebits.numbers.whole_number import as_decimal
from samebits.problems import Problem
from samebits.problems.problem import SPATIAL_AXES, Axis

_MOST_SHIFTS = 49
_WRONG: Verdict = "wrong"
_EXCHANGED = {"strides": "stride", "dilations": "dilation", "paddings": "pad_begin"}
_MIXED_UP = {
    "stride and dilation": ("stride", "dilation"),
    "dilation and padding": ("dilation", "pad_begin"),
    "stride and padding": ("stride", "pad_begin"),
}
_PAD_MODES = {"wrap": "circularly", "reflect": "by reflection", "edge": "with the edge's values"}


def list_geometry_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Every other relation between indices that engines and converters are known to have used."""
    yield from _shifted(problem)
    yield from _flipped(problem)
    yield from _stepped(problem)
    yield from _padded_otherwise(problem)
    yield from _padded_results(problem)


def _hypothesis(problem: Problem, cause: CauseCode, says: str, axes: tuple[Axis, ...]) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats:
        return observation.sum_instead(observation.operands, sample, replace(sample.terms, axes=axes))

    def alter(observation: Observation) -> tuple[Problem, dict[str, np.ndarray]] | None:
        altered = _as_problem(observation.problem, axes)
        return None if altered is None else (altered, dict(observation.operands))

    return Hypothesis(cause, _WRONG, says, predict, alter)


def _as_problem(problem: Problem, axes: tuple[Axis, ...]) -> Problem | None:
    """The problem with these axes, if it can say them and its result keeps its shape."""
    if any(a.dilation < 1 or a.pad_begin < 0 for a in axes) or problem.is_transposed:
        return None
    padding = []
    for a in axes:
        reach = (a.kernel - 1) * a.dilation + 1
        padding.append((a.pad_begin, max((a.size_small - 1) * a.stride + reach - a.size_large - a.pad_begin, 0)))
    try:
        altered = replace(
            problem,
            padding=tuple(padding),
            stride=tuple(a.stride for a in axes),
            dilation=tuple(a.dilation for a in axes),
        )
    except ProblemShapeError:
        return None
    return altered if altered.out_shape == problem.out_shape and altered.axes == axes else None


def _shifted(problem: Problem) -> Iterator[Hypothesis]:
    """Padding (or a transposed convolution's crop) that begins elsewhere: one axis, all axes, axes mixed."""
    own = tuple(a.pad_begin for a in problem.axes)
    ranges = [_begins(problem, a) for a in problem.axes]
    candidates: dict[tuple[int, ...], None] = {}
    candidates[own[::-1]] = None
    for axis, begins in enumerate(ranges):
        for begin in begins:
            candidates[(*own[:axis], begin, *own[axis + 1 :])] = None
    for by in sorted({b - a.pad_begin for a, begins in zip(problem.axes, ranges, strict=True) for b in begins}):
        candidates[tuple(b + by for b in own)] = None
    if np.prod([len(r) for r in ranges]) <= _MOST_SHIFTS:
        candidates |= dict.fromkeys(itertools.product(*ranges))
    candidates[(0,) * problem.rank] = None
    candidates.pop(own, None)
    what = "crops" if problem.is_transposed else "pads"
    cause = CauseCode.TRANSPOSED_GEOMETRY if problem.is_transposed else CauseCode.PADDING
    for begins in candidates:
        axes = tuple(replace(a, pad_begin=b) for a, b in zip(problem.axes, begins, strict=True))
        names = ", ".join(
            f"{b} instead of {a.pad_begin} at the beginning of axis {n}"
            for n, a, b in zip(SPATIAL_AXES[problem.rank], problem.axes, begins, strict=True)
            if a.pad_begin != b
        )
        yield _hypothesis(problem, cause, f"{what} {names}", axes)


def _begins(problem: Problem, a: Axis) -> list[int]:
    """Where padding or crop may begin: all that some split of it, a lost or a doubled one give."""
    reach = (a.kernel - 1) * a.dilation + 1
    total = a.pad_begin + a.pad_end
    least = -(reach - 1) - a.pad_begin if problem.is_transposed else -(a.stride - 1)
    most = max(total, 2 * a.pad_begin, reach - 1 if problem.is_transposed else 0) + 1
    begins = range(least, most + 1)
    if len(begins) > _MOST_SHIFTS:
        begins = sorted({0, 1, total // 2, total - total // 2, total, a.pad_end, 2 * a.pad_begin, a.pad_begin + 1})
    return [b for b in begins if b != a.pad_begin]


def _flip(a: Axis) -> Axis:
    return replace(a, dilation=-a.dilation, pad_begin=a.pad_begin - (a.kernel - 1) * a.dilation)


def _flipped(problem: Problem) -> Iterator[Hypothesis]:
    long = [i for i, a in enumerate(problem.axes) if a.kernel > 1]
    for count in range(len(long), 0, -1):
        for chosen in itertools.combinations(long, count):
            axes = tuple(_flip(a) if i in chosen else a for i, a in enumerate(problem.axes))
            names = " and ".join("k" + SPATIAL_AXES[problem.rank][i] for i in chosen)
            cause = CauseCode.TRANSPOSED_GEOMETRY if problem.is_transposed else CauseCode.AXIS_ORDER
            says = f"reads the kernel backwards along {names} (convolution in place of correlation, or the reverse)"
            yield _hypothesis(problem, cause, says, axes)


def _stepped(problem: Problem) -> Iterator[Hypothesis]:
    """Stride or dilation dropped, or the axes' values exchanged."""
    axes = problem.axes
    uneven = [what for what, field in _EXCHANGED.items() if len({getattr(a, field) for a in axes}) > 1]
    swaps = {
        f"exchanges the {' and '.join(chosen)} of its axes": _exchange(axes, chosen)
        for count in (1, 2, 3)
        for chosen in itertools.combinations(uneven, count)
        if chosen != ("paddings",)
    }
    swaps |= {
        "ignores the dilation": tuple(replace(a, dilation=1) for a in axes),
        "ignores the stride": tuple(replace(a, stride=1) for a in axes),
        "ignores dilation and padding": tuple(replace(a, dilation=1, pad_begin=0) for a in axes),
        "ignores stride and dilation": tuple(replace(a, stride=1, dilation=1) for a in axes),
        "ignores stride and padding": tuple(replace(a, stride=1, pad_begin=0) for a in axes),
    }
    for says, (one, other) in _MIXED_UP.items():
        mixed = tuple(replace(a, **{one: getattr(a, other), other: getattr(a, one)}) for a in axes)
        if all(a.dilation > 0 and a.stride > 0 for a in mixed):
            swaps[f"takes the {says} for each other"] = mixed
    names = SPATIAL_AXES[problem.rank]
    for i, a in enumerate(axes):
        if a.dilation > 1 and problem.rank > 1:
            swaps[f"ignores the dilation along {names[i]}"] = (*axes[:i], replace(a, dilation=1), *axes[i + 1 :])
        if a.stride > 1 and problem.rank > 1:
            swaps[f"ignores the stride along {names[i]}"] = (*axes[:i], replace(a, stride=1), *axes[i + 1 :])
        swaps |= _spread_over_axes(axes, i, names[i])
    for says, altered in swaps.items():
        if altered != axes:
            yield _hypothesis(problem, CauseCode.DROPPED_ATTRIBUTE, says, altered)
            if says.startswith("ignores the dilation"):
                # A converter that loses a dilation often centres the smaller window again.
                centred = tuple(
                    replace(b, pad_begin=b.pad_begin - (a.dilation - b.dilation) * (a.kernel - 1) // 2)
                    for a, b in zip(axes, altered, strict=True)
                )
                yield _hypothesis(problem, CauseCode.DROPPED_ATTRIBUTE, f"{says}, the window centred again", centred)


def _spread_over_axes(axes: tuple[Axis, ...], i: int, name: str) -> dict[str, tuple[Axis, ...]]:
    """The numbers of one axis, as the first of a list, used for all of them."""
    a = axes[i]
    own = {"stride": a.stride, "dilation": a.dilation, "pad_begin": a.pad_begin}
    uneven = [field for field in own if len({getattr(b, field) for b in axes}) > 1]
    spread: dict[str, tuple[Axis, ...]] = {}
    for count in range(1, len(uneven) + 1):
        for chosen in itertools.combinations(uneven, count):
            if chosen != ("pad_begin",):
                what = " and ".join("padding" if field == "pad_begin" else field for field in chosen)
                changed = {field: own[field] for field in chosen}
                spread[f"uses the {what} of {name} on all axes"] = tuple(replace(b, **changed) for b in axes)
    return spread


def _exchange(axes: tuple[Axis, ...], chosen: tuple[str, ...]) -> tuple[Axis, ...]:
    """The axes with some of their numbers in reverse."""
    names = [_EXCHANGED[what] for what in chosen]
    return tuple(
        replace(a, **{name: getattr(b, name) for name in names}) for a, b in zip(axes, axes[::-1], strict=True)
    )


def _padded_otherwise(problem: Problem) -> Iterator[Hypothesis]:
    """Something else than zeros beyond the input, on all axes or on one."""
    gathers = (problem.direction == "forward") and not problem.is_transposed
    if not gathers or not any(a.pad_begin or a.pad_end for a in problem.axes):
        return
    padded = [i for i, a in enumerate(problem.axes) if a.pad_begin or a.pad_end]
    for mode, words in _PAD_MODES.items():
        for chosen in dict.fromkeys([tuple(padded), *((i,) for i in padded)]):
            names = " and ".join(SPATIAL_AXES[problem.rank][i] for i in chosen)
            yield _padding_mode(problem, mode, chosen, f"pads {words} along {names} instead of with zeros")


def _padded_results(problem: Problem) -> Iterator[Hypothesis]:
    """Output padding that is filled where sums should stand, at the end or at the beginning."""
    if problem.direction != "forward" or not problem.is_transposed or not any(problem.output_padding):
        return
    ahead = tuple(
        replace(a, pad_begin=a.pad_begin - n) for a, n in zip(problem.axes, problem.output_padding, strict=True)
    )
    for filled in ("zeros", "nothing but the bias") if problem.bias else ("zeros",):
        for axes, end in ((problem.axes, "the end"), (ahead, "the beginning")):
            says = f"leaves {filled} in its output padding, which it puts at {end}"
            yield _padded_result(problem, says, axes, first=end == "the beginning", bare=filled == "zeros")


def _padded_result(problem: Problem, says: str, axes: tuple[Axis, ...], *, first: bool, bare: bool) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats:
        terms = replace(sample.terms, axes=axes)
        weights, source = (observation.operands[n] for n in (terms.rows_operand, terms.source_operand))
        places = np.unravel_index(sample.positions % np.prod(terms.outputs), terms.outputs)
        filled = np.zeros(len(sample.positions), bool)
        for place, size, count in zip(places, terms.outputs, problem.output_padding, strict=True):
            filled |= place < count if first else place >= size - count
        sums = np.where(filled, 0.0, sum_terms(terms, weights, source, sample))
        finished = observation.finish(sums, sample)
        return np.where(filled, 0.0, finished) if bare else finished

    return Hypothesis(CauseCode.TRANSPOSED_GEOMETRY, _WRONG, says, predict)


def list_padding_hypotheses(observation: Observation, sample: Sample) -> Iterator[Hypothesis]:
    """The one number other than zero that the result allows in the padding, if it reads any."""
    problem, terms = observation.problem, observation.terms
    if terms.form != "gather" or not any(a.pad_begin or a.pad_end for a in problem.axes):
        return
    given = sample.pick(observation.result).astype(np.float64)
    told = mark_unclipped(problem, given)
    missed = _sum_missed(observation, sample)
    away = given - observation.sum_with_bias(sample)
    squares = float((missed[told] ** 2).sum())
    value = float((missed * away)[told].sum()) / squares if squares else 0.0
    if not value:
        return
    value = as_decimal(value)
    # Numbers much larger than the inputs make larger sums, and roundings.
    unit = (problem.reduction_length + 2) * float(find_format(problem.out).unit_roundoff)

    def predict(observation: Observation, sample: Sample) -> Floats:
        sums = sample.pick(observation.bare_sums())
        return observation.finish(sums + value * _sum_missed(observation, sample), sample)

    yield Hypothesis(
        CauseCode.PADDING, _WRONG, f"pads with {value:g} in place of zeros", predict, unit=unit, fitted=True
    )


def _sum_missed(observation: Observation, sample: Sample) -> Floats:
    """The weights that lie on padding, added up for each output of a sample."""
    terms = observation.terms
    weights = observation.operands[terms.rows_operand]
    ones = np.ones(observation.operands[terms.source_operand].shape, np.float32)
    whole = terms.view_rows(weights).reshape(terms.groups * terms.rows, -1).astype(np.float64).sum(axis=1)
    return whole[sample.rows][:, None] - sum_terms(terms, weights, ones, sample)


def _padding_mode(problem: Problem, mode: str, chosen: tuple[int, ...], says: str) -> Hypothesis:
    def widen(observation: Observation) -> tuple[tuple[Axis, ...], np.ndarray] | None:
        x, axes = observation.operands["x"], list(problem.axes)
        widths = [(0, 0), (0, 0)] + [(0, 0)] * problem.rank
        for i in chosen:
            a = axes[i]
            if mode == "reflect" and max(a.pad_begin, a.pad_end) >= a.size_large:
                return None
            widths[2 + i] = (a.pad_begin, a.pad_end)
            axes[i] = replace(a, size_large=a.size_large + a.pad_begin + a.pad_end, pad_begin=0, pad_end=0)
        return tuple(axes), np.pad(x, widths, mode=mode)  # type: ignore[call-overload]  (mode is one of NumPy's)

    def predict(observation: Observation, sample: Sample) -> Floats | None:
        widened = widen(observation)
        if widened is None:
            return None
        axes, x = widened
        terms = replace(sample.terms, axes=axes, source_sizes=x.shape[2:])
        return observation.sum_instead({**observation.operands, "x": x}, sample, terms)

    return Hypothesis(CauseCode.PADDING, _WRONG, says, predict)
