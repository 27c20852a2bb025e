"""The options of `samebits report`, and what it does."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from samebits.display.document import report_missing
from samebits.display.printing import AGREE
from samebits.display.streams import say
from samebits.errors import ArgumentError
from samebits.questions.list.list_command import TABLE
from samebits.questions.question import Command, Question
from samebits.regular_files import write_text


class CiFormat(StrEnum):
    """Formats that continuous integration reads."""

    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"


FindingFiles = Annotated[
    list[str],
    typer.Argument(
        help="findings as --json prints them (- is standard input), or the table of a list; several with --as",
        metavar="FINDING.json|TABLE.parquet...",
    ),
]
ReportFormat = Annotated[
    CiFormat | None,
    typer.Option(
        "--as",
        help="for continuous integration: JUnit's XML, SARIF, or GitHub's annotations (standard output or --output)",
    ),
]
ReportFile = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        help="where the page goes (.html; .md is Markdown, .xml JUnit, .sarif SARIF); default: beside the findings",
        metavar="FILE",
    ),
]
ReportMarkdown = Annotated[
    bool, typer.Option("--markdown", help="Markdown for issues and pull requests, on standard output or in --output")
]


def report_command(
    subjects: FindingFiles,
    output: ReportFile = None,
    markdown: ReportMarkdown = False,
    ci_format: ReportFormat = None,
) -> int:
    """Make one HTML page (or Markdown) of findings: the answer, the evidence, charts, what to change and to run.

    Findings are what every command prints with --json. The page of a table that sweep wrote
    (.parquet) has all its rows, to be sorted and filtered.
    """
    if markdown and ci_format:
        raise ArgumentError("--markdown and --as name two formats; give one")
    if output is not None and not markdown and not ci_format:
        markdown, ci_format = _find_format(output)
    if ci_format:
        return _write(_write_checks(subjects, ci_format), output)
    if len(subjects) > 1:
        raise ArgumentError("a page is of one finding; several at once go with --as junit, sarif or github")
    (subject,) = subjects
    from samebits.questions.report.rendering import render_markdown, write_page

    found = _read(subject)
    if markdown:
        return _write(render_markdown(found), output)
    output = output or str(Path("samebits.html") if subject == "-" else Path(subject).with_suffix(".html"))
    write_page(found, output)
    say(f"wrote {output}")
    return AGREE


# What a file's name says of its format.
_PAGES = (".html", ".htm")
_FORMATS = {".xml": CiFormat.JUNIT, ".sarif": CiFormat.SARIF}
_MARKDOWN = (".md", ".markdown")


def _find_format(output: str) -> tuple[bool, CiFormat | None]:
    """Whether a file of this name is to hold Markdown, or which format of continuous integration."""
    suffix = Path(output).suffix.lower()
    if suffix not in ("", *_PAGES, *_MARKDOWN, *_FORMATS):
        raise ArgumentError(f"{output} would be no page: report writes .html, .md, .xml or .sarif")
    return suffix in _MARKDOWN, _FORMATS.get(suffix)


def _write(text: str, output: str | None) -> int:
    """To a file, or to standard output."""
    if output is None:
        print(text, end="")
        return AGREE
    try:
        write_text(output, text)
    except OSError as error:
        raise ArgumentError(f"{output} could not be written: {error.strerror}") from None
    say(f"wrote {output}")
    return AGREE


def _write_checks(subjects: list[str], ci_format: CiFormat) -> str:
    from samebits.questions.report.any_finding import LARGEST_FINDING, load, read_finding
    from samebits.questions.report.ci_formats import WRITERS, Check, list_checks

    checks: list[Check] = []
    for subject in subjects:
        if subject == "-":
            checks += list_checks(read_finding(sys.stdin.buffer.read(LARGEST_FINDING)), "standard input")
        else:
            checks += list_checks(Path(subject) if subject.endswith(TABLE) else load(subject), subject)
    return WRITERS[ci_format](checks)


def _read(subject: str):
    try:
        from samebits.questions.list.list_document import lay_out_table
        from samebits.questions.report.any_finding import LARGEST_FINDING, load, read_finding
    except ModuleNotFoundError as error:
        raise report_missing(error) from None
    if subject.endswith(TABLE):
        return lay_out_table(subject)
    return read_finding(sys.stdin.buffer.read(LARGEST_FINDING)) if subject == "-" else load(subject)


REPORT = Question(
    commands=(
        Command(
            "report",
            report_command,
            ("samebits report found.json -o found.html", "samebits report found.json --as junit -o samebits.xml"),
            "0: the page, or the text, was written",
        ),
    )
)
