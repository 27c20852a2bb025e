"""Transforms that no recipe replays: by what was kept in which format, by the period of the errors, by errors that
follow the largest values of a plane and not the terms of the output itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import estimate_transform_noise, mark_unclipped
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.facts.observation import Floats, Observation
from samebits.mechanisms.noise.error_structure import exceeds_likely
from samebits.mechanisms.noise.noise_kinds import Kind, rank_kinds
from samebits.mechanisms.transforms.fourier_arrangements import find_narrow_spectra
from samebits.mechanisms.transforms.tile_transforms import (
    Arrangement,
    Tiles,
    choose_tiles,
    list_arrangements,
    predict_tiles,
)
from samebits.problems.windows import mark_border
from samebits.sums.emulators.winograd import TAPS

# Tiles of Winograd's transforms, and periods that none has, which show how much chance there is.
_PERIODS, _CONTROLS = (2, 4, 6), (5, 7)
_FEWEST_OUTPUTS, _FEWEST_CHANGED = 1000, 200
_GIVES, _FEWEST_GIVEN = 0.01, 12
_MOST_TIMES = 50.0
_SHIFTS, _SEED = 60, 8
_MOST_ROWS = 32


def explain_arrangement(observation: Observation) -> Mechanism | None:
    """The transform whose exact sums of rounded numbers come closest to the result, inferred; None if none is close."""
    # Transforms are predicted tile by tile, not in the places where a part of the result is stored otherwise.
    stored_in_part = observation.stored is not None and observation.stored.part is not None
    if stored_in_part or observation.distances.within_bound or not _may_be_transform(observation):
        return None
    tried = [t for t in (_try_arrangements(observation), find_narrow_spectra(observation)) if t is not None]
    return min(tried, key=lambda t: t[1])[0] if tried else None


def explain_transform(observation: Observation) -> Mechanism | None:
    """The transform that errors beyond the bound of direct sums come from, inferred; None where nothing shows one."""
    beyond = not observation.distances.within_bound
    if not _may_be_transform(observation) or not (beyond or exceeds_likely(observation)):
        return None
    kinds = rank_kinds(observation) if observation.stored is None else []
    if found := _name_by_sizes(kinds):
        return found
    found = (_find_period(observation) or _find_flat_noise(observation)) if beyond else None
    return _name_better(found, kinds) if found else None


def _may_be_transform(observation: Observation) -> bool:
    problem = observation.problem
    if problem.stated is not None or any(a.stride != 1 or a.dilation != 1 for a in problem.axes):
        return False
    return bool(np.isfinite(observation.result.astype(np.float64)).all())


def _name_by_sizes(kinds: list[Kind]) -> Mechanism | None:
    """The transform whose expected error sizes fit these errors far better than any other kind; None without one."""
    best = kinds[0] if kinds else None
    if best is None or best.cause is None or best.cause == CauseCode.LOW_PRECISION_ACCUMULATOR:
        return None
    others = [kind for kind in kinds if kind.cause != best.cause]
    margin = best.likelihood - max((kind.likelihood for kind in others), default=-math.inf)
    if margin < -math.log(thresholds.CHANCE_SUMS) or not best.is_rounding():
        return None
    does = "uses Winograd's transforms" if best.cause == CauseCode.WINOGRAD else "uses a Fourier transform"
    says = (
        f"the errors are as large, output by output, as roundings to about {best.bits:.0f} bits in such a transform;"
        f" those of sums, operands, results and other transforms would be so with {math.exp(-min(margin, 69)):.1g} of"
        " the probability, or less"
    )
    return _found(best.cause, f"{does} {best.says}".rstrip(), says)


def _name_better(found: Mechanism, kinds: list[Kind]) -> Mechanism:
    """The mechanism, renamed to the other transform where that makes such errors far more likely."""
    other = CauseCode.FFT if found.cause == CauseCode.WINOGRAD else CauseCode.WINOGRAD
    own, others = (
        max((k for k in kinds if k.cause == cause), key=lambda k: k.likelihood, default=None)
        for cause in (found.cause, other)
    )
    if own is None or others is None or kinds[0].cause != other or not others.is_rounding():
        return found
    if others.likelihood - own.likelihood < -math.log(thresholds.CHANCE_SUMS):
        return found
    does = "uses Winograd's transforms" if other == CauseCode.WINOGRAD else "uses a Fourier transform"
    return replace(found, cause=other, says=does)


def _try_arrangements(observation: Observation) -> tuple[Mechanism, float] | None:
    """The arrangement of Winograd's transforms that comes closest to the result, and the share of the distance left."""
    closest, least, tried = None, thresholds.ARRANGEMENT, 0
    chosen: dict[tuple[int, ...], tuple[Tiles, Floats, Floats]] = {}
    for arrangement in list_arrangements(observation.problem):
        size = tuple(arrangement.tile if a else 1 for a in arrangement.along)
        if size not in chosen:
            tiles = choose_tiles(observation, arrangement.tile, arrangement.along)
            chosen[size] = tiles, tiles.pick(observation.result), tiles.pick(observation.truth)
        tiles, given, true = chosen[size]
        declared = _norm(given - true)
        tried += 1
        predicted = predict_tiles(tiles, arrangement)
        # Where it overflows it cannot have been this.
        if not np.isfinite(predicted[np.isfinite(given)]).all():
            continue
        share = _norm(given - predicted) / declared if declared else 1.0
        # Where it changes hardly any output chance decides, unless it gives those right to two digits.
        if _count_changed(predicted, true) < (_FEWEST_CHANGED if share > _GIVES else _FEWEST_GIVEN):
            continue
        if share < least * (1 - thresholds.TIE):
            closest, least = arrangement, share
    if closest is None or not _comes_closer_in_most_rows(observation, closest):
        return None
    says = (
        f"exact sums of such transforms come {1 / max(least, 1e-9):.3g} times closer to the result than the declared"
        f" sums; {tried - 1} other arrangements do not come so close"
    )
    return _found(CauseCode.WINOGRAD, closest.say(), says), least


