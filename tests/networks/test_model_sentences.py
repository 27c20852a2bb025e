"""The answer about a network: what several sides do alike is said once."""

import pytest

from samebits.findings import Verdict
from samebits.findings.model_schema import ModelSide
from samebits.networks.model_sentences import summarize_model


def _make_side(name: str, verdict: Verdict, first: str | None) -> ModelSide:
    return ModelSide(
        name=name, engine=name, file=None, version="1", device="CPU", settings={}, verdict=verdict, failure=None,
        first=first, deviating=int(first is not None),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        (
            [("a", "wrong", "Conv_0"), ("b", "wrong", "Conv_0"), ("c", "wrong", "Conv_0")],
            "Each of a, b and c is wrong from Conv_0 on.",
        ),
        (
            [("a", "wrong", "Conv_0"), ("b", "downgrade", "Conv_0")],
            "a is wrong from Conv_0 on. b is downgrade from Conv_0 on.",
        ),
        (
            [("a", "wrong", "Conv_0"), ("b", "rounding", None), ("c", "wrong", "Conv_0")],
            "Each of a and c is wrong from Conv_0 on. b is right: every unit is within its bound.",
        ),
        ([("a", "wrong", "Conv_0"), ("b", "rounding", None)], "a is wrong from Conv_0 on. b is right: every unit"),
    ],
    ids=["three", "other verdicts", "two of three", "one"],
)
def test_sides_that_do_the_same_share_a_sentence(sides: list[tuple[str, Verdict, str | None]], said: str) -> None:
    made = [_make_side(*one) for one in sides]
    assert summarize_model("wrong", made, None, [], None).startswith(said)
