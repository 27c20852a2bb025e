"""The survey: known deviations have a reason and a link, new ones and stale entries are reported."""

import fnmatch
import importlib
import sys
from pathlib import Path

import pytest

from samebits.problems.catalog import catalog
from samebits.questions.list.table_changes import load_known

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def survey(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr(importlib.import_module("survey_tables"), "TABLES", tmp_path)
    return importlib.import_module("survey")


def test_every_known_deviation_has_a_reason_a_link_and_a_problem_of_the_catalog(survey):
    deviations = load_known(survey.KNOWN)
    assert deviations
    for deviation in deviations:
        assert deviation.reason
        assert deviation.link.startswith("https://")
        for pattern in deviation.problems:
            assert fnmatch.filter(catalog(), pattern), pattern


def run(survey, monkeypatch, capsys, tmp_path, known, engine, *options):
    entries = [
        f'[[deviation]]\nengine = "{name}"\nproblems = ["{problems}"]\nverdict = "{verdict}"\nreason = "a reason"\n'
        'link = "https://example.org"\n'
        for name, problems, verdict in known
    ]
    (tmp_path / "known.toml").write_text("".join(entries))
    monkeypatch.setattr(survey, "KNOWN", tmp_path / "known.toml")
    monkeypatch.setattr(survey, "ENGINES", [engine])
    monkeypatch.setattr(sys, "argv", ["survey.py", *options])
    return survey.main(), capsys.readouterr().out


# An engine that loses declared precision on every processor.
NARROW = "emulate:direct acc=bfloat16"


def test_a_deviation_that_is_not_known_is_reported(survey, monkeypatch, capsys, tmp_path):
    status, out = run(survey, monkeypatch, capsys, tmp_path, [], NARROW, "--only", "corner/prime")
    assert status == 1
    assert f"NEW {NARROW} on corner/prime: undecided" in out


def test_a_known_deviation_is_no_news(survey, monkeypatch, capsys, tmp_path):
    known = [(NARROW, "corner/prime*", "undecided")]
    status, out = run(survey, monkeypatch, capsys, tmp_path, known, NARROW, "--only", "corner/prime")
    assert status == 0
    assert "NEW" not in out
    assert "problems: 1; a reason" in out


@pytest.mark.needs("torch")
def test_an_entry_that_matches_nothing_any_more_is_reported(survey, monkeypatch, capsys, tmp_path):
    small = {name: problem for name, problem in catalog().items() if name == "corner/one-product"}
    monkeypatch.setattr("samebits.questions.list.list_reading.catalog", lambda: small)
    known = [("torch", "corner/one-product", "wrong")]
    status, out = run(survey, monkeypatch, capsys, tmp_path, known, "torch")
    assert status == 1
    assert "UNMATCHED torch" in out
