"""What the numbers of a result are: those of a narrower format only, or those that are right at other places."""

from __future__ import annotations

import math

import numpy as np

from samebits import thresholds
from samebits.findings.causes import CauseCode
from samebits.networks.bounded import Floats
from samebits.networks.unit_reference import OutputReference

# Formats whose numbers a result has only where it was rounded to them, with the significand bits that they lack; of
# float16 the range is narrower too.
_NARROW = (("bfloat16", 16), ("float16", 13), ("TF32", 13))
# Fewer values than this fit a narrow format by chance.
_FEWEST = 8


def find_narrow(
    known: list[tuple[np.ndarray, Floats, Floats | None]], *, several: bool
) -> tuple[CauseCode, str] | None:
    """The format that all results fit, as a cause; `known` has each result with its true values and their bound.

    One rounding at the end takes a result no farther than the format's error; a result farther off was kept in the
    format before. With `several` products this cannot be decided.
    """
    # All numbers of float16 are those of float32; bfloat16 has fewer digits than either.
    floats = [(result, value) for result, value, _ in known if result.dtype in (np.float32, np.float16)]
    joined = _join_numbers([result.astype(np.float32) for result, _ in floats])
    if joined.size < _FEWEST:
        return None
    with np.errstate(over="ignore"):
        right = _join_numbers([value.astype(result.dtype).astype(np.float32) for result, value in floats])
    for name, lacking in _NARROW:
        # Where what is right has numbers of the format only, they say nothing.
        if not _are_numbers_of(joined, name, lacking) or _are_numbers_of(right, name, lacking):
            continue
        unit = 2.0 ** -(24 - lacking)
        once = several or not any(
            (np.abs(result.astype(np.float64) - value) > bound + unit * (np.abs(value) + bound)).any()
            for result, value, bound in known
            if bound is not None
        )
        if once:
            return CauseCode.REDUCED_PRECISION_OPERANDS, f"returns numbers of {name} only"
        says = f"returns numbers of {name} only, farther from the truth than one rounding:"
        if any(result.dtype != np.float32 for result, _ in floats):
            # What it multiplies has two bytes, too, and is as likely to have been rounded.
            return CauseCode.REDUCED_PRECISION_OPERANDS, f"{says} its operands or sums were in it, too"
        return CauseCode.LOW_PRECISION_ACCUMULATOR, f"{says} its sums were kept in it"
    return None


def _join_numbers(arrays: list[np.ndarray]) -> np.ndarray:
    """All finite numbers of float32 arrays that are not zero."""
    joined = np.concatenate([array.reshape(-1) for array in arrays]) if arrays else np.empty(0, np.float32)
    return np.ascontiguousarray(joined[np.isfinite(joined) & (joined != 0)])


def _are_numbers_of(numbers: np.ndarray, name: str, lacking: int) -> bool:
    """Whether all numbers of float32 are of a narrower format, which has so many bits less."""
    with np.errstate(over="ignore"):
        fits = name != "float16" or bool((numbers.astype(np.float16).astype(np.float32) == numbers).all())
    return fits and not (numbers.view(np.uint32) & ((1 << lacking) - 1)).any()


def count_displaced(result: np.ndarray, reference: OutputReference, beyond: np.ndarray) -> int:
    """How many outputs there are beyond their bound, if each is what is right at another place; else 0.

    By chance a number is within the bound of one of all places about as often as these cover what lies between the
    smallest and the largest: where that makes all of them likely, it is 0 too.
    """
    if reference.bound is None or result.dtype.kind != "f" or result.shape != reference.value.shape:
        return 0
    right, bound = reference.value.reshape(-1), np.broadcast_to(reference.bound, reference.value.shape).reshape(-1)
    given = result[beyond].astype(np.float64)
    if given.size < _FEWEST or not (np.isfinite(right).all() and np.isfinite(bound).all()):
        return 0
    # Zeros, whole numbers and whatever else is right more than once are found anywhere.
    rounded = reference.value.astype(result.dtype).reshape(-1)
    values, counts = np.unique(rounded, return_counts=True)
    given = given[~np.isin(given, values[counts > 1].astype(np.float64))]
    order = np.argsort(right)
    at = np.clip(np.searchsorted(right[order], given), 1, right.size - 1)
    near = np.stack([order[at - 1], order[at]])
    is_there = (np.abs(right[near] - given) <= bound[near]).any(0)
    covered = 2 * float(bound.sum()) / max(float(np.ptp(right)), 1e-300)
    by_chance = covered >= 1 or given.size * math.log(max(covered, 1e-300)) > math.log(thresholds.CHANCE_REPLAYED)
    return int(beyond.sum()) if given.size >= _FEWEST and is_there.all() and not by_chance else 0
