"""`samebits trace` and `samebits diff`: runs recorded and compared."""

from __future__ import annotations

from typing import Annotated

import typer

from samebits.display.printing import AGREE, DIFFER, AsJson, Verbose, print_finding
from samebits.display.streams import say
from samebits.questions.list.list_command import TABLE, compare_table_files
from samebits.questions.question import Command, FindingKind, Question

TraceFile = Annotated[str, typer.Option("-o", "--output", help="the file to record in", metavar="FILE")]
# What follows the options of trace is the command that it runs.
_PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}
TracedCommand = Annotated[
    list[str] | None, typer.Argument(help="what to run, behind --, as it is typed otherwise", metavar="-- COMMAND")
]
FirstTrace = Annotated[str, typer.Argument(help="the trace of a run, or the table of a sweep", metavar="FILE")]
SecondTrace = Annotated[str, typer.Argument(help="the trace, or table, that it is compared with", metavar="FILE")]


def trace_command(output: TraceFile, command: TracedCommand = None) -> int:
    """Run a command and record every torch operation of it: shapes, settings, line, fingerprints of its bits.

    The script is not changed; streams, signals and exit status are the command's own. Child processes are recorded too.
    """
    from samebits.questions.runs.tracing import end_as, is_empty, run_traced

    troubles: list[str] = []
    status = run_traced(command or [], output, troubles.append)
    for says in troubles:
        say(f"{output}: {says}")
    if not troubles and is_empty(output):
        why = "no Python of the command imported torch, it has no samebits, or something replaces PYTHONPATH"
        say(f"{output}: nothing was recorded: {why}")
    return end_as(status)


CaptureFile = Annotated[
    str | None,
    typer.Option(
        "--capture",
        help="run both commands again up to the operation and write it as a case file, for explain",
        metavar="FILE",
    ),
]
CaptureRun = Annotated[
    bool,
    typer.Option("--run", help="of --capture: run the commands that stand in the traces (both are printed before)"),
]


def diff_command(
    a: FirstTrace,
    b: SecondTrace,
    capture: CaptureFile = None,
    run: CaptureRun = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Name the first operation whose bits differ between two recorded runs, and why: inputs, operation, settings."""
    if a.endswith(TABLE) and b.endswith(TABLE) and not capture:
        return compare_table_files(a, b, verbose=verbose, as_json=as_json)
    from samebits.display.narrator import Narrator
    from samebits.questions.runs.diff_report import show_diff
    from samebits.questions.runs.run_diff import diff

    with Narrator() as narrator:
        found = diff(a, b, capture=capture, run=run or narrator.ask_to_run, progress=narrator.hear)
    print_finding(found, show_diff, verbose=verbose, as_json=as_json)
    return AGREE if found.same else DIFFER


def _load_diff():
    from samebits.questions.runs.diff_report import lay_out_diff, show_diff
    from samebits.questions.runs.diff_schema import RunDiff

    return RunDiff, lay_out_diff, show_diff


RUNS = Question(
    commands=(
        Command(
            "trace",
            trace_command,
            ("samebits trace -o a.trace python train.py", "samebits trace -o b.trace python train.py --seed 1"),
            "the command's own",
            _PASS_ON,
        ),
        Command(
            "diff",
            diff_command,
            ("samebits diff a.trace b.trace", "samebits diff a.trace b.trace --capture case.npz"),
            "0: the runs, or the tables, are the same; 1: they differ",
        ),
    ),
    findings=(FindingKind("samebits.diff/1", _load_diff),),
)
