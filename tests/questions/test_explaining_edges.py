"""Results at the edges: fault-free ones that look faulty, faulty ones that look fault-free, and what cannot be read."""

import os

import numpy as np
import pytest

import samebits
from samebits import thresholds
from samebits.errors import LogError
from samebits.mechanisms.positions.layout import list_layout_hypotheses
from samebits.numbers.ulps import has_same_bits
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe
from samebits.sums.truth import compute_truth

# Left out of `make quick`.
pytestmark = pytest.mark.slow

LAYER = "conv2d x=2x16x14x14 w=12x16x3x3 padding=1 bias dtype=float32"


def explain_one(problem, operands, result):
    return samebits.explain(Case(problem, operands, {"a": result})).sides[0]


def judge_as_agreement(problem, operands, result):
    """What a correct sum deserves: `identical` where it is the correctly rounded one bit for bit."""
    return "identical" if has_same_bits(result, compute_truth(problem, operands).values) else "rounding"


def make_layer(dtype="float32", seed=3):
    problem = parse_problem_text(LAYER.replace("float32", dtype))
    operands = make_normal(problem, seed)
    return problem, operands, emulate(problem, parse_recipe("direct order=k/37|k"), operands)


def test_the_largest_number_beside_infinity_is_rounding():
    problem = parse_problem_text("conv1d x=1x2x1 w=1x2x1 dtype=float16")
    operands = {
        "x": np.array([[[60000.0], [5520.0]]], np.float16),
        "w": np.ones((1, 2, 1), np.float16),
    }
    # 65520 is halfway to 65536, the next that would be even, and so infinite.
    side = explain_one(problem, operands, np.full((1, 1, 1), 65504, np.float16))
    assert side.verdict == "rounding"
    assert explain_one(problem, operands, np.full((1, 1, 1), np.inf, np.float16)).verdict == "identical"


def test_one_nan_in_large_float32_data_is_no_overflow_of_float16():
    problem, operands, _ = make_layer()
    operands = {n: a * np.float32(1e13 if n != "w" else 1) for n, a in operands.items()}
    result = emulate(problem, parse_recipe("direct"), operands)
    result[0, 0, 0, 0] = np.nan
    side = explain_one(problem, operands, result)
    assert (side.verdict, side.cause) == ("wrong", "uninitialized-memory")


def test_a_few_gross_errors_are_no_loss_of_precision():
    problem, operands, result = make_layer()
    doubled, far = result.copy(), result.copy()
    doubled.reshape(-1)[[7, 901, 2222, 3003, 4500]] *= 2
    far.reshape(-1)[[7, 901, 2222, 3003, 4500]] += 1000
    # 145 additions in bfloat16 may be off by more than half the magnitudes; by 1000 nothing is.
    for other, level, cause in ((doubled, "statistics", None), (far, "bounds", "uninitialized-memory")):
        side = explain_one(problem, operands, other)
        assert (side.verdict, side.certainty, side.cause) == ("wrong", level, cause)


def test_a_part_in_less_precision_is_no_other_function():
    problem, operands, result = make_layer()
    result[:, 8:] = emulate(problem, parse_recipe("direct x=tf32 w=tf32"), operands)[:, 8:]
    side = explain_one(problem, operands, result)
    assert (side.verdict, side.cause) == ("downgrade", "reduced-precision-operands")
    assert side.says.startswith("rounds x and w to tf32 before it multiplies, only in c_out")


@pytest.mark.parametrize(
    "text", ["conv1d x=1x200x3 w=2x200x2", "conv1d x=1x64x4 w=2x64x3", "conv2d x=1x16x4x4 w=2x16x3x3"]
)
def test_small_fault_free_results_in_odd_orders_stay_rounding(text):
    problem = parse_problem_text(f"{text} dtype=float32")
    spatial = "kw" if problem.rank == 1 else "kh,kw"
    for seed in range(12):
        operands = make_normal(problem, seed)
        for order in ("-k", "k%5|k", f"{spatial}|-c"):
            result = emulate(problem, parse_recipe(f"direct order={order} product=rounded"), operands)
            expected = judge_as_agreement(problem, operands, result)
            assert explain_one(problem, operands, result).verdict == expected


def test_operands_with_a_nan_do_not_hide_a_loss_of_precision():
    problem, operands, _ = make_layer()
    operands["x"][0, 0, 0, 0] = np.nan
    result = emulate(problem, parse_recipe("direct x=tf32 w=tf32 order=k/37|k"), operands)
    assert explain_one(problem, operands, result).cause == "reduced-precision-operands"


def test_two_algorithms_are_not_taken_for_two_runs():
    problem, operands, result = make_layer()
    other = emulate(problem, parse_recipe("direct order=c,kh,kw"), operands)
    for names, cause in ((("fp16", "fp32"), "summation-order"), (("run 1", "run 2"), "nondeterminism")):
        found = samebits.explain(Case(problem, operands, dict(zip(names, (result, other), strict=True))))
        assert found.cause == cause


