"""Logs that print statistics only: what each mechanism would have given, if the problem is known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from samebits.explanation.logged_sides import RECORD, describe_logged_side, describe_mismatch
from samebits.explanation.rebuilt_data import Stage, rebuild
from samebits.findings import Comparison, Evidence
from samebits.findings.causes import CauseCode
from samebits.hypotheses import list_operand_hypotheses, list_order_hypotheses
from samebits.judging import thresholds
from samebits.logs import Metrics, Mismatch
from samebits.progress import Progress
from samebits.wording.log_sentences import say_metrics

_MOST_FINGERPRINTS = 8


@dataclass(frozen=True)
class _Fingerprint:
    """The largest error that a mechanism makes on normal data, in shares of the largest output."""

    says: str
    share: float
    cause: CauseCode


def explain_statistics(mismatch: Mismatch, progress: Progress) -> Comparison:
    """A mismatch of which only counts and largest differences are printed."""
    metrics = mismatch.metrics or Metrics()
    shown = say_metrics(metrics)
    said = f"{shown[0].upper()}{shown[1:]}."
    evidence = [Evidence("statistic", shown)]
    if mismatch.problem is None:
        evidence.append(Evidence("statistic", RECORD))
        sides = [describe_logged_side(n, "undecided", evidence) for n in mismatch.names]
        summary = f"{said} Neither problem nor values are in the log: cannot tell rounding from a fault."
        return describe_mismatch(mismatch, "undecided", summary, sides, "not rebuilt")
    progress("simulating what each mechanism gives", 0.0)
    table = _list_fingerprints(rebuild(mismatch.problem, uniform=None))
    rows = "; ".join(f"{f.says} {f.share:.1e}" for f in table)
    evidence.append(
        Evidence("statistic", f"largest error of each on normal data, in shares of the largest output: {rows}")
    )
    share = _find_logged_share(metrics)
    nearest = _find_nearest(share, table) if share else None
    if nearest:
        evidence.append(Evidence("statistic", f"statistics suggest {nearest.says}: the logged share is {share:.1e}"))
    evidence.append(Evidence("statistic", RECORD))
    sides = [describe_logged_side(n, "undecided", evidence) for n in mismatch.names]
    suggestion = f" Statistics suggest {nearest.says}." if nearest else ""
    summary = f"{said}{suggestion} Which side is right cannot be told from statistics."
    cause = nearest.cause if nearest else None
    return describe_mismatch(mismatch, "undecided", summary, sides, "simulated on normal data", cause)


def _list_fingerprints(stage: Stage) -> list[_Fingerprint]:
    largest = float(np.abs(stage.truth).max()) or 1.0
    problem = stage.observation.problem
    found: list[_Fingerprint] = []
    for hypothesis in [next(list_order_hypotheses(problem)), *list_operand_hypotheses(problem)]:
        predicted = hypothesis.predict(stage.observation, stage.sample)
        if predicted is not None and hypothesis.cause != CauseCode.SUBNORMALS:
            says = "rounding" if hypothesis.cause == CauseCode.SUMMATION_ORDER else hypothesis.says
            share = float(np.abs(predicted - stage.truth).max()) / largest
            found.append(_Fingerprint(says, share, hypothesis.cause))
    return [f for f in found if f.share > 0][:_MOST_FINGERPRINTS]


def _find_logged_share(metrics: Metrics) -> float | None:
    """The largest logged difference in shares of the largest logged value; None without a logged scale."""
    difference, largest = metrics.max_abs, metrics.largest_value
    if not difference or not largest or not math.isfinite(difference) or not math.isfinite(largest):
        return None
    return difference / largest


def _find_nearest(share: float, table: list[_Fingerprint]) -> _Fingerprint | None:
    """The mechanism whose share is nearest to the logged one, on a scale of factors."""
    if not table:
        return None
    nearest = min(table, key=lambda f: abs(math.log(f.share / share)))
    return nearest if max(nearest.share / share, share / nearest.share) < thresholds.NEAREST_FACTOR else None
