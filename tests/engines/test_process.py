"""A worker's failures become typed failures of its own runner, quickly, and leave no process behind."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import faulty_engines
from samebits.engines.runner.sliced_runs import Part
from samebits.engines.workers.answers import (
    Done,
    ExportedProgram,
    ProgramValues,
    Reported,
    SizesRun,
    Timed,
    UnexpectedAnswer,
    read_answer,
    read_failure,
)
from samebits.engines.workers.process import WorkerRunner
from samebits.errors import (
    EngineCrashed,
    EngineFailure,
    EngineOutOfMemory,
    EngineRaised,
    EngineTimedOut,
    EngineUnsupported,
)
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal

PROBLEM = parse_problem_text("conv1d x=1x1x7 w=1x1x5")
OPERANDS = make_normal(PROBLEM)
TESTS = str(Path(faulty_engines.__file__).parent)


def start(class_name: str, time_limit_s: float = 60, **environment: str) -> WorkerRunner:
    path = os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")])
    return WorkerRunner(
        class_name, class_name, "faulty_engines", class_name, {}, {"PYTHONPATH": path, **environment}, time_limit_s
    )


def test_a_healthy_engine_answers_again_and_again_and_sees_its_environment():
    with start("HealthyEngine", SAMEBITS_TEST="here") as runner:
        assert runner.identify().settings == {"environment": "here"}
        for _ in range(3):
            np.testing.assert_array_equal(runner.run(PROBLEM, OPERANDS), np.zeros((1, 1, 3), np.float32))


@pytest.mark.parametrize(
    ("class_name", "failure", "says"),
    [
        ("KilledEngine", EngineCrashed, "SIGKILL"),
        ("SegfaultEngine", EngineCrashed, "SIGSEGV.*about to fall"),
        ("ExitingEngine", EngineCrashed, "status 3.*licence expired"),
        ("HungryEngine", EngineOutOfMemory, "cannot have that much"),
        ("RaisingEngine", EngineRaised, "^ValueError: first line$"),
        ("WrongShapeEngine", EngineRaised, "shape"),
        ("WrongDtypeEngine", EngineRaised, "float64"),
        ("HugeResultEngine", EngineRaised, "nonsense"),
        ("NoSuchEngine", EngineRaised, "NoSuchEngine"),
    ],
)
def test_every_way_to_fail_is_told_apart(class_name, failure, says):
    with start(class_name) as runner, pytest.raises(failure, match=says):
        runner.run(PROBLEM, OPERANDS)


@pytest.mark.parametrize("class_name", ["SleepingEngine", "SleepingLoadEngine"])
def test_an_engine_that_sleeps_forever_is_stopped_at_its_time_limit(class_name):
    begun = time.monotonic()
    with start(class_name, time_limit_s=3) as runner:
        with pytest.raises(EngineTimedOut, match="3 s"):
            runner.run(PROBLEM, OPERANDS)
        with pytest.raises(EngineTimedOut):
            runner.run(PROBLEM, OPERANDS)
        assert time.monotonic() - begun < 30


def test_an_unsupported_problem_leaves_the_engine_running():
    problem = parse_problem_text("conv3d x=1x1x3x3x3 w=1x1x1x1x1")
    with start("HealthyEngine") as runner:
        with pytest.raises(EngineUnsupported, match="no 3-D here"):
            runner.run(problem, make_normal(problem))
        assert runner.run(PROBLEM, OPERANDS).shape == (1, 1, 3)


def test_what_an_engine_prints_does_not_disturb_its_answers():
    with start("ChattyEngine") as runner:
        assert runner.run(PROBLEM, OPERANDS).shape == (1, 1, 3)


def test_closing_ends_the_process():
    runner = start("HealthyEngine")
    runner.identify()
    runner.close()
    assert runner._process.poll() is not None


def find_tests():
    """An environment in which other processes import this file."""
    path = os.pathsep.join([TESTS, str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


@pytest.mark.slow
def test_a_worker_outlives_the_thread_that_opened_it():
    opened = []
    thread = threading.Thread(target=lambda: opened.append(start("HealthyEngine")))
    thread.start()
    thread.join()
    time.sleep(0.3)
    with opened[0] as runner:
        np.testing.assert_array_equal(runner.run(PROBLEM, OPERANDS), np.zeros((1, 1, 3), np.float32))


def test_a_forked_child_opens_workers_too():
    # In a process of its own: one that has loaded jax must not fork.
    code = (
        "import os, test_process\n"
        "def runs(runner):\n"
        "    return runner.run(test_process.PROBLEM, test_process.OPERANDS).shape == (1, 1, 3)\n"
        "runner = test_process.start('HealthyEngine')\n"
        "runner.identify()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    with test_process.start('HealthyEngine') as own:\n"
        "        os._exit(0 if runs(own) else 1)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
        "assert runs(runner)\n"
        "runner.close()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=find_tests(), timeout=120)


def test_a_worker_ends_with_the_program_that_opened_it():
    code = (
        "import os, sys, test_process\n"
        "runner = test_process.start('SleepingEngine')\n"
        "runner.identify()\n"
        "print(runner.process_id, flush=True)\n"
        "os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=find_tests())
    worker = Path(f"/proc/{int(done.stdout)}/stat")
    deadline = time.monotonic() + 10
    while worker.exists() and " Z " not in worker.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not worker.exists() or " Z " in worker.read_text()


def ask(runner, what):
    """One message of each kind."""
    if what == "run":
        return runner.run(PROBLEM, OPERANDS)
    if what == "time":
        return runner.time_runs(PROBLEM, OPERANDS, 3)
    if what == "slices":
        return runner.run_slices([PROBLEM] * 3, OPERANDS, Part((1, 1), None))
    if what == "values":
        return runner.list_program_values("p")
    if what == "program":
        return runner.run_program("p", {}, ["y"], [], {})
    if what == "onnx":
        return runner.run_onnx(b"model", {}, ["y"])
    return runner.export_program("p.py:f", "folder") if what == "export" else runner.identify()


@pytest.mark.parametrize("what", ["identify", "run", "time", "slices", "values", "program", "onnx", "export"])
def test_an_answer_of_another_form_is_the_engines_failure(what):
    rng = random.Random(what)
    for odd in rng.sample(faulty_engines.ODD_ANSWERS, 2):
        asked = json.dumps([0 if what == "identify" else 1, odd])
        with start("BabblingEngine", BABBLES=asked) as runner, pytest.raises(EngineFailure) as error:
            ask(runner, what)
        assert len(str(error.value).splitlines()) == 1


RIGHT_ANSWERS = {
    Reported: {"report": {"version": "1", "device": "CPU", "settings": {"a": "b"}, "notes": ["n"]}},
    Timed: {"ok": True, "seconds": [0.5, 1.0], "digests": ["a"], "peak_bytes": None},
    SizesRun: {"runs": [{"digest": "a", "even": None, "seconds": 0.5, "failure": None}, {"failure": ["error", "x"]}]},
    ProgramValues: {"values": ["a"]},
    ExportedProgram: {"inputs": ["x"], "notes": [], "kind": "keras", "layers": ["l"]},
    Done: {"ok": True},
}


@pytest.mark.parametrize("kind", RIGHT_ANSWERS, ids=lambda kind: kind.__name__)
def test_answers_are_read_as_what_was_asked_for_and_nothing_else(kind):
    assert isinstance(read_answer(RIGHT_ANSWERS[kind], kind), kind)
    others = [answer for other, answer in RIGHT_ANSWERS.items() if other is not kind]
    # What says nothing but that it is done has nothing to be wrong.
    for odd in (*faulty_engines.ODD_ANSWERS, *others) if kind is not Done else ():
        if kind is SizesRun and odd == {"runs": []}:
            continue
        with pytest.raises(UnexpectedAnswer):
            read_answer(odd, kind)


@pytest.mark.parametrize(
    "odd", [{"failure": None}, {"failure": "no"}, {"failure": {"kind": 5, "says": "x"}}, {"failure": []}]
)
def test_a_failure_has_a_kind_and_words(odd):
    assert read_failure({"ok": True}) is None
    assert read_failure({"failure": {"kind": "error", "says": "x"}}).says == "x"
    with pytest.raises(UnexpectedAnswer):
        read_failure(odd)


def is_running(process: int) -> bool:
    """Whether a process is there and no zombie, which waits for whoever adopted it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(processes: list[int]) -> list[int]:
    for _ in range(100):
        if not (left := [p for p in processes if is_running(p)]):
            return []
        time.sleep(0.1)
    return left


def test_what_an_engine_started_ends_with_it():
    with start("ForkingEngine") as runner:
        processes = [int(text) for text in runner.identify().settings["environment"].split()]
        assert all(map(is_running, processes))
    assert wait_until_gone(processes) == []


def test_what_an_engine_forked_ends_with_a_command_that_is_killed():
    code = (
        "import sys, time\n"
        f"sys.path.insert(0, {str(Path(__file__).parent.parent)!r})\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_process import start\n"
        "print(start('ForkingEngine').identify().settings['environment'], flush=True)\n"
        "time.sleep(3600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        forked, started = map(int, command.stdout.readline().split())
        command.kill()
    assert wait_until_gone([forked]) == []
    os.kill(started, 9)
