"""Suspects that sum right and finish otherwise: bias, epilogue, a per-channel factor and shift."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from samebits.formats.format import find_format
from samebits.problems import Problem
from samebits.suspects.study import Floats, Sample, Study
from samebits.suspects.suspect import Suspect

_FEWEST_PER_CHANNEL = 8


def list_finishing_suspects(problem: Problem) -> Iterator[Suspect]:
    """What is known to go wrong after the sums."""
    if problem.direction != "forward":
        return
    if problem.bias:
        yield _bias("dropped-attribute", "leaves the bias out", lambda b: np.zeros_like(b))
        yield _bias("fusion", "adds the bias twice", lambda b: b + b)
        yield _bias("fusion", "subtracts the bias", lambda b: -b)
        if problem.c_out > 1:
            yield _bias("strided-view", "adds the first bias to all channels", lambda b: np.full_like(b, b[0]))
            for by in (1, -1):
                yield _bias(
                    "strided-view", f"adds the bias of the channel {by:+d} away", lambda b, by=by: np.roll(b, -by)
                )
        if problem.then:
            yield _then("fusion", "adds the bias after the epilogue", lambda study, s: _late_bias(study, s))
    then = problem.then
    if then is not None:
        yield _then("fusion", f"leaves out the {then.name}", lambda study, s: _with_bias(study, s))
        if then.name == "clip" and np.isfinite(then.low):
            yield _then(
                "fusion", "loses the clip's upper bound", lambda study, s: np.maximum(_with_bias(study, s), then.low)
            )
        if then.name == "clip" and np.isfinite(then.high):
            yield _then(
                "fusion", "loses the clip's lower bound", lambda study, s: np.minimum(_with_bias(study, s), then.high)
            )
        if then.name == "relu":
            yield _then("fusion", "clips at 6 as well (relu6)", lambda study, s: np.clip(_with_bias(study, s), 0, 6))
    else:
        yield _then(
            "fusion", "applies a relu that was not asked for", lambda study, s: np.maximum(_with_bias(study, s), 0)
        )
        yield _then("fusion", "clips to 0 ... 6 unasked", lambda study, s: np.clip(_with_bias(study, s), 0, 6))


def list_fitted_suspects(problem: Problem) -> Iterator[Suspect]:
    """What has free numbers, and so comes last: a factor and a shift for every channel."""
    if problem.direction == "forward":
        says = "scales and shifts every channel by its own numbers (a normalisation folded wrongly)"
        unit = float(find_format(problem.out).unit_roundoff)
        yield Suspect("fusion", "wrong", says, _fit_channels, unit=2 * unit)


def _bare(study: Study, sample: Sample) -> Floats:
    return sample.pick(study.bare_sums())


def _with_bias(study: Study, sample: Sample) -> Floats:
    sums = _bare(study, sample)
    return sums + study.operands["bias"].astype(np.float64)[sample.rows][:, None] if study.problem.bias else sums


def _late_bias(study: Study, sample: Sample) -> Floats:
    return study.apply_epilogue(_bare(study, sample)) + study.operands["bias"].astype(np.float64)[sample.rows][:, None]


def _then(cause: str, says: str, values: Callable[[Study, Sample], Floats]) -> Suspect:
    return Suspect(cause, "wrong", says, values)


def _bias(cause: str, says: str, change: Callable[[np.ndarray], np.ndarray]) -> Suspect:
    def predict(study: Study, sample: Sample) -> Floats:
        return study.finish(_bare(study, sample), sample, change(study.operands["bias"].astype(np.float64)))

    def reenact(study: Study) -> tuple[Problem, dict[str, np.ndarray]]:
        bias = study.operands["bias"]
        return study.problem, {**study.operands, "bias": change(bias).astype(bias.dtype)}

    return Suspect(cause, "wrong", says, predict, reenact)


def _fit_channels(study: Study, sample: Sample) -> Floats | None:
    """a T + b for each channel, fitted to the result; None where too few values leave a fit no surprise."""
    sums = _with_bias(study, sample)
    given = sample.pick(study.result).astype(np.float64)
    fitted = np.empty_like(sums)
    for r in range(len(sums)):
        usable = np.isfinite(given[r]) & np.isfinite(sums[r])
        if study.problem.then is not None:
            usable &= (given[r] > study.problem.then.low) & (given[r] < study.problem.then.high)
        if usable.sum() < _FEWEST_PER_CHANNEL:
            return None
        # Columns of one size, or the solver would drop the smaller.
        size = float(np.abs(sums[r][usable]).max()) or 1.0
        design = np.stack([sums[r][usable], np.full(int(usable.sum()), size)], axis=1)
        factor, shift = np.linalg.lstsq(design, given[r][usable], rcond=None)[0]
        if factor == 0 or np.ptp(given[r][usable]) == 0:
            return None
        fitted[r] = factor * sums[r] + shift * size
    return study.apply_epilogue(fitted)
