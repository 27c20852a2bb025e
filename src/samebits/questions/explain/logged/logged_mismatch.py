"""Mismatches of logs: what each most likely is, by the kind of log it stands in.

Only XLA's operands can be made again to the last bit; those of other logs are gone: the answer is inferred, or says
what to record to find out.
"""

from __future__ import annotations

import dataclasses

import msgspec

from samebits.errors import ResourceLimitError
from samebits.findings import Comparison, Evidence
from samebits.progress import Progress
from samebits.questions.explain.log_sentences import say_left_out, say_repeats
from samebits.questions.explain.logged.logged_outputs import explain_outputs
from samebits.questions.explain.logged.logged_sides import (
    RECORD,
    describe_logged_side,
    describe_mismatch,
    explain_build,
    explain_settings,
)
from samebits.questions.explain.logged.logged_simulation import Simulations
from samebits.questions.explain.logged.logged_statistics import explain_exact_values, explain_statistics
from samebits.questions.explain.logged.logged_values import explain_values
from samebits.questions.explain.logs import PROBLEM_LINE, Mismatch

_MOST_MISMATCHES = 32
_EXPLAINERS = {
    "xla": explain_values,
    "assert_close": explain_statistics,
    "polygraphy": explain_statistics,
    "verifier": explain_statistics,
    "benchdnn": explain_exact_values,
    "other": explain_statistics,
}


def explain_log(mismatches: list[Mismatch], progress: Progress) -> list[Comparison]:
    """What the mismatches of a log are, in its sequence: equal ones once, and at most so many different ones.

    The first finding says how many others there are; each says in which other lines the same stands.
    """
    groups = list(_group_equal(mismatches).values())
    chosen, left = groups[:_MOST_MISMATCHES], groups[_MOST_MISMATCHES:]
    simulations = Simulations()
    found: list[Comparison | None] = [None] * len(chosen)
    # Those of one problem after each other, so that its operands are rebuilt once.
    for number in sorted(range(len(chosen)), key=lambda n: repr(chosen[n][0].problem)):
        alike = chosen[number]
        explained = explain_mismatch(alike[0], simulations, progress)
        said = say_repeats([m.line for m in alike[1:]]) if len(alike) > 1 else ""
        if left and number == 0:
            said = "; ".join(filter(None, [said, say_left_out(sum(map(len, left)), left[0][0].line, len(chosen))]))
        evidence = [*explained.evidence, Evidence("statistic", said)] if said else explained.evidence
        found[number] = msgspec.structs.replace(explained, evidence=evidence)
    return [f for f in found if f is not None]


def _group_equal(mismatches: list[Mismatch]) -> dict[str, list[Mismatch]]:
    """Mismatches of which a log says the same, wherever it does."""
    groups: dict[str, list[Mismatch]] = {}
    for mismatch in mismatches:
        facts = {name: fact for name, fact in mismatch.facts.items() if name != PROBLEM_LINE}
        # As text, for NaN does not equal itself.
        groups.setdefault(repr(dataclasses.replace(mismatch, line=0, facts=facts)), []).append(mismatch)
    return groups


def explain_mismatch(mismatch: Mismatch, simulations: Simulations, progress: Progress) -> Comparison:
    """What one logged mismatch most likely is; `simulations` serve all mismatches of a log."""
    if mismatch.tool == "onednn":
        return explain_settings(mismatch)
    if mismatch.tool == "tensorrt":
        return explain_build(mismatch)
    if mismatch.outputs is not None:
        return explain_outputs(mismatch)
    try:
        return _EXPLAINERS[mismatch.tool](mismatch, simulations, progress)
    except ResourceLimitError as error:
        # The other mismatches of the log may still be explained.
        sides = [describe_logged_side(n, "undecided", [Evidence("statistic", RECORD)]) for n in mismatch.names]
        return describe_mismatch(mismatch, "undecided", f"Cannot tell: {error}.", sides, "not rebuilt")
