"""Faults of attention in plain NumPy are named; sound ways to compute it are not blamed."""

from __future__ import annotations

import numpy as np
import pytest
from tests.attention_by_hand import FAULTS, SOUND, Arrays, draw

from samebits.findings import is_agreement
from samebits.problems.attention import make_normal_attention, parse_attention
from samebits.questions.formula_comparing import compare_formula
from samebits.questions.given_formula import FormulaCase
from samebits.sums.bounds.attention import bound_attention
from samebits.sums.truth.attention import compute_attention


def _ask(words: str, operands: Arrays, result: np.ndarray):
    q, k = ("x".join(map(str, operands[name].shape)) for name in ("q", "k"))
    asked = parse_attention(f"attention q={q} k={k} {words}")
    return compare_formula(FormulaCase(asked, operands, {"mine": result})).sides[0]


@pytest.mark.parametrize("name", [name for name in FAULTS if name != "dropout"])
def test_a_fault_is_named(name: str) -> None:
    words, extra, compute, cause = FAULTS[name]
    given = draw(1)
    side = _ask(words, {**given, **extra(given)}, compute(given))
    wanted = "downgrade" if cause in ("narrow-intermediate", "reduced-precision-operands") else "wrong"
    assert (side.verdict, str(side.cause)) == (wanted, cause), side.says
    assert side.cause_certainty == "statistics"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_result_is_not_blamed(name: str, seed: int) -> None:
    given = draw(seed, queries=9 + 8 * seed, keys=(33, 48, 100, 17)[seed], features=(16, 24, 64, 8)[seed])
    # Peaked weights in some.
    given["q"] *= np.float32((1, 4, 1, 10)[seed])
    side = _ask("", given, SOUND[name](given))
    assert side.verdict == "rounding"
    assert is_agreement(side.verdict)
    assert side.cause is None
    assert side.error is not None
    assert side.error.max_over_likely is not None
    assert side.error.max_over_likely < 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_errors_inside_the_bound_are_no_other_function(dtype: str) -> None:
    """Errors of one sign and random ones that use half of the bound: more than is likely, less than is proved."""
    asked = parse_attention(f"attention q=1x4x16x16 k=1x2x40x16 dtype={dtype}")
    operands = make_normal_attention(asked, 3)
    truth = compute_attention(asked, operands).values
    bounds = bound_attention(asked, operands, truth)
    signs = np.random.default_rng(0).choice([-1, 1], truth.shape)
    for sign in (1, -1, signs):
        result = (truth.astype(np.float64) + 0.5 * sign * bounds.worst).astype(dtype)
        side = compare_formula(FormulaCase(asked, operands, {"mine": result})).sides[0]
        assert side.verdict == "rounding", (side.says, side.cause)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_masks_of_the_least_number_hide(dtype: type) -> None:
    """As transformers write them: padding, and queries all of whose keys are padding."""
    given = {name: array.astype(dtype) for name, array in draw(6).items()}
    mask = np.zeros((24, 40), dtype)
    mask[:, 31:] = np.finfo(dtype).min
    mask[:4] = np.finfo(dtype).min
    heads = given["q"].shape[1]
    k, v = (np.repeat(given[n], heads // given[n].shape[1], axis=1) for n in ("k", "v"))
    scores = np.matmul(given["q"], k.swapaxes(-1, -2)) * dtype(given["q"].shape[-1] ** -0.5) + mask
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    result = np.matmul(weights / weights.sum(axis=-1, keepdims=True), v)
    side = _ask(f"mask=add dtype={np.dtype(dtype).name}", {**given, "mask": mask}, result)
    assert side.verdict == "rounding", (side.says, side.evidence)
    # A result that is no mean of the values is wrong all the same.
    result[0, 0, 1] = 50
    assert _ask(f"mask=add dtype={np.dtype(dtype).name}", {**given, "mask": mask}, result).verdict == "wrong"


def test_sums_that_overflow_on_the_way_are_excused() -> None:
    given = draw(7, keys=64)
    given["q"] *= np.float32(0.1)
    given["v"] = np.abs(given["v"]) * np.float32(5e37)
    with np.errstate(all="ignore"):
        result = SOUND["with powers of two"](given)
    assert not np.isfinite(result).all()
    assert _ask("", given, result).verdict == "rounding"
    # Nothing can overflow in values that are small.
    given["v"] = given["v"] / np.float32(1e38)
    result = SOUND["plainly"](given)
    result[0, 0, 0, 0] = np.inf
    assert _ask("", given, result).verdict == "wrong"


def test_nothing_is_said_where_no_query_sees_a_key() -> None:
    given = draw(8)
    mask = np.zeros((24, 40), bool)
    side = _ask("mask=bool", {**given, "mask": mask}, SOUND["plainly"](given))
    assert side.verdict == "undecided"


def test_dropout_is_seen_where_features_outnumber_keys() -> None:
    given = draw(2)
    mask = np.arange(40) < 12
    result = FAULTS["dropout"][2](given)
    side = _ask("mask=bool", {**given, "mask": mask}, result)
    assert (side.verdict, str(side.cause)) == ("wrong", "softmax")
    assert "dropout is on" in str(side.says)


def test_products_beyond_float16_are_named() -> None:
    given = {name: array.astype(np.float16) for name, array in draw(4, heads=2, groups=2).items()}
    given["q"][0, 1, 3] = 300
    given["k"][0, 1, 5] = 300
    wide = {name: array.astype(np.float32) for name, array in given.items()}
    result = SOUND["plainly"](wide).astype(np.float16)
    assert _ask("dtype=float16", given, result).verdict == "rounding"
    products = wide["q"] @ wide["k"].swapaxes(-1, -2)
    lost = products.max(axis=-1) >= 65520
    assert 0 < lost.sum() < lost.size
    result[lost] = np.nan
    side = _ask("dtype=float16", given, result)
    assert (side.verdict, str(side.cause)) == ("wrong", "overflow")


def test_nan_behind_a_hidden_block_is_named() -> None:
    given = draw(3)
    mask = np.ones((2, 1, 1, 40), bool)
    mask[1, ..., :32] = False
    right = SOUND["plainly"]({**given, "k": given["k"][:, :, 32:], "v": given["v"][:, :, 32:]})
    result = SOUND["plainly"](given)
    result[1] = np.nan
    side = _ask("mask=bool", {**given, "mask": mask}, result)
    assert (side.verdict, str(side.cause)) == ("wrong", "hidden-keys")
    assert "first 8 to 32 keys" in str(side.says)
    sound = SOUND["plainly"](given)
    sound[1] = right[1]
    assert _ask("mask=bool", {**given, "mask": mask}, sound).verdict == "rounding"


def test_a_fault_of_a_part_says_where() -> None:
    words, _, compute, _ = FAULTS["one head causal"]
    given = draw(1)
    side = _ask(words, given, compute(given))
    assert side.where is not None
    assert "item 1" in side.where
    assert "head 2" in side.where
