"""Convolutions by Fourier's transform predicted as exact sums of rounded spectra: what was kept in which format.

As with Winograd's transforms, spectra kept in float16, bfloat16 or TF32 make errors far larger than any order does.
What is rounded depends on the length of the transform, on where the data begin in it, and on whether the kernel was
turned.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.facts.observation import Floats, Observation, Sample
from samebits.problems import Problem
from samebits.sums.emulators.result_rounding import round_wide
from samebits.sums.recipes.recipe import Rounding

_NARROW = ("float16", "bfloat16", "tf32")
_LENGTHS = (8, 16, 32, 64, 128, 256)
# What every product of twos, threes and fives divides that an axis may be long.
_FACTORS = 2**24 * 3**15 * 5**10
_ROWS, _TILES, _SEED = 4, 12, 11
# Numbers in the spectra of one prediction.
_MOST_HELD = 6_000_000

Spectra = npt.NDArray[np.complex128]


@dataclass(frozen=True)
class FourierArrangement:
    """The length of the transform along each axis, whether data begin with their padding, and the kernel reversed.

    `kept` is the format of the spectra of data and weights, `sums` whether that of their products' sums, too.
    """

    lengths: tuple[int, ...]
    padded: bool
    reversed: bool
    kept: str
    sums: bool

    def say(self) -> str:
        """As the end of a sentence: "uses Fourier transforms of 32 x 32 with spectra in float16"."""
        size = " x ".join(map(str, self.lengths))
        also = ", those of sums too," if self.sums else ""
        return f"uses Fourier transforms of {size} with spectra{also} in {self.kept}"


def list_fourier_arrangements(problem: Problem) -> Iterator[FourierArrangement]:
    """Whole planes, in their own length, in one that is fast and in a power of two; then tiles that overlap."""
    plain = problem.direction == "forward" and not problem.is_transposed and problem.stated is None
    if not plain or any(a.stride != 1 or a.dilation != 1 for a in problem.axes):
        return
    if all(a.kernel == 1 for a in problem.axes):
        return
    reach = tuple(a.size_large + a.pad_begin + a.pad_end for a in problem.axes)
    whole = [reach, tuple(_next_fast(n) for n in reach), tuple(2 ** math.ceil(math.log2(n)) for n in reach)]
    ways: dict[tuple[tuple[int, ...], bool], None] = {}
    for lengths, padded in itertools.product(whole, (True, False)):
        ways[lengths, padded] = None
    for length in _LENGTHS:
        if any(length < n for n in reach) and all(length >= 2 * a.kernel for a in problem.axes):
            ways[(length,) * problem.rank, True] = None
    for (lengths, padded), turned, kept, sums in itertools.product(ways, (False, True), _NARROW, (False, True)):
        yield FourierArrangement(lengths, padded, turned, kept, sums)


def _next_fast(length: int) -> int:
    """The next number that is a product of twos, threes and fives, as fast transforms of real numbers are padded to."""
    return next(n for n in itertools.count(length) if _FACTORS % n == 0)


@dataclass(frozen=True)
class FourierTiles:
    """Spectra of some tiles [tiles, depth, ...] and rows [rows, depth, ...] of a first group, neither rounded.

    `given` and `true` are the result there, [rows, tiles, ...], NaN beyond its edge.
    """

    observation: Observation
    rows: npt.NDArray[np.int64]
    data: Spectra
    kernel: Spectra
    begin: tuple[int, ...]
    outputs: tuple[int, ...]
    given: Floats
    true: Floats


def transform(observation: Observation, arrangement: FourierArrangement) -> FourierTiles | None:
    """What all arrangements of one length have in common; None where it would be too much to hold."""
    problem, lengths = observation.problem, arrangement.lengths
    random = np.random.default_rng(_SEED)
    depth, rank = problem.w[1], problem.rank
    rows = np.sort(random.permutation(problem.c_out // problem.groups)[:_ROWS])
    steps = tuple(min(n - a.kernel + 1, a.size_small) for n, a in zip(lengths, problem.axes, strict=True))
    counts = [-(-a.size_small // step) for a, step in zip(problem.axes, steps, strict=True)]
    total = problem.x[0] * math.prod(counts)
    most = max(_MOST_HELD // (depth * math.prod(lengths)), 0)
    if not most or min(steps) < 1:
        return None
    chosen = np.sort(random.permutation(total)[: min(most, _TILES)])
    batch, *at = np.unravel_index(chosen, (problem.x[0], *counts))
    starts = np.stack([a * step for a, step in zip(at, steps, strict=True)], axis=1)
    x, w = (observation.operands[n].astype(np.float64) for n in "xw")
    patches = np.zeros((len(chosen), depth, *lengths))
    shifts = [a.pad_begin if arrangement.padded else 0 for a in problem.axes]
    for i, (item, start) in enumerate(zip(batch, starts, strict=True)):
        into, out_of = [], []
        for first, length, shift, size in zip(start, lengths, shifts, problem.x[2:], strict=True):
            low, high = max(first - shift, 0), min(first - shift + length, size)
            out_of.append(slice(low, max(high, low)))
            into.append(slice(low - first + shift, max(high, low) - first + shift))
        patches[(i, slice(None), *into)] = x[(item, slice(depth), *out_of)]
    axes = tuple(range(-rank, 0))
    kernel = w[rows]
    if arrangement.reversed:
        kernel = np.flip(kernel, axes)
    ahead = [a.kernel - 1 if arrangement.reversed else 0 for a in problem.axes]
    behind = [0 if arrangement.padded else a.pad_begin for a in problem.axes]
    begin = tuple(more - less for more, less in zip(ahead, behind, strict=True))
    spectra = np.fft.rfftn(kernel, lengths, axes)
    given, true = (
        _pick(np.broadcast_to(array, problem.out_shape), rows, batch, starts, steps)
        for array in (observation.result, observation.truth)
    )
    return FourierTiles(
        observation, rows, np.fft.rfftn(patches, lengths, axes), spectra if arrangement.reversed else spectra.conj(),
        begin, steps, given, true,
    )  # fmt: skip


def _pick(
    array: np.ndarray, rows: npt.NDArray[np.int64], batch: npt.NDArray[np.int64], starts: npt.NDArray[np.int64],
    steps: tuple[int, ...],
) -> Floats:  # fmt: skip
    picked = np.full((len(rows), len(batch), *steps), np.nan)
    for i, (item, start) in enumerate(zip(batch, starts, strict=True)):
        own = array[(item, rows, *(slice(first, first + n) for first, n in zip(start, steps, strict=True)))]
        picked[(slice(None), i, *(slice(n) for n in own.shape[1:]))] = own
    return picked


def predict_fourier(tiles: FourierTiles, arrangement: FourierArrangement) -> Floats:
    """What an arrangement returns for the tiles, [rows, tiles, ...]: bias, epilogue and last rounding included."""
    observation, rank = tiles.observation, len(arrangement.lengths)
    data, kernel = (_keep(v, arrangement.kept) for v in (tiles.data, tiles.kernel))
    # Spectra beyond a format's largest number are infinite, and what comes of them is NaN.
    with np.errstate(all="ignore"):
        sums = np.einsum("td...,rd...->rt...", data, kernel, optimize=True)
        if arrangement.sums:
            sums = _keep(sums, arrangement.kept)
        back = np.fft.irfftn(sums, arrangement.lengths, tuple(range(-rank, 0)))
    for axis, (first, count) in enumerate(zip(tiles.begin, tiles.outputs, strict=True)):
        length = arrangement.lengths[axis]
        back = np.take(back, (first + np.arange(count)) % length, axis=2 + axis)
    some = Sample(observation.terms, tiles.rows, np.arange(0))
    finished = observation.finish(back.reshape(len(tiles.rows), -1), some)
    return round_wide(finished, Rounding(observation.problem.out)).reshape(back.shape)


def _keep(spectra: Spectra, name: str) -> Spectra:
    with np.errstate(all="ignore"):
        return round_wide(spectra.real, Rounding(name)) + 1j * round_wide(spectra.imag, Rounding(name))


def find_narrow_spectra(observation: Observation) -> tuple[Mechanism, float] | None:
    """The arrangement whose rounded spectra come closest, if they come so much closer than the declared sums.

    With what it leaves of the distance. Inferred: nothing says that no other arrangement comes as close.
    """
    listed = list_fourier_arrangements(observation.problem)
    closest: FourierArrangement | None = None
    least, tried = thresholds.SPECTRA, 0
    for _, alike in itertools.groupby(listed, key=lambda a: (a.lengths, a.padded, a.reversed)):
        arrangements = list(alike)
        tiles = transform(observation, arrangements[0])
        if tiles is None:
            continue
        declared = _measure_distance(tiles.given, tiles.true)
        for arrangement in arrangements:
            tried += 1
            share = _measure_distance(tiles.given, predict_fourier(tiles, arrangement)) / declared if declared else 1.0
            if share < least:
                closest, least = arrangement, share
    if closest is None:
        return None
    says = (
        f"exact sums of such spectra come {1 / max(least, 1e-9):.3g} times closer to the result than the declared sums;"
        f" {tried - 1} other arrangements do not come so close"
    )
    evidence = (Evidence("statistic", says),)
    return Mechanism(CauseCode.FFT, "downgrade", closest.say(), "nearness", evidence=evidence), least


def _measure_distance(given: Floats, predicted: Floats) -> float:
    """The root mean square where there is a result; infinite of a prediction that overflows, which it cannot be."""
    away = (given - predicted)[~np.isnan(given)]
    return float(np.sqrt(np.mean(away**2))) if np.isfinite(away).all() else np.inf
