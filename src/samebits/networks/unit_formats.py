"""Results that have only the numbers of a narrower format than their own."""

from __future__ import annotations

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.networks.bounded import Floats

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
