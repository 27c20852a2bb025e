"""The first release of an engine that answers otherwise than the oldest of a range."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samebits.engines.registry.known_engines import ENGINES, EngineSpec
from samebits.engines.registry.runner_text import RunnerText, format_runner_text, parse_runner_text
from samebits.engines.workers.releases import check_version, list_made, list_published
from samebits.errors import ArgumentError, EngineMissingError
from samebits.findings import Comparison, is_agreement
from samebits.findings.comparison_schema import Failure
from samebits.findings.model_schema import ModelComparison
from samebits.progress import Progress, ignore_progress
from samebits.questions.compare.front_door import compare
from samebits.questions.compare.versions_schema import Change, VersionRow, Versions
from samebits.version import VERSION

_RANGE = re.compile(r"(\d+(?:\.\d+)*)?\.\.(\d+(?:\.\d+)*)?")
_RELEASE = re.compile(r"\d+(\.\d+)*(\.post\d+)?")


@dataclass(frozen=True)
class Seen:
    """How a release answers: what is to be thought of it in a word, and whether its bits are the oldest one's."""

    grade: str
    same_bits: bool


@dataclass(frozen=True)
class FoundChange:
    """Between which two, by their numbers, what changes."""

    before: int
    after: int
    changes: Change


def compare_versions(
    subject: str | Path, on: str, versions: str, *, progress: Progress = ignore_progress, **options: Any
) -> Versions:
    """With which release the engine `on` begins to answer otherwise: another verdict, or else other bits.

    `versions` is a range, "1.18..1.32" (all releases from 1.18 to the last 1.32), or releases with commas between.
    Halving the range finds a change that lasts; one that is taken back within it may be missed. Each release is
    compared with the oldest that runs, in an environment of its own; `options` are those of `compare`. Environments are
    made where the person lets them be (SAMEBITS_INSTALL=yes). Raises ArgumentError for an engine or a range that names
    nothing to compare, EngineMissingError where the releases cannot be asked for and none is here.

    >>> import samebits
    >>> try:
    ...     samebits.compare_versions("linear x=2x3 w=2x3", "truth", "1.0,2.0")
    ... except samebits.SamebitsError as error:
    ...     print(error)
    --versions is of an engine that a package brings, and truth is none
    """
    runner = read_engine(on)
    spec = ENGINES[runner.name]
    asked = list_versions(spec, versions)
    trial = _Trial(subject, runner, spec, options)
    rows: dict[int, VersionRow] = {}

    def look(number: int) -> Seen | None:
        if number in rows:
            return _see(rows[number])
        others = [asked[oldest]] if oldest != number else []
        progress(f"{runner.name} {asked[number]}, release {number + 1} of {len(asked)}", 0.0)
        rows[number] = trial.run([*others, asked[number]])
        return _see(rows[number])

    oldest = 0
    while look(oldest) is None and oldest < len(asked) - 1:
        oldest += 1
    found = find_change(range(oldest, len(asked)), look)
    whole = None
    if found is not None:
        progress(f"comparing {asked[found.before]} with {asked[found.after]}", 0.0)
        whole = compare(
            subject, [trial.write(asked[n]) for n in (found.before, found.after)], progress=progress, **options
        )
    before, after = (asked[found.before], asked[found.after]) if found else (None, None)
    ran = [rows[number] for number in sorted(rows)]
    changes = found.changes if found else None
    return Versions(
        subject=str(subject),
        engine=on,
        asked=asked,
        rows=ran,
        before=before,
        after=after,
        changes=changes,
        notes=spec.find_notes(after) if after else None,
        engines=[trial.write(one) for one in (before, after) if one],
        summary=_summarize(runner.name, ran, before, after, changes, whole),
        comparison=whole if isinstance(whole, Comparison) else None,
        network=whole if isinstance(whole, ModelComparison) else None,
        samebits_version=VERSION,
    )


