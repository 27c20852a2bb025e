"""Weights that differ from the recorded by a matrix of low rank, as by an adapter that was merged, or was not."""

from __future__ import annotations

import numpy as np

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.facts.observation import Observation, Sample, gather_source

_ROWS, _POSITIONS = 256, 1024
# Of what errors could have for their rank; errors for each number that is fitted.
_SHARE, _FEWEST_ERRORS = 1 / 3, 2.0


def explain_low_rank(observation: Observation) -> Mechanism | None:
    """Errors [channels, positions] of a rank far below what rounding, or other operands altogether, give them.

    Of roundings the errors have as high a rank as fits; wrong channels, or wrong positions, alone have theirs.
    """
    terms = observation.terms
    sample = Sample(terms, np.arange(terms.rows), np.arange(terms.positions)).thin(_ROWS, _POSITIONS)
    given, truth, bound = (
        sample.pick(a).astype(np.float64) for a in (observation.result, observation.truth, observation.bound)
    )
    errors, wrong = given - truth, np.abs(given - truth) > bound
    told = mark_unclipped(observation.problem, given) & mark_unclipped(observation.problem, truth)
    if not told.all() or not np.isfinite(errors).all() or wrong.sum() < thresholds.FEWEST_TELLING:
        return None
    most = int(_SHARE * min(wrong.any(axis=1).sum(), wrong.any(axis=0).sum(), terms.count))
    left, sizes, right = np.linalg.svd(errors, full_matrices=False)
    for rank in range(1, most + 1):
        if errors.size < _FEWEST_ERRORS * rank * sum(errors.shape):
            return None
        fitted = (left[:, :rank] * sizes[:rank]) @ right[:rank]
        if (np.abs(errors - fitted) <= bound).all():
            break
    else:
        return None
    # Other weights make errors that are sums of what each output meets; of fewer outputs than products all are.
    if len(sample.positions) > terms.count:
        source = terms.view_source(observation.operands[terms.source_operand])
        met = gather_source(terms, source, 0, sample.positions)
        made = met @ np.linalg.lstsq(met, right[:rank].T, rcond=None)[0]
        if not (np.abs(errors - (left[:, :rank] * sizes[:rank]) @ made.T) <= bound).all():
            return None
        what = f"other {terms.rows_operand} than those on record"
    elif rank > 1:
        what = f"other operands than those on record, likely {terms.rows_operand}"
    else:
        return None
    says = f"multiplies {what}: what is added has rank {rank}, as of an adapter that was merged, or left out"
    channels, positions = errors.shape
    evidence = (
        f"the errors of {channels:,} channels at {positions:,} positions are a matrix of rank {rank}, to within each"
        " bound; roundings, and other operands altogether, leave a full rank"
    )
    return Mechanism(CauseCode.OTHER_OPERANDS, "wrong", says, "bound", evidence=(Evidence("structure", evidence),))
