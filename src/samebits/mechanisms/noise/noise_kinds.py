"""Which kind of rounding made errors so large in each output: of sums, results, operands, or of a transform."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from samebits import thresholds
from samebits.findings.causes import CauseCode
from samebits.mechanisms.facts.observation import Floats, Observation, Sample
from samebits.mechanisms.noise.error_structure import MEAN_SQUARE, ErrorNoise, list_partial_sums, measure_errors
from samebits.mechanisms.transforms.transform_sizes import Plane, find_plane, list_fourier_sizes, list_winograd_sizes

_ROWS, _MOST_PRODUCTS, _SEED = 24, 3_000_000, 9
_FEWEST_POSITIONS, _MOST_POSITIONS = 48, 1600
_FACTORS = np.geomspace(1 / 16, 2, 41)


@dataclass(frozen=True)
class Kind:
    """A kind of rounding: its cause where it is that of a transform or of sums, in words, and its log-likelihood.

    `bits` are those that numbers would have whose roundings are so large, `fourth` the fourth moment of the errors in
    shares of what they would be: 3 of normal ones, much more where single errors are other ones.
    """

    cause: CauseCode | None
    says: str
    likelihood: float
    bits: float = 0.0
    fourth: float = math.inf

    def is_rounding(self) -> bool:
        """Whether errors are no larger than the coarsest format's roundings, and no single ones decide."""
        return self.bits >= thresholds.FEWEST_NOISE_BITS and self.fourth <= thresholds.MOST_FOURTH


def rank_kinds(observation: Observation) -> list[Kind]:
    """The kinds of rounding that may have made the errors, the likeliest first; none where too few outputs tell."""
    terms = observation.terms
    every = np.arange(terms.groups * terms.rows)
    rows = every[np.unique(np.linspace(0, len(every) - 1, min(_ROWS, len(every))).astype(int))]
    plane = None if observation.problem.stated is not None else find_plane(observation, rows)
    if plane is None:
        return []
    sample, columns = _choose(observation, plane)
    noise = measure_errors(observation, sample, any_size=True)
    if noise is None:
        return []
    kinds = [fit_kind(noise, None, "operands", v) for v in list_operand_sizes(noise)]
    truth = sample.pick(observation.truth).astype(np.float64)
    kinds.append(fit_kind(noise, None, "results", truth**2))
    sums = list(list_partial_sums(noise))[1:]
    kinds += [fit_kind(noise, CauseCode.LOW_PRECISION_ACCUMULATOR, "sums", v) for v in sums]
    for cause, listed in (
        (CauseCode.WINOGRAD, list_winograd_sizes(plane)),
        (CauseCode.FFT, list_fourier_sizes(plane)),
    ):
        kinds += [fit_kind(noise, cause, says, v.reshape(len(rows), -1)[:, columns]) for says, v in listed]
    return sorted(kinds, key=lambda kind: -kind.likelihood)


def _choose(observation: Observation, plane: Plane) -> tuple[Sample, np.ndarray]:
    """Some outputs of the plane, and which of its columns [batch * outputs] they are."""
    terms = observation.terms
    grid = np.arange(math.prod(terms.outputs)).reshape(terms.outputs)[tuple(slice(n) for n in plane.outputs)]
    positions = (np.arange(terms.batch)[:, None] * math.prod(terms.outputs) + grid.reshape(1, -1)).reshape(-1)
    most = min(max(_MOST_PRODUCTS // (len(plane.rows) * terms.count), _FEWEST_POSITIONS), _MOST_POSITIONS)
    columns = np.sort(np.random.default_rng(_SEED).permutation(len(positions))[:most])
    return Sample(terms, plane.rows, positions[columns]), columns


def list_operand_sizes(noise: ErrorNoise) -> list[Floats]:
    """Squared error sizes of operands off by shares of themselves, by one step, or by one for each row or position."""
    weights, met = np.abs(noise.weights), noise.met
    shape = noise.errors.shape
    of_met, of_weights = (met**2).sum(axis=-1), (weights**2).sum(axis=1)[:, None]
    sizes = [(noise.products**2).sum(axis=(2, 3)), of_met, of_met * weights.max(axis=1)[:, None] ** 2, of_weights]
    sizes.append(of_met * of_weights)
    return [np.broadcast_to(v, shape) for v in sizes]


def fit_kind(noise: ErrorNoise, cause: CauseCode | None, says: str, sizes: Floats) -> Kind:
    """The log-likelihood of the errors if their squares are so large times a factor, and the best factor."""
    told = noise.told & (sizes > 0)
    # An error where there can be none excludes a kind.
    if not told.any() or (noise.errors[noise.told & ~told] != 0).any():
        return Kind(cause, says, -math.inf)
    squares, size, last = noise.errors[told] ** 2, sizes[told], noise.last[told]
    scale = float(np.mean(squares / size))
    best, found = -math.inf, scale
    for factor in scale * _FACTORS:
        variance = factor * size + last
        likelihood = -0.5 * float((np.log(variance) + squares / variance).sum())
        if likelihood > best:
            best, found = likelihood, float(factor)
    shares = squares / (found * size + last)
    fourth = float((shares**2).mean() / shares.mean() ** 2) if shares.any() else math.inf
    return Kind(cause, says, best, -math.log2(math.sqrt(found / MEAN_SQUARE)) if found > 0 else 0.0, fourth)
