"""A reduction as the report that upstream's issue forms ask for, in Markdown."""

from __future__ import annotations

from samebits.display.visible_text import format_value
from samebits.questions.reduce.reduction_report import list_engines
from samebits.questions.reduce.reduction_schema import Reduction
from samebits.questions.reduce.reduction_sentences import say_versions


def write_upstream_report(found: Reduction) -> str:
    """Summary, version, environment, steps, observed, expected, and which side is right and why."""
    if found.problem is None:
        return f"{found.summary}\n"
    settings = ", ".join(f"{name}={value}" for name, value in found.settings.items())
    parts = [
        ("Summary", f"{found.summary}."),
        ("Version", f"{found.engine.partition(':')[0]} {found.version or 'unknown'}"),
        ("Environment", f"{found.device or 'unknown'}; settings in effect: {settings or 'defaults'}"),
        ("Steps to reproduce", _say_steps(found)),
        ("Observed behavior", _say_observed(found)),
        ("Expected behavior", _say_expected(found)),
        ("When it happens", _say_when(found)),
    ]
    return "".join(f"## {title}\n\n{text}\n\n" for title, text in parts)


def _say_steps(found: Reduction) -> str:
    steps = [f"The problem, as samebits writes it: `{found.problem}`"]
    if found.reproducer:
        steps.append(f"```python\n{found.reproducer.rstrip()}\n```")
    if found.benchdnn:
        steps.append(f"With oneDNN's benchdnn: `{found.benchdnn}`")
    return "\n\n".join(steps)


def _say_observed(found: Reduction) -> str:
    if found.first_index is None:
        return found.summary
    at = ", ".join(map(str, found.first_index))
    where = found.where or "all within a narrower format"
    again = " The value differs from call to call." if found.repeats is False else ""
    return f"Output [{at}] is {format_value(found.first_value)}. Where: {where}.{again}"


def _say_expected(found: Reduction) -> str:
    if found.first_index is None:
        return "A result."
    value = f"{format_value(found.first_truth)} at the same place."
    if found.data == "integers":
        return (
            f"{value} All operands are small integers, whose products and partial sums are exact in every format and in"
            " every order of addition: there is nothing to round, so any other value is wrong."
        )
    return f"{value} That is the correctly rounded result; the error is beyond what any order of additions can make."


def _say_when(found: Reduction) -> str:
    lines: list[str] = []
    if found.condition:
        lines.append(f"{'Wherever' if found.is_exact else 'Only where'} {found.condition}.")
    if found.right_with:
        lines.append("Right, one number changed:\n\n" + "\n".join(f"- `{p}`" for p in found.right_with))
    if found.exceptions:
        lines.append("Right though the condition holds:\n\n" + "\n".join(f"- `{p}`" for p in found.exceptions))
    if right := list_engines(found.others, right=True):
        lines.append(f"The smallest problem is right with: {right}.")
    if wrong := list_engines(found.others, right=False):
        lines.append(f"It is as wrong with: {wrong}.")
    if found.versions:
        said = say_versions(found.versions)
        lines.append(f"{said[:1].upper()}{said[1:]}.")
    return "\n\n".join([*lines, *(f"{e.says[:1].upper()}{e.says[1:]}." for e in found.evidence)])
