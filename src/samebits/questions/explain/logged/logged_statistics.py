"""Logs that print statistics only: what each mechanism would have given, if the problem is known."""

from __future__ import annotations

import math

import numpy as np

from samebits import thresholds
from samebits.findings import Comparison, Evidence
from samebits.findings.causes import CauseCode
from samebits.numbers.format import find_format
from samebits.progress import Progress
from samebits.questions.explain.log_sentences import say_allowed, say_metrics
from samebits.questions.explain.logged.logged_pairs import SeenPairs, read_pairs
from samebits.questions.explain.logged.logged_sides import NAME_IT, RECORD, describe_logged_side, describe_mismatch
from samebits.questions.explain.logged.logged_simulation import Fingerprint, Simulations
from samebits.questions.explain.logs import Metrics, Mismatch
from samebits.questions.explain.logs.tensorrt import BUILD_LINE

_MOST_NEAREST = 3


def explain_statistics(mismatch: Mismatch, simulations: Simulations, progress: Progress) -> Comparison:
    """A mismatch of which only counts and largest differences are printed."""
    if mismatch.metrics is None and mismatch.trouble:
        sides = [describe_logged_side(n, "undecided", [Evidence("statistic", RECORD)]) for n in mismatch.names]
        summary = f"{mismatch.trouble[0].upper()}{mismatch.trouble[1:]}: not compared."
        return describe_mismatch(mismatch, "undecided", summary, sides, "not in the file")
    metrics = mismatch.metrics or Metrics()
    shown = say_metrics(metrics)
    said = f"{shown[0].upper()}{shown[1:]}."
    evidence = [Evidence("statistic", shown)]
    if BUILD_LINE in mismatch.facts:
        allowed = say_allowed(mismatch)
        evidence.append(Evidence("setting", f"line {mismatch.facts[BUILD_LINE]}: TensorRT {allowed}"))
        said += f" TensorRT {allowed}."
    seen = read_pairs(mismatch.pairs, mismatch.names, mismatch.printed_room)
    evidence += [Evidence("statistic", s) for s in seen.says]
    if seen.says:
        said += f" {seen.says[0][0].upper()}{seen.says[0][1:]}."
    if mismatch.beyond or (mismatch.has_reference and seen.beyond_rounding and seen.side == 0):
        return _describe_against_reference(mismatch, evidence, seen)
    if mismatch.problem is None:
        evidence += [Evidence("statistic", NAME_IT), Evidence("statistic", RECORD)]
        cause = CauseCode.RESULT_ROUNDING if seen.rounds else None
        sides = [
            describe_logged_side(name, "undecided", evidence, cause=cause if side == seen.side else None)
            for side, name in enumerate(mismatch.names)
        ]
        summary = f"{said} {_say_missing(mismatch, seen.says)}"
        return describe_mismatch(mismatch, "undecided", summary, sides, "not rebuilt", cause)
    progress("simulating what each mechanism gives", 0.0)
    table = simulations.list_fingerprints(mismatch.problem)
    share, by_rms = _find_logged_share(metrics), metrics.rms_share is not None
    rows = "; ".join(f"{f.says} {f.root_mean_square if by_rms else f.share:.1e}" for f in table)
    what = "root mean square of the errors" if by_rms else "largest error"
    evidence.append(Evidence("statistic", f"{what} of each on normal data, in shares of the largest output: {rows}"))
    if metrics.rms_share is not None:
        most = max((f.root_mean_square for f in table), default=0.0)
        if metrics.rms_share > thresholds.NEAREST_FACTOR * most and table:
            return _describe_beyond(mismatch, evidence, metrics.rms_share, most)
    nearest = _find_nearest(share, table, metrics) if share else []
    named = " or ".join(f.says for f in nearest)
    if nearest:
        evidence.append(Evidence("statistic", f"statistics suggest {named}: the logged share is {share:.1e}"))
    evidence.append(Evidence("statistic", RECORD))
    sides = [describe_logged_side(n, "undecided", evidence) for n in mismatch.names]
    suggestion = f" Statistics suggest {named}." if nearest else ""
    summary = f"{said}{suggestion} Statistics cannot show which side is right."
    causes = {f.cause for f in nearest}
    cause = nearest[0].cause if len(causes) == 1 else None
    return describe_mismatch(mismatch, "undecided", summary, sides, "simulated on normal data", cause)


def _find_logged_share(metrics: Metrics) -> float | None:
    """The largest logged difference in shares of the largest logged value; None without a logged scale."""
    if metrics.rms_share is not None:
        return metrics.rms_share if 0 < metrics.rms_share < math.inf else None
    difference, largest = metrics.max_abs, metrics.largest_value
    if difference is None or largest is None or not 0 < difference < math.inf or not 0 < largest < math.inf:
        return None
    share = difference / largest
    return share if 0 < share < math.inf else None


