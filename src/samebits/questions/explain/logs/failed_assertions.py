"""Failed assertions: PyTorch's assert_close, NumPy's assert_allclose in every wording, what TensorFlow adds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from samebits.questions.explain.logs.entry import Metrics, Mismatch
from samebits.questions.explain.logs.metrics import NUMBER

_COUNT = re.compile(r"Mismatched elements: (\d{1,18}) / (\d{1,18})")
# NumPy until 1.14 and until 1.16.
_SHARE = re.compile(rf"(?:\(mismatch |\bMismatch: )({NUMBER})%")
# NumPy says "among violations" before the colon.
_ABS = re.compile(rf"(?:Greatest|Max) absolute difference[^:\n]{{0,40}}: ({NUMBER})")
_REL = re.compile(rf"(?:Greatest|Max) relative difference[^:\n]{{0,40}}: ({NUMBER})")
_ALLOWED = re.compile(rf"\(up to ({NUMBER}) allowed\)")
_NUMPY_ALLOWED = re.compile(rf"rtol=({NUMBER}),\s*atol=({NUMBER})")
# TensorFlow's assertAllClose prints the values of both sides before what NumPy says.
_CLOSE_VALUES = re.compile(r"not close [lr]hs = (.{1,4000})")
_NUMBERS = re.compile(NUMBER)
# NumPy prints up to five pairs, in full: " [0, 2]: 1.5 (ACTUAL), 1.25 (DESIRED)".
_PAIR = re.compile(rf"\[[\d, ]{{0,80}}\]: ({NUMBER}) \((?:ACTUAL|x)\), ({NUMBER}) \((?:DESIRED|y)\)")
_SCALARS = re.compile(rf"Expected ({NUMBER}) but got ({NUMBER})\.(?=\s|$)")
_ABS_OF_SCALARS = re.compile(rf"Absolute difference: ({NUMBER})")
_REL_OF_SCALARS = re.compile(rf"Relative difference: ({NUMBER})")
_PLACES = re.compile(r"(?:x and y )?([+-]?(?:nan|inf)) location mismatch", re.IGNORECASE)
_SHAPES = re.compile(r"\(shapes (\([\d, ]{0,80}\)), (\([\d, ]{0,80}\)) mismatch\)")
_ATTRIBUTE = re.compile(r"The values for attribute '(\w{1,20})' do not match: (.{1,120}?) != (.{1,120}?)\.(?=\s|$)")
# The lines that belong to one assertion.
_REACH = 12
_NAMES = ("actual", "expected")


def read_assertions(lines: Sequence[str]) -> list[Mismatch]:
    """Every failed assert_close or assert_allclose."""
    found: list[Mismatch] = []
    for i, line in enumerate(lines):
        mismatch = _read_counted(lines, i) or _read_other(lines, i, line)
        if mismatch is not None:
            found.append(mismatch)
    return found


def _read_counted(lines: Sequence[str], i: int) -> Mismatch | None:
    """An assertion that says how many elements differ, or what share of them."""
    count, share = _COUNT.search(lines[i]), _SHARE.search(lines[i])
    if count is None and share is None:
        return None
    after = [lines[i], *_take_until(lines[i + 1 : i + _REACH])]
    around = "\n".join(after)
    absolute, relative = _ABS.search(around), _REL.search(around)
    # NumPy says before what it allows, torch after.
    before = lines[max(i - 4, 0) : i]
    allowed, numpy_allowed = _ALLOWED.findall(around), _NUMPY_ALLOWED.search("\n".join(before))
    tolerances = [float(a) for a in allowed[:2]] if len(allowed) >= 2 else None
    if tolerances is None and numpy_allowed:
        tolerances = [float(numpy_allowed[2]), float(numpy_allowed[1])]
    atol, rtol = tolerances or (None, None)
    metrics = Metrics(
        mismatched=int(count[1]) if count else None,
        elements=int(count[2]) if count else None,
        share=float(share[1]) / 100 if share else None,
        max_abs=float(absolute[1]) if absolute else None,
        max_rel=float(relative[1]) if relative else None,
        atol=atol,
        rtol=rtol,
        largest_value=_find_largest_shown(lines[max(i - _REACH, 0) : i]),
    )
    pairs = [m for m in map(_PAIR.search, after) if m]
    numbered = tuple((n, float(m[1]), float(m[2])) for n, m in enumerate(pairs))
    return Mismatch("assert_close", i + 1, names=_NAMES, metrics=metrics, pairs=numbered)


def _take_until(lines: Sequence[str]) -> Iterator[str]:
    """The lines before the next assertion's."""
    for line in lines:
        if _COUNT.search(line) or _SHARE.search(line):
            return
        yield line


def _read_other(lines: Sequence[str], i: int, line: str) -> Mismatch | None:
    """An assertion about single values, or one that compares none: places of NaN, shapes, dtypes."""
    if scalars := _SCALARS.search(line):
        around = "\n".join(lines[i : i + 4])
        absolute, relative, allowed = (
            _ABS_OF_SCALARS.search(around),
            _REL_OF_SCALARS.search(around),
            _ALLOWED.findall(around),
        )
        atol, rtol = (float(a) for a in allowed[:2]) if len(allowed) >= 2 else (None, None)
        metrics = Metrics(
            mismatched=1,
            elements=1,
            max_abs=float(absolute[1]) if absolute else None,
            max_rel=float(relative[1]) if relative else None,
            atol=atol,
            rtol=rtol,
        )
        pairs = ((0, float(scalars[2]), float(scalars[1])),)
        return Mismatch("assert_close", i + 1, names=_NAMES, metrics=metrics, pairs=pairs)
    if places := _PLACES.search(line):
        what = "NaN" if "nan" in places[1].lower() else "infinities"
        return _tell(i, f"{what} stand in other places on the two sides")
    if shapes := _SHAPES.search(line):
        return _tell(i, f"the sides have other shapes, {shapes[1]} and {shapes[2]}")
    if attribute := _ATTRIBUTE.search(line):
        says = f"the sides have another {attribute[1]}, {attribute[2]} and {attribute[3]}"
        return _tell(i, says)
    return None


def _tell(i: int, says: str) -> Mismatch:
    return Mismatch("assert_close", i + 1, names=_NAMES, trouble=says)


def _find_largest_shown(lines: Sequence[str]) -> float | None:
    shown = (_CLOSE_VALUES.search(line) for line in lines)
    return max((abs(float(n)) for match in shown if match for n in _NUMBERS.findall(match[1])), default=None)
