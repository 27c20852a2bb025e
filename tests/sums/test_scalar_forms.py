"""Array and scalar emulators agree bit for bit; the scalar one works in exact fractions."""

import numpy as np
import pytest

from samebits.errors import RecipeError
from samebits.numbers.array import round_array_to_format
from samebits.numbers.format import FORMATS, find_format
from samebits.numbers.scalar import MODES
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.sums.emulators import emulate
from samebits.sums.emulators.fft import compute_fft
from samebits.sums.emulators.result_rounding import round_array
from samebits.sums.emulators.sums_scalar import emulate_output
from samebits.sums.emulators.transforms_scalar import POINTS, fft_row, winograd_output
from samebits.sums.emulators.winograd import MATRICES
from samebits.sums.recipes import parse_recipe
from samebits.sums.recipes.recipe import Rounding

PROBLEMS = (
    "conv2d x=1x6x5x5 w=3x6x3x3 padding=1 bias",
    "conv2d.grad_input x=2x4x5x5 w=6x2x3x3 stride=2 padding=1 groups=2",
    "conv2d.grad_weight x=2x4x5x5 w=6x2x3x3 stride=2 padding=1 groups=2",
    "conv_transpose2d x=1x4x4x4 w=4x3x3x3 stride=3 padding=1 output_padding=1 bias then=clip(-1,1)",
    "conv_transpose1d.grad_weight x=2x4x7 w=4x3x3 stride=2 padding=1",
    "conv1d x=3x4x12 w=5x4x3 dilation=2 bias dtype=float16 then=relu",
    "conv1d x=2x4x12 w=5x4x3 dilation=2 padding=3 bias dtype=bfloat16 out=float32",
    "conv3d x=1x2x3x4x4 w=3x2x2x3x3 padding=1",
)
RECIPES = (
    "direct",
    "direct product=rounded order=halves:k%8|k bias=first",
    "direct acc=float64",
    "direct acc=float16 x=float16 w=float16 bias=first",
    "direct acc=bfloat16/toward_zero product=rounded",
    "direct acc=float32/toward_zero fused=25 order=k/16|fused:k x=bfloat16 w=bfloat16 bias=first",
    "direct acc=float32 fused=25/float32/toward_zero order=k/8|k/4|fused:k x=bfloat16 w=bfloat16",
    "direct acc=float32 fused=13/e8m13/toward_zero order=k/8|k/4|fused:k x=bfloat16 w=bfloat16",
    "direct order=chain@float16:k/8|k",
    "direct bias=first order=chain@float16:k/8|chain@float16:k/8|k",
    "direct acc=float32/downward flush=results,operands",
    "direct acc=float16 fused=12 order=k/4|fused:k x=float16 w=float16 padding=multiplied",
    "direct x=tf32/toward_zero w=bfloat16/nearest_away product=float16 via=float16 bias=rounded start=product",
    "direct x=bfloat16 w=bfloat16 b=bfloat16 via=bfloat16",
    "direct x=float16 b=float16/toward_zero via=float16 bias=rounded",
    "direct b=bfloat16 bias=first",
    "direct product=rounded flush=results",
    "direct acc=float16/upward x=float16 w=float16",
    "direct acc=float8_e4m3fn x=float8_e5m2 w=float8_e4m3fn",
)
# Ordinary values; products about float32's subnormals; products about float16's.
SCALES = (1.0, 2.0**-75, 2.0**-12)


@pytest.mark.slow
@pytest.mark.parametrize("recipe_text", RECIPES)
@pytest.mark.parametrize("problem_text", PROBLEMS)
def test_array_and_scalar_emulators_give_the_same_bits(problem_text, recipe_text):
    problem, recipe = parse_problem_text(problem_text), parse_recipe(recipe_text)
    random = np.random.default_rng(5)
    for scale in SCALES:
        operands = make_normal(problem, 1)
        operands = {n: (v.astype(np.float64) * scale).astype(v.dtype) for n, v in operands.items()}
        result = emulate(problem, recipe, operands).astype(np.float64)
        places = list(np.ndindex(*result.shape))
        for i in random.choice(len(places), min(12, len(places)), replace=False):
            expected = emulate_output(problem, recipe, operands, places[i])
            assert expected == result[places[i]], (scale, places[i])
            assert np.signbit(expected) == np.signbit(result[places[i]]), (scale, places[i])


