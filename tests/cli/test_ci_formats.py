"""Findings as continuous integration reads them: JUnit by another library, SARIF and annotations by their rules."""

import json
import os

import junitparser
import msgspec
import pytest

import samebits
from samebits.cli import main
from samebits.findings.causes import VERDICTS
from samebits.questions.list.journal import write_table
from samebits.questions.list.row import Row
from samebits.questions.runs.diff_schema import FirstDifference, RunDiff

KERNELS = """
def right(problem, operands):
    return operands["x"] @ operands["w"].T

def backwards(problem, operands):
    return operands["x"][:, ::-1] @ operands["w"].T

def broken(problem, operands):
    raise ValueError("no & <kernel>")
"""
ROWS = [
    Row(subject="a.onnx", side="one", verdict="rounding"),
    Row(subject="a.onnx", unit="conv", side="one", verdict="rounding"),
    Row(subject="a.onnx", side="two", verdict="downgrade", cause="tf32", version="9"),
    Row(subject="a.onnx", unit="conv", side="two", verdict="downgrade", cause="tf32"),
    Row(subject="a.onnx", unit="relu", side="two", verdict="identical"),
    Row(subject="b", side="one", verdict="undecided", max_over_bound=370.0, where="only in batch = 3"),
    Row(subject="b", side="two", failure="unsupported", says="no such layout"),
    Row(subject="c", side="one", verdict="wrong", known="https://a.b/1"),
    Row(subject="c", side="two", failure="crash", says="signal 11"),
    Row(subject="line 7", failure="unreadable", says="no problem"),
]
OUTCOMES = {
    ("a.onnx", "one"): None, ("a.onnx", "two"): "failure", ("b", "one"): "failure", ("b", "two"): "skipped",
    ("c", "one"): "skipped", ("c", "two"): "error", ("line 7", "samebits"): "error",
}  # fmt: skip


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "all.parquet", ROWS)
    (tmp_path / "a.onnx").write_bytes(b"")
    return "all.parquet"


def read_junit(path):
    return {
        (case.classname, case.name): next((type(r).__name__.lower() for r in case.result), None)
        for suite in junitparser.JUnitXml.fromfile(str(path))
        for case in suite
    }


def test_a_table_as_junit(table, tmp_path):
    assert main(["report", table, "--as", "junit", "-o", "all.xml"]) == 0
    assert read_junit("all.xml") == OUTCOMES
    whole = junitparser.JUnitXml.fromfile("all.xml")
    counts = list(OUTCOMES.values())
    assert (whole.tests, whole.failures, whole.errors, whole.skipped) == (
        7, counts.count("failure"), counts.count("error"), counts.count("skipped"),
    )  # fmt: skip
    said = (tmp_path / "all.xml").read_text()
    assert "unit conv: downgrade (tf32)" in said
    assert "unit relu" not in said
    assert "370 times its bound from the truth, only in batch = 3" in said


def test_a_table_as_sarif(table, capsys):
    assert main(["report", table, "--as", "sarif"]) == 0
    log = json.loads(capsys.readouterr().out)
    # Sections 3.13 and 3.14: what a log and a run must have.
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    results = run["results"]
    assert [rules[r["ruleIndex"]]["id"] for r in results] == [r["ruleId"] for r in results]
    assert [(r["ruleId"], r["level"]) for r in results] == [
        ("downgrade/tf32", "error"),
        ("undecided", "warning"),
        ("wrong", "error"),
        ("crash", "error"),
        ("unreadable", "error"),
    ]
    assert [bool(r.get("suppressions")) for r in results] == [False, False, True, False, False]
    places = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results]
    # Lists name files as their folders do: one of that name here is another.
    assert places == ["all.parquet"] * 5
    assert "conv" in [place["name"] for place in results[0]["locations"][0]["logicalLocations"]]
    assert len({r["partialFingerprints"]["side/v1"] for r in results}) == len(results)


