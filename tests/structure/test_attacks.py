"""Hostile inputs are judged: every way to end that a person must not meet is seen, and an ordinary end is not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from hostile_inputs import make_attack  # noqa: E402  (from where it lies)

# In a process of its own: children are forked, which a process that has loaded jax must not do.
PROGRAM = """
import json, os, pathlib, sys, time
sys.path.insert(0, sys.argv[1])
from hostile_outcomes import Attack, end_attack, judge_outcome, start_attack
attack, started, folder = Attack("test", code=sys.argv[2]), time.monotonic(), pathlib.Path(sys.argv[3])
child = start_attack(attack, folder, as_program=True)
_, status, usage = os.wait4(child, 0)
print(json.dumps(judge_outcome(attack, end_attack(folder, status, started, usage, child))))
"""


def judge(code, folder):
    command = [sys.executable, "-c", PROGRAM, str(BENCHMARKS), code, str(folder / "attack")]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("raise ValueError('x')", "traceback: ValueError: x"),
        ("raise SystemExit(3)", "status 3, not 0 or 1 or 2"),
        ("import os; os.kill(os.getpid(), 11)", "ended by signal 11"),
        ("open('new', 'w')", "written: work/new"),
        ("import os; open(os.path.expanduser('~/new'), 'w')", "written: home/new"),
        ("import tempfile; open(tempfile.gettempdir() + '/new', 'w')", "written: tmp/new"),
        ("print('a\\x1b[1mb')", "control character '\\x1b' on output"),
        ("import warnings; warnings.warn('hm')", "on standard error: '<string>:1: UserWarning: hm'"),
        ("import sys; print('samebits: a\\nsamebits: b', file=sys.stderr); sys.exit(2)", "2 lines on standard error"),
        ("import sys; sys.exit(2)", "0 lines on standard error"),
        ("import subprocess; subprocess.Popen(['sleep', '60'])", "left a process running"),
    ],
)
def test_what_a_person_must_not_meet_is_seen(code, fault, tmp_path):
    assert judge(code, tmp_path) == [fault]


@pytest.mark.parametrize(
    "code",
    [
        "print('ok')",
        "import sys; print('samebits: at work ...\\nsamebits: that is none', file=sys.stderr); sys.exit(2)",
    ],
)
def test_an_ordinary_end_is_none(code, tmp_path):
    assert judge(code, tmp_path) == []


def test_an_input_is_the_same_whenever_it_is_made():
    assert [make_attack(n, 1) for n in range(40)] == [make_attack(n, 1) for n in range(40)]
    assert make_attack(0, 1) != make_attack(0, 2)


def test_a_hundredth_of_the_hostile_documents_ends_as_it_should():
    command = [sys.executable, str(BENCHMARKS / "hostile_documents.py"), "--share", "0.01"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(" 0 faults") == 8


WATCHED = """
import os, sys, subprocess, time
sys.path.insert(0, sys.argv[1])
import hostile_documents as h
from samebits.errors import ModelError

def attack(rng, folder):
    exec(sys.argv[2])

h.KINDS["test"] = (attack, 1)
h.LONGEST_S = 0.5
print(h.run_attack("test", 0, h.Watch()))
"""


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("open('/tmp/secret-of-nobody', 'rb')", "opened /tmp/secret-of-nobody"),
        ("subprocess.run(['true'])", "ran true"),
        ("os.system('true')", "ran b'true'"),
        ("{}['x']", "KeyError at <string>:1: 'x'"),
        ("raise ModelError('a\\nb')", "more than a line"),
        ("time.sleep(1)", "took 1 s"),
        ("raise h.Watched('odd')", "odd"),
    ],
)
def test_what_no_document_may_bring_about_is_seen(code, fault):
    command = [sys.executable, "-c", WATCHED, str(BENCHMARKS), code]
    assert fault in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_document_that_is_refused_in_one_line_is_no_fault():
    command = [sys.executable, "-c", WATCHED, str(BENCHMARKS), "raise ModelError('no model')"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
