"""The errors of some outputs of one group: are they linear in an operand, do they grow with partial sums?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.judging.measuring import mark_unclipped
from samebits.mechanisms.evidence.nearness import sum_in_orders
from samebits.mechanisms.facts.observation import Floats, Observation, Sample, gather_terms
from samebits.numbers.format import find_format

_ROWS, _POSITIONS, _MOST_PRODUCTS = 96, 192, 4_000_000
# Sums of so many products, or lanes, kept by themselves.
_BLOCKS, _LANES = (8, 32, 128), (4, 16)
_TURNS = 12
# The mean square of a rounding, in squares of the unit roundoff and of the value: mantissas are spread evenly in their
# logarithm.
MEAN_SQUARE = 0.16


def exceeds_likely(observation: Observation) -> bool:
    """Whether some error exceeds the likely error of the declared function; False where that is not known."""
    if observation.likely is None:
        return False
    with np.errstate(all="ignore"):
        return bool((observation.distances.absolute > observation.likely).any())


def choose_errors_sample(observation: Observation) -> Sample | None:
    """Rows of the first group at positions that are evenly spread, no more than can be gathered; None if too few."""
    terms = observation.terms
    few = Sample(terms, np.arange(terms.rows), np.arange(terms.positions)).thin(_ROWS, _POSITIONS)
    while len(few.rows) * len(few.positions) * terms.count > _MOST_PRODUCTS and len(few.positions) > _ROWS:
        few = few.thin(max(len(few.rows) * 3 // 4, 16), len(few.positions) * 3 // 4)
    enough = len(few.rows) * len(few.positions) >= thresholds.FEWEST_UNRELATED and terms.count > 1
    return few if enough else None


@dataclass(frozen=True)
class ErrorNoise:
    """Errors [rows, positions], which of them count, and what a result's own last rounding adds to their squares.

    `products` are [rows, positions, depth, volume], `met` [rows, positions, terms] and `weights` [rows, terms] their
    factors.
    """

    errors: Floats
    told: npt.NDArray[np.bool_]
    last: Floats
    products: Floats
    met: Floats
    weights: Floats


def measure_errors(observation: Observation, sample: Sample, *, any_size: bool = False) -> ErrorNoise | None:
    """The errors of a sample; None where too few tell, or they are no larger than plain sums' (unless `any_size`)."""
    terms = observation.terms
    weights, met = gather_terms(terms, observation.operands[terms.rows_operand],
                                observation.operands[terms.source_operand], sample)  # fmt: skip
    truth, given = (sample.pick(a).astype(np.float64) for a in (observation.truth, observation.result))
    products = weights[:, None, :] * met
    told = mark_unclipped(observation.problem, given) & np.isfinite(given) & (np.abs(products).sum(axis=2) > 0)
    if told.sum() < thresholds.FEWEST_UNRELATED or not np.isfinite(np.square(products[told]).sum()):
        return None
    errors = np.where(told, given - truth, 0.0)
    if not any_size and not _is_larger_than_plain(observation, sample, errors, told):
        return None
    last = MEAN_SQUARE * (float(find_format(observation.problem.out).unit_roundoff) * truth) ** 2
    shape = (*products.shape[:2], terms.depth, terms.volume)
    return ErrorNoise(errors, told, last, products.reshape(shape), met, weights)


def _is_larger_than_plain(
    observation: Observation, sample: Sample, errors: Floats, told: npt.NDArray[np.bool_]
) -> bool:
    """Whether errors exceed those of plain sums of the same products in each of several orders."""
    truth = sample.pick(observation.truth).astype(np.float64)
    plain = [np.where(told, s - truth, 0.0) for s in sum_in_orders(observation, sample)]
    most = max((float(np.sqrt(np.nanmean(p[told] ** 2))) for p in plain), default=0.0)
    return float(np.sqrt(np.mean(errors[told] ** 2))) > thresholds.PLAIN_TIMES * most


@dataclass(frozen=True)
class Followed:
    """The power of some size with which squared errors grow, and how many standard errors it is from zero."""

    slope: float
    sigmas: float


def follow_sizes(noise: ErrorNoise, sizes: Floats) -> Followed:
    """Fits how errors grow with sizes, without the effects of rows and positions: logarithms, by least squares.

    Errors linear in wrong operands are a factor of the row times one of the position.
    """
    told = noise.told & (sizes > 0) & (noise.errors != 0)
    free = int(told.sum()) - sum(told.shape)
    if free < thresholds.FEWEST_UNRELATED / 2:
        return Followed(0.0, 0.0)
    errors, along = (_take_apart(np.where(told, a, 1.0), told) for a in (noise.errors**2, sizes))
    square = float((along**2).sum())
    slope = float((errors * along).sum()) / square if square else 0.0
    spread = math.sqrt(float(((errors - slope * along) ** 2).sum()) / free / square) if square else 1.0
    return Followed(slope, slope / spread if spread else 0.0)


