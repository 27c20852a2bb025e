"""`samebits compare`: its options, and its exit status."""

from __future__ import annotations

from enum import StrEnum
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
    ask_to_install,
    complete_engines,
    complete_problems,
    print_finding,
    split_engines,
)
from samebits.display.streams import say
from samebits.errors import ArgumentError
from samebits.questions.network.network_command import (
    CommonOptions,
    NetworkAgainst,
    NetworkCases,
    NetworkInputs,
    NetworkOptions,
    NetworkRanges,
    NetworkRecorded,
    NetworkReplay,
    NetworkSizes,
    compare_network,
    read_ranges,
    read_sizes,
)
from samebits.questions.question import Command, FindingKind, Question

if TYPE_CHECKING:
    from samebits.findings import Comparison
    from samebits.problems.any_problem import Formula
    from samebits.questions.given_formula import FormulaCase


class DataChoice(StrEnum):
    """What random operands are drawn from."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    EXACT = "exact"


CompareSubject = Annotated[
    list[str],
    typer.Argument(
        help="a problem's text, a case file (.npz), or a network: .onnx, .tflite, .pt2, file.py:function",
        autocompletion=complete_problems,
        metavar="PROBLEM|CASE|MODEL",
    ),
]
CompareVersions = Annotated[
    str | None,
    typer.Option(
        "--versions",
        metavar="FROM..TO",
        help="of one engine: with which release does its answer change? 1.18..1.32, or releases with commas between",
    ),
]
CompareCalls = Annotated[
    int | None,
    typer.Option(
        help="call each engine so often on the same operands: do its bits repeat? Default: 2, up to 200 if quick",
        min=1,
        max=10**6,
    ),
]


def compare_command(
    subject: CompareSubject,
    on: Annotated[
        list[str] | None,
        typer.Option(
            "--on",
            autocompletion=complete_engines,
            callback=split_engines,
            help="an engine, e.g. torch or torch:threads=1; repeat it. Default: all installed ones",
        ),
    ] = None,
    data: Annotated[DataChoice, typer.Option(help="operands of a problem: random ones, or exact integers")] = (
        DataChoice.NORMAL
    ),
    seed: Annotated[int, typer.Option(help="seed of the random operands", min=0)] = 0,
    time_limit: TimeLimit = 300,
    attribute: Annotated[
        bool,
        typer.Option(
            "--attribute/--quick",
            " /--no-attribute",
            help="where results differ, find out how each engine adds and replay it; or say what is known without",
        ),
    ] = True,
    fix: Annotated[
        bool, typer.Option("--fix", help="try settings until the sides agree; each in a process of its own (minutes)")
    ] = False,
    calls: CompareCalls = None,
    inputs: NetworkInputs = None,
    ranges: NetworkRanges = None,
    sizes: NetworkSizes = None,
    replay: NetworkReplay = False,
    save_cases: NetworkCases = None,
    against: NetworkAgainst = None,
    recorded: NetworkRecorded = None,
    versions: CompareVersions = None,
    install: Installs = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Run one problem (convolution, product, attention, norm ...), or a network, on every engine; say which are right.

    Each result is judged on exact integers, where any difference is a fault, and against the correctly rounded result;
    of a network each unit, on what it was really fed.
    """
    from samebits.networks.model_subject import is_model
    from samebits.problems.integer_problem import is_integer_problem

    text = " ".join(subject)
    common = CommonOptions(list(on or []), seed, time_limit, attribute, fix, calls, verbose, as_json)
    sized, other = read_sizes(sizes or []), _take_one(against or [])
    options = NetworkOptions(inputs, read_ranges(ranges or []), replay, save_cases, other, sized, recorded or [])
    if versions is not None:
        return _compare_versions(text, versions, data, common, options)
    if len(subject) > 1 and all(is_model(part) for part in subject):
        raise ArgumentError("one network at a time; another file of the same network goes behind --against")
    is_network = is_model(text) or is_integer_problem(text)
    if options.are_given and not is_network:
        raise ArgumentError(
            "--inputs, --range, --size, --replay, --save-cases, --against and --recorded are for networks"
        )
    from samebits.engines.registry.runners import start_early

    with start_early(common.on):
        return compare_network(text, common, options) if is_network else _compare_problem(text, data, common)


def _take_one(against: list[str]) -> str | None:
    if len(against) > 1:
        raise ArgumentError("--against takes one file at a time: each is a comparison of its own")
    return against[0] if against else None


def _compare_versions(
    text: str, versions: str, data: DataChoice, common: CommonOptions, options: NetworkOptions
) -> int:
    """Looks for the release with which an engine's answer changes, prints, and returns the exit status."""
    from samebits.display.narrator import Narrator
    from samebits.questions.compare.version_search import compare_versions
    from samebits.questions.compare.versions_report import show_versions

    if len(common.on) != 1:
        raise ArgumentError("--versions is of one engine: --on onnxruntime --versions 1.18..1.32")
    if options.against or options.recorded or options.replay or options.save_cases or common.fix:
        raise ArgumentError("--versions goes with neither --fix nor --replay, --save-cases, --against, --recorded")
    ask_to_install(f"the releases of {common.on[0]} that have to be tried")
    with Narrator() as narrator:
        found = compare_versions(
            text, common.on[0], versions, data=data.value, seed=common.seed, time_limit_s=common.time_limit_s,
            attributes=common.attribute, calls=common.calls, inputs=options.inputs, ranges=options.ranges,
            sizes=options.sizes, progress=narrator.hear,
        )  # fmt: skip
    print_finding(found, show_versions, verbose=common.verbose, as_json=common.as_json)
    if found.changes:
        return DIFFER
    return AGREE if sum(row.verdict is not None for row in found.rows) > 1 else TROUBLE