def _comes_closer_in_most_rows(observation: Observation, arrangement: Arrangement) -> bool:
    """Whether an arrangement comes closer than the truth in more rows than chance would have it.

    Where data hardly vary, a row's weights alone decide about all its errors, and one arrangement of hundreds comes
    closer in the few rows that were looked at.
    """
    tiles = choose_tiles(observation, arrangement.tile, arrangement.along, rows=_MOST_ROWS)
    given, true, predicted = (
        tiles.pick(observation.result),
        tiles.pick(observation.truth),
        predict_tiles(tiles, arrangement),
    )
    left = [(_norm(g - p), _norm(g - t)) for g, p, t in zip(given, predicted, true, strict=True)]
    # Rows that are zero throughout, as relu makes them, tell nothing.
    telling = [with_it < without for with_it, without in left if with_it != without]
    return bool(telling) and float(np.mean(telling)) >= thresholds.CLOSER_ROWS


def _count_changed(predicted: Floats, true: Floats) -> int:
    """How many outputs an arrangement takes further from the truth than float32 rounds; equal ones count once."""
    changed = np.abs(predicted - true) > 2.0**-20 * np.abs(true)
    return len(np.unique(np.stack([predicted[changed], true[changed]]), axis=1).T)


def _norm(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0


def _find_period(observation: Observation) -> Mechanism | None:
    """Winograd's transforms, inferred from errors that are larger at the same places of every tile; None otherwise."""
    problem = observation.problem
    if problem.rank != 2 or problem.direction == "grad_weight" or any(a.kernel < TAPS for a in problem.axes):
        return None
    shares, inner = _measure_shares(observation)
    if inner.sum() < _FEWEST_OUTPUTS:
        return None
    periods = {n: _measure_period(shares, inner, n) for n in (*_PERIODS, *_CONTROLS)}
    for found in sorted((periods[n] for n in _PERIODS), key=lambda p: -p.statistic):
        probability = len(_PERIODS) * _find_chance(shares, inner, found) if _stands_out(found, periods) else 1.0
        if probability <= thresholds.CHANCE_PERIOD:
            says = (
                f"the errors repeat with a period of {found.period}: their root mean square is"
                f" {found.largest:.2g} of the usual at some places of a tile, {found.least:.2g} at others; errors that"
                f" do not would show this with a probability of {max(probability, 1e-30):.1g} at most"
            )
            does = f"uses Winograd's transforms on tiles of {found.period} outputs"
            return _found(CauseCode.WINOGRAD, does, says)
    return None


def _stands_out(found: _Period, periods: dict[int, _Period]) -> bool:
    """Whether a period explains more than those that no tile has, by each of its places or by all of them.

    A longer period has more places, and explains more by them; on planes of few tiles it is nearly the same.
    """
    controls = [periods[n] for n in _CONTROLS]
    each = max(p.statistic for p in controls)
    whole = max(p.statistic * p.count_free() for p in controls)
    times = thresholds.PERIOD_TIMES
    return found.statistic >= times * each or found.statistic * found.count_free() >= times * whole


def _measure_shares(observation: Observation) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Squared errors in shares of the output's own sum of magnitudes, and which outputs count: none at the border."""
    truth = observation.truth.astype(np.float64)
    inner = np.broadcast_to(~mark_border(observation.problem), truth.shape) & (observation.magnitudes > 0)
    inner &= mark_unclipped(observation.problem, truth)
    with np.errstate(all="ignore"):
        shares = ((observation.result.astype(np.float64) - truth) / observation.magnitudes) ** 2
    usual = float(np.median(shares[inner])) if inner.any() else 0.0
    # Single errors weigh little, so that no value decides.
    return np.minimum(np.where(inner, shares, 0.0), _MOST_TIMES * (usual or 1.0)), inner


@dataclass(frozen=True)
class _Period:
    """How unequal the places of a period are, and the extreme root means in shares of the usual."""

    period: int
    statistic: float
    largest: float
    least: float

    def count_free(self) -> int:
        """How many places may differ from the mean."""
        return self.period**2 - 1


def _measure_period(
    shares: Floats, inner: npt.NDArray[np.bool_], period: int, shifts: npt.NDArray[np.int64] | None = None
) -> _Period:
    """The variance that the places of a period explain, each on average, over that of single outputs.

    That is the F statistic of an analysis of variance, about 1 where there is no period. `shifts` move planes' places.
    """
    n, c, height, width = shares.shape
    moved = np.zeros((n, c, 2), np.int64) if shifts is None else shifts
    rows = (np.arange(height) + moved[..., :1]) % period
    columns = (np.arange(width) + moved[..., 1:]) % period
    place = (rows[..., :, None] * period + columns[..., None, :])[inner]
    counts = np.bincount(place, minlength=period**2)
    met = counts > 0
    mean, variance = float(shares[inner].mean()), float(shares[inner].var()) or 1.0
    means = np.bincount(place, shares[inner], minlength=period**2)[met] / counts[met]
    statistic = float((counts[met] * (means - mean) ** 2).sum()) / variance / max(met.sum() - 1, 1)
    roots = np.sqrt(means / mean) if mean else means
    return _Period(period, statistic, float(roots.max()), float(roots.min()))


def _find_chance(shares: Floats, inner: npt.NDArray[np.bool_], found: _Period) -> float:
    """The probability of so large a statistic where planes have no place in common.

    Every plane's places are moved at random, many times over; what comes out has the mean and the variance of a gamma
    distribution, whose tail is taken (Wilson and Hilferty, 1931).
    """
    random = np.random.default_rng(_SEED)
    moved = [
        _measure_period(shares, inner, found.period, random.integers(0, found.period, (*shares.shape[:2], 2))).statistic
        for _ in range(_SHIFTS)
    ]
    mean, variance = float(np.mean(moved)), float(np.var(moved)) or 1.0
    if mean <= 0:
        # Errors in a few places only have no period.
        return 1.0
    freedom = 2 * mean**2 / variance
    spread = 2 / (9 * freedom)
    sigmas = ((found.statistic / mean) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)
    return 0.5 * math.erfc(sigmas / math.sqrt(2))


def _find_flat_noise(observation: Observation) -> Mechanism | None:
    """Outputs whose own terms are few or zero have errors like all others: a transform of the whole plane."""
    problem, away = observation.problem, observation.distances.absolute
    halves = estimate_transform_noise(problem, observation.magnitudes, in_halves=True)
    if (away > halves).any():
        return None
    axes = tuple(range(2, away.ndim))
    with np.errstate(all="ignore"):
        size = observation.magnitudes / observation.magnitudes.max(axis=axes, keepdims=True)
    rest = size > 1 / 2
    if not rest.any():
        return None
    elsewhere = float(np.sqrt(np.mean(away[rest] ** 2)))
    for most in (thresholds.SMALL_TERMS**n for n in (1, 2, 3)):
        small = size < most
        if small.sum() < thresholds.FEWEST_TELLING:
            return None
        there = float(np.sqrt(np.mean(away[small] ** 2)))
        # Errors of direct sums are at most as small a share.
        if there >= thresholds.FLAT * most / thresholds.SMALL_TERMS * elsewhere:
            break
    else:
        return None
    says = (
        f"{int(small.sum()):,} outputs whose products are at most {most:.2g} of the largest have errors"
        f" {there / elsewhere:.2g} times as large as the others: they follow the largest values of a plane"
    )
    taps = all(a.kernel == 3 for a in problem.axes)
    does = "uses a transform (Fourier's, or Winograd's)" if taps else "uses a Fourier transform"
    if (away > observation.transform_noise).any():
        does += " that keeps numbers of 16 bits on the way"
    return _found(CauseCode.FFT, does, says)


def _found(cause: CauseCode, does: str, says: str) -> Mechanism:
    return Mechanism(cause, "downgrade", does, "nearness", evidence=(Evidence("statistic", says),))
