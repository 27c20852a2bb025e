"""Which numbers a recorded result has: those of a narrower format, or whole steps, of all outputs or of some channels.

Looked at before any hypothesis is tried: results that are all numbers of float16 were stored in float16, whatever made
them, and every prediction is then rounded so, too. Sums may have been stored before the bias was added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.emulators.result_rounding import round_array, round_wide
from samebits.formats.array import measure_spacing
from samebits.formats.format import find_format
from samebits.judging.measuring import mark_unclipped
from samebits.problems import Problem
from samebits.problems.terms import Terms
from samebits.recipes.recipe import Rounding
from samebits.wording.place_words import list_in_words

Floats = npt.NDArray[np.float64]
# Narrowest first: whatever is a number of one is a number of the wider ones.
_FORMATS = ("float8_e5m2", "float8_e4m3fn", "bfloat16", "float16", "tf32", "e8m13")
_BIAS_FORMATS = ("", "bfloat16", "float16")
# Outputs that the truth does not have on the grid; with each the chance that none is off it at least halves.
_FEWEST_TELLING = 20
# That rows are on a grid by accident has at most a chance of 2 to minus so many bits.
_CHANCE_BITS, _FEWEST_BITS_BESIDE = 60.0, 6.0
# Of numbers rounded to a grid the truth is a quarter of its spacing away, on average; half of it where digits are cut.
_LEAST_SHARE = 1 / 8
# Of sums before their bias: the spacing of the grid is at least so many times what the last addition rounds.
_LEAST_SPACING = 8.0
# Codes of 8 bits. That so many values of 24 bits are all multiples of a step is no accident.
_MOST_CODES, _FEWEST_VALUES = 256, 8
_MOST_DIVISOR = 6


@dataclass(frozen=True)
class Stored:
    """What results, or sums before the bias (`late`), were rounded to on the way: a format, or whole steps.

    `steps` has a step for every output row (groups * rows), and `codes` the least and the largest multiple seen.
    `rows` marks those that are concerned, where not all are. `bias` is what a late bias was rounded to itself.
    """

    says: str
    rounding: Rounding | None = None
    steps: Floats | None = None
    codes: tuple[float, float] = (0.0, 0.0)
    rows: npt.NDArray[np.bool_] | None = None
    late: bool = False
    bias: Rounding | None = None

    def keep(self, values: Floats, rows: npt.NDArray[np.int64]) -> Floats:
        """Values of some output rows, [rows, positions], as they are stored."""
        if self.rounding is not None:
            kept = round_wide(values, self.rounding)
        else:
            assert self.steps is not None
            step = self.steps[rows][:, None]
            kept = np.clip(np.rint(values / step), *self.codes) * step
        return kept if self.rows is None else np.where(self.rows[rows][:, None], kept, values)

    def allow(self, size: Floats, rows: npt.NDArray[np.int64]) -> Floats:
        """What storing may change, for values of some size; twice that, as predictions may lie on the other side."""
        if self.rounding is not None:
            format_ = find_format(self.rounding.format)
            return 2 * float(format_.unit_roundoff) * size + float(format_.smallest_subnormal)
        assert self.steps is not None
        return np.broadcast_to(self.steps[rows][:, None], size.shape)


def find_stored(
    problem: Problem, terms: Terms, operands: Mapping[str, np.ndarray], result: np.ndarray, truth: np.ndarray
) -> Stored | None:
    """What the values of a result show of how it was stored; None where it has the numbers of its own format.

    Nothing is concluded from outputs where the truth itself is on the grid, as on small integers.
    """
    shape = (terms.groups * terms.rows, -1)
    given = terms.view_result(result).reshape(shape).astype(np.float64)
    true = terms.view_result(truth).reshape(shape).astype(np.float64)
    tells = mark_unclipped(problem, given) & np.isfinite(true) & (given != 0)
    with np.errstate(invalid="ignore"):
        format_, steps = _find_format(problem, given, true, tells), _find_steps(given, true, tells)
        if format_ and steps:
            # Codes of 8 bits times a power of two are numbers of bfloat16, too.
            return max(format_, steps, key=lambda stored: _count_right(stored, given, true, tells))
        found = format_ or _find_late_format(problem, operands, given, tells) or steps
        return found or _find_part(problem, given, true, tells)


def _count_right(stored: Stored, given: Floats, true: Floats, tells: npt.NDArray[np.bool_]) -> int:
    """How many outputs are what storing makes of the truth."""
    kept = stored.keep(true, np.arange(len(true)))
    return int((np.abs(kept - given) <= 2.0**-22 * np.abs(given))[tells].sum())


def _list_narrower(problem: Problem) -> Iterator[str]:
    declared = find_format(problem.out)
    for name in _FORMATS:
        format_ = find_format(name)
        if format_.precision < declared.precision and format_.exponent_bits <= declared.exponent_bits:
            yield name


def _find_format(problem: Problem, given: Floats, true: Floats, tells: npt.NDArray[np.bool_]) -> Stored | None:
    for name in _list_narrower(problem):
        rounding, cut = Rounding(name), Rounding(name, "toward_zero")
        off = (round_array(true, rounding) != true) & tells
        # Equal values tell once: where all are one number, that may be on any grid.
        if len(np.unique(given[off])) < _FEWEST_TELLING or not _lies_between(given, true, off, name):
            continue
        if ((round_array(given, rounding) == given) | ~tells).all():
            same, same_cut = ((round_array(true, r) == given)[tells].mean() for r in (rounding, cut))
            if same_cut > same:
                return Stored(f"stores its result in {name} (truncated)", cut)
            return Stored(f"stores its result in {name}", rounding)
    return None


def _lies_between(given: Floats, true: Floats, off: npt.NDArray[np.bool_], name: str) -> bool:
    """Whether the truth lies anywhere between two numbers of a format, and not beside one: small terms lost do that."""
    share = np.abs(true - given)[off] / measure_spacing(given[off], find_format(name))
    return bool(np.mean(np.minimum(share, 1.0)) >= _LEAST_SHARE)


def _find_part(problem: Problem, given: Floats, true: Floats, tells: npt.NDArray[np.bool_]) -> Stored | None:
    """Some output rows that were stored so, the others not."""
    for name in _list_narrower(problem):
        rounding = Rounding(name)
        off = (round_array(true, rounding) != true) & tells
        on = ((round_array(given, rounding) == given) | ~tells).all(axis=1)
        # Each output of a value of its own is on the grid with a chance of 2 to minus the bits that the format lacks.
        lacks = find_format(problem.out).precision - find_format(name).precision
        bits = lacks * np.array([len(np.unique(g[o])) if n else 0 for g, o, n in zip(given, off, on, strict=True)])
        # Beside rows that are beyond doubt, those that hold few values are believed more easily.
        rows = on & (bits >= _FEWEST_BITS_BESIDE + np.log2(len(on)))
        if not (bits[rows] >= _CHANCE_BITS).any() or rows.all():
            continue
        if _lies_between(given, true, off & rows[:, None], name):
            marked = np.flatnonzero(rows)
            which = f"channel{'s' if len(marked) > 1 else ''} {list_in_words(marked)}"
            return Stored(f"stores {which} of its result in {name}", rounding, rows=rows)
    return None


def _find_late_format(
    problem: Problem, operands: Mapping[str, np.ndarray], given: Floats, tells: npt.NDArray[np.bool_]
) -> Stored | None:
    """Sums that were numbers of a narrower format before their bias was added in the result's own format."""
    if not problem.bias:
        return None
    unit = float(find_format(problem.out).unit_roundoff)
    for name in _list_narrower(problem):
        format_ = find_format(name)
        for of_bias in _BIAS_FORMATS:
            bias = operands["bias"].astype(np.float64)
            if of_bias:
                bias = round_wide(bias, Rounding(of_bias))
            sums = given - bias[:, None]
            spacing = measure_spacing(sums, format_)
            noise = 1.01 * unit * np.abs(given)
            counts = tells & (spacing > _LEAST_SPACING * noise) & (sums != 0)
            if not counts.any():
                continue
            away = np.abs(sums - round_array(sums, Rounding(name)))
            chance = np.log2(spacing[counts] / (2 * noise[counts] + 1e-300)).clip(0, 10).sum()
            if (away <= noise)[counts].all() and chance >= _CHANCE_BITS:
                beside = f"a bias rounded to {of_bias}" if of_bias else "the bias"
                says = f"stores its sums in {name} and adds {beside} to them afterwards"
                return Stored(says, Rounding(name), late=True, bias=Rounding(of_bias) if of_bias else None)
    return None


