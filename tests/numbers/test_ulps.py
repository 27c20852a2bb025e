"""Distances in representable numbers, on values whose neighbours are known."""

import ml_dtypes
import numpy as np
import pytest

from samebits.numbers import FORMATS, count_ulps

NATIVE = {n: f for n, f in FORMATS.items() if n not in ("tf32", "e8m13")}


def distance(a, b, name="float32"):
    dtype = {"bfloat16": ml_dtypes.bfloat16}.get(name, name)
    return count_ulps(np.array([a], dtype), np.array([b], dtype), FORMATS[name])[0]


def test_neighbours_are_one_apart_on_both_sides_of_a_power_of_two():
    one = np.float32(1)
    assert distance(one, np.nextafter(one, np.float32(2))) == 1
    assert distance(one, np.nextafter(one, np.float32(0))) == 1


def test_both_zeros_are_the_same_number():
    assert distance(0.0, -0.0) == 0


def test_the_smallest_subnormals_of_both_signs_are_two_apart():
    tiny = np.float32(2.0**-149)
    assert distance(tiny, -tiny) == 2
    assert distance(tiny, 0.0) == distance(-tiny, 0.0) == 1


def test_infinity_follows_the_largest_number():
    assert distance(np.finfo(np.float32).max, np.inf) == 1
    assert distance(65504, np.inf, "float16") == 1


def test_two_nans_agree_and_one_nan_is_infinitely_far():
    assert distance(np.nan, np.nan) == 0
    assert distance(np.nan, 1.0) == np.inf


def test_the_whole_range_of_float64_does_not_overflow_the_count():
    assert distance(-np.inf, np.inf, "float64") == float(2 * 0x7FF0000000000000)


def test_e8m13_counts_in_its_own_steps():
    a = np.array([1.0, 1.0], np.float32)
    b = np.array([1.0 + 2.0**-13, 1.0 - 3 * 2.0**-14], np.float32)
    np.testing.assert_array_equal(count_ulps(a, b, FORMATS["e8m13"]), [1, 3])


def test_tf32_counts_in_its_own_steps():
    a = np.array([1.0, 1.0], np.float32)
    b = np.array([1 + 2.0**-10, 1 + 3 * 2.0**-10], np.float32)
    np.testing.assert_array_equal(count_ulps(a, b, FORMATS["tf32"]), [1, 3])


@pytest.mark.parametrize("name", NATIVE)
def test_all_codes_in_order_are_one_apart(name):
    f = FORMATS[name]
    codes = np.arange(min(f.largest_code + 1, 70000))
    values = codes.astype(f"uint{f.width_bits}").view({"bfloat16": ml_dtypes.bfloat16}.get(name, name))
    np.testing.assert_array_equal(count_ulps(values[:-1], values[1:], f), np.ones(codes.size - 1))


def test_arrays_of_another_dtype_are_refused():
    with pytest.raises(ValueError, match="float32"):
        count_ulps(np.zeros(2), np.zeros(2), FORMATS["float32"])


@pytest.mark.parametrize(
    ("a", "b", "steps"),
    [(1.0, 1.0, 0), (1.0, np.nextafter(np.float32(1), np.float32(2)), 1), (np.nan, 1.0, np.inf), (np.nan, np.nan, 0)],
)
def test_single_numbers_without_axes(a, b, steps):
    found = count_ulps(np.array(a, np.float32), np.array(b, np.float32), FORMATS["float32"])
    assert found.shape == ()
    assert float(found) == steps
