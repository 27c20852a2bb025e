"""The front door for logs: bytes in, mismatches out; every line is data and nothing in it is believed to be short."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import cast

from samebits.errors import LogError, SamebitsError
from samebits.problems import Problem
from samebits.problems.languages.any_language import read_problem
from samebits.problems.languages.hlo import CallMemory, read_memory
from samebits.problems.network_files import explain_other_network, hint_file, is_other_network
from samebits.problems.polygraphy_files import is_results
from samebits.problems.problem import KINDS, Direction
from samebits.questions.explain.logs.brought_readers import list_log_readers, read_brought
from samebits.questions.explain.logs.entry import DIRECTION, PROBLEM_LINE, Mismatch
from samebits.questions.explain.logs.failed_assertions import read_assertions
from samebits.questions.explain.logs.metrics import read_polygraphy
from samebits.questions.explain.logs.onednn import read_onednn
from samebits.questions.explain.logs.polygraphy_results import read_results
from samebits.questions.explain.logs.printed_outputs import give_printed
from samebits.questions.explain.logs.tensorrt import BUILD_LINE, is_tensorrt, keep_different, read_tensorrt
from samebits.questions.explain.logs.test_programs import read_test_programs
from samebits.questions.explain.logs.verifiers import read_verifiers
from samebits.questions.explain.logs.xla import ALGORITHMS, INSTRUCTION, read_xla
from samebits.regular_files import as_utf8, open_regular

_PAGE = re.compile(r"<!doctype html|<html[\s>]", re.IGNORECASE)
_CLOSED = re.compile(r"</(?:span|div|p|code|pre|td|a|li)>", re.IGNORECASE)
_FEWEST_CLOSED = 8
# Elements that begin a line of their own.
_BLOCKS = frozenset(("p", "div", "br", "li", "tr", "pre", "td", "th", "h1", "h2", "h3", "h4", "blockquote", "article"))
_SILENT = frozenset(("script", "style"))


def is_page(text: str) -> bool:
    """Whether a text is HTML: it says so at its beginning, or closes many elements."""
    closed = itertools.islice(_CLOSED.finditer(text), _FEWEST_CLOSED)
    return bool(_PAGE.search(text[:4096])) or len(list(closed)) == _FEWEST_CLOSED


def read_page(text: str) -> str:
    """What a page shows, without its markup; scripts and styles are left out."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return "".join(reader.parts)


class _Reader(HTMLParser):
    """Collects text; blocks begin on lines of their own."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begins a line where the element does; silences scripts."""
        if tag in _BLOCKS:
            self.parts.append("\n")
        self._silent += tag in _SILENT

    def handle_endtag(self, tag: str) -> None:
        """Ends a line, or a script."""
        if tag in _BLOCKS:
            self.parts.append("\n")
        if tag in _SILENT:
            self._silent = max(self._silent - 1, 0)

    def handle_data(self, data: str) -> None:
        """Keeps what is shown."""
        if not self._silent:
            self.parts.append(data)


STANDARD_INPUT = "-"
LARGEST_LOG_BYTES = 64 * 2**20
_LONGEST_LINE = 20_000
_PROBLEM = re.compile(rf"\b(?:(?:{'|'.join(KINDS)})(?:\.\w+)? x=.*|MIOpenDriver .*)")
# What a shell makes of the rest of a command line.
_SHELL = re.compile(r"(?<=\s)(?:\d?>|\||;|&).*|;.*|\s\$\S+")
# How findings begin that --json prints.
_FINDING = re.compile(rb'\s*\{\s*"schema":\s*"samebits\.')
# Colours of terminals, which stand anywhere, also around numbers.
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,32}[A-Za-z]")


def read_log(path: str | Path) -> list[Mismatch]:
    """The mismatches that a log tells of, in its sequence; `-` reads standard input, a web page its text.

    Raises LogError, in one line, where there is none.
    """
    path = Path(path)
    try:
        if str(path) == STANDARD_INPUT:
            data = sys.stdin.buffer.read(LARGEST_LOG_BYTES + 1)
        else:
            with open_regular(path) as file:
                data = file.read(LARGEST_LOG_BYTES + 1)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise LogError(f"{path}: cannot be read ({said}){hint_file(path, 'explain')}") from None
    if len(data) > LARGEST_LOG_BYTES:
        raise LogError(f"{path} is larger than {LARGEST_LOG_BYTES // 2**20} MiB; keep the lines about the mismatch")
    data = as_utf8(data)
    if b"\0" in data[:4096]:
        if is_other_network(path):
            raise LogError(f"{path} {explain_other_network(path)}")
        raise LogError(f"{path} is neither a case file (.npz) nor a text log{hint_file(path, 'explain')}")
    if _FINDING.match(data):
        raise LogError(f"{path} is a finding of samebits: samebits report {path} makes a page of it")
    name = "standard input" if str(path) == STANDARD_INPUT else str(path)
    if is_results(data):
        return read_results(data, name)
    return read_log_text(data.decode("utf-8", "replace"), name)