def _compare_codes(text: str, data: DataChoice, options: CommonOptions) -> int:
    """Compares a case of codes, prints, and returns the exit status."""
    from samebits.display.narrator import Narrator
    from samebits.findings import Comparison
    from samebits.questions.compare.front_door import compare
    from samebits.questions.explain.explanation_report import show_explanation

    with Narrator() as narrator:
        found = compare(
            text, options.on, data=data.value, fix=options.fix, calls=options.calls,
            time_limit_s=options.time_limit_s, progress=narrator.hear,
        )  # fmt: skip
    assert isinstance(found, Comparison)
    print_finding(found, show_explanation, verbose=options.verbose, as_json=options.as_json)
    return _judge_comparison(found)


def _compare_problem(text: str, data: DataChoice, options: CommonOptions) -> int:
    """Compares one problem or case, prints, and returns the exit status."""
    from samebits.display.narrator import Narrator
    from samebits.engines.registry.known_engines import list_installed_for
    from samebits.problems.case_file import Case
    from samebits.problems.languages.any_language import read_subject
    from samebits.questions.compare.comparing import compare
    from samebits.questions.compare.comparison_report import show_comparison
    from samebits.questions.given_formula import read_formula
    from samebits.questions.given_operands import is_code_case

    if is_code_case(text):
        return _compare_codes(text, data, options)
    formula = read_formula(text)
    if formula is not None:
        return _compare_formula(formula, data, options)
    chosen, subject = options.on, read_subject(text)
    case = subject if isinstance(subject, Case) else None
    if not chosen and not (case and case.results):
        chosen = list_installed_for(subject.problem if isinstance(subject, Case) else subject)
    with Narrator() as narrator:
        found = compare(
            subject,
            chosen,
            data=data.value,
            seed=options.seed,
            time_limit_s=options.time_limit_s,
            attributes=options.attribute,
            fix=options.fix,
            calls=options.calls,
            progress=narrator.hear,
        )
    print_finding(found, show_comparison, verbose=options.verbose, as_json=options.as_json)
    return _judge_comparison(found)


def _compare_formula(asked: Formula | FormulaCase, data: DataChoice, options: CommonOptions) -> int:
    """Compares a formula or a case of one, prints, and returns the exit status."""
    from samebits.display.narrator import Narrator
    from samebits.engines.registry.known_engines import list_installed_for_formula
    from samebits.findings import Comparison
    from samebits.problems.attention import Attention
    from samebits.questions.compare.comparison_report import show_comparison
    from samebits.questions.compare.front_door import compare
    from samebits.questions.explain.explanation_report import show_explanation
    from samebits.questions.given_formula import FormulaCase

    is_recorded = isinstance(asked, FormulaCase) and bool(asked.results)
    problem, chosen = asked.problem if isinstance(asked, FormulaCase) else asked, options.on
    if not chosen and not is_recorded:
        chosen = list_installed_for_formula(attention=isinstance(problem, Attention))
    with Narrator() as narrator:
        found = compare(
            asked, chosen, data=data.value, seed=options.seed, time_limit_s=options.time_limit_s,
            attributes=options.attribute, fix=options.fix, calls=options.calls, progress=narrator.hear,
        )  # fmt: skip
    assert isinstance(found, Comparison)
    show = show_comparison if chosen else show_explanation
    print_finding(found, show, verbose=options.verbose, as_json=options.as_json)
    return _judge_comparison(found)


def _judge_comparison(found: Comparison) -> int:
    """The exit status; every engine that broke is named on standard error."""
    from samebits.findings import is_agreement

    failed = [(s.name, s.failure) for s in found.sides if s.failure]
    broken = [(name, failure) for name, failure in failed if failure.kind != "unsupported"]
    for name, failure in broken:
        say(f"{name} {failure.kind}: {failure.says}")
    if len(failed) == len(found.sides):
        if failed and not broken:
            say(f"no engine takes this problem: {'; '.join(f'{name}: {failure.says}' for name, failure in failed)}")
        return TROUBLE
    if not is_agreement(found.verdict):
        return DIFFER
    return TROUBLE if broken else AGREE


def _load_comparison():
    from rich.console import Console

    from samebits.findings import Comparison
    from samebits.problems.integer_problem import is_integer_problem
    from samebits.questions.compare.comparison_document import lay_out_comparison
    from samebits.questions.compare.comparison_report import show_comparison
    from samebits.questions.explain.explanation_report import show_explanation

    def show(found: Comparison, console: Console | None = None, *, verbose: bool = True) -> None:
        # Recorded results have no engine.
        show_recorded = all(side.engine is None for side in found.sides) or is_integer_problem(found.problem)
        (show_explanation if show_recorded else show_comparison)(found, console, verbose=verbose)

    return Comparison, lay_out_comparison, show


def _load_versions():
    from samebits.questions.compare.versions_document import lay_out_versions
    from samebits.questions.compare.versions_report import show_versions
    from samebits.questions.compare.versions_schema import Versions

    return Versions, lay_out_versions, show_versions


COMPARE = Question(
    commands=(
        Command(
            "compare",
            compare_command,
            (
                'samebits compare "conv1d x=1x1x7 w=1x1x5 bias" --on torch --on onnxruntime',
                "samebits compare net.onnx --on onnxruntime --on openvino --fix",
            ),
            "0: every side is identical to the truth or within rounding; 1: a side deviates",
        ),
    ),
    findings=(
        FindingKind("samebits.comparison/1", _load_comparison),
        FindingKind("samebits.versions/1", _load_versions),
    ),
)
