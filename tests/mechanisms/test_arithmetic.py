"""Less precise arithmetic: listed hypotheses against NumPy sums of operands rounded by ml_dtypes and bit masks."""

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from naive_convolution import by_row, convolve, observe, predict
from numpy_runners import (
    PlainRunner,
    cut_float32,
    flush,
    keep_bits,
    to_bfloat16_cut,
    to_bfloat16_if_odd,
    to_float16,
    to_float32,
    to_tf32_cut,
)
from samebits.findings.causes import CauseCode
from samebits.mechanisms.arithmetic.arithmetic import (
    list_operand_hypotheses,
    list_operand_recipes,
    list_order_hypotheses,
    list_recipe_hypotheses,
    list_transform_hypotheses,
)
from samebits.mechanisms.facts.observation import Observation
from samebits.numbers import numpy_dtype
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_exact, make_normal
from samebits.sums.recipes import format_recipe
from samebits.sums.recipes.recipe import Rounding

SMALL = "conv2d x=1x4x5x5 w=3x4x3x3 padding=1"
PROBLEMS = [
    SMALL,
    "conv1d x=2x4x9 w=4x2x3 stride=2 padding=2 dilation=2 groups=2",
    "conv3d x=1x2x3x3x3 w=2x2x2x2x2",
    "conv2d.grad_input x=1x4x5x5 w=3x4x3x3 stride=2",
    "conv2d.grad_weight x=2x4x5x5 w=4x2x3x3 groups=2",
    "conv_transpose1d x=1x4x5 w=4x3x3 padding=1",
    "conv_transpose1d.grad_weight x=2x4x5 w=4x3x3",
    SMALL + " dtype=float64",
    SMALL + " dtype=float16",
    SMALL + " bias then=relu",
]


def round_to_bfloat16(values):
    return values.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


ROUNDINGS = {
    "tf32": keep_bits(11),
    "bfloat16": round_to_bfloat16,
    "float16": to_float16,
    "tf32 (truncated)": to_tf32_cut,
    "bfloat16 (truncated)": to_bfloat16_cut,
    "bfloat16 (truncated where even)": to_bfloat16_if_odd,
    "float32": to_float32,
}


EVEN = "bfloat16 (truncated where even)"


def make_dyadic(problem, bits=16, seed=0):
    """Operands with 16 significant bits below 4: roundings change them, and sums of products are exact in float64."""
    random = np.random.default_rng(seed)
    return {
        name: (random.integers(-(2**bits), 2**bits, shape) / 2 ** (bits - 2)).astype(numpy_dtype(problem.dtype))
        for name, shape in problem.operand_shapes.items()
    }


def finish(problem, sums, operands):
    if problem.bias:
        sums = sums + operands["bias"].astype(np.float64).reshape(1, -1, *(1,) * problem.rank)
    return sums if problem.then is None else np.clip(sums, problem.then.low, problem.then.high)


def observe_floats(problem, operands):
    wide = {n: a.astype(np.float64) for n, a in operands.items()}
    truth = finish(problem, convolve(problem, wide), operands)
    given = truth.astype(numpy_dtype(problem.out))
    ones = np.ones(problem.out_shape)
    return Observation(problem, operands, given, given, ones, ones)


def read_as_said(wide, said):
    """ "x and w to tf32", "x to bfloat16 and w to float16 (truncated)"."""
    read = dict(wide)
    for names, name in re.findall(r"((?:\w+ and )?\w+) to (\w+(?: \(truncated(?: where even)?\))?)", said):
        read |= {n: ROUNDINGS[name](wide[n]) for n in names.split(" and ")}
    return read


