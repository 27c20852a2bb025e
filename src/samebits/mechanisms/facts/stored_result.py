"""Which numbers a recorded result has: those of a narrower format, or whole steps, of all outputs or of some channels.

Looked at before any hypothesis is tried: results that are all numbers of float16 were stored in float16, whatever made
them, and every prediction is then rounded so, too. Sums may have been stored before the bias was added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from samebits.findings.words.place_words import describe_places, list_in_words
from samebits.judging.measuring import mark_unclipped
from samebits.mechanisms.facts.result_steps import FEWEST_TELLING, find_long_steps, find_steps
from samebits.numbers.array import measure_spacing
from samebits.numbers.format import find_format
from samebits.problems import Problem
from samebits.problems.terms import Terms
from samebits.sums.emulators.result_rounding import round_array, round_wide
from samebits.sums.recipes.recipe import Rounding

Floats = npt.NDArray[np.float64]
Marks = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Direction = Literal["nearest", "down", "up", "toward_zero", "either"]
_TO_WHOLE = {"nearest": np.rint, "down": np.floor, "up": np.ceil, "toward_zero": np.trunc, "either": np.rint}
# Narrowest first: whatever is a number of one is a number of the wider ones.
_FORMATS = ("float8_e5m2", "float8_e4m3fn", "bfloat16", "float16", "tf32", "e8m13")
_BIAS_FORMATS = ("", "bfloat16", "float16")
# That rows are on a grid by accident has at most a chance of 2 to minus so many bits.
_CHANCE_BITS, _FEWEST_BITS_BESIDE = 60.0, 6.0
# Of numbers rounded to a grid the truth is a quarter of its spacing away, on average; half of it where digits are cut.
_LEAST_SHARE = 1 / 8
# Of the unit roundoff times the sum of magnitudes, of which twice is what any order leaves multiples of.
_LONGER = 8.0
# What float32 makes of a number times a scale, relative.
_SCALED_OFF = 2.0**-21
# Of sums before their bias: the spacing of the grid is at least so many times what the last addition rounds.
_LEAST_SPACING = 8.0


@dataclass(frozen=True)
class Stored:
    """What results, or sums before the bias (`late`), were rounded to on the way: a format, or whole steps.

    `steps` has a step for every output row (groups * rows), and `codes` the least and the largest multiple seen.
    `part` marks the outputs [rows, positions] that are concerned, where not all are. `bias` is what a late bias was
    rounded to itself. `direction` is where numbers between two steps go, `first` what values were rounded to before.
    With a `scale` it is the values divided by that which are numbers of the format, none beyond its largest.
    """

    says: str
    rounding: Rounding | None = None
    steps: Floats | None = None
    codes: tuple[float, float] = (0.0, 0.0)
    part: Marks | None = None
    late: bool = False
    bias: Rounding | None = None
    direction: Direction = "nearest"
    first: Rounding | None = None
    scale: float = 1.0

    def keep(self, values: Floats, rows: Numbers, positions: Numbers) -> Floats:
        """Values of some outputs, [rows, positions], as they are stored; either neighbour stands for `either`."""
        if self.rounding is not None:
            kept = round_wide(values if self.first is None else round_wide(values, self.first), self.rounding)
            if self.scale != 1.0:
                most = float(find_format(self.rounding.format).largest)
                kept = round_wide(np.clip(values / self.scale, -most, most), self.rounding) * self.scale
        else:
            assert self.steps is not None
            step = self.steps[rows][:, None]
            kept = np.clip(_TO_WHOLE[self.direction](values / step), *self.codes) * step
        return self._mix(kept, values, rows, positions)

    def keep_between(self, least: Floats, most: Floats, rows: Numbers, positions: Numbers) -> tuple[Floats, Floats]:
        """The least and the largest stored value of any value from `least` to `most`."""
        if self.direction != "either":
            return self.keep(least, rows, positions), self.keep(most, rows, positions)
        low, high = self.find_neighbours(least, rows)[0], self.find_neighbours(most, rows)[1]
        return self._mix(low, least, rows, positions), self._mix(high, most, rows, positions)

    def find_neighbours(self, values: Floats, rows: Numbers) -> tuple[Floats, Floats]:
        """The numbers below and above, equal where a value is one."""
        if self.rounding is None:
            assert self.steps is not None
            step = self.steps[rows][:, None]
            low, high = (np.clip(whole(values / step), *self.codes) * step for whole in (np.floor, np.ceil))
            return low, high
        format_ = find_format(self.rounding.format)
        values = values / self.scale
        inner = round_wide(values, Rounding(format_.name, "toward_zero"))
        outer = np.where(inner == values, inner, inner + np.copysign(measure_spacing(inner, format_), values))
        return np.minimum(inner, outer) * self.scale, np.maximum(inner, outer) * self.scale

    def allow(self, size: Floats, rows: Numbers) -> Floats:
        """Twice the error of storing values of some size, as predictions may be rounded to the other side."""
        if self.rounding is not None:
            format_ = find_format(self.rounding.format)
            before = float(find_format(self.first.format).unit_roundoff) if self.first is not None else 0.0
            return 2 * (float(format_.unit_roundoff) + before) * size + float(format_.smallest_subnormal) * self.scale
        assert self.steps is not None
        return np.broadcast_to(self.steps[rows][:, None], size.shape)

    def list_directions(self) -> Iterator[Stored]:
        """This storage, then other roundings: twice, steps down, up or toward zero, and anything to either side."""
        yield self
        if self.late or self.direction != "nearest":
            return
        if self.rounding is not None and self.rounding.mode == "nearest_even" and self.scale == 1.0:
            for name in _FORMATS:
                if find_format(name).precision > find_format(self.rounding.format).precision:
                    says = f"{self.says} after it was rounded to {name}"
                    yield replace(self, says=says, first=Rounding(name))
        if self.steps is not None:
            yield replace(self, says=f"{self.says} (rounded down)", direction="down")
            yield replace(self, says=f"{self.says} (rounded up)", direction="up")
            yield replace(self, says=f"{self.says} (truncated)", direction="toward_zero")
        says = f"{self.says}, rounded to either side as stochastic rounding does"
        yield replace(self, says=says, direction="either")

    def _mix(self, kept: Floats, values: Floats, rows: Numbers, positions: Numbers) -> Floats:
        return kept if self.part is None else np.where(self.part[np.ix_(rows, positions)], kept, values)


def find_stored(
    problem: Problem,
    terms: Terms,
    operands: Mapping[str, np.ndarray],
    result: np.ndarray,
    truth: np.ndarray,
    magnitudes: Floats,
) -> Stored | None:
    """How a result was stored, as its values show; None where they are ordinary numbers of its own format.

    Nothing is concluded from outputs where the truth itself is on the grid, as on small integers.
    """
    shape = (terms.groups * terms.rows, -1)
    given = terms.view_result(result).reshape(shape).astype(np.float64)
    true = terms.view_result(truth).reshape(shape).astype(np.float64)
    tells = mark_unclipped(problem, given) & np.isfinite(true) & (given != 0)
    with np.errstate(invalid="ignore"):
        natural = _measure_natural(problem, terms, given, magnitudes)
        whole = _find_format(problem, given, true, tells, natural), _find_steps(given, true, tells, natural)
        if whole == (None, None) and (scaled := _find_scaled_format(problem, given, true, tells)):
            return scaled
        long = _find_long_steps(problem, given, true, tells, magnitudes)
        candidates = [stored for stored in (*whole, long) if stored]
        if len(candidates) > 1:
            # Codes of 8 bits times a power of two are numbers of bfloat16, too, and fixed point is of any wide format.
            return max(candidates, key=lambda stored: _count_right(stored, given, true, tells))
        late = None if whole[0] else _find_late_format(problem, operands, given, true, tells)
        found = late or next(iter(candidates), None)
        return found or _find_part(
            problem, terms, given, true, tells & (measure_spacing(given, find_format("float16")) > natural)
        )


def _find_steps(given: Floats, true: Floats, tells: Marks, natural: Floats) -> Stored | None:
    found = find_steps(given, true, tells, natural)
    if found is None:
        return None
    says, steps, rows = found
    part = None if rows.all() else np.broadcast_to(rows[:, None], given.shape)
    return _store_steps(says, given, steps, part)


def _find_long_steps(problem: Problem, given: Floats, true: Floats, tells: Marks, magnitudes: Floats) -> Stored | None:
    found = find_long_steps(given, true, tells, float(find_format(problem.out).unit_roundoff), magnitudes)
    return None if found is None else _store_steps(found[0], given, np.full(len(given), found[1]))


def _store_steps(says: str, given: Floats, steps: Floats, part: Marks | None = None) -> Stored:
    codes = np.rint(given / steps[:, None])
    return Stored(says, steps=steps, codes=(float(np.nanmin(codes)), float(np.nanmax(codes))), part=part)


def _count_right(stored: Stored, given: Floats, true: Floats, tells: Marks) -> int:
    """The number of outputs equal to the stored truth, in the way of rounding with most of them."""
    every = tuple(map(np.arange, true.shape))
    ways = (way.keep(true, *every) for way in stored.list_directions() if way.direction != "either")
    return max(int((np.abs(kept - given) <= 2.0**-22 * np.abs(given))[tells].sum()) for kept in ways)


def _list_narrower(problem: Problem) -> Iterator[str]:
    declared = find_format(problem.out)
    for name in _FORMATS:
        format_ = find_format(name)
        if format_.precision < declared.precision and format_.exponent_bits <= declared.exponent_bits:
            yield name


def _find_format(problem: Problem, given: Floats, true: Floats, tells: Marks, natural: Floats) -> Stored | None:
    for name in _list_narrower(problem):
        rounding, cut = Rounding(name), Rounding(name, "toward_zero")
        off = (round_array(true, rounding) != true) & tells & (measure_spacing(given, find_format(name)) > natural)
        # Equal values tell once: where all are one number, that may be on any grid.
        if len(np.unique(given[off])) < FEWEST_TELLING or not _lies_between(given, true, off, name):
            continue
        if ((round_array(given, rounding) == given) | ~tells).all():
            same, same_cut = ((round_array(true, r) == given)[tells].mean() for r in (rounding, cut))
            if same_cut > same:
                return Stored(f"stores its result in {name} (truncated)", cut)
            return Stored(f"stores its result in {name}", rounding)
    return None


def _find_scaled_format(problem: Problem, given: Floats, true: Floats, tells: Marks) -> Stored | None:
    """Numbers of eight bits times one scale, with which the largest is the format's largest."""
    values = given[np.isfinite(given)]
    for name in _FORMATS[:2] if values.any() else ():
        format_ = find_format(name)
        scale = float(np.abs(values).max()) / float(format_.largest)
        numbers = values / scale
        on = np.abs(round_array(numbers, Rounding(name)) - numbers) <= _SCALED_OFF * np.abs(numbers)
        off = np.abs(round_array(true / scale, Rounding(name)) - true / scale) > _SCALED_OFF * np.abs(true / scale)
        if on.all() and len(np.unique(given[off & tells])) >= FEWEST_TELLING:
            return Stored(f"stores its result in {name} with one scale", Rounding(name), scale=scale)
    return None


