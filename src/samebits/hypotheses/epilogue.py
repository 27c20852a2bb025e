"""Hypotheses that sum right and finish otherwise: bias, epilogue, a per-channel factor and shift."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.formats.format import find_format
from samebits.hypotheses.hypothesis import Hypothesis
from samebits.hypotheses.observation import Floats, Observation, Sample
from samebits.judging import thresholds
from samebits.judging.measuring import mark_unclipped
from samebits.problems import Problem


def list_epilogue_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """What is known to go wrong after the sums."""
    if problem.direction != "forward":
        return
    if problem.bias:
        yield _bias(CauseCode.DROPPED_ATTRIBUTE, "leaves the bias out", lambda b: np.zeros_like(b))
        yield _bias(CauseCode.FUSION, "adds the bias twice", lambda b: b + b)
        yield _bias(CauseCode.FUSION, "subtracts the bias", lambda b: -b)
        if problem.c_out > 1:
            yield _bias(CauseCode.STRIDED_VIEW, "adds the first bias to all channels", lambda b: np.full_like(b, b[0]))
            for by in (1, -1):
                yield _bias(
                    CauseCode.STRIDED_VIEW,
                    f"adds the bias of the channel {by:+d} away",
                    lambda b, by=by: np.roll(b, -by),
                )
        if problem.then:
            yield _then(CauseCode.FUSION, "adds the bias after the epilogue", lambda o, s: _late_bias(o, s))
    then = problem.then
    if then is not None:
        yield _then(CauseCode.FUSION, f"leaves out the {then.name}", lambda o, s: o.sum_with_bias(s))
        if then.name == "clip" and np.isfinite(then.low):
            yield _then(
                CauseCode.FUSION,
                "loses the clip's upper bound",
                lambda o, s: np.maximum(o.sum_with_bias(s), then.low),
            )
        if then.name == "clip" and np.isfinite(then.high):
            yield _then(
                CauseCode.FUSION,
                "loses the clip's lower bound",
                lambda o, s: np.minimum(o.sum_with_bias(s), then.high),
            )
        if then.name == "relu":
            yield _then(CauseCode.FUSION, "clips at 6 as well (relu6)", lambda o, s: np.clip(o.sum_with_bias(s), 0, 6))
    else:
        yield _then(
            CauseCode.FUSION,
            "applies a relu that was not asked for",
            lambda o, s: np.maximum(o.sum_with_bias(s), 0),
        )
        yield _then(CauseCode.FUSION, "clips to 0 ... 6 unasked", lambda o, s: np.clip(o.sum_with_bias(s), 0, 6))


def list_fitted_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """What has free numbers, and so comes last: a factor and a shift for every channel."""
    if problem.direction == "forward":
        says = "scales and shifts every channel by its own numbers (a normalisation folded wrongly)"
        unit = float(find_format(problem.out).unit_roundoff)
        yield Hypothesis(CauseCode.FUSION, "wrong", says, _fit_channels, unit=2 * unit, fitted=True)


def _bare(observation: Observation, sample: Sample) -> Floats:
    return sample.pick(observation.bare_sums())


def _late_bias(observation: Observation, sample: Sample) -> Floats:
    return (
        observation.apply_epilogue(_bare(observation, sample))
        + observation.operands["bias"].astype(np.float64)[sample.rows][:, None]
    )


def _then(cause: CauseCode, says: str, values: Callable[[Observation, Sample], Floats]) -> Hypothesis:
    return Hypothesis(cause, "wrong", says, values)


def _bias(cause: CauseCode, says: str, change: Callable[[np.ndarray], np.ndarray]) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats:
        return observation.finish(
            _bare(observation, sample), sample, change(observation.operands["bias"].astype(np.float64))
        )

    def alter(observation: Observation) -> tuple[Problem, dict[str, np.ndarray]]:
        bias = observation.operands["bias"]
        return observation.problem, {**observation.operands, "bias": change(bias).astype(bias.dtype)}

    return Hypothesis(cause, "wrong", says, predict, alter)


def _fit_channels(observation: Observation, sample: Sample) -> Floats | None:
    """a T + b for each channel, fitted to the result; None where too few values leave a fit no surprise.

    Of channels with hardly any value that is not clipped nothing is claimed.
    """
    sums = observation.sum_with_bias(sample)
    given = sample.pick(observation.result).astype(np.float64)
    usable = mark_unclipped(observation.problem, given) & np.isfinite(sums)
    # The channels of some products are positions.
    turned = observation.problem.stated is not None and observation.terms.rows_operand == "x"
    if turned:
        sums, given, usable = sums.T, given.T, usable.T
    fitted, told = given.copy(), 0
    for r in np.flatnonzero(usable.sum(axis=1) >= thresholds.FEWEST_PER_CHANNEL):
        own = usable[r]
        # Columns of one size, or the solver would drop the smaller.
        size = float(np.abs(sums[r][own]).max()) or 1.0
        design = np.stack([sums[r][own], np.full(int(own.sum()), size)], axis=1)
        factor, shift = np.linalg.lstsq(design, given[r][own], rcond=None)[0]
        if factor == 0 or np.ptp(given[r][own]) == 0:
            return None
        fitted[r] = factor * sums[r] + shift * size
        told += 1
    if told < len(sums) / 2:
        return None
    return observation.apply_epilogue(fitted.T if turned else fitted)
