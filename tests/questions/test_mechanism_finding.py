"""Which of several explanations of one result is taken, for explanations written by hand."""

from collections import Counter

import numpy as np
import pytest

from hand_made import WHOLE, observe
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.search import mechanism_finding
from samebits.mechanisms.search.hypothesis_search import HypothesisSearch
from samebits.mechanisms.search.mechanism_finding import Found, find_mechanism
from samebits.progress import ignore_progress

ROW = "conv1d x=1x1x4 w=1x1x1 dtype=float32"


def make(says, cause, verdict, fit="bound", **more):
    return Mechanism(cause, verdict, says, fit, evidence=(Evidence("structure", says),), **more)


LOST_NAN = make("nan", CauseCode.NAN_SEMANTICS, "wrong")
OVERFLOW = make("overflow", CauseCode.OVERFLOW, "downgrade")
ORDER_OVERFLOW = make("order overflows", CauseCode.OVERFLOW, "rounding")
MEMORY = make("memory", CauseCode.UNINITIALIZED_MEMORY, "wrong")
SUBNORMALS = make("subnormals", CauseCode.SUBNORMALS, "downgrade")
FLUSH = make("flush", CauseCode.SUBNORMALS, "downgrade")
PART = make("part", CauseCode.SHAPE_SPECIFIC_KERNEL, "wrong")
TRANSFORM = make("transform", CauseCode.WINOGRAD, "downgrade", "nearness")
ARRANGEMENT = make("arrangement", CauseCode.FFT, "downgrade", "nearness")
OTHER = make("other", CauseCode.OTHER_OPERANDS, "wrong")
RECORD = make("record", CauseCode.OTHER_OPERANDS, "undecided")
SIGNS = make("signs", CauseCode.LOW_PRECISION_ACCUMULATOR, "downgrade", "nearness")
UNRELATED = make("unrelated", CauseCode.OTHER_OPERANDS, "wrong", "nearness")
BOUND = make("bound", CauseCode.PADDING, "wrong")
NEAR = make("near", CauseCode.LOW_PRECISION_ACCUMULATOR, "downgrade", "nearness")
BITS = make("bits", CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade", "bits", replay=WHOLE)
NARROW = make("narrow", CauseCode.LOW_PRECISION_ACCUMULATOR, "downgrade", "bits", replay=WHOLE)
SAMPLED = make("sampled", CauseCode.LOW_PRECISION_ACCUMULATOR, "downgrade", "bits", sampled=True, replay=WHOLE)
ZEROS, SOME, INFINITE = [0, 0, 0, 0], [1, 2, 3, 4], [1, np.inf, 3, 4]

# What is found by odd values, lost subnormals, flush, search, parts, and what is asked last; result; what is taken.
TABLE = [
    ({}, SOME, None),
    ({"odd": LOST_NAN, "search": BITS}, SOME, LOST_NAN),
    ({"odd": ORDER_OVERFLOW, "search": BITS}, SOME, ORDER_OVERFLOW),
    ({"lost": SUBNORMALS, "search": BITS}, SOME, SUBNORMALS),
    ({"odd": LOST_NAN, "lost": SUBNORMALS}, SOME, LOST_NAN),
    ({"odd": OVERFLOW}, SOME, OVERFLOW),
    ({"odd": OVERFLOW, "part": PART}, SOME, OVERFLOW),
    ({"odd": MEMORY, "search": BOUND}, SOME, MEMORY),
    ({"odd": MEMORY, "search": SAMPLED}, SOME, MEMORY),
    ({"odd": MEMORY, "search": BITS}, SOME, BITS),
    ({"flush": FLUSH, "search": BITS}, ZEROS, FLUSH),
    ({"odd": OVERFLOW, "flush": FLUSH}, ZEROS, FLUSH),
    ({"flush": FLUSH, "search": BITS}, SOME, BITS),
    ({"search": BITS}, ZEROS, BITS),
    ({"search": BITS, "part": PART}, SOME, BITS),
    ({"search": BOUND, "part": PART}, SOME, BOUND),
    ({"search": NEAR, "part": PART}, SOME, PART),
    ({"search": NEAR, "flush": FLUSH}, SOME, NEAR),
    ({"part": PART, "flush": FLUSH}, SOME, FLUSH),
    ({"search": NEAR, "transform": TRANSFORM}, SOME, NEAR),
    ({"transform": TRANSFORM, "flush": FLUSH}, SOME, FLUSH),
    ({"arrangement": ARRANGEMENT, "record": RECORD, "transform": TRANSFORM}, SOME, ARRANGEMENT),
    ({"transform": TRANSFORM, "record": RECORD, "signs": SIGNS, "unrelated": UNRELATED}, SOME, RECORD),
    ({"transform": TRANSFORM, "signs": SIGNS, "unrelated": UNRELATED}, SOME, TRANSFORM),
    ({"search": OTHER, "part": UNRELATED}, SOME, OTHER),
    ({"search": OTHER, "part": PART}, SOME, PART),
    ({"record": RECORD, "signs": SIGNS, "unrelated": UNRELATED}, SOME, RECORD),
    ({"signs": SIGNS, "unrelated": UNRELATED}, SOME, SIGNS),
    ({"unrelated": UNRELATED}, SOME, UNRELATED),
    ({"flush": FLUSH}, SOME, FLUSH),
    ({"search": NARROW}, SOME, NARROW),
]


def find(monkeypatch, parts, result):
    given = observe(ROW, 9.0, result)

    def explain(observation, key):
        assert observation is given
        return parts.get(key)

    for name, key in (
        ("explain_odd_values", "odd"),
        ("explain_lost_subnormals", "lost"),
        ("explain_flush", "flush"),
        ("explain_part", "part"),
        ("explain_arrangement", "arrangement"),
        ("explain_transform", "transform"),
        ("explain_rounded_record", "record"),
        ("explain_one_signed", "signs"),
        ("explain_unrelated", "unrelated"),
    ):
        monkeypatch.setattr(mechanism_finding, name, lambda observation, k=key: explain(observation, k))

    def run(self):
        assert self.observation is given
        assert self.progress is ignore_progress
        self.tried["layout"] += 3
        return parts.get("search")

    monkeypatch.setattr(HypothesisSearch, "run", run)
    return find_mechanism(given, ignore_progress)


@pytest.mark.parametrize(("parts", "result", "taken"), TABLE)
def test_values_come_first_then_bits_and_bounds_then_parts_then_nearness(monkeypatch, parts, result, taken):
    assert find(monkeypatch, parts, result).mechanism == taken


def test_what_was_tried_is_told_and_nothing_is_nothing(monkeypatch):
    assert find(monkeypatch, {}, SOME) == Found(None, Counter({"layout": 3}))
    assert find(monkeypatch, {"odd": LOST_NAN}, SOME).tried == Counter()
    assert Found.nothing() == Found(None, Counter())


@pytest.mark.parametrize(
    ("search", "result", "cause"),
    [
        (NARROW, INFINITE, CauseCode.OVERFLOW),
        (NARROW, SOME, CauseCode.LOW_PRECISION_ACCUMULATOR),
        (SAMPLED, INFINITE, CauseCode.LOW_PRECISION_ACCUMULATOR),
        (BITS, INFINITE, CauseCode.REDUCED_PRECISION_OPERANDS),
    ],
)
def test_a_narrow_sum_that_overflows_is_called_overflow(monkeypatch, search, result, cause):
    found = find(monkeypatch, {"search": search}, result).mechanism
    assert found is not None
    assert (found.cause, found.says, found.replay) == (cause, search.says, WHOLE)


def test_replayed_bits_say_which_arithmetic_overflows(monkeypatch):
    found = find(monkeypatch, {"odd": OVERFLOW, "search": NARROW}, SOME).mechanism
    assert found is not None
    assert (found.cause, found.says, found.fit) == (CauseCode.OVERFLOW, "narrow", "bits")
    assert [e.says for e in found.evidence] == ["narrow", "overflow"]
