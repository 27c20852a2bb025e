"""Infinities, NaN, padding and signed zeros: what IEEE 754 must give, worked out by hand."""

import ml_dtypes
import numpy as np
import pytest

from samebits.problems import parse_problem_text
from samebits.sums.truth import compute_truth

INF, NAN = np.inf, np.nan


def run_1d(x, w, attributes="", bias=None, dtype="float32"):
    x, w = np.array(x, dtype).reshape(1, 1, -1), np.array(w, dtype).reshape(1, 1, -1)
    flag = "" if bias is None else "bias"
    name = np.dtype(dtype).name
    problem = parse_problem_text(f"conv1d x=1x1x{x.size} w=1x1x{w.size} {flag} {attributes} dtype={name}")
    operands = {"x": x, "w": w} | ({} if bias is None else {"bias": np.array([bias], dtype)})
    return compute_truth(problem, operands).values.ravel()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_padding_contributes_nothing_even_under_an_infinite_weight(dtype):
    got = run_1d([1, 2, 3], [INF, 1, 1], "padding=1", dtype=dtype)
    np.testing.assert_array_equal(got, [3, INF, INF])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_nan_reaches_exactly_the_outputs_whose_window_holds_it(dtype):
    got = run_1d([1, 1, NAN, 1, 1, 1], [1, 2], dtype=dtype)
    np.testing.assert_array_equal(np.isnan(got), [False, True, True, False, False])
    np.testing.assert_array_equal(got[[0, 3, 4]], [3, 3, 3])


def test_infinity_times_zero_is_nan_and_opposite_infinities_are_nan():
    np.testing.assert_array_equal(run_1d([INF, 1, 0], [0, 1]), [NAN, 0])
    np.testing.assert_array_equal(run_1d([INF, 1, INF], [1, 0]), [INF, NAN])
    np.testing.assert_array_equal(run_1d([INF, INF], [1, -1]), [NAN])
    np.testing.assert_array_equal(run_1d([-INF, 1], [1, 1]), [-INF])


def test_an_infinite_bias_meets_the_sum_as_one_more_term():
    np.testing.assert_array_equal(run_1d([1, 2], [1], bias=-INF), [-INF, -INF])
    np.testing.assert_array_equal(run_1d([INF, 2], [1], bias=-INF), [NAN, -INF])


def test_large_products_that_cancel_do_not_overflow_on_the_way():
    np.testing.assert_array_equal(run_1d([3e38, 3e38, 3e38], [3e38, -3e38, 1]), [np.float32(3e38)])
    np.testing.assert_array_equal(run_1d([1e308, 1e308, 1e308], [1e308, -1e308, 1], dtype="float64"), [1e308])


def test_an_exact_zero_is_positive_and_an_underflow_keeps_its_sign():
    got = run_1d([-0.0, 0.0, 1.0], [-1.0, 0.0], bias=-0.0)
    assert not np.signbit(got).any()
    got = run_1d([1e-30, 1e-30], [-1e-30])
    assert np.signbit(got).all()
    np.testing.assert_array_equal(got, [0, 0])


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ("relu", [0, 0, 2, NAN, INF]),
        ("clip(-1,1.5)", [-1, 0, 1.5, NAN, 1.5]),
        ("clip(0.1,inf)", [0.1, 0.1, 2, NAN, INF]),
    ],
)
def test_an_epilogue_follows_the_rounding_and_keeps_nan(then, expected):
    got = run_1d([-3, 0, 2, NAN, INF], [1], f"then={then}")
    np.testing.assert_array_equal(got, np.array(expected, np.float32))


def test_many_non_finite_operands_leave_finite_outputs_correct():
    problem = parse_problem_text("conv2d x=2x8x20x20 w=8x8x3x3 padding=1")
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, problem.x).astype(np.float32)
    w = rng.integers(-4, 5, problem.w).astype(np.float32)
    spoiled = x.copy()
    spoiled[1, 3, 5, 7] = NAN
    clean = compute_truth(problem, {"x": x, "w": w}).values
    got = compute_truth(problem, {"x": spoiled, "w": w}).values
    window = np.zeros(problem.y_shape, bool)
    window[1, :, 4:7, 6:9] = True
    assert np.isnan(got[window]).all()
    np.testing.assert_array_equal(got[~window], clean[~window])


def test_an_addition_whose_error_term_overflows_is_not_lost():
    largest = np.finfo(np.float64).max
    got = run_1d([-1.5 * 2.0**971, largest], [1, 1], dtype="float64")
    np.testing.assert_array_equal(got, [largest - 2.0**971])
    got = run_1d([-1.5 * 2.0**971, largest, -largest, 1.5 * 2.0**971, 1], [1] * 5, dtype="float64")
    np.testing.assert_array_equal(got, [1])


@pytest.mark.parametrize("then", ["relu", "clip(-1000,1000)", "clip(-inf,inf)"])
def test_a_bound_beyond_a_format_without_infinity_does_not_bind(then):
    got = run_1d([1, -2, 3, 4], [1], f"then={then}", dtype=ml_dtypes.float8_e4m3fn)
    expected = [1, 0, 3, 4] if then == "relu" else [1, -2, 3, 4]
    np.testing.assert_array_equal(got.astype(np.float64), expected)