def test_a_table_as_annotations(table, capsys):
    assert main(["report", table, "--as", "github"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ", 1)[0] for line in lines] == ["::error", "::warning", "::error", "::error"]
    assert lines[0].startswith("::error file=all.parquet,title=samebits%3A a.onnx::two: downgrade (tf32)%0A")


def test_findings_of_several_kinds_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(KERNELS)
    sides = [f"./own.py:{name}" for name in ("right", "backwards", "broken")]
    on = [part for side in sides for part in ("--on", side)]
    assert main(["compare", "linear x=8x64 w=16x64", *on, "--quick", "--json"]) == 1
    (tmp_path / "one.json").write_text(capsys.readouterr().out)
    assert main(["compare", "linear x=2x3 w=2x3", "--on", "truth", "--json"]) == 0
    (tmp_path / "two.json").write_text(capsys.readouterr().out)
    assert main(["report", "one.json", "two.json", "--as", "junit", "-o", "both.xml"]) == 0
    found = read_junit("both.xml")
    assert [found["linear x=8x64 w=16x64 dtype=float32", side] for side in sides] == [None, "failure", "error"]
    assert found["linear x=2x3 w=2x3 dtype=float32", "truth"] is None
    assert "no &amp; &lt;kernel&gt;" in (tmp_path / "both.xml").read_text()


def make_finding(text, **more):
    side = {"name": text, "engine": text, "verdict": "wrong", "where": text, "version": text, "says": text}
    return {
        "schema": "samebits.comparison/1", "problem": "linear x=2x3 w=2x3 dtype=float32", "outputs": 4,
        "reduction_length": 3, "verdict": "wrong", "summary": text, "data": text, "samebits_version": "1",
        "differences": [], "settled": {}, "ambiguous": 0, "sides": [side], **more,
    }  # fmt: skip


def test_several_mismatches_of_one_log_are_several_checks(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    finding = make_finding("mine", more=[make_finding("mine"), make_finding("mine")])
    (tmp_path / "log.json").write_text(json.dumps(finding))
    assert main(["report", "log.json", "--as", "sarif"]) == 0
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert len({r["partialFingerprints"]["side/v1"] for r in results}) == 3
    assert main(["report", "log.json", "--as", "junit", "-o", "log.xml"]) == 0
    assert [name for _, name in read_junit("log.xml")] == ["mine", "mine #2", "mine #3"]


def test_a_subject_that_is_a_file_is_where_it_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "case.npz").write_bytes(b"")
    (tmp_path / "f.json").write_text(json.dumps(make_finding("mine", problem="case.npz")))
    assert main(["report", "f.json", "--as", "github"]) == 0
    assert capsys.readouterr().out.startswith("::error file=case.npz,")


def test_a_table_of_recipes_passes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "recipes.parquet", [Row(subject="a", side="one", recipe="in order")])
    assert main(["report", "recipes.parquet", "--as", "junit"]) == 2
    assert "recipes.parquet holds recipes and no verdicts" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["]]><a b='\"'>", "x\n::error ::y", "a\x00\x1b[31m\ufffeb", "%0A,:", "../../../etc/passwd"]
)
def test_hostile_names_stay_text(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f.json").write_text(json.dumps(make_finding(text)))
    assert main(["report", "f.json", "--as", "junit", "-o", "f.xml"]) == 0
    ((place, outcome),) = read_junit("f.xml").items()
    assert outcome == "failure"
    assert place[1].isprintable()
    assert main(["report", "f.json", "--as", "github"]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 1
    assert "\x1b" not in out
    assert main(["report", "f.json", "--as", "sarif"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "f.json"
    assert result["message"]["text"].isprintable()


def test_what_has_no_sides_is_refused_in_a_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "--json"]) == 0
    (tmp_path / "p.json").write_text(capsys.readouterr().out)
    for more, says in (
        (["p.json", "--as", "junit"], "p.json: schema 'samebits.inventory/1' is none that report knows"),
        (["p.json", "p.json"], "a page is of one finding"),
        (["p.json", "--as", "junit", "--markdown"], "give one"),
        (["missing.parquet", "--as", "sarif"], "missing.parquet could not be read"),
        (["missing.json", "--as", "sarif"], "missing.json"),
    ):
        assert main(["report", *more]) == 2
        said = capsys.readouterr().err
        assert says in said
        assert said.count(os.linesep) == 1


def name_outcomes(finding, tmp_path):
    (tmp_path / "f.json").write_text(finding)
    assert main(["report", "f.json", "--as", "junit", "-o", "f.xml"]) == 0
    return list(read_junit("f.xml").values())


def test_findings_without_sides_are_a_check_each(tmp_path, monkeypatch, capsys):
    """By construction: a kernel that is right, one that is not; and one that adds otherwise above four rows."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(
        KERNELS
        + """
def split(problem, operands):
    x, w = operands["x"], operands["w"]
    half = x.shape[1] // 2
    return x @ w.T if len(x) < 4 else x[:, :half] @ w[:, :half].T + x[:, half:] @ w[:, half:].T
"""
    )
    problem, on = "linear x=4x64 w=8x64", "./own.py:"
    for name, expected in (("right", None), ("backwards", "failure")):
        assert main(["reduce", problem, "--on", on + name, "--json"]) == (expected is not None)
        assert name_outcomes(capsys.readouterr().out, tmp_path) == [expected]
    sides = [part for name in ("right", "split") for part in ("--on", on + name)]
    assert main(["sweep", "linear x={3,4,5}x64 w=8x64", *sides, "--json"]) == 1
    outcomes = name_outcomes(capsys.readouterr().out, tmp_path)
    assert outcomes[1] == "failure"
    assert len(outcomes) == 2
    (tmp_path / "s.json").write_text((tmp_path / "f.json").read_text())
    assert main(["report", "s.json", "--as", "sarif"]) == 0
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert "the bits of an output depend on the number of rows" in results[-1]["message"]["text"]


def test_a_deviating_file_is_where_its_deviation_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("first.onnx", "second.onnx"):
        (tmp_path / name).write_bytes(b"")
    side = {"engine": "onnxruntime", "verdict": "rounding"}
    finding = {
        "schema": "samebits.model/1", "model": "first.onnx", "verdict": "wrong", "summary": "weights differ.",
        "units": [], "taps": {"changed_bits": False, "left_out": []}, "outputs": [], "data": "",
        "samebits_version": "1",
        "sides": [
            {"name": "a", **side}, {"name": "b", **side, "verdict": "wrong", "cause": "harness", "file": "second.onnx"},
        ],
    }  # fmt: skip
    (tmp_path / "f.json").write_text(json.dumps(finding))
    assert main(["report", "f.json", "--as", "sarif"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "second.onnx"
    assert result["message"]["text"].endswith(". weights differ.")


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict_has_an_outcome(verdict, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "t.parquet", [Row(subject="s", side="e", verdict=verdict)])
    assert main(["report", "t.parquet", "--as", "junit", "-o", "t.xml"]) == 0
    assert read_junit("t.xml")["s", "e"] == (None if verdict in ("identical", "rounding") else "failure")


def test_the_name_of_a_file_says_its_format(table, capsys):
    for name, begins in (("a.xml", "<?xml"), ("a.sarif", "{"), ("a.md", "**"), ("a.html", "<!doctype html>")):
        assert main(["report", table, "-o", name]) == 0
        with open(name, encoding="utf-8") as written:
            assert written.read().lower().startswith(begins)
    assert main(["report", table, "-o", "a.json"]) == 2
    assert "a.json would be no page" in capsys.readouterr().err
    assert not os.path.exists("a.json")


def test_a_finding_without_sides_tells_its_page_and_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels.py").write_text(KERNELS)
    assert main(["reduce", "linear x=3x8 w=4x8", "--on", "./kernels.py:backwards", "--json"]) == 1
    (tmp_path / "found.json").write_text(capsys.readouterr().out)
    assert main(["report", "found.json", "--as", "junit", "-o", "found.xml"]) == 0
    (suite,) = junitparser.JUnitXml.fromfile("found.xml")
    (case,) = suite
    (failure,) = case.result
    assert failure.message.startswith("./kernels.py:backwards is wrong on exact integers: at linear x=1x2 w=1x2")
    lines = failure.text.splitlines()
    assert any(line.startswith("The smallest problem (output, value, right is): [0, 0], ") for line in lines)
    assert lines[-1] == "again: samebits reduce 'linear x=3x8 w=4x8' --on ./kernels.py:backwards"
    assert main(["report", "found.json", "--as", "github"]) == 0
    assert "%0Aagain: samebits reduce 'linear x=3x8 w=4x8'" in capsys.readouterr().out


@pytest.mark.parametrize("is_there", [True, False])
def test_runs_that_part_are_told_at_the_line_of_the_script(tmp_path, monkeypatch, capsys, is_there):
    monkeypatch.chdir(tmp_path)
    first = FirstDifference(
        operation="aten.mm", what="aten.mm(float32[2, 2])", step=0, direction="forward", module="", line="train.py:33",
        process="train.py", kind="structure",
    )  # fmt: skip
    found = RunDiff(
        a="a.trace", b="b.trace", same=False, summary="The runs part.", first=first, settings=[], compared=1,
        differing=1, only_a=0, only_b=0, samebits_version="0",
    )  # fmt: skip
    (tmp_path / "found.json").write_bytes(msgspec.json.encode(found))
    if is_there:
        (tmp_path / "train.py").touch()
    assert main(["report", "found.json", "--as", "github"]) == 0
    place = "file=train.py,line=33," if is_there else "file=found.json,title="
    assert capsys.readouterr().out.startswith(f"::error {place}")
    assert main(["report", "found.json", "--as", "sarif"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == (33 if is_there else 1)


def test_findings_of_one_subject_have_names_of_their_own_and_sides_their_own_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    half, narrow = "emulate:direct acc=float16", "emulate:direct x=bfloat16"
    for name, engines in (("one.json", [half, narrow]), ("two.json", [half])):
        found = samebits.compare("linear x=16x64 w=24x64", engines)
        found.save(name)
    assert main(["report", "one.json", "two.json", "--as", "junit", "-o", "all.xml"]) == 0
    cases = [case for suite in junitparser.JUnitXml.fromfile("all.xml") for case in suite]
    assert len({(c.classname, c.name) for c in cases}) == len(cases) == 3
    told = {c.name: c.result[0].text for c in cases}
    assert "float16" in told[f"{half} [one.json]"]
    assert "bfloat16" not in told[f"{half} [one.json]"].partition("again:")[0]
    assert "rounds x to bfloat16" in told[narrow]
