"""Texts with ranges: `linear x={1..4096}x768 w=768x768`, `torch:threads={1,2}`.

A range is `{first..last}`, `{first..last:step}` or `{1,2,8}`, in any size of a problem and any setting of an engine.
One with a name, `{c:8..64:8}`, stands elsewhere as `{c}` again: a size that two operands have in common.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from samebits.errors import ProblemTextError, RunnerTextError, SamebitsError
from samebits.numbers.whole_number import is_whole_number
from samebits.problems import Problem, parse_problem_text
from samebits.problems.attention import KIND, Attention, parse_attention

MOST_POINTS = 65_536
# The range of an engine's text that is a place, not a setting: `cpu={Nehalem,Haswell,native}`.
PROCESSOR = "cpu"
_RANGE = re.compile(r"\{([^{}]*)\}")
_NAMED = re.compile(r"([A-Za-z_]\w*)(?::(.*))?", re.DOTALL)
_STEPS = re.compile(r"(\d{1,12})\.\.(\d{1,12})(?::(\d{1,12}))?")
_CONVOLUTION_AXES = {"x": ("n", "c_in"), "w": ("c_out", "c_per_group")}
_TRANSPOSED_AXES = {"x": ("n", "c_in"), "w": ("c_in", "c_per_group")}
_SPACE = ("d", "h", "w")
_ATTENTION_AXES = {
    "q": ("items", "heads", "queries", "features"),
    "k": ("k_items", "kv_heads", "keys", "k_features"),
    "v": ("v_items", "v_heads", "v_keys", "columns"),
}

Value = int | str
# The value of each range at one point of a sweep.
Point = Mapping[str, Value]


@dataclass(frozen=True)
class Range:
    """The values that one place of a text goes through, and what that place is called."""

    name: str
    values: tuple[Value, ...]
    of_engine: bool = False


@dataclass(frozen=True)
class SweepText:
    """A problem's text and an engine's, with places for values, and the ranges that these come from."""

    problem: str
    engine: str
    ranges: tuple[Range, ...]

    def list_points(self) -> list[Point]:
        """Every combination of values, the last range running fastest."""
        names = [r.name for r in self.ranges]
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*(r.values for r in self.ranges))]

    def find_problem(self, point: Point) -> Problem:
        """The problem at a point; raises SamebitsError where it is none."""
        return parse_problem_text(_fill(self.problem, point))

    def find_attention(self, point: Point) -> Attention:
        """The attention at a point; raises SamebitsError where it is none."""
        return parse_attention(_fill(self.problem, point))

    def find_engine(self, point: Point) -> str:
        """The engine's text at a point."""
        return _fill(self.engine, point)


def parse_sweep(problem: str, engine: str) -> SweepText:
    """Ranges and places of two texts; raises ProblemTextError or RunnerTextError for what is no range."""
    ranges: dict[str, Range] = {}
    filled = _read(problem, ranges, of_engine=False)
    asked = _read(engine, ranges, of_engine=True)
    points = math.prod(len(r.values) for r in ranges.values())
    if points > MOST_POINTS:
        raise ProblemTextError(f"these ranges have {points:,} points; a sweep has at most {MOST_POINTS:,}", problem)
    return SweepText(filled, asked, tuple(ranges.values()))


def _read(text: str, ranges: dict[str, Range], *, of_engine: bool) -> str:
    """The text with `{name}` in the place of every range, which is added to those known."""

    def place(match: re.Match[str]) -> str:
        name, body = _name_range(text, match, of_engine=of_engine)
        if body is None:
            if name not in ranges:
                raise _complain(f"{{{name}}} refers to a range that was not given before", text, of_engine=of_engine)
        elif name in ranges:
            said = f"two ranges are called {name}; a size in common is given once and then written {{{name}}}"
            raise _complain(said, text, of_engine=of_engine)
        else:
            ranges[name] = Range(name, _parse_values(body, text, of_engine=of_engine), of_engine)
        return f"{{{name}}}"

    filled = _RANGE.sub(place, text)
    rest = _RANGE.sub("", filled)
    if "{" in rest or "}" in rest:
        raise _complain("a brace without its other half", text, of_engine=of_engine)
    return filled


