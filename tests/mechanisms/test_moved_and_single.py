"""Single values, low ranks, weights a little off, parts that moved, multiples, borders, attributes mixed up.

Every fault is made by plain NumPy, and beside it a sound float32 result has to be left in peace.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import samebits
from naive_convolution import convolve, find_begins
from samebits.findings import Comparison, Side
from samebits.problems import parse_problem_text
from samebits.problems.problem_text import format_problem

CONV = "conv2d x=2x6x14x17 w=10x6x3x3 padding=1"
LINEAR = "linear x=90x40 w=24x40"


def draw(text: str, seed: int) -> dict[str, np.ndarray]:
    """Operands as layers have them: inputs behind a relu, weights of a usual size."""
    problem, random = parse_problem_text(text), np.random.default_rng(seed)
    shapes = {"x": problem.x, "w": problem.w, "dy": problem.y_shape}
    if problem.direction == "grad_input":
        del shapes["x"]
    elif problem.direction == "grad_weight":
        del shapes["w"]
    else:
        del shapes["dy"]
    made = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    if "x" in made:
        made["x"] = np.maximum(made["x"] + np.float32(0.2), 0)
    return made


def compute(text: str, operands: Mapping[str, np.ndarray]) -> np.ndarray:
    """The sums in float64, of a convolution or of `linear`."""
    exact = {name: array.astype(np.float64) for name, array in operands.items()}
    if text.startswith("linear"):
        return exact["x"] @ exact["w"].T
    return convolve(parse_problem_text(text), exact)


def explain(text: str, operands: Mapping[str, np.ndarray], faulty: np.ndarray) -> Side:
    """The faulty side, after the sound one was found sound."""
    dtype = np.float32
    found = samebits.explain(
        problem=text, **operands, faulty=faulty.astype(dtype), sound=compute(text, operands).astype(dtype)
    )
    assert isinstance(found, Comparison)
    sides = {side.name: side for side in found.sides}
    assert sides["sound"].verdict in ("identical", "rounding")
    return sides["faulty"]


@pytest.mark.parametrize(
    "text", [CONV, LINEAR, "conv1d x=3x8x40 w=12x4x5 groups=2 stride=2", "conv2d.grad_input x=2x6x9x8 w=5x6x3x3"]
)
@pytest.mark.parametrize(
    ("factor", "says"), [(-1.0, "with the other sign"), (0.0, "as zero"), (2.0**12, "2^12 times it"), (1.37, "as ")]
)
def test_one_value_of_the_weights(text: str, factor: float, says: str) -> None:
    operands = draw(text, 1)
    other = operands["w"].copy()
    place = tuple(size // 2 for size in other.shape)
    other[place] *= np.float32(factor)
    side = explain(text, operands, compute(text, {**operands, "w": other}))
    assert (side.verdict, side.cause) == ("wrong", "other-operands")
    assert side.says is not None
    assert f"w[{', '.join(map(str, place))}] {says}" in side.says if factor != 2.0**12 else says in side.says


def test_the_same_product_left_out_of_all_channels_is_no_single_weight() -> None:
    operands = draw(LINEAR, 2)
    other = operands["w"].copy()
    other[:, -1] = 0
    side = explain(LINEAR, operands, compute(LINEAR, {**operands, "w": other}))
    assert side.cause == "shape-specific-kernel"
    assert side.says is not None
    assert "leaves out product 39" in side.says


@pytest.mark.parametrize("size", [1e-2, 1e-3, 1e-4])
def test_weights_a_little_off_are_others_and_not_rounded(size: float) -> None:
    operands = draw(CONV, 3)
    noise = np.random.default_rng(4).standard_normal(operands["w"].shape) * size
    side = explain(CONV, operands, compute(CONV, {**operands, "w": operands["w"] * (1 + noise)}))
    assert (side.verdict, side.cause) == ("wrong", "other-operands")


@pytest.mark.parametrize("codes", [127, 7])
def test_weights_on_a_grid_of_their_own_are_rounded(codes: int) -> None:
    """The control of the two others: the recorded weights, stored in few bits."""
    operands = draw(CONV, 5)
    step = np.abs(operands["w"]).max(axis=(1, 2, 3), keepdims=True).astype(np.float64) / codes
    side = explain(CONV, operands, compute(CONV, {**operands, "w": np.rint(operands["w"] / step) * step}))
    assert (side.verdict, side.cause) == ("downgrade", "quantized-operands")


def test_other_weights_on_a_grid_are_others() -> None:
    operands, others = draw(CONV, 6), draw(CONV, 7)["w"].astype(np.float64)
    step = np.abs(others).max(axis=(1, 2, 3), keepdims=True) / 127
    side = explain(CONV, operands, compute(CONV, {**operands, "w": np.rint(others / step) * step}))
    assert (side.verdict, side.cause) == ("wrong", "other-operands")


@pytest.mark.parametrize(("rank", "text"), [(1, "linear x=150x120 w=60x120"), (4, "linear x=50x120 w=60x120")])
def test_an_adapter_that_was_merged_has_a_low_rank(rank: int, text: str) -> None:
    operands, random = draw(text, 8), np.random.default_rng(9)
    added = random.standard_normal((60, rank)) @ random.standard_normal((rank, 120)) * 0.02
    side = explain(text, operands, compute(text, {**operands, "w": operands["w"] + added}))
    assert (side.verdict, side.cause) == ("wrong", "other-operands")
    assert side.says is not None
    assert f"rank {rank}" in side.says


@pytest.mark.parametrize(
    "text", ["conv2d.grad_input x=2x6x9x8 w=5x6x3x3 padding=1", "conv1d.grad_weight x=4x5x60 w=6x5x3"]
)
def test_an_activation_of_dy(text: str) -> None:
    operands = draw(text, 10)
    side = explain(text, operands, compute(text, {**operands, "dy": np.maximum(operands["dy"], 0)}))
    assert (side.verdict, side.cause) == ("wrong", "other-operands")
    assert side.says is not None
    assert "dy behind an activation (relu)" in side.says


def test_two_tiles_exchanged() -> None:
    operands = draw(CONV, 11)
    right = compute(CONV, operands)
    faulty = right.copy()
    faulty[1, :, 0:6, 8:14], faulty[1, :, 8:14, 2:8] = right[1, :, 8:14, 2:8], right[1, :, 0:6, 8:14]
    side = explain(CONV, operands, faulty)
    assert (side.verdict, side.cause) == ("wrong", "axis-order")
    assert side.says is not None
    assert "exchanges two parts of its result" in side.says


@pytest.mark.parametrize("fill", ["zeros", "edge"])
def test_a_crop_one_further(fill: str) -> None:
    text = "conv_transpose2d x=2x6x9x8 w=6x4x5x5 stride=2 padding=2 output_padding=1"
    operands = draw(text, 12)
    right = compute(text, operands)
    faulty = np.zeros_like(right)
    faulty[:, :, :-1] = right[:, :, 1:]
    if fill == "edge":
        faulty[:, :, -1] = faulty[:, :, -2]
    side = explain(text, operands, faulty)
    assert (side.verdict, side.cause) == ("wrong", "transposed-geometry")
    assert side.says is not None
    assert "moved by 1 along oh toward the beginning" in side.says


@pytest.mark.parametrize("width", [16, 32])
def test_sums_of_whole_numbers_off_by_multiples_of_a_power_of_two(width: int) -> None:
    random = np.random.default_rng(13)
    operands = {
        "x": random.integers(-9, 10, (30, 40)).astype(np.float32),
        "w": random.integers(-9, 10, (24, 40)).astype(np.float32),
    }
    text = "linear x=30x40 w=24x40"
    right = compute(text, operands)
    faulty = right + np.where(random.random(right.shape) < 0.1, 2.0**width, 0.0)
    side = explain(text, operands, faulty)
    assert (side.verdict, side.cause) == ("wrong", "overflow")
    assert side.says is not None
    assert f"2^{width}" in side.says


@pytest.mark.parametrize("sides", ["all", "left and right"])
def test_stale_values_in_the_padding(sides: str) -> None:
    operands = draw(CONV, 14)
    stale = np.random.default_rng(15).standard_normal((2, 6, 16, 19))
    if sides == "left and right":
        stale[:, :, [0, -1]] = 0
    stale[:, :, 1:-1, 1:-1] = operands["x"]
    faulty = compute("conv2d x=2x6x16x19 w=10x6x3x3", {**operands, "x": stale})
    side = explain(CONV, operands, faulty)
    assert (side.verdict, side.cause) == ("wrong", "padding")


def test_the_last_column_alone_may_be_a_tail() -> None:
    """The control: 17 outputs, of which vectors of 16 leave one over."""
    operands = draw(CONV, 16)
    faulty = compute(CONV, operands)
    faulty[..., -1] = np.random.default_rng(17).standard_normal(faulty.shape[:-1])
    assert explain(CONV, operands, faulty).cause == "shape-specific-kernel"


@pytest.mark.parametrize(("one", "other"), [("stride", "dilation"), ("dilation", "padding"), ("stride", "padding")])
@pytest.mark.parametrize("kind", ["conv2d", "conv2d.grad_weight"])
def test_two_attributes_taken_for_each_other(kind: str, one: str, other: str) -> None:
    values = {"stride": 2, "dilation": 3, "padding": 1 if one == "dilation" else 4}
    text = f"{kind} x=3x5x21x20 w=6x5x3x3 " + " ".join(f"{name}={value}" for name, value in values.items())
    problem, operands = parse_problem_text(text), draw(text, 18)
    mixed = {**values, one: values[other], other: values[one]}
    exact = {name: array.astype(np.float64) for name, array in operands.items()}
    twice = {name: (value,) * 2 for name, value in mixed.items()}
    assert find_begins(problem) == (values["padding"],) * 2
    faulty = convolve(problem, exact, begins=twice["padding"], strides=twice["stride"], dilations=twice["dilation"])
    side = explain(format_problem(problem), operands, faulty)
    assert (side.verdict, side.cause) == ("wrong", "dropped-attribute")
    assert side.says is not None
    assert f"takes the {one} and {other} for each other" in side.says


def test_sums_that_cancel_are_no_stored_results() -> None:
    """Float32 sums of large terms are multiples of a step that is long for the small sum that is left."""
    random = np.random.default_rng(19)
    half = random.standard_normal((20, 300))
    x = np.concatenate([half, half], axis=1).astype(np.float32)
    rows = random.standard_normal((30, 300))
    w = np.concatenate([rows, -rows], axis=1) + random.standard_normal((30, 600)) * 1e-6
    w = w.astype(np.float32)
    operands = {"x": x, "w": w}
    sums = np.zeros((20, 30), np.float32)
    for k in range(300):
        sums += x[:, k, None] * w[:, k] + x[:, k + 300, None] * w[:, k + 300]
    assert explain("linear x=20x600 w=30x600", operands, sums).verdict == "rounding"


def test_integer_sums_off_by_a_carry(tmp_path) -> None:
    """The names of a case file's results are names, in a case of codes too."""
    random = np.random.default_rng(20)
    x, w = random.integers(0, 256, (9, 64), dtype=np.uint8), random.integers(-128, 128, (16, 64), dtype=np.int8)
    right = x.astype(np.int64) @ w.astype(np.int64).T
    lost = right - np.where(random.random(right.shape) < 0.3, 2**16, 0)
    path = tmp_path / "codes.npz"
    np.savez(
        path, problem="linear x=9x64 w=16x64 dtype=uint8 weights=int8 out=int32", x=x, w=w, a=lost.astype(np.int32),
        b=right.astype(np.int32), name_a="lost", name_b="kept",
    )  # fmt: skip
    found = samebits.explain(path)
    assert isinstance(found, Comparison)
    sides = {side.name: side for side in found.sides}
    assert (sides["lost"].verdict, sides["lost"].cause, sides["kept"].verdict) == ("wrong", "overflow", "identical")
    assert sides["lost"].says is not None
    assert "off by -1 times 2^16" in sides["lost"].says


