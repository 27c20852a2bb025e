"""Findings as JSON: what JSON has no word for becomes null, and the rest comes back as it was."""

import json
import math

import msgspec
import pytest

from samebits.findings import (
    Comparison,
    Error,
    ErrorPicture,
    Failure,
    Replay,
    Side,
    finding_from_json,
    json_from_finding,
)
from samebits.findings.causes import CauseCode
from samebits.questions.profile.profile_schema import Profile

SIDE = Side(
    name="a", engine=None, verdict="wrong", cause=CauseCode.PADDING, failure=Failure("crash", "ended by SIGKILL")
)
FOUND = Comparison(
    problem="conv1d x=1x1x1 w=1x1x1", verdict="wrong", summary="a is wrong.", data="recorded", outputs=1,
    reduction_length=1, settled={}, sides=[SIDE], differences=[], samebits_version="1",
)  # fmt: skip


def test_a_finding_comes_back_from_its_json_as_text_or_bytes():
    text = json_from_finding(FOUND)
    assert finding_from_json(text, Comparison) == finding_from_json(text.encode(), Comparison) == FOUND


def test_json_is_indented_by_two_and_names_its_schema_and_codes():
    text = json_from_finding(FOUND)
    assert text.startswith('{\n  "schema": "samebits.comparison/1",\n  "problem": "conv1d x=1x1x1 w=1x1x1",\n')
    assert json.loads(text)["sides"][0]["cause"] == "padding"


def test_what_is_no_number_becomes_null():
    text = json_from_finding(Error(max_abs=math.inf, max_ulp=math.nan, rel_l2=-math.inf, max_over_bound=0.5))
    assert json.loads(text) == dict.fromkeys(Error.__struct_fields__) | {"max_over_bound": 0.5}
    assert text.startswith('{\n  "max_abs": null,\n  "max_ulp": null,\n')
    assert finding_from_json(text, Error) == Error(None, None, None, 0.5)


def test_rows_of_numbers_stand_in_one_line_and_texts_stay_as_they_are():
    picture = ErrorPicture(
        row_axis="[\n 1,\n 2\n]", column_axis="ow", rows=2, columns=2, cells=[[1e-7, None], [-2.5, 3.0]], points=[]
    )
    text = json_from_finding(picture)
    assert "    [1e-7, null],\n    [-2.5, 3.0]\n" in text
    assert finding_from_json(text, ErrorPicture) == picture


def test_json_of_another_kind_is_refused():
    with pytest.raises(msgspec.ValidationError):
        finding_from_json(json_from_finding(SIDE), Comparison)
    with pytest.raises(msgspec.ValidationError):
        finding_from_json(json_from_finding(FOUND).replace("comparison/1", "comparison/2"), Comparison)
    with pytest.raises(msgspec.DecodeError):
        finding_from_json("no JSON", Comparison)


@pytest.mark.parametrize(
    ("matched", "elements", "count", "whole"),
    [
        (1.0, 7, 7, True),
        (0.0, 7, 0, False),
        (2 / 3, 3, 2, False),
        (1 - 2.0**-53, 10, 10, False),
        (1 / 3, 100, 33, False),
    ],
)
def test_a_replay_counts_elements_and_is_whole_only_with_all_of_them(matched, elements, count, whole):
    replay = Replay(matched, elements)
    assert (replay.count, replay.is_whole) == (count, whole)


def test_a_profile_that_found_nothing_says_nothing():
    found = Profile(problem="p", engine="e", summary="No recipe.", calls=3, time_s=0.5, samebits_version="1")
    assert found.schema == "samebits.profile/1"
    said = {n: v for n, v in json.loads(json_from_finding(found)).items() if v not in (None, [], {})}
    nothing = dict.fromkeys(
        ("batch_size", "batch_position", "length", "layout", "threads", "repeat", "channel_order"), None
    )
    assert said == {
        "schema": "samebits.profile/1", "problem": "p", "engine": "e", "summary": "No recipe.", "calls": 3,
        "time_s": 0.5, "samebits_version": "1", "invariant_to": nothing, "computes_another": False,
    }  # fmt: skip
