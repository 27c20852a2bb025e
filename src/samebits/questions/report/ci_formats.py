"""Findings for continuous integration: JUnit's XML, SARIF 2.1.0, and the annotations of GitHub's workflows.

One check per side of a comparison, or of a network as a whole, with the units of it that deviate; one of each other
finding, by the colour that its page gives the answer. Sources:
docs.oasis-open.org/sarif/sarif/v2.1.0 (sections 3.14, 3.27, 3.35, 3.49); GitHub's "Workflow commands".
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote
from xml.etree import ElementTree

import msgspec

from samebits.display.document import Code, Document, Prose, Section, Table
from samebits.display.visible_text import make_visible, say_of_bound, show_controls
from samebits.errors import FindingError
from samebits.findings import Comparison, is_agreement
from samebits.findings.causes import AGREEING, CauseCode, find_cause
from samebits.findings.model_schema import ModelComparison
from samebits.networks.model_subject import is_module
from samebits.questions.list.row import Row, list_comparison_rows, list_model_rows
from samebits.questions.list.table_changes import list_rows
from samebits.questions.report.any_finding import document_from_finding
from samebits.questions.runs.diff_schema import RunDiff
from samebits.version import VERSION

Outcome = Literal["pass", "fail", "error", "skip"]
_SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_MOST_UNITS = 20
# Of what a finding's page shows first, so many lines.
_MOST_DETAILS, _LONGEST_DETAIL = 12, 300
_MOST_EVIDENCE = 3


@dataclass(frozen=True)
class Check:
    """One side of one subject: what came of it, and the units that deviate.

    `file` is the finding or table that it stands in, `summary` the finding's own sentence, `place` its place among
    several mismatches of one log, `own_file` that of a side which runs another than its subject's. In a table a
    subject's name is no path: lists name files as their folders do. A finding without sides has `details`, lines of
    its page; `again` is the command that asks once more, `line` that of `own_file` where runs part.
    """

    file: str
    row: Row
    summary: str = ""
    units: list[Row] = field(default_factory=list[Row])
    place: int = 0
    own_file: str | None = None
    is_in_table: bool = False
    details: tuple[str, ...] = ()
    again: str = ""
    line: int | None = None

    @property
    def name(self) -> str:
        """The side, which of several mismatches it is of, and nothing else."""
        return f"{self.side} #{self.place + 1}" if self.place else self.side

    @property
    def outcome(self) -> Outcome:
        """A deviation that is known counts as skipped, as does a problem that an engine does not take."""
        row = self.row
        if row.known is not None or (row.failure == "unsupported" and row.verdict is None):
            return "skip"
        if _deviates(row):
            return "fail"
        return "error" if row.failure is not None else "pass"

    @property
    def rule(self) -> str:
        """What a deviation is filed under."""
        word = self.row.verdict or self.row.failure or "none"
        return f"{word}/{self.row.cause}" if self.row.cause else word

    @property
    def side(self) -> str:
        """The engine or the recorded result; a subject that could not be read has none."""
        return self.row.side or "samebits"

    def say(self) -> str:
        """The deviation in one line."""
        row = self.row
        if row.known is not None:
            return f"known: {row.known}"
        if self.details and row.says:
            # The finding's own sentence names the engine.
            return row.says
        parts = [f"{row.verdict or row.failure}{f' ({row.cause})' if row.cause else ''}"]
        if row.max_over_bound is not None and row.max_over_bound > 1 and _deviates(row):
            parts.append(f"up to {say_of_bound(row.max_over_bound)} from the truth")
        parts += [said for said in (row.where, row.says) if said]
        return f"{self.side}: {', '.join(parts)}"

    def tell(self) -> str:
        """All that is known, line by line."""
        lines = [self.say(), *([self.summary] if self.summary else []), f"subject: {self.row.subject}"]
        if self.row.problem and self.row.problem != self.row.subject:
            lines.append(f"problem: {self.row.problem}")
        if self.row.version:
            lines.append(f"version: {self.row.version}{f', {self.row.device}' if self.row.device else ''}")
        shown = [f"unit {r.unit}: {r.verdict}{f' ({r.cause})' if r.cause else ''}" for r in self.units[:_MOST_UNITS]]
        left = len(self.units) - len(shown)
        more = [f"and {left:,} more units"] if left > 0 else []
        again = [f"again: {self.again}"] if self.again else []
        return "\n".join([*lines, *self.details, *shown, *more, *again])


def _deviates(row: Row) -> bool:
    return row.verdict is not None and row.verdict not in AGREEING


def list_checks(found: msgspec.Struct | Path, file: str) -> list[Check]:
    """The checks of a finding, or of a table; raises FindingError for what passes or fails nothing.

    Control characters of whatever names stand in it are written out.
    """
    file = show_controls(file)
    if isinstance(found, Path):
        rows = [make_visible(row) for row in list_rows(found)]
        if rows and all(row.verdict is None and row.failure is None for row in rows):
            raise FindingError(f"{file} holds recipes and no verdicts: nothing in it passes or fails")
        return [replace(check, is_in_table=True) for check in _gather(rows, file, "")]
    found = make_visible(found)
    if isinstance(found, Comparison):
        # Of a log, every mismatch is a subject of its own.
        every = [found, *found.more]
        again = document_from_finding(found).again
        gathered = ((one, _gather(list_comparison_rows(one.problem, one), file, "")) for one in every)
        return [
            replace(check, place=i, again=again, summary=_say_side(one, check.side))
            for i, (one, checks) in enumerate(gathered)
            for check in checks
        ]
    if isinstance(found, ModelComparison):
        checks = _gather(list_model_rows(found.model, found), file, found.summary)
        files = {side.name: side.file for side in found.sides}
        again = document_from_finding(found).again
        return [replace(check, own_file=files[check.side], again=again) for check in checks]
    # Some hold those of the other engines that were asked.
    return [_make_check(one, file) for one in (found, *getattr(found, "more", ()))]


def _say_side(found: Comparison, name: str) -> str:
    """The finding's sentence where one side deviates; of several, what is known of this one."""
    side = next((s for s in found.sides if s.name == name), None)
    if side is None or sum(not is_agreement(s.verdict) for s in found.sides) <= 1:
        return found.summary
    said = [f"{name} {side.says}"] if side.says else []
    return "; ".join([*said, *(e.says for e in side.evidence[:_MOST_EVIDENCE])])


