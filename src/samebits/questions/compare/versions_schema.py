"""With which release of an engine its answer changes (schema samebits.versions/1)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from samebits.findings import Comparison, Verdict
from samebits.findings.causes import CauseCode
from samebits.findings.comparison_schema import Failure
from samebits.findings.made import Made
from samebits.findings.model_schema import ModelComparison
from samebits.findings.shown import ShownFinding

# What changes from one release to the next: whether and how it deviates, or only its bits.
Change = Literal["verdict", "bits"]


class VersionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A release: its verdict, and whether its bits are those of the oldest that ran.

    `runs` is false where the release is not here and could not be installed; `failure` says why, and else what the
    engine said in place of a result.
    """

    version: str
    runs: bool = False
    verdict: Verdict | None = None
    cause: CauseCode | None = None
    same_bits: bool | None = None
    failure: Failure | None = None


class Versions(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """An engine's releases on one problem or network, from old to new, and the first with which its answer changes.

    `asked` are all that the range holds, `rows` those that were tried, from old to new. `before` and `after` are the
    two between which the answer changes; those between them could not be run. They are null where nothing changes
    between the releases that ran, and `changes` says what changes. `engines` are the texts of these two, and
    `comparison`, or `network` of a network, is of them, as `compare` makes it.
    """

    _rows: ClassVar[str] = "rows"
    schema: Literal["samebits.versions/1"] = "samebits.versions/1"
    subject: str
    engine: str
    asked: list[str]
    rows: list[VersionRow]
    before: str | None = None
    after: str | None = None
    changes: Change | None = None
    notes: str | None = None
    engines: list[str] = []
    summary: str
    comparison: Comparison | None = None
    network: ModelComparison | None = None
    samebits_version: str
    made: Made | None = None
