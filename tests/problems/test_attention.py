"""Attention as a problem: its text, who sees what, its operands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.errors import OperandError, ProblemShapeError, ProblemTextError
from samebits.problems.any_problem import format_any_problem, parse_any_problem
from samebits.problems.attention import (
    Attention,
    check_attention_operands,
    is_attention,
    make_exact_attention,
    make_normal_attention,
    make_uniform_attention,
    parse_attention,
)

_SMALL = st.integers(1, 5)


@st.composite
def _attentions(draw: st.DrawFn) -> Attention:
    items, groups, times, queries, keys, features = (draw(_SMALL) for _ in range(6))
    return Attention(
        q=(items, groups * times, queries, features),
        k=(items, groups, keys, features),
        v=(items, groups, keys, draw(_SMALL)),
        causal=draw(st.sampled_from([None, "upper_left", "lower_right"])),
        mask=draw(st.sampled_from([None, "bool", "add"])),
        scale=draw(st.none() | st.floats(1e-6, 100)),
        softcap=draw(st.none() | st.floats(0.1, 100)),
        window=draw(st.none() | _SMALL),
        dtype=draw(st.sampled_from(["float32", "float16", "bfloat16", "float64"])),
    )


@given(_attentions())
def test_a_text_is_read_back(asked: Attention) -> None:
    assert parse_any_problem(format_any_problem(asked)) == asked


@given(_attentions())
def test_who_sees_what(asked: Attention) -> None:
    """Counted one by one, as the words of the text say."""
    queries, keys = asked.q[2], asked.k[2]
    seen = asked.sees()
    for i in range(queries):
        at = i + keys - queries if asked.causal == "lower_right" else i
        for j in range(keys):
            expected = not (asked.causal and j > at)
            if asked.window is not None:
                expected = expected and at - j < asked.window and j - at < asked.window
            assert seen[i, j] == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("attention q=1x8x4x16", "k= is missing"),
        ("attention q=1x8x4x16 k=1x8x4x17", "q has 16 features, k has 17"),
        ("attention q=1x8x4x16 k=1x3x4x16", "no multiple"),
        ("attention q=1x8x4x16 k=2x8x4x16", "batches"),
        ("attention q=1x8x4x16 k=1x8x4x16 v=1x8x5x16", "heads of 4 keys"),
        ("attention q=8x4x16 k=1x8x4x16", "4 sizes"),
        ("attention q=1x8x0x16 k=1x8x4x16", "at least 1"),
        ("attention q=1x8x4x16 k=1x8x4x16 causal=left", "one of upper_left, lower_right"),
        ("attention q=1x8x4x16 k=1x8x4x16 mask", "needs a value"),
        ("attention q=1x8x4x16 k=1x8x4x16 mask=int", "one of bool, add"),
        ("attention q=1x8x4x16 k=1x8x4x16 scale=x", "a number"),
        ("attention q=1x8x4x16 k=1x8x4x16 scale=-1", "above 0"),
        ("attention q=1x8x4x16 k=1x8x4x16 window=0", "at least 1"),
        ("attention q=1x8x4x16 k=1x8x4x16 groups=2", "unknown key 'groups'"),
        ("attention q=1x8x4x16 q=1x8x4x16", "given twice"),
        ("attention q=1x8xax16 k=1x8x4x16", "expected sizes"),
        ("attention q=1x8x4x16 k=1x8x4x16 dtype=int8", "unknown dtype"),
    ],
)
def test_what_is_none_is_said_in_one_line(text: str, says: str) -> None:
    with pytest.raises((ProblemTextError, ProblemShapeError), match=says) as error:
        parse_attention(text)
    assert "\n" not in str(error.value)
    assert is_attention(text)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize(
    "words", ["", "causal", "causal=lower_right", "mask=bool", "mask=add", "causal mask=bool window=5"]
)
def test_exact_operands_have_one_leading_score(words: str, dtype: str) -> None:
    """In float64 the leading keys weigh 1/1, 1/2 or 1/4 and all others nothing that float32 has, hidden ones aside."""
    asked = parse_attention(f"attention q=2x4x9x32 k=2x2x13x32 {words} dtype={dtype}")
    operands = make_exact_attention(asked, seed=3)
    assert operands is not None
    check_attention_operands(asked, operands)
    q, k, v = (operands[name].astype(np.float64) for name in ("q", "k", "v"))
    seen = np.broadcast_to(asked.sees_with(operands), asked.score_shape)
    lost = 800 if dtype == "float64" else 104
    louder = 0
    for n, h, i in np.ndindex(2, 4, 9):
        scores = k[n, h // 2] @ q[n, h, i] / np.sqrt(32)
        visible = scores[seen[n, h, i]]
        leading = visible > visible.max() - 1e-6
        assert leading.sum() in (1, 2, 4)
        assert leading.all() or visible[~leading].max() < visible.max() - lost
        louder += bool((scores[~seen[n, h, i]] > visible.max() + lost).any())
        # The result is a whole number that bfloat16 has.
        values = v[n, h // 2][seen[n, h, i]][leading]
        assert (values.mean(axis=0) % 1 == 0).all()
        assert np.abs(values.sum(axis=0)).max() <= 256
    # A mask that is not heeded would show.
    assert louder > 0 or asked.sees_with(operands).all()


def test_exact_operands_are_not_there_with_a_cap() -> None:
    assert make_exact_attention(parse_attention("attention q=1x1x2x8 k=1x1x2x8 softcap=5")) is None


@pytest.mark.parametrize("make", [make_normal_attention, make_uniform_attention])
@pytest.mark.parametrize("words", ["mask=bool", "mask=add", "causal mask=bool", "causal=lower_right mask=add window=2"])
def test_drawn_masks_leave_each_query_a_key(make, words: str) -> None:
    asked = parse_attention(f"attention q=2x2x4x8 k=2x2x6x8 {words}")
    operands = make(asked, 1)
    seen = np.broadcast_to(asked.sees_with(operands), asked.score_shape)
    assert seen.any(axis=-1).all()
    assert not seen.all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"q": np.zeros((1, 1, 2, 4), np.float64)}, "dtype float64"),
        ({"k": np.zeros((1, 1, 2, 4), np.float32)}, "shape 1x1x2x4"),
        ({"v": np.full((1, 1, 3, 4), np.nan, np.float32)}, "NaN or infinity"),
        ({"mask": np.full((2, 3), np.inf, np.float32)}, "NaN or infinity"),
        ({"mask": np.zeros((2, 2), np.float32)}, "shape 2x2"),
        ({"mask": np.ma.masked_array(np.zeros((2, 3), np.float32))}, "masked array"),
    ],
)
def test_operands_that_do_not_fit(change: dict, says: str) -> None:
    asked = parse_attention("attention q=1x1x2x4 k=1x1x3x4 mask=add")
    operands = make_normal_attention(asked)
    check_attention_operands(asked, operands)
    with pytest.raises(OperandError, match=says):
        check_attention_operands(asked, operands | change)
    del operands["q"]
    with pytest.raises(OperandError, match="q is missing"):
        check_attention_operands(asked, operands)
