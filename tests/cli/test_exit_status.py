"""The exit status of every command for findings written by hand: 0 agree, 1 differ, 2 trouble."""

import errno
import io
import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest
import typer
import typer.main

from hand_made import make_side
from samebits.cli import app as cli
from samebits.cli import main
from samebits.display import endings
from samebits.display.streams import discard
from samebits.errors import ArgumentError
from samebits.findings import Comparison, Failure, Replay, finding_from_json
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.questions.doctor.inventory_schema import Inventory
from samebits.questions.profile.profile_schema import Profile

TEXT = "conv1d x=1x1x4 w=1x1x1"
TRUE, ROUNDED = make_side("a", "identical", 0.0), make_side("b", "rounding", 0.5)
WRONG, OPEN = make_side("w", "wrong", 9.0), make_side("u", "undecided", 9.0)
LOST = make_side("l", "downgrade", 9.0)
CRASHED = make_side("x", "undecided", failure=Failure("crash", "ended by SIGKILL"))
SLOW = make_side("y", "undecided", failure=Failure("timeout", "no answer"))
UNSUPPORTED = make_side("z", "undecided", failure=Failure("unsupported", "no 3-D here"))


def compared(verdict, *sides, more=()):
    return Comparison(
        problem=TEXT, verdict=verdict, summary="said.", data="recorded", outputs=4, reduction_length=1, settled={},
        sides=list(sides), differences=[], more=list(more), samebits_version="1",
    )  # fmt: skip


def profiled(**more):
    return Profile(
        problem=TEXT, engine="torch", summary="No  recipe.", calls=1, time_s=1.0, samebits_version="1", **more
    )


def read_back(out, kind):
    """The finding of a command's --json, without when, where and how it was made."""
    found = finding_from_json(out, kind)
    assert found.made.command.startswith("samebits ")
    assert "--json" not in found.made.command
    return msgspec.structs.replace(found, made=None)


