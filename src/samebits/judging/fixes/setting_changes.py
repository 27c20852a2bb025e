"""Which changes of an engine's text are worth trying: the table's rows, and each setting that was given left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from samebits.engines.registry.known_engines import ENGINES, find_class
from samebits.engines.registry.runner_text import format_runner_text, parse_runner_text
from samebits.findings.causes import CauseCode
from samebits.findings.engine_settings import SETTINGS, SettingRow
from samebits.problems import Problem
from samebits.problems.any_problem import AnyProblem
from samebits.problems.attention import Attention

_ENVIRONMENT, _DEVICE = "env.", "device"


@dataclass(frozen=True)
class Change:
    """One setting given another value, or left out (`value` None)."""

    engine: str
    key: str
    value: str | None
    why: str
    also: str
    source: str | None
    # Whether it is there for the cause alone: it leaves the rest as it was asked for.
    is_meant: bool = False
    is_instruction_set: bool = False

    @property
    def says(self) -> str:
        """As a person reads it."""
        return f"{self.key}={self.value}" if self.value is not None else f"without {self.key}"

    def apply(self, text: str) -> str:
        """The engine's text with this change."""
        runner = parse_runner_text(text)
        settings, environment = dict(runner.settings), dict(runner.environment)
        of = environment if self.key.startswith(_ENVIRONMENT) else settings
        name = self.key.removeprefix(_ENVIRONMENT)
        of.pop(name, None)
        if self.value is not None:
            of[name] = self.value
        return format_runner_text(replace(runner, settings=settings, environment=environment))


def list_changes(
    text: str, problem: AnyProblem | None, cause: CauseCode | None, in_force: Mapping[str, str]
) -> list[Change]:
    """Changes of an engine's text that may alter its bits: those for the cause first, in the table's sequence.

    `problem` is None for a network, which has both families, and for which settings that say how the model of one
    problem is built mean nothing. `in_force` are the settings as the engine reports
    them: what is so already is not tried.
    """
    runner = parse_runner_text(text)
    if runner.name not in ENGINES:
        return []
    given = {**runner.settings, **{_ENVIRONMENT + k: v for k, v in runner.environment.items()}}
    device = given.get(_DEVICE, "cpu")
    # What a person set is the likeliest to have made the difference; another device is no setting of this one.
    changes = [
        Change(
            runner.name, key, None, f"{key}={value} was asked for; the default is tried", "the engine's default", None
        )
        for key, value in given.items()
        if key != _DEVICE
    ]
    rows = [row for row in SETTINGS if row.engine == runner.name and _takes(row, problem) and device in row.devices]
    rows.sort(key=lambda row: cause not in row.causes)
    changes += [_make_change(row, cause, given) for row in rows if not _is_so(row, given, in_force)]
    own = find_class(runner.name) if problem is None else None
    return [c for c in changes if own is None or c.key not in own.settings or not own.settings[c.key].of_problems]


def _make_change(row: SettingRow, cause: CauseCode | None, given: Mapping[str, str]) -> Change:
    is_meant = row.causes == (cause,) and row.key not in given
    return Change(row.engine, row.key, row.value, row.why, row.also, row.source, is_meant, row.is_instruction_set)


def _takes(row: SettingRow, problem: AnyProblem | None) -> bool:
    """Whether a problem, or a whole network where there is none, is something that a row is about."""
    if problem is None or row.takes == "all":
        return True
    if isinstance(problem, Attention):
        return row.takes == "attention"
    if not isinstance(problem, Problem):
        return False
    return row.takes == ("convolutions" if problem.product is None else "products")


def _is_so(row: SettingRow, given: Mapping[str, str], in_force: Mapping[str, str]) -> bool:
    """Whether the engine has this setting already, as given, as reported, or by its declared default."""
    if row.key in given:
        return given[row.key] == row.value
    declared = ENGINES[row.engine].load_class().settings.get(row.key)
    default = declared.default if declared else ""
    return row.value in (default, in_force.get(row.key))


def pair_changes(changes: list[Change]) -> Iterator[tuple[Change, Change]]:
    """Every two changes of different settings."""
    for i, one in enumerate(changes):
        for other in changes[i + 1 :]:
            if other.key != one.key:
                yield one, other


def apply_all(text: str, changes: tuple[Change, ...]) -> str:
    """The engine's text with several changes."""
    for change in changes:
        text = change.apply(text)
    return text