def find_change(numbers: range, look: Callable[[int], Seen | None]) -> FoundChange | None:
    """The first of some releases that answers otherwise than the first of them, found by halving.

    `look` runs one, and is asked once for each; None where it cannot be run, which tells nothing. A change of the grade
    counts before one of the bits alone.

    >>> def bad_from_3(number):
    ...     return Seen("wrong" if number >= 3 else "right", number < 3)
    >>> find_change(range(10), bad_from_3)
    FoundChange(before=2, after=3, changes='verdict')
    """
    start = look(numbers.start)
    return None if start is None else _Halving(numbers, start, look).find()


class _Halving:
    """What is known of some releases that are run one by one."""

    def __init__(self, numbers: range, start: Seen, look: Callable[[int], Seen | None]) -> None:
        self._numbers, self._start, self._look = numbers, start, look
        self._seen = {numbers.start: start}

    def find(self) -> FoundChange | None:
        """The first that answers otherwise."""
        first, stop = self._numbers.start, self._numbers.stop
        # The middle comes first: where the answer has changed there, the newest need not be run.
        middle = self._find_nearest(first, stop, (first + stop) / 2)
        if middle is None:
            return None
        if self._has_changed(middle, "verdict"):
            return self._halve(first, middle, "verdict")
        newest = self._find_nearest(middle, stop, stop - 1)
        last = middle if newest is None else newest
        if self._has_changed(last, "verdict"):
            return self._halve(middle, last, "verdict")
        if self._has_changed(middle, "bits"):
            return self._halve(first, middle, "bits")
        return self._halve(middle, last, "bits") if self._has_changed(last, "bits") else None

    def _find_nearest(self, low: int, high: int, wish: float) -> int | None:
        """Of those between two the nearest to a place that can be run; None where there is none."""
        for number in sorted(range(low + 1, high), key=lambda n: (abs(n - wish), n)):
            if number not in self._seen and (one := self._look(number)) is not None:
                self._seen[number] = one
            if number in self._seen:
                return number
        return None

    def _has_changed(self, number: int, changes: Change) -> bool:
        one = self._seen[number]
        return one.grade != self._start.grade if changes == "verdict" else not one.same_bits

    def _halve(self, low: int, high: int, changes: Change) -> FoundChange:
        while (middle := self._find_nearest(low, high, (low + high) / 2)) is not None:
            low, high = (low, middle) if self._has_changed(middle, changes) else (middle, high)
        return FoundChange(low, high, changes)


def read_engine(text: str) -> RunnerText:
    """The engine whose releases are asked for; raises ArgumentError for one that has none, or is a certain one."""
    runner = parse_runner_text(text)
    if runner.name not in ENGINES:
        raise ArgumentError(f"--versions is of an engine that a package brings, and {text[:80]} is none")
    place = runner.place
    if place.release is not None or place.python is not None or not place.shares_files:
        raise ArgumentError(
            f"{text[:80]}: --versions names the releases; leave version=, python=, ssh= and docker= out"
        )
    return runner


def list_versions(spec: EngineSpec, text: str) -> list[str]:
    """The releases that a text names, from old to new: "1.18..1.32", "1.30..", or "1.18.1,1.20.0" as they stand.

    Pre-releases are not in a range. Where the index cannot be asked, those that have environments here. Raises
    ArgumentError for a text that is none, or names fewer than two.
    """
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        named = [one.strip() for one in text.split(",")]
        if not all(map(check_version, named)):
            raise ArgumentError(f"--versions takes a range, 1.18..1.32, or releases, 1.18.1,1.20.0; not {text[:80]!r}")
        # 1.20 is 1.20.0.
        known = list({_order(one): one for one in named}.values())
    else:
        low, high = (tuple(map(int, end.split("."))) if end else () for end in found.groups())
        known = [one for one in _list_known(spec) if low <= _read(one)[: len(low)] and _read(one)[: len(high)] <= high]
    known.sort(key=_order)
    if len(known) < 2:
        raise ArgumentError(
            f"--versions {text[:80]}: {len(known)} release{'' if known else 's'} of {spec.name}; two are needed"
        )
    return known


