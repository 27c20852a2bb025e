"""What makes the bits of a sweep the same at all of its points: a setting of the engine, or another engine, tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runner_text import parse_runner_text
from samebits.errors import SamebitsError
from samebits.findings.causes import CauseCode
from samebits.judging.fixes.setting_changes import list_changes
from samebits.problems import Problem
from samebits.questions.sweep.sweep_schema import Sweep, SweepFix

_MOST_TRIED = 24


def find_remedies(
    engine: str, problem: Problem, in_force: Mapping[str, str], ask: Callable[[str], Sweep]
) -> tuple[list[SweepFix], int]:
    """The first setting of this engine, and the first other engine, whose bits are the same at every point; how many
    were tried.

    `ask` sweeps an engine over the points; `in_force` are the settings that the engine reports.
    """
    fixes: list[SweepFix] = []
    tried = 0
    for list_texts in (_list_settings, _list_engines):
        for text, says in list_texts(engine, problem, in_force):
            if tried == _MOST_TRIED:
                break
            tried += 1
            try:
                found = ask(text)
            except SamebitsError:
                # What does not load, or does not take this problem, is no remedy.
                continue
            if found.invariant:
                fixes.append(SweepFix(text, says, found.version))
                break
    return fixes, tried


def _list_settings(engine: str, problem: Problem, in_force: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for change in list_changes(engine, problem, CauseCode.SHAPE_SPECIFIC_KERNEL, in_force):
        yield change.apply(engine), change.says


def _list_engines(engine: str, problem: Problem, in_force: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, spec in ENGINES.items():
        if name != parse_runner_text(engine).name and spec.find_version() is not None:
            yield name, f"--on {name}"
