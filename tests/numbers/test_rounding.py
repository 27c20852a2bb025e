"""Scalar and array rounding against each other, against gfloat and against NumPy's and ml_dtypes' own casts."""

import math
from fractions import Fraction

import gfloat
import numpy as np
import pytest
from gfloat import formats as gfloat_formats
from hypothesis import given
from hypothesis import strategies as st

from samebits.numbers import FORMATS, numpy_dtype
from samebits.numbers.array import add_to_odd, round_array_to_format
from samebits.numbers.scalar import MODES, round_to_format

GFLOAT_FORMATS = {
    "float64": gfloat_formats.format_info_binary64,
    "float32": gfloat_formats.format_info_binary32,
    "bfloat16": gfloat_formats.format_info_bfloat16,
    "float16": gfloat_formats.format_info_binary16,
    "float8_e4m3fn": gfloat_formats.format_info_ocp_e4m3,
    "float8_e5m2": gfloat_formats.format_info_ocp_e5m2,
}
GFLOAT_MODES = {
    "nearest_even": gfloat.RoundMode.TiesToEven,
    "nearest_away": gfloat.RoundMode.TiesToAway,
    "toward_zero": gfloat.RoundMode.TowardZero,
    "upward": gfloat.RoundMode.TowardPositive,
    "downward": gfloat.RoundMode.TowardNegative,
}


def same_float(a: float, b: float) -> bool:
    return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def telling_values(name: str) -> np.ndarray:
    """Random values over the format's whole range, its ties, the neighbours of its ties, its limits."""
    rng = np.random.default_rng(7)
    f = FORMATS[name]
    exponents = rng.integers(max(f.smallest_quantum_exponent - 3, -1070), f.exponent_bias + 2, 3000)
    values = np.ldexp(rng.uniform(-2, 2, 3000), exponents)
    codes = rng.integers(0, f.largest_code, 300)
    ties = [float((f.value_of_code(int(c)) + f.value_of_code(int(c) + 1)) / 2) for c in codes if name != "float64"]
    around = [g for t in ties for g in (t, -t, np.nextafter(t, np.inf), np.nextafter(t, -np.inf))]
    top = float(f.largest)
    limits = [0.0, -0.0, top, -top, math.nextafter(top, math.inf), np.inf, -np.inf, np.nan, 5e-324, -5e-324]
    return np.array([*values, *around, *limits])


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FORMATS)
def test_the_array_form_equals_the_scalar_form(name, mode):
    values = telling_values(name)
    rounded = round_array_to_format(values, FORMATS[name], mode)
    for value, fast in zip(values, rounded, strict=True):
        assert same_float(round_to_format(float(value), FORMATS[name], mode), float(fast)), (value, fast)


@pytest.mark.slow
@pytest.mark.parametrize("mode", GFLOAT_MODES)
@pytest.mark.parametrize("name", GFLOAT_FORMATS)
def test_the_scalar_form_equals_gfloat(name, mode):
    for value in telling_values(name)[:1500]:
        if not math.isfinite(value) or (abs(value) > FORMATS[name].largest and name == "float8_e4m3fn"):
            continue
        expected = gfloat.round_float(GFLOAT_FORMATS[name], float(value), GFLOAT_MODES[mode])
        assert same_float(round_to_format(float(value), FORMATS[name], mode), expected), value


@pytest.mark.parametrize("name", ["float32", "float16"])
def test_rounding_to_nearest_even_equals_numpys_cast(name):
    values = telling_values(name)
    with np.errstate(all="ignore"):
        cast = values.astype(numpy_dtype(name)).astype(np.float64)
    np.testing.assert_array_equal(round_array_to_format(values, FORMATS[name]), cast)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_rounding_to_nearest_even_equals_the_cast_of_ml_dtypes_from_float32(name):
    with np.errstate(all="ignore"):
        values = telling_values(name).astype(np.float32)
        cast = values.astype(numpy_dtype(name)).astype(np.float64)
    np.testing.assert_array_equal(round_array_to_format(values.astype(np.float64), FORMATS[name]), cast)


@given(st.fractions(), st.sampled_from(sorted(FORMATS)))
def test_directed_modes_enclose_any_fraction(value, name):
    f = FORMATS[name]
    below, above = round_to_format(value, f, "downward"), round_to_format(value, f, "upward")
    if math.isfinite(below):
        assert Fraction(below) <= value
    if math.isfinite(above):
        assert value <= Fraction(above)
    # The nearest is one of the two; where a format has no infinity, it may be NaN as one of them is.
    assert repr(round_to_format(value, f)) in {repr(below), repr(above)}


@pytest.mark.parametrize(
    ("name", "largest", "smallest_subnormal"),
    [
        ("float16", 65504, Fraction(1, 2**24)),
        ("bfloat16", (2 - Fraction(1, 2**7)) * 2**127, Fraction(1, 2**133)),
        ("float32", (2 - Fraction(1, 2**23)) * 2**127, Fraction(1, 2**149)),
        ("tf32", (2 - Fraction(1, 2**10)) * 2**127, Fraction(1, 2**136)),
        ("float8_e4m3fn", 448, Fraction(1, 2**9)),
        ("float8_e5m2", 57344, Fraction(1, 2**16)),
    ],
)
def test_the_limits_are_those_of_the_standards(name, largest, smallest_subnormal):
    assert FORMATS[name].largest == largest
    assert FORMATS[name].smallest_subnormal == smallest_subnormal


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_a_sum_rounded_to_odd_first_is_rounded_once(name):
    """Sums that lie halfway between two numbers of the format but for a last bit far below; exact sums; random ones."""
    rng, format_ = np.random.default_rng(9), FORMATS[name]
    half = 2.0**-format_.precision
    ties = 1.0 + half * (2 * rng.integers(0, 2 ** (format_.precision - 1), 300) + 1)
    little = rng.choice([-1, 0, 1], 300) * 2.0 ** rng.integers(-70, -40, 300)
    a = np.concatenate([ties, rng.standard_normal(300)]) * rng.choice([-1, 1], 600)
    b = np.concatenate([little, rng.standard_normal(300) * 2.0 ** rng.integers(-40, 3, 300)])
    rounded = round_array_to_format(add_to_odd(a, b), format_)
    for x, y, got in zip(a.tolist(), b.tolist(), rounded.tolist(), strict=True):
        assert same_float(got, round_to_format(Fraction(x) + Fraction(y), format_)), (x, y)


def test_nearest_if_odd_is_what_openvinos_class_of_bfloat16_numbers_does():
    """`(bits + ((bits & 0x10000) >> 1)) >> 16` on the bits of a float32 number."""
    with np.errstate(over="ignore"):
        values = telling_values("bfloat16").astype(np.float32)
    values = values[np.isfinite(values)]
    bits = values.view(np.uint32)
    kept = (bits + ((bits & np.uint32(0x10000)) >> np.uint32(1))) & np.uint32(0xFFFF0000)
    rounded = round_array_to_format(values.astype(np.float64), FORMATS["bfloat16"], "nearest_if_odd")
    np.testing.assert_array_equal(rounded, kept.view(np.float32).astype(np.float64))
