"""Results of other formulas, of fewer digits and of parts of rows are named; sound ones are not. All in plain NumPy."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from tests import rows_by_hand as by_hand

import samebits
from samebits.problems.row_functions import make_angles

RNG = np.random.default_rng(11)
F32 = np.float32
X = (RNG.standard_normal((16, 200)) + RNG.standard_normal((16, 1))).astype(F32)
W = (1 + 0.25 * RNG.standard_normal(200)).astype(F32)
B = RNG.standard_normal(200).astype(F32)
SCORES = (3 * RNG.standard_normal((8, 100))).astype(F32)
HEADS = RNG.standard_normal((1, 4, 16, 64)).astype(F32)
COS, SIN = (f(make_angles(16, 32)).astype(F32) for f in (np.cos, np.sin))


def narrow(values, dtype=ml_dtypes.bfloat16):
    return values.astype(dtype).astype(F32)


def normalize(x, eps=1e-5, *, mean=None, variance=None):
    mean = x.mean(-1, keepdims=True) if mean is None else mean
    variance = x.var(-1, keepdims=True) if variance is None else variance
    return (x - mean) / np.sqrt(variance + eps)


def pad(x, size):
    return np.pad(x, [(0, 0), (0, size - x.shape[1])])


def without_rescaling(x, block):
    most, total = np.full(len(x), -np.inf), np.zeros(len(x))
    for first in range(0, x.shape[1], block):
        part = x[:, first : first + block].astype(np.float64)
        most = np.maximum(most, part.max(1))
        total += np.exp(part - most[:, None]).sum(1)
    return np.exp(x - most[:, None]) / total[:, None]


def erf(x):
    return np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape)


MEAN = X.mean(-1, keepdims=True)
SQUARES = (X * X).mean(-1, keepdims=True)
WEIGHTS = np.exp(SCORES - SCORES.max(-1, keepdims=True))
SUMS = WEIGHTS.sum(-1, keepdims=True)
UNMASKED = ((pad(X, 256) - MEAN) ** 2).sum(-1, keepdims=True) / 200
LAYERNORM = {
    "eps": (normalize(X, 1e-3) * W + B, "wrong", "dropped-attribute", "eps 0.001"),
    "odd eps": (normalize(X, 0.0123) * W + B, "wrong", "dropped-attribute", "eps 0.0123"),
    "eps outside": (((X - MEAN) / (X.std(-1, keepdims=True) + 0.01)) * W + B, "wrong", "fusion", "outside of the root"),
    "unbiased": (normalize(X, variance=X.var(-1, ddof=1, keepdims=True)) * W + B, "wrong", "fusion", "by 199"),
    "no weight": (normalize(X) + B, "wrong", "fusion", "leaves the weight out"),
    "no bias": (normalize(X) * W, "wrong", "fusion", "leaves the bias out"),
    "gemma": (normalize(X) * (1 + W) + B, "wrong", "fusion", "1 + weight"),
    "no mean": (X / np.sqrt(SQUARES + 1e-5) * W + B, "wrong", "fusion", "rmsnorm"),
    "bias first": ((normalize(X) + B) * W, "wrong", "fusion", "before it multiplies"),
    "tail": (normalize(X, mean=X[:, :192].mean(-1, keepdims=True), variance=X[:, :192].var(-1, keepdims=True)) * W + B,
             "wrong", "shape-specific-kernel", "first 192 of 200"),
    "padding": (normalize(X, variance=UNMASKED) * W + B, "wrong", "shape-specific-kernel", "zeros up to 256"),
    "weight backwards": (normalize(X) * W[::-1] + B, "wrong", "other-operands", "backwards"),
    "another weight": (normalize(X) * np.roll(W, 3)[::-1] + B, "wrong", "other-operands", "another weight"),
    "halves": (normalize(X.reshape(32, 100)).reshape(16, 200) * W + B, "wrong", "fusion", "each of 2 parts"),
    "bfloat16 x": (normalize(narrow(X)) * W + B, "downgrade", "reduced-precision-operands", "x to bfloat16"),
    "bfloat16 inside": (narrow(normalize(X)) * W + B, "downgrade", "narrow-intermediate", "normalised in bfloat16"),
    "float16 result": (narrow(normalize(X) * W + B, np.float16), "downgrade", "result-rounding", "result to float16"),
    "zeros": (np.zeros_like(X), "wrong", "fusion", "returns zeros"),
}  # fmt: skip
RMSNORM = {
    "tail": (X / np.sqrt((X[:, :192] ** 2).sum(-1, keepdims=True) / 200 + 1e-5) * W, "wrong", "shape-specific-kernel",
             "squares of the first 192"),
    "weight first": (X * W / np.sqrt(((X * W) ** 2).mean(-1, keepdims=True) + 1e-5), "wrong", "fusion", "before it"),
    "mean off": (normalize(X) * W, "wrong", "fusion", "layernorm"),
    "padded": (X / np.sqrt((X * X).sum(-1, keepdims=True) / 256 + 1e-5) * W,
               "wrong", "shape-specific-kernel", "by 256"),
}  # fmt: skip
SOFTMAX = {
    "axis": (by_hand.softmax_plain(SCORES.T).T, "wrong", "axis-order", "along axis 0"),
    "log": (np.log(by_hand.softmax_plain(SCORES)), "wrong", "softmax", "logarithm"),
    "powers of 2": (by_hand.softmax_plain(SCORES * F32(math.log(2))), "wrong", "softmax", "powers of 2"),
    "temperature": (by_hand.softmax_plain(SCORES * F32(0.5)), "wrong", "softmax", "by 0.5 before exp"),
    "tail": (np.exp(SCORES) / np.exp(SCORES[:, :96]).sum(-1, keepdims=True),
             "wrong", "shape-specific-kernel", "96 of 100"),
    "padding": (np.exp(SCORES) / (np.exp(SCORES).sum(-1, keepdims=True) + 28), "wrong", "shape-specific-kernel", "128"),
    "stale sums": (without_rescaling(SCORES, 16), "wrong", "softmax", "blocks of 16"),
    "bfloat16": (narrow(WEIGHTS) / narrow(WEIGHTS).sum(-1, keepdims=True),
                 "downgrade", "narrow-intermediate", "bfloat16"),
    "row before": (WEIGHTS / np.roll(SUMS, 1, 0), "wrong", "softmax", "row before"),
}  # fmt: skip
GELU = {
    "tanh": (by_hand.gelu_by_tanh(SCORES), "wrong", "dropped-attribute", "bends by tanh"),
    "quick": (SCORES / (1 + np.exp(-1.702 * SCORES)), "wrong", "fusion", "sigmoid(1.702 x)"),
    "no root": (SCORES * (1 + erf(SCORES)) / 2, "wrong", "fusion", "erf(x)"),
    "no half": (2 * by_hand.gelu_by_erf(SCORES), "wrong", "fusion", "1/2"),
    "float16 erf": (SCORES / 2 * (1 + narrow(erf(SCORES / math.sqrt(2)), np.float16)),
                    "downgrade", "narrow-intermediate",
                    "erf in float16"),
}  # fmt: skip
ROPE = {
    "neighbours": (by_hand.rotate_neighbours(HEADS, COS, SIN), "wrong", "dropped-attribute", "neighbours"),
    "backwards": (by_hand.rotate_halves(HEADS, COS, -SIN), "wrong", "fusion", "other way"),
    "exchanged": (by_hand.rotate_halves(HEADS, SIN, COS), "wrong", "fusion", "exchanges cos and sin"),
    "next": (by_hand.rotate_halves(HEADS, *(f(make_angles(17, 32)[1:]).astype(F32) for f in (np.cos, np.sin))), "wrong",
             "other-operands", "next position"),
    "head": (np.swapaxes(by_hand.rotate_halves(np.swapaxes(HEADS, 1, 2), COS[:4], SIN[:4]), 1, 2),
             "wrong", "axis-order",
             "head's number"),
    "halves": (np.roll(by_hand.rotate_halves(HEADS, COS, SIN), 32, -1), "wrong", "fusion", "exchanges the two results"),
    "bfloat16": (by_hand.rotate_halves(HEADS, narrow(COS), narrow(SIN)), "downgrade", "reduced-precision-operands",
                 "cos and sin to bfloat16"),
}  # fmt: skip
GIVEN = {
    "layernorm x=16x200 weight bias": ({"x": X, "weight": W, "bias": B}, LAYERNORM),
    "rmsnorm x=16x200 weight": ({"x": X, "weight": W}, RMSNORM),
    "softmax x=8x100": ({"x": SCORES}, SOFTMAX),
    "gelu x=8x100": ({"x": SCORES}, GELU),
    "rope x=1x4x16x64": ({"x": HEADS, "cos": COS, "sin": SIN}, ROPE),
}
CASES = [(text, name) for text, (_, faults) in GIVEN.items() for name in faults]


def ask(text, operands, result):
    return samebits.explain(problem=text, **operands, mine=np.asarray(result).astype(F32)).sides[0]


@pytest.mark.parametrize(("text", "name"), CASES)
def test_a_fault_is_named(text, name):
    operands, faults = GIVEN[text]
    result, verdict, cause, says = faults[name]
    side = ask(text, operands, result)
    assert side.verdict == verdict
    assert side.cause == cause
    assert says in side.says


def test_sound_results_are_rounding():
    sound = {
        "layernorm x=16x200 weight bias": [
            f(X, 1e-5) * W + B for f in (by_hand.norm_in_two_passes, by_hand.norm_by_running_means, by_hand.norm_folded)
        ],
        "softmax x=8x100": [
            by_hand.softmax_plain(SCORES),
            *(by_hand.make_softmax_in_blocks(size)(SCORES) for size in (7, 16, 64)),
        ],
        "gelu x=8x100": [by_hand.gelu_by_erf(SCORES)],
        "rope x=1x4x16x64": [by_hand.rotate_halves(HEADS, COS, SIN)],
    }
    for text, results in sound.items():
        for result in results:
            side = ask(text, GIVEN[text][0], result)
            assert (side.verdict, side.cause) == ("rounding", None), text


def test_a_variance_that_cancels_is_a_downgrade_and_running_means_are_not():
    moved = X + F32(1000)
    text, operands = "layernorm x=16x200", {"x": moved}
    side = ask(text, operands, by_hand.norm_in_one_pass(moved, 1e-5))
    assert (side.verdict, side.cause) == ("downgrade", "cancellation")
    for way in (by_hand.norm_in_two_passes, by_hand.norm_by_running_means):
        assert ask(text, operands, way(moved, 1e-5)).verdict == "rounding"


@pytest.mark.parametrize("offset", [20, 50, 100, 200, 500])
def test_a_variance_that_cancels_a_little_is_never_another_function(offset):
    """Where few rows are just beyond their bounds, many things lie near them."""
    for seed in range(8):
        x = (np.random.default_rng(seed).standard_normal((8, 64)) + offset).astype(F32)
        side = ask("layernorm x=8x64", {"x": x}, by_hand.norm_in_one_pass(x, 1e-5))
        assert side.verdict in ("rounding", "downgrade", "undecided"), (seed, side.says)
        assert side.cause in (None, "cancellation")


def test_one_lost_output_is_no_overflow_of_its_row():
    x = (300 * RNG.standard_normal((1, 16))).astype(np.float16)
    result = (x / np.sqrt((x.astype(F32) ** 2).mean(-1, keepdims=True) + 1e-5)).astype(np.float16)
    result[0, 3] = np.inf
    side = samebits.explain(problem="rmsnorm x=1x16 dtype=float16", x=x, mine=result).sides[0]
    assert side.cause != "overflow"
    scores = SCORES[:1].copy()
    scores[0, 0] = 100
    one = by_hand.softmax_plain(scores)
    one[0, 5] = np.nan
    assert ask("softmax x=1x100", {"x": scores}, one).cause != "overflow"


def test_a_narrow_root_in_float64_is_no_cancellation():
    x = RNG.standard_normal((8, 64))
    root = np.sqrt(x.var(-1, keepdims=True) + 1e-5).astype(F32).astype(np.float64)
    side = samebits.explain(
        problem="layernorm x=8x64 dtype=float64", x=x, mine=(x - x.mean(-1, keepdims=True)) / root
    ).sides[0]
    assert side.verdict == "downgrade"
    assert side.cause == "narrow-intermediate"


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_overflow_is_named_where_numbers_are_lost(dtype):
    scores = SCORES.astype(dtype).copy()
    scores[3, 5] = 100
    with np.errstate(all="ignore"):
        lost = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True, dtype=dtype)
    name = np.dtype(dtype).name
    side = samebits.explain(problem=f"softmax x=8x100 dtype={name}", x=scores, mine=lost).sides[0]
    assert (side.verdict, side.cause) == ("wrong", "overflow")
    x = X.astype(np.float16)
    x[2, 7] = 900
    with np.errstate(all="ignore"):
        mean = (x * x).sum(-1, keepdims=True, dtype=np.float16) / np.float16(200)
        zeros = (x / np.sqrt(mean + np.float16(1e-5))).astype(np.float16)
    side = samebits.explain(problem="rmsnorm x=16x200 dtype=float16", x=x, mine=zeros).sides[0]
    assert (side.verdict, side.cause) == ("wrong", "overflow")


def test_a_fault_in_a_part_is_said_with_its_place():
    result = by_hand.gelu_by_erf(SCORES)
    result[:, 96:] = SCORES[:, 96:]
    side = ask("gelu x=8x100", {"x": SCORES}, result)
    assert side.verdict == "wrong"
    assert side.says.startswith("copies x, only in column")


def test_rows_that_are_0_by_0_are_not_judged():
    x = X.copy()
    x[4] = 3
    with np.errstate(all="ignore"):
        result = by_hand.norm_in_two_passes(x, 0.0)
    found = samebits.explain(problem="layernorm x=16x200 eps=0", x=x, mine=result)
    assert found.verdict == "rounding"
    assert any("1 row is 0 / 0" in one.says for one in found.evidence)
    # With an eps they are judged: all are 0.
    found = samebits.explain(problem="layernorm x=16x200", x=x, mine=by_hand.norm_folded(x, 1e-5))
    assert found.verdict == "rounding"


def test_hidden_scores_are_judged():
    hidden = SCORES.copy()
    hidden[:, 60:] = -np.inf
    assert ask("softmax x=8x100", {"x": hidden}, by_hand.softmax_plain(hidden)).verdict == "rounding"
    assert ask("softmax x=8x100", {"x": hidden}, by_hand.softmax_plain(SCORES)).verdict == "wrong"
    with pytest.raises(samebits.SamebitsError, match="judged on numbers and -inf"):
        ask("softmax x=8x100", {"x": -hidden}, SCORES)


def test_rows_without_a_number_are_not_judged_and_huge_ones_are_not_called_so():
    hidden = SCORES.copy()
    hidden[2] = -np.inf
    with np.errstate(all="ignore"):
        result = by_hand.softmax_plain(hidden)
    found = samebits.explain(problem="softmax x=8x100", x=hidden, mine=result)
    assert found.verdict == "rounding"
    assert any("1 row is 0 / 0" in one.says for one in found.evidence)
    # Along another axis the others of the same row are judged.
    turned = samebits.explain(problem="softmax x=100x8 axis=0", x=hidden.T.copy(), mine=result.T.copy())
    assert turned.verdict == "rounding"
    assert any("1 row is 0 / 0" in one.says for one in turned.evidence)
    empty = samebits.explain(problem="softmax x=1x100", x=hidden[2:3], mine=result[2:3])
    assert "there is nothing to judge" in empty.summary
    huge = np.full((2, 4), 3e38, F32) * F32([1, -1, 1, 1])
    found = samebits.explain(problem="layernorm x=2x4 weight", x=huge, weight=np.full(4, 3e38, F32), mine=huge)
    assert "0 / 0" not in found.summary
