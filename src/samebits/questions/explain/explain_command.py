"""The options of `samebits explain`, and what it does."""

from __future__ import annotations

from typing import Annotated

import typer

from samebits.display.printing import print_finding

ExplainSubject = Annotated[
    str,
    typer.Argument(help="a case file with results, or a log; - is standard input", metavar="CASE|LOG"),
]
ExplainLike = Annotated[
    list[str] | None,
    typer.Option(
        "--like",
        help="an engine at hand: is a recorded result what it computes? Repeatable",
        metavar="ENGINE",
    ),
]


def explain_subject(subject: str, *, like: list[str] | None, verbose: bool, as_json: bool) -> int:
    """Explains, prints, and returns the exit status."""
    from samebits.display.narrator import Narrator
    from samebits.findings import is_agreement
    from samebits.questions.explain.explaining import explain
    from samebits.questions.explain.explanation_report import show_explanation

    with Narrator() as narrator:
        found = explain(subject, like=like or (), progress=narrator.hear)
    print_finding(found, show_explanation, verbose=verbose, as_json=as_json)
    return 0 if all(is_agreement(f.verdict) for f in (found, *found.more)) else 1