@pytest.fixture
def answer(monkeypatch, capsys):
    """Runs a command whose library call returns, or raises, what is given: status, output, errors, its arguments."""

    def run(command, found, *arguments):
        asked = []

        def library(*given, **named):
            asked.append((given, named))
            if isinstance(found, BaseException):
                raise found
            return found

        where = {
            "compare": "questions.compare.comparing.compare",
            "explain": "questions.explain.explaining.explain",
            "profile": "questions.profile.profiling.profile",
        }
        where["doctor"] = "questions.doctor.inventory.take_inventory"
        monkeypatch.setattr(f"samebits.{where[command]}", library)
        status = main([command, *arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err, asked

    return run


@pytest.mark.parametrize(
    ("verdict", "sides", "status", "complaints"),
    [
        ("identical", [TRUE], 0, ""),
        ("rounding", [TRUE, ROUNDED], 0, ""),
        ("downgrade", [TRUE, LOST], 1, ""),
        ("wrong", [TRUE, WRONG], 1, ""),
        ("undecided", [OPEN], 1, ""),
        ("identical", [TRUE, CRASHED], 2, "samebits: x crash: ended by SIGKILL\n"),
        (
            "identical",
            [CRASHED, TRUE, SLOW],
            2,
            "samebits: x crash: ended by SIGKILL\nsamebits: y timeout: no answer\n",
        ),
        ("wrong", [WRONG, CRASHED], 1, "samebits: x crash: ended by SIGKILL\n"),
        ("undecided", [CRASHED], 2, "samebits: x crash: ended by SIGKILL\n"),
        ("identical", [TRUE, UNSUPPORTED], 0, ""),
        ("undecided", [UNSUPPORTED], 2, "samebits: no engine takes this problem: z: no 3-D here\n"),
        ("wrong", [WRONG, UNSUPPORTED], 1, ""),
    ],
)
def test_a_comparison_exits_with_what_its_sides_came_to(answer, verdict, sides, status, complaints):
    given, out, err, _ = answer("compare", compared(verdict, *sides), TEXT, "--json", "--on", "truth")
    assert given == status
    assert err == complaints
    assert read_back(out, Comparison) == compared(verdict, *sides)


@pytest.mark.parametrize(
    ("verdict", "others", "status"),
    [
        ("identical", [], 0),
        ("rounding", [], 0),
        ("downgrade", [], 1),
        ("undecided", [], 1),
        ("wrong", [], 1),
        ("identical", ["rounding"], 0),
        ("identical", ["rounding", "wrong"], 1),
        ("wrong", ["identical"], 1),
    ],
)
def test_an_explanation_exits_with_0_only_if_every_mismatch_is_rounding(answer, verdict, others, status):
    found = compared(verdict, TRUE, more=[compared(other, TRUE) for other in others])
    given, out, err, asked = answer("explain", found, "some.log", "--json")
    assert (given, err) == (status, "")
    assert read_back(out, Comparison) == found
    assert asked[0][0] == ("some.log",)


@pytest.mark.parametrize(
    ("more", "status", "complaint"),
    [
        ({"replay": Replay(1.0, 8)}, 0, ""),
        ({"replay": Replay(0.875, 8)}, 1, ""),
        ({}, 1, ""),
        ({"replay": Replay(1.0, 8), "failure": "it crashed\nlate"}, 2, "samebits: torch: it crashed late\n"),
    ],
)
def test_a_profile_exits_with_0_only_if_all_bits_were_replayed(answer, more, status, complaint):
    given, out, err, asked = answer("profile", profiled(**more), "torch", *TEXT.split(), "--json")
    assert (given, err) == (status, complaint)
    assert read_back(out, Profile) == profiled(**more)
    assert asked[0][0] == ("torch", TEXT)
    assert asked[0][1]["time_limit_s"] == 300


def test_a_profile_may_be_given_more_time(answer):
    asked = answer("profile", profiled(replay=Replay(1.0, 8)), "torch", *TEXT.split(), "--most-time", "600")[3]
    assert asked[0][1]["most_time_s"] == 600


def test_without_json_the_finding_is_shown(answer, monkeypatch):
    shown = []

    def show(found, verbose):
        shown.append((found, verbose))

    monkeypatch.setattr("samebits.questions.explain.explanation_report.show_explanation", show)
    found = compared("identical", TRUE)
    assert answer("explain", found, "x.log")[:3] == (0, "", "")
    assert answer("explain", found, "x.log", "-v")[:3] == (0, "", "")
    assert shown == [(found, False), (found, True)]


def test_doctor_always_exits_with_0(answer):
    found = Inventory(
        samebits_version="1", python="3", platform="Linux", processor="p", features=[], cores=2, memory_gib=1.0,
        packages={}, engines=[], variables=[],
    )  # fmt: skip
    assert answer("doctor", found, "--json")[::2] == (0, "")


def test_the_options_of_compare_reach_the_library(answer):
    found = compared("identical", TRUE)
    options = (
        "--on",
        "truth",
        "--on",
        "jax",
        "--data",
        "exact",
        "--seed",
        "7",
        "--time-limit",
        "2.5",
        "--no-attribute",
        "--fix",
    )
    _, _, _, ((given, named),) = answer("compare", found, *TEXT.split(), *options, "--json")
    assert given[1] == ["truth", "jax"]
    assert str(given[0].x) == "(1, 1, 4)"
    del named["progress"]
    assert named == {"data": "exact", "seed": 7, "time_limit_s": 2.5, "attributes": False, "fix": True, "calls": None}


def test_without_engines_all_installed_ones_run_unless_results_are_recorded(answer, monkeypatch):
    monkeypatch.setattr("samebits.engines.registry.known_engines.list_installed", lambda: ["torch", "numpy", "jax"])
    found = compared("identical", TRUE)
    # NumPy multiplies and has no convolutions.
    assert answer("compare", found, "matmul x=2x3 w=3x4", "--json")[3][0][0][1] == ["torch", "numpy", "jax"]
    assert answer("compare", found, TEXT, "--json")[3][0][0][1] == ["torch", "jax"]
    for results, expected in (({"a": np.ones((1, 1, 4), np.float32)}, []), ({}, ["torch", "jax"])):
        case = Case(parse_problem_text(TEXT), {}, results)
        monkeypatch.setattr("samebits.problems.languages.any_language.read_subject", lambda text, c=case: c)
        assert answer("compare", found, "c.npz", "--json")[3][0][0][1] == expected


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (ArgumentError("seed must be\n a number"), "seed must be a number"),
        (MemoryError(), "memory ran out; make the batch or the spatial size smaller"),
        (KeyboardInterrupt(), "interrupted"),
        (typer.Abort(), "interrupted"),
        (OSError(errno.ENOSPC, "No space left on device"), "output could not be written: No space left on device"),
    ],
)
def test_what_ends_a_command_is_trouble_in_one_line(answer, raised, says, monkeypatch):
    monkeypatch.setattr(endings, "discard", lambda stream: None)
    assert answer("explain", raised, "x.log")[:3] == (2, "", f"samebits: {says}\n")


