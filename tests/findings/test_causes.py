"""The table of causes: every code has a row, its verdicts fit each other, and the gravest is found."""

import itertools

import pytest

from samebits.findings.causes import CAUSES, CauseCode, find_cause, gravest_cause

ROUNDS, TRANSFORMS, LOSES, DIFFERS = ("rounding",), ("rounding", "downgrade"), ("downgrade",), ("wrong",)
# From harmless to grave: verdicts, and the gravest where every output is inside the bound of the declared formats.
EXPECTED = {
    "summation-order": (ROUNDS, "rounding"),
    "ill-conditioned": (ROUNDS, "rounding"),
    "nondeterminism": (ROUNDS, "rounding"),
    "excess-precision": (ROUNDS, "rounding"),
    "requantization": (("rounding", "wrong"), "rounding"),
    "harness": (("identical", "rounding"), "rounding"),
    "subnormals": (LOSES, "downgrade"),
    "winograd": (TRANSFORMS, "rounding"),
    "fft": (TRANSFORMS, "rounding"),
    "overflow": (("rounding", "downgrade", "wrong"), "downgrade"),
    "low-precision-accumulator": (LOSES, "downgrade"),
    "result-rounding": (LOSES, "downgrade"),
    "reduced-precision-operands": (LOSES, "downgrade"),
    "quantized-operands": (LOSES, "downgrade"),
    "narrow-intermediate": (LOSES, "downgrade"),
    "cancellation": (("rounding", "downgrade"), "rounding"),
    "other-operands": (("rounding", "undecided", "wrong"), "rounding"),
    "nan-semantics": (DIFFERS, "wrong"),
    "fusion": (DIFFERS, "wrong"),
    "dropped-attribute": (DIFFERS, "wrong"),
    "padding": (DIFFERS, "wrong"),
    "transposed-geometry": (DIFFERS, "wrong"),
    "axis-order": (DIFFERS, "wrong"),
    "hidden-keys": (DIFFERS, "wrong"),
    "other-keys": (DIFFERS, "wrong"),
    "softmax": (DIFFERS, "wrong"),
    "strided-view": (DIFFERS, "wrong"),
    "int8-saturation": (DIFFERS, "wrong"),
    "shape-specific-kernel": (DIFFERS, "wrong"),
    "index-overflow": (DIFFERS, "wrong"),
    "uninitialized-memory": (DIFFERS, "wrong"),
}


def test_causes_stand_from_harmless_to_grave_with_their_verdicts():
    assert {str(c.code): (c.verdicts, c.within_bound) for c in CAUSES} == EXPECTED
    assert [c.code for c in CAUSES] == list(EXPECTED)
    assert list(CauseCode) == list(EXPECTED)


@pytest.mark.parametrize("code", CauseCode)
def test_every_code_has_its_own_row_with_words_and_a_link(code):
    row = find_cause(code)
    assert row.code == code
    assert row.link == f"docs/causes.md#{code}"
    assert row.phrase != row.advice
    for words in (row.phrase, row.advice):
        assert words == words.strip()
        assert len(words) > 20
        assert not words.endswith(".")


def test_no_two_causes_are_called_the_same():
    assert len({c.phrase for c in CAUSES}) == len({c.advice for c in CAUSES}) == len(CAUSES)


@pytest.mark.parametrize("pair", [*itertools.combinations(EXPECTED, 2)])
def test_of_two_causes_the_graver_one_counts_whichever_comes_first(pair):
    codes = [CauseCode(name) for name in pair]
    assert gravest_cause(codes) == gravest_cause(codes[::-1]) == pair[1]


def test_no_causes_have_no_gravest():
    assert gravest_cause([]) is None
