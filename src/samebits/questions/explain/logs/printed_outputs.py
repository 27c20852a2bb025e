"""The arrays that Polygraphy prints of both runners' outputs, as NumPy writes them: whole, or with dots between."""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import EllipsisType

import numpy as np

from samebits.questions.explain.logs.entry import LONGEST_NAME, Metrics, Mismatch, name_sides
from samebits.questions.explain.logs.metrics import NUMBER

_COMPARING = re.compile(r"Comparing Output: '(.{1,200}?)' \(dtype=(\w{1,20}), shape=\(([\d, ]{0,80})\)\)")
# Newer versions name runner and output in one line, older ones print statistics first.
_OUTPUT = re.compile(r"(\S{1,120})\s{1,20}\| (?:Output: |Mismatched values:)")
_STATISTICS = re.compile(r"(\S{1,120}): .{1,200}? \| Stats: ")
_VALUES = "---- Values ----"
_DIFFERENCE = " Difference"
_TOKEN = re.compile(rf"\[|\]|\.\.\.|{NUMBER}")
_LEVEL = re.compile(r"^\[[A-Z]\] ")
_FLOATS = {"float16": np.float16, "float32": np.float32, "float64": np.float64}
_MOST_LINES = 20_000
_MOST_PAIRS = 4096
_MOST_DEPTH = 8
# NumPy prints eight decimals, unless it is told otherwise.
_ROOM = 5e-9

_Nested = list["_Nested | float | EllipsisType"]


@dataclass
class _Section:
    line: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    outputs: dict[str, dict[int, float]] = field(default_factory=dict[str, dict[int, float]])
    differing: dict[str, dict[int, float]] = field(default_factory=dict[str, dict[int, float]])

    @property
    def runners(self) -> tuple[str, str]:
        """The two runners whose values are printed; empty names where they are not."""
        first, second = self._printed if len(self._printed) == 2 else ("", "")
        return first, second

    @property
    def pairs(self) -> tuple[tuple[int, float, float], ...]:
        """Flat index and both values, of what both runners' print shows; the place among them where only that is."""
        if len(self._printed) != 2:
            return ()
        first, second = self._printed.values()
        if first.keys() != second.keys():
            return ()
        return tuple((index, value, second[index]) for index, value in sorted(first.items()))

    @property
    def is_whole(self) -> bool:
        """Whether every element is printed."""
        return self._printed is self.outputs and len(self.pairs) == math.prod(self.shape)

    @property
    def _printed(self) -> dict[str, dict[int, float]]:
        return self.outputs if len(self.outputs) == 2 else self.differing


def give_printed(mismatches: Sequence[Mismatch], lines: Sequence[str]) -> list[Mismatch]:
    """Mismatches with the names of their outputs and the values that the log prints of them.

    An output whose printed values differ is a mismatch also where no statistics are printed.
    """
    sections = list(_list_sections(lines))
    starts = [section.line for section in sections]
    given: list[Mismatch] = []
    seen: set[int] = set()
    for mismatch in mismatches:
        at = bisect.bisect_right(starts, mismatch.line) - 1
        seen.add(at)
        given.append(_give(mismatch, sections[at]) if at >= 0 else mismatch)
    for at, section in enumerate(sections):
        if at not in seen and any(a != b for _, a, b in section.pairs):
            names = name_sides(*section.runners)
            given.append(_give(Mismatch("polygraphy", section.line, names=names, metrics=Metrics()), section))
    return given


def _give(mismatch: Mismatch, section: _Section) -> Mismatch:
    pairs = section.pairs
    facts = {**mismatch.facts, "output": section.name[:LONGEST_NAME]}
    metrics = mismatch.metrics or Metrics()
    if pairs and section.is_whole:
        differing = sum(a != b for _, a, b in pairs)
        metrics = replace(metrics, mismatched=differing, elements=len(pairs), atol=0.0, rtol=0.0)
    return replace(mismatch, facts=facts, metrics=metrics, pairs=pairs[:_MOST_PAIRS], printed_room=_ROOM)


def _list_sections(lines: Sequence[str]) -> Iterator[_Section]:
    """The parts of a log that compare one output each, with the arrays in them."""
    section: _Section | None = None
    runner = ""
    for at, line in enumerate(lines):
        if begins := _COMPARING.search(line):
            if section is not None:
                yield section
            shape = tuple(int(size) for size in begins[3].split(",") if size.strip())
            section, runner = _Section(at + 1, begins[1], begins[2], shape), ""
        elif section is None or section.dtype not in _FLOATS:
            continue
        elif named := _OUTPUT.search(line):
            of = section.outputs if "| Output: " in line else section.differing
            _keep(of, named[1], section, lines, at + 1, placed=of is section.outputs)
        elif _DIFFERENCE in line:
            runner = ""
        elif statistics := _STATISTICS.search(line):
            runner = statistics[1]
        elif _VALUES in line and runner:
            _keep(section.outputs, runner, section, lines, at + 1, placed=True)
    if section is not None:
        yield section


def _keep(
    of: dict[str, dict[int, float]], runner: str, section: _Section, lines: Sequence[str], at: int, *, placed: bool
) -> None:
    """Keeps the array that begins in line `at`, if it is one and fits its shape."""
    numbers = _read_array(lines, at, _FLOATS[section.dtype])
    if numbers is None:
        return
    values = _place(numbers, section.shape) if placed else dict(enumerate(_list_numbers(numbers)))
    if values is not None:
        of.setdefault(runner, values)


def _read_array(lines: Sequence[str], at: int, kind: type[np.floating]) -> _Nested | None:
    """The nested lists of the array that begins in line `at`; None where none does, or where it does not end."""
    stack: list[_Nested] = []
    for line in lines[at : at + _MOST_LINES]:
        text = _LEVEL.sub("", line)
        if not stack and not text.lstrip().startswith("["):
            return None
        for token in _TOKEN.findall(text):
            if token == "[":
                if len(stack) == _MOST_DEPTH:
                    return None
                inner: _Nested = []
                if stack:
                    stack[-1].append(inner)
                stack.append(inner)
            elif not stack:
                return None
            elif token == "]":
                done = stack.pop()
                if not stack:
                    return done
            else:
                stack[-1].append(... if token == "..." else float(kind(token)))
    return None


def _list_numbers(numbers: _Nested) -> Iterator[float]:
    for part in numbers:
        if isinstance(part, list):
            yield from _list_numbers(part)
        elif not isinstance(part, EllipsisType):
            yield part


def _place(numbers: _Nested, shape: tuple[int, ...], base: int = 0) -> dict[int, float] | None:
    """Values by flat index: what stands behind dots is counted from the end. None for what does not fit the shape."""
    if not shape:
        return None
    dots = [at for at, part in enumerate(numbers) if isinstance(part, EllipsisType)]
    if len(dots) > 1 or (len(numbers) != shape[0] if not dots else len(numbers) - 1 > shape[0]):
        return None
    step = math.prod(shape[1:])
    placed: dict[int, float] = {}
    for at, part in enumerate(numbers):
        index = at if not dots or at < dots[0] else shape[0] - (len(numbers) - at)
        if isinstance(part, list):
            inner = _place(part, shape[1:], base + index * step)
            if inner is None:
                return None
            placed |= inner
        elif not isinstance(part, EllipsisType):
            if len(shape) != 1:
                return None
            placed[base + index] = part
    return placed
