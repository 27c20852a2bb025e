"""The truth and the bounds of attention: beside mpmath, on ties, on results of other libraries."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from benchmarks.attention_truth import TEXTS, compare
from tests.attention_by_hand import SOUND, draw

import samebits
from samebits.numbers.format import find_format, numpy_dtype
from samebits.numbers.scalar import round_to_format
from samebits.problems.attention import make_normal_attention, parse_attention
from samebits.sums.bounds.attention import bound_attention
from samebits.sums.truth.attention import compute_attention
from samebits.sums.truth.attention_exact import take_root


@pytest.mark.parametrize("text", TEXTS)
def test_every_output_is_the_nearest_number(text: str) -> None:
    with mpmath.workprec(200):
        count, wrong = compare(parse_attention(text), 1, np.random.default_rng(2))
    assert count > 30
    assert wrong == 0


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_ties_go_to_even(dtype: str) -> None:
    """Zero queries make the result a plain mean, here one that lies between two numbers, or just beside."""
    format_ = find_format(dtype)
    unit = Fraction(2) ** (1 - format_.precision)
    means = [1 + unit / 2, 1 + 3 * unit / 2, 1 + unit / 2 + unit / 64, 1 + 3 * unit / 2 - unit / 64]
    for mean in means:
        # Values whose mean it is, each a number of the format: 1 and 1 + 2 unit in the right proportion, and others.
        steps = int((mean - 1) / unit * 128)
        whole, rest = divmod(steps, 128)
        values = [1 + (whole + 1) * unit] * rest + [1 + whole * unit] * (128 - rest)
        assert sum(values) / 128 == mean
        v = np.array([float(x) for x in values]).reshape(1, 1, 128, 1).astype(numpy_dtype(dtype))
        k = np.random.default_rng(0).standard_normal((1, 1, 128, 4)).astype(numpy_dtype(dtype))
        q = np.zeros((1, 1, 1, 4), numpy_dtype(dtype))
        found = samebits.attention(q, k, v)
        assert float(found.item()) == round_to_format(mean, format_)


def test_ties_among_unequal_scores_are_decided() -> None:
    """Two scores, two keys of each: the same mean for both is the result, other means are not."""
    asked = parse_attention("attention q=1x1x1x1 k=1x1x4x1 dtype=float16")
    unit = 2.0**-10
    operands = {
        "q": np.ones((1, 1, 1, 1), np.float16),
        "k": np.float16([0, 0, 3, 3]).reshape(1, 1, 4, 1),
        "v": np.float16([1, 1 + unit, 1 + unit, 1]).reshape(1, 1, 4, 1),
    }
    truth = compute_attention(asked, operands)
    assert truth.values.item() == 1.0
    assert truth.settled["exact"] == 1


def test_ties_that_a_bias_makes_are_decided() -> None:
    """Scores 1 + 0 and 0 + 1 are one score, whichever product and mask make it."""
    asked = parse_attention("attention q=1x1x1x4 k=1x1x2x4 v=1x1x2x1 mask=add")
    operands = {
        "q": np.float32([2, 0, 0, 0]).reshape(1, 1, 1, 4),
        "k": np.float32([[1, 0, 0, 0], [0, 0, 0, 0]]).reshape(1, 1, 2, 4),
        "v": np.float32([1, 1 + 2**-23]).reshape(1, 1, 2, 1),
        "mask": np.float32([[0, 1]]),
    }
    assert compute_attention(asked, operands).values.item() == 1.0


@pytest.mark.parametrize(("last", "expected"), [(2.0, 1 + 2**-23), (0.5, 1.0)])
def test_keys_far_behind_decide_a_tie(last: float, expected: float) -> None:
    """exp(-3000) of a larger or of a smaller value, in more bits than are ever taken."""
    asked = parse_attention("attention q=1x1x1x1 k=1x1x3x1 scale=1.0")
    operands = {
        "q": np.ones((1, 1, 1, 1), np.float32),
        "k": np.float32([3000, 3000, 0]).reshape(1, 1, 3, 1),
        "v": np.float32([1, 1 + 2**-23, last]).reshape(1, 1, 3, 1),
    }
    assert compute_attention(asked, operands).values.item() == expected


@pytest.mark.parametrize("cap", [1e-3, 1.0, 1e6, 1e20, 1e30])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_caps_of_any_size(cap: float, dtype: str) -> None:
    asked = parse_attention(f"attention q=1x1x1x1 k=1x1x2x1 softcap={cap} dtype={dtype}")
    operands = {
        "q": np.ones((1, 1, 1, 1), dtype),
        "k": np.array([1, 0], dtype).reshape(1, 1, 2, 1),
        "v": np.array([1, 0], dtype).reshape(1, 1, 2, 1),
    }
    with mpmath.workprec(400):
        score = mpmath.mpf(cap) * mpmath.tanh(1 / mpmath.mpf(cap))
        expected = 1 / (1 + mpmath.exp(-score))
        found = compute_attention(asked, operands).values.item()
        assert abs(found - expected) <= expected * mpmath.mpf(2) ** -find_format(dtype).precision


def test_the_ends_of_float64() -> None:
    asked = parse_attention("attention q=1x1x1x1 k=1x1x2x1 dtype=float64")
    most = np.finfo(np.float64).max

    def compute(q: float, k: list[float], v: list[float]) -> float:
        shaped = [np.array(a, np.float64).reshape(1, 1, -1, 1) for a in ([q], k, v)]
        return compute_attention(asked, dict(zip("qkv", shaped, strict=True))).values.item()

    assert compute(0, [0, 0], [most, most]) == most
    assert compute(0, [0, 0], [most, -most]) == 0
    assert compute(1e200, [1e200, 0], [1, 2]) == 1
    assert compute(1e-200, [1e-200, -1e-200], [1, 2]) == 1.5
    assert compute(0, [0, 0], [2.0**-1074, 0]) == 0


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from samebits.sums.truth import attention

    monkeypatch.setattr(attention, "count_available_bytes", lambda: 2**28)
    asked = parse_attention("attention q=1x1x4000x1 k=1x1x4000x1")
    with pytest.raises(samebits.SamebitsError, match="more than the memory that is free"):
        compute_attention(asked, make_normal_attention(asked))
    with pytest.raises(samebits.SamebitsError, match="more than the memory that is free"):
        samebits.compare("attention q=1x1x30000x1 k=1x1x30000x1", "numpy")


def test_queries_without_a_key_are_marked() -> None:
    asked = parse_attention("attention q=1x2x5x8 k=1x2x3x8 causal=lower_right")
    truth = compute_attention(asked, make_normal_attention(asked))
    assert truth.empty[0, 0].tolist() == [True, True, False, False, False]
    assert not truth.values[0, :, :2].any()
    assert truth.values[0, :, 2:].all()


def test_large_scores_and_huge_hidden_values() -> None:
    asked = parse_attention("attention q=1x1x1x2 k=1x1x3x2 mask=bool")
    operands = {
        "q": np.full((1, 1, 1, 2), 1e18, np.float32),
        "k": np.float32([[1e18, 0], [0, 0], [1e18, 1e18]]).reshape(1, 1, 3, 2),
        "v": np.float32([3, -2, 1e38]).reshape(1, 1, 3, 1).repeat(2, axis=3),
        "mask": np.array([True, True, False]),
    }
    assert compute_attention(asked, operands).values.ravel().tolist() == [3.0, 3.0]


def test_the_root_is_near() -> None:
    for features in (2, 3, 64, 80, 96, 100):
        assert abs(take_root(features) ** 2 * features - 1) < Fraction(1, 2**300)


def test_the_function_takes_arrays_of_others() -> None:
    torch = pytest.importorskip("torch")
    q, k, v = (torch.randn(2, n, 7, 16) for n in (4, 2, 2))
    found = samebits.attention(q, k, v, causal=True)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), is_causal=True, enable_gqa=True
    )
    assert found.dtype == torch.float32
    assert ((found.double() - expected).abs() <= expected.abs() * 2.0**-24 + 1e-14).all()
    assert samebits.attention(q[0], k[0], v[0]).shape == (4, 7, 16)
    assert samebits.attention(q[0, 0].numpy(), k[0, 0].numpy(), v[0, 0].numpy()).shape == (7, 16)
    q.requires_grad_()
    with pytest.raises(samebits.OperandError, match="gradient"):
        samebits.attention(q, k, v)
    with pytest.raises(samebits.ProblemShapeError, match="4 axes"):
        samebits.attention(k, v[0], v)


@pytest.mark.parametrize("name", SOUND)
def test_sound_results_are_within_the_likely_bound(name: str) -> None:
    for seed in range(5):
        given = draw(seed, keys=(16, 64, 200, 40, 3)[seed])
        given["q"] *= np.float32((1, 3, 0.1, 8, 1)[seed])
        q, k = ("x".join(map(str, given[n].shape)) for n in ("q", "k"))
        asked = parse_attention(f"attention q={q} k={k}")
        truth = compute_attention(asked, given).values
        bounds = bound_attention(asked, given, truth)
        error = np.abs(SOUND[name](given).astype(np.float64) - truth)
        assert (error <= bounds.likely).all()
        assert (bounds.likely <= bounds.worst).all()
        assert (bounds.worst <= bounds.farthest).all()


def test_a_result_of_rounded_weights_is_beyond_the_likely_bound() -> None:
    given = draw(0)
    asked = parse_attention("attention q=2x4x24x16 k=2x2x40x16")
    truth = compute_attention(asked, given).values
    narrow = {n: a.astype(np.float16).astype(np.float32) for n, a in given.items()}
    error = np.abs(SOUND["plainly"](narrow).astype(np.float64) - truth)
    assert (error > bound_attention(asked, given, truth).likely).mean() > 0.5
