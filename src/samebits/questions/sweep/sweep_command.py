"""`samebits sweep`: its options, and what it does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from samebits.display.printing import (
    AGREE,
    DIFFER,
    TROUBLE,
    AsJson,
    Installs,
    TimeLimit,
    Verbose,
    complete_engines,
    complete_problems,
    print_finding,
    split_engines,
)
from samebits.errors import ArgumentError
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
from samebits.questions.network.network_command import OF_A_NETWORK, NetworkRanges, read_ranges, read_sizes
from samebits.questions.question import Command, FindingKind, Question

if TYPE_CHECKING:
    from samebits.questions.sweep.sweep_schema import Sweep
    from samebits.questions.sweep.sweep_text import Range

SweepSubject = Annotated[
    list[str],
    typer.Argument(
        help="a problem with ranges in its sizes: linear x={1..256}x768 w=768x768; a network; or lists; or a table",
        autocompletion=complete_problems,
        metavar="SWEEP|LIST...|TABLE",
    ),
]
SweepOn = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        autocompletion=complete_engines,
        callback=split_engines,
        help="an engine; settings may have ranges: torch:threads={1,2}; repeat it",
    ),
]
SweepRecipes = Annotated[
    bool | None, typer.Option(help="find out how it is computed; the default for ranges, not for lists")
]
SweepBatch = Annotated[
    bool,
    typer.Option("--batch-invariant", help="of a problem: are an item's bits the same at every batch up to its own?"),
]
NetworkSweepSizes = Annotated[
    list[str] | None,
    typer.Option(
        "--size",
        rich_help_panel=OF_A_NETWORK,
        help="batch={1..8}, the size to sweep by its name; others as compare has them",
    ),
]
SweepFixes = Annotated[
    bool,
    typer.Option("--fix", help="of a problem: find a setting, or another engine, whose bits are the same throughout"),
]
_USUAL_BATCH = 64


def sweep_command(
    subject: SweepSubject,
    on: SweepOn = None,
    recipes: SweepRecipes = None,
    sizes: NetworkSweepSizes = None,
    ranges: NetworkRanges = None,
    batch_invariant: SweepBatch = False,
    fix: SweepFixes = False,
    output: ListTable = None,
    resume: ListResume = False,
    do: ListDo = Doing.COMPARE,
    known: ListKnown = None,
    where: ListWhere = None,
    ray: ListRay = None,
    time_limit: TimeLimit = 300,
    install: Installs = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Say over which sizes and settings the bits of the same outputs change; or ask whole lists, into a table.

    Of a problem with ranges: classes of points with the same bits, and how each is computed. Of lists (the catalog, a
    file of problems, a folder of cases and networks): a row per subject and engine. Of a table: what it comes to.
    """
    options = ListOptions(output, resume, known, where, do, ray)
    over_settings = _sweeps_settings(subject, on or [], sizes or [])
    if sizes or ranges or over_settings:
        if options.are_given or batch_invariant or recipes is not None:
            raise ArgumentError(
                "a network is swept with --on, --size, --range and --fix; other options are not its own"
            )
        return (_sweep_settings if over_settings else _sweep_network)(
            subject, on or [], sizes or [], ranges or [],
            fix=fix, time_limit_s=time_limit, verbose=verbose, as_json=as_json,
        )  # fmt: skip
    if is_list(subject):
        if fix:
            raise ArgumentError("--fix is for one problem with ranges, or for a network over its batch")
        shown = {"time_limit_s": time_limit, "verbose": verbose, "as_json": as_json}
        return run_list_command(subject, on or [], options, recipes=bool(recipes), **shown)
    if options.are_given:
        raise ArgumentError("--output, --resume, --do, --known, --where and --ray are for lists and tables")
    return _sweep_sizes(
        subject,
        on or [],
        recipes=recipes is not False,
        batch_invariant=batch_invariant,
        fix=fix,
        time_limit_s=time_limit,
        verbose=verbose,
        as_json=as_json,
    )


def _sweep_sizes(
    subject: Sequence[str],
    on: Sequence[str],
    *,
    recipes: bool,
    batch_invariant: bool,
    fix: bool,
    time_limit_s: float,
    verbose: bool,
    as_json: bool,
) -> int:
    """Sweeps, prints, and returns the exit status."""
    from samebits.display.narrator import Narrator
    from samebits.questions.sweep.sweep_report import show_sweep
    from samebits.questions.sweep.sweeping import sweep

    text = " ".join(subject)
    if batch_invariant:
        text = put_batch_range(text)
    with Narrator() as narrator:
        found = sweep(text, on, recipes=recipes, fix=fix, time_limit_s=time_limit_s, progress=narrator.hear)
    print_finding(found, show_sweep, verbose=verbose, as_json=as_json)
    return _conclude(found)


