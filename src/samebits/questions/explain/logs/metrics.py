"""Polygraphy's comparisons: statistics of outputs and of their differences, in either sequence."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from samebits.questions.explain.logs.entry import Metrics, Mismatch, name_sides

# Possessive throughout: what a part has taken it does not give back.
NUMBER = r"[-+]?+(?:\d++(?:\.\d*+)?+(?:[eE][-+]?+\d++)?+|inf|nan)"
_NUMBER = re.compile(NUMBER)


def read_number_after(word: str, text: str, start: int) -> tuple[float, int] | None:
    """The number behind the first `word` from `start` on, and where it ends; None if there is none."""
    at = text.find(word, start)
    number = _NUMBER.match(text, at + len(word)) if at >= 0 else None
    return (float(number[0]), number.end()) if number else None


_POLYGRAPHY_NAMES = re.compile(r"Accuracy Comparison \| (\S+) vs\. (\S+)")
# Statistics of a difference, or of one output.
_POLYGRAPHY_STATS = re.compile(r"(?:(Absolute|Relative) Difference(?: \|)? )?\| Stats: ")
_POLYGRAPHY_ALLOWED = re.compile(rf"Tolerance: \[abs=({NUMBER}), rel=({NUMBER})\]")
# The lines that belong to one comparison.
_REACH = 12


def read_polygraphy(lines: Sequence[str]) -> list[Mismatch]:
    """Every output that Polygraphy compared."""
    found: list[Mismatch] = []
    names, values, open_ = ("the first runner", "the second runner"), Metrics(), 0
    largest: float | None = None
    last = 0
    for number, line in enumerate(lines, 1):
        if "PASSED" in line and found and found[-1].line > number - _REACH:
            found.pop()
        between = _POLYGRAPHY_NAMES.search(line)
        if between:
            names = name_sides(between[1], between[2])
        if between or "Comparing Output" in line:
            last, largest = 0, None
        tolerance = _POLYGRAPHY_ALLOWED.search(line)
        if tolerance:
            values = Metrics(atol=float(tolerance[1]), rtol=float(tolerance[2]))
        stats = _read_stats(line)
        if stats is None:
            continue
        if not stats.of:
            largest = _find_largest(stats, largest)
            _give_late(found, last if not open_ else 0, largest)
        elif stats.of == "Absolute":
            open_ = number
            values = dataclasses.replace(values, mean_abs=stats.mean, max_abs=stats.largest, largest_value=largest)
        elif open_:
            done = dataclasses.replace(values, max_rel=stats.largest)
            found.append(Mismatch("polygraphy", open_, names=names, metrics=done))
            last = open_
            values, open_, largest = Metrics(atol=values.atol, rtol=values.rtol), 0, None
    return found


def _give_late(found: list[Mismatch], last: int, largest: float) -> None:
    """Gives the mismatch of line `last` its largest value, which newer versions print after the differences."""
    if found and found[-1].line == last:
        metrics = dataclasses.replace(found[-1].metrics or Metrics(), largest_value=largest)
        found[-1] = dataclasses.replace(found[-1], metrics=metrics)


@dataclass(frozen=True)
class _Stats:
    """One line of Polygraphy's statistics: of the `Absolute` or `Relative` difference, or (empty) of an output."""

    of: str
    mean: float
    least: float
    largest: float


def _read_stats(line: str) -> _Stats | None:
    stats = _POLYGRAPHY_STATS.search(line)
    if not stats:
        return None
    numbers: list[float] = []
    at = stats.end()
    for word in ("mean=", "min=", "max="):
        number = read_number_after(word, line, at)
        if number is None:
            return None
        numbers.append(number[0])
        at = number[1]
    return _Stats(stats[1] or "", *numbers)


def _find_largest(stats: _Stats, largest: float | None) -> float:
    """The largest magnitude of an output, and of those before it; NaN where one of them is."""
    magnitudes = [abs(stats.least), abs(stats.largest), largest or 0.0]
    return math.nan if any(map(math.isnan, magnitudes)) else max(magnitudes)
