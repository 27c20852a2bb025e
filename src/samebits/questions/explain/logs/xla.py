"""XLA's autotuner, in TensorFlow's and JAX's logs: buffer_comparator lines, then what they were about.

The old wording names both algorithms after an HLO line ("... for 1+TC vs 0+TC"); today's prints "current, expected
reference" and, mostly, no HLO. A log may hold many mismatches, one after the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from samebits.errors import ProblemTextError, SamebitsError
from samebits.problems import Epilogue, Problem
from samebits.problems.languages.hlo import CallMemory, parse_hlo, read_memory
from samebits.problems.languages.hlo_text import split_operands
from samebits.questions.explain.logs.entry import Mismatch, name_sides
from samebits.questions.explain.logs.metrics import NUMBER

_DIFFERENCE = re.compile(rf"Difference at (\d{{1,18}}): ({NUMBER})(?: vs |, expected )({NUMBER})", re.IGNORECASE)
_VERDICT = re.compile(r"Results (?:mismatch between different|do not match the reference)")
# An instruction with its name, or as XLA prints it since 2023, from the shape of its result on.
INSTRUCTION = re.compile(
    r"(?<![\w.-])%?[\w.-]{1,200} = "
    r"|\(?\b[a-z]\w{1,12}\[[\d,]{0,200}\](?:\{[^{}]{0,80}\})?(?:, u8[^()]{1,80})?\)? custom-call\("
)
ALGORITHMS = re.compile(r"\bfor (\S+) vs (\S+)\s*$")
_FACTS = {
    "device": re.compile(r"\] Device: (.+)$"),
    "cudnn": re.compile(r"cudnn version: ([\d.]+)", re.IGNORECASE),
    "algorithm": re.compile(r'"algorithm\\?"\s*:\s*\\?"?(\d+)'),
}
_MOST_PAIRS = 4096
_INTEGERS = re.compile(r"(?<![\w.])s(?:8|32)\[")


@dataclass
class _Open:
    """A mismatch being read."""

    line: int
    pairs: list[tuple[int, float, float]] = field(default_factory=list[tuple[int, float, float]])
    expected: bool = False
    judged: bool = False
    names: tuple[str, str] | None = None
    problem: Problem | None = None
    trouble: str = ""
    facts: dict[str, str] = field(default_factory=dict[str, str])
    memory: CallMemory | None = None

    def close(self) -> Mismatch:
        usual = ("the algorithm", "the reference") if self.expected else ("the first", "the second")
        return Mismatch(
            "xla",
            self.line,
            self.problem,
            self.names or usual,
            tuple(self.pairs),
            trouble=self.trouble,
            facts=self.facts,
            memory=self.memory,
        )


def read_xla(lines: Sequence[str]) -> list[Mismatch]:
    """All mismatches of a log, in its sequence."""
    found: list[_Open] = []
    last: _Open | None = None
    for number, line in enumerate(lines, 1):
        difference = _DIFFERENCE.search(line)
        if difference:
            if last is None or last.judged:
                last = _Open(number, expected=", expected" in difference[0])
                found.append(last)
            if len(last.pairs) < _MOST_PAIRS:
                last.pairs.append((int(difference[1]), float(difference[2]), float(difference[3])))
            continue
        if last is None:
            continue
        _read_facts(last, line)
    return [o.close() for o in found]


def _read_facts(open_: _Open, line: str) -> None:
    """What a line after the differences says of them."""
    if _VERDICT.search(line):
        open_.judged = True
    for name, pattern in _FACTS.items():
        fact = pattern.search(line)
        if fact:
            open_.facts.setdefault(name, fact[1].strip())
    if open_.problem is None and ("custom-call(" in line or "convolution(" in line):
        instruction = INSTRUCTION.search(line)
        if instruction:
            _read_instruction(open_, line[instruction.start() :])


def _read_instruction(open_: _Open, text: str) -> None:
    """The HLO line of a mismatch, and the algorithms named after it."""
    names = ALGORITHMS.search(text)
    if names:
        open_.names = name_sides(names[1], names[2])
        text = text[: names.start()]
    try:
        open_.problem, open_.memory = _read_call(text.strip())
    except SamebitsError as error:
        open_.trouble = str(error)


def _read_call(text: str) -> tuple[Problem, CallMemory | None]:
    """A call as a problem. One of int8 is held in float32, which has its numbers and sums of zeros and ones exactly."""
    head, call, rest = text.partition(" custom-call(")
    words, attributes = split_operands(rest)
    if not call or not all(re.match(r"\s*s8\[", word) for word in words[:2]):
        return parse_hlo(text), read_memory(text)
    result = re.match(r"(?:[^=]* = )?\(?(\w+)\[", head)
    operands = ",".join(_INTEGERS.sub("f32[", word) for word in words)
    text = f"{_INTEGERS.sub('f32[', head, count=1)}{call}{operands}){attributes}"
    problem, memory = parse_hlo(text), read_memory(text)
    if problem.bias or memory is None or result is None:
        raise ProblemTextError("of int8 only calls without a bias and with layouts can be checked by its values", text)
    if result[1] == "s8":
        # What does not fit is clipped.
        then = problem.then or Epilogue("clip", -math.inf, math.inf)
        problem = replace(problem, then=Epilogue("clip", max(then.low, -128.0), min(then.high, 127.0)))
    return problem, replace(memory, filled_as="int8")
