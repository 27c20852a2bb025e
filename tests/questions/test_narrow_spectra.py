"""Fourier transforms with spectra in narrow formats, in SciPy; and sound ones."""

import ml_dtypes
import numpy as np
import pytest
import scipy.fft

from cases_by_hand import explain, make
from samebits.mechanisms.search.recorded_case import explain_case
from variants import make_variant

# Left out of `make quick`.
pytestmark = pytest.mark.slow

TEXT = "conv2d x=1x12x20x20 w=16x12x5x5 padding=2"


def convolve_by_spectra(x, w, keep, length):
    """One transform of the padded plane, its spectra kept by `keep`."""
    padded = np.pad(x, ((0, 0), (0, 0), (2, 2), (2, 2)))
    a, b = (scipy.fft.rfft2(v, (length, length)) for v in (padded, w))
    a, b = (keep(v.real) + 1j * keep(v.imag) for v in (a, b))
    sums = np.einsum("nchw,mchw->nmhw", a, b.conj()).astype(np.complex64)
    return scipy.fft.irfft2(sums, (length, length))[:, :, :20, :20].astype(np.float32)


def half(values):
    return values.astype(np.float16).astype(np.float32)


def brain(values):
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


@pytest.mark.parametrize(("keep", "name"), [(half, "float16"), (brain, "bfloat16")])
@pytest.mark.parametrize("length", [24, 32])
def test_spectra_in_half_formats_are_named(keep, name, length):
    operands, _ = make(TEXT, length)
    operands["x"] = np.maximum(operands["x"], 0)
    side = explain(TEXT, operands, convolve_by_spectra(operands["x"], operands["w"], keep, length))
    assert (side.verdict, side.cause) == ("downgrade", "fft")
    assert f"Fourier transforms of {length} x {length}" in side.says
    assert name in side.says or "tf32" in side.says  # As many bits as float16 has.


@pytest.mark.parametrize("length", [24, 32])
def test_spectra_in_float32_are_sound(length):
    operands, _ = make(TEXT, length + 1)
    result = convolve_by_spectra(operands["x"], operands["w"], lambda v: v, length)
    assert explain(TEXT, operands, result).verdict == "rounding"


@pytest.mark.parametrize(
    ("variant", "text", "seed"),
    [
        (
            "F(2,3) TF32 inside",
            "conv2d x=1x24x16x16 w=24x1x3x3 bias padding=1 groups=24 dtype=float32 then=clip(0,6)",
            235,
        ),
        ("F(2,3) TF32 inside", "conv2d x=4x8x20x20 w=16x8x3x3 padding=1 dtype=float32", 241),
        ("F(4,3) bfloat16 inside", "conv2d x=1x32x24x24 w=16x32x3x3 bias padding=1 dtype=float32 then=relu", 242),
    ],
)
def test_winograds_transforms_in_narrow_formats_are_no_narrow_spectra(variant, text, seed):
    made = make_variant(variant, text, seed)
    (side,) = explain_case(made.case).sides
    assert (side.verdict, side.cause) == ("downgrade", "winograd")
