"""`samebits trace` and `samebits diff`: runs recorded, and held against each other."""

from __future__ import annotations

from typing import Annotated

import typer

from samebits.display.printing import print_finding
from samebits.display.streams import say
from samebits.questions.list.list_command import TABLE, compare_table_files

TraceFile = Annotated[str, typer.Option("-o", "--output", help="the file to record in", metavar="FILE")]
# What follows the options of trace is the command that it runs.
PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}
TracedCommand = Annotated[
    list[str] | None, typer.Argument(help="what to run, behind --, as it is typed otherwise", metavar="-- COMMAND")
]
FirstTrace = Annotated[str, typer.Argument(help="the trace of a run, or the table of a sweep", metavar="FILE")]
SecondTrace = Annotated[str, typer.Argument(help="that of another one", metavar="FILE")]


def trace_run(output: str, command: list[str] | None) -> int:
    """Runs and records; the command's own exit status."""
    from samebits.questions.runs.tracing import end_as, is_empty, run_traced

    troubles: list[str] = []
    status = run_traced(command or [], output, troubles.append)
    for says in troubles:
        say(f"{output}: {says}")
    if not troubles and is_empty(output):
        say(f"{output}: nothing was recorded: no Python of the command imported torch, or it has no samebits")
    return end_as(status)


CaptureFile = Annotated[
    str | None,
    typer.Option(
        "--capture",
        help="run both commands again as far as to the operation and write it as a case file, for explain",
        metavar="FILE",
    ),
]


CaptureRun = Annotated[
    bool,
    typer.Option("--run", help="of --capture: run the commands that stand in the traces (both are printed before)"),
]


def diff_runs(a: str, b: str, *, capture: str | None, run: bool, verbose: bool, as_json: bool) -> int:
    """Compares two traces, or two tables, prints, and returns the exit status."""
    if a.endswith(TABLE) and b.endswith(TABLE) and not capture:
        return compare_table_files(a, b, verbose=verbose, as_json=as_json)
    from samebits.display.narrator import Narrator
    from samebits.questions.runs.diff_report import show_diff
    from samebits.questions.runs.run_diff import diff

    with Narrator() as narrator:
        found = diff(a, b, capture=capture, run=run or narrator.ask_to_run, progress=narrator.hear)
    print_finding(found, show_diff, verbose=verbose, as_json=as_json)
    return 0 if found.same else 1
