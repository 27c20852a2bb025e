"""Sound float32 transforms of other libraries are never called another function: their noise follows a whole plane.

Where all products of an output are zero its bound is next to nothing, and a transform leaves noise there all the same.
"""

import ml_dtypes
import numpy as np
import pytest

import samebits
from samebits.engines.runner import Identity
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_exact, make_normal

# Left out of `make quick`.
pytestmark = pytest.mark.slow

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
        assert side.cause_certainty in ("bits", "statistics")
        # What NNPACK does with three taps is Winograd's.
        assert side.cause in (("fft",) if convolve is convolve_by_numpy_fft else ("winograd", "fft"))


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


def multiply_in_halves(x, w, half):
    """Winograd's F(4, 3) of a padded plane in plain NumPy, transformed tiles rounded to 16 bits before they multiply.

    Matrices of Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2015), section 4.3.
    """
    into = np.array(
        [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0], [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0],
         [0, 4, 0, -5, 0, 1]], np.float32,
    )  # fmt: skip
    weigh = np.array(
        [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]], np.float32
    ) / np.float32(24)  # fmt: skip
    back = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]], np.float32)
    padded = np.pad(np.asarray(x, np.float32), ((0, 0), (0, 0), (1, 1), (1, 1)))
    n, _, height, width = padded.shape
    filters = np.einsum("ai,ocij,bj->ocab", weigh, np.asarray(w, np.float32), weigh).astype(half).astype(np.float32)
    out = np.zeros((n, len(w), height - 2, width - 2), np.float32)
    for top in range(0, height - 2, 4):
        for left in range(0, width - 2, 4):
            tile = padded[:, :, top : top + 6, left : left + 6]
            tile = np.einsum("ai,ncij,bj->ncab", into, tile, into).astype(half).astype(np.float32)
            products = np.einsum("ncab,ocab->noab", tile, filters)
            out[:, :, top : top + 4, left : left + 4] = np.einsum("ia,noab,jb->noij", back, products, back)
    return out


class Halves:
    """A runner that convolves by F(4, 3) in 16 bits, and can drop the last channel of its weights."""

    text = "halves"

    def __init__(self, half, drops=False):
        self.half, self.drops = half, drops

    def identify(self):
        return Identity(self.text, "halves", "1", "CPU")

    def run(self, problem, operands):
        w = operands["w"].copy()
        if self.drops:
            w[:, -1] = 0
        return multiply_in_halves(operands["x"], w, self.half).astype(operands["x"].dtype)

    def close(self):
        pass


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("half", [np.float16, ml_dtypes.bfloat16])
def test_a_transform_in_halves_is_not_called_another_function(half, dtype):
    text = TEXT.replace("float32", dtype)
    for seed in range(3):
        (side,) = samebits.compare(text, [Halves(half)], seed=seed, attributes=False).sides
        assert side.verdict != "wrong", [e.says for e in side.evidence]
        assert side.exact_data.differing > 0


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_transform_in_halves_with_a_fault_is_wrong_still(dtype):
    """Without a channel the errors are those of whole products, beyond what 16 bits lose."""
    text = TEXT.replace("float32", dtype).replace("x=1x8x", "x=1x2x").replace("w=8x8x", "w=8x2x")
    (side,) = samebits.compare(text, [Halves(np.float16, drops=True)], attributes=False).sides
    assert side.verdict == "wrong"


def test_integers_that_are_wrong_leave_no_room_for_a_transform():
    """One product too few gives integers: no noise, however small it is beside the largest sum."""

    class Short(Halves):
        def run(self, problem, operands):
            result = samebits.compute_truth(problem, operands).values.copy()
            x, w = operands["x"].astype(np.float32), operands["w"].astype(np.float32)
            result[..., 1:, 1:] -= np.einsum("nhw,o->nohw", x[:, 0, :-1, :-1], w[:, 0, 0, 0])
            return result

    (side,) = samebits.compare(TEXT, [Short(np.float16)], attributes=False).sides
    assert side.verdict == "wrong"
