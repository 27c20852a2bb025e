"""Logs that show statistics and no values: PyTorch's assert_close, NumPy's assert_allclose, Polygraphy."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from samebits.logs.entry import Metrics, Mismatch, name_sides
from samebits.logs.number_text import NUMBER, read_number_after

_COUNT = re.compile(r"Mismatched elements: (\d{1,18}) / (\d{1,18})")
# NumPy says "among violations" before the colon.
_ABS = re.compile(rf"(?:Greatest|Max) absolute difference[^:\n]{{0,40}}: ({NUMBER})")
_REL = re.compile(rf"(?:Greatest|Max) relative difference[^:\n]{{0,40}}: ({NUMBER})")
_ALLOWED = re.compile(rf"\(up to ({NUMBER}) allowed\)")
_NUMPY_ALLOWED = re.compile(rf"rtol=({NUMBER}),\s*atol=({NUMBER})")
_POLYGRAPHY_NAMES = re.compile(r"Accuracy Comparison \| (\S+) vs\. (\S+)")
# Statistics of a difference, or of one output.
_POLYGRAPHY_STATS = re.compile(r"(?:(Absolute|Relative) Difference(?: \|)? )?\| Stats: ")
_POLYGRAPHY_ALLOWED = re.compile(rf"Tolerance: \[abs=({NUMBER}), rel=({NUMBER})\]")
# TensorFlow's assertAllClose prints the values of both sides before what NumPy says.
_CLOSE_VALUES = re.compile(r"not close [lr]hs = (.{1,4000})")
_NUMBERS = re.compile(NUMBER)
# The lines that belong to one assertion.
_REACH = 12


def read_assertions(lines: Sequence[str]) -> list[Mismatch]:
    """Every failed assert_close or assert_allclose."""
    found = []
    for i, line in enumerate(lines):
        count = _COUNT.search(line)
        if not count:
            continue
        after = [line]
        for following in lines[i + 1 : i + _REACH]:
            if _COUNT.search(following):
                break
            after.append(following)
        around = "\n".join(after)
        absolute, relative = _ABS.search(around), _REL.search(around)
        # NumPy says before what it allows, torch after.
        allowed = _ALLOWED.findall(around)
        numpy_allowed = _NUMPY_ALLOWED.search("\n".join(lines[max(i - 4, 0) : i]))
        tolerances = [float(a) for a in allowed[:2]] if len(allowed) >= 2 else None
        if tolerances is None and numpy_allowed:
            tolerances = [float(numpy_allowed[2]), float(numpy_allowed[1])]
        atol, rtol = tolerances or (None, None)
        metrics = Metrics(
            mismatched=int(count[1]),
            elements=int(count[2]),
            max_abs=float(absolute[1]) if absolute else None,
            max_rel=float(relative[1]) if relative else None,
            atol=atol,
            rtol=rtol,
            largest_value=_find_largest_shown(lines[max(i - _REACH, 0) : i]),
        )
        found.append(Mismatch("assert_close", i + 1, names=("actual", "expected"), metrics=metrics))
    return found


def _find_largest_shown(lines: Sequence[str]) -> float | None:
    shown = (_CLOSE_VALUES.search(line) for line in lines)
    return max((abs(float(n)) for match in shown if match for n in _NUMBERS.findall(match[1])), default=None)


def read_polygraphy(lines: Sequence[str]) -> list[Mismatch]:
    """Every output that Polygraphy compared."""
    found: list[Mismatch] = []
    names, values, open_ = ("the first runner", "the second runner"), Metrics(), 0
    largest: float | None = None
    for number, line in enumerate(lines, 1):
        if "PASSED" in line and found and found[-1].line > number - _REACH:
            found.pop()
        between = _POLYGRAPHY_NAMES.search(line)
        if between:
            names, largest = name_sides(between[1], between[2]), None
        tolerance = _POLYGRAPHY_ALLOWED.search(line)
        if tolerance:
            values = Metrics(atol=float(tolerance[1]), rtol=float(tolerance[2]))
        stats = _read_stats(line)
        if stats is None:
            continue
        if not stats.of:
            largest = _find_largest(stats, largest)
        elif stats.of == "Absolute":
            open_ = number
            values = dataclasses.replace(values, mean_abs=stats.mean, max_abs=stats.largest, largest_value=largest)
        elif open_:
            done = dataclasses.replace(values, max_rel=stats.largest)
            found.append(Mismatch("polygraphy", open_, names=names, metrics=done))
            values, open_, largest = Metrics(atol=values.atol, rtol=values.rtol), 0, None
    return found


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