def _sweeps_settings(subject: Sequence[str], on: Sequence[str], sizes: Sequence[str]) -> bool:
    """Whether one network, or one problem on integers, is asked for over settings of an engine, and no size."""
    from samebits.networks.model_subject import is_model
    from samebits.problems.integer_problem import is_integer_problem

    text = " ".join(subject)
    has_range = any("{" in one for one in on) and not any("{" in one for one in (text, *sizes))
    return has_range and (is_model(text) or is_integer_problem(text))


def _sweep_settings(
    subject: Sequence[str],
    on: Sequence[str],
    sizes: Sequence[str],
    ranges: Sequence[str],
    *,
    fix: bool,
    time_limit_s: float,
    verbose: bool,
    as_json: bool,
) -> int:
    """Sweeps a network over settings, prints, and returns the exit status."""
    from samebits.display.narrator import Narrator
    from samebits.questions.sweep.setting_sweeping import sweep_settings
    from samebits.questions.sweep.sweep_report import show_sweep

    with Narrator() as narrator:
        found = sweep_settings(
            " ".join(subject), on, sizes=read_sizes(sizes), ranges=read_ranges(ranges), fix=fix,
            time_limit_s=time_limit_s, progress=narrator.hear,
        )  # fmt: skip
    print_finding(found, show_sweep, verbose=verbose, as_json=as_json)
    return _conclude(found)


def _sweep_network(
    subject: Sequence[str],
    on: Sequence[str],
    sizes: Sequence[str],
    ranges: Sequence[str],
    *,
    fix: bool,
    time_limit_s: float,
    verbose: bool,
    as_json: bool,
) -> int:
    """Sweeps a network over its batch, prints, and returns the exit status."""
    from samebits.display.narrator import Narrator
    from samebits.networks.model_subject import is_model
    from samebits.questions.sweep.network_sweeping import sweep_network
    from samebits.questions.sweep.sweep_report import show_sweep

    if any(is_model(s) for s in subject) and any(re.fullmatch(r"[\w.]+=\d+", s) for s in subject):
        raise ArgumentError("the shell wrote the braces out: quote them, --size 'batch={1..8}'")
    if len(subject) != 1 or not is_model(subject[0]):
        raise ArgumentError("--size and --range are of one network: an .onnx file or file.py:function")
    swept, others = read_swept_size(sizes)
    with Narrator() as narrator:
        found = sweep_network(
            subject[0],
            on,
            swept,
            ranges=read_ranges(ranges),
            sizes=others,
            fix=fix,
            time_limit_s=time_limit_s,
            progress=narrator.hear,
        )
    print_finding(found, show_sweep, verbose=verbose, as_json=as_json)
    return _conclude(found)


def _conclude(found: Sweep) -> int:
    answers = [one.invariant for one in (found, *found.more)]
    if None in answers:
        return TROUBLE
    return AGREE if all(answers) else DIFFER


def read_swept_size(texts: Sequence[str]) -> tuple[Range, dict[str, tuple[int, ...]]]:
    """The one size that has a range, `batch={1..8}`, and the others; raises ArgumentError."""
    from samebits.questions.sweep.sweep_text import Range, parse_range

    swept: list[Range] = []
    others: list[str] = []
    for text in texts:
        name, _, body = text.rpartition("={")
        if name and body.endswith("}"):
            swept.append(Range(name.strip(), parse_range(body[:-1], text)))
        else:
            others.append(text)
    if len(swept) != 1:
        raise ArgumentError("a sweep of a network has one size with a range: --size batch={1..8}")
    return swept[0], read_sizes(others)


def put_batch_range(text: str) -> str:
    """A problem's text with its batch, or its rows, from 1 to its own size; to 64 where that is 1."""
    from samebits.problems import format_problem, parse_problem_text

    if "{" in text:
        raise ArgumentError("--batch-invariant puts a range into a problem that has none; leave one of them out")
    problem = parse_problem_text(text)
    axis = len(problem.x) - 2 if problem.product else 0
    if axis < 0:
        raise ArgumentError(f"{text[:80]!r} has no batch and no rows")
    sizes = [str(size) for size in problem.x]
    sizes[axis] = f"{{1..{problem.x[axis] if problem.x[axis] > 1 else _USUAL_BATCH}}}"
    plain = f"x={'x'.join(map(str, problem.x))}"
    return format_problem(problem).replace(plain, f"x={'x'.join(sizes)}", 1)


def _load_sweep():
    from samebits.questions.sweep.sweep_document import lay_out_sweep
    from samebits.questions.sweep.sweep_report import show_sweep
    from samebits.questions.sweep.sweep_schema import Sweep

    return Sweep, lay_out_sweep, show_sweep


SWEEP = Question(
    commands=(
        Command(
            "sweep",
            sweep_command,
            (
                'samebits sweep "linear x={1..256}x768 w=768x768" --on torch --on onnxruntime',
                "samebits sweep catalog --on onnxruntime --on jax -o tonight.parquet --resume",
            ),
            "0: the bits stay the same, or nothing in the list deviates; 1: they change, or something deviates",
        ),
    ),
    findings=(FindingKind("samebits.sweep/1", _load_sweep),),
)
