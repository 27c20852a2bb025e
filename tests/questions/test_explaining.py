"""Explaining recorded results: injected mechanisms, controls that look alike, the seeds, logs, bad input."""

import json

import numpy as np
import pytest

import samebits
from injected_cases import FAULT_FREE, MECHANISMS, PROBLEMS, make_case
from injected_faults import Skip
from samebits.cli.app import main
from samebits.findings.settings_advice import ADVICE
from samebits.numbers.format import numpy_dtype
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case, save_case
from samebits.problems.operands import make_normal
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe
from samebits.sums.truth import compute_truth

# Left out of `make quick`.
pytestmark = pytest.mark.slow

SEED = 77
# Mechanisms that leave a trace in the data of one problem only.
ONLY_ONE = ("overflow", "channels shuffled", "dilation ignored", "strides exchanged")
LAYER = "conv2d x=2x16x14x14 w=12x16x3x3 padding=1 bias dtype=float32"
LOG = "examples/xla_mismatch.log"


def explain_one(problem, operands, result):
    found = samebits.explain(Case(problem, operands, {"a": result}))
    assert found.sides[0].name == "a"
    return found.sides[0]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_injected_mechanisms_are_named(mechanism):
    """Two problems each; the survey in benchmarks/ goes through thousands."""
    tried = 0
    for text in PROBLEMS:
        try:
            injected = make_case(mechanism, text, SEED)
        except Skip:
            continue
        found = samebits.explain(injected.case)
        assert found.verdict == injected.verdict, (text, found.summary)
        assert found.cause in injected.causes, (text, found.summary)
        tried += 1
        if tried == 2:
            return
    assert tried == 1
    assert mechanism in ONLY_ONE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda y: y * np.float32(0.9375), "multiplies every output by 0.9375"),
        (lambda y: y + np.float32(0.25), "adds to every output 0.25"),
        (lambda y: np.where(y > 0, y, y * np.float32(0.125)), "of slope 0.125"),
    ],
)
def test_what_is_fitted_is_said_with_its_number(change, says):
    problem = parse_problem_text(LAYER)
    operands = make_normal(problem, 4)
    side = explain_one(problem, operands, change(compute_truth(problem, operands).values))
    assert (side.verdict, side.cause) == ("wrong", "fusion")
    assert says in side.says


def test_to_sums_that_are_all_alike_nothing_is_fitted():
    """pytorch/pytorch#83863: 1,024 ones added in bfloat16 stay at 256, which is a quarter, and on every grid."""
    problem = parse_problem_text("conv1d x=1x1024x4 w=8x1024x1 dtype=bfloat16")
    operands = {n: np.ones(s, numpy_dtype("bfloat16")) for n, s in problem.operand_shapes.items()}
    side = explain_one(problem, operands, np.full(problem.out_shape, 256, numpy_dtype("bfloat16")))
    assert (side.verdict, side.cause) == ("downgrade", "low-precision-accumulator")


@pytest.mark.parametrize("text", PROBLEMS)
def test_fault_free_results_are_rounding_or_identical_where_no_bit_differs(text):
    for seed in range(4):
        injected = make_case(FAULT_FREE, text, 100 + seed)
        found = samebits.explain(injected.case)
        assert found.verdict == injected.verdict, found.summary
        assert found.cause in injected.causes, found.summary


LOSSES = [
    ("x=tf32 w=tf32 order=k/37|k", "rounds x and w to tf32"),
    ("w=float16 order=k/37|k", "rounds w to float16"),
    ("x=bfloat16 w=bfloat16 order=k/37|k", "rounds x and w to bfloat16"),
    ("x=tf32/toward_zero w=tf32/toward_zero order=k/37|k", "rounds x and w to tf32 (truncated)"),
    ("acc=float16", "keeps its sums in float16"),
    ("order=chain@float16:k/16|k", "adds 16 products in float32 and stores the running sum in float16"),
]


@pytest.mark.parametrize(("recipe", "says"), LOSSES)
def test_losses_of_precision_are_distinguished(recipe, says):
    problem = parse_problem_text(LAYER)
    operands = make_normal(problem, 3)
    side = explain_one(problem, operands, emulate(problem, parse_recipe(f"direct {recipe}"), operands))
    assert side.verdict == "downgrade"
    assert side.says is not None
    assert side.says.startswith(says)


