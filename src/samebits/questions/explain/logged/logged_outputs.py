"""Whole outputs of two runners that a log's file holds: which side is right stays open, how they differ is said."""

from __future__ import annotations

from samebits.findings import Comparison, Evidence
from samebits.questions.explain.log_sentences import say_metrics
from samebits.questions.explain.logged.logged_sides import RECORD, describe_logged_side, describe_mismatch
from samebits.questions.explain.logs import Metrics, Mismatch
from samebits.questions.explain.output_relations import find_relation


def explain_outputs(mismatch: Mismatch) -> Comparison:
    """What the numbers of two whole outputs show; which side is right stays open."""
    assert mismatch.outputs is not None
    shown = say_metrics(mismatch.metrics or Metrics()).replace(" by more than the tolerance", "")
    output = mismatch.facts.get("output", "")
    evidence = [Evidence("statistic", f"output {output}: {shown}")]
    names, says, cause, side = mismatch.names, None, None, -1
    summary = f"Output {output}: {shown}. Which side is right cannot be told without operands."
    if seen := find_relation(mismatch.outputs):
        side, cause, other = seen.side, seen.cause, names[1 - seen.side]
        says, counted = seen.says.format(other=other), seen.counted.format(other=other)
        evidence.append(Evidence("statistic", counted))
        summary = f"Output {output}: {names[side]} {says} ({counted}). Which is right, operands would tell."
    evidence.append(Evidence("statistic", RECORD))
    sides = [
        describe_logged_side(
            name, "undecided", evidence, says=says if i == side else None, cause=cause if i == side else None
        )
        for i, name in enumerate(names)
    ]
    return describe_mismatch(mismatch, "undecided", summary, sides, "not in the file", cause)