def compute_what_is_said(problem, operands, says):
    wide = {n: a.astype(np.float64) for n, a in operands.items()}
    if match := re.fullmatch(r"rounds the bias to (.*) before it is added", says):
        narrow = ROUNDINGS[match[1]](wide["bias"])
        return finish(problem, convolve(problem, wide), {**operands, "bias": narrow})
    if match := re.fullmatch(r"rounds (.*) before it multiplies", says):
        return finish(problem, convolve(problem, read_as_said(wide, match[1])), operands)
    if match := re.fullmatch(r"computes in (.*): rounds operands and results", says):
        round_ = ROUNDINGS[match[1]]
        return round_(finish(problem, convolve(problem, {n: round_(a) for n, a in wide.items()}), operands))
    if match := re.fullmatch(r"computes in (.*): rounds operands, bias and results", says):
        round_ = ROUNDINGS[match[1]]
        narrow = {n: round_(a) for n, a in wide.items()}
        return round_(finish(problem, convolve(problem, narrow), {**operands, "bias": narrow["bias"]}))
    if match := re.fullmatch(r"computes in (.*): rounds operands, stores sums, adds the bias and rounds again", says):
        round_ = ROUNDINGS[match[1]]
        narrow = {n: round_(a) for n, a in wide.items()}
        sums = round_(convolve(replace(problem, bias=False), {n: a for n, a in narrow.items() if n != "bias"}))
        return round_(finish(problem, sums, narrow))
    assert says == "takes subnormal operands for zero"
    return finish(problem, convolve(problem, {n: flush(a) for n, a in wide.items()}), operands)


@pytest.mark.parametrize("text", PROBLEMS)
def test_every_operand_rounding_predicts_what_it_says(text):
    problem = parse_problem_text(text)
    operands = make_dyadic(problem, 11 if problem.dtype == "float16" else 16)
    observation = observe_floats(problem, operands)
    for hypothesis in list_operand_hypotheses(problem):
        expected = compute_what_is_said(problem, operands, hypothesis.says)
        predicted = predict(hypothesis, observation)
        if predicted is None:
            # Operands that are what they would be rounded to explain nothing.
            predicted = by_row(problem, finish(problem, convolve(problem, operands), operands))
        assert np.array_equal(predicted, by_row(problem, expected)), hypothesis.says
        assert hypothesis.verdict == "downgrade"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_subnormal_operands_are_taken_for_zero(dtype):
    problem = parse_problem_text(f"conv1d x=1x2x7 w=3x2x3 dtype={dtype}")
    random = np.random.default_rng(0)
    # Half of the values are subnormal, the other factor lifts the products.
    x = random.integers(1, 128, (1, 2, 7)) * 2.0 ** random.choice([-133.0, -120.0], (1, 2, 7))
    operands = {"x": x.astype(numpy_dtype(dtype)), "w": np.full((3, 2, 3), 2.0**60).astype(numpy_dtype(dtype))}
    observation = observe_floats(problem, operands)
    first = next(iter(list_operand_hypotheses(problem)))
    assert (first.says, first.cause) == ("takes subnormal operands for zero", CauseCode.SUBNORMALS)
    assert np.array_equal(
        predict(first, observation), by_row(problem, compute_what_is_said(problem, operands, first.says))
    )
    assert not np.array_equal(predict(first, observation), by_row(problem, observation.truth))


@pytest.mark.parametrize(
    ("dtype", "formats"),
    [
        ("float64", {"tf32", "bfloat16", "float16", "tf32 (truncated)", "bfloat16 (truncated)", EVEN, "float32"}),
        ("float32", {"tf32", "bfloat16", "float16", "tf32 (truncated)", "bfloat16 (truncated)", EVEN}),
        ("float16", {"bfloat16", "bfloat16 (truncated)", EVEN}),
        ("bfloat16", {"float16"}),
    ],
)
def test_what_loses_nothing_is_not_supposed(dtype, formats):
    problem = parse_problem_text(f"conv1d x=1x2x7 w=3x2x3 dtype={dtype}")
    sentences = [h.says for h in list_operand_hypotheses(problem)]
    matches = [re.fullmatch(r"rounds (.*) before it multiplies", says) for says in sentences]
    alike = {f"{names} to {f}" for names in ("x and w", "x", "w") for f in formats}
    # Nobody rounds one operand to nearest and cuts the other.
    how = {f: f.partition(" ")[2] for f in formats}
    pairs = [(a, b) for a in formats for b in formats if a != b and how[a] == how[b]]
    assert {m[1] for m in matches if m} == alike | {f"x to {a} and w to {b}" for a, b in pairs}