def _describe_beyond(mismatch: Mismatch, evidence: list[Evidence], share: float, most: float) -> Comparison:
    """Differences far larger than any rounding of the declared formats, or of narrower operands, makes."""
    name, reference = mismatch.names
    says = (
        f"differences of {share:.2g} of the largest value are {share / most:.2g} times what the narrowest of these"
        " mechanisms makes: no rounding does that on data of either sign"
    )
    sides = [
        describe_logged_side(name, "wrong", [*evidence, Evidence("statistic", says)], says="computes another function"),
        describe_logged_side(reference, "undecided", [Evidence("statistic", RECORD)]),
    ]
    summary = f"{name} computes another function, if {reference} is right: no rounding is so large (inferred)."
    return describe_mismatch(mismatch, "wrong", summary, sides, "simulated on normal data")


def _describe_against_reference(mismatch: Mismatch, evidence: list[Evidence], seen: SeenPairs) -> Comparison:
    """The tool's own reference has other numbers, by more than rounding makes or in a way that no rounding does."""
    name, reference = mismatch.names
    how = seen.says[0] if seen.says else "it is farther from the reference than any rounding takes it"
    evidence += [Evidence("statistic", mismatch.beyond)] if mismatch.beyond else []
    sides = [
        describe_logged_side(name, "wrong", evidence, says="computes another function"),
        describe_logged_side(reference, "undecided", [Evidence("statistic", RECORD)]),
    ]
    summary = f"{name} computes another function, if {reference} is right: {how} (inferred)."
    return describe_mismatch(mismatch, "wrong", summary, sides, "not rebuilt")


def _find_nearest(share: float, table: list[Fingerprint], metrics: Metrics) -> list[Fingerprint]:
    """The mechanisms whose share is nearest to the logged one, on a scale of factors: all that are about as near."""
    own = ((f.share if metrics.rms_share is None else f.root_mean_square, f) for f in table)
    factors = [(abs(math.log(size) - math.log(share)), f) for size, f in own if size > 0]
    least = min((factor for factor, _ in factors), default=math.inf)
    if least >= math.log(thresholds.NEAREST_FACTOR):
        return []
    near = [(factor, f) for factor, f in factors if factor <= least + math.log(thresholds.ABOUT_AS_NEAR)]
    return [f for _, f in sorted(near, key=lambda pair: pair[0])[:_MOST_NEAREST]]


def _say_missing(mismatch: Mismatch, seen: tuple[str, ...]) -> str:
    """A sentence that says what the log lacks."""
    if mismatch.trouble:
        return f"{mismatch.trouble[0].upper()}{mismatch.trouble[1:]}: cannot tell rounding from a fault."
    if seen:
        return "Which side is right cannot be told without the problem and its operands."
    count = len(mismatch.pairs)
    if not count:
        return "Neither problem nor values are in the log: cannot tell rounding from a fault."
    pairs = f"{count} pair{'s' * (count > 1)} of values"
    return f"The log names no problem, and {pairs} alone cannot tell rounding from a fault."


_DATA = "benchdnn's: integers whose sums are exact in any order"


def explain_exact_values(mismatch: Mismatch, simulations: Simulations, progress: Progress) -> Comparison:
    """A failure of benchdnn, whose operands are integers small enough that nothing is rounded before the result.

    The reference is exact there; a result more than a rounding away from it was not computed by the declared function.
    """
    problem = mismatch.problem
    expected, got = (np.array([p[i] for p in mismatch.pairs]) for i in (2, 1))
    whole = np.isfinite(expected) & (expected == np.rint(expected))
    unit = 2 * float(find_format(problem.out if problem else "float32").unit_roundoff)
    off = whole & ~(np.abs(got - expected) <= unit * np.abs(expected))
    if not off.any():
        return explain_statistics(mismatch, simulations, progress)
    name, reference = mismatch.names
    first = int(np.flatnonzero(off)[0])
    says = (
        f"{int(off.sum())} of {len(expected)} printed values are not the exact integers, as element"
        f" {mismatch.pairs[first][0]:,}: {got[first]:g} for {expected[first]:g}; benchdnn's operands are integers"
        " whose sums no order of addition changes"
    )
    evidence = [Evidence("statistic", says)]
    if mismatch.metrics is not None:
        evidence.append(Evidence("statistic", say_metrics(mismatch.metrics)))
    sides = [
        describe_logged_side(name, "wrong", evidence, says="computes another function"),
        describe_logged_side(reference, "rounding", evidence[:1], says="has the exact integers"),
    ]
    summary = f"{name} computes another function: exact integers come out otherwise (inferred; nothing was rerun)."
    return describe_mismatch(mismatch, "wrong", summary, sides, _DATA)
