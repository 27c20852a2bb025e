"""A list run from one subject to the next; engines stay open, what is done is kept at once, the table comes last."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, nullcontext
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import msgspec

from samebits.engines.registry.known_engines import list_installed
from samebits.engines.registry.runner_text import parse_runner_text
from samebits.errors import ArgumentError
from samebits.progress import Announcement, Progress, ignore_progress
from samebits.questions.list.cluster_running import ask_on_cluster, open_cluster
from samebits.questions.list.journal import Heading, Journal, import_or_refuse, refuse_bad_target, write_table
from samebits.questions.list.list_reading import Subject, read_list
from samebits.questions.list.list_schema import ListFinding
from samebits.questions.list.row import Row, say_damaged_lines
from samebits.questions.list.subject_running import DOINGS, Asking, Doing, SubjectRunner
from samebits.questions.list.table_changes import find_known, load_known, mark_known, read_table
from samebits.regular_files import open_regular
from samebits.version import VERSION


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
    ray: str | None = None,
    progress: Progress = ignore_progress,
) -> ListFinding:
    """Compares, profiles or explains every subject of the lists on the engines `on`, and writes one table of rows.

    `lists` is what `read_list` takes; without `on` all installed engines are asked. `doing="recipe"` is a profile's
    recipe alone. The table is a Parquet file (docs/lists.md has its columns), complete or not there; until then a
    journal beside it keeps what is done, and `resume` goes on after it. `known` is a file of known deviations. The same
    list on the same engines makes the same file, byte for byte, however often it was interrupted. `ray` is the address
    of a Ray cluster that asks in place of this process (docs/lists.md says how). Raises SamebitsError in one line for a
    list, an engine, a cluster or a journal that cannot be dealt with; what a subject or an engine does is a row.

    >>> from pathlib import Path
    >>> _ = Path("problems.txt").write_text("matmul x=3x8 w=8x4\\nlinear x=2x5 w=3x5\\n")
    >>> found = run_list("problems.txt", ["numpy"], table="a.parquet")
    >>> found.subjects, found.deviating
    (2, 0)
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
    heading = Heading("samebits.rows/1", digest, engines, options)
    asking = Asking(tuple(engines), doing, recipes, seed, time_limit_s)
    started = time.perf_counter()
    with (
        open_cluster(ray) if ray is not None else nullcontext() as cluster,
        closing(Journal(path, heading, resumes=resume)) as journal,
    ):
        if journal.damaged:
            progress(Announcement(say_damaged_lines(journal.path.name, journal.damaged)), 0.0)
        _fill(journal, asking, subjects, cluster, progress)
        every = [mark_known(row, deviations) for number in range(len(subjects)) for row in journal.rows[number]]
        write_table(path, every)
        journal.remove()
    seen = [find_known(row, deviations) for row in every if row.known]
    unmatched = [one for one in deviations if one not in seen]
    return msgspec.structs.replace(
        read_table(path),
        unmatched=[f"{one.engine}: {one.reason}" for one in unmatched],
        time_s=time.perf_counter() - started,
    )


def _fill(journal: Journal, asking: Asking, subjects: Sequence[Subject], cluster: Any, progress: Progress) -> None:
    """Asks what the journal does not have yet, here or on a cluster."""

    def say(number: int, done: int) -> None:
        progress(subjects[number].name[:60], done / len(subjects))

    todo = [number for number in range(len(subjects)) if number not in journal.rows]
    asked = ask_on_cluster(cluster, asking, subjects, todo) if cluster else _ask_here(asking, subjects, todo, say)
    with closing(asked):
        for number, rows in asked:
            journal.add(number, rows)
            if cluster:
                say(number, len(journal.rows))


def _ask_here(
    asking: Asking, subjects: Sequence[Subject], todo: Sequence[int], say: Callable[[int, int], None]
) -> Generator[tuple[int, list[Row]]]:
    """The rows of each subject, in their sequence, in this process."""
    runner = SubjectRunner(asking)
    try:
        for number in todo:
            say(number, number)
            yield number, runner.ask(subjects[number])
    finally:
        runner.close()


def _describe_subject(subject: Subject) -> str:
    """A text that identifies a subject: its name with the problem's text, or with the digest of its file."""
    if subject.kind == "problem" or subject.trouble:
        return f"{subject.name}\t{subject.text}"
    try:
        with open_regular(subject.text) as file:
            return f"{subject.name}\t{file_digest(file, 'sha256').hexdigest()}"
    except OSError:
        return subject.name
