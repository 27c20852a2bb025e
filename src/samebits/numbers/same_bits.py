"""When two arrays have the same bits: the one definition that every verdict, replay and invariance rests on."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt


def mark_differing_bits(a: np.ndarray, b: np.ndarray) -> npt.NDArray[np.bool_]:
    """True where two arrays of one dtype and shape differ in a bit; any NaN counts as any other.

    Zeros of both signs differ. Raises ValueError for arrays of different dtype or shape.
    """
    if a.dtype != b.dtype or a.shape != b.shape:
        raise ValueError(f"arrays of one dtype and shape are needed, not {a.dtype}{a.shape} and {b.dtype}{b.shape}")
    codes = np.dtype(f"uint{8 * a.dtype.itemsize}")
    # `ascontiguousarray` gives a scalar a dimension.
    same = (np.ascontiguousarray(a).view(codes) == np.ascontiguousarray(b).view(codes)).reshape(a.shape)
    if same.all():
        return ~same
    with np.errstate(invalid="ignore"):  # Signalling NaN becomes a quiet one.
        both_nan = np.isnan(a.astype(np.float64)) & np.isnan(b.astype(np.float64))
    return ~(same | both_nan)


def has_same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one dtype and shape have the same bits everywhere; any NaN counts as any other."""
    return not mark_differing_bits(a, b).any()


def digest_bits(array: np.ndarray) -> str:
    """A name for the bits of an array: arrays of one dtype that have the same bits have the same one."""
    plain = np.ascontiguousarray(array)
    if plain.dtype.kind not in "iub":
        with np.errstate(invalid="ignore"):  # Signalling NaN becomes a quiet one.
            values = plain.astype(np.float64)
        plain = np.where(np.isnan(values), np.array(np.nan, plain.dtype), plain)
    return hashlib.sha256(plain.tobytes()).hexdigest()
