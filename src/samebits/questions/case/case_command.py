"""The options of `samebits case`, and what it does."""

from __future__ import annotations

from typing import Annotated

import typer

from samebits.display.printing import AGREE, AsJson, print_finding
from samebits.questions.question import Command, Question

CasePath = Annotated[str, typer.Argument(help="the case file, to be shown or written", metavar="FILE.npz")]
CaseArrays = Annotated[
    list[str] | None,
    typer.Argument(
        help="arrays to write: operands x=FILE w=FILE bias=FILE dy=FILE, any other name a result",
        metavar="[NAME=FILE]...",
    ),
]
CaseProblem = Annotated[
    str | None,
    typer.Option("--problem", help="which problem the arrays are, as compare takes it", metavar="TEXT"),
]


def case_command(
    path: CasePath, arrays: CaseArrays = None, problem: CaseProblem = None, as_json: AsJson = False
) -> int:
    """Show what a case file holds, or write one of arrays: a problem, its operands and recorded results.

    With arrays the file is written, or they are added to what it holds. Files of arrays: .npy, .npz, .pt, .safetensors,
    ONNX's .pb, numbers as text; FILE:NAME is one of several in a file.
    """
    from samebits.questions.case.case_contents import describe_case, write_case
    from samebits.questions.case.case_report import show_case
    from samebits.questions.given_operands import read_assignments

    if arrays or problem is not None:
        write_case(path, problem, read_assignments(arrays or ()))
    print_finding(describe_case(path), show_case, verbose=True, as_json=as_json)
    return AGREE


CASE = Question(
    commands=(
        Command(
            "case",
            case_command,
            (
                "samebits case case.npz",
                'samebits case new.npz --problem "linear x=64x24 w=48x24" x=x.npy w=w.npy mine=a.npy',
            ),
            "0: the file was shown or written",
        ),
    ),
)