@pytest.mark.parametrize("raised", [BrokenPipeError(errno.EPIPE, "Broken pipe"), SystemExit(0)])
def test_a_reader_that_has_gone_is_trouble_in_one_line(answer, raised, monkeypatch):
    ended = []
    monkeypatch.setattr(endings, "discard", lambda stream: ended.append(stream is sys.stdout))
    said = "samebits: output could not be written: Broken pipe\n"
    assert answer("explain", raised, "x.log")[:3] == (2, "", said)
    assert ended == [True]


def test_after_its_reader_has_gone_output_goes_nowhere(monkeypatch, tmp_path):
    with (tmp_path / "out").open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        discard(stream)
        stream.write("lost")
    assert (tmp_path / "out").read_text() == ""


def test_a_complaint_is_cut_at_two_thousand_characters(answer):
    err = answer("explain", ArgumentError("x" * 3000), "x.log")[2]
    assert err == f"samebits: {'x' * 2000}\n"


def test_without_an_output_there_is_only_trouble_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["--version"]) == 2
    assert capsys.readouterr().err == "samebits: output could not be written: standard output is closed\n"


def test_what_a_terminal_cannot_show_is_replaced(monkeypatch):
    shown = io.BytesIO()
    stream = io.TextIOWrapper(shown, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr("samebits.version.VERSION", "1")
    monkeypatch.setattr(cli, "VERSION", "µ")
    assert main(["--version"]) == 0
    assert shown.getvalue() == b"samebits ?\n"


def test_arguments_are_those_of_the_program_unless_given(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["samebits", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("samebits ")
    assert main([]) == 0
    assert "What do you have?" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argument", "protected"),
    [
        ("--conv --dir=FWD_D g1mb1", True),
        ("--conv", False),
        ("--on torch", False),
        ("--on torch jax", False),
        ("--on=torch threads", False),
        ("--seed 3", False),
        ("conv2d x=1 w=1", False),
        ("--dir=FWD_D g1mb1", True),
        # The options of each command are known as they are declared.
        ("--where verdict = 'wrong'", False),
        ("--like torch:threads=1", False),
        ("--capture a b.npz", False),
        ("-o out.parquet", False),
    ],
)
def test_only_quoted_lines_of_other_tools_are_kept_from_being_options(argument, protected):
    options = cli._list_options(typer.main.get_command(cli.app))
    assert cli._protect_problem(argument, options) == (f" {argument}" if protected else argument)


def run_in(environment, *arguments, limit=None):
    """The program in a process of its own, its address space limited to so many bytes."""
    code = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit}))\n" if limit else ""
    code += "import sys; from samebits.cli import run_program; sys.exit(run_program())"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, check=False, timeout=60
    )


COMPARE = ("compare", "conv1d x=1x1x7 w=1x1x3", "--on", "truth")


@pytest.mark.parametrize("value", ["x", "0", "-1", "99999999999999", ""])
def test_a_number_of_threads_that_is_none_is_one_line(value):
    done = run_in({"NUMBA_NUM_THREADS": value}, *COMPARE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"samebits: NUMBA_NUM_THREADS must be a whole number from 1 to 1024, not {value!r}\n"


@pytest.mark.parametrize("size", [300, 600])
def test_an_address_space_too_narrow_to_compute_in_is_one_line(size):
    """At 600 MB a library waits for ever for its threads' memory."""
    done = run_in({}, *COMPARE, limit=size * 10**6)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "GiB (ulimit -v)" in line


def test_an_error_that_nobody_foresaw_is_one_line_and_its_place_is_shown_to_whoever_asks(monkeypatch, capsys):
    def fail(*_, **__):
        raise KeyError("unforeseen")

    monkeypatch.setattr("samebits.questions.doctor.inventory.take_inventory", fail)
    monkeypatch.delenv("SAMEBITS_TRACEBACK", raising=False)
    assert main(["doctor"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "a fault of samebits" in line
    assert "KeyError at test_exit_status.py" in line
    monkeypatch.setenv("SAMEBITS_TRACEBACK", "1")
    with pytest.raises(KeyError, match="unforeseen"):
        main(["doctor"])
