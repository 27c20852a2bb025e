"""How near a prediction comes to a recorded result, and how much a fit would tell.

No tolerance is involved: distances are shares of each output's own sum of magnitudes, and the yardstick is the distance
of the truth itself, or of the plainest sum in the declared formats.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.judging.measuring import measure_absolute
from samebits.mechanisms.arithmetic.arithmetic import list_order_hypotheses
from samebits.mechanisms.facts.observation import Floats, Observation, Sample, gather_terms
from samebits.numbers.format import find_format
from samebits.numbers.ulps import mark_differing_bits
from samebits.sums.bounds import accumulator_format

# Recipes are compared with the plain sum on so many rows and positions.
PLAIN_ROWS, PLAIN_POSITIONS = 8, 64
# Sums of other orders are made of at most so many products, so many at once.
_MOST_PRODUCTS, _MOST_AT_ONCE, _SEED = 500_000_000, 8_000_000, 11


def measure_nearness(observation: Observation, sample: Sample, predicted: Floats) -> float:
    """The root of the mean squared distance of a prediction, in shares of each output's sum of magnitudes.

    At most 1: where a prediction is not finite, or far off, an output counts as one whole magnitude.
    """
    given = sample.pick(observation.result).astype(np.float64)
    scale = _pick_scale(observation, sample)
    with np.errstate(all="ignore"):
        away = np.abs(given - predicted) / scale
    away[(given == predicted) | (np.isnan(given) & np.isnan(predicted))] = 0.0
    away = np.minimum(np.nan_to_num(away, nan=1.0, posinf=1.0), 1.0)
    return float(np.sqrt(np.mean(away**2)))


def measure_size(observation: Observation, sample: Sample, predicted: Floats) -> float:
    """The root of the mean squared size of a prediction, in shares of each output's sum of magnitudes."""
    with np.errstate(all="ignore"):
        squares = (predicted / _pick_scale(observation, sample)) ** 2
    return float(np.sqrt(np.mean(np.where(np.isfinite(squares), squares, 0.0))))


def _pick_scale(observation: Observation, sample: Sample) -> Floats:
    """The sums of magnitudes of a sample; where there is hardly any, a small share of the usual one."""
    scale = sample.pick(observation.magnitudes)
    usual = float(np.mean(scale[np.isfinite(scale)])) if np.isfinite(scale).any() else 1.0
    return np.maximum(scale, usual * thresholds.SMALLEST_SHARE or 1e-300)


def measure_nearness_of_truth(observation: Observation, sample: Sample) -> float:
    """The nearness of the declared function itself, which a hypothesis has to improve on."""
    return measure_nearness(observation, sample, sample.pick(observation.truth).astype(np.float64))


def measure_plain_noise(observation: Observation, sample: Sample) -> float:
    """The distance from the truth that rounding alone makes: that of the plainest sum in the declared formats.

    Storing the result adds an error in proportion to the result's own size, which may differ from the truth's.
    """
    few = sample.thin(PLAIN_ROWS, PLAIN_POSITIONS)
    plain = next(list_order_hypotheses(observation.problem)).predict(observation, few)
    if plain is None:
        return 0.0
    truth, given = (few.pick(a).astype(np.float64) for a in (observation.truth, observation.result))
    scale = _pick_scale(observation, few)
    # Predictions are not rounded to the result's format, results are: uniformly within half a unit.
    last = float(find_format(observation.problem.out).unit_roundoff) * np.abs(given) / scale
    away = measure_absolute(plain, truth) / scale
    squares = away**2 + last**2 / 3
    return float(np.sqrt(np.mean(np.where(np.isfinite(squares), squares, 0.0))))


