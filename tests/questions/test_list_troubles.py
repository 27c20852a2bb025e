"""What may go wrong around a list: crashes, files that change, hostile conditions and names, two sweeps at once."""

import fcntl
import os
import time

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from samebits.cli import main
from samebits.engines.runner import Identity
from samebits.errors import ArgumentError, EngineCrashed, FindingError, ResourceLimitError
from samebits.problems import parse_problem_text
from samebits.problems.case_file import save_case
from samebits.problems.operands import make_normal
from samebits.questions.list import list_reading, list_running, subject_running
from samebits.questions.list.journal import write_table
from samebits.questions.list.list_reading import read_list
from samebits.questions.list.list_running import run_list
from samebits.questions.list.row import COLUMNS, Row
from samebits.questions.list.table_changes import compare_tables, read_table
from samebits.sums.truth import compute_truth


def read_rows(path):
    return pyarrow.parquet.ParquetFile(path).read().to_pylist()


class FallingOnce:
    """A process that is gone after its first question, for good; another one answers."""

    opened = 0

    def __init__(self, text, **_):
        self.text, self.is_gone = text, False
        FallingOnce.opened += 1
        self.falls = FallingOnce.opened == 1

    def identify(self):
        return Identity(self.text, "falling", "1", "CPU")

    def run(self, problem, operands):
        self.is_gone |= self.falls
        if self.is_gone:
            raise EngineCrashed("signal 9")
        return compute_truth(problem, operands).values

    def close(self):
        return


@pytest.mark.slow
@pytest.mark.parametrize("doing", ["compare", "profile"])
def test_a_crash_costs_one_subject(doing, tmp_path, monkeypatch):
    FallingOnce.opened = 0
    monkeypatch.setattr(subject_running, "open_runner", FallingOnce)
    (tmp_path / "l").write_text("linear x=2x3 w=2x3\nlinear x=2x4 w=2x4\nlinear x=2x5 w=2x5\n")
    run_list(str(tmp_path / "l"), ["truth"], table=tmp_path / "t.parquet", doing=doing)
    failures = [row["failure"] for row in read_rows(tmp_path / "t.parquet")]
    assert failures == ["crash", None, None]


