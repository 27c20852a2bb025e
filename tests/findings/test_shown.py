"""What findings do in Python: their text, files, dictionaries and tables, also with hostile names in them."""

import sys
import types

import msgspec
import numpy as np
import pytest

import samebits
from samebits.errors import ArgumentError, FindingError
from samebits.findings import Comparison

HOSTILE = "<script>alert(1)</script>\x1b[31m]]>&\" 'x|y`z`\n# h"


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((16, 24), np.float32), rng.standard_normal((8, 24), np.float32)
    return samebits.explain(problem="linear x=16x24 w=8x24", x=x, w=w, mine=x @ w.T, theirs=np.float32(2) * (x @ w.T))


def with_name(found, name):
    return msgspec.structs.replace(found, sides=[msgspec.structs.replace(s, name=name) for s in found.sides])


def test_a_side_is_at_hand(found):
    assert found.sides[1].error.max_abs > 0
    assert "theirs" in str(found)


def test_hostile_names_stay_text(found):
    shown = with_name(found, HOSTILE)
    assert "\x1b" not in str(shown)
    assert "<script>" not in shown._repr_html_()
    assert shown.to_dict()["sides"][0]["name"] == HOSTILE


@pytest.mark.slow
def test_very_long_findings_are_cut_and_say_so(found):
    many = msgspec.structs.replace(found, sides=[*found.sides] * 400)
    assert len(str(many)) < 4000
    assert len(many._repr_html_()) < 60_000
    assert ".save(" in str(many)
    long = msgspec.structs.replace(found, summary="very " * 20_000)
    assert len(str(long)) < 4000
    assert len(long._repr_html_()) < 60_000


@pytest.mark.parametrize("path", ["found.txt", "found", "nowhere/found.json", "found.npz"])
def test_what_cannot_be_written_is_refused(found, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError):
        found.save(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", [b"", b"{}", b'{"schema": "samebits.other/1"}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_finding_is_refused_in_one_line(text, tmp_path):
    (tmp_path / "f.json").write_bytes(text)
    with pytest.raises(FindingError) as raised:
        samebits.load(tmp_path / "f.json")
    assert "\n" not in str(raised.value)
    with pytest.raises(FindingError):
        samebits.load(tmp_path / "nothing.json")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_table_has_a_row_for_each_side(found, library, monkeypatch):
    made = types.SimpleNamespace(DataFrame=list)
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, made if name == library else None)
    rows = found.to_frame()
    assert [row["name"] for row in rows] == ["mine", "theirs"]
    assert rows[1]["error.max_abs"] == found.sides[1].error.max_abs
    assert all(not isinstance(value, (list, dict)) for row in rows for value in row.values())
    assert set(rows[0]) >= {"verdict", "cause", "error.max_ulp"}


def test_a_table_needs_a_library(found, monkeypatch):
    for name in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ArgumentError, match="pandas"):
        found.to_frame()


def test_a_finding_by_itself_says_its_verdict(found, monkeypatch):
    monkeypatch.setattr("samebits.findings.shown._renderers", [])
    assert str(found).startswith("<Comparison wrong: ")
    assert isinstance(found, Comparison)


def test_errors_and_case_functions_are_at_the_top(tmp_path, found):
    problem = samebits.parse_problem_text("linear x=2x3 w=4x3")
    operands = {"x": np.ones((2, 3), np.float32), "w": np.ones((4, 3), np.float32)}
    samebits.save_case(tmp_path / "c.npz", problem, operands, {"a": np.full((2, 4), 3, np.float32)})
    case = samebits.load_case(tmp_path / "c.npz")
    assert isinstance(case, samebits.Case)
    assert samebits.explain(case).verdict == "identical"
    with pytest.raises(samebits.SamebitsError):
        samebits.load_case(tmp_path / "nothing.npz")