def test_outputs_in_different_places_use_their_own_order_product_and_bias():
    problem = parse_problem_text("conv1d x=1x4x9 w=2x4x3 bias")
    recipe = parse_recipe("direct order=c,kw;kw|c!product=rounded!bias=first where=ow(0*4,1*3)")
    operands = make_normal(problem, 0)
    result = emulate(problem, recipe, operands)
    one = emulate(problem, parse_recipe("direct order=c,kw"), operands)
    other = emulate(problem, parse_recipe("direct order=kw|c product=rounded bias=first"), operands)
    assert np.array_equal(result[..., :4], one[..., :4])
    assert np.array_equal(result[..., 4:], other[..., 4:])
    for index in np.ndindex(*result.shape):
        assert emulate_output(problem, recipe, operands, index) == result[index]


def test_outputs_that_nobody_wants_are_not_computed():
    problem = parse_problem_text("conv2d x=1x4x40x40 w=8x4x3x3 padding=1 dtype=float32")
    operands = make_normal(problem)
    recipe = parse_recipe("direct acc=float16")
    wanted = np.zeros(problem.out_shape, bool)
    wanted[0, 3, 0, 5] = True
    whole, some = emulate(problem, recipe, operands), emulate(problem, recipe, operands, wanted=wanted)
    assert some[wanted] == whole[wanted]
    # Computed are rows times positions that share a pattern of terms, no more.
    assert not some[:, :3].any()
    assert not some[:, :, 1:].any()


def test_a_bias_after_some_terms_joins_the_running_sum_there():
    problem = parse_problem_text("conv2d x=1x4x4x4 w=2x4x3x3 padding=1 bias")
    recipe = parse_recipe("direct order=c/2|kh,kw,c bias=after/18")
    operands = make_normal(problem, 0)
    result = emulate(problem, recipe, operands)
    for index in np.ndindex(*result.shape):
        assert emulate_output(problem, recipe, operands, index) == result[index]
    stored = parse_recipe("direct order=chain@float16:c/2|kh,kw,c bias=after/18")
    result = emulate(problem, stored, operands)
    for index in np.ndindex(*result.shape):
        assert emulate_output(problem, stored, operands, index) == result[index]
    with pytest.raises(RecipeError, match="no running sum"):
        emulate(problem, parse_recipe("direct order=c/2|kh,kw,c bias=after/20"), operands)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [n for n in FORMATS if n != "float64"])
def test_compiled_rounding_agrees_with_the_formats_own(name, mode):
    random = np.random.default_rng(3)
    values = random.standard_normal(20_000) * np.exp2(random.integers(-170, 140, 20_000))
    values[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 2.0**-149, -(2.0**-150)]
    rounded = round_array(values, Rounding(name, mode)).astype(np.float64)
    expected = round_array_to_format(values, find_format(name), mode)
    assert np.array_equal(rounded, expected, equal_nan=True)
    finite = ~np.isnan(expected)
    assert np.array_equal(np.signbit(rounded[finite]), np.signbit(expected[finite]))


@pytest.mark.parametrize("tile", [2, 4, 6])
def test_winograd_matrices_compute_a_correlation_exactly(tile):
    """In fractions A^T [(G g) (B^T d)] is the correlation of d with g, whatever they are."""
    output, weight, data = MATRICES[tile]
    assert len(POINTS[tile]) == tile + 1
    for j in range(3):
        for i in range(tile + 2):
            transformed = [row[j] * column[i] for row, column in zip(weight, data, strict=True)]
            result = [sum(a * t for a, t in zip(row, transformed, strict=True)) for row in output]
            assert result == [1 if i == o + j else 0 for o in range(tile)]


