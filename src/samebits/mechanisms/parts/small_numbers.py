"""Results that lost subnormal numbers: zeros in their place, or errors that losing them can cause."""

from __future__ import annotations

import numpy as np

from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.facts.observation import Observation
from samebits.numbers.format import find_format

_SAYS = "takes subnormal numbers for zero"
# Narrower exponent ranges have smallest normal numbers that are no small thing: such a bound would excuse anything.
_LEAST_EXPONENT_BITS = 8


def explain_lost_subnormals(observation: Observation) -> Mechanism | None:
    """Zeros in place of subnormal results, and nothing else beyond its bound."""
    given, truth = observation.result.astype(np.float64), observation.truth.astype(np.float64)
    least = 2.0 ** find_format(observation.problem.out).smallest_normal_exponent
    beyond = observation.distances.over_bound > 1.0
    lost = (given == 0) & (truth != 0) & (np.abs(truth) < least)
    if not beyond.any() or (beyond & ~lost).any():
        return None
    return _found(
        f"{int(lost.sum()):,} outputs are zero, the truth is below {least:.3g}; others are within their bound"
    )


def explain_flush(observation: Observation) -> Mechanism | None:
    """Losses that taking subnormal operands, products or sums for zero can cause, where nothing else explains them."""
    problem, format_ = observation.problem, find_format(observation.problem.out)
    if format_.exponent_bits < _LEAST_EXPONENT_BITS:
        return None
    given, truth = observation.result.astype(np.float64), observation.truth.astype(np.float64)
    least = 2.0**format_.smallest_normal_exponent
    largest = [float(np.abs(a.astype(np.float64)).max()) for n, a in observation.operands.items() if n != "bias"]
    with np.errstate(all="ignore"):
        # Every product and sum loses less than the smallest normal number, an operand that times the other operand.
        lost = least * (2 * problem.reduction_length + 2 + problem.reduction_length * sum(largest))
    beyond = observation.distances.over_bound > 1.0
    zeros = int(((given == 0) & (truth != 0)).sum())
    operands = observation.operands.values()
    small = any(((a != 0) & (np.abs(a.astype(np.float64)) < least)).any() for a in operands)
    explained = np.isfinite(lost) and bool((observation.distances.absolute <= observation.bound + lost).all())
    if not beyond.any() or not (zeros or small) or not explained:
        return None
    return _found(
        f"{int(beyond.sum()):,} outputs are farther from the truth than rounding can take them, but no farther than"
        f" losing numbers below {least:.3g} can; {zeros:,} are zero where the truth is not"
    )


def _found(evidence: str) -> Mechanism:
    return Mechanism(CauseCode.SUBNORMALS, "downgrade", _SAYS, "bound", evidence=(Evidence("structure", evidence),))
