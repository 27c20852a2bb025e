"""`samebits compare` of one problem or case: what it does, and its exit status."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from samebits.display.printing import AGREE, DIFFER, TROUBLE, print_finding
from samebits.display.streams import say
from samebits.questions.compare.network_command import CommonOptions

if TYPE_CHECKING:
    from samebits.findings import Comparison


class DataChoice(StrEnum):
    """What random operands are drawn from."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    EXACT = "exact"


def compare_problem(text: str, data: DataChoice, options: CommonOptions) -> int:
    """Compares one problem or case, prints, and returns the exit status."""
    from samebits.display.narrator import Narrator
    from samebits.engines.registry.known_engines import list_installed_for
    from samebits.problems.case_file import Case
    from samebits.problems.languages.any_language import read_subject
    from samebits.questions.compare.comparing import compare
    from samebits.questions.compare.comparison_report import show_comparison

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
            progress=narrator.hear,
        )
    print_finding(found, show_comparison, verbose=options.verbose, as_json=options.as_json)
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