def read_log_text(text: str, name: str = "the log") -> list[Mismatch]:
    """As `read_log`, for what a log, or a web page that shows one, holds."""
    text = _COLOUR.sub("", text)
    lines = [line[:_LONGEST_LINE] for line in (read_page(text) if is_page(text) else text).splitlines()]
    return parse_log(lines, name)


def parse_log(lines: list[str], name: str = "the log") -> list[Mismatch]:
    """As `read_log`, for lines already read."""
    found = [
        *read_xla(lines),
        *read_assertions(lines),
        *give_printed(read_polygraphy(lines), lines),
        *read_verifiers(lines),
    ]
    found += read_test_programs(lines)
    found += read_brought(lines)
    builds = read_tensorrt(lines)
    found = [_give_build(m, builds) for m in found] or keep_different(builds) or read_onednn(lines)
    if not found:
        raise LogError(
            f"{name} tells of no mismatch that samebits knows: XLA's autotuner (Difference at ...), assert_close"
            " (Mismatched elements ...), Polygraphy (Absolute Difference ...), failures of MIOpenDriver, benchdnn,"
            " Optimum, googletest, assertAllClose or NumPy's ulp asserts, tests of MIOpen, BLAS or TensorFlow,"
            f" TensorRT's builds (trtexec), oneDNN verbose lines{_say_brought()}"
        )
    problems = _find_problems(lines)
    return sorted((_give_problem(m, problems) for m in found), key=lambda m: m.line)


def _say_brought() -> str:
    names = [point.name for point in list_log_readers()]
    return f", and what installed packages read ({', '.join(names)})" if names else ""


def _give_build(mismatch: Mismatch, builds: list[Mismatch]) -> Mismatch:
    """A mismatch of a TensorRT runner says what the last build before it allows."""
    before = bisect.bisect_left(builds, mismatch.line, key=lambda build: build.line) if builds else 0
    if not before or not any(map(is_tensorrt, mismatch.names)):
        return mismatch
    build = builds[before - 1]
    facts = {**mismatch.facts, **build.facts, BUILD_LINE: str(build.line)}
    return dataclasses.replace(mismatch, facts=facts, computes_in=build.computes_in)


@dataclasses.dataclass(frozen=True)
class _Found:
    """A problem that stands in a line of a log, and how its arrays lie in memory if that is said."""

    line: int
    problem: Problem
    memory: CallMemory | None


def _find_problems(lines: list[str]) -> list[_Found]:
    """Problems that stand somewhere in a log in a language of their own; a text that repeats is read once."""
    found: list[_Found] = []
    known: dict[str, tuple[Problem, CallMemory | None] | None] = {}
    for number, line in enumerate(lines, 1):
        match = _PROBLEM.search(line)
        if match is None and "window=" in line and ("custom-call(" in line or "convolution(" in line):
            match = INSTRUCTION.search(line)
        if match is None:
            continue
        text = ALGORITHMS.sub("", line[match.start() :]).strip()
        if text.startswith("MIOpenDriver"):
            text = _SHELL.sub("", text).strip()
        if text not in known:
            known[text] = _try_to_read(text)
        read = known[text]
        if read is not None:
            found.append(_Found(number, *read))
    return found


def _try_to_read(text: str) -> tuple[Problem, CallMemory | None] | None:
    try:
        return read_problem(text), read_memory(text) if "custom-call(" in text and "dim_labels=" in text else None
    except SamebitsError:
        return None


def _give_problem(mismatch: Mismatch, problems: list[_Found]) -> Mismatch:
    """A mismatch without a problem takes the nearest one before it, else the nearest at all."""
    if mismatch.problem is not None or not problems or mismatch.trouble:
        return mismatch
    before = bisect.bisect_right(problems, mismatch.line, key=lambda found: found.line)
    near = problems[max(before - 1, 0)]
    facts = {**mismatch.facts, PROBLEM_LINE: str(near.line)}
    problem, direction = near.problem, mismatch.facts.get(DIRECTION)
    if direction is not None:
        problem = dataclasses.replace(problem, direction=cast("Direction", direction))
    return dataclasses.replace(mismatch, problem=problem, memory=near.memory, facts=facts)