def test_one_ulp_at_1e13_is_rounding_and_tf32_at_1e13_is_not():
    problem = parse_problem_text(LAYER)
    operands = {n: a * np.float32(1e13 if n != "w" else 1) for n, a in make_normal(problem, 3).items()}
    fault_free = emulate(problem, parse_recipe("direct order=kh,kw,c product=rounded"), operands)
    assert np.abs(fault_free.astype(float)).max() > 1e13
    assert explain_one(problem, operands, fault_free).verdict == "rounding"
    tf32 = emulate(problem, parse_recipe("direct x=tf32 w=tf32 order=k/37|k"), operands)
    assert explain_one(problem, operands, tf32).cause == "reduced-precision-operands"


def test_winograd_in_float16_and_a_float16_accumulator_are_distinguished():
    problem = parse_problem_text("conv2d x=1x32x16x16 w=16x32x3x3 padding=1 dtype=float16")
    operands = make_normal(problem, 3)
    for recipe, cause in (("winograd(4) acc=float16", "winograd"), ("direct acc=float16", "low-precision-accumulator")):
        assert explain_one(problem, operands, emulate(problem, parse_recipe(recipe), operands)).cause == cause


def test_a_lost_clip_bound_and_a_nan_rule_are_distinguished():
    problem = parse_problem_text(LAYER + " then=clip(0,6)")
    operands = make_normal(problem, 3)
    operands["x"] *= 10
    lost = np.maximum(emulate(parse_problem_text(LAYER), parse_recipe("direct"), operands), 0)
    assert explain_one(problem, operands, lost).says == "loses the clip's upper bound"
    operands["x"][0, 0, 0, 0] = np.nan
    side = explain_one(problem, operands, emulate(problem, parse_recipe("direct nan=bound"), operands))
    assert (side.verdict, side.cause) == ("wrong", "nan-semantics")


def test_two_sides_the_right_one_is_named_and_equal_ones_are_judged_alike():
    problem = parse_problem_text(LAYER)
    operands = make_normal(problem, 3)
    good = emulate(problem, parse_recipe("direct"), operands)
    bad = emulate(problem, parse_recipe("direct x=tf32 w=tf32"), operands)
    found = samebits.explain(Case(problem, operands, {"cpu": good, "gpu": bad}))
    assert (found.verdict, found.cause) == ("downgrade", "reduced-precision-operands")
    assert [s.verdict for s in found.sides] == ["rounding", "downgrade"]
    assert found.summary.endswith("cpu is right.")
    assert any("NVIDIA_TF32_OVERRIDE=0" in f.setting for f in found.fixes)
    assert not any(f.verified for f in found.fixes)
    same = samebits.explain(Case(problem, operands, {"cpu": bad, "gpu": bad.copy()}))
    assert [s.cause for s in same.sides] == ["reduced-precision-operands"] * 2


def test_bits_are_claimed_only_where_they_were_replayed():
    problem = parse_problem_text(LAYER)
    operands = make_normal(problem, 3)
    usual = explain_one(problem, operands, emulate(problem, parse_recipe("direct x=tf32 w=tf32"), operands))
    assert (usual.certainty, usual.cause_certainty) == ("bits", "bits")
    assert usual.replay is not None
    assert usual.replay.elements == 2 * 12 * 14 * 14
    assert usual.recipe is not None
    np.testing.assert_array_equal(
        emulate(problem, parse_recipe(usual.recipe), operands),
        emulate(problem, parse_recipe("direct x=tf32 w=tf32"), operands),
    )
    odd = explain_one(problem, operands, emulate(problem, parse_recipe("direct x=tf32 w=tf32 order=k/37|k"), operands))
    assert (odd.certainty, odd.cause_certainty, odd.replay) == ("statistics", "statistics", None)
    assert any("bounds prove that this is not the declared sum in the declared formats" in e.says for e in odd.evidence)


def test_noise_that_sums_in_bfloat16_could_make_is_undecided_and_says_what_to_do():
    problem = parse_problem_text(LAYER)
    operands = make_normal(problem, 3)
    # 144 products and a bias in bfloat16, in any order, may be off by 145 units of 2^-8 of the sum of magnitudes.
    magnitudes = compute_truth(problem, {n: np.abs(a) for n, a in operands.items()}).values
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, problem.out_shape).astype(np.float32) * magnitudes
    noise += compute_truth(problem, operands).values
    side = explain_one(problem, operands, noise)
    assert (side.verdict, side.cause, side.says) == ("undecided", None, None)
    assert any("to find out" in e.says for e in side.evidence)


