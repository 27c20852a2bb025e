"""Direct sums, Winograd's and Fourier transforms, distinguished on all three written in plain NumPy."""

import numpy as np
import pytest

from numpy_runners import (
    FailingRunner,
    NanRunner,
    PlainRunner,
    keep_bits,
    round_to_bfloat16,
    to_bfloat16_cut,
    to_float16,
    to_float64,
)
from samebits.engines.probes.family import find_family
from samebits.engines.probes.session import ProbeSession
from samebits.errors import EngineFailure
from samebits.problems import parse_problem_text

LAYER = "conv2d x=2x3x12x12 w=8x3x3x3 padding=1"
# Lavin and Gray 2016, sections 4.1 and 4.3: the transforms of input, kernel and output of F(2, 3) and F(4, 3).
TRANSFORMS = {
    2: (
        [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]],
        [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
        [[1, 1, 1, 0], [0, 1, -1, -1]],
    ),
    4: (
        [
            [4, 0, -5, 0, 1, 0],
            [0, -4, -4, 1, 1, 0],
            [0, 4, -4, -1, 1, 0],
            [0, -2, -1, 2, 1, 0],
            [0, 2, -1, -2, 1, 0],
            [0, 4, 0, -5, 0, 1],
        ],
        [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ],
        [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
    ),
}


class Transformed(PlainRunner):
    """Pads by one and leaves the rest to a function of x and w, in float32."""

    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def run(self, problem, operands):
        x = np.pad(operands["x"].astype(np.float32), [(0, 0), (0, 0), (1, 1), (1, 1)])
        return self.compute(x, operands["w"].astype(np.float32)).astype(operands["x"].dtype)


def winograd(m):
    """F(m x m, 3 x 3) in float32."""
    of_input, of_kernel, of_output = (np.array(t, np.float32) for t in TRANSFORMS[m])

    def compute(x, w):
        kernels = of_kernel @ w @ of_kernel.T
        height, width = x.shape[2] - 2, x.shape[3] - 2
        result = np.zeros((x.shape[0], w.shape[0], height, width), np.float32)
        for i in range(0, height, m):
            for j in range(0, width, m):
                tile = of_input @ x[:, :, i : i + m + 2, j : j + m + 2] @ of_input.T
                product = np.einsum("ncij,ocij->noij", tile, kernels)
                result[:, :, i : i + m, j : j + m] = of_output @ product @ of_output.T
        return result

    return compute


def fourier(x, w):
    """Correlation by float32 transforms of the whole plane."""
    size = x.shape[2:]
    spectrum = np.einsum("ncij,ocij->noij", np.fft.rfft2(x), np.conj(np.fft.rfft2(w, size)))
    return np.fft.irfft2(spectrum, size).astype(np.float32)[:, :, : size[0] - 2, : size[1] - 2]


def find(runner, text=LAYER):
    return find_family(ProbeSession(runner, parse_problem_text(text)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        LAYER,
        LAYER + " then=relu",
        LAYER + " then=clip(0,6)",
        LAYER + " bias",
        LAYER + " dtype=float16",
        LAYER + " dtype=float16 out=float32",
        "conv2d x=1x4x7x7 w=8x2x3x3 groups=2 stride=2 dilation=2 padding=2",
        "conv1d x=1x1x9 w=1x1x1",
        "conv2d.grad_input x=1x4x6x6 w=4x4x3x3 stride=2 padding=1",
        "conv2d.grad_weight x=2x4x6x6 w=4x2x3x3 groups=2 padding=1",
        "conv_transpose1d x=1x4x6 w=4x6x3 stride=2",
        "conv_transpose1d.grad_weight x=2x4x6 w=4x6x3",
        "conv3d x=1x2x4x4x4 w=3x2x2x2x2",
    ],
)
def test_sums_of_products_are_direct_in_every_direction(text):
    found = find(PlainRunner(), text)
    assert (found.family, found.wrong, found.leaked, found.finite) == ("direct", 0.0, 0.0, True)


@pytest.mark.parametrize(
    "runner",
    [
        PlainRunner(tuple(range(26, -1, -1))),
        PlainRunner(fused=True),
        PlainRunner(accumulator=to_float16),
        PlainRunner(accumulator=keep_bits(8)),
        PlainRunner(accumulator=to_float64),
        PlainRunner(reads={"all": to_bfloat16_cut}),
        PlainRunner(reads={"w": round_to_bfloat16}),
        PlainRunner(reads={"x": to_float16, "w": to_float16}),
    ],
)
def test_orders_and_roundings_are_direct_all_the_same(runner):
    assert find(runner).family == "direct"


@pytest.mark.parametrize("text", [LAYER, LAYER + " dtype=float16"])
@pytest.mark.parametrize("m", [2, 4])
def test_winograd_in_float32_mixes_the_weights_of_a_tile(text, m):
    found = find(Transformed(winograd(m)), text)
    assert found.family == "winograd"
    assert found.wrong > 0


def test_winograd_leaks_no_farther_than_its_tile():
    # One of 12 x 12 outputs is lit: of the 135 that it does not reach the tiles of 4 x 4 around hold 55 at most.
    found = find(Transformed(winograd(4)))
    assert 0 < found.leaked <= 55 / 135


def test_fourier_in_float32_leaks_over_the_whole_plane():
    found = find(Transformed(fourier))
    assert found.family == "fft"
    assert found.wrong > 0
    assert found.leaked > 0.5


@pytest.mark.parametrize("compute", [winograd(2), winograd(4), fourier])
def test_the_transforms_of_this_file_compute_the_convolution(compute):
    # Integers with so few bits that neither transform rounds by half: the nearest integers are the sums.
    random = np.random.default_rng(0)
    x, w = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((2, 3, 14, 14), (8, 3, 3, 3)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    assert np.array_equal(np.rint(compute(x, w)), np.einsum("nchwij,ocij->nohw", windows, w))


def test_the_response_is_kept_with_what_was_asked():
    found = find(PlainRunner())
    assert set(found.operands) == {"x", "w"}
    assert np.array_equal(PlainRunner().run(parse_problem_text(LAYER), found.operands), found.result)
    assert set(np.unique(found.operands["x"])) == {0.0, 1.0}


def test_a_result_that_is_nan_is_of_no_family():
    found = find(NanRunner())
    assert (found.family, found.finite) == ("unknown", False)


def test_where_no_output_reads_anything_no_family_is_named():
    assert find(PlainRunner(), "conv1d x=1x1x1 w=4x1x1 padding=1 stride=2").family == "unknown"


def test_what_leaks_although_the_weights_are_right_is_of_no_family():
    class Leaking(PlainRunner):
        """Adds a little wherever the result is zero."""

        def run(self, problem, operands):
            result = super().run(problem, operands)
            return np.where(result == 0, np.float32(2.0**-30), result)

    found = find(Leaking())
    assert (found.family, found.wrong) == ("unknown", 0.0)
    assert found.leaked == 1.0


def test_failures_come_through():
    with pytest.raises(EngineFailure):
        find(FailingRunner())
