"""Tables asked and compared, with DuckDB: what a table comes to, and what changed since another one."""

from __future__ import annotations

import fnmatch
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from samebits.display.visible_text import show_controls
from samebits.errors import ArgumentError, FindingError
from samebits.questions.list.journal import import_or_refuse, name_type
from samebits.questions.list.list_schema import ChangedRow, ChangesFinding, ListFinding, ListRow, SideCount
from samebits.questions.list.row import COLUMNS, UNREADABLE, Row, summarize_changes, summarize_list
from samebits.regular_files import open_regular
from samebits.version import VERSION

# The columns in which changes are looked for; another version alone is no change.
_COMPARED = ("verdict", "failure", "cause", "recipe", "bits")
_SHOWN = (*_COMPARED, "version")
_MOST_SHOWN = 20
_QUOTED = tuple(f'"{name}"' for name in COLUMNS)
_KEY = " and ".join(f"coalesce(a.{name}, '') = coalesce(b.{name}, '')" for name in ("subject", "unit", "side"))
# A side that does not take a problem says nothing about it.
_FAILED = "verdict is null and failure is not null and failure <> 'unsupported'"
_DEVIATES = f"known is null and (verdict not in ('identical', 'rounding') or ({_FAILED}))"


def _open(*paths: str | Path, columns: Sequence[str] = tuple(COLUMNS)) -> tuple[Any, list[str]]:
    """DuckDB with each table in memory, and the names of these; nothing else can be read or written from it.

    Raises FindingError in one line for a file that is no table of ours.
    """
    duckdb, parquet = import_or_refuse("duckdb"), import_or_refuse("pyarrow.parquet")
    connection = duckdb.connect()
    names: list[str] = []
    for i, path in enumerate(paths):
        try:
            open_regular(path).close()
        except OSError as error:
            hint = "samebits sweep ... -o FILE.parquet makes one"
            raise FindingError(f"{path} could not be read: {error.strerror}; {hint}") from None
        try:
            file = parquet.ParquetFile(path)
            kinds = {field.name: str(field.type) for field in file.schema_arrow}
            for name in COLUMNS:
                if kinds.get(name) != name_type(name):
                    raise FindingError(f"{path} is no table of samebits sweep: it has no column {name!r} of its type")
            connection.register(f"table_{i}", file.read(columns=list(columns)))
        except (import_or_refuse("pyarrow").ArrowException, OSError, ValueError):
            raise FindingError(f"{path} is no Parquet file") from None
        names.append(f"table_{i}")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection, names


def read_table(path: str | Path, where: str | None = None) -> ListFinding:
    """What a table comes to, or the rows of it that fulfil a condition (SQL, of its columns). Raises SamebitsError."""
    started = time.perf_counter()
    connection, (relation,) = _open(path)
    kept = f"(select * from {relation} where ({where}\n))" if where else relation
    try:
        if where and len(connection.extract_statements(f"select 1 from {kept}")) != 1:
            raise ValueError("one condition is needed")
        counts = connection.execute(
            f"select coalesce(side, '(none)'), version, coalesce(verdict, failure, 'profiled'), count(*), count(known)"
            f" from {kept} group by all order by all"
        ).fetchall()
        total, subjects, deviating, known, unreadable = connection.execute(
            f"select count(*), count(distinct subject), count(*) filter ({_DEVIATES}), count(known),"
            f" count(*) filter ({_DEVIATES} and failure = '{UNREADABLE}') from {kept}"
        ).fetchone()
        first = connection.execute(
            f"select subject, unit, problem, side, coalesce(verdict, failure, 'profiled'), cause,"
            f' coalesce(says, "where") from {kept} where {_DEVIATES} limit {_MOST_SHOWN}'
        ).fetchall()
    except Exception as error:
        raise ArgumentError(f"--where {where!r}: {' '.join(str(error).split())[:200]}") from None
    finally:
        connection.close()
    return ListFinding(
        table=str(path),
        subjects=subjects,
        rows=total,
        where=where,
        counts=[SideCount(*row) for row in counts],
        deviating=deviating,
        first_deviating=[
            ListRow(subject=s, unit=u, problem=p, side=e, outcome=o, cause=c, says=w) for s, u, p, e, o, c, w in first
        ],
        summary=summarize_list(subjects, total, deviating, known, unreadable),
        time_s=time.perf_counter() - started,
        samebits_version=VERSION,
    )


# What a page shows of each row, and how the table gives it.
SHOWN_COLUMNS = {
    "subject": "subject",
    "unit": "unit",
    "side": "side",
    "version": "version",
    "verdict": "coalesce(verdict, failure, 'profiled')",
    "cause": "cause",
    "evidence level": "certainty",
    "error / bound": "max_over_bound",
    "says": 'coalesce(says, "where", recipe)',
    "known": "known",
}


def list_texts(path: str | Path) -> list[tuple[str, ...]]:
    """All rows of a table as texts, in the columns of `SHOWN_COLUMNS`; raises FindingError for what is no table."""
    connection, (relation,) = _open(path)
    try:
        rows = connection.execute(f"select {', '.join(SHOWN_COLUMNS.values())} from {relation}").fetchall()
    finally:
        connection.close()
    return [tuple(_say(value) for value in row) for row in rows]