def test_operands_rounded_to_nothing_but_zeros_explain_no_other_result():
    problem = parse_problem_text("conv1d x=1x2x7 w=3x2x3")
    operands = {n: (a * np.float32(2.0**-40)).astype(np.float32) for n, a in make_normal(problem).items()}
    predictions = {h.says: predict(h, observe_floats(problem, operands)) for h in list_operand_hypotheses(problem)}
    assert predictions["rounds x and w to float16 before it multiplies"] is None
    assert predictions["rounds x and w to bfloat16 before it multiplies"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("text", [p for p in PROBLEMS if "then" not in p])
def test_on_exact_data_no_way_to_add_changes_anything(text):
    # Every partial sum fits bfloat16: less precise sums, truncation, matrix units and orders are all right.
    problem = parse_problem_text(text)
    operands = make_exact(problem)
    observation = observe_floats(problem, operands)
    exact = by_row(problem, observation.truth.astype(np.float64))
    listed = [*list_order_hypotheses(problem), *list_recipe_hypotheses(problem, thorough=False)]
    for hypothesis in listed:
        if hypothesis.recipe is None or hypothesis.recipe.algorithm is not None:
            continue
        predicted = predict(hypothesis, observation)
        assert predicted is None or np.array_equal(predicted, exact), hypothesis.says


@pytest.mark.parametrize("text", [p for p in PROBLEMS if "then" not in p])
def test_no_sentence_is_said_twice_of_operands_and_none_of_recipes(text):
    problem = parse_problem_text(text)
    for listed in (list_operand_hypotheses, list_recipe_hypotheses):
        said = [h.says for h in listed(problem) if h.recipe or listed is list_operand_hypotheses]
        assert len(set(said)) == len(said)


def sequence(problem, order):
    """Term numbers in an order such as c,kh,kw or kh,kw,c, slowest axis first."""
    names = {1: ["c", "kw"], 2: ["c", "kh", "kw"], 3: ["c", "kd", "kh", "kw"]}[problem.rank]
    numbers = np.arange(np.prod(problem.w[1:])).reshape(problem.w[1:])
    return tuple(numbers.transpose([names.index(n) for n in order.split(",")]).reshape(-1).tolist())


def order_of(recipe):
    """A recipe's order; all terms in order is what a text leaves out."""
    match = re.search(r"order=(\S+)", format_recipe(recipe))
    return match[1] if match else "c,kh,kw"


def bits(values):
    """Codes of float64 values, zeros with one sign: a sum of nothing is no question here."""
    return (np.asarray(values, np.float64) + 0.0).view(np.int64)


@pytest.mark.parametrize("order", ["c,kh,kw", "kh,kw,c"])
@pytest.mark.parametrize("product", ["fused", "rounded"])
@pytest.mark.parametrize(
    ("accumulator", "name", "says"),
    [
        (to_float16, "float16", "keeps its sums in float16"),
        (keep_bits(8), "bfloat16", "keeps its sums in bfloat16"),
        (keep_bits(24, np.trunc), "float32/toward_zero", "truncates its float32 sums"),
    ],
)
def test_narrow_and_truncated_sums_are_those_of_plain_numpy(accumulator, name, says, product, order):
    problem = parse_problem_text("conv2d x=1x4x5x5 w=3x4x3x3")
    operands = make_normal(problem, 3)
    runner = PlainRunner(sequence(problem, order), accumulator=accumulator, fused=product == "fused")
    expected = runner.run(problem, operands)
    observation = observe_floats(problem, operands)
    wanted = [
        h
        for h in list_recipe_hypotheses(problem, thorough=False)
        if h.says.startswith(says) and h.recipe.product == product and order_of(h.recipe) == order
    ]
    assert [h.recipe.accumulator for h in wanted] == [Rounding(*name.split("/"))]
    for hypothesis in wanted:
        assert np.array_equal(bits(predict(hypothesis, observation)), bits(by_row(problem, expected))), hypothesis.says


@pytest.mark.parametrize("stored", ["float16", "bfloat16"])
@pytest.mark.parametrize(("what", "size"), [("one channel", 9), ("one channel and kernel row", 3)])
def test_stored_partial_sums_are_those_of_plain_numpy(what, size, stored):
    round_ = to_float16 if stored == "float16" else keep_bits(8)

    class Stored(PlainRunner):
        """Adds parts in float32, fused, and their sums in a half format."""

        def _add_tree(self, tree, products, start, bias=0.0):
            total = 0.0
            for first in range(0, products.shape[1], size):
                part = super()._add_tree(range(first, first + size), products, 0.0)
                total = round_(total + part)
            return total

    problem = parse_problem_text("conv2d x=1x4x5x5 w=3x4x3x3")
    operands = make_normal(problem, 4)
    says = f"adds the products of {what} in float32 and stores the running sum in {stored}"
    hypothesis = next(h for h in list_recipe_hypotheses(problem) if h.says.startswith(says + " ("))
    expected = Stored(fused=True).run(problem, operands)
    assert np.array_equal(bits(predict(hypothesis, observe_floats(problem, operands))), bits(by_row(problem, expected)))


@pytest.mark.parametrize(("flushed", "reads"), [("results", {}), ("operands and results", {"all": flush})])
def test_hardware_that_flushes_loses_every_subnormal_sum(flushed, reads):
    problem = parse_problem_text("conv2d x=1x4x5x5 w=3x4x3x3")
    operands = make_normal(problem, 5)
    operands["x"] = (operands["x"] * np.float32(2.0**-123)).astype(np.float32)
    runner = PlainRunner(accumulator=lambda v: flush(to_float32(v)), fused=True, reads=reads)
    hypothesis = next(
        h for h in list_recipe_hypotheses(problem) if h.says.startswith(f"flushes subnormal {flushed} to zero")
    )
    observation = observe_floats(problem, operands)
    predicted = predict(hypothesis, observation)
    assert np.array_equal(bits(predicted), bits(by_row(problem, runner.run(problem, operands))))
    kept = PlainRunner(fused=True).run(problem, operands)
    assert not np.array_equal(predicted, by_row(problem, kept))


@pytest.mark.parametrize("order", ["c,kh,kw", "kh,kw,c"])
@pytest.mark.parametrize("product", ["fused", "rounded"])
def test_plain_orders_in_float32_are_those_of_plain_numpy(order, product):
    problem = parse_problem_text(SMALL)
    operands = make_normal(problem, 6)
    expected = PlainRunner(sequence(problem, order), fused=product == "fused").run(problem, operands)
    found = [
        h
        for h in list_order_hypotheses(problem)
        if h.says == f"adds in the order {order}" and h.recipe.product == product
    ]
    (hypothesis,) = found
    assert (hypothesis.cause, hypothesis.verdict) == (CauseCode.SUMMATION_ORDER, "rounding")
    assert np.array_equal(bits(predict(hypothesis, observe_floats(problem, operands))), bits(by_row(problem, expected)))


@pytest.mark.parametrize("bias", ["first", "last"])
def test_a_bias_is_supposed_first_and_last(bias):
    problem = parse_problem_text(SMALL + " bias")
    operands = make_normal(problem, 7)
    expected = PlainRunner(fused=True, bias=bias).run(problem, operands)
    hypotheses = [h for h in list_order_hypotheses(problem) if h.says == "adds in the order c,kh,kw"]
    assert [h.recipe.bias for h in hypotheses] == ["last", "first", "last", "first"]
    (own,) = [h for h in hypotheses if h.recipe.bias == bias and h.recipe.product == "fused"]
    assert np.array_equal(bits(predict(own, observe_floats(problem, operands))), bits(by_row(problem, expected)))


def test_only_half_results_are_rounded_before_their_bias():
    for dtype, late in (("float32", False), ("float16", True), ("bfloat16", True), ("float64", False)):
        problem = parse_problem_text(f"{SMALL} bias dtype={dtype}")
        assert any(h.recipe.bias == "rounded" for h in list_order_hypotheses(problem)) is late


def said_of_transforms(text):
    return [h.says for h in list_transform_hypotheses(parse_problem_text(text))]


def test_transforms_are_supposed_where_they_can_be_used():
    winograd = [f"uses Winograd's F({m},3) in float32" for m in (4, 2, 6)]
    fft = "uses a Fourier transform in float32"
    assert said_of_transforms(SMALL) == [*winograd, fft]
    assert said_of_transforms(SMALL + " dtype=float16") == [
        *winograd,
        *(s.replace("float32", "float16") for s in winograd),
        fft,
    ]
    assert said_of_transforms("conv2d x=1x4x9x9 w=3x4x5x5") == [fft]
    assert said_of_transforms("conv1d x=1x4x9 w=3x4x3") == [fft]
    for text in (SMALL + " stride=2", SMALL + " dilation=2"):
        assert said_of_transforms(text) == []


@pytest.mark.parametrize(
    "text", [SMALL, "conv2d x=1x4x6x6 w=6x4x3x3", "conv2d.grad_input x=1x4x5x5 w=3x4x3x3 padding=1"]
)
def test_transforms_of_small_integers_are_off_by_less_than_a_half(text):
    problem = parse_problem_text(text)
    operands = make_exact(problem)
    observation = observe_floats(problem, operands)
    for hypothesis in list_transform_hypotheses(problem):
        predicted = predict(hypothesis, observation)
        assert np.array_equal(np.rint(predicted), by_row(problem, observation.truth)), hypothesis.says


def test_transforms_are_not_the_direct_sums():
    problem = parse_problem_text("conv2d x=1x8x8x8 w=6x8x3x3 padding=1")
    operands = make_normal(problem, 8)
    observation = observe_floats(problem, operands)
    for hypothesis in list_transform_hypotheses(problem):
        assert not np.array_equal(predict(hypothesis, observation), by_row(problem, observation.truth)), hypothesis.says


def test_recipes_with_an_operand_rounding_are_the_orders_with_it():
    problem = parse_problem_text(SMALL)
    rounding = next(h.recipe for h in list_operand_hypotheses(problem) if "x and w to bfloat16" in h.says)
    recipes = list(list_operand_recipes(problem, rounding))
    orders = [h.recipe for h in list_order_hypotheses(problem)]
    assert [r.orders for r in recipes] == [r.orders for r in orders]
    assert all((r.x.format, r.w.format) == ("bfloat16", "bfloat16") for r in recipes)


def test_float64_problems_are_not_supposed_to_truncate_float32_or_to_add_as_matrix_units_do():
    said = [h.says for h in list_recipe_hypotheses(parse_problem_text(SMALL + " dtype=float64"))]
    assert any(s.startswith("keeps its sums in float32") for s in said)
    assert not [s for s in said if "truncates" in s or "H100" in s or "half" in s or "float16" in s]


def test_matrix_units_are_those_that_take_the_operands():
    def units(dtype):
        problem = parse_problem_text(f"{SMALL} dtype={dtype}")
        return {m[1] for h in list_recipe_hypotheses(problem) if (m := re.match(r"adds as (\S+) does", h.says))}

    assert units("float32") == {"A100", "Ada", "H100", "B200"}
    assert units("float16") == {"V100", "A100", "Ada", "H100", "B200"}
    assert units("bfloat16") >= {"A100", "Ada", "H100", "B200", "AVX512-BF16", "AMX-BF16"}
    assert units("float64") == set()


def test_unusual_numbers_of_products_are_left_to_a_thorough_search():
    problem = parse_problem_text("conv2d x=1x16x5x5 w=3x16x3x3")
    quick = {h.says for h in list_recipe_hypotheses(problem, thorough=False)}
    every = {h.says for h in list_recipe_hypotheses(problem)}
    assert quick < every
    assert any(s.startswith("adds 37 products") for s in every - quick)
    assert any(s.startswith("adds 16 products") for s in quick)
    assert not [s for s in every if s.startswith("adds 144 products")]


def test_the_observation_of_integers_and_of_floats_agree():
    problem = parse_problem_text(SMALL)
    operands = make_exact(problem)
    whole = observe(problem, {n: a.astype(np.int64) for n, a in operands.items()})
    assert np.array_equal(whole.truth, observe_floats(problem, operands).truth)
    assert cut_float32(13)(np.array([1 + 2.0**-11])).tolist() == [1.0]