def _make_check(found: msgspec.Struct, file: str) -> Check:
    """The check of a finding without sides, by its page's answer, and what stands below that."""
    document = document_from_finding(found)
    lines = [line for section in document.sections if not section.folded for line in _list_lines(section)]
    place = found.first.line.rpartition(":") if isinstance(found, RunDiff) and found.first else ("", "", "")
    return Check(
        file, _summarize(found, document), details=tuple(lines[:_MOST_DETAILS]), again=document.again,
        own_file=place[0] or None, line=int(place[2]) if place[2].isdecimal() else None,
    )  # fmt: skip


def _list_lines(section: Section) -> Iterator[str]:
    """The texts, tables and commands of a section, a line each."""
    for block in section.blocks:
        if isinstance(block, Table):
            names = ", ".join(block.headings)
            yield from (f"{section.title} ({names}): {', '.join(cell.text for cell in row)}" for row in block.rows)
        elif isinstance(block, Prose):
            yield f"{block.label or section.title}: {' '.join(block.says)}"
        elif isinstance(block, Code) and not block.drawing and len(block.text) <= _LONGEST_DETAIL:
            # Not a script, or a report, which stand in the finding itself.
            yield f"{block.label or section.title}: {block.text}"


def _summarize(found: msgspec.Struct, document: Document) -> Row:
    """One row for a finding without sides."""
    fails = document.tone != "good"
    return Row(
        subject=document.title,
        side=getattr(found, "engine", None),
        version=getattr(found, "version", None),
        device=getattr(found, "device", None),
        verdict=document.verdict if fails else None,
        says=document.summary,
    )


def _gather(rows: Iterable[Row], file: str, summary: str) -> list[Check]:
    checks: dict[tuple[str, str | None], Check] = {}
    for row in rows:
        known = checks.get((row.subject, row.side))
        if row.unit is None or known is None:
            checks[row.subject, row.side] = Check(file, row, summary)
        elif _deviates(row):
            known.units.append(row)
    return list(checks.values())


