"""Number formats as data: which numbers exist in each, and how their bits are laid out."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: sign, `exponent_bits`, `fraction_bits`, IEEE 754 encoding, subnormals kept.

    `has_infinity` is False for float8_e4m3fn, whose all-ones code is NaN and whose other codes of the top exponent are
    numbers (OCP 8-bit floating point specification, revision 1.0, section 5.1).
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    width_bits: int
    has_infinity: bool = True

    @property
    def precision(self) -> int:
        """Significant bits, the implicit one counted."""
        return self.fraction_bits + 1

    @property
    def exponent_bias(self) -> int:
        """What is subtracted from a stored exponent."""
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def smallest_normal_exponent(self) -> int:
        """e such that 2^e is the smallest normal number."""
        return 1 - self.exponent_bias

    @property
    def smallest_quantum_exponent(self) -> int:
        """e such that 2^e is the smallest positive subnormal number."""
        return self.smallest_normal_exponent - self.fraction_bits

    @property
    def largest_code(self) -> int:
        """The bits of the largest finite number, as an integer, with fraction_bits below the exponent."""
        if self.has_infinity:
            return (2**self.exponent_bits - 1) * 2**self.fraction_bits - 1
        return 2 ** (self.exponent_bits + self.fraction_bits) - 2

    @property
    def nan_code(self) -> int:
        """The bits of the quiet NaN this project writes."""
        if self.has_infinity:
            return self.largest_code + 1 + 2 ** (self.fraction_bits - 1)
        return self.largest_code + 1

    @property
    def overflow_code(self) -> int:
        """The bits a value beyond the largest number rounds to: infinity, or NaN where there is none."""
        return self.largest_code + 1

    @cached_property
    def unit_roundoff(self) -> Fraction:
        """u = 2^-precision: rounding to nearest changes a normal value by at most u times its magnitude."""
        return Fraction(1, 2**self.precision)

    @cached_property
    def largest(self) -> Fraction:
        """The largest finite number."""
        return self.value_of_code(self.largest_code)

    @cached_property
    def smallest_subnormal(self) -> Fraction:
        """The smallest number above zero."""
        return Fraction(2) ** self.smallest_quantum_exponent

    def value_of_code(self, code: int) -> Fraction:
        """The exact value of a finite, non-negative code."""
        if not 0 <= code <= self.largest_code:
            raise ValueError(f"{self.name} has no finite number with code {code:#x}")
        exponent, fraction = divmod(code, 2**self.fraction_bits)
        significand = fraction + (2**self.fraction_bits if exponent else 0)
        return Fraction(significand) * Fraction(2) ** (self.smallest_quantum_exponent + max(exponent - 1, 0))


FLOAT64 = Format("float64", exponent_bits=11, fraction_bits=52, width_bits=64)
FLOAT32 = Format("float32", exponent_bits=8, fraction_bits=23, width_bits=32)
# TF32 travels in 32 bits of which 19 are used (NVIDIA A100 white paper): sign, 8 exponent bits, 10 fraction bits.
TF32 = Format("tf32", exponent_bits=8, fraction_bits=10, width_bits=32)
# Not a storage format: what the FP8 matrix units of Ada and Hopper keep of a sum (measured, see recipes.hardware).
E8M13 = Format("e8m13", exponent_bits=8, fraction_bits=13, width_bits=32)
BFLOAT16 = Format("bfloat16", exponent_bits=8, fraction_bits=7, width_bits=16)
FLOAT16 = Format("float16", exponent_bits=5, fraction_bits=10, width_bits=16)
FLOAT8_E4M3FN = Format("float8_e4m3fn", exponent_bits=4, fraction_bits=3, width_bits=8, has_infinity=False)
FLOAT8_E5M2 = Format("float8_e5m2", exponent_bits=5, fraction_bits=2, width_bits=8)

FORMATS = {f.name: f for f in (FLOAT64, FLOAT32, E8M13, TF32, BFLOAT16, FLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2)}


def _find_dtype(name: str, bits: npt.DTypeLike) -> np.dtype:
    """ml_dtypes' dtype; where an engine's own environment lacks that, one that holds the bits and nothing more."""
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        return np.dtype([(name, bits)])
    return np.dtype(getattr(ml_dtypes, name))


_NUMPY_DTYPES: dict[str, npt.DTypeLike] = {
    "float64": np.float64,
    "float32": np.float32,
    "tf32": np.float32,
    "e8m13": np.float32,
    "bfloat16": _find_dtype("bfloat16", np.uint16),
    "float16": np.float16,
    "float8_e4m3fn": _find_dtype("float8_e4m3fn", np.uint8),
    "float8_e5m2": _find_dtype("float8_e5m2", np.uint8),
}


def find_format(name: str) -> Format:
    """The format of that name; raises KeyError with the known names."""
    if name not in FORMATS:
        raise KeyError(f"unknown format {name!r}; one of {', '.join(FORMATS)}")
    return FORMATS[name]


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype that holds a format's values (float32 for tf32 and e8m13)."""
    return np.dtype(_NUMPY_DTYPES[find_format(name).name])


def find_stored_dtype(name: str) -> np.dtype:
    """The NumPy dtype of a format, or of another one that NumPy has itself (int8); raises TypeError for neither."""
    return numpy_dtype(name) if name in FORMATS else np.dtype(name)


def name_dtype(dtype: np.dtype) -> str:
    """The name of a dtype; of one that only holds a format's bits the format's."""
    return dtype.names[0] if dtype.names else dtype.name


def code_dtype(format_: Format) -> np.dtype:
    """The unsigned integer dtype as wide as the format."""
    return np.dtype(f"uint{format_.width_bits}")
