"""What makes the bits of a sweep the same at all of its points: a setting of the engine, or another engine, tried."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runner_text import parse_runner_text
from samebits.errors import SamebitsError
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.fixes.setting_changes import Change, apply_all, list_changes
from samebits.problems import Problem
from samebits.questions.sweep.sweep_schema import Sweep, SweepFix
from samebits.questions.sweep.sweep_sentences import say_tried
from samebits.questions.sweep.sweep_text import PROCESSOR

_MOST_TRIED = 36
_LONGEST_S = 150.0
_CAUSE = CauseCode.SHAPE_SPECIFIC_KERNEL
_PARTS_END = re.compile(r",(?![^{]*\})")


@dataclass(frozen=True)
class Swept:
    """An engine's text with its ranges, and as it stands at one point."""

    text: str
    at_point: str

    def list_ranged(self) -> list[tuple[str, str]]:
        """The parts with ranges: as they are at the point, and as they were written."""
        here, written = (_PARTS_END.split(text.partition(":")[2]) for text in (self.at_point, self.text))
        return [(a, b) for a, b in zip(here, written, strict=True) if a != b]

    @property
    def keys(self) -> set[str]:
        """The settings that have ranges."""
        return {written.partition("=")[0] for _, written in self.list_ranged()}

    def apply(self, changes: Sequence[Change]) -> str:
        """The text with these changes and its ranges."""
        name, _, rest = apply_all(self.at_point, tuple(changes)).partition(":")
        ranged = self.list_ranged()
        fixed = [part for part in re.split(r"(?<!\\),", rest) if part and part not in {here for here, _ in ranged}]
        parts = [*(written for _, written in ranged), *fixed]
        return f"{name}:{','.join(parts)}" if parts else name


def find_remedies(
    engine: Swept,
    problem: Problem | None,
    in_force: Mapping[str, str],
    ask: Callable[[str, float], Sweep],
    failing: int = 0,
) -> tuple[list[SweepFix], int]:
    """The first setting of this engine, and the first other engine, whose bits are the same at every point; how many
    were tried.

    `ask` sweeps an engine over the points, and is told what share of the tries is done; `problem` is None for a
    network; `in_force` are the settings that the engine reports, and `failing` counts the points that give no result
    without any change: what makes more of them fail is no remedy. Over processors, the settings that choose instruction
    sets are tried together, each at its oldest, before they are tried alone.
    """
    tries = _Tries(ask, failing)
    changes = [c for c in list_changes(engine.at_point, problem, _CAUSE, in_force) if c.key not in engine.keys]
    together: list[SweepFix] = []
    if PROCESSOR in engine.keys:
        chosen = {c.key: c for c in changes if c.is_instruction_set}
        if len(chosen) > 1:
            says = " and ".join(c.says for c in chosen.values())
            together = tries.find([(engine.apply(list(chosen.values())), says)])
            # Each costs a start on every processor: alone they are tried only where they help together.
            changes = [c for c in changes if together or not c.is_instruction_set]
        changes.sort(key=lambda c: not c.is_instruction_set)
    fixes = tries.find((engine.apply([c]), c.says) for c in changes) or together
    return [*fixes, *tries.find(_list_engines(engine))], tries.count


def add_remedies(
    found: Sweep,
    engine: Swept,
    problem: Problem | None,
    in_force: Mapping[str, str],
    ask: Callable[[str, float], Sweep],
) -> Sweep:
    """The finding with what gives the same bits at all points, see `find_remedies`."""
    began = time.monotonic()
    fixes, tried = find_remedies(engine, problem, in_force, ask, len(found.failures))
    evidence = [*found.evidence, Evidence("setting", say_tried(tried, any_helps=bool(fixes)))]
    took_s = found.time_s + time.monotonic() - began
    return msgspec.structs.replace(found, fixes=fixes, tried=tried, evidence=evidence, time_s=took_s)


class _Tries:
    """What was asked of engines' texts, at most so many of them."""

    def __init__(self, ask: Callable[[str, float], Sweep], failing: int):
        self._ask, self._failing = ask, failing
        self.count = 0
        self._ends = time.monotonic() + _LONGEST_S

    def find(self, texts: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> list[SweepFix]:
        """The first of them with the same bits at every point; none where there is none."""
        for text, says in texts:
            if self.count == _MOST_TRIED or time.monotonic() > self._ends:
                break
            self.count += 1
            try:
                found = self._ask(text, self.count / _MOST_TRIED)
            except SamebitsError:
                # What does not load, or does not take this problem, is no remedy.
                continue
            if found.invariant and len(found.failures) <= self._failing:
                return [SweepFix(text, says, found.version)]
        return []


def _list_engines(engine: Swept) -> Iterator[tuple[str, str]]:
    """The other engines that are here, where only sizes have ranges: none has another one's settings."""
    if engine.keys:
        return
    own = parse_runner_text(engine.at_point).name
    for name, spec in ENGINES.items():
        if name != own and spec.find_version() is not None:
            yield name, f"--on {name}"