def test_partial_sums_that_leave_float32_are_rounding():
    problem = parse_problem_text("conv1d x=1x4x40 w=2x4x1 dtype=float32")
    signs = np.array([1, 1, -1, -1], np.float32)
    operands = {"x": np.full((1, 4, 40), 3e38, np.float32) * signs[:, None], "w": np.ones((2, 4, 1), np.float32)}
    assert np.isinf(emulate(problem, parse_recipe("direct"), operands)).all()
    side = explain_one(problem, operands, np.full((1, 2, 40), np.inf, np.float32))
    assert (side.verdict, side.cause) == ("rounding", "overflow")
    finite = emulate(problem, parse_recipe("direct order=halves:k%2|k"), operands)
    assert (finite == 0).all()
    assert explain_one(problem, operands, finite).verdict == "identical"


@pytest.mark.parametrize("text", ["conv2d x=2x16x14x14 w=12x16x1x1 bias", "conv2d x=2x16x14x14 w=12x16x3x3 bias"])
def test_a_half_result_rounded_before_its_bias_is_rounding(text):
    problem = parse_problem_text(f"{text} dtype=float16")
    for seed in range(3):
        operands = make_normal(problem, seed)
        result = emulate(problem, parse_recipe("direct bias=rounded"), operands)
        assert explain_one(problem, operands, result).verdict == "rounding"


def test_products_below_the_normal_numbers_are_rounding():
    problem = parse_problem_text("conv2d x=2x8x10x10 w=6x8x3x3 padding=1 dtype=float32")
    operands = {n: a * np.float32(1e-22) for n, a in make_normal(problem, 3).items()}
    result = emulate(problem, parse_recipe("direct order=kh,kw,c product=rounded"), operands)
    assert (np.abs(result[result != 0]) < 2.0**-126).all()
    assert not has_same_bits(result, compute_truth(problem, operands).values)
    assert explain_one(problem, operands, result).verdict == "rounding"


def test_a_number_in_place_of_nan_is_no_matter_of_clips_where_there_is_none():
    problem, operands, _ = make_layer()
    operands["x"][0, 0, 4, 4] = np.nan
    result = emulate(problem, parse_recipe("direct"), operands)
    assert np.isnan(result).any()
    side = explain_one(problem, operands, np.where(np.isnan(result), np.float32(0), result))
    assert (side.verdict, side.cause) == ("wrong", None)
    assert side.says is not None
    assert side.says.startswith("loses NaN")


def test_zeros_only_are_wrong_unless_the_truth_is_zero_too():
    problem, operands, result = make_layer("float16")
    side = explain_one(problem, operands, np.zeros_like(result))
    assert side.verdict == "wrong"
    assert side.says is not None
    assert side.says.startswith("returns zeros only")
    faint = {n: a * np.float16(2.0**-14) for n, a in operands.items() if n != "bias"}
    plain = parse_problem_text(LAYER.replace(" bias", "").replace("float32", "float16"))
    assert not emulate(plain, parse_recipe("direct"), faint).any()
    zeros = np.zeros_like(result)
    # Some of the true zeros are negative.
    assert np.signbit(compute_truth(plain, faint).values).any()
    assert explain_one(plain, faint, zeros).verdict == "rounding"


def test_layouts_of_large_operands_are_all_listed():
    small, large = (
        [
            s.says
            for s in list_layout_hypotheses(parse_problem_text(f"conv2d x={x} w=7x{c}x3x2 dtype=float32"))
            # An index of 15 bits counts all of a small array, and how far rows are apart depends on how long they are.
            if "an index that wraps around" not in s.says and "elements apart" not in s.says
        ]
        for x, c in (("3x5x11x13", 5), ("3x50x110x130", 50))
    )
    assert small == large
    assert len(small) == len(set(small))


