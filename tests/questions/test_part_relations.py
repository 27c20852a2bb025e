"""Two results without operands, of which slices were moved, copied or scaled; and controls that only look so."""

import numpy as np
import pytest

from samebits import explain

A = np.random.default_rng(4).standard_normal((24, 5, 30)).astype(np.float32)


def change(f):
    other = A.copy()
    made = f(other)
    return np.ascontiguousarray(other if made is None else made)


def copy_row(b):
    b[5] = A[6]


def copy_block(b):
    b[5:9] = A[4:8]


def exchange(b):
    b[[2, 7]] = A[[7, 2]]


def scale(b):
    b[:, :, 3] *= np.float32(1.001)


@pytest.mark.parametrize(
    ("f", "says"),
    [
        (copy_row, "has at place 5 of axis 0 what a has at 6"),
        (copy_block, "has at place 5, 6, 7 ... of axis 0 what a has at 4, 5, 6 ..."),
        (exchange, "has a's values with places 2 and 7 of axis 0 exchanged"),
        (lambda b: np.roll(b, 1, 1), "has a's values shifted by 1 along axis 1"),
        (lambda b: np.roll(b, -2, 0), "has a's values shifted by 2 along axis 0"),
        (lambda b: b[:, :, ::-1], "has a's values with axis 2 reversed"),
        (lambda b: b[np.r_[5:24, 0, 3, 1, 4, 2]], "has a's slices along axis 0 in another sequence"),
    ],
)
def test_what_was_moved_is_said_of_the_side_that_was(f, says):
    found = explain(a=A, b=change(f))
    assert found.verdict == "undecided"
    assert found.sides[1].says == says
    assert says in found.summary


def test_one_slice_that_is_scaled():
    found = explain(a=A, b=change(scale))
    assert found.sides[1].says == "is 1.001 times a at place 3 of axis 2, and else the same"


@pytest.mark.parametrize(
    "f",
    [
        lambda b: np.nextafter(b, np.float32(9)),
        lambda b: np.where(np.arange(30) == 3, b * np.linspace(1, 2, 5, dtype=np.float32)[:, None], b),
        lambda b: np.where(np.arange(24)[:, None, None] == 3, np.float32(0), b),
    ],
)
def test_what_is_no_such_thing_is_not_said(f):
    found = explain(a=A, b=change(f))
    assert not any("axis" in (s.says or "") for s in found.sides)


def test_equal_slices_and_few_values_tell_nothing():
    flat = np.tile(A[:1], (4, 1, 1))
    other = flat.copy()
    other[2] = flat[0] * 2
    assert "exchanged" not in explain(a=flat, b=other).summary
    few = np.arange(6, dtype=np.float32)
    assert "shifted" not in explain(a=few, b=np.roll(few, 1)).summary


@pytest.mark.parametrize("adds_first", [True, False])
def test_a_bias_that_one_side_lacks_is_inferred_whatever_the_order_of_the_sums(adds_first):
    rng = np.random.default_rng(2)
    x, w, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 40), (40, 12), (12,)))
    backwards = np.zeros((16, 12), np.float32)
    for k in reversed(range(40)):
        backwards += x[:, k, None] * w[k]
    found = explain(a=x @ w, b=(x @ w if adds_first else backwards) + bias)
    assert found.verdict == "undecided"
    shown = ", ".join(f"{value:.4g}" for value in bias[:3])
    said = found.sides[1].says
    assert said.startswith("is a plus a number for each place of axis 1 (")
    assert [f"{float(v):.4g}" for v in said.partition("(")[2].partition(" ...")[0].split(", ")] == shown.split(", ")
    assert "a bias (inferred)" in said


def test_one_number_for_all_is_said_once():
    assert explain(a=A, b=A + np.float32(0.5)).sides[1].says == "is a plus 0.5"


def test_one_place_that_is_shifted():
    found = explain(a=A, b=A + (np.arange(30) == 3) * np.float32(0.25))
    assert found.sides[1].says == "is a plus 0.25 at place 3 of axis 2 (inferred)"


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_noise_with_a_mean_of_its_own_in_each_place_is_no_bias(axis):
    rng = np.random.default_rng(3)
    shape = [size if i == axis else 1 for i, size in enumerate(A.shape)]
    noise = rng.standard_normal(A.shape) * 0.01 + rng.standard_normal(shape)
    assert explain(a=A, b=(A + noise).astype(np.float32)).sides[1].says is None
