"""When two arrays have the same bits: every code of half a byte's neighbours, zeros of both signs, NaN of any kind."""

import ml_dtypes
import numpy as np
import pytest

from samebits.formats.same_bits import has_same_bits, mark_differing_bits

DTYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
NAN = np.nan


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_signs_of_zero_and_nan_are_compared_by_bits(dtype):
    one = np.array([1, 0, -0.0, NAN, 2, NAN, 1, 0.25], dtype)
    other = np.array([1, -0.0, -0.0, NAN, 4, 1, NAN, 0.25], dtype)
    differs = [False, True, False, False, True, True, True, False]
    assert mark_differing_bits(one, other).tolist() == differs
    assert mark_differing_bits(other, one).tolist() == differs
    assert not has_same_bits(one, other)
    assert has_same_bits(one, one.copy())
    assert mark_differing_bits(one, one.copy()).tolist() == [False] * 8


def test_any_nan_counts_as_any_other():
    quiet, other = (np.array([code], np.uint32).view(np.float32) for code in (0x7FC00000, 0xFFC01234))
    assert has_same_bits(quiet, other)


@pytest.mark.parametrize("code", [0, 1, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x80000000])
def test_neighbouring_codes_differ(code):
    codes = np.array([[code, code + (1 if code != 0x7F7FFFFF else -1)]], np.uint32).view(np.float32)
    differs = not np.isnan(codes).all()
    assert mark_differing_bits(codes[:, :1], codes[:, 1:]).tolist() == [[differs]]


def test_arrays_need_not_be_contiguous():
    one = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert has_same_bits(one.T, np.ascontiguousarray(one.T))
    assert has_same_bits(one[:, ::2], one[:, ::2].copy())
    assert mark_differing_bits(one[:, ::2], one[:, 1::2]).all()


def test_arrays_of_no_elements_have_the_same_bits():
    assert has_same_bits(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32))


@pytest.mark.parametrize(
    "other", [np.zeros(3, np.float64), np.zeros(4, np.float32), np.zeros((1, 3), np.float32), np.zeros(3, np.int32)]
)
def test_arrays_of_another_dtype_or_shape_are_refused(other):
    with pytest.raises(ValueError, match="one dtype and shape"):
        mark_differing_bits(np.zeros(3, np.float32), other)
