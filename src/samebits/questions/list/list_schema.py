"""What a list of subjects came to (samebits.list/1), and what changed between two tables (samebits.changes/1)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from samebits.findings.json_text import Count
from samebits.findings.made import Made
from samebits.findings.shown import ShownFinding


class SideCount(msgspec.Struct, frozen=True):
    """How often one side of a list came to one verdict, or failed in one way; `known` of these are known deviations."""

    side: str
    version: str | None
    outcome: str
    count: Count
    known: Count


class ListRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table that deserves a look."""

    subject: str
    unit: str | None = None
    problem: str | None = None
    side: str | None = None
    outcome: str
    cause: str | None = None
    says: str | None = None


class ListFinding(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """A list run to its end. `deviating` rows are wrong, less precise, undecided or failed, and not known.

    Where a table was filtered, `where` is the condition, and all counts are of what it keeps.
    """

    _rows: ClassVar[str] = "counts"
    schema: Literal["samebits.list/1"] = "samebits.list/1"
    table: str
    subjects: Count
    rows: Count
    where: str | None = None
    counts: list[SideCount]
    deviating: Count
    first_deviating: list[ListRow] = []
    unmatched: list[str] = []
    summary: str
    time_s: float
    samebits_version: str
    made: Made | None = None


class ChangedRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row in both tables. `what` names the columns that changed; `before` and `after` their values."""

    subject: str
    unit: str | None = None
    side: str | None = None
    what: list[str]
    before: list[str | None]
    after: list[str | None]


class ChangesFinding(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """What changed from one table to another. `same`: all but versions is.

    `counts` has, by column, how many rows changed in it; `added` and `lost` rows are in one table only.
    """

    _rows: ClassVar[str] = "first"
    schema: Literal["samebits.changes/1"] = "samebits.changes/1"
    a: str
    b: str
    same: bool
    rows_a: int
    rows_b: int
    added: Count
    lost: Count
    counts: dict[str, int]
    first: list[ChangedRow] = []
    summary: str
    time_s: float
    samebits_version: str
    made: Made | None = None
