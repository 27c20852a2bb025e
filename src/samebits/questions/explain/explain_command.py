"""The options of `samebits explain`, and what it does."""

from __future__ import annotations

from typing import Annotated

import typer

from samebits.display.printing import AGREE, DIFFER, AsJson, Verbose, complete_files, complete_problems, print_finding
from samebits.questions.question import Command, Question

ExplainSubjects = Annotated[
    list[str],
    typer.Argument(
        help="a case file with results, or a log (- is standard input); arrays by name: operands x=FILE w=FILE"
        " bias=FILE dy=FILE, any other name a result; two files of results",
        autocompletion=complete_files,
        metavar="CASE|LOG|NAME=FILE...",
    ),
]
ExplainProblem = Annotated[
    str | None,
    typer.Option(
        "--problem",
        help="which problem the arrays are, as compare takes it",
        autocompletion=complete_problems,
        metavar="TEXT",
    ),
]
ExplainLike = Annotated[
    list[str] | None,
    typer.Option(
        "--like",
        help="an engine at hand: is a recorded result what it computes? Repeatable",
        metavar="ENGINE",
    ),
]


def explain_command(
    subjects: ExplainSubjects,
    problem: ExplainProblem = None,
    like: ExplainLike = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Say from recorded results, or a log, which side is right and what made the other. No engine is needed.

    Logs: XLA's autotuner, assert_close, Polygraphy, MIOpenDriver, benchdnn, Optimum, googletest, assertAllClose,
    NumPy's ulp asserts, tests of MIOpen, BLAS and TensorFlow, oneDNN verbose lines; also as a saved web page. Arrays:
    .npy, .npz, .pt, .safetensors, ONNX's .pb, numbers as text; FILE:NAME is one of several in a file.
    """
    from samebits.display.narrator import Narrator
    from samebits.findings import is_agreement
    from samebits.questions.explain.explaining import explain
    from samebits.questions.explain.explanation_report import show_explanation
    from samebits.questions.given_operands import sort_subjects

    subject, arrays = sort_subjects(subjects)
    with Narrator() as narrator:
        found = explain(subject, problem=problem, like=like or (), progress=narrator.hear, **arrays)
    print_finding(found, show_explanation, verbose=verbose, as_json=as_json)
    return AGREE if all(is_agreement(f.verdict) for f in (found, *found.more)) else DIFFER


# Its finding is compare's.
EXPLAIN = Question(
    commands=(
        Command(
            "explain",
            explain_command,
            (
                'samebits explain --problem "linear x=64x24 w=48x24" x=x.npy w=w.npy mine=a.npy theirs=b.npy',
                "samebits explain xla.log --json",
            ),
            "0: every side is identical to the truth or within rounding; 1: a side deviates",
        ),
    )
)
