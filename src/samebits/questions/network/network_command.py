"""`samebits compare MODEL`: the options that only networks have, and the exit status."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from samebits.display.printing import AGREE, DIFFER, TROUBLE, print_finding
from samebits.display.streams import say
from samebits.errors import ArgumentError
from samebits.questions.question import FindingKind, Question

if TYPE_CHECKING:
    from samebits.findings.model_schema import ModelComparison

# The heading under which a command's help has the options that only networks take.
OF_A_NETWORK = "Of a network"
NetworkInputs = Annotated[
    str | None,
    typer.Option("--inputs", rich_help_panel=OF_A_NETWORK, help="an .npz of its inputs by name; else random ones"),
]
NetworkRanges = Annotated[
    list[str] | None,
    typer.Option(
        "--range", rich_help_panel=OF_A_NETWORK, help="NAME=LOW:HIGH, what a random input is drawn from; repeat it"
    ),
]
NetworkSizes = Annotated[
    list[str] | None,
    typer.Option(
        "--size", rich_help_panel=OF_A_NETWORK, help="NAME=N or INPUT=1x3x224x224, sizes that it leaves open; repeat it"
    ),
]
NetworkReplay = Annotated[
    bool,
    typer.Option(
        "--replay", rich_help_panel=OF_A_NETWORK, help="find the recipe of every unit and replay it (minutes)"
    ),
]
NetworkCases = Annotated[
    str | None,
    typer.Option("--save-cases", rich_help_panel=OF_A_NETWORK, help="write the units that deviate to this folder"),
]
NetworkAgainst = Annotated[
    list[str] | None,
    typer.Option(
        "--against", rich_help_panel=OF_A_NETWORK, help="another .onnx file of it, which is run and compared too (one)"
    ),
]
NetworkRecorded = Annotated[
    list[str] | None,
    typer.Option(
        "--recorded",
        rich_help_panel=OF_A_NETWORK,
        help="[NAME=]FILE, what a run elsewhere on the same --inputs returned, as a side; repeat it",
    ),
]


@dataclass(frozen=True)
class CommonOptions:
    """What a person may say of any comparison."""

    on: list[str]
    seed: int
    time_limit_s: float
    attribute: bool
    fix: bool
    calls: int | None
    verbose: bool
    as_json: bool


@dataclass(frozen=True)
class NetworkOptions:
    """What else a person may say of a network."""

    inputs: str | None
    ranges: Mapping[str, tuple[float, float]]
    replay: bool
    save_cases: str | None
    against: str | None = None
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    recorded: Sequence[str] = ()

    @property
    def are_given(self) -> bool:
        """Whether anything was said."""
        return bool(
            self.inputs is not None
            or self.ranges
            or self.sizes
            or self.replay
            or self.save_cases is not None
            or self.against is not None
            or self.recorded
        )


def read_ranges(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Ranges from NAME=LOW:HIGH; raises ArgumentError."""
    found: dict[str, tuple[float, float]] = {}
    for text in texts:
        name, _, limits = text.rpartition("=")
        low, _, high = limits.partition(":")
        try:
            found[name] = (float(low), float(high))
        except ValueError:
            raise ArgumentError(f"--range takes NAME=LOW:HIGH, not {text[:80]!r}") from None
        if not name or not -math.inf < found[name][0] <= found[name][1] < math.inf:
            raise ArgumentError(f"--range takes NAME=LOW:HIGH with LOW at most HIGH, not {text[:80]!r}")
    return found


def read_sizes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Sizes from NAME=1x3x224x224, several of them with commas between; raises ArgumentError."""
    found: dict[str, tuple[int, ...]] = {}
    for text in (part for whole in texts for part in whole.split(",")):
        name, _, sizes = text.rpartition("=")
        if not name or not re.fullmatch(r"\d{1,12}(x\d{1,12})*", sizes):
            raise ArgumentError(f"--size takes NAME=N or INPUT=1x3x224x224, not {text[:80]!r}")
        found[name.strip()] = tuple(map(int, sizes.split("x")))
    return found


def compare_network(text: str, common: CommonOptions, options: NetworkOptions) -> int:
    """Compares, prints, and returns the exit status."""
    from samebits.display.narrator import Narrator
    from samebits.networks.model_comparing import compare_model
    from samebits.networks.model_subject import list_engines_for
    from samebits.questions.network.model_report import show_model
    from samebits.questions.network.recorded_files import read_inputs, read_recorded

    recorded = read_recorded(options.recorded)
    with Narrator() as narrator:
        found = compare_model(
            text,
            common.on or ([] if recorded else list_engines_for(text)),
            inputs=None if options.inputs is None else read_inputs(options.inputs),
            ranges=options.ranges,
            sizes=options.sizes,
            seed=common.seed,
            time_limit_s=common.time_limit_s,
            attributes=common.attribute,
            fix=common.fix,
            calls=common.calls,
            replay=options.replay,
            save_cases=options.save_cases,
            against=options.against,
            recorded=recorded,
            progress=narrator.hear,
        )
    print_finding(found, show_model, verbose=common.verbose, as_json=common.as_json)
    return _judge_model(found)


def _judge_model(found: ModelComparison) -> int:
    """The exit status; every engine that broke is named on standard error."""
    from samebits.findings import is_agreement

    failed = [(s.name, s.failure) for s in found.sides if s.failure]
    for name, failure in failed:
        say(f"{name} {failure.kind}: {failure.says}")
    if len(failed) == len(found.sides):
        return TROUBLE
    if not is_agreement(found.verdict):
        return DIFFER
    return TROUBLE if any(failure.kind != "unsupported" for _, failure in failed) else AGREE


def _load_model():
    from samebits.findings.model_schema import ModelComparison
    from samebits.questions.network.model_document import lay_out_model
    from samebits.questions.network.model_report import show_model

    return ModelComparison, lay_out_model, show_model


# Its command is compare's.
NETWORK = Question(findings=(FindingKind("samebits.model/1", _load_model),))