def list_rows(path: str | Path) -> list[Row]:
    """The rows of a table, without the units that deviate in nothing; raises FindingError for what is no table."""
    connection, (relation,) = _open(path)
    try:
        kept = "unit is null or (verdict is not null and verdict not in ('identical', 'rounding'))"
        rows = connection.execute(f"select {', '.join(_QUOTED)} from {relation} where {kept}").fetchall()
    finally:
        connection.close()
    return [Row(**dict(zip(COLUMNS, row, strict=True))) for row in rows]


def _say(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else show_controls(str(value))


def compare_tables(a: str | Path, b: str | Path) -> ChangesFinding:
    """What changed from table `a` to table `b`, row by row: rows belong together by subject, unit and side.

    Raises SamebitsError in one line for a file that is no table.

    >>> from pathlib import Path
    >>> from samebits.questions.list.list_running import run_list
    >>> _ = Path("problems.txt").write_text("matmul x=3x8 w=8x4\\n")
    >>> for table in ("a.parquet", "b.parquet"):
    ...     _ = run_list("problems.txt", ["numpy"], table=table)
    >>> compare_tables("a.parquet", "b.parquet").same
    True
    """
    started = time.perf_counter()
    connection, (one, other) = _open(a, b, columns=("subject", "unit", "side", *_SHOWN))
    changed = {name: f"a.{name} is distinct from b.{name}" for name in _SHOWN}
    any_changed = " or ".join(changed[name] for name in _COMPARED)
    joined = f"from {one} a join {other} b on {_KEY}"
    try:
        rows_a, rows_b = (connection.execute(f"select count(*) from {t}").fetchone()[0] for t in (one, other))
        tallies = ", ".join(f"count(*) filter ({test})" for test in changed.values())
        both, *counts = connection.execute(f"select count(*), {tallies} {joined}").fetchone()
        values = ", ".join(f"a.{name}, b.{name}" for name in _SHOWN)
        first = connection.execute(
            f"select a.subject, a.unit, a.side, {values} {joined} where {any_changed}"
            f" order by a.verdict is not distinct from b.verdict, a.subject, a.unit, a.side limit {_MOST_SHOWN}"
        ).fetchall()
    finally:
        connection.close()
    tally: dict[str, int] = dict(zip(_SHOWN, counts, strict=True))
    added, lost = rows_b - both, rows_a - both
    same = not added and not lost and not any(tally[name] for name in _COMPARED)
    return ChangesFinding(
        a=str(a),
        b=str(b),
        same=same,
        rows_a=rows_a,
        rows_b=rows_b,
        added=added,
        lost=lost,
        counts=tally,
        first=[_make_changed(row) for row in first],
        summary=summarize_changes(tally, added, lost, rows_b),
        time_s=time.perf_counter() - started,
        samebits_version=VERSION,
    )


def _make_changed(row: tuple[Any, ...]) -> ChangedRow:
    subject, unit, side, *values = row
    pairs = {name: (values[2 * i], values[2 * i + 1]) for i, name in enumerate(_SHOWN)}
    what = [name for name, (before, after) in pairs.items() if before != after]
    return ChangedRow(
        subject=subject,
        unit=unit,
        side=side,
        what=what,
        before=[pairs[name][0] for name in what],
        after=[pairs[name][1] for name in what],
    )


class KnownDeviation(msgspec.Struct, frozen=True):
    """Which engine (a shell pattern) gives which verdict on which subjects (patterns), why, and where that is said."""

    engine: str
    problems: list[str]
    verdict: str
    reason: str
    link: str

    def fits(self, side: str, subject: str, verdict: str | None) -> bool:
        """Whether this verdict (or failure) of a side on a subject is this deviation."""
        return (
            verdict == self.verdict
            and fnmatch.fnmatch(side, self.engine)
            and any(fnmatch.fnmatch(subject, pattern) for pattern in self.problems)
        )


class _File(msgspec.Struct):
    deviation: list[KnownDeviation] = []


def load_known(path: str | Path) -> list[KnownDeviation]:
    """The entries of a TOML file (`[[deviation]]`); raises ArgumentError in one line for what is none."""
    try:
        with open_regular(path) as file:
            return msgspec.convert(tomllib.load(file), _File).deviation
    except OSError as error:
        raise ArgumentError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ArgumentError(f"{path}: no file of known deviations: {error}") from None


def find_known(row: Row, known: Sequence[KnownDeviation]) -> KnownDeviation | None:
    """The deviation that a row is; the first where several fit."""
    side, outcome = row.side, row.verdict or row.failure
    if side is None:
        return None
    return next((one for one in known if one.fits(side, row.subject, outcome)), None)


def mark_known(row: Row, known: Sequence[KnownDeviation]) -> Row:
    """The row, with the link of the deviation that it is."""
    match = find_known(row, known)
    return msgspec.structs.replace(row, known=match.link) if match else row