def _find_steps(given: Floats, true: Floats, tells: npt.NDArray[np.bool_]) -> Stored | None:
    """Whole multiples of one step, or of one step per channel: a result that was stored in eight bits."""
    step = _find_step(given[tells], true[tells])
    if step is not None:
        return _store_steps(f"stores its result in whole steps of {step:.4g}", given, np.full(len(given), step))
    each = [_find_step(given[r][tells[r]], true[r][tells[r]]) for r in range(len(given))]
    known = [s for s in each if s is not None]
    if len(known) < max(len(each) // 2, 1):
        return None
    rows = np.array([s is not None for s in each])
    steps = np.array([s if s is not None else 1.0 for s in each])
    says = f"stores its result in whole steps, of another size in each channel ({min(known):.4g} to {max(known):.4g})"
    return _store_steps(says, given, steps, None if rows.all() else rows)


def _store_steps(says: str, given: Floats, steps: Floats, rows: npt.NDArray[np.bool_] | None = None) -> Stored:
    codes = np.rint(given / steps[:, None])
    return Stored(says, steps=steps, codes=(float(np.nanmin(codes)), float(np.nanmax(codes))), rows=rows)


def _find_step(given: Floats, true: Floats) -> float | None:
    """The step that all values are multiples of; None where there is none, or the truth has it too."""
    values = np.unique(given)
    if len(values) < _FEWEST_VALUES:
        return None
    size = np.abs(values)
    # The smallest difference, and the smallest value, are whole steps; close values differ by rounding alone.
    apart = np.diff(values)
    apart = apart[apart > 1e-5 * size.max()]
    if len(apart) == 0:
        return None
    least = min(float(apart.min()), float(size[size > 0].min()))
    for divisor in range(1, _MOST_DIVISOR + 1):
        step = least / divisor
        codes = np.rint(values / step)
        if not codes.any() or np.abs(codes).max() > _MOST_CODES:
            continue
        step = float((values * codes).sum() / (codes * codes).sum())
        on = np.abs(values - codes * step) <= 2.0**-22 * size
        off = np.abs(true / step - np.rint(true / step)) > 2.0**-5
        if on.all() and off.sum() >= _FEWEST_TELLING:
            return step
    return None
