"""The survey: known deviations have a reason and a link, new ones and stale entries are reported."""

import fnmatch
import importlib
import sys
from pathlib import Path

import pytest

from samebits.problems.catalog import catalog

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def survey():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("survey")


def test_every_known_deviation_has_a_reason_a_link_and_a_problem_of_the_catalog(survey):
    deviations = survey.load_deviations()
    assert deviations
    for deviation in deviations:
        assert deviation.reason
        assert deviation.link.startswith("https://")
        for pattern in deviation.problems:
            assert fnmatch.filter(catalog(), pattern), pattern


def run(survey, monkeypatch, capsys, deviations, only, engines):
    monkeypatch.setattr(survey, "load_deviations", lambda: deviations)
    small = {name: problem for name, problem in catalog().items() if fnmatch.fnmatch(name, only)}
    monkeypatch.setattr(survey, "catalog", lambda: small)
    monkeypatch.setattr(survey, "ENGINES", engines)
    monkeypatch.setattr(sys, "argv", ["survey.py"])
    return survey.main(), capsys.readouterr().out


# An engine that loses declared precision on every processor.
NARROW = "emulate:direct acc=bfloat16"


def test_a_deviation_that_is_not_known_is_reported(survey, monkeypatch, capsys):
    status, out = run(survey, monkeypatch, capsys, [], "corner/prime", [NARROW])
    assert status == 1
    assert f"NEW {NARROW} on corner/prime: undecided" in out


def test_a_known_deviation_is_no_news(survey, monkeypatch, capsys):
    known = survey.Deviation(NARROW, ["corner/prime*"], "undecided", "a reason", "https://example.org")
    status, out = run(survey, monkeypatch, capsys, [known], "corner/prime", [NARROW])
    assert status == 0
    assert "NEW" not in out


@pytest.mark.needs("torch")
def test_an_entry_that_matches_nothing_any_more_is_reported(survey, monkeypatch, capsys):
    stale = survey.Deviation("torch", ["corner/one-product"], "wrong", "fixed since", "https://example.org")
    status, out = run(survey, monkeypatch, capsys, [stale], "corner/one-product", ["torch"])
    assert status == 1
    assert "UNMATCHED torch" in out
