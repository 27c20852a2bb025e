"""Faults of attention in plain NumPy are named; sound ways to compute it are not blamed."""

from __future__ import annotations

import numpy as np
import pytest
from tests.attention_by_hand import FAULTS, SOUND, Arrays, draw

from samebits.findings import is_agreement
from samebits.problems.attention import parse_attention
from samebits.questions.attention_comparing import compare_attention
from samebits.questions.given_attention import AttentionCase


def _ask(words: str, operands: Arrays, result: np.ndarray):
    q, k = ("x".join(map(str, operands[name].shape)) for name in ("q", "k"))
    asked = parse_attention(f"attention q={q} k={k} {words}")
    return compare_attention(AttentionCase(asked, operands, {"mine": result})).sides[0]


@pytest.mark.parametrize("name", FAULTS)
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
