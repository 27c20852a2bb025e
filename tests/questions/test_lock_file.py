"""One process at a time works on a lock file, and no half of one is ever seen."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import samebits
from samebits.cli.app import main
from samebits.engines.registry import known_engines
from samebits.errors import ArgumentError
from samebits.findings import finding_from_json
from samebits.progress import ignore_progress
from samebits.questions.pick.lock_file import open_lock
from samebits.questions.pick.pick_command import read_size
from samebits.questions.pick.pick_schema import Lock

PROBLEM = "conv1d x=1x2x9 w=3x2x3 dtype=float32"
PRODUCT = "matmul x=2x3 w=3x4 dtype=float32"
MANY = [f"conv1d x=1x2x{n} w=3x2x3 dtype=float32" for n in range(9, 15)]
PICKS = """
import sys, samebits
samebits.pick({problems!r}, ["truth", "emulate:direct"], lock={lock!r}, again=True)
"""


def start(lock, problems):
    return subprocess.Popen([sys.executable, "-c", PICKS.format(problems=problems, lock=str(lock))])


def read(lock):
    return {kept.choice.problem: kept.choice.engine for kept in finding_from_json(lock.read_text(), Lock).choices}


def test_processes_that_pick_at_once_lose_nothing_of_each_other(tmp_path):
    lock = tmp_path / "samebits.lock"
    processes = [start(lock, [text]) for text in MANY[:4]]
    assert [process.wait(timeout=120) for process in processes] == [0] * 4
    assert set(read(lock)) == set(MANY[:4])
    assert os.listdir(tmp_path) == ["samebits.lock"]


def test_whoever_is_killed_leaves_a_whole_file_or_none_and_keeps_nobody_out(tmp_path):
    lock = tmp_path / "samebits.lock"
    known = set()
    for moment in (0.05, 0.2, 0.4, 0.6, None):
        process = start(lock, MANY)
        # What comes after the first choice is the time in which the file is written.
        while not lock.exists() and process.poll() is None:
            time.sleep(0.01)
        if moment is not None:
            time.sleep(moment)
            process.send_signal(signal.SIGKILL)
        process.wait(timeout=120)
        found = set(read(lock))
        assert known <= found
        known = found
    assert known == set(MANY)
    assert os.listdir(tmp_path) == ["samebits.lock"]


def test_the_second_waits_and_says_so(tmp_path):
    with open_lock(tmp_path / "samebits.lock", ignore_progress):
        process = subprocess.Popen(
            [sys.executable, "-m", "samebits", "pick", PROBLEM, "--on", "truth", "-o", str(tmp_path / "samebits.lock")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        # It goes on for as long as nobody says it; were it never said, its error stream would end with the process.
        assert any("waiting: another process" in line for line in process.stderr)
        assert process.poll() is None
        assert not (tmp_path / "samebits.lock").exists()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "PICKED" in out
    assert read(tmp_path / "samebits.lock") == {PROBLEM: "truth"}


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path, capsys):
    folder = tmp_path / "full"
    folder.mkdir()
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from samebits.cli.app import main\n"
        f"sys.exit(main(['pick', {PROBLEM!r}, '--on', 'truth', '-o', {str(folder / 'samebits.lock')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "samebits.lock: cannot be written (File too large)" in done.stderr
    assert not os.listdir(folder)


@pytest.mark.slow
def test_the_command_says_what_it_picked_and_takes_it_from_the_lock_afterwards(tmp_path, capsys):
    lock = str(tmp_path / "samebits.lock")
    given = ["pick", *PROBLEM.split(), "--on", "emulate:direct", "--on", "truth", "-o", lock]
    assert main(given) == 0
    out = capsys.readouterr().out
    assert "PICKED" in out
    assert "contract" in out
    assert main([*given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "samebits.pick/1"
    assert found["choices"][0]["picked_by"] == "lock"
    assert found["contract"] == {
        "max_ulp": None, "within": "bound", "deterministic": True, "batch_invariant": False, "workspace": None,
    }  # fmt: skip


def test_where_nothing_keeps_the_contract_the_status_is_one(tmp_path, capsys):
    lock = tmp_path / "samebits.lock"
    given = ["pick", PROBLEM, "--on", "emulate:direct acc=float16", "-o", str(lock)]
    assert main(given) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "NONE" in said
    assert "low-precision-accumulator" in said
    assert not lock.exists()


@pytest.mark.parametrize(
    "options", [["--workspace", "much"], ["--max-ulp", "-1"], ["--within", "reach"], ["-o", "."], ["--on", "torhc"]]
)
def test_what_cannot_be_meant_is_one_line(options, capsys):
    assert main(["pick", PROBLEM, "--on", "truth", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "size"), [("64MiB", 2**26), ("100000", 100_000), ("1.5 GB", 1_500_000_000), ("0", 0), (None, None)]
)
def test_sizes_of_memory(text, size):
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1e3", "64 furlongs", "MiB", "9" * 40])
def test_sizes_that_are_none(text):
    with pytest.raises(ArgumentError, match="--workspace takes a size"):
        read_size(text)


@pytest.mark.slow
def test_links_are_followed_to_the_file_and_never_written_through(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "precious").write_text("keep me")
    (tmp_path / "link.lock").symlink_to("real/samebits.lock")
    # What would be the name of a file in the making.
    (tmp_path / "real" / ".samebits.lock.new").symlink_to(tmp_path / "precious")
    assert main(["pick", PROBLEM, "--on", "truth", "-o", str(tmp_path / "link.lock")]) == 0
    assert (tmp_path / "link.lock").is_symlink()
    assert read(tmp_path / "real" / "samebits.lock") == {PROBLEM: "truth"}
    assert (tmp_path / "precious").read_text() == "keep me"
    assert os.listdir(tmp_path / "real") == ["samebits.lock"]


def test_what_is_no_file_or_cannot_be_one_is_told_before_any_work(tmp_path, capsys):
    os.mkfifo(tmp_path / "fifo")
    for path, says in ((tmp_path / "fifo", "no regular file"), (tmp_path / ("n" * 252), "cannot be written")):
        assert main(["pick", PROBLEM, "--on", "truth", "-o", str(path)]) == 2
        captured = capsys.readouterr()
        assert says in captured.err.splitlines()[-1]
        assert "computing" not in captured.err
        assert captured.out == ""


@pytest.fixture
def trap(tmp_path):
    """A program that leaves a trace of having been run."""
    program = tmp_path / "trap.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    return program


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "numpy:python={trap}",
        "numpy:env.LD_PRELOAD={trap}",
        "numpy:threads=1,ssh=nobody@localhost",
        "numpy:docker=image",
    ],
)
def test_a_lock_chooses_no_program(text, tmp_path, trap, capfd, monkeypatch):
    """Whoever sends a lock file chooses among engines that are here, and nothing else is started."""
    monkeypatch.setattr(known_engines, "list_installed_for", lambda problem: ["truth"])
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("ssh", "docker"):
        (tmp_path / name).symlink_to(trap)
    lock, text = tmp_path / "a.lock", text.format(trap=trap)
    assert main(["pick", PRODUCT, "--on", "truth", "-o", str(lock)]) == 0
    lock.write_text(lock.read_text().replace('"engine": "truth"', f'"engine": "{text}"'))
    before = lock.read_text()
    capfd.readouterr()
    assert main(["pick", PRODUCT, "-o", str(lock), "--json"]) == 0
    said = capfd.readouterr()
    assert not (tmp_path / "ran").exists()
    # It is shown, on both streams, and it stays where it is.
    assert text in said.err
    assert any(text in evidence["says"] for evidence in json.loads(said.out)["evidence"])
    assert lock.read_text() == before


@pytest.mark.slow
def test_an_engine_that_is_named_does_not_bring_its_program_from_the_lock(tmp_path, trap):
    """Of an engine named alone every text of it is asked for, its settings, and not its places."""
    lock = tmp_path / "a.lock"
    main(["pick", PRODUCT, "--on", "truth", "-o", str(lock)])
    lock.write_text(lock.read_text().replace('"engine": "truth"', f'"engine": "numpy:python={trap}"'))
    assert main(["pick", PRODUCT, "--on", "numpy", "-o", str(lock)]) == 0
    assert not (tmp_path / "ran").exists()


def test_the_very_text_that_a_person_names_is_taken_from_the_lock(tmp_path):
    """The control: what is named on the command line is the person's own choice."""
    lock, text = tmp_path / "a.lock", "numpy:env.OMP_NUM_THREADS=1"
    assert main(["pick", PRODUCT, "--on", text, "-o", str(lock)]) == 0
    found = samebits.pick(PRODUCT, [text], lock=lock)
    assert (found.choices[0].engine, found.choices[0].picked_by) == (text, "lock")
    assert found.evidence == []
