"""Engines of another host, over a real ssh server: the same findings as here, and failures that cost one side."""

import json
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import samebits
from engines_elsewhere import check_that_findings_are_the_same, check_that_nothing_stays
from loopback_host import SSHD, LoopbackHost
from samebits.cli import main
from samebits.engines.registry.runner_text import format_runner_text, parse_runner_text
from samebits.engines.registry.runners import open_runner
from samebits.errors import (
    ArgumentError,
    EngineCrashed,
    EngineFailure,
    EngineMissingError,
    EngineUnsupported,
    RunnerTextError,
)
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal

PROBLEM = parse_problem_text("linear x=3x8 w=4x8")
FAR = f"ssh=loopback,python={sys.executable}"
needs_server = pytest.mark.skipif(
    SSHD is None or not os.access("/run", os.W_OK), reason="no ssh server here, or it may not be started"
)


@pytest.fixture(scope="module")
def loopback(tmp_path_factory):
    host = LoopbackHost(tmp_path_factory.mktemp("sshd"))
    yield host
    host.close()


@pytest.fixture
def far(loopback, monkeypatch):
    monkeypatch.setenv("SAMEBITS_SSH_COMMAND", loopback.command)
    return loopback


def test_the_text_is_read_and_printed_back():
    for text in ("torch:ssh=gpu-box", "torch:ssh=me@gpu-box,python=~/py,threads=1", "numpy:ssh=ssh://me@[::1]:2222"):
        assert format_runner_text(parse_runner_text(text)) == text
        assert parse_runner_text(text).place.host
    for text in (
        "numpy:ssh=",
        "numpy:ssh=-oProxyCommand=x",
        "numpy:ssh=a b",
        "numpy:ssh=a;b",
        "truth:ssh=a",
        "numpy:ssh=a,ssh=b",
    ):
        with pytest.raises(RunnerTextError):
            parse_runner_text(text)
    with pytest.raises(ArgumentError, match="leave python=, version=, ssh=, docker= and cpu= out"):
        samebits.pick("linear x=3x8 w=4x8", ["numpy:ssh=gpu-box"])


@needs_server
@pytest.mark.needs("onnxruntime")
def test_findings_are_those_of_the_same_engine_here(far):
    check_that_findings_are_the_same(FAR)
    network = Path(__file__).parent.parent.parent / "examples" / "conv_clip.onnx"
    found = samebits.compare(network, ["onnxruntime", f"onnxruntime:{FAR}"])
    here, there = found.sides
    assert there.verdict == here.verdict
    assert all(output.differing == 0 for output in found.outputs)


@needs_server
@pytest.mark.needs("numpy")
def test_nothing_stays_there(far, tmp_path):
    check_that_nothing_stays("ssh=loopback", tmp_path)


@needs_server
@pytest.mark.needs("numpy")
def test_a_connection_that_drops_costs_its_own_side(far):
    with open_runner(f"numpy:{FAR}") as runner:
        runner.identify()
        far.drop_connections()
        with pytest.raises(EngineFailure):
            runner.run(PROBLEM, make_normal(PROBLEM))
    timer = threading.Timer(2.0, far.drop_connections)
    timer.start()
    found = samebits.sweep("linear x={1..400}x512 w=512x512", [f"numpy:{FAR}", "truth"], recipes=False)
    timer.join()
    assert found.more[0].invariant is True
    assert found.more[0].failures == []


@needs_server
def test_what_cannot_be_reached_or_run_is_said_in_one_line(far, monkeypatch):
    for text, says in (
        ("numpy:ssh=loopback,python=/no/such/python", "no/such/python"),
        ("numpy:ssh=nowhere.invalid", "nowhere.invalid"),
        (f"numpy:ssh=loopback,python={os.devnull}", "null"),
    ):
        side = samebits.compare("linear x=3x8 w=4x8", [text, "truth"]).sides[0]
        assert side.failure.kind == "crash"
        assert says in side.failure.says
        assert "\n" not in side.failure.says
    with open_runner("numpy:ssh=loopback,python=/no/such/python") as runner, pytest.raises(EngineCrashed):
        runner.identify()
    monkeypatch.setenv("SAMEBITS_SSH_COMMAND", "/no/such/ssh")
    with pytest.raises(EngineMissingError, match="cannot be run"):
        open_runner("numpy:ssh=loopback")


@needs_server
@pytest.mark.needs("numpy")
def test_doctor_says_what_is_there(far, capsys):
    assert main(["doctor", "--on", f"numpy:{FAR}", "--json"]) == 0
    (asked,) = json.loads(capsys.readouterr().out)["asked"]
    assert asked["version"] == np.__version__
    assert main(["doctor", "--on", "numpy:ssh=nowhere.invalid"]) == 2
    assert "not there" in capsys.readouterr().out
    assert main(["doctor", "--on", "torhc"]) == 2


@pytest.mark.parametrize("command", ["", "ssh 'x", "/no/such/ssh"])
def test_programs_that_reach_nothing_are_refused_in_one_line(command, monkeypatch):
    monkeypatch.setenv("SAMEBITS_SSH_COMMAND", command)
    with pytest.raises(EngineMissingError) as error:
        open_runner("numpy:ssh=gpu-box")
    assert "\n" not in str(error.value)


def test_what_a_text_names_is_no_command_there(tmp_path, monkeypatch):
    record = tmp_path / "reach"
    record.write_text(f'#!/bin/sh\nshift 4\nHOME={tmp_path} sh -c "$2"\n')
    record.chmod(0o755)
    monkeypatch.setenv("SAMEBITS_SSH_COMMAND", str(record))
    for python in (f"~/x; touch {tmp_path}/HARM; false", f"$(touch {tmp_path}/HARM)"):
        with open_runner(f"numpy:ssh=gpu-box,python={python}") as runner, pytest.raises(EngineCrashed):
            runner.identify()
    assert not (tmp_path / "HARM").exists()


@needs_server
@pytest.mark.needs("numpy")
def test_programs_are_files_that_the_other_host_does_not_see(far):
    with open_runner(f"numpy:{FAR}") as runner, pytest.raises(EngineUnsupported, match="not seen there"):
        runner.list_program_values("/a/file.pt2")
