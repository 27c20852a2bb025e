"""Distance between numbers of one format, counted in representable numbers."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from samebits.numbers.format import Format, code_dtype, numpy_dtype


def count_ulps(a: np.ndarray, b: np.ndarray, format_: Format) -> npt.NDArray[np.float64]:
    """How many steps from one representable number to the next lie between a and b, elementwise.

    Arrays of the format's dtype and one shape. Zeros of both signs are one number, the count runs on through zero and
    the subnormals, and infinity is the step after the largest number. Two NaNs are 0 apart; a NaN and a number are
    infinitely far apart. Exact below 2^53 steps. Raises ValueError for arrays of another dtype or shape.
    """
    dtype = numpy_dtype(format_.name)
    if a.dtype != dtype or b.dtype != dtype:
        raise ValueError(f"{format_.name} arrays have dtype {dtype}, not {a.dtype} and {b.dtype}")
    if a.shape != b.shape:
        raise ValueError(f"arrays of one shape are needed, not {a.shape} and {b.shape}")
    first, second = _ordinals(a, format_), _ordinals(b, format_)
    # The difference of two int64 fits an uint64, where subtraction wraps to just that. Of arrays without axes
    # arithmetic makes plain numbers.
    distance = np.asarray(
        (np.maximum(first, second).view(np.uint64) - np.minimum(first, second).view(np.uint64)).astype(np.float64)
    )
    nan_a, nan_b = _is_nan(a), _is_nan(b)
    distance[nan_a != nan_b] = np.inf
    distance[nan_a & nan_b] = 0.0
    return distance


def _ordinals(array: np.ndarray, format_: Format) -> npt.NDArray[np.int64]:
    """Integers in the order of the values, one apart for neighbours, 0 for both zeros."""
    dtype = code_dtype(format_)
    codes = np.ascontiguousarray(array).view(dtype).reshape(array.shape)
    magnitude = (codes & dtype.type(2 ** (format_.width_bits - 1) - 1)).astype(np.int64)
    ordinals = np.where(codes >> dtype.type(format_.width_bits - 1), -magnitude, magnitude)
    # tf32 and e8m13 numbers stand in float32, with low bits that they do not use.
    unused = format_.width_bits - 1 - format_.exponent_bits - format_.fraction_bits
    return ordinals // 2**unused if unused else ordinals


def _is_nan(array: np.ndarray) -> npt.NDArray[np.bool_]:
    # Formats that are not NumPy's own have no such function of their own.
    return np.isnan(array if array.dtype.kind == "f" else array.astype(np.float64))


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