def test_a_case_that_changed_is_another_list(tmp_path, monkeypatch):
    problem = parse_problem_text("linear x=2x3 w=2x3")
    (tmp_path / "cases").mkdir()
    for name in ("a", "b"):
        save_case(tmp_path / "cases" / f"{name}.npz", problem, make_normal(problem, 0), {})
    asked = []

    def interrupt(self, subject):
        asked.append(subject)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return [Row(subject=subject.name)]

    monkeypatch.setattr(list_running.SubjectRunner, "ask", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_list(str(tmp_path / "cases"), ["truth"], table=tmp_path / "t.parquet")
    save_case(tmp_path / "cases" / "b.npz", problem, make_normal(problem, 1), {})
    with pytest.raises(ArgumentError, match="other subjects"):
        run_list(str(tmp_path / "cases"), ["truth"], table=tmp_path / "t.parquet", resume=True)


@pytest.mark.parametrize(
    "where",
    [
        "true) group by all; copy (select 42) to 'out.csv'; select (1",
        "subject in (select content from read_text('secret.txt'))",
        "side in (select side from read_parquet('a.parquet'))",
        "true) --",
    ],
)
def test_conditions_read_and_write_nothing_else(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text("the secret")
    write_table(tmp_path / "a.parquet", [Row(subject="a", side="b", verdict="wrong")])
    with pytest.raises(ArgumentError) as error:
        read_table("a.parquet", where)
    assert "the secret" not in str(error.value)
    assert sorted(os.listdir(tmp_path)) == ["a.parquet", "secret.txt"]


def test_names_of_tables_are_no_patterns(tmp_path):
    folder = tmp_path / "side=evil"
    folder.mkdir()
    write_table(tmp_path / "a1.parquet", [Row(subject="other")])
    for path in (tmp_path / "a[1].parquet", folder / "it's.parquet"):
        write_table(path, [Row(subject=str(i), side="good") for i in range(3)])
        assert [(c.side, c.count) for c in read_table(path).counts] == [("good", 3)]


def test_columns_of_other_types_are_refused(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({name: [1] for name in COLUMNS}), tmp_path / "a.parquet")
    with pytest.raises(FindingError, match="of its type"):
        compare_tables(tmp_path / "a.parquet", tmp_path / "a.parquet")


def test_targets_that_cannot_be_are_refused_before_anything_runs(tmp_path, capsys):
    (tmp_path / "l.parquet").write_text("linear x=2x3 w=2x3\n")
    (tmp_path / "d.parquet").mkdir()
    for target in ("l.parquet", "d.parquet", "t.txt", "no/t.parquet"):
        with pytest.raises(ArgumentError):
            run_list(str(tmp_path / "l.parquet"), ["truth"], table=tmp_path / target)
    for target in ("/", "."):
        assert main(["sweep", "catalog:corner/one-*", "--on", "truth", "-o", target]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert (tmp_path / "l.parquet").read_text() == "linear x=2x3 w=2x3\n"
    assert sorted(os.listdir(tmp_path)) == ["d.parquet", "l.parquet"]


def test_file_names_that_are_no_text_are_written_as_such(tmp_path):
    problem = parse_problem_text("linear x=2x3 w=2x3")
    folder = tmp_path / "cases"
    folder.mkdir()
    save_case(folder / "a.npz", problem, make_normal(problem, 0), {})
    os.rename(os.fsencode(folder / "a.npz"), os.fsencode(folder) + b"/a\xff.npz")
    with open(os.fsencode(folder) + b"/b\xff.npz", "wb") as file:
        file.write(b"nothing")
    run_list(str(folder), ["truth"], table=tmp_path / "t.parquet")
    rows = read_rows(tmp_path / "t.parquet")
    assert [row["subject"].encode() for row in rows] == [b"a\\udcff.npz", b"b\\udcff.npz"]
    assert [row["failure"] for row in rows] == [None, "unreadable"]


def test_two_sweeps_do_not_write_one_journal(tmp_path):
    (tmp_path / "l").write_text("linear x=2x3 w=2x3\n")
    journal = tmp_path / "t.parquet.partial"
    with journal.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ArgumentError, match="another sweep"):
            run_list(str(tmp_path / "l"), ["truth"], table=tmp_path / "t.parquet", resume=True)


def test_many_equal_lines_are_read_in_time_that_grows_with_them(tmp_path):
    def take(count):
        (tmp_path / "l").write_text("linear x=2x3 w=2x3\n" * count)
        started = time.perf_counter()
        assert len({s.name for s in read_list([str(tmp_path / "l")])}) == count
        return time.perf_counter() - started

    take(100)
    # Sixteen times as many: 256 times as long if each looked at all before it.
    assert take(8000) < 80 * max(take(500), np.finfo(float).tiny)


def write_including_lists(folder, files, lines):
    """Lists of which each includes all of them, several deep: counting is all that can end them."""
    for i in range(files):
        (folder / f"{i}.txt").write_text("".join(f"--batch={n % files}.txt\n" for n in range(lines)))
    return str(folder / "0.txt")


def test_lists_that_include_each_other_without_end_are_counted_not_read(tmp_path):
    """100 lines in each of 4 files, 8 deep: 10^16 inclusions, not one subject."""
    started = time.perf_counter()
    with pytest.raises(ResourceLimitError, match=r"included files; the limit is 1,000 \(SAMEBITS_MOST_INCLUDED_FILES"):
        read_list([write_including_lists(tmp_path, 4, 100)])
    assert time.perf_counter() - started < 20


def test_options_of_one_line_that_multiply_are_counted_before_they_are_made(tmp_path, monkeypatch):
    values = ",".join(["FWD_B", "BWD_D"] * 500)
    (tmp_path / "l").write_text(f"--conv --dir={values} --dt={','.join(['f32'] * 1000)}\nmb1ic4ih8oc6oh8kh3ph1\n")
    with pytest.raises(ResourceLimitError, match="1,000,000 subjects; the limit is 100,000"):
        read_list([str(tmp_path / "l")])
    (tmp_path / "m").write_text("--conv --dir=FWD_B,BWD_D --dt=f32,f16\nmb1ic4ih8oc6oh8kh3ph1\n")
    assert len(read_list([str(tmp_path / "m")])) == 4
    monkeypatch.setenv("SAMEBITS_MOST_SUBJECTS", "3")
    with pytest.raises(ResourceLimitError, match="4 subjects; the limit is 3"):
        read_list([str(tmp_path / "m")])
    monkeypatch.setenv("SAMEBITS_MOST_SUBJECTS", "three")
    with pytest.raises(ArgumentError, match="SAMEBITS_MOST_SUBJECTS must be a whole number above 0, not 'three'"):
        read_list([str(tmp_path / "m")])


def test_included_files_are_read_up_to_a_size_all_together(tmp_path, monkeypatch):
    monkeypatch.setattr(list_reading, "_LARGEST_FILE", 1000)
    (tmp_path / "part").write_text("#" + "x" * 300 + "\n")
    (tmp_path / "l").write_text("--batch=part\n" * 3)
    with pytest.raises(ArgumentError, match="nothing to ask about"):
        read_list([str(tmp_path / "l")])
    (tmp_path / "l").write_text("--batch=part\n" * 4)
    with pytest.raises(ArgumentError, match="at most 42 are read"):
        read_list([str(tmp_path / "l")])


@pytest.mark.parametrize("name", ["p.npz", "p.onnx", "p.txt"])
def test_a_named_pipe_is_no_subject_and_nobody_waits_for_it(name, tmp_path, capfd):
    os.mkfifo(tmp_path / name)
    (tmp_path / "l").write_text("linear x=2x3 w=2x3\n")
    # In a folder it is left out, named it is refused or a row of its own; known deviations and tables are files, too.
    status = main(["sweep", str(tmp_path / name), "--on", "truth", "-o", str(tmp_path / "t.parquet")])
    captured = capfd.readouterr()
    assert ("regular file" in captured.out + captured.err) == (name != "p.onnx")  # No engine here runs networks.
    assert status in (1, 2)
    known = ["sweep", str(tmp_path / "l"), "--on", "truth", "-o", str(tmp_path / "u.parquet"), "--known"]
    assert main([*known, str(tmp_path / name)]) == 2
    assert "regular file" in capfd.readouterr().err
