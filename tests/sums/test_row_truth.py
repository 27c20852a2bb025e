"""The truth and the bounds of functions of rows: beside mpmath, on ties and zeros, on sums in other ways."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from tests import rows_by_hand as by_hand

from samebits.errors import ResourceLimitError
from samebits.numbers.format import find_format, numpy_dtype
from samebits.numbers.scalar import round_to_format
from samebits.problems.row_functions import make_exact_rows, make_normal_rows, parse_row_function
from samebits.sums.bounds.row_functions import bound_row_function
from samebits.sums.truth.row_functions import compute_row_function

TEXTS = (
    "softmax x=7x30",
    "softmax x=3x7x5 axis=1",
    "layernorm x=6x40 weight bias",
    "layernorm x=3x4x5 axes=2 eps=0.001",
    "rmsnorm x=6x33 weight eps=1e-06",
    "gelu x=12x12",
    "gelu x=12x12 approximate=tanh",
)


def _round(value: mpmath.mpf, format_name: str) -> float:
    sign, digits, power, _ = value._mpf_
    exact = Fraction(int(digits)) * Fraction(2) ** int(power)
    return round_to_format(-exact if sign else exact, find_format(format_name))


def _scale(operands: dict[str, np.ndarray], factor: float) -> dict[str, np.ndarray]:
    return operands | {"x": (operands["x"].astype(np.float64) * factor).astype(operands["x"].dtype)}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("text", TEXTS)
def test_every_output_is_the_nearest_number(text: str, dtype: str) -> None:
    asked = parse_row_function(f"{text} dtype={dtype}")
    for seed, factor in ((0, 1.0), (1, 7.0)):
        operands = _scale(make_normal_rows(asked, seed), factor)
        found = asked.to_rows(compute_row_function(asked, operands).values)
        rest = {name: operands[name].ravel() for name in ("weight", "bias") if name in operands}
        with mpmath.workprec(400):
            for own, row in zip(found, asked.to_rows(operands["x"]), strict=True):
                given = {"eps": asked.eps, "approximate": asked.approximate, **rest}
                expected = [_round(v, dtype) for v in by_hand.compute_exactly(asked.kind, list(row), **given)]
                assert own.astype(np.float64).tolist() == expected


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("way", ["", " interleaved"])
def test_rotations_are_those_of_fractions(dtype: str, way: str) -> None:
    asked = parse_row_function(f"rope x=2x3x5x6{way} dtype={dtype}")
    operands = make_normal_rows(asked, 3)
    found = compute_row_function(asked, operands).values
    for place in np.ndindex(asked.x):
        *_, position, feature = place
        pair = feature // 2 if way else feature % 3
        is_second = bool(feature % 2 if way else feature // 3)
        first, second = (2 * pair, 2 * pair + 1) if way else (pair, pair + 3)
        a, b = (Fraction(float(operands["x"][(*place[:-1], i)])) for i in (first, second))
        cos, sin = (Fraction(float(operands[name][position, pair])) for name in ("cos", "sin"))
        exact = b * cos + a * sin if is_second else a * cos - b * sin
        assert float(found[place]) == round_to_format(exact, find_format(dtype))


def test_ties_and_zeros() -> None:
    """1 + 2^-25 lies between two numbers of float32, 0 comes of opposites, and what is tiny keeps its sign."""
    one = np.float32(1 + 2.0**-12)
    asked = parse_row_function("rope x=1x1x1x2")
    given = {"x": np.array([one, one - 1], np.float32), "cos": np.float32([[one]]), "sin": np.float32([[1 - one]])}
    given["x"] = given["x"].reshape(1, 1, 1, 2)
    exact = Fraction(float(one)) ** 2 + Fraction(float(one - 1)) ** 2
    assert float(compute_row_function(asked, given).values.ravel()[0]) == round_to_format(exact, find_format("float32"))
    same = parse_row_function("layernorm x=1x3")
    assert compute_row_function(same, {"x": np.full((1, 3), 7, np.float32)}).values.tolist() == [[0.0, 0.0, 0.0]]
    bent = compute_row_function(parse_row_function("gelu x=3"), {"x": np.float32([-30, 0, -1000])}).values
    assert bent.tolist() == [0.0, 0.0, 0.0]
    assert np.signbit(bent).tolist() == [True, False, True]


@pytest.mark.parametrize("way", ["", " approximate=tanh"])
def test_gelu_at_its_ends(way: str) -> None:
    """Half of the least numbers lies between two: x^2 decides; what is large is x itself, or a zero with its sign."""
    x = np.array([5e-324, -1.5e-323, 1e-323, -0.0, 0.0, 1e300, 700.0, -200.0, -1e4])
    found = compute_row_function(parse_row_function(f"gelu x=9{way} dtype=float64"), {"x": x}).values
    assert found.tolist() == [5e-324, -5e-324, 5e-324, 0.0, 0.0, 1e300, 700.0, 0.0, 0.0]
    assert np.signbit(found).tolist() == [False, True, False, True, False, False, False, True, True]


def test_a_root_that_is_rational_is_exact() -> None:
    """The variance of (-3, 3, -5, 5) is 17, and eps 8 makes it 25."""
    asked = parse_row_function("layernorm x=1x4 eps=8")
    found = compute_row_function(asked, {"x": np.float16([[-3, 3, -5, 5]]).astype(np.float32)}).values
    assert found.tolist() == [[np.float32(-0.6), np.float32(0.6), -1.0, 1.0]]


def test_exact_operands_round_nothing() -> None:
    for text in (
        "softmax x=9x50",
        "softmax x=4x9x5 axis=1 dtype=float16",
        "softmax x=9x50 dtype=float64",
        "rope x=1x2x5x8",
    ):
        asked = parse_row_function(text)
        for seed in range(3):
            operands = make_exact_rows(asked, seed)
            assert operands is not None
            truth = compute_row_function(asked, operands).values.astype(np.float64)
            if asked.kind == "rope":
                assert (truth == np.rint(truth)).all()
            else:
                assert set(np.unique(truth)) <= {0.0, 0.25, 0.5, 1.0}
                assert (truth.sum(asked.axis) == 1).all()
    assert make_exact_rows(parse_row_function("gelu x=4")) is None


def test_more_float64_than_is_computed_exactly_is_refused() -> None:
    asked = parse_row_function("gelu x=4096x1024 dtype=float64")
    with pytest.raises(ResourceLimitError, match="at most 2,097,152"):
        compute_row_function(asked, {"x": np.zeros(asked.x)})


_SOUND = {
    "softmax": [by_hand.softmax_plain, *(by_hand.make_softmax_in_blocks(size) for size in (1, 5, 16, 64))],
    "layernorm": [by_hand.norm_in_two_passes, by_hand.norm_by_running_means, by_hand.norm_folded],
    "gelu": [by_hand.gelu_by_erf],
    "gelu approximate=tanh": [by_hand.gelu_by_tanh],
}


@pytest.mark.parametrize("kind", _SOUND)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sound_results_are_within_the_bound(kind: str, dtype: str) -> None:
    """Other orders and other ways, on data that are hard: large means, small variances, far scores, few numbers."""
    rng, (name, _, rest) = np.random.default_rng(8), kind.partition(" ")
    # Of gelu in float64 each output takes a millisecond.
    for length in (1, 2, 7, 64, 1000) if name != "gelu" else (1, 40):
        asked = parse_row_function(f"{name} x=6x{length} {rest} dtype={dtype}")
        for moved, factor in ((0.0, 1.0), (100.0, 1.0), (3.0, 1e-3), (0.0, 30.0), (-5.0, 0.0)):
            x = (moved + factor * rng.standard_normal(asked.x)).astype(numpy_dtype(dtype))
            truth = compute_row_function(asked, {"x": x}).values
            bounds = bound_row_function(asked, {"x": x}, truth)
            for way in _SOUND[kind]:
                with np.errstate(all="ignore"):
                    result = way(x) if name != "layernorm" else way(x, asked.eps)
                off = np.abs(result.astype(np.float64) - truth.astype(np.float64))
                assert (off <= bounds.worst).all(), (way, length, moved, factor)
                assert (bounds.likely <= bounds.worst).all()


def test_bounds_tell_faults() -> None:
    """A wrong eps, the other gelu, one number less in a sum are beyond the bound."""
    x = np.random.default_rng(2).standard_normal((8, 64)).astype(np.float32)
    for text, faulty in (
        ("layernorm x=8x64", by_hand.norm_in_two_passes(x, 1e-2)),
        ("gelu x=8x64", by_hand.gelu_by_tanh(x)),
        ("softmax x=8x64", np.exp(x) / np.exp(x)[:, 1:].sum(-1, keepdims=True)),
    ):
        asked = parse_row_function(text)
        truth = compute_row_function(asked, {"x": x}).values
        assert (np.abs(faulty - truth) > bound_row_function(asked, {"x": x}, truth).worst).any()
