"""What a list names: the catalog, lines of a file in any language, the cases and networks in a folder."""

from __future__ import annotations

import fnmatch
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from samebits.errors import ArgumentError, SamebitsError
from samebits.limits import INCLUDED_FILES, SUBJECTS
from samebits.problems import format_problem
from samebits.problems.catalog import catalog
from samebits.problems.integer_problem import format_integer_problem, is_integer_problem, parse_integer_problem
from samebits.problems.languages.any_language import read_problem
from samebits.regular_files import read_regular

CATALOG = "catalog"
_SUFFIXES = (".npz", ".onnx")
_LARGEST_FILE, _DEEPEST = 64 * 2**20, 8
# Options of benchdnn that hold for all lines that follow, and may name several values.
_SEVERAL = ("--dir", "--dt", "--cfg", "--mb")


@dataclass(frozen=True)
class Subject:
    """One thing asked about: a problem's text, or the path of a case or a network; `trouble` says why it is none."""

    name: str
    text: str = ""
    kind: Literal["problem", "case", "network"] = "problem"
    trouble: str | None = None


def names_list(text: str) -> bool:
    """Whether a command's subject is a list: the catalog, a folder, or a file that is neither a case nor a network."""
    if text == CATALOG or text.startswith(f"{CATALOG}:"):
        return True
    try:
        return Path(text).exists()
    except (OSError, ValueError):
        return False


def read_list(texts: Sequence[str]) -> list[Subject]:
    """Every subject of one or several lists, each name once. Raises ArgumentError for a list that cannot be read.

    `catalog` or `catalog:PATTERN`, a folder with cases (.npz) and networks (.onnx), such a file, or a file of lines:
    problems in any language, of which `#` begins a comment; benchdnn batch files keep options from line to line
    and include others of their own folder (`--batch=FILE`). A line that names no problem is a subject with `trouble`.
    Raises ResourceLimitError for lists that would become more subjects, or include more files, than the limits allow.
    """
    found: dict[str, Subject] = {}
    used: dict[str, int] = {}
    for text in texts:
        for subject in _read_one(text):
            name = _find_free_name(make_plain(subject.name), found, used)
            found[name] = Subject(name, subject.text, subject.kind, subject.trouble)
            SUBJECTS.check(len(found), text)
    if not found:
        raise ArgumentError(f"nothing to ask about in {', '.join(texts)}")
    return list(found.values())


def make_plain(text: str) -> str:
    """A text that can be written: file names may have bytes that are none."""
    return text.encode("utf-8", "backslashreplace").decode()


def _find_free_name(name: str, taken: dict[str, Subject], used: dict[str, int]) -> str:
    """The name, with a number where it is taken: the same line may stand twice, or many times."""
    if name not in taken:
        return name
    for i in itertools.count(used.get(name, 1) + 1):
        if (numbered := f"{name} #{i}") not in taken:
            used[name] = i
            return numbered
    raise AssertionError("counting does not end")


def _read_one(text: str) -> Iterator[Subject]:
    if text == CATALOG or text.startswith(f"{CATALOG}:"):
        pattern = text.partition(":")[2] or "*"
        for name, problem in catalog().items():
            if fnmatch.fnmatch(name, pattern):
                yield Subject(name, format_problem(problem))
        return
    path = Path(text)
    if path.is_dir():
        yield from _read_folder(path)
    elif path.suffix in _SUFFIXES:
        yield _name_file(path, path.name)
    elif path.exists():
        yield from _LineReader(path).read(path, path.resolve().parent)
    else:
        raise ArgumentError(f"{text} is neither a file nor a folder, nor {CATALOG} or {CATALOG}:PATTERN")


def _read_folder(path: Path) -> Iterator[Subject]:
    inside = path.resolve()
    for file in sorted(path.rglob("*")):
        # What a link leads out to is not of this folder.
        if file.suffix in _SUFFIXES and file.is_file() and file.resolve().is_relative_to(inside):
            yield _name_file(file, str(file.relative_to(path)))


def _name_file(path: Path, name: str) -> Subject:
    return Subject(name, str(path), "case" if path.suffix == ".npz" else "network")


@dataclass
class _LineReader:
    """Lines of text; options of benchdnn stay until they are changed."""

    first: Path
    options: dict[str, str] = field(default_factory=dict[str, str])
    driver: str = ""
    depth: int = 0
    # Files that were included: two files that include each other twice would be read for ever.
    included: int = 0
    bytes_left: int = field(default_factory=lambda: _LARGEST_FILE)

    def read(self, path: Path, folder: Path) -> Iterator[Subject]:
        try:
            data = read_regular(path, self.bytes_left)
            self.bytes_left -= len(data)
            lines = data.decode("utf-8").splitlines()
        except UnicodeDecodeError:
            raise ArgumentError(f"{path}: no text; a list is a file of lines, one problem each") from None
        except OSError as error:
            raise ArgumentError(f"{path}: {error.strerror}") from None
        for line in lines:
            text = line.partition("#")[0].strip()
            if not text:
                continue
            if text.startswith("--"):
                yield from self._read_options(text, folder)
            elif self.driver and _is_descriptor(text):
                yield from self._read_descriptor(text)
            else:
                yield _read_line(text)

    def _read_options(self, text: str, folder: Path) -> Iterator[Subject]:
        """A line of benchdnn: options for this and the lines that follow, and perhaps a descriptor."""
        descriptors: list[str] = []
        for word in text.split():
            name, _, value = word.partition("=")
            if name in ("--conv", "--deconv", "--matmul"):
                self.driver = name
            elif name == "--reset":
                self.options.clear()
            elif name == "--batch":
                yield from self._include(value, folder)
            elif word.startswith("--"):
                self.options[name] = word
            else:
                descriptors.append(word)
        for descriptor in descriptors:
            yield from self._read_descriptor(descriptor)

    def _include(self, name: str, folder: Path) -> Iterator[Subject]:
        self.included += 1
        INCLUDED_FILES.check(self.included, str(self.first))
        path = (folder / name).resolve()
        if not path.is_relative_to(folder):
            yield Subject(f"--batch={name}", trouble="leads out of the list's folder")
        elif self.depth == _DEEPEST:
            yield Subject(f"--batch={name}", trouble=f"files included more than {_DEEPEST} deep")
        elif not path.is_file():
            yield Subject(f"--batch={name}", trouble="no such file")
        else:
            self.depth += 1
            yield from self.read(path, folder)
            self.depth -= 1

    def _read_descriptor(self, descriptor: str) -> Iterator[Subject]:
        choices = [
            [f"{name}={value}" for value in given.partition("=")[2].split(",")] if name in _SEVERAL else [given]
            for name, given in self.options.items()
        ]
        SUBJECTS.check(math.prod(map(len, choices)), f"the line {descriptor[:60]!r} with its options")
        for chosen in itertools.product(*choices):
            yield _read_line(" ".join([self.driver or "--conv", *chosen, descriptor]))


def _is_descriptor(text: str) -> bool:
    """Whether a line is a descriptor of benchdnn alone: one word that begins as sizes do."""
    return " " not in text and "=" not in text


# Files that are included many times have the same lines each time.
@functools.lru_cache(maxsize=2**14)
def _read_line(text: str) -> Subject:
    try:
        if is_integer_problem(text):
            problem = format_integer_problem(parse_integer_problem(text))
        else:
            problem = format_problem(read_problem(text))
    except SamebitsError as error:
        return Subject(text, trouble=str(error))
    return Subject(text, problem)