def test_a_crop_one_further_along_both_axes() -> None:
    text = "conv_transpose2d x=2x6x9x8 w=6x4x5x5 stride=2 padding=2 output_padding=1"
    operands = draw(text, 21)
    right = compute(text, operands)
    faulty = np.zeros_like(right)
    faulty[:, :, :-1, :-1] = right[:, :, 1:, 1:]
    side = explain(text, operands, faulty)
    assert (side.verdict, side.cause) == ("wrong", "transposed-geometry")


@pytest.mark.parametrize("flat", ["pixels", "taps"])
def test_two_tiles_of_the_matrix_product_exchanged(flat: str) -> None:
    """Rows of such a tile end anywhere in an image, or in a kernel."""
    text = "conv2d x=1x6x14x17 w=24x6x3x3 padding=1" if flat == "pixels" else "conv2d.grad_weight x=3x6x9x8 w=32x6x3x3"
    operands = draw(text, 22)
    right = compute(text, operands)
    faulty = right.copy().reshape(len(right) if flat == "taps" else 24, -1)
    one, other = (slice(0, 8), slice(16, 32)), (slice(8, 16), slice(33, 49))
    matrix = right.reshape(faulty.shape)
    faulty[one], faulty[other] = matrix[other], matrix[one]
    side = explain(text, operands, faulty.reshape(right.shape))
    assert (side.verdict, side.cause) == ("wrong", "axis-order")


