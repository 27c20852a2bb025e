"""What is said of settings that were tried: the same bits are no help where all of them are wrong."""

from dataclasses import dataclass

import pytest

from samebits.display.document import choose_remedy
from samebits.findings import Fix, Verdict
from samebits.findings.words.fix_words import find_helping, say_result


def _make_fix(after: Verdict | None, *, same_bits: bool, text: str | None = "torch:threads=1") -> Fix:
    return Fix("torch", "threads=1", "why", True, after, text=text, same_bits=same_bits)


@dataclass(frozen=True)
class Said:
    fix: Fix
    result: str
    helps: bool


@pytest.mark.parametrize(
    "case",
    [
        Said(_make_fix("identical", same_bits=True), "the same bits from every side", True),
        Said(_make_fix("rounding", same_bits=False), "all units within rounding (rounding)", True),
        Said(_make_fix("wrong", same_bits=True), "the same bits from every side, still wrong", False),
        Said(_make_fix("downgrade", same_bits=True), "the same bits from every side, still downgrade", False),
    ],
    ids=lambda case: case.result,
)
def test_a_setting_that_leaves_all_sides_wrong_is_not_offered(case: Said) -> None:
    assert say_result(case.fix, "all units") == case.result
    assert (find_helping([case.fix]) is case.fix) is case.helps
    remedy = choose_remedy([case.fix], "wrong")
    assert (remedy is not None) is case.helps


def test_what_helps_is_offered_before_what_only_agrees() -> None:
    agrees, helps = _make_fix("wrong", same_bits=True), _make_fix("rounding", same_bits=False, text="torch:mkldnn=off")
    assert find_helping([agrees, helps]) is helps
    remedy = choose_remedy([agrees, helps], "wrong")
    assert remedy is not None
    assert remedy.text == "torch:mkldnn=off"


def test_a_change_of_code_cannot_be_typed() -> None:
    assert find_helping([_make_fix("identical", same_bits=True, text=None)]) is None
