"""The commands and their exit status: 0 agree, 1 differ, 2 trouble (one line on standard error, never a traceback)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from samebits.cli.examples import show_examples
from samebits.display.endings import TRACEBACK_VARIABLE, check_environment, say_error, say_system_error, say_unforeseen
from samebits.display.printing import AGREE, DIFFER, TROUBLE, AsJson, TimeLimit, Verbose, print_finding
from samebits.display.streams import prepare_streams, say
from samebits.errors import ArgumentError, SamebitsError
from samebits.questions.compare.compare_command import DataChoice, compare_problem
from samebits.questions.compare.network_command import (
    CommonOptions,
    ModelOptions,
    NetworkAgainst,
    NetworkCases,
    NetworkInputs,
    NetworkRanges,
    NetworkReplay,
    compare_network,
    read_ranges,
)
from samebits.questions.doctor.doctor_command import DoctorCompiles, DoctorOn, examine
from samebits.questions.explain.explain_command import ExplainLike, ExplainSubject, explain_subject
from samebits.questions.list.list_command import (
    Doing,
    ListDo,
    ListKnown,
    ListOptions,
    ListRay,
    ListResume,
    ListTable,
    ListWhere,
    is_list,
    run_list_command,
)
from samebits.questions.pick.pick_command import (
    PickAgain,
    PickBatch,
    PickDeterministic,
    PickGradients,
    PickLock,
    PickOn,
    PickSubject,
    PickUlp,
    PickWithin,
    PickWorkspace,
    WithinChoice,
    pick_choices,
)
from samebits.questions.reduce.reduce_command import (
    ReduceMarkdown,
    ReduceOn,
    ReduceScript,
    ReduceSubject,
    ReduceTime,
    reduce_fault,
)
from samebits.questions.report.report_command import FindingFile, ReportFile, ReportMarkdown, report_finding
from samebits.questions.runs.run_commands import (
    PASS_ON,
    CaptureFile,
    CaptureRun,
    FirstTrace,
    SecondTrace,
    TracedCommand,
    TraceFile,
    diff_runs,
    trace_run,
)
from samebits.questions.sweep.sweep_command import SweepBatch, SweepOn, SweepRecipes, SweepSubject, sweep_sizes
from samebits.version import VERSION

# What the command line's library makes of an interrupt.
_INTERRUPTED = 130
_OPTIONS = (
    "--on", "--data", "--seed", "--time-limit", "--svg", "--attribute", "--no-attribute", "--fix", "--inputs",
    "--range", "--replay", "--save-cases", "--against", "--max-ulp", "--within", "--deterministic",
    "--no-deterministic", "--batch-invariant", "--workspace", "--gradients", "--output", "--again", "--recipes",
    "--no-recipes", "--markdown", "--most-time", "--resume", "--do", "--known", "--where",
)  # fmt: skip
app = typer.Typer(
    name="samebits",
    help="Two convolutions disagree: which is right, does it matter, what causes it.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command("compare", epilog=show_examples("compare"))
def compare_command(
    subject: Annotated[
        list[str],
        typer.Argument(
            help="a problem's text, a case file (.npz), or a network: .onnx, .pt2, file.py:function",
            metavar="PROBLEM|CASE|MODEL",
        ),
    ],
    on: Annotated[
        list[str] | None,
        typer.Option("--on", help="an engine, e.g. torch or torch:threads=1; repeat it. Default: all installed ones"),
    ] = None,
    data: Annotated[DataChoice, typer.Option(help="operands of a problem: random ones, or exact integers")] = (
        DataChoice.NORMAL
    ),
    seed: Annotated[int, typer.Option(help="seed of the random operands", min=0)] = 0,
    time_limit: TimeLimit = 300,
    attribute: Annotated[
        bool, typer.Option(help="where results differ, find out how each engine adds and replay it")
    ] = True,
    fix: Annotated[
        bool, typer.Option("--fix", help="try settings until the sides agree; each in a process of its own (minutes)")
    ] = False,
    inputs: NetworkInputs = None,
    ranges: NetworkRanges = None,
    replay: NetworkReplay = False,
    save_cases: NetworkCases = None,
    against: NetworkAgainst = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Run one convolution or product, or a whole network, on every engine and say which results are right.

    Each result is judged on exact integers, where any difference is a fault, and against the correctly rounded result;
    of a network each unit, on what it was really fed.
    """
    from samebits.questions.compare.front_door import is_model

    text, common = " ".join(subject), CommonOptions(list(on or []), seed, time_limit, attribute, fix, verbose, as_json)
    options = ModelOptions(inputs, read_ranges(ranges or []), replay, save_cases, against)
    if len(subject) > 1 and all(is_model(part) for part in subject):
        raise ArgumentError("one network at a time; another file of the same network goes behind --against")
    if is_model(text):
        return compare_network(text, common, options)
    if options.are_given:
        raise ArgumentError("--inputs, --range, --replay, --save-cases and --against are for networks")
    return compare_problem(text, data, common)