def write_junit(checks: Sequence[Check]) -> str:
    """JUnit's XML: a suite per subject, a case per side."""
    root = ElementTree.Element("testsuites", {"name": "samebits", **_count(checks)})
    suites: dict[str, list[Check]] = {}
    for check in checks:
        suites.setdefault(check.row.subject, []).append(check)
    for subject, own in suites.items():
        times = Counter(check.name for check in own)
        suite = ElementTree.SubElement(root, "testsuite", {"name": subject, **_count(own)})
        for check in own:
            # Reports tell cases by their names: two findings of one subject are two cases.
            where = f" [{check.file}]" if times[check.name] > 1 else ""
            named = {"classname": subject, "name": f"{check.name}{where}"}
            case = ElementTree.SubElement(suite, "testcase", named)
            element = {"fail": "failure", "error": "error", "skip": "skipped"}.get(check.outcome)
            if element:
                said = {"message": check.say()}
                inside = ElementTree.SubElement(case, element, {"type": check.rule, **said})
                inside.text = check.tell()
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"


def _count(checks: Sequence[Check]) -> dict[str, str]:
    counts = Counter(check.outcome for check in checks)
    names: dict[str, Outcome] = {"failures": "fail", "errors": "error", "skipped": "skip"}
    return {"tests": str(len(checks)), **{name: str(counts[outcome]) for name, outcome in names.items()}}


def write_sarif(checks: Sequence[Check]) -> str:
    """SARIF 2.1.0: a result per side that deviates or fails, filed by verdict and cause; known ones as suppressed."""
    rules: dict[str, dict[str, Any]] = {}
    results: list[dict[str, Any]] = []
    for check in checks:
        if check.outcome == "pass" or (check.outcome == "skip" and check.row.known is None):
            continue
        if check.rule not in rules:
            rules[check.rule] = {"id": check.rule, "shortDescription": {"text": _describe_rule(check.row)}}
        results.append(_make_result(check, list(rules).index(check.rule)))
    driver = {"name": "samebits", "version": VERSION, "rules": list(rules.values())}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _make_result(check: Check, rule: int) -> dict[str, Any]:
    subject = check.row.subject
    names = [subject, check.side, *(u.unit for u in check.units[:_MOST_UNITS] if u.unit)]
    result: dict[str, Any] = {
        "ruleId": check.rule,
        "ruleIndex": rule,
        "level": _name_level(check),
        "message": {"text": f"{subject}: {check.say()}{f'. {check.summary}' if check.summary else ''}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(Path(_find_file(check)).as_posix())},
                    # A finding is one thing: viewers that want a line get its first.
                    "region": {"startLine": _find_line(check) or 1},
                },
                "logicalLocations": [{"name": name} for name in names],
            }
        ],
        "partialFingerprints": {"side/v1": f"{subject}\n{check.name}\n{check.rule}"},
    }
    if check.row.known is not None:
        result["suppressions"] = [{"kind": "external", "justification": check.row.known}]
    return result


def _describe_rule(row: Row) -> str:
    if row.cause is None or row.cause not in set(CauseCode):
        return f"{row.verdict or row.failure}: a side deviates" if row.verdict else f"{row.failure}: no result"
    return f"{row.verdict or row.failure}: {find_cause(CauseCode(row.cause)).phrase}"


def _name_level(check: Check) -> str:
    return "warning" if check.row.verdict == "undecided" else "error"


def _find_file(check: Check) -> str:
    """The file of the repository that a deviation belongs to: the subject's, if it is one, else the finding's."""
    named = check.own_file or check.row.subject
    # Of a module the file, without the function's name.
    subject = Path(named.rpartition(":")[0] if is_module(named) else named)
    try:
        is_named = not check.is_in_table and not subject.is_absolute() and ".." not in subject.parts
        is_file = is_named and subject.is_file()
    except (OSError, ValueError):
        is_file = False
    return str(subject) if is_file else check.file


def _find_line(check: Check) -> int | None:
    """The line of the file that is named, where one is known."""
    return check.line if check.own_file == _find_file(check) else None


def write_annotations(checks: Sequence[Check]) -> str:
    """GitHub's workflow commands, a line per side that deviates or fails."""
    lines: list[str] = []
    for check in checks:
        if check.outcome in ("pass", "skip"):
            continue
        title, where = (_escape_property(text) for text in (f"samebits: {check.row.subject}", _find_file(check)))
        line = f",line={number}" if (number := _find_line(check)) else ""
        lines.append(f"::{_name_level(check)} file={where}{line},title={title}::{_escape(check.tell())}")
    return "".join(f"{line}\n" for line in lines)


def _escape(text: str) -> str:
    """Text inside a workflow command, which ends with its line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


# By the name that --as gives a format.
WRITERS: dict[str, Callable[[Sequence[Check]], str]] = {
    "junit": write_junit,
    "sarif": write_sarif,
    "github": write_annotations,
}
