"""Verdicts: which agree, and what several come to."""

import itertools

import pytest

from samebits.findings import AGREEING, VERDICTS, is_agreement, worst_verdict

# A proven fault outweighs an open question, and that a proven loss of precision.
FROM_HARMLESS_TO_GRAVE = ["identical", "rounding", "downgrade", "undecided", "wrong"]


def test_there_are_five_verdicts():
    assert VERDICTS == ("identical", "rounding", "downgrade", "wrong", "undecided")
    assert AGREEING == ("identical", "rounding")


@pytest.mark.parametrize("verdict", VERDICTS)
def test_only_identical_and_rounding_are_agreement(verdict):
    assert is_agreement(verdict) is (verdict in ("identical", "rounding"))


@pytest.mark.parametrize("pair", [*itertools.product(range(5), repeat=2)])
def test_of_two_verdicts_the_graver_one_counts(pair):
    assert worst_verdict(FROM_HARMLESS_TO_GRAVE[i] for i in pair) == FROM_HARMLESS_TO_GRAVE[max(pair)]


def test_of_no_verdicts_nothing_is_known():
    assert worst_verdict([]) == "undecided"