def _lies_between(given: Floats, true: Floats, off: Marks, name: str) -> bool:
    """Whether true values lie anywhere between two numbers of a format: lost small terms leave them next to one."""
    share = np.abs(true - given)[off] / measure_spacing(given[off], find_format(name))
    return bool(np.mean(np.minimum(share, 1.0)) >= _LEAST_SHARE)


def _find_part(problem: Problem, terms: Terms, given: Floats, true: Floats, tells: Marks) -> Stored | None:
    """Storage of a part of the outputs in a narrower format: some channels, or some indices along another axis."""
    for name in _list_narrower(problem):
        rounding = Rounding(name)
        off = (round_array(true, rounding) != true) & tells
        on = (round_array(given, rounding) == given) | ~tells
        lacks = find_format(problem.out).precision - find_format(name).precision
        for part in _list_parts(terms, given, on, off, lacks):
            if _lies_between(given, true, off & part, name):
                whole = np.zeros(problem.out_shape, bool)
                view = terms.view_result(whole)
                view[...] = part.reshape(view.shape)
                rows = part.all(axis=1)
                if np.array_equal(part.any(axis=1), rows):
                    which = (
                        f"channel{'s' if rows.sum() > 1 else ''} {list_in_words(np.flatnonzero(rows))} of its result"
                    )
                else:
                    which = f"its result {describe_places(problem, whole)}"
                return Stored(f"stores {which} in {name}", rounding, part=part)
    return None