def test_noise_that_no_sum_could_make_is_wrong_without_a_cause():
    problem = parse_problem_text(LAYER)
    operands = make_normal(problem, 3)
    noise = 100 * np.random.default_rng(0).standard_normal(problem.out_shape).astype(np.float32)
    side = explain_one(problem, operands, noise)
    assert (side.verdict, side.certainty, side.cause, side.says) == ("wrong", "bounds", None, None)


def test_results_that_are_nan_everywhere_may_have_overflowed_and_are_undecided():
    problem = parse_problem_text(LAYER)
    side = explain_one(problem, make_normal(problem, 3), np.full(problem.out_shape, np.nan, np.float32))
    assert (side.verdict, side.cause, side.says) == ("undecided", None, None)
    assert any("to find out" in e.says for e in side.evidence)


def test_seed_0_the_log_is_explained():
    found = samebits.explain(LOG)
    assert (found.verdict, found.cause) == ("downgrade", "low-precision-accumulator")
    right, lost = found.sides
    assert (right.name, right.verdict) == ("1+TC", "rounding")
    assert (lost.name, lost.cause) == ("0+TC", "low-precision-accumulator")
    assert lost.recipe is not None
    assert "chain@float16" in lost.recipe
    assert (right.certainty, right.replay.count, lost.replay.count) == ("bits", 10, 6)
    assert any("training" in e.says for e in lost.evidence)
    assert any("ALGO_1" in f.setting for f in found.fixes)


def test_zeros_where_positive_products_are_added_are_wrong(tmp_path):
    path = tmp_path / "jax.log"
    lines = [f"E buffer_comparator.cc:145] Difference at {i}: 0, expected 1.{i}" for i in range(10, 20)]
    path.write_text("\n".join([*lines, "E autotuner.cc:1] Results do not match the reference. This is likely a bug"]))
    found = samebits.explain(path)
    assert found.verdict == "wrong"
    assert found.sides[0].verdict == "wrong"


def test_a_log_without_a_problem_says_what_is_missing(tmp_path):
    path = tmp_path / "jax.log"
    path.write_text(
        "\n".join(f"E buffer_comparator.cc:1] Difference at {i}: {8 + i}.1, expected {7 + i}" for i in range(9))
    )
    found = samebits.explain(path)
    assert (found.verdict, found.cause) == ("undecided", None)
    assert any("to find out" in e.says for e in found.sides[0].evidence)


def test_statistics_alone_do_not_decide(tmp_path):
    path = tmp_path / "assert.log"
    path.write_text(
        "conv2d x=1x16x20x20 w=8x16x3x3 dtype=float32\nMismatched elements: 100 / 2592 (3.9%)\n"
        "Greatest absolute difference: 0.001 at index (0, 1, 2, 3) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 12.0 at index (0, 0, 0, 0) (up to 1.3e-06 allowed)\n"
    )
    found = samebits.explain(path)
    assert found.verdict == "undecided"
    assert found.problem == "conv2d x=1x16x20x20 w=8x16x3x3 dtype=float32"


def test_the_command_prints_the_answer_and_exits_as_diff_does(tmp_path, capsys):
    problem = parse_problem_text(LAYER)
    operands = make_normal(problem, 3)
    good = emulate(problem, parse_recipe("direct"), operands)
    bad = emulate(problem, parse_recipe("direct x=tf32 w=tf32"), operands)
    save_case(tmp_path / "good.npz", problem, operands, {"cpu": good})
    save_case(tmp_path / "bad.npz", problem, operands, {"cpu": good, "gpu": bad})
    save_case(tmp_path / "none.npz", problem, operands)
    assert main(["explain", str(tmp_path / "good.npz")]) == 0
    assert "ROUNDING" in capsys.readouterr().out
    assert main(["explain", str(tmp_path / "bad.npz")]) == 1
    assert "gpu rounds x and w to tf32" in " ".join(capsys.readouterr().out.split())
    assert main(["explain", str(tmp_path / "bad.npz"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "samebits.comparison/1"
    assert document["sides"][1]["certainty"] == "bits"
    for name in ("none.npz", "missing.npz", "missing.log"):
        assert main(["explain", str(tmp_path / name)]) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("samebits: ")
        assert output.err.count("\n") == 1


def test_every_advice_has_a_source_and_every_cause_that_can_be_found_has_advice():
    assert all(a.source and a.why and a.setting for a in ADVICE)
    causes = {c for _, _, causes in MECHANISMS.values() for c in causes if c}
    assert causes <= {a.cause for a in ADVICE}
