"""`samebits reduce`: its options, and what it does."""

from __future__ import annotations

import functools
from typing import Annotated

import typer

from samebits.display.printing import (
    AGREE,
    DIFFER,
    AsJson,
    Installs,
    TimeLimit,
    Verbose,
    complete_engines,
    complete_problems,
    print_finding,
    split_engines,
)
from samebits.display.streams import say
from samebits.errors import ArgumentError
from samebits.questions.question import Command, FindingKind, Question
from samebits.regular_files import write_text

ReduceSubject = Annotated[
    list[str],
    typer.Argument(
        help="a problem, in any language, or a case file", autocompletion=complete_problems, metavar="PROBLEM|CASE"
    ),
]
ReduceOn = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        autocompletion=complete_engines,
        callback=split_engines,
        help="the engine with the fault; further ones are asked at the smallest problem; repeat it",
    ),
]
ReduceScript = Annotated[
    str | None,
    typer.Option("--output", "-o", help="write the script that shows the fault here; with --markdown, the report"),
]
ReduceMarkdown = Annotated[bool, typer.Option("--markdown", help="print a report for upstream's issue form instead")]
ReduceCalls = Annotated[
    int | None,
    typer.Option(
        help="where nothing is wrong at first: call it so often on the same operands (default: for a second)",
        min=2,
        max=10**6,
    ),
]
ReduceTime = Annotated[float, typer.Option(help="seconds that looking may take", min=1, max=1e6)]


def reduce_command(
    subject: ReduceSubject,
    on: ReduceOn = None,
    output: ReduceScript = None,
    markdown: ReduceMarkdown = False,
    most_time: ReduceTime = 60,
    calls: ReduceCalls = None,
    time_limit: TimeLimit = 30,
    install: Installs = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Make a fault small: the smallest problem that shows it, when it is there, a script of it for upstream."""
    from samebits.display.narrator import Narrator
    from samebits.questions.reduce.reducing import reduce
    from samebits.questions.reduce.reduction_report import show_reduction
    from samebits.questions.reduce.upstream_report import write_upstream_report

    if markdown and as_json:
        raise ArgumentError("--markdown and --json are two forms of one finding; take one of them")
    with Narrator() as narrator:
        found = reduce(
            " ".join(subject),
            on or [],
            most_time_s=most_time,
            time_limit_s=time_limit,
            calls=calls,
            progress=narrator.hear,
        )
    written = write_upstream_report(found) if markdown else found.reproducer
    is_written = False
    if output and written and found.fault is not None:
        try:
            write_text(output, written)
        except OSError as error:
            raise ArgumentError(f"{output} could not be written: {error.strerror}") from None
        is_written = True
        say(f"wrote {output}")
    elif output:
        missing = "fault" if found.fault is None else "script of this fault"
        say(f"{output} was not written: there is no {missing}")
    if not markdown:
        show = functools.partial(show_reduction, written=output if is_written else None)
        print_finding(found, show, verbose=verbose, as_json=as_json)
    elif not is_written:
        print(written, end="")
    return AGREE if found.fault is None else DIFFER


def _load_reduction():
    from samebits.questions.reduce.reduction_document import lay_out_reduction
    from samebits.questions.reduce.reduction_report import show_reduction
    from samebits.questions.reduce.reduction_schema import Reduction

    return Reduction, lay_out_reduction, show_reduction


REDUCE = Question(
    commands=(
        Command(
            "reduce",
            reduce_command,
            (
                'samebits reduce "conv2d x=3x1x7x3 w=16x1x2x2 stride=1x3" --on tensorflow -o fault.py',
                "samebits reduce case.npz --on onnxruntime --on onnxruntime:python=/venvs/old/bin/python --markdown",
            ),
            "0: there is no fault; 1: there is one",
        ),
    ),
    findings=(FindingKind("samebits.reduction/1", _load_reduction),),
)
