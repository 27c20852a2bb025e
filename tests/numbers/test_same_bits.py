"""Same bits: compared byte by byte in Python, NaN with NaN, zeros by their signs, for every dtype."""

import ml_dtypes
import numpy as np
import pytest

from samebits.numbers.ulps import has_same_bits, mark_differing_bits

DTYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


def every_code(dtype, count=4096):
    """All values of a narrow dtype, random codes of a wide one."""
    width = np.dtype(dtype).itemsize
    codes = np.arange(2 ** (8 * width), dtype=np.uint64) if width < 3 else None
    if codes is None:
        codes = np.random.default_rng(0).integers(0, 2 ** (8 * width) - 1, count, np.uint64)
    return codes.astype(f"uint{8 * width}").view(dtype)


def differ(a, b):
    """Two scalars by their bytes, but for NaN."""
    return a.tobytes() != b.tobytes() and not (np.isnan(np.float64(a)) and np.isnan(np.float64(b)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_marks_are_those_of_a_comparison_of_bytes(dtype):
    values = every_code(dtype)
    random = np.random.default_rng(1)
    some = random.choice(len(values), 3000)
    # Pairs that are equal, neighbours, and unrelated.
    others = np.concatenate([some[:1000], (some[1000:2000] + 1) % len(values), random.choice(len(values), 1000)])
    a, b = values[some], values[others]
    expected = [differ(p, q) for p, q in zip(a, b, strict=True)]
    assert mark_differing_bits(a, b).tolist() == expected
    assert has_same_bits(a, b) is not any(expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_value_has_the_bits_of_itself(dtype):
    values = every_code(dtype)
    assert not mark_differing_bits(values, values.copy()).any()
    assert has_same_bits(values, values.copy()) is True


def test_zeros_of_both_signs_differ():
    assert mark_differing_bits(np.float32([0.0, -0.0]), np.float32([-0.0, -0.0])).tolist() == [True, False]


def test_any_nan_is_any_other_but_no_number():
    # Quiet, signalling, negative with a payload.
    codes = np.array([0x7FC00000, 0x7F800001, 0xFFC00123], np.uint32).view(np.float32)
    assert np.isnan(codes).all()
    assert has_same_bits(codes, np.roll(codes, 1))
    assert mark_differing_bits(codes, np.float32([1, 2, np.inf])).all()


def test_infinities_are_numbers():
    infinite = np.float64([np.inf, -np.inf])
    assert mark_differing_bits(infinite, infinite[::-1]).tolist() == [True, True]
    assert has_same_bits(infinite, infinite)


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (2, 0, 3)])
def test_marks_have_the_arrays_shape(shape):
    a = np.zeros(shape, np.float32)
    assert mark_differing_bits(a, a).shape == shape
    assert has_same_bits(a, a) is True
    assert mark_differing_bits(a, a + 1).all()


def test_views_in_any_layout_are_compared_element_by_element():
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    channels_last = np.ascontiguousarray(a.transpose(0, 2, 1)).transpose(0, 2, 1)
    assert has_same_bits(a, channels_last)
    assert has_same_bits(a[:, ::-1], channels_last[:, ::-1])
    assert mark_differing_bits(a[..., ::2], channels_last[..., 1::2]).all()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.zeros(3, np.float32), np.zeros(3, np.float64)),
        (np.zeros(3, np.float16), np.zeros(3, ml_dtypes.bfloat16)),
        (np.zeros(3), np.zeros(4)),
        (np.zeros(3), np.zeros((3, 1))),
    ],
)
def test_arrays_that_cannot_be_compared_are_refused(a, b):
    with pytest.raises(ValueError, match="one dtype and shape"):
        mark_differing_bits(a, b)
    with pytest.raises(ValueError, match="one dtype and shape"):
        has_same_bits(a, b)
