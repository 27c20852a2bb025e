"""Lists of subjects: what they name, what their tables hold, what an interruption costs, what changed since."""

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import samebits
from samebits.cli import main
from samebits.errors import ArgumentError, FindingError, SamebitsError
from samebits.problems import parse_problem_text
from samebits.problems.catalog import catalog
from samebits.questions.list.journal import Heading, Journal, write_table
from samebits.questions.list.list_reading import names_list, read_list
from samebits.questions.list.list_running import run_list
from samebits.questions.list.row import COLUMNS, Row
from samebits.questions.list.table_changes import compare_tables, read_table

ROOT = Path(__file__).parent.parent.parent
ENGINES = ["truth", "emulate:direct acc=float16"]
LINES = """\
# what the nightly run asks
conv2d x=1x3x8x8 w=4x3x3x3   # ours
nonsense here
MIOpenDriver conv -n 1 -c 4 -H 8 -W 8 -k 6 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -F 1
--conv --dir=FWD_B,BWD_D --dt=f32
mb1ic4ih8oc6oh8kh3ph1
--dt=f16 --reset mb2ic3ih7oc5oh5kh3ph0
linear x=4x40 w=8x40
linear x=4x40 w=8x40
"""


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "list.txt"
    path.write_text(LINES)
    return path


def read_rows(path):
    return pyarrow.parquet.read_table(path).to_pylist()


def test_lines_of_several_languages_are_read(lines):
    found = read_list([str(lines)])
    assert [s.text for s in found] == [
        "conv2d x=1x3x8x8 w=4x3x3x3 dtype=float32",
        "",
        "conv2d x=1x4x8x8 w=6x4x3x3 padding=1 dtype=float32",
        "conv2d x=1x4x8x8 w=6x4x3x3 bias padding=1 dtype=float32",
        "conv2d.grad_input x=1x4x8x8 w=6x4x3x3 padding=1 dtype=float32",
        "conv2d x=2x3x7x7 w=5x3x3x3 bias dtype=float32",
        "linear x=4x40 w=8x40 dtype=float32",
        "linear x=4x40 w=8x40 dtype=float32",
    ]
    assert "nonsense" in found[1].trouble
    assert len({s.name for s in found}) == len(found)