def test_gradients_clipped_before_the_product() -> None:
    text = "linear.grad_input x=60x40 w=50x40"
    random = np.random.default_rng(23)
    operands = {
        name: random.standard_normal(shape).astype(np.float32) for name, shape in (("w", (50, 40)), ("dy", (60, 50)))
    }
    right = operands["dy"].astype(np.float64) @ operands["w"].astype(np.float64)
    faulty = np.clip(operands["dy"].astype(np.float64), -0.75, 0.75) @ operands["w"].astype(np.float64)
    found = samebits.explain(problem=text, **operands, faulty=faulty.astype(np.float32), sound=right.astype(np.float32))
    assert isinstance(found, Comparison)
    sides = {side.name: side for side in found.sides}
    assert (sides["faulty"].verdict, sides["faulty"].cause) == ("wrong", "other-operands")
    assert "dy clipped to magnitudes up to 0.75" in (sides["faulty"].says or "")
    assert sides["sound"].verdict in ("identical", "rounding")


@pytest.mark.parametrize("text", [LINEAR, "linear x=20x200 w=60x200"])
def test_one_step_of_training_moves_all_weights_by_about_as_much(text: str) -> None:
    """Solved for, or not: with fewer rows than weights nothing but the size of the errors is known."""
    operands = draw(text, 24)
    step = np.sign(np.random.default_rng(25).standard_normal(operands["w"].shape)) * 2e-3
    side = explain(text, operands, compute(text, {**operands, "w": operands["w"] + step}))
    assert side.cause == "other-operands"
    assert side.verdict == ("wrong" if text == LINEAR else "undecided")


