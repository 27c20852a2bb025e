"""`samebits seal`, `samebits check` and `samebits run`: their options, and what they do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
)
from samebits.questions.network.network_command import NetworkSizes, read_sizes
from samebits.questions.question import Command, FindingKind, Question

SealSubject = Annotated[
    list[str],
    typer.Argument(
        help="problems' texts, each in quotes, or one ONNX file",
        autocompletion=complete_problems,
        metavar="PROBLEM...|MODEL",
    ),
]
SealOn = Annotated[
    str, typer.Option("--on", autocompletion=complete_engines, help="the engine whose arithmetic is sealed")
]
SealOutput = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="the file that the seal is written to")
]
CheckFile = Annotated[Path, typer.Argument(metavar="FILE.seal", help="what samebits seal wrote")]
CheckModel = Annotated[
    Path | None, typer.Argument(metavar="[MODEL]", help="the sealed ONNX file: its outputs are compared, too")
]
CheckOn = Annotated[
    str | None,
    typer.Option(
        "--on", autocompletion=complete_engines, help="another engine's text: a release, a processor, threads"
    ),
]


def seal_command(
    subject: SealSubject,
    on: SealOn,
    output: SealOutput,
    sizes: NetworkSizes = None,
    seed: Annotated[int, typer.Option(help="seed of operands and inputs", min=0)] = 0,
    time_limit: TimeLimit = 300,
    install: Installs = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Write down how an engine computes, to be checked on another machine before any user data.

    Of every problem, or every product of a model, the bits on seeded operands and the recipe, proved by replay.
    """
    from samebits.display.narrator import Narrator
    from samebits.networks.model_subject import is_model
    from samebits.questions.seal.seal_report import show_seal
    from samebits.questions.seal.sealing import seal

    # Words of one problem that were not put in quotes are put together.
    texts = subject if all(" " in one or is_model(one) for one in subject) else [" ".join(subject)]
    with Narrator() as narrator:
        found = seal(
            texts, on, output=output, sizes=read_sizes(sizes or []), seed=seed, time_limit_s=time_limit,
            progress=narrator.hear,
        )  # fmt: skip
    print_finding(found, show_seal, verbose=verbose, as_json=as_json)
    return AGREE


def check_command(
    file: CheckFile,
    model: CheckModel = None,
    on: CheckOn = None,
    time_limit: TimeLimit = 300,
    install: Installs = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Will every bit be the same here? Check a seal with the engine at hand, problem by problem.

    Where the recipe is the sealed one and reproduces every output, the bits are the same for every input.
    """
    from samebits.display.narrator import Narrator
    from samebits.questions.seal.checking import check
    from samebits.questions.seal.seal_report import show_check

    with Narrator() as narrator:
        found = check(file, on, model=model, time_limit_s=time_limit, progress=narrator.hear)
    print_finding(found, show_check, verbose=verbose, as_json=as_json)
    if found.holds is None:
        return TROUBLE
    return AGREE if found.holds else DIFFER


def run_command(
    file: CheckFile,
    given: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL] [INPUTS.npz]", help="the sealed ONNX file, and what it is fed, in any order"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE.npz", help="the file that the outputs are written to")
    ] = None,
    time_limit: TimeLimit = 300,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Execute what was sealed where the engine is absent: its bits, computed by recipe.

    Without inputs the seal's own are used, and the result is compared with the sealed bits.
    """
    from samebits.display.narrator import Narrator
    from samebits.errors import ArgumentError
    from samebits.networks.model_subject import is_model
    from samebits.questions.seal.running import run
    from samebits.questions.seal.seal_report import show_run

    models = [one for one in given or [] if is_model(one)]
    inputs = [one for one in given or [] if not is_model(one)]
    if len(models) > 1 or len(inputs) > 1:
        raise ArgumentError("one model and one file of inputs at a time")
    with Narrator() as narrator:
        found = run(
            file, inputs[0] if inputs else None, model=models[0] if models else None, output=output,
            time_limit_s=time_limit, progress=narrator.hear,
        )  # fmt: skip
    print_finding(found, show_run, verbose=verbose, as_json=as_json)
    return DIFFER if found.holds is False else AGREE


def _load_seal():
    from samebits.questions.seal.seal_document import lay_out_seal
    from samebits.questions.seal.seal_report import show_seal
    from samebits.questions.seal.seal_schema import Seal

    return Seal, lay_out_seal, show_seal


def _load_check():
    from samebits.questions.seal.seal_document import lay_out_check
    from samebits.questions.seal.seal_report import show_check
    from samebits.questions.seal.seal_schema import Check

    return Check, lay_out_check, show_check


def _load_run():
    from samebits.questions.seal.seal_document import lay_out_run
    from samebits.questions.seal.seal_report import show_run
    from samebits.questions.seal.seal_schema import Run

    return Run, lay_out_run, show_run


SEAL = Question(
    commands=(
        Command(
            "seal",
            seal_command,
            (
                'samebits seal "linear x=8x768 w=768x768 bias" --on onnxruntime -o net.seal',
                "samebits seal net.onnx --on onnxruntime -o net.seal",
            ),
            "0: it was sealed",
        ),
        Command(
            "check",
            check_command,
            ("samebits check net.seal", "samebits check net.seal net.onnx --on onnxruntime:threads=1"),
            "0: every bit is the same, for every input or on what was tried; 1: some are others",
        ),
        Command(
            "run",
            run_command,
            ("samebits run net.seal net.onnx inputs.npz -o outputs.npz", "samebits run net.seal"),
            "0: computed; 1: the seal's own inputs did not give the sealed bits",
        ),
    ),
    findings=(
        FindingKind("samebits.seal/1", _load_seal),
        FindingKind("samebits.check/1", _load_check),
        FindingKind("samebits.run/1", _load_run),
    ),
)
