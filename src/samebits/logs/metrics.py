"""Logs that show statistics and no values: PyTorch's assert_close, NumPy's assert_allclose, Polygraphy."""

from __future__ import annotations

import re
from collections.abc import Sequence

from samebits.logs.entry import Metrics, Mismatch

_NUMBER = r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|inf|nan))"
_COUNT = re.compile(r"Mismatched elements: (\d{1,18}) / (\d{1,18})")
_ABS = re.compile(rf"(?:Greatest absolute difference|Max absolute difference)[^:]*: {_NUMBER}")
_REL = re.compile(rf"(?:Greatest relative difference|Max relative difference)[^:]*: {_NUMBER}")
_ALLOWED = re.compile(rf"\(up to {_NUMBER} allowed\)")
_NUMPY_ALLOWED = re.compile(rf"rtol={_NUMBER},\s*atol={_NUMBER}")
_POLYGRAPHY_NAMES = re.compile(r"Accuracy Comparison \| (\S+) vs\. (\S+)")
_POLYGRAPHY_STATS = re.compile(
    rf"(Absolute|Relative) Difference(?: \|)? \| Stats: mean={_NUMBER}.*?min={_NUMBER}.*?max={_NUMBER}"
)
_POLYGRAPHY_OUTPUT = re.compile(rf"\| Stats: mean={_NUMBER}.*?min={_NUMBER}.*?max={_NUMBER}")
_POLYGRAPHY_ALLOWED = re.compile(rf"Tolerance: \[abs={_NUMBER}, rel={_NUMBER}\]")
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
        )
        found.append(Mismatch("assert_close", i + 1, names=("actual", "expected"), metrics=metrics))
    return found


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
            names, largest = (between[1], between[2]), None
        stats = _POLYGRAPHY_STATS.search(line)
        if stats is None:
            output, tolerance = _POLYGRAPHY_OUTPUT.search(line), _POLYGRAPHY_ALLOWED.search(line)
            if output:
                largest = max(abs(float(output[2])), abs(float(output[3])), largest or 0.0)
            if tolerance:
                values = Metrics(atol=float(tolerance[1]), rtol=float(tolerance[2]))
            continue
        if stats[1] == "Absolute":
            open_ = number
            values = Metrics(
                mean_abs=float(stats[2]),
                max_abs=float(stats[4]),
                atol=values.atol,
                rtol=values.rtol,
                largest_value=largest,
            )
        elif open_:
            done = Metrics(
                mean_abs=values.mean_abs, max_abs=values.max_abs, max_rel=float(stats[4]), atol=values.atol,
                rtol=values.rtol, largest_value=values.largest_value,
            )  # fmt: skip
            found.append(Mismatch("polygraphy", open_, names=names, metrics=done))
            values, open_, largest = Metrics(atol=values.atol, rtol=values.rtol), 0, None
    return found