def _measure_natural(problem: Problem, terms: Terms, given: Floats, magnitudes: Floats) -> Floats:
    """The spacing of the grid that sums are on anyway; where large terms cancel it is that of a narrow format."""
    size = terms.view_result(magnitudes).reshape(given.shape)
    return _LONGER * float(find_format(problem.out).unit_roundoff) * size


def _list_parts(terms: Terms, given: Floats, on: Marks, off: Marks, lacks: int) -> Iterator[Marks]:
    """Masks [rows, positions] of whole rows, batch items, or places along one spatial axis, that are on a grid.

    Each output with a distinct value is on it by chance with probability 2^-b, b the bits that the format lacks.
    """
    shape = (len(given), terms.batch, *terms.outputs)
    for axis in range(len(shape)):
        flat_on, flat_off = (np.moveaxis(a.reshape(shape), axis, 0).reshape(shape[axis], -1) for a in (on, off))
        values = np.moveaxis(given.reshape(shape), axis, 0).reshape(shape[axis], -1)
        whole = np.asarray(flat_on.all(axis=1))
        bits = lacks * np.array(
            [len(np.unique(v[o])) if n else 0 for v, o, n in zip(values, flat_off, whole, strict=True)]
        )
        # Where some places are beyond doubt, others that hold few values need less evidence.
        chosen = whole & (bits >= _FEWEST_BITS_BESIDE + np.log2(len(whole)))
        if (bits[chosen] >= _CHANCE_BITS).any() and not chosen.all():
            mask = chosen.reshape([-1 if i == axis else 1 for i in range(len(shape))])
            yield np.broadcast_to(mask, shape).reshape(given.shape)


