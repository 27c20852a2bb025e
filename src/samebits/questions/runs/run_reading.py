"""A trace as its reader needs it: processes with their operations, every input and output with its fingerprint."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import xxhash

from samebits.errors import TraceError
from samebits.questions.runs.trace_file import Block, Input, Record, read_blocks, read_word

# A generator that was passed, as the recorder says it.
_GENERATOR = re.compile(r"\bGenerator\b")
_NO_PLACE = ("", "", "forward")


@dataclass(frozen=True)
class Operation:
    """One operation of a run. `sources` are the places of the operations that made its inputs, None for outside.

    A fingerprint is None where nothing is known of the bits: memory that nobody has written yet.
    """

    what: str
    module: str
    line: str
    direction: str
    step: int
    inputs: tuple[bytes | None, ...]
    sources: tuple[int | None, ...]
    outputs: tuple[bytes | None, ...]
    is_view: bool
    random: bytes | None

    @property
    def name(self) -> str:
        """The operator, without shapes and settings."""
        return self.what.partition("(")[0]


@dataclass
class Process:
    """What one process of a run recorded. `is_whole` tells whether it came to its end."""

    name: str
    command: list[str] = field(default_factory=list[str])
    # What the whole run was started with, and where.
    root: list[str] = field(default_factory=list[str])
    folder: str = ""
    operations: list[Operation] = field(default_factory=list[Operation])
    settings: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    rows: dict[bytes, list[int]] = field(default_factory=dict[bytes, list[int]])
    # The random states of Python and NumPy at the begin of a step.
    states: dict[tuple[int, str], bytes] = field(default_factory=dict[tuple[int, str], bytes])
    is_whole: bool = False


@dataclass(frozen=True)
class Trace:
    """A run: its processes by name, the one that began first in front.

    `has_weak_hashes`: another tool's hashes stand for fingerprints, which may be equal where bits differ.
    """

    path: str
    processes: dict[str, Process]
    has_weak_hashes: bool = False


def takes_generator(what: str) -> bool:
    """Whether an operation, as it was recorded, draws from a generator of the script's own."""
    return _GENERATOR.search(what) is not None


def read_trace(path: str | Path) -> Trace:
    """The run in a file; raises TraceError for what is no trace, is damaged, or has no operation."""
    readers: dict[str, list[_Reader]] = {}
    for block in read_blocks(Path(path)):
        known = readers.setdefault(block.process, [])
        # Workers are started again for every pass over the data.
        if block.number == 0 or not known:
            known.append(_Reader(block.process if not known else f"{block.process} #{len(known) + 1}", str(path)))
        known[-1].take(block)
    found = {r.process.name: r.process for own in readers.values() for r in own}
    if not any(p.operations for p in found.values()):
        raise TraceError(f"{path}: no operation was recorded")
    return Trace(str(path), found)


class _Reader:
    def __init__(self, name: str, path: str):
        self.process = Process(name)
        self.path = path
        self.texts: list[str] = []
        # By the number of an output: its fingerprint, and which operation made it.
        self.made: list[tuple[bytes | None, int]] = []

    def take(self, block: Block) -> None:
        self.texts += block.texts
        process = self.process
        process.is_whole = block.is_last
        if block.settings is not None:
            process.settings.append(block.settings)
        try:
            process.command = [*map(read_word, block.command or ())] or process.command
            process.root = [*map(read_word, block.root)] or process.root
            process.folder = read_word(block.folder) or process.folder
            process.rows |= {bytes.fromhex(key): rows for key, rows in block.rows.items()}
            process.states |= {(step, name): state for step, name, state in block.states}
            for record in block.records:
                self._add(record)
        except (IndexError, ValueError):
            raise TraceError(
                f"{self.path}: a damaged trace: process {process.name[:40]} does not fit together"
            ) from None

    def _find_source(self, given: Input) -> tuple[bytes | None, int | None]:
        """An input's fingerprint, and which operation made it so."""
        if isinstance(given, int):
            return self.made[given]
        return (given[1], self.made[given[0]][1]) if isinstance(given, tuple) else (given, None)

    def _add(self, record: Record) -> None:
        if min(record.what, record.where) < 0 or any(_number(i) < 0 for i in record.inputs):
            raise IndexError
        what = self.texts[record.what]
        place = self.texts[record.where].split("\t")
        module, line, direction = place if len(place) == 3 else _NO_PLACE
        sources = [self._find_source(i) for i in record.inputs]
        inputs = tuple(fingerprint for fingerprint, _ in sources)
        outputs = list(record.outputs)
        if record.is_view:
            # The same elements, seen otherwise: what it was and how.
            known = None not in inputs
            text = b"".join(i for i in inputs if i) + what.encode()
            outputs = [xxhash.xxh3_128_digest(text + bytes([n % 256])) if known else None for n in range(len(outputs))]
        place_of_own = len(self.process.operations)
        self.made += [(fingerprint, place_of_own) for fingerprint in outputs]
        operation = Operation(
            what=what,
            module=module,
            line=line,
            direction=direction,
            step=record.step,
            inputs=inputs,
            sources=tuple(source for _, source in sources),
            outputs=tuple(outputs),
            is_view=record.is_view,
            random=record.random,
        )
        self.process.operations.append(operation)


def _number(given: Input) -> int:
    return given if isinstance(given, int) else given[0] if isinstance(given, tuple) else 0