def _name_range(text: str, match: re.Match[str], *, of_engine: bool) -> tuple[str, str | None]:
    """The name that stands in a range, or that of its place; and its body, None where it refers to another one."""
    # The colon of an image is none of a name.
    is_image = of_engine and text[: match.start()].endswith("docker=")
    named = None if is_image else _NAMED.fullmatch(match[1])
    if named and (named[2] is not None or not of_engine or "," not in match[1]):
        return named[1], named[2]
    before = text[: match.start()]
    if of_engine:
        return re.split(r"[:,]", before)[-1].rpartition("=")[0] or "engine", match[1]
    key, _, sizes = before.split()[-1].rpartition("=") if before.split() else ("", "", "")
    return _name_axis(text.split()[0], key, sizes.count("x"), text), match[1]


def _name_axis(kind: str, operand: str, index: int, text: str) -> str:
    """What the index-th size of an operand is called."""
    if kind == KIND and operand in _ATTENTION_AXES:
        names = _ATTENTION_AXES[operand]
        return names[index] if index < len(names) else f"{operand}{index}"
    if operand not in ("x", "w"):
        raise ProblemTextError(f"{operand or kind}= takes no range; sizes of x and w do", text)
    tokens = _RANGE.sub("1", text).split()
    count = next(t.partition("=")[2].count("x") for t in tokens if t.startswith(f"{operand}="))
    if kind.startswith("conv"):
        axes = _TRANSPOSED_AXES if "transpose" in kind else _CONVOLUTION_AXES
        rank = int(kind.partition(".")[0][-2]) if kind.partition(".")[0][-2:-1].isdigit() else 0
        space = tuple(f"k{s}" if operand == "w" else s for s in _SPACE[3 - rank :])
        names = (*axes[operand], *space)
    else:
        ends = {"x": ("rows", "k"), "w": ("columns", "k") if kind.startswith("linear") else ("k", "columns")}[operand]
        names = (*(f"batch{i}" for i in range(max(count - 1, 0))), *ends)[-(count + 1) :]
    return names[index] if index < len(names) else f"{operand}{index}"


def parse_range(body: str, text: str) -> tuple[Value, ...]:
    """The values between the braces of a size, `1..8` or `1,2,8`, of `text`; raises ProblemTextError."""
    return _parse_values(body, text, of_engine=False)


def _parse_values(body: str, text: str, *, of_engine: bool) -> tuple[Value, ...]:
    steps = _STEPS.fullmatch(body.strip())
    if steps:
        first, last, step = int(steps[1]), int(steps[2]), int(steps[3] or 1)
        if step < 1 or last < first or (last - first) // step >= MOST_POINTS:
            raise _complain(f"{{{body}}} is no range of at most {MOST_POINTS:,} sizes", text, of_engine=of_engine)
        return tuple(range(first, last + 1, step))
    parts = [part.strip() for part in body.split(",")]
    values: list[Value] = [int(p) if is_whole_number(p) and len(p) <= 12 else p for p in parts]
    if not all(parts) or len(set(values)) < len(values) or (not of_engine and any(isinstance(v, str) for v in values)):
        says = f"{{{body}}} is no range; {{1..64}}, {{1..64:2}} or {{1,2,8}}"
        raise _complain(says, text, of_engine=of_engine)
    return tuple(values)


def _complain(says: str, text: str, *, of_engine: bool) -> SamebitsError:
    return RunnerTextError(f"{says} (in {text[:120]!r})") if of_engine else ProblemTextError(says, text)


def _fill(text: str, point: Point) -> str:
    return _RANGE.sub(lambda match: str(point[match[1]]), text)


def list_intervals(values: tuple[Value, ...], chosen: set[Value]) -> Iterator[tuple[Value, Value]]:
    """The runs of chosen values in a range, each by its first and last."""
    for taken, run in itertools.groupby(values, key=lambda value: value in chosen):
        if taken:
            own = list(run)
            yield own[0], own[-1]