def _find_late_format(
    problem: Problem, operands: Mapping[str, np.ndarray], given: Floats, true: Floats, tells: Marks
) -> Stored | None:
    """Sums that were numbers of a narrower format before their bias was added in the result's own format.

    Nothing is concluded where the true sums are such numbers themselves.
    """
    if not problem.bias:
        return None
    unit = float(find_format(problem.out).unit_roundoff)
    for name in _list_narrower(problem):
        format_ = find_format(name)
        for of_bias in _BIAS_FORMATS:
            own = operands["bias"].astype(np.float64)
            bias = round_wide(own, Rounding(of_bias)) if of_bias else own
            sums, true_sums = given - bias[:, None], true - own[:, None]
            spacing = measure_spacing(sums, format_)
            noise = 1.01 * unit * np.abs(given)
            off = np.abs(true_sums - round_array(true_sums, Rounding(name))) > 1.01 * unit * np.abs(true)
            counts = tells & off & (spacing > _LEAST_SPACING * noise) & (sums != 0)
            if not counts.any():
                continue
            away = np.abs(sums - round_array(sums, Rounding(name)))
            chance = np.log2(spacing[counts] / (2 * noise[counts] + 1e-300)).clip(0, 10).sum()
            if (away <= noise)[counts].all() and chance >= _CHANCE_BITS:
                beside = f"a bias rounded to {of_bias}" if of_bias else "the bias"
                says = f"stores its sums in {name} and adds {beside} to them afterwards"
                return Stored(says, Rounding(name), late=True, bias=Rounding(of_bias) if of_bias else None)
    return None
