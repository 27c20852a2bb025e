"""Data of few distinct values, or of very different sizes: errors of sums are then not independent of each other."""

import numpy as np
import pytest

from samebits.mechanisms.search.recorded_case import explain_case
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case

# Left out of `make quick`.
pytestmark = pytest.mark.slow


def explain(text, operands, result):
    (side,) = explain_case(Case(parse_problem_text(text), operands, {"a": result.astype(np.float32)})).sides
    return side


def add_in_turn(x, w, order):
    """float32 sums of float32 products, [m, n], one after the other."""
    total = np.zeros((len(x), w.shape[1]), np.float32)
    for k in order:
        total = total + x[:, k, None] * w[None, k]
    return total


def choose(random, values, shape):
    return random.choice(values, shape).astype(np.float32)


@pytest.mark.parametrize("count", [500, 2000])
@pytest.mark.parametrize("backwards", [True, False])
def test_sums_that_round_alike_are_no_truncated_sums(count, backwards):
    random = np.random.default_rng(1)
    x, w = choose(random, [0.1, 0.3, 0.7], (24, count)), choose(random, [0.1, 0.3], (count, 12))
    order = range(count)[::-1] if backwards else random.permutation(count)
    side = explain(f"matmul x=24x{count} w={count}x12", {"x": x, "w": w}, add_in_turn(x, w, order))
    assert (side.verdict, side.cause) == ("rounding", "summation-order")


def test_truncated_sums_of_such_data_are_found():
    random = np.random.default_rng(2)
    for few in (True, False):
        x = choose(random, [0.1, 0.3, 0.7], (24, 500)) if few else random.random((24, 500)).astype(np.float32)
        w = choose(random, [0.1, 0.3], (500, 12)) if few else random.random((500, 12)).astype(np.float32)
        total = np.zeros((24, 12), np.float32)
        for k in random.permutation(500):
            exact = total.astype(np.float64) + x[:, k, None].astype(np.float64) * w[None, k]
            # The bits of positive numbers, cut after 24 of them.
            total = (exact.view(np.int64) & ~((1 << 29) - 1)).view(np.float64).astype(np.float32)
        side = explain("matmul x=24x500 w=500x12", {"x": x, "w": w}, total)
        assert side.verdict == "downgrade"
        # Three values can be codes of almost any step.
        assert few or side.cause == "low-precision-accumulator"


def test_small_terms_that_are_lost_at_the_end_are_no_narrow_format():
    """Reversed sums begin with a whole number, to which nothing small is added any more."""
    random = np.random.default_rng(3)
    x = (random.random((24, 2000)) * 3e-8).astype(np.float32)
    x[:, -1] = np.arange(1, 25)
    for least, most in ((1, 3), (1, 128)):
        w = np.broadcast_to(random.integers(least, most, 12), (2000, 12)).astype(np.float32)
        for order in (range(2000)[::-1], [1999, *random.permutation(1999)]):
            side = explain("matmul x=24x2000 w=2000x12", {"x": x, "w": w}, add_in_turn(x, w, order))
            assert side.verdict == "rounding"


@pytest.mark.parametrize("step", [0.25, 0.5, 1.0, 0.531])
def test_whole_steps_are_named_also_where_each_is_a_number_of_bfloat16(step):
    random = np.random.default_rng(0)
    x, w = (random.normal(size=s).astype(np.float32) for s in ((64, 256), (256, 64)))
    result = np.clip(np.rint((x @ w) / np.float32(step)), -128, 127) * np.float32(step)
    side = explain("matmul x=64x256 w=256x64", {"x": x, "w": w}, result)
    assert (side.verdict, side.cause) == ("downgrade", "result-rounding")
    assert side.says == f"stores its result in whole steps of {step:g}"


def test_a_clip_between_two_numbers_hides_no_storage():
    random = np.random.default_rng(0)
    x, w, bias = (random.normal(size=s).astype(np.float32) for s in ((64, 256), (64, 256), 64))
    w /= 10
    result = np.clip((x @ w.T + bias).astype(np.float16).astype(np.float32), 0, np.float32(6.1))
    side = explain("linear x=64x256 w=64x256 bias then=clip(0,6.1)", {"x": x, "w": w, "bias": bias}, result)
    assert (side.verdict, side.says) == ("downgrade", "stores its result in float16")


def test_values_that_no_sum_has_are_named_beside_a_plain_background():
    random = np.random.default_rng(4)
    x, w = random.normal(size=(4, 8, 12, 12)).astype(np.float32), random.normal(size=(16, 8, 1, 1)).astype(np.float32)
    x[0] = 0
    result = np.einsum("nchw,mc->nmhw", x, w[:, :, 0, 0])
    result[1:] = 1e30
    side = explain("conv2d x=4x8x12x12 w=16x8x1x1", {"x": x, "w": w}, result)
    assert (side.verdict, side.cause) == ("wrong", "uninitialized-memory")


def test_one_infinity_beside_a_bias_is_explained():
    random = np.random.default_rng(5)
    operands = {n: random.normal(size=s).astype(np.float16) for n, s in (("x", (7, 30)), ("w", (16, 30)), ("bias", 16))}
    wide = {n: a.astype(np.float32) for n, a in operands.items()}
    result = (wide["x"] @ wide["w"].T + wide["bias"]).astype(np.float16)
    result[0, 0] = np.inf
    problem = parse_problem_text("linear x=7x30 w=16x30 bias dtype=float16")
    (side,) = explain_case(Case(problem, operands, {"a": result})).sides
    assert side.verdict == "wrong"