@pytest.mark.slow
@pytest.mark.parametrize("product", ["fused", "rounded"])
@pytest.mark.parametrize("accumulator", ["float32", "float16"])
@pytest.mark.parametrize("tile", [2, 4, 6])
@pytest.mark.parametrize("text", ["conv2d x=1x3x7x6 w=2x3x3x3 padding=1", "conv1d x=2x3x11 w=2x3x3"])
def test_both_forms_of_winograd_give_the_same_bits(text, tile, accumulator, product):
    problem = parse_problem_text(text)
    recipe = parse_recipe(f"winograd({tile}) acc={accumulator} product={product}")
    operands = make_normal(problem, 2)
    operands = {n: v.astype(np.float16).astype(np.float32) for n, v in operands.items()}
    result = emulate(problem, recipe, operands)
    for index in list(np.ndindex(*result.shape))[::7]:
        assert winograd_output(problem, recipe, operands, index, MATRICES[tile]) == result[index], index


def test_both_forms_of_fourier_give_the_same_bits():
    problem = parse_problem_text("conv1d x=1x1x21 w=1x1x5")
    operands = make_normal(problem, 4)
    result = compute_fft(problem, parse_recipe("fft"), operands)
    assert fft_row(operands["x"][0, 0].tolist(), operands["w"][0, 0].tolist()) == result[0, 0].tolist()


@pytest.mark.parametrize(
    "text",
    [
        "conv2d x=2x3x9x8 w=4x3x3x3 padding=1",
        "conv2d x=1x4x9x8 w=4x2x3x3 stride=2 dilation=2 padding=2 groups=2",
        "conv2d.grad_input x=2x4x5x5 w=6x2x3x3 stride=2 padding=1 groups=2",
        "conv2d.grad_weight x=2x4x5x5 w=6x2x3x3 stride=2 padding=1 groups=2",
        "conv_transpose2d x=1x4x4x4 w=4x3x3x3 stride=3 padding=1 output_padding=1",
        "conv_transpose2d.grad_weight x=2x4x3x3 w=4x3x3x3 stride=2 padding=1",
    ],
)
@pytest.mark.parametrize("family", ["fft", "winograd(2)"])
def test_a_transform_computes_small_integers_to_within_its_rounding(family, text):
    """Small integers: the nearest integer to every output is the exact sum, in every direction."""
    problem = parse_problem_text(text)
    random = np.random.default_rng(0)
    operands = {n: random.integers(-3, 4, s).astype(np.float32) for n, s in problem.operand_shapes.items()}
    exact = emulate(problem, parse_recipe("direct acc=float64"), operands)
    # A scatter is computed as a forward convolution of a source with zeros between its values, of stride 1.
    scatters = problem.is_transposed == (problem.direction == "forward") and problem.direction != "grad_weight"
    plain = set(problem.stride) == {1} and problem.direction != "grad_weight"
    fits = family == "fft" or ((scatters or plain) and set(problem.dilation) == {1})
    if not fits:
        with pytest.raises(RecipeError):
            emulate(problem, parse_recipe(family), operands)
        return
    assert np.array_equal(np.rint(emulate(problem, parse_recipe(family), operands)), exact)


@pytest.mark.parametrize(
    ("text", "recipe"),
    [
        ("conv2d x=1x3x8x8 w=4x3x5x5", "winograd(2)"),
        ("conv2d x=1x3x8x8 w=4x3x3x3 stride=2", "winograd(4)"),
        ("conv2d x=1x3x8x8 w=4x3x3x3 bias", "fft bias=first"),
        ("conv2d x=1x3x8x8 w=4x3x3x3", "direct order=z"),
        ("conv2d x=1x3x8x8 w=4x3x3x3", "direct order=k/4|fused:k"),
        ("conv2d x=1x3x8x8 w=4x3x3x3 dtype=float64", "direct"),
        ("conv2d x=1x3x8x8 w=4x3x3x3", "direct acc=float64 flush=results"),
        ("conv2d x=1x3x8x8 w=4x3x3x3", "direct order=k;-k where=ow(0*3,1*4)"),
        ("conv2d x=1x3x8x8 w=4x3x3x3", "direct order=k where=ow(0*3,1*3)"),
        ("conv2d x=1x3x8x8 w=4x3x3x3", "fft acc=float16"),
    ],
)
def test_a_recipe_that_does_not_fit_a_problem_says_so(text, recipe):
    problem = parse_problem_text(text)
    with pytest.raises(RecipeError):
        emulate(problem, parse_recipe(recipe), make_normal(problem, 0))
