"""A list run from one subject to the next; engines stay open, what is done is kept at once, the table comes last."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from samebits.engines.known_engines import list_installed
from samebits.errors import ArgumentError, EngineCrashed, EngineFailure, EngineTimedOut, SamebitsError
from samebits.explanation import explain
from samebits.findings.list_schema import ListFinding
from samebits.lists.journal import Heading, Journal
from samebits.lists.known import find_known, load_known, mark_known
from samebits.lists.list_reading import Subject, make_plain, read_list
from samebits.lists.row import Row, list_comparison_rows, list_model_rows, make_profile_row
from samebits.lists.table_changes import read_table
from samebits.lists.table_file import import_or_refuse, refuse_bad_target, write_table
from samebits.models.front_door import compare, list_engines_for
from samebits.problems.case_file import load_case
from samebits.profiles import profile
from samebits.progress import Progress, ignore_progress
from samebits.registry import open_runner, parse_runner_text
from samebits.runner import Identity, Runner
from samebits.version import VERSION

Doing = Literal["compare", "profile", "recipe", "explain"]
DOINGS: tuple[Doing, ...] = ("compare", "profile", "recipe", "explain")
UNREADABLE = "unreadable"
_NONSENSE = "answered nonsense"
AnswerT = TypeVar("AnswerT")


def run_list(
    lists: str | Sequence[str],
    on: Sequence[str] = (),
    *,
    table: str | Path,
    doing: Doing = "compare",
    recipes: bool = False,
    known: str | Path | None = None,
    seed: int = 0,
    time_limit_s: float = 300.0,
    resume: bool = False,
    progress: Progress = ignore_progress,
) -> ListFinding:
    """Compares, profiles or explains every subject of the lists on the engines `on`, and writes one table of rows.

    `lists` is what `read_list` takes; without `on` all installed engines are asked. `doing="recipe"` is a profile's
    recipe alone. The table is a Parquet file (docs/lists.md has its columns), complete or not there; until then a
    journal beside it keeps what is done, and `resume` goes on after it. `known` is a file of known deviations. The same
    list on the same engines makes the same file, byte for byte, however often it was interrupted. Raises SamebitsError
    in one line for a list, an engine or a journal that cannot be dealt with; what a subject or an engine does is a row.
    """
    for package in ("pyarrow", "duckdb"):
        import_or_refuse(package)
    subjects = read_list([lists] if isinstance(lists, str) else lists)
    if doing not in DOINGS:
        raise ArgumentError(f"doing must be one of {', '.join(DOINGS)}, not {doing!r}")
    engines = list(on) or ([] if doing == "explain" else list_installed())
    for text in engines:
        parse_runner_text(text)
    deviations = load_known(known) if known else []
    path = Path(table)
    options = {"doing": doing, "recipes": str(recipes), "seed": str(seed), "version": VERSION}
    refuse_bad_target(path, [Path(subject.text) for subject in subjects if subject.kind != "problem"], lists)
    digest = sha256("\n".join(map(_describe_subject, subjects)).encode()).hexdigest()
    journal = Journal(path, Heading("samebits.rows/1", digest, engines, options), resumes=resume)
    started = time.perf_counter()
    runner = _ListRunner(engines, doing, recipes, seed, time_limit_s)
    try:
        for number, subject in enumerate(subjects):
            progress(f"{subject.name[:60]}", number / len(subjects))
            if number not in journal.rows:
                journal.add(number, runner.ask(subject))
        every = [mark_known(row, deviations) for number in range(len(subjects)) for row in journal.rows[number]]
        write_table(path, every)
        journal.remove()
    finally:
        runner.close()
        journal.close()
    seen = [find_known(row, deviations) for row in every if row.known]
    unmatched = [one for one in deviations if one not in seen]
    return msgspec.structs.replace(
        read_table(path),
        unmatched=[f"{one.engine}: {one.reason}" for one in unmatched],
        time_s=time.perf_counter() - started,
    )


def _describe_subject(subject: Subject) -> str:
    """What makes a subject another one: of a file what is in it."""
    if subject.kind == "problem" or subject.trouble:
        return f"{subject.name}\t{subject.text}"
    try:
        return f"{subject.name}\t{sha256(Path(subject.text).read_bytes()).hexdigest()}"
    except OSError:
        return subject.name


class _Shared:
    """A runner that many comparisons share: they close what they are given, and this stays open."""

    def __init__(self, text: str, time_limit_s: float) -> None:
        self.text = text
        self._time_limit_s = time_limit_s
        self._runner: Runner | None = None

    def _find(self) -> Runner:
        self._runner = self._runner or open_runner(self.text, time_limit_s=self._time_limit_s)
        return self._runner

    def identify(self) -> Identity:
        """What the engine says of itself. May raise an EngineFailure."""
        return self._call(lambda runner: runner.identify())

    def run(self, problem: Any, operands: Any) -> Any:
        """The engine's result. Raises an EngineFailure where there is none."""
        return self._call(lambda runner: runner.run(problem, operands))

    def _call(self, ask: Callable[[Runner], AnswerT]) -> AnswerT:
        try:
            return ask(self._find())
        except EngineFailure as error:
            # The process is gone, or speaks nonsense: the next subject has one of its own.
            if isinstance(error, (EngineCrashed, EngineTimedOut)) or _NONSENSE in str(error):
                self.end()
            raise

    def close(self) -> None:
        """Nothing: it stays open."""

    def end(self) -> None:
        """Closes the engine; the next call opens it again."""
        if self._runner is not None:
            self._runner.close()
        self._runner = None


class _ListRunner:
    def __init__(self, engines: Sequence[str], doing: Doing, recipes: bool, seed: int, time_limit_s: float) -> None:
        self._engines = list(engines)
        self._shared = [_Shared(text, time_limit_s) for text in engines]
        self._doing: Doing = doing
        self._recipes, self._seed, self._time_limit_s = recipes, seed, time_limit_s

    def close(self) -> None:
        """Closes every engine."""
        for shared in self._shared:
            shared.end()

    def ask(self, subject: Subject) -> list[Row]:
        """The rows of one subject; at least one, whatever happens."""
        try:
            return list(self._ask(subject))
        except SamebitsError as error:
            text = make_plain(subject.text) or None
            return [Row(subject=subject.name, problem=text, failure=UNREADABLE, says=make_plain(str(error)))]

    def _ask(self, subject: Subject) -> Iterator[Row]:
        if subject.trouble:
            yield Row(subject=subject.name, failure=UNREADABLE, says=subject.trouble)
        elif subject.kind == "network":
            takes = list_engines_for(subject.text)
            chosen = [text for text in self._engines if parse_runner_text(text).name in takes]
            if self._doing != "compare" or not chosen:
                raise ArgumentError("a network is compared, on engines that run networks")
            found: Any = compare(subject.text, chosen, seed=self._seed, time_limit_s=self._time_limit_s)
            yield from list_model_rows(subject.name, found)
        elif self._doing in ("profile", "recipe"):
            for shared in self._shared:
                found = profile(shared, subject.text, recipe_only=self._doing == "recipe")
                yield make_profile_row(subject.name, found)
        elif self._doing == "explain":
            if subject.kind != "case":
                raise ArgumentError("only recorded results (.npz) can be explained")
            yield from list_comparison_rows(subject.name, explain(subject.text))
        else:
            given = load_case(subject.text) if subject.kind == "case" else subject.text
            found = compare(given, self._shared, seed=self._seed, attributes=self._recipes)
            yield from list_comparison_rows(subject.name, found)
