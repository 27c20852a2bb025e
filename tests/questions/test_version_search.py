"""The release with which an engine's answer changes: the search against trying all, and engines made faulty."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

from samebits.cli import main
from samebits.engines.registry.known_engines import ENGINES
from samebits.errors import ArgumentError, EngineMissingError
from samebits.findings import Comparison
from samebits.questions.compare import version_search
from samebits.questions.compare.version_search import (
    FoundChange,
    Seen,
    compare_versions,
    find_change,
    list_versions,
    read_engine,
)

PROBLEM = "linear x=4x16 w=8x16"
# Loaded before all else by a Python that finds it: products of this NumPy are off by one in the first element.
FAULT = """
import numpy
_right = numpy.matmul
def _wrong(*arguments, **options):
    result = numpy.array(_right(*arguments, **options))
    result.reshape(-1)[0] += 1
    return result
numpy.matmul = numpy.dot = _wrong
"""


@pytest.mark.parametrize("count", range(1, 12))
def test_a_change_that_lasts_is_found_in_few_runs(count: int) -> None:
    """Every place of a change of the verdict, with a change of bits at any place, or none, against trying all."""
    places = range(1, count + 1)
    for verdict, bits in itertools.product(places, places):
        asked: list[int] = []

        def look(number: int, verdict: int = verdict, bits: int = bits, asked: list[int] = asked) -> Seen:
            asked.append(number)
            return Seen("wrong" if number >= verdict else "agrees", number < min(bits, verdict))

        found = find_change(range(count), look)
        if verdict < count:
            assert found == FoundChange(verdict - 1, verdict, "verdict")
        elif bits < count:
            assert found == FoundChange(bits - 1, bits, "bits")
        else:
            assert found is None
        assert len(asked) == len(set(asked))
        # The oldest is asked, too. The bar: a change of the verdict among ten in five runs, the oldest beside each.
        assert len(asked) - 1 <= (5 if count <= 10 else 6)
        if verdict < count <= 10:
            assert len(asked) - 1 <= 4


def test_releases_that_cannot_be_run_are_passed_over() -> None:
    def look(number: int) -> Seen | None:
        return None if number in (3, 4, 5, 6, 9) else Seen("wrong" if number >= 6 else "agrees", number < 6)

    assert find_change(range(10), look) == FoundChange(2, 7, "verdict")
    assert find_change(range(10), lambda number: None) is None
    assert find_change(range(10), lambda number: None if number else Seen("agrees", True)) is None


def make_release(environments: Path, version: str, *, faulty: bool) -> None:
    """A release of NumPy: this Python with ours, whose products are wrong where it is faulty."""
    folder = environments / f"numpy-{version}-py{sys.version_info.major}{sys.version_info.minor}"
    (folder / "bin").mkdir(parents=True)
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(FAULT if faulty else "")
    program = folder / "bin" / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}/site:$PYTHONPATH" exec {sys.executable} "$@"\n')
    program.chmod(0o755)
    (folder / "complete").write_text("")


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five releases of NumPy, faulty from 0.4 on."""
    monkeypatch.setenv("SAMEBITS_ENVIRONMENTS", str(tmp_path))
    monkeypatch.delenv("SAMEBITS_INSTALL", raising=False)
    for number in range(1, 6):
        make_release(tmp_path, f"0.{number}", faulty=number >= 4)
    return tmp_path


def test_the_first_faulty_release_is_named(releases: Path) -> None:
    found = compare_versions(PROBLEM, "numpy", "0.1,0.2,0.3,0.4,0.5")
    assert (found.before, found.after, found.changes) == ("0.3", "0.4", "verdict")
    assert {row.version: row.verdict for row in found.rows}["0.4"] == "wrong"
    assert isinstance(found.comparison, Comparison)
    assert found.comparison.verdict == "wrong"
    assert found.notes == "https://github.com/numpy/numpy/releases/tag/v0.4"
    assert found.summary.startswith("It changes with numpy 0.4: 0.3 is right within rounding, 0.4 is wrong.")