def test_a_pipe_in_place_of_a_file_gets_one_line(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    for name in ("pipe.npz", "."):
        with pytest.raises(LogError, match="no regular file"):
            samebits.explain(tmp_path / name)


def test_a_problem_too_large_to_re_enact_does_not_hide_the_other_mismatches(tmp_path):
    statistics = (
        "Mismatched elements: 100 / 2592 (3.9%)\n"
        "Greatest absolute difference: 0.001 at index (0, 1, 2, 3) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 12.0 at index (0, 0, 0, 0) (up to 1.3e-06 allowed)\n"
    )
    path = tmp_path / "assert.log"
    problems = ("conv2d x=1x262144x16x16 w=8x262144x3x3", "conv2d x=1x16x20x20 w=8x16x3x3")
    path.write_text("".join(f"{p} dtype=float32\n{statistics}\n" for p in problems))
    found = samebits.explain(path)
    assert found.verdict == "undecided"
    assert "too large" in found.summary
    (other,) = found.more
    assert other.problem.startswith(problems[1])
    assert other.data == "simulated on normal data"


@pytest.mark.parametrize("count", [5, 8])
def test_few_outputs_whose_products_cancel_are_rounding(count):
    problem = parse_problem_text(f"conv1d x=1x{2 * count}x2 w=1x{2 * count}x1 dtype=float32")
    for seed in range(40, 70):
        half = make_normal(parse_problem_text(f"conv1d x=1x{count}x2 w=1x{count}x1 dtype=float32"), seed)
        mixed = np.random.default_rng(seed).permutation(2 * count)
        operands = {
            "x": np.concatenate([half["x"], -half["x"]], axis=1)[:, mixed],
            "w": np.concatenate([half["w"], half["w"]], axis=1)[:, mixed],
        }
        for order in ("-k", "k%5|k", "k%3|-k", "halves:k%4|-k"):
            result = emulate(problem, parse_recipe(f"direct product=rounded order={order}"), operands)
            expected = judge_as_agreement(problem, operands, result)
            assert explain_one(problem, operands, result).verdict == expected


@pytest.mark.parametrize("count", [12, 32])
def test_outputs_that_are_all_the_same_count_as_one(count):
    problem = parse_problem_text(f"conv1d x=1x{count}x40 w=1x{count}x1 dtype=float32")
    for seed in range(30):
        operands = {**make_normal(problem, seed), "x": np.ones(problem.x, np.float32)}
        for order in ("k%5|k", "-k"):
            result = emulate(problem, parse_recipe(f"direct product=rounded order={order}"), operands)
            expected = judge_as_agreement(problem, operands, result)
            assert explain_one(problem, operands, result).verdict == expected


def test_a_lost_nan_does_not_hide_what_else_is_wrong():
    problem = parse_problem_text("conv2d x=1x4x12x12 w=4x4x3x3 padding=1 dtype=float32")
    operands = make_normal(problem, 3)
    moved = parse_problem_text("conv2d x=1x4x12x12 w=4x4x3x3 padding=2:0x1 dtype=float32")
    operands["x"][0, 0, 11, 11] = np.nan
    side = explain_one(problem, operands, emulate(moved, parse_recipe("direct"), operands))
    assert (side.verdict, side.cause) == ("wrong", "padding")
    noise = np.random.default_rng(0).standard_normal(problem.out_shape).astype(np.float32) * 100
    side = explain_one(problem, operands, noise)
    assert (side.verdict, side.cause, side.says) == ("wrong", None, None)


@pytest.mark.parametrize("text", ["conv1d x=1x64x1 w=4x64x1", "conv2d x=8x64x1x1 w=10x64x1x1"])
def test_zeros_only_are_not_called_windows_full_of_padding(text):
    problem = parse_problem_text(f"{text} dtype=float32")
    side = explain_one(problem, make_normal(problem, 3), np.zeros(problem.out_shape, np.float32))
    assert side.verdict == "wrong"
    assert side.says is not None
    assert side.says.startswith("returns zeros only")


def test_zeros_of_a_narrow_sum_stay_a_narrow_sum_where_only_a_sample_is_replayed(monkeypatch):
    monkeypatch.setattr(thresholds, "MOST_REPLAYED_PRODUCTS", 1000)
    problem = parse_problem_text("conv1d x=1x8192x6 w=4x8192x1 dtype=float16")
    operands = {
        n: (1e-4 + 5e-5 * (np.abs(a.astype(np.float32)) % 1)).astype(np.float16)
        for n, a in make_normal(problem, 3).items()
    }
    result = emulate(problem, parse_recipe("direct acc=float16 product=rounded"), operands)
    assert not result.any()
    side = explain_one(problem, operands, result)
    assert (side.verdict, side.cause) == ("downgrade", "low-precision-accumulator")


@pytest.mark.parametrize(("low", "high", "says"), [(-0.8, 0.8, "at -0.8 from below and at 0.8 from above"),
                                                  (None, 0.5, "at 0.5 from above, unasked")])  # fmt: skip
def test_limits_that_nobody_asked_for_are_named(low, high, says):
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((24, 60), np.float32), rng.standard_normal((20, 60), np.float32) / np.float32(8)
    mine = np.clip(x @ w.T, low, high)
    found = samebits.explain(problem="linear x=24x60 w=20x60", x=x, w=w, mine=mine)
    assert (found.sides[0].verdict, found.sides[0].cause) == ("wrong", "fusion")
    assert says in found.sides[0].says
    sound = samebits.explain(problem="linear x=24x60 w=20x60", x=x, w=w, mine=x @ w.T)
    assert sound.sides[0].verdict in ("rounding", "identical")