def _take_apart(values: Floats, told: npt.NDArray[np.bool_]) -> Floats:
    """Logarithms minus the means of their rows and positions, subtracted in turns; 0 outside of `told`."""
    left = np.where(told, np.log(values), 0.0)
    for _ in range(_TURNS):
        for axis in (1, 0):
            counts = np.maximum(told.sum(axis=axis, keepdims=True), 1)
            left = np.where(told, left - left.sum(axis=axis, keepdims=True) / counts, 0.0)
    return left


def list_partial_sums(noise: ErrorNoise) -> Iterator[Floats]:
    """The squares of all partial sums added up, for chains, blocks and lanes, and those of the products alone."""
    flat = noise.products.reshape(*noise.errors.shape, -1)
    yield (flat**2).sum(axis=2)
    for _, sums in _sum_partly(noise):
        yield (sums**2).sum(axis=(2, 3))


def _sum_partly(noise: ErrorNoise) -> Iterator[tuple[Floats, Floats]]:
    """Products, and their partial sums [rows, positions, ...], in chains, blocks and lanes, by taps or channels."""
    rows, positions, depth, volume = noise.products.shape
    ways = (noise.products, noise.products.swapaxes(2, 3)) if min(depth, volume) > 1 else (noise.products,)
    for way in ways:
        flat = way.reshape(rows, positions, -1)
        yield flat[..., None], np.cumsum(flat, axis=2)[..., None]
        for size in (n for n in (*_BLOCKS, *_LANES) if n < flat.shape[2]):
            whole = np.pad(flat, ((0, 0), (0, 0), (0, -flat.shape[2] % size)))
            whole = whole.reshape(rows, positions, -1, size)
            yield whole, np.cumsum(whole, axis=3 if size in _BLOCKS else 2)


def is_linear_in_operand(noise: ErrorNoise, *, of_weights: bool = True) -> bool:
    """Whether so much of the errors is linear in one operand that the other must have been off.

    Without `of_weights` only wrong inputs are looked for: errors of truncated results are also alike where windows
    are.
    """
    return find_shared_errors(noise, of_weights=of_weights) is not None


def find_shared_errors(noise: ErrorNoise, *, of_weights: bool = True) -> Literal["rows", "source"] | None:
    """Which operand must have been off, for the errors are linear in the other; None where neither shows.

    Then outputs that meet about the same inputs, or weights, have about the same errors: products of two outputs'
    errors are as large as what the outputs have in common. Of independent errors they cancel; what truncated sums lose
    on average is taken off before.
    """
    sizes = np.sqrt((noise.products**2).sum(axis=(2, 3)))
    with np.errstate(all="ignore"):
        errors = np.where(noise.told, np.nan_to_num(noise.errors / sizes), 0.0)
        errors = _take_off_losses(noise, errors, sizes)
    if of_weights and _is_shared(errors, noise.met[0]):
        return "rows"
    return "source" if _is_shared(errors.T, noise.weights) else None


def measure_left_of_losses(noise: ErrorNoise) -> float:
    """The share of squared errors that is not in proportion to partial sums, or to their magnitudes, in any order."""
    sizes = np.sqrt((noise.products**2).sum(axis=(2, 3)))
    with np.errstate(all="ignore"):
        errors = np.where(noise.told, np.nan_to_num(noise.errors / sizes), 0.0)
        left = _take_off_losses(noise, errors, sizes)
    whole = float((errors**2).sum())
    return float((left**2).sum()) / whole if whole else 0.0


def _is_shared(errors: Floats, factors: Floats) -> bool:
    """Whether errors [any, outputs] are alike where the factors [outputs, terms] are."""
    if min(errors.shape) < 2:
        return False
    lengths = np.linalg.norm(factors, axis=1)
    with np.errstate(all="ignore"):
        alike = np.nan_to_num((factors @ factors.T) / (lengths[:, None] * lengths[None]))
    pairs = np.triu(alike, 1)
    usual = np.sqrt((errors**2).mean(axis=0))
    products = float(np.einsum("mp,pq,mq->", errors, pairs, errors, optimize=True))
    expected = len(errors) * float(usual @ pairs**2 @ usual)
    spread = math.sqrt(float(np.einsum("mp,pq,mq->", errors**2, pairs**2, errors**2, optimize=True)))
    return expected > 0 and products - thresholds.SIGMAS * spread > thresholds.SHARED_ERRORS * expected


def _take_off_losses(noise: ErrorNoise, errors: Floats, sizes: Floats) -> Floats:
    """Errors minus their parts in proportion to partial sums, or to the magnitudes of these, in several orders."""
    told = noise.told
    total = noise.products.sum(axis=(2, 3))
    columns = [np.ones(int(told.sum())), np.sign(total)[told]]
    columns += [(lost / sizes)[told] for lost in (total, np.abs(total))]
    for products, sums in _sum_partly(noise):
        # What is truncated is each sum, or each product that is added to it.
        lost = (sums, np.abs(sums), np.sign(products) * np.abs(sums))
        columns += [(some.sum(axis=(2, 3)) / sizes)[told] for some in lost]
    design = np.stack(columns, axis=1)
    left = errors.copy()
    left[told] -= design @ np.linalg.lstsq(design, errors[told], rcond=None)[0]
    return left
