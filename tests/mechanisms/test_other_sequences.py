"""Linear layers whose rows, or whose products, come in another sequence, made in plain NumPy; and controls."""

import numpy as np
import pytest

import samebits

RNG = np.random.default_rng(5)
X, W, BIAS = (RNG.standard_normal(shape).astype(np.float32) for shape in ((24, 40), (16, 40), (16,)))
TEXT = "linear x=24x40 w=16x40 bias"
Y = X @ W.T + BIAS
SHUFFLED = RNG.permutation(24)


def explain(mine):
    found = samebits.explain(problem=TEXT, x=X, w=W, bias=BIAS, mine=np.ascontiguousarray(mine, np.float32))
    return found.sides[0]


@pytest.mark.parametrize(
    ("mine", "says"),
    [
        (Y[[0, 1, 9, *range(3, 9), 2, *range(10, 24)]], "exchanges items 2 and 9 of the batch"),
        (np.roll(Y, 2, 0), "takes 24 of 24 items of the batch in another sequence (item 22 stands in place of 0)"),
        (Y[SHUFFLED], "items of the batch in another sequence"),
        (X[:, ::-1] @ W.T + BIAS, "takes x in reverse along k"),
        (np.roll(X, 20, 1) @ W.T + BIAS, "takes x shifted by 20 along k"),
        (
            X.reshape(24, 8, 5).transpose(0, 2, 1).reshape(24, 40) @ W.T + BIAS,
            "takes x flattened as 5 x 8 where w has 8 x 5",
        ),
    ],
)
def test_another_sequence_is_named(mine, says):
    side = explain(mine)
    assert (side.verdict, side.cause) == ("wrong", "axis-order")
    assert says in side.says


@pytest.mark.parametrize("mine", [Y, Y * np.float32(1.25), X @ W.T, np.where(np.arange(24)[:, None] == 3, 0, Y)])
def test_what_keeps_its_sequence_is_not_called_another(mine):
    side = explain(mine)
    assert side.cause != "axis-order"