def _list_known(spec: EngineSpec) -> list[str]:
    package = spec.find_release("0").package
    try:
        published = list_published(package)
    except EngineMissingError:
        here = spec.find_version()
        made = [*list_made(package), *([here] if here else [])]
        published = sorted(set(made), key=_order)
        if len(published) < 2:
            raise
    return [one for one in published if _RELEASE.fullmatch(one)]


def _order(version: str) -> tuple[tuple[int, ...], int, str]:
    """What releases are sorted by: their numbers, without zeros at the end, and previews before what they preview."""
    found = re.match(r"\d+(\.\d+)*", version)
    assert found is not None
    numbers, rest = list(_read(found.group())), version[found.end() :]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), -1 if re.match(r"a|b|rc|\.?dev", rest) else 1 if rest else 0, rest


def _read(version: str) -> tuple[int, ...]:
    """The numbers of a version."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


class _Trial:
    """Runs releases of one engine on one subject."""

    def __init__(self, subject: str | Path, runner: RunnerText, spec: EngineSpec, options: Mapping[str, Any]) -> None:
        self._subject, self._runner, self._spec = subject, runner, spec
        self._options = {**options, "attributes": False, "fix": False}

    def write(self, version: str) -> str:
        """The text of the engine in this release; where it is the one here, without an environment of its own."""
        here = version == self._spec.find_version()
        release = None if here else self._spec.find_release(version)
        return format_runner_text(replace(self._runner, place=replace(self._runner.place, release=release)))

    def run(self, versions: list[str]) -> VersionRow:
        """The last of some releases, and whether its bits are those of the first."""
        version = versions[-1]
        try:
            found = compare(self._subject, [self.write(one) for one in versions], **self._options)
        except EngineMissingError as error:
            return VersionRow(version=version, failure=Failure(kind="error", says=str(error)))
        side = found.sides[-1]
        if side.failure:
            return VersionRow(version=version, failure=side.failure, runs=True)
        if isinstance(found, Comparison):
            same = found.sides[0].bits == found.sides[-1].bits
        else:
            same = not any(output.differing for output in found.outputs)
        return VersionRow(version=version, verdict=side.verdict, cause=side.cause, same_bits=same, runs=True)


def list_answering(rows: Sequence[VersionRow]) -> list[VersionRow]:
    """The releases that returned a result."""
    return [row for row in rows if row.verdict is not None]


def _see(row: VersionRow) -> Seen | None:
    if not row.runs:
        return None
    if row.failure or row.verdict is None:
        return Seen(row.failure.kind if row.failure else "", same_bits=True)
    # What agrees within rounding is as good as what agrees in every bit.
    return Seen("agrees" if is_agreement(row.verdict) else row.verdict, bool(row.same_bits))


def _summarize(
    engine: str,
    rows: list[VersionRow],
    before: str | None,
    after: str | None,
    changes: Change | None,
    whole: Comparison | ModelComparison | None,
) -> str:
    ran = list_answering(rows)
    if before is None or after is None:
        if len(ran) < 2:
            only = f"Only {engine} {ran[0].version} gave" if ran else f"No release of {engine} gave"
            return f"{only} a result, so that there is nothing to compare."
        first, last = ran[0].version, ran[-1].version
        return f"Nothing changes from {engine} {first} to {last}: the same bits from {len(ran)} releases tried."
    graded = {row.version: _say_grade(row) for row in rows if row.runs}
    if changes == "verdict":
        said = f"It changes with {engine} {after}: {before} {graded[before]}, {after} {graded[after]}."
    else:
        said = f"The bits change with {engine} {after}, the verdict does not: it {graded[after]}, as {before} was."
    return f"{said} {whole.summary}" if whole is not None and changes == "verdict" else said


def _say_grade(row: VersionRow) -> str:
    if row.failure is not None:
        return "does not take it" if row.failure.kind == "unsupported" else f"fails ({row.failure.kind})"
    grades = {"identical": "is right", "rounding": "is right within rounding", "undecided": "cannot be judged"}
    deviates = {"wrong": "is wrong", "downgrade": "computes in less precision than declared"}
    return (grades | deviates)[row.verdict or "undecided"]
