"""`samebits pick`: its options, and the exit status."""

from __future__ import annotations

import re
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

import typer

from samebits.display.printing import (
    AGREE,
    DIFFER,
    AsJson,
    TimeLimit,
    Verbose,
    complete_engines,
    complete_problems,
    print_finding,
    split_engines,
)
from samebits.errors import ArgumentError
from samebits.questions.network.network_command import NetworkSizes, read_sizes
from samebits.questions.question import Command, FindingKind, Question

_UNITS = {"": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([A-Za-z]*)")

PickSubject = Annotated[
    list[str],
    typer.Argument(
        help="a problem's text, a case file (.npz), or a model: .onnx, .pt2, file.py:function",
        autocompletion=complete_problems,
        metavar="PROBLEM|MODEL",
    ),
]
PickOn = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        autocompletion=complete_engines,
        callback=split_engines,
        help="candidates: an engine with all its variants, or one text, e.g. torch:threads=1; repeat",
    ),
]
PickLock = Annotated[str | None, typer.Option("-o", "--output", help="the lock file that keeps the choice")]
PickUlp = Annotated[
    float | None, typer.Option("--max-ulp", help="at most so many numbers from the correctly rounded result", min=0)
]
PickDeterministic = Annotated[bool, typer.Option(help="the same bits in every run")]
PickBatch = Annotated[bool, typer.Option("--batch-invariant", help="an item's bits are the same in every batch")]
PickWorkspace = Annotated[
    str | None, typer.Option("--workspace", help="memory may grow by so much in the first run, e.g. 64MiB")
]
PickGradients = Annotated[bool, typer.Option("--gradients", help="the gradients of each problem, too")]
PickAgain = Annotated[bool, typer.Option("--again", help="pick again what the lock has already")]


class WithinChoice(StrEnum):
    """What a result must keep in addition to exact integers."""

    BOUND = "bound"
    ANY = "any"


PickWithin = Annotated[
    WithinChoice,
    typer.Option(help="bound: every output in its error bound, no precision lost; any: no gross fault"),
]


def read_size(text: str | None) -> int | None:
    """Bytes from a size such as 64MiB; raises ArgumentError."""
    if text is None:
        return None
    read = _SIZE.fullmatch(text.strip())
    if read is None or read[2].upper() not in _UNITS:
        raise ArgumentError(f"--workspace takes a size such as 64MiB or 100000, not {text[:40]!r}")
    return int(Decimal(read[1]) * _UNITS[read[2].upper()])


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
    sizes: NetworkSizes = None,
    again: PickAgain = False,
    time_limit: TimeLimit = 300,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Choose the fastest engine and settings that keep a contract, and keep the choice in a lock file.

    Candidates are checked against the correctly rounded result, run again and again, and timed in turns.
    """
    from samebits.display.narrator import Narrator
    from samebits.questions.pick.pick_report import show_pick
    from samebits.questions.pick.picking import pick

    size = read_size(workspace)
    with Narrator() as narrator:
        found = pick(
            " ".join(subject),
            on or [],
            max_ulp=max_ulp,
            within=within.value,
            deterministic=deterministic,
            batch_invariant=batch_invariant,
            workspace=size,
            gradients=gradients,
            sizes=read_sizes(sizes or []),
            lock=output,
            again=again,
            time_limit_s=time_limit,
            progress=narrator.hear,
        )
    print_finding(found, show_pick, verbose=verbose, as_json=as_json)
    return AGREE if all(choice.engine is not None for choice in found.choices) else DIFFER


def _load_pick():
    from samebits.questions.pick.pick_document import lay_out_pick
    from samebits.questions.pick.pick_report import show_pick
    from samebits.questions.pick.pick_schema import Pick

    return Pick, lay_out_pick, show_pick


PICK = Question(
    commands=(
        Command(
            "pick",
            pick_command,
            (
                'samebits pick "conv2d x=1x64x56x56 w=64x64x3x3 padding=1" -o samebits.lock',
                "samebits pick net.onnx --on onnxruntime --on openvino --max-ulp 4",
            ),
            "0: an engine was chosen for every problem; 1: for one of them none keeps the contract",
        ),
    ),
    findings=(FindingKind("samebits.pick/1", _load_pick),),
)