@app.command("explain", epilog=show_examples("explain"))
def explain_command(
    subject: ExplainSubject,
    like: ExplainLike = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Say from recorded results, or a log, which side is right and what made the other. No engine is needed.

    Logs: XLA's autotuner, assert_close, Polygraphy, MIOpenDriver, benchdnn, Optimum, googletest, assertAllClose,
    NumPy's ulp asserts, oneDNN verbose lines; also as a saved web page.
    """
    return explain_subject(subject, like=like, verbose=verbose, as_json=as_json)


@app.command("report", epilog=show_examples("report"))
def report_command(subject: FindingFile, output: ReportFile = None, markdown: ReportMarkdown = False) -> int:
    """Make one HTML page (or Markdown) of findings: the answer, the evidence, charts, what to change and to run.

    Findings are what compare, explain, profile, diff and pick print with --json.
    """
    return report_finding(subject, output=output, markdown=markdown)


@app.command("profile", epilog=show_examples("profile"))
def profile_command(
    engine: Annotated[str, typer.Argument(help="an engine, e.g. torch or emulate:direct acc=float16")],
    subject: Annotated[
        list[str] | None,
        typer.Argument(
            help="a problem's text, or a case file (.npz). Default: a 3x3 layer of 64 channels",
            metavar="[PROBLEM|CASE]",
        ),
    ] = None,
    time_limit: TimeLimit = 300,
    most_time: Annotated[float, typer.Option(help="seconds that all questions may take", min=1, max=1e6)] = 60,
    svg: Annotated[str | None, typer.Option(help="write the order and its map as a picture")] = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Find out how an engine rounds and in which order it adds, and prove it by replay.

    The recipe found is executed on random data and compared with the engine bit for bit.
    """
    from samebits.display.narrator import Narrator
    from samebits.questions.profile.profile_picture import write_picture
    from samebits.questions.profile.profile_report import show_profile
    from samebits.questions.profile.profiling import USUAL_PROBLEM, profile

    with Narrator() as narrator:
        text = " ".join(subject or [USUAL_PROBLEM])
        found = profile(engine, text, time_limit_s=time_limit, most_time_s=most_time, progress=narrator.hear)
    if svg:
        write_picture(found, svg)
    print_finding(found, show_profile, verbose=verbose, as_json=as_json)
    if found.failure or found.replay is None:
        return _complain(f"{found.engine}: {found.failure or found.summary}")
    return AGREE if found.replay.matched == 1.0 else DIFFER


@app.command("trace", epilog=show_examples("trace"), context_settings=PASS_ON)
def trace_command(output: TraceFile, command: TracedCommand = None) -> int:
    """Run a command and record every torch operation of it: shapes, settings, line, fingerprints of its bits.

    The script is not changed; streams, signals and exit status are the command's own. Child processes are recorded too.
    """
    return trace_run(output, command)


@app.command("diff", epilog=show_examples("diff"))
def diff_command(
    a: FirstTrace,
    b: SecondTrace,
    capture: CaptureFile = None,
    run: CaptureRun = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Name the first operation whose bits differ between two recorded runs, and why: inputs, operation, settings."""
    return diff_runs(a, b, capture=capture, run=run, verbose=verbose, as_json=as_json)


@app.command("pick", epilog=show_examples("pick"))
def pick_command(
    subject: PickSubject,
    on: PickOn = None,
    output: PickLock = None,
    max_ulp: PickUlp = None,
    within: PickWithin = WithinChoice.BOUND,
    deterministic: PickDeterministic = True,
    batch_invariant: PickBatch = False,
    workspace: PickWorkspace = None,
    gradients: PickGradients = False,
    again: PickAgain = False,
    time_limit: TimeLimit = 300,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Choose the fastest engine and settings that keep a contract, and keep the choice in a lock file.

    Candidates are checked against the correctly rounded result, run again and again, and timed in turns.
    """
    return pick_choices(
        subject,
        on or [],
        lock=output,
        max_ulp=max_ulp,
        within=within,
        deterministic=deterministic,
        batch_invariant=batch_invariant,
        workspace=workspace,
        gradients=gradients,
        again=again,
        time_limit_s=time_limit,
        verbose=verbose,
        as_json=as_json,
    )


@app.command("sweep", epilog=show_examples("sweep"))
def sweep_command(
    subject: SweepSubject,
    on: SweepOn = None,
    recipes: SweepRecipes = None,
    batch_invariant: SweepBatch = False,
    output: ListTable = None,
    resume: ListResume = False,
    do: ListDo = Doing.COMPARE,
    known: ListKnown = None,
    where: ListWhere = None,
    ray: ListRay = None,
    time_limit: TimeLimit = 300,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Say over which sizes and settings the bits of the same outputs change; or ask whole lists, into a table.

    Of a problem with ranges: classes of points with the same bits, and how each is computed. Of lists (the catalog, a
    file of problems, a folder of cases and networks): a row per subject and engine. Of a table: what it comes to.
    """
    options = ListOptions(output, resume, known, where, do, ray)
    if is_list(subject):
        shown = {"time_limit_s": time_limit, "verbose": verbose, "as_json": as_json}
        return run_list_command(subject, on or [], options, recipes=bool(recipes), **shown)
    if options.are_given:
        raise ArgumentError("--output, --resume, --do, --known, --where and --ray are for lists and tables")
    return sweep_sizes(
        subject,
        on or [],
        recipes=recipes is not False,
        batch_invariant=batch_invariant,
        time_limit_s=time_limit,
        verbose=verbose,
        as_json=as_json,
    )


@app.command("reduce", epilog=show_examples("reduce"))
def reduce_command(
    subject: ReduceSubject,
    on: ReduceOn = None,
    output: ReduceScript = None,
    markdown: ReduceMarkdown = False,
    most_time: ReduceTime = 60,
    time_limit: TimeLimit = 30,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Make a fault small: the smallest problem that shows it, when it is there, a script of it for upstream.

    Exit status: 0 where there is no fault, 1 where there is one, 2 on trouble.
    """
    return reduce_fault(
        subject,
        on or [],
        output=output,
        markdown=markdown,
        most_time_s=most_time,
        time_limit_s=time_limit,
        verbose=verbose,
        as_json=as_json,
    )


@app.command("doctor", epilog=show_examples("doctor"))
def doctor_command(
    on: DoctorOn = None, compiles: DoctorCompiles = False, time_limit: TimeLimit = 60, as_json: AsJson = False
) -> int:
    """Say which engines are here, which settings decide their bits, and how to get what is missing."""
    return examine(on or [], compiles=compiles, time_limit_s=time_limit, as_json=as_json)


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
) -> None:
    if version:
        print(f"samebits {VERSION}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    if not prepare_streams():
        return _complain("output could not be written: standard output is closed")
    try:
        check_environment()
        given = sys.argv[1:] if arguments is None else arguments
        status = app(args=_protect_problems(given), standalone_mode=False)
        sys.stdout.flush()
    except (SystemExit, OSError) as error:
        return _complain(say_system_error(error))
    except (TyperException, SamebitsError, KeyboardInterrupt, typer.Abort, MemoryError) as error:
        return _complain(say_error(error))
    except Exception as error:  # A fault of ours, which is said in one line; whoever looks for it sees where it is.
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        return _complain(say_unforeseen(error))
    if status == _INTERRUPTED:
        return _complain("interrupted")
    return status if isinstance(status, int) else AGREE


def _protect_problems(arguments: Sequence[str]) -> list[str]:
    """Arguments as the command line's library is to see them; a command behind -- is not ours to change."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [*map(_protect_problem, arguments[:end]), *arguments[end:]]


def _protect_problem(argument: str) -> str:
    """A quoted benchdnn line may begin with its own options; a space before it keeps it from being taken for ours."""
    name = argument.partition(" ")[0].partition("=")[0]
    return f" {argument}" if argument.startswith("--") and " " in argument and name not in _OPTIONS else argument


def _complain(says: str) -> int:
    say(says)
    return TROUBLE