def test_pairs_of_channels_saturate_where_an_odd_one_is_alone(tmp_path) -> None:
    """Kernels with channels last put the odd channel of each tap beside a zero."""
    random = np.random.default_rng(26)
    x, w = random.integers(150, 256, (1, 5, 6, 7)), random.integers(90, 128, (4, 5, 2, 2))
    windows = np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3))
    products = np.einsum("nchwij,ocij->nohwcij", windows, w)
    padded = np.concatenate([products, np.zeros_like(products[..., :1, :, :])], axis=4)
    pairs = np.clip(padded[:, :, :, :, ::2] + padded[:, :, :, :, 1::2], -(2**15), 2**15 - 1)
    result = pairs.sum((4, 5, 6)).astype(np.int32)
    path = tmp_path / "pairs.npz"
    problem = "conv2d x=1x5x6x7 w=4x5x2x2 dtype=uint8 weights=int8 out=int32"
    np.savez(path, problem=problem, x=x.astype(np.uint8), w=w.astype(np.int8), a=result)
    found = samebits.explain(path)
    assert isinstance(found, Comparison)
    assert (found.sides[0].verdict, found.sides[0].cause, found.sides[0].cause_certainty) == (
        "wrong",
        "int8-saturation",
        "bits",
    )


def test_a_channel_that_a_clip_hides_wholly_is_no_single_value() -> None:
    """Nothing of it tells what was multiplied."""
    operands = draw("linear x=40x16 w=32x16", 27)
    result = np.maximum(operands["x"].astype(np.float64) @ operands["w"].T.astype(np.float64), 0)
    result[:, 5] = 0
    found = samebits.explain(problem="linear x=40x16 w=32x16 then=relu", **operands, mine=result.astype(np.float32))
    assert isinstance(found, Comparison)
    assert (found.sides[0].verdict, found.sides[0].cause) == ("wrong", "shape-specific-kernel")
    assert "zeros" in (found.sides[0].says or "")


