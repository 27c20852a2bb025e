"""Sound float32 transforms of other libraries are never called another function: their noise follows a whole plane.

Where all products of an output are zero its bound is next to nothing, and a transform leaves noise there all the same.
"""

import numpy as np
import pytest

import samebits
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_exact, make_normal

TEXT = "conv2d x=1x8x32x32 w=8x8x3x3 padding=1 dtype=float32"


def make_operands(zeros, scale=1.0, seed=3):
    """Normal operands with a rectangle of zeros in every channel, so that many outputs add nothing but zeros."""
    operands = make_normal(parse_problem_text(TEXT), seed)
    if zeros == "rectangle":
        operands["x"][:, :, :20, :24] = 0
    if zeros == "all but a spot":
        operands["x"][...] = 0
        operands["x"][:, :, 16, 16] = 1
    return {name: array * np.float32(scale) for name, array in operands.items()}


def convolve_by_numpy_fft(x, w):
    """Correlation with padding 1 through numpy.fft in single precision."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    size = padded.shape[2:]
    flipped = np.zeros((*w.shape[:2], *size), np.float32)
    flipped[:, :, :3, :3] = w[:, :, ::-1, ::-1]
    spectrum = np.einsum("ncij,ocij->noij", np.fft.rfft2(padded), np.fft.rfft2(flipped))
    return np.fft.irfft2(spectrum.astype(np.complex64), size).astype(np.float32)[:, :, 2:, 2:]


def convolve_by_nnpack(x, w):
    torch = pytest.importorskip("torch")
    if not torch.backends.nnpack.is_available():
        pytest.skip("this build of torch has no NNPACK")
    return torch._nnpack_spatial_convolution(torch.tensor(x), torch.tensor(w), None, (1, 1), (1, 1)).numpy()


@pytest.mark.parametrize("convolve", [convolve_by_numpy_fft, convolve_by_nnpack])
def test_the_transforms_are_sound(convolve):
    """On small integers the nearest integers are the exact sums."""
    problem = parse_problem_text(TEXT)
    operands = make_exact(problem)
    assert (np.rint(convolve(operands["x"], operands["w"])) == samebits.compute_truth(problem, operands).values).all()


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e-6])
@pytest.mark.parametrize("zeros", ["none", "rectangle", "all but a spot"])
@pytest.mark.parametrize("convolve", [convolve_by_numpy_fft, convolve_by_nnpack])
def test_a_sound_transform_is_not_called_another_function(convolve, zeros, scale):
    operands = make_operands(zeros, scale)
    result = np.ascontiguousarray(convolve(operands["x"], operands["w"]))
    problem = parse_problem_text(TEXT)
    (side,) = samebits.explain(Case(problem, operands, {"theirs": result})).sides
    assert side.verdict in ("rounding", "downgrade", "undecided")
    if side.verdict == "undecided":
        assert side.cause is None
        assert any(e.says.startswith("excluded: ") for e in side.evidence)
    if side.verdict == "downgrade":
        assert (side.cause, side.cause_certainty) == ("fft", "bits")


@pytest.mark.parametrize("zeros", ["none", "rectangle"])
def test_values_of_the_results_own_size_where_all_products_are_zero_are_wrong(zeros):
    """The control: what is really another function is still found where transforms leave their noise."""
    operands = make_operands(zeros)
    problem = parse_problem_text(TEXT)
    result = samebits.compute_truth(problem, operands).values
    result[:, :, :6, :9] = 7.0
    (side,) = samebits.explain(Case(problem, operands, {"theirs": result})).sides
    assert (side.verdict, side.certainty) == ("wrong", "bounds")
    assert side.cause_certainty in ("statistics", None)
