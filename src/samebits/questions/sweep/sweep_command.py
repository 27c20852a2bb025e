"""`samebits sweep`: its options, and what it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from samebits.display.printing import AGREE, DIFFER, TROUBLE, print_finding
from samebits.errors import ArgumentError

SweepSubject = Annotated[
    list[str],
    typer.Argument(
        help="a problem with ranges in its sizes: linear x={1..256}x768 w=768x768; or lists; or a table",
        metavar="SWEEP|LIST...|TABLE",
    ),
]
SweepOn = Annotated[
    list[str] | None, typer.Option("--on", help="an engine; settings may have ranges: torch:threads={1,2}; repeat it")
]
SweepRecipes = Annotated[
    bool | None, typer.Option(help="find out how it is computed; the default for ranges, not for lists")
]
SweepBatch = Annotated[
    bool,
    typer.Option("--batch-invariant", help="of a problem: are an item's bits the same at every batch up to its own?"),
]
_USUAL_BATCH = 64


def sweep_sizes(
    subject: Sequence[str],
    on: Sequence[str],
    *,
    recipes: bool,
    batch_invariant: bool,
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
        found = sweep(text, on, recipes=recipes, time_limit_s=time_limit_s, progress=narrator.hear)
    print_finding(found, show_sweep, verbose=verbose, as_json=as_json)
    answers = [one.invariant for one in (found, *found.more)]
    if None in answers:
        return TROUBLE
    return AGREE if all(answers) else DIFFER


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