def test_batch_files_include_others_of_their_folder_only(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.txt").write_text("linear x=4x40 w=8x40\n")
    (tmp_path / "in" / "more").write_text("mb1ic4ih8oc6oh8kh3ph1\n")
    (tmp_path / "in" / "loop").write_text("--batch=loop\nmb1ic4ih9oc6oh9kh3ph1\n")
    (tmp_path / "in" / "all").write_text("--conv\n--dir=FWD_D --batch=more\n--batch=../secret.txt\n--batch=none\n")
    found = read_list([str(tmp_path / "in" / "all")])
    assert [s.text or s.trouble for s in found] == [
        "conv2d x=1x4x8x8 w=6x4x3x3 padding=1 dtype=float32",
        "leads out of the list's folder",
        "no such file",
    ]
    assert "deep" in next(s.trouble for s in read_list([str(tmp_path / "in" / "loop")]) if s.trouble)


def test_the_catalog_and_folders_are_lists(tmp_path):
    assert [s.name for s in read_list(["catalog"])] == list(catalog())
    assert [s.name for s in read_list(["catalog:corner/one-channel*"])] == [
        name for name in catalog() if name.startswith("corner/one-channel")
    ]
    (tmp_path / "cases").mkdir()
    for name in ("b.npz", "a.onnx", "c.txt"):
        (tmp_path / "cases" / name).write_bytes(b"")
    (tmp_path / "outside.npz").write_bytes(b"")
    (tmp_path / "cases" / "link.npz").symlink_to(tmp_path / "outside.npz")
    assert [(s.name, s.kind) for s in read_list([str(tmp_path / "cases")])] == [
        ("a.onnx", "network"),
        ("b.npz", "case"),
    ]
    for refused in ("nowhere.txt", "catalog:nothing*"):
        with pytest.raises(ArgumentError):
            read_list([refused])
    assert names_list("catalog")
    assert not names_list("linear x={1..4}x8 w=3x8")


def test_rows_are_what_comparing_each_by_itself_says(lines, tmp_path):
    table = tmp_path / "t.parquet"
    found = run_list(str(lines), ENGINES, table=table)
    rows = read_rows(table)
    assert found.rows == len(rows) == 15
    assert found.deviating == sum(
        r["verdict"] in ("wrong", "downgrade", "undecided") or r["failure"] is not None for r in rows
    )
    assert [r["failure"] for r in rows if r["side"] is None] == ["unreadable"]
    for row in rows:
        if row["side"] is None:
            continue
        alone = samebits.compare(row["problem"], [row["side"]], attributes=False)
        (side,) = alone.sides
        assert (row["verdict"], row["cause"], row["certainty"]) == (side.verdict, side.cause, side.certainty)
        assert row["max_abs"] == side.error.max_abs
        assert row["exact_differing"] == side.exact_data.differing
        assert side.bits.startswith(row["bits"])
    assert not (tmp_path / "t.parquet.partial").exists()


def test_bits_are_named_equally_where_they_are_equal(tmp_path):
    (tmp_path / "l").write_text("conv1d x=1x2x9 w=3x2x3\n")
    run_list(
        str(tmp_path / "l"), ["truth", "emulate:direct", "emulate:direct acc=float64"], table=tmp_path / "t.parquet"
    )
    truth, direct, wide = (row["bits"] for row in read_rows(tmp_path / "t.parquet"))
    problem = parse_problem_text("conv1d x=1x2x9 w=3x2x3")
    operands = samebits.problems.operands.make_normal(problem, 0)
    x, w = operands["x"][0].astype(float), operands["w"].astype(float)
    products = [[(x[:, o : o + 3] * w[k]).ravel() for o in range(7)] for k in range(3)]
    sums = np.array([[[math.fsum(terms) for terms in row] for row in products]], np.float32)
    assert np.array_equal(samebits.conv1d(operands["x"], operands["w"]), sums)
    assert truth == wide
    assert truth != direct


def test_columns_are_typed_and_documented(lines, tmp_path):
    run_list(str(lines), ["truth"], table=tmp_path / "t.parquet")
    schema = pyarrow.parquet.read_schema(tmp_path / "t.parquet")
    assert schema.names == list(COLUMNS) == list(Row.__struct_fields__)
    page = (ROOT / "docs" / "lists.md").read_text()
    for name in COLUMNS:
        field = schema.field(name)
        assert field.metadata[b"description"].decode() == COLUMNS[name]
        kind = {"string": "text", "double": "float64", "int64": "int64"}[str(field.type)]
        assert f"| `{name}` | {kind} | {COLUMNS[name]} |" in page


def test_profiles_and_explanations_have_rows_too(tmp_path):
    (tmp_path / "l").write_text("conv1d x=1x8x14 w=4x8x3\n")
    run_list(str(tmp_path / "l"), ["emulate:direct order=c,kw"], table=tmp_path / "p.parquet", doing="profile")
    (row,) = read_rows(tmp_path / "p.parquet")
    assert row["recipe"].startswith("direct")
    assert row["replayed"] == 1.0
    run_list(str(ROOT / "examples" / "length7.npz"), table=tmp_path / "e.parquet", doing="explain")
    assert [r["side"] for r in read_rows(tmp_path / "e.parquet")]
    assert run_list(str(tmp_path / "l"), table=tmp_path / "n.parquet", doing="explain").deviating == 1


@pytest.mark.needs("onnxruntime")
def test_a_network_has_a_row_for_each_engine_and_each_unit(tmp_path):
    run_list(str(ROOT / "examples" / "conv_clip.onnx"), ["onnxruntime", "truth"], table=tmp_path / "n.parquet")
    rows = read_rows(tmp_path / "n.parquet")
    found = samebits.compare(ROOT / "examples" / "conv_clip.onnx", ["onnxruntime"])
    assert [r["unit"] for r in rows] == [None, *(unit.name for unit in found.units)]
    assert {r["side"] for r in rows} == {"onnxruntime"}


def start(path, table):
    words = ["sweep", str(path), "--on", "truth", "--on", "emulate:direct acc=float16", "-o", str(table), "--resume"]
    return subprocess.Popen(
        [sys.executable, "-m", "samebits", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


@pytest.mark.slow
def test_what_is_killed_goes_on_and_makes_the_same_table(tmp_path):
    rng = random.Random(0)
    sizes = [(rng.randint(1, 9), rng.randint(4, 40), rng.randint(1, 30)) for _ in range(120)]
    (tmp_path / "l").write_text("".join(f"linear x={m}x{k} w={n}x{k}\n" for m, k, n in sizes))
    run_list(str(tmp_path / "l"), ENGINES, table=tmp_path / "whole.parquet")
    table, journal = tmp_path / "killed.parquet", tmp_path / "killed.parquet.partial"
    kills = 0
    for _ in range(30):
        process = start(tmp_path / "l", table)
        before = journal.stat().st_size if journal.exists() else 0
        while process.poll() is None and (not journal.exists() or journal.stat().st_size <= before + 400):
            time.sleep(0.005)
        if process.poll() is not None:
            break
        time.sleep(rng.random() / 50)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
        kills += 1
        if kills == 5:
            # As if the machine itself had gone in the middle of a line.
            with journal.open("r+b") as file:
                file.truncate(journal.stat().st_size - 7)
            process = start(tmp_path / "l", table)
            process.communicate()
            break
    assert kills >= 2
    assert table.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert not journal.exists()


def test_a_journal_of_something_else_is_not_gone_on_with(lines, tmp_path):
    table, journal = tmp_path / "t.parquet", tmp_path / "t.parquet.partial"
    run_list(str(lines), ["truth"], table=table)
    journal.write_bytes(b"{}\n")
    with pytest.raises(ArgumentError, match="--resume goes on"):
        run_list(str(lines), ["truth"], table=table)
    with pytest.raises(ArgumentError, match="no journal"):
        run_list(str(lines), ["truth"], table=table, resume=True)
    journal.unlink()
    Journal(table, Heading("samebits.rows/1", "x", ["truth"], {}), resumes=False).close()
    with pytest.raises(ArgumentError, match="other subjects"):
        run_list(str(lines), ["truth"], table=table, resume=True)
    with pytest.raises(SamebitsError, match="unknown engine"):
        run_list(str(lines), ["torhc"], table=tmp_path / "u.parquet")
    assert not (tmp_path / "u.parquet.partial").exists()
    with pytest.raises(ArgumentError, match="could not be written"):
        run_list(str(lines), ["truth"], table=tmp_path / "no" / "where.parquet")


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_line_of_a_journal_is_named_and_its_subject_asked_again(seed, lines, tmp_path):
    """Whatever bit of a journal is not as it was written, the table is what it would have been."""
    table, heading = tmp_path / "t.parquet", Heading("samebits.rows/1", "x", ["truth"], {})
    rows = {i: [Row(subject=f"s{i}", side="truth", verdict="identical", max_abs=0.25 * i)] for i in range(8)}
    journal = Journal(table, heading, resumes=False)
    for number, own in rows.items():
        journal.add(number, own)
    journal.close()
    data = bytearray(journal.path.read_bytes())
    rng = random.Random(seed)
    first = data.index(b"\n") + 1
    data[rng.randrange(first, len(data) - 1)] ^= 1 << rng.randrange(8)
    journal.path.write_bytes(data)
    again = Journal(table, heading, resumes=True)
    again.close()
    lost = {n for n in rows if n not in again.rows}
    # A flip that makes, or takes, the end of a line touches two.
    assert 1 <= len(lost) <= 2
    assert len(again.damaged) in (1, 2)
    assert again.rows == {n: own for n, own in rows.items() if n not in lost}


def test_a_resumed_list_says_which_lines_of_its_journal_are_damaged(lines, tmp_path, monkeypatch):
    table, said = tmp_path / "t.parquet", []
    run_list(str(lines), ["truth"], table=tmp_path / "whole.parquet")
    with monkeypatch.context() as stopped:
        stopped.setattr(Journal, "remove", lambda self: None)
        run_list(str(lines), ["truth"], table=table)
    table.unlink()
    journal = tmp_path / "t.parquet.partial"
    parts = journal.read_bytes().split(b"\n")
    parts[1] = parts[1].replace(b"identical", b"rounding!", 1)
    journal.write_bytes(b"\n".join(parts))
    run_list(str(lines), ["truth"], table=table, resume=True, progress=lambda what, _: said.append(what))
    assert "line 2 of t.parquet.partial is damaged; its subject is asked again" in said
    assert table.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_known_deviations_are_marked_and_those_not_seen_are_named(lines, tmp_path):
    known = tmp_path / "known.toml"
    entry = '[[deviation]]\nengine = "{}"\nproblems = ["{}"]\nverdict = "{}"\nreason = "{}"\nlink = "https://a.b"\n'
    engine = "emulate:direct acc=float16"
    known.write_text(
        entry.format("emulate:*", "*", "undecided", "narrow sums")
        + entry.format("*", "nonsense*", "unreadable", "no side, so none")
        + entry.format("truth", "*", "wrong", "never")
    )
    found = run_list(str(lines), [engine], table=tmp_path / "t.parquet", known=known)
    rows = read_rows(tmp_path / "t.parquet")
    assert [r["known"] for r in rows] == ["https://a.b" if r["verdict"] == "undecided" else None for r in rows]
    assert found.deviating == 1
    assert [text.partition(": ")[2] for text in found.unmatched] == ["no side, so none", "never"]
    known.write_text("[[deviation]]\nengine = 3\n")
    with pytest.raises(ArgumentError, match="no file of known deviations"):
        run_list(str(lines), [engine], table=tmp_path / "u.parquet", known=known)


def make_rows(count, seed):
    rng = random.Random(seed)
    return [
        Row(
            subject=f"problem {i}",
            side=rng.choice(["a", "b:x=1"]),
            unit=rng.choice([None, "conv1"]),
            version="1.0",
            verdict=rng.choice(["identical", "rounding", "rounding", "wrong", None]),
            failure=rng.choice([None, "crash"]),
            recipe=rng.choice([None, "direct"]),
            bits=f"{rng.getrandbits(64):016x}",
        )
        for i in range(count)
    ]


def test_changes_are_those_that_a_loop_over_the_rows_finds(tmp_path):
    rng = random.Random(1)
    before = make_rows(500, 0)
    changes = [{}, {}, {"verdict": "wrong"}, {"bits": "0"}, {"version": "2.0"}, {"recipe": "fft"}]
    after = [msgspec.structs.replace(row, **rng.choice(changes)) for row in before if rng.random() > 0.05]
    after.append(Row(subject="new", side="a", verdict="identical"))
    rng.shuffle(after)
    write_table(tmp_path / "a.parquet", before)
    write_table(tmp_path / "b.parquet", after)
    found = compare_tables(tmp_path / "a.parquet", tmp_path / "b.parquet")
    ours = {(r.subject, r.unit, r.side): r for r in before}
    theirs = {(r.subject, r.unit, r.side): r for r in after}
    both = ours.keys() & theirs.keys()
    for name, count in found.counts.items():
        assert count == sum(getattr(ours[key], name) != getattr(theirs[key], name) for key in both)
    assert (found.lost, found.added) == (len(ours.keys() - both), 1)
    assert not found.same
    for row in found.first:
        key = (row.subject, row.unit, row.side)
        assert row.before == [getattr(ours[key], name) for name in row.what]
        assert row.after == [getattr(theirs[key], name) for name in row.what]
    assert compare_tables(tmp_path / "a.parquet", tmp_path / "a.parquet").same


def test_another_version_with_the_same_bits_is_no_change(tmp_path):
    row = Row(subject="p", side="a", version="1", verdict="identical", bits="00")
    write_table(tmp_path / "a.parquet", [row])
    write_table(tmp_path / "b.parquet", [Row(subject="p", side="a", version="2", verdict="identical", bits="00")])
    found = compare_tables(tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert found.same
    assert found.counts["version"] == 1


def test_tables_are_filtered(tmp_path):
    rows = make_rows(300, 3)
    write_table(tmp_path / "a.parquet", rows)
    found = read_table(tmp_path / "a.parquet", "side = 'a' and verdict = 'wrong'")
    expected = [r for r in rows if r.side == "a" and r.verdict == "wrong"]
    assert (found.rows, found.deviating) == (len(expected), len(expected))
    for bad in ("verdict =", "no_such_column = 1", "1; drop table x"):
        with pytest.raises(ArgumentError, match="--where"):
            read_table(tmp_path / "a.parquet", bad)
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "y.parquet")
    for name in ("x", "y", "z"):
        with pytest.raises(FindingError) as error:
            read_table(tmp_path / f"{name}.parquet")
        assert "\n" not in str(error.value)


def test_commands_and_their_exit_status(lines, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = ["sweep", "catalog:corner/one-channel*", "--on", "truth", "-o"]
    assert main([*good, "a.parquet"]) == 0
    assert main([*good, "b.parquet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out.split("took")[-1].partition("\n")[2])
    assert found["schema"] == "samebits.list/1"
    assert Path("a.parquet").read_bytes() == Path("b.parquet").read_bytes()
    assert main(["sweep", str(lines), "--on", "truth", "-o", "c.parquet"]) == 1
    assert main(["diff", "a.parquet", "b.parquet"]) == 0
    assert main(["diff", "a.parquet", "c.parquet", "--json"]) == 1
    assert main(["sweep", "a.parquet", "--where", "side = 'truth'"]) == 0
    capsys.readouterr()
    for refused in (
        ["sweep", "catalog"],
        ["sweep", "a.parquet", "--on", "truth"],
        ["sweep", "catalog", "--where", "true", "-o", "x.parquet"],
        ["sweep", "linear x={1..4}x8 w=3x8", "--on", "truth", "-o", "x.parquet"],
        ["sweep", "nowhere.txt", "--on", "truth", "-o", "x.parquet"],
        ["diff", "a.parquet", "none.parquet"],
    ):
        assert main(refused) == 2
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1, said
        assert re.match(r"samebits: ", said)
    assert sorted(os.listdir(tmp_path)) == ["a.parquet", "b.parquet", "c.parquet", "list.txt"]


@pytest.mark.slow
def test_recipes_of_a_list_are_those_of_profiles(tmp_path):
    (tmp_path / "l").write_text("conv1d x=1x2x9 w=3x2x3 bias\nconv1d x=1x2x9 w=3x2x3 dtype=float64\n")
    engine = "emulate:direct product=fused order=c,kw"
    run_list(str(tmp_path / "l"), ["truth", engine], table=tmp_path / "t.parquet", doing="recipe")
    rows = read_rows(tmp_path / "t.parquet")
    assert [row["side"] for row in rows] == ["truth", engine] * 2
    for row in rows:
        alone = samebits.profile(row["side"], row["problem"], recipe_only=True)
        assert (row["recipe"], row["calls"]) == (alone.recipe, alone.calls)
        assert alone.invariant_to.batch_size is None
        whole = alone.replay is not None and alone.replay.matched == 1.0
        assert (row["says"] is None) == (whole and row["failure"] is None)