@pytest.mark.parametrize("fault", ["position", "column of x"])
def test_what_weights_cannot_have_made_is_not_blamed_on_them(fault: str) -> None:
    operands = draw(LINEAR, 28)
    random = np.random.default_rng(29)
    if fault == "position":
        faulty = compute(LINEAR, operands) + random.standard_normal((90, 1))
    else:
        x = operands["x"].copy()
        x[:, 7] = random.standard_normal(90)
        faulty = compute(LINEAR, {**operands, "x": x})
    assert "rank" not in (explain(LINEAR, operands, faulty).says or "")


def test_multiples_that_all_sums_are_anyway_are_no_overflow() -> None:
    random = np.random.default_rng(30)
    operands = {n: random.integers(-3, 4, s).astype(np.float32) * 256 for n, s in (("x", (40, 16)), ("w", (24, 16)))}
    faulty = compute("linear", operands)
    faulty[:, 5] *= 2
    side = explain("linear x=40x16 w=24x16", operands, faulty)
    assert side.cause != "overflow"


@pytest.mark.parametrize(("operand", "bits"), [("w", 7), ("w", 10), ("x", 9), ("w", 14)])
def test_operands_of_any_number_of_bits_are_rounded_ones(operand: str, bits: int) -> None:
    operands = draw(LINEAR, 31)
    mantissas, exponents = np.frexp(operands[operand].astype(np.float64))
    short = np.ldexp(np.rint(mantissas * 2.0**bits), exponents - bits)
    side = explain(LINEAR, operands, compute(LINEAR, {**operands, operand: short}))
    assert (side.verdict, side.cause) == ("downgrade", "reduced-precision-operands")


@pytest.mark.parametrize("bits", [10, 12, 16])
def test_weights_in_long_codes_are_stored_ones(bits: int) -> None:
    operands = draw(LINEAR, 32)
    step = np.abs(operands["w"]).max(axis=1, keepdims=True).astype(np.float64) / (2 ** (bits - 1) - 1)
    side = explain(LINEAR, operands, compute(LINEAR, {**operands, "w": np.rint(operands["w"] / step) * step}))
    assert (side.verdict, side.cause) == ("downgrade", "quantized-operands")


def test_weights_rounded_to_either_side_are_rounded_ones() -> None:
    """Stochastic rounding to bfloat16: solved for, the weights have eight significant bits."""
    operands = draw(LINEAR, 33)
    mantissas, exponents = np.frexp(operands["w"].astype(np.float64))
    random = np.random.default_rng(34).random(mantissas.shape)
    short = np.ldexp(np.floor(mantissas * 2.0**8 + random), exponents - 8)
    side = explain(LINEAR, operands, compute(LINEAR, {**operands, "w": short}))
    assert (side.verdict, side.cause) == ("downgrade", "reduced-precision-operands")
    assert "8 significant bits" in (side.says or "")
