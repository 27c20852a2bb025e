"""Verifiers that compute with small integers: no order of addition changes these sums, so a difference is a fault."""

from __future__ import annotations

import numpy as np

from samebits.findings import Comparison, Evidence
from samebits.numbers.format import find_format
from samebits.progress import Progress
from samebits.questions.explain.log_sentences import say_metrics
from samebits.questions.explain.logged.logged_sides import describe_logged_side, describe_mismatch
from samebits.questions.explain.logged.logged_simulation import Simulations
from samebits.questions.explain.logged.logged_statistics import explain_statistics
from samebits.questions.explain.logs import Mismatch

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