def sum_in_orders(observation: Observation, sample: Sample) -> list[Floats]:
    """float32 sums of float32 products one after the other, forwards, backwards and mixed: all are sound.

    Where data have few distinct values, errors of such sums are not independent of each other: whatever is concluded
    from errors must not hold of these. Each is a finished result, [rows, positions]; an empty list of float64 problems
    and of sums too long for it.
    """
    terms = sample.terms
    each = len(sample.rows) * terms.count
    if accumulator_format(observation.problem).name != "float32" or each * len(sample.positions) > _MOST_PRODUCTS:
        return []
    mixed = np.random.default_rng(_SEED).permutation(terms.count)
    bare, step = replace(observation, stored=None), max(_MOST_AT_ONCE // each, 1)
    sums = np.empty((3, len(sample.rows), len(sample.positions)))
    for start in range(0, len(sample.positions), step):
        some = replace(sample, positions=sample.positions[start : start + step])
        weights, met = gather_terms(terms, observation.operands[terms.rows_operand],
                                    observation.operands[terms.source_operand], some)  # fmt: skip
        with np.errstate(all="ignore"):
            products = weights.astype(np.float32)[:, None] * met.astype(np.float32)
            for n, ordered in enumerate((products, products[..., ::-1], products[..., mixed])):
                sums[n, :, start : start + step] = np.cumsum(ordered, axis=-1, dtype=np.float32)[..., -1]
    with np.errstate(all="ignore"):
        return [bare.finish(s, sample).astype(np.float32).astype(np.float64) for s in sums]


def rounds_alike(observation: Observation, over_likely: float) -> bool:
    """Whether plain sums of the same data exceed the likely bound as far: with few values all are rounded alike."""
    if observation.likely is None:
        return False
    sample = observation.choose_sample().thin(PLAIN_ROWS, PLAIN_POSITIONS)
    truth, likely = sample.pick(observation.truth).astype(np.float64), sample.pick(observation.likely)
    with np.errstate(all="ignore"):
        plain = [float((measure_absolute(s, truth) / likely).max()) for s in sum_in_orders(observation, sample)]
    return any(p > 1 and over_likely <= thresholds.ALIKE * p for p in plain)


def measure_telling_steps(observation: Observation) -> Floats:
    """The distances, in steps, of outputs that differ from the truth; equal outputs count once.

    Where there are few of them a hypothesis may fit them by chance. A step is what one addition may be off by: the
    accumulator's precision of the sum of magnitudes, or the result's own precision; 1 where either is NaN or infinite.
    """
    differing = mark_differing_bits(observation.result, observation.truth)
    arrays = (observation.result, observation.truth, observation.magnitudes)
    values = np.stack([a[differing].astype(np.float64) for a in arrays])
    _, first = np.unique(values, axis=1, return_index=True)
    given, truth, magnitudes = values[:, first]
    problem = observation.problem
    units = [float(f.unit_roundoff) for f in (accumulator_format(problem), find_format(problem.out))]
    with np.errstate(all="ignore"):
        steps = np.abs(given - truth) / np.maximum(magnitudes * units[0], np.abs(truth) * units[1])
    return np.where(np.isfinite(steps), steps, 1.0)


def count_telling_bits(steps: Floats) -> float:
    """How many bits a recipe must get right that the truth does not: log2(1 + its distance) for each output."""
    return float(np.log2(1 + steps).sum())


def is_as_close_as_a_plain_sum(
    observation: Observation, sample: Sample, left_out: npt.NDArray[np.bool_] | None = None, *, times: float
) -> bool:
    """Whether the result is at most `times` as far from the truth as the plainest sum in the declared formats.

    `left_out` marks outputs that do not count. Outputs where the plain sum is NaN or infinite do not count either.
    """
    few = sample.thin(PLAIN_ROWS, PLAIN_POSITIONS)
    plain = next(list_order_hypotheses(observation.problem)).predict(observation, few)
    if plain is None:
        return False
    truth, scale = few.pick(observation.truth).astype(np.float64), _pick_scale(observation, few)
    counts = np.isfinite(truth) & np.isfinite(plain) & np.isfinite(scale)
    if left_out is not None:
        counts &= ~few.pick(left_out)
    away = few.pick(observation.distances.absolute)[counts] / scale[counts]
    usual = measure_absolute(plain, truth)[counts] / scale[counts]
    return len(usual) > 0 and bool(np.linalg.norm(away) <= times * np.linalg.norm(usual))
