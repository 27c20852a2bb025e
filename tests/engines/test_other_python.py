"""Engines of another Python environment: run there, distinguished, and refused in one line where they cannot be."""

import os
import sys
import tempfile

import numpy as np
import pytest

import samebits
from samebits.engines.registry.runner_text import format_runner_text, parse_runner_text
from samebits.engines.registry.runners import open_runner
from samebits.engines.workers import other_python
from samebits.errors import ArgumentError, EngineMissingError, EngineUnsupported, RunnerTextError
from samebits.numbers import count_ulps
from samebits.numbers.format import FLOAT32
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.sums.truth import compute_truth

PROBLEM = parse_problem_text("linear x=3x8 w=4x8")


def write_program(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_text_is_read_and_printed_back():
    for text in ("numpy:python=/venvs/old/bin/python", "torch:python=~/py,threads=1,env.A=b"):
        assert format_runner_text(parse_runner_text(text)) == text
        assert parse_runner_text(text).place.python
    for text in ("numpy:python=", "numpy:python=a,python=b", "truth:python=a"):
        with pytest.raises(RunnerTextError):
            parse_runner_text(text)


@pytest.mark.needs("numpy")
def test_an_engine_of_another_python_is_run():
    """The same Python by another name: what is loaded there is what is installed there, and samebits comes along."""
    with open_runner(f"numpy:python={sys.executable}") as runner:
        assert runner.identify().version == np.__version__
        result = runner.run(PROBLEM, make_normal(PROBLEM))
    exact = compute_truth(PROBLEM, make_normal(PROBLEM)).values
    assert count_ulps(result, exact, FLOAT32).max() < 64


@pytest.mark.needs("numpy")
def test_nothing_else_of_ours_comes_along(tmp_path, monkeypatch):
    """A library of another version there is the one that is loaded, whatever PYTHONPATH says here."""
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "numpy.py").write_text("raise ImportError('ours')")
    program = write_program(tmp_path / "python", f'exec {sys.executable} "$@"')
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "ours"), *sys.path]))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(other_python, "NEEDS", "import sys")
    with open_runner(f"numpy:python={program}") as runner:
        assert runner.identify().name == "numpy"
    assert list((tmp_path / "temporary").glob("samebits-*")) == []


@pytest.fixture
def numpy_alone(tmp_path):
    """This Python, without the other packages that samebits itself needs."""
    for name in ("ml_dtypes", "threadpoolctl", "msgspec", "numba", "onnx"):
        (tmp_path / "hidden" / name).mkdir(parents=True)
        says = f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')"
        (tmp_path / "hidden" / name / "__init__.py").write_text(says)
    return write_program(tmp_path / "python", f'PYTHONPATH={tmp_path}/hidden:$PYTHONPATH exec {sys.executable} "$@"')


@pytest.mark.needs("torch")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numpy_is_all_that_is_needed_there(dtype, numpy_alone):
    """The bits of bfloat16 travel where nothing there knows that format but the engine."""
    problem = f"conv2d x=2x16x9x9 w=8x16x3x3 padding=1 dtype={dtype}"
    here, there = samebits.compare(problem, ["torch", f"torch:python={numpy_alone}"]).sides
    assert there.failure is None
    assert (there.bits, there.verdict, there.exact_data) == (here.bits, here.verdict, here.exact_data)


@pytest.mark.needs("numpy")
def test_what_is_not_known_there_is_said(numpy_alone):
    with open_runner(f"numpy:python={numpy_alone}") as runner:
        assert any("threadpoolctl" in note for note in runner.identify().notes)
        assert runner.run(PROBLEM, make_normal(PROBLEM)).shape == (3, 4)
    with open_runner(f"numpy:python={numpy_alone},threads=1") as runner, pytest.raises(EngineUnsupported):
        runner.identify()


@pytest.mark.needs("onnxruntime")
def test_two_versions_are_compared():
    found = samebits.compare("conv1d x=1x2x9 w=3x2x3", ["onnxruntime", f"onnxruntime:python={sys.executable}"])
    assert found.verdict == "identical"
    assert [s.name for s in found.sides] == ["onnxruntime", f"onnxruntime:python={sys.executable}"]


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (None, "No such file"),
        ("exit 3", "ends at once"),
        ("echo 'AssertionError: 3.8.1' >&2; exit 1", "3.8.1"),
        ("sleep 60", "does not answer"),
    ],
)
def test_what_is_no_python_for_it_is_refused_in_one_line(script, says, tmp_path, monkeypatch):
    monkeypatch.setattr(other_python, "_SLOWEST_START_S", 2)
    path = tmp_path / "python"
    if script is not None:
        write_program(path, script)
    with pytest.raises(EngineMissingError, match=says) as caught:
        open_runner(f"numpy:python={path}")
    assert "\n" not in str(caught.value)


def test_pick_takes_none():
    with pytest.raises(ArgumentError, match="leave python=, version=, ssh=, docker= and cpu= out"):
        samebits.pick("linear x=3x8 w=4x8", [f"numpy:python={sys.executable}"])