def test_a_release_that_fails_is_named_as_such(releases: Path) -> None:
    """As where an operator came with a later one."""
    raising = (
        "import numpy\ndef _refuse(*a, **k):\n    raise RuntimeError('not in this release')\nnumpy.matmul = _refuse\n"
    )
    (
        releases / f"numpy-0.1-py{sys.version_info.major}{sys.version_info.minor}" / "site" / "sitecustomize.py"
    ).write_text(raising)
    found = compare_versions(PROBLEM, "numpy", "0.1,0.2,0.3")
    assert (found.before, found.after, found.changes) == ("0.1", "0.2", "verdict")
    assert found.summary.startswith("It changes with numpy 0.2: 0.1 fails (error), 0.2 is right within rounding.")


def test_sound_releases_change_nothing(releases: Path) -> None:
    found = compare_versions(PROBLEM, "numpy", "0.1,0.2,0.3")
    assert (found.before, found.after, found.changes, found.comparison) == (None, None, None, None)
    assert all(row.same_bits for row in found.rows)


def test_a_release_that_is_not_there_costs_its_row(releases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["compare", PROBLEM, "--on", "numpy", "--versions", "0.1,0.2,0.3,0.3.5,0.4,0.4.5", "--json"])
    document = json.loads(capsys.readouterr().out)
    rows = {row["version"]: row for row in document["rows"]}
    assert status == 1
    assert document["schema"] == "samebits.versions/1"
    assert (document["before"], document["after"]) == ("0.3", "0.4")
    assert not rows["0.3.5"]["runs"]
    assert rows["0.3.5"]["failure"]["says"].startswith("numpy 0.3.5 is not installed")


def test_none_that_is_there_is_trouble(releases: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", PROBLEM, "--on", "numpy", "--versions", "7.0,7.1"]) == 2
    assert "No release of numpy gave a result" in capsys.readouterr().out


def test_a_range_holds_whole_series_and_no_previews(monkeypatch: pytest.MonkeyPatch) -> None:
    known = ["1.17.3", "1.18.0", "1.18.1", "1.19.0rc1", "1.19.2", "1.20.0", "1.20.1", "1.21.0", "2.0.0"]
    monkeypatch.setattr(version_search, "list_published", lambda package: known)
    spec = ENGINES["onnxruntime"]
    assert list_versions(spec, "1.18..1.20") == ["1.18.0", "1.18.1", "1.19.2", "1.20.0", "1.20.1"]
    assert list_versions(spec, "1.20.1..") == ["1.20.1", "1.21.0", "2.0.0"]
    assert list_versions(spec, "..1.18.0") == ["1.17.3", "1.18.0"]
    assert list_versions(spec, "1.21.0,1.9.0") == ["1.9.0", "1.21.0"]
    for text in ("3..4", "1.18", "1.18..x", "", "a,b", "1.18,,1.19", "1.21..1.20"):
        with pytest.raises(ArgumentError, match="--versions"):
            list_versions(spec, text)


def test_without_an_index_those_that_are_here_are_taken(releases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(package: str) -> list[str]:
        raise EngineMissingError("no index")

    monkeypatch.setattr(version_search, "list_published", fail)
    assert list_versions(ENGINES["numpy"], "0.2..0.4") == ["0.2", "0.3", "0.4"]
    with pytest.raises(EngineMissingError, match="no index"):
        list_versions(ENGINES["tract"], "0.1..0.2")


@pytest.mark.parametrize("text", ["./mine.py:f", "numpy:version=1.0", "numpy:python=/x", "numpy:ssh=box", "truth"])
def test_only_an_engine_that_a_package_brings_has_releases(text: str) -> None:
    with pytest.raises(ArgumentError):
        read_engine(text)


def test_one_engine_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", PROBLEM, "--on", "numpy", "--on", "torch", "--versions", "1..2"]) == 2
    assert "--versions is of one engine" in capsys.readouterr().err
