"""Engines of a container: a stand-in for docker starts them in a process space of their own, as containers have it."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import samebits
from engines_elsewhere import MarkedPython, check_that_findings_are_the_same, check_that_nothing_stays
from samebits.cli import main
from samebits.engines.registry.runner_text import format_runner_text, parse_runner_text
from samebits.engines.registry.runners import open_runner
from samebits.errors import EngineCrashed, EngineMissingError, EngineUnsupported, RunnerTextError
from samebits.problems import parse_problem_text

PROBLEM = parse_problem_text("linear x=3x8 w=4x8")
HELD = f"docker=known:1,python={sys.executable}"
# As `docker run` reads its words: options, an image, what to run. It says no more of what fails than docker does.
STAND_IN = """#!/bin/sh
[ "$1" = run ] && shift
while [ "${1#--}" != "$1" ]; do echo "$1" >> {folder}/options; shift; done
image=$1; shift
if [ "$image" != known:1 ]; then
  echo "docker: Error response from daemon: No such image: $image" >&2
  echo "See 'docker run --help'." >&2
  exit 125
fi
exec unshare --pid --fork sh "$@"
"""


def may_have_processes_of_its_own():
    if not shutil.which("unshare"):
        return False
    return subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True, check=False).returncode == 0


needs_space = pytest.mark.skipif(not may_have_processes_of_its_own(), reason="no process space may be made here")


@pytest.fixture
def docker(tmp_path, monkeypatch):
    program = tmp_path / "docker"
    program.write_text(STAND_IN.replace("{folder}", str(tmp_path)))
    program.chmod(0o755)
    monkeypatch.setenv("SAMEBITS_DOCKER_COMMAND", f"{program} run --gpus=all")
    return tmp_path


def test_the_text_is_read_and_printed_back():
    for text in ("torch:docker=pytorch/pytorch:2.8.0", "torch:docker=host:5000/a@sha256:0f,python=/opt/py,threads=1"):
        assert format_runner_text(parse_runner_text(text)) == text
        assert parse_runner_text(text).place.image
    for text in (
        "numpy:docker=",
        "numpy:docker=--privileged",
        "numpy:docker=a b",
        "numpy:docker=a;b",
        "truth:docker=a",
        "numpy:docker=a,ssh=b",
    ):
        with pytest.raises(RunnerTextError):
            parse_runner_text(text)


@needs_space
@pytest.mark.needs("onnxruntime")
def test_findings_are_those_of_the_same_engine_here(docker):
    check_that_findings_are_the_same(HELD)
    assert set((docker / "options").read_text().split()) == {
        "--gpus=all",
        "--rm",
        "--interactive",
        "--pull=never",
        "--network=none",
        "--entrypoint=sh",
    }


@needs_space
@pytest.mark.needs("numpy")
def test_nothing_stays(docker):
    """The first process of a container cannot be killed from inside: what watches the connection must end it."""
    check_that_nothing_stays("docker=known:1", docker)


@needs_space
@pytest.mark.needs("numpy")
def test_nothing_stays_where_the_container_ends_before_the_second_process_acted(docker):
    marked = MarkedPython(docker)
    with open_runner(f"numpy:docker=known:1,python={marked.path}") as runner:
        assert runner.identify().version
        numbers = marked.list_processes()
        second = [number for number in numbers if read_parent(number) in numbers]
        assert len(second) == 1
        os.kill(int(second[0]), signal.SIGSTOP)
    marked.wait_until_nothing_stays()


def read_parent(number):
    return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1]


@needs_space
def test_what_is_not_there_is_said_in_one_line(docker, monkeypatch, capsys):
    found = samebits.compare("linear x=3x8 w=4x8", ["numpy:docker=other:2", "numpy:docker=known:1,python=/no"])
    for side, says in zip(found.sides, ("No such image: other:2", "/no: not found"), strict=True):
        assert side.failure.kind == "crash"
        assert says in side.failure.says
        assert "\n" not in side.failure.says
    assert main(["doctor", "--on", "numpy:docker=other:2"]) == 2
    assert "No such image" in " ".join(capsys.readouterr().out.split())
    with open_runner(f"numpy:{HELD}") as runner, pytest.raises(EngineUnsupported, match="not seen there"):
        runner.list_program_values("/a/file.pt2")
    monkeypatch.setenv("SAMEBITS_DOCKER_COMMAND", "/no/such/docker run")
    with pytest.raises(EngineMissingError, match="cannot be run"):
        open_runner("numpy:docker=known:1")


@needs_space
def test_what_a_text_names_is_no_command_there(docker):
    for python in (f"$(touch {docker}/HARM)", f"x; touch {docker}/HARM; false"):
        with open_runner(f"numpy:docker=known:1,python={python}") as runner, pytest.raises(EngineCrashed):
            runner.identify()
    assert not (docker / "HARM").exists()
