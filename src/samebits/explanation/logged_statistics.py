"""Logs that print statistics only: what each mechanism would have given, if the problem is known."""

from __future__ import annotations

import math

from samebits.explanation.logged_sides import RECORD, describe_logged_side, describe_mismatch
from samebits.explanation.logged_simulation import Fingerprint, Simulations
from samebits.findings import Comparison, Evidence
from samebits.judging import thresholds
from samebits.logs import Metrics, Mismatch
from samebits.progress import Progress
from samebits.wording.log_sentences import say_metrics


def explain_statistics(mismatch: Mismatch, simulations: Simulations, progress: Progress) -> Comparison:
    """A mismatch of which only counts and largest differences are printed."""
    metrics = mismatch.metrics or Metrics()
    shown = say_metrics(metrics)
    said = f"{shown[0].upper()}{shown[1:]}."
    evidence = [Evidence("statistic", shown)]
    if mismatch.problem is None:
        evidence.append(Evidence("statistic", RECORD))
        sides = [describe_logged_side(n, "undecided", evidence) for n in mismatch.names]
        missing = mismatch.trouble or "neither problem nor values are in the log"
        summary = f"{said} {missing[0].upper()}{missing[1:]}: cannot tell rounding from a fault."
        return describe_mismatch(mismatch, "undecided", summary, sides, "not rebuilt")
    progress("simulating what each mechanism gives", 0.0)
    table = simulations.list_fingerprints(mismatch.problem)
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


def _find_logged_share(metrics: Metrics) -> float | None:
    """The largest logged difference in shares of the largest logged value; None without a logged scale."""
    difference, largest = metrics.max_abs, metrics.largest_value
    if difference is None or largest is None or not 0 < difference < math.inf or not 0 < largest < math.inf:
        return None
    share = difference / largest
    return share if 0 < share < math.inf else None


def _find_nearest(share: float, table: list[Fingerprint]) -> Fingerprint | None:
    """The mechanism whose share is nearest to the logged one, on a scale of factors."""
    factors = [(abs(math.log(f.share) - math.log(share)), f) for f in table]
    factor, nearest = min(factors, key=lambda pair: pair[0], default=(math.inf, None))
    return nearest if factor < math.log(thresholds.NEAREST_FACTOR) else None
