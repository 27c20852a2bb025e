"""Who opens a runner closes it: runners that a caller passes in stay open, those opened from a text are closed."""

import contextlib
import os

import numpy as np
import pytest

import samebits
from injected_runners import InjectedRunner
from samebits.engines.registry import runners
from samebits.engines.runner import check_result
from samebits.errors import RunnerTextError, SamebitsError
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_exact
from samebits.questions.profile import profiling

TEXT = "conv1d x=1x2x9 w=2x2x3"


class Counted(InjectedRunner):
    """Counts how often it was closed."""

    def __init__(self, text="counted"):
        super().__init__(text)
        self.closed = 0

    def close(self):
        self.closed += 1


@pytest.fixture
def opened(monkeypatch):
    """Runners that samebits opens from a text, in place of engines."""
    made = []

    def open_runner(text, **_):
        if text == "broken":
            raise SamebitsError("cannot be opened")
        made.append(Counted(text))
        return made[-1]

    monkeypatch.setattr(runners, "open_runner", open_runner)
    monkeypatch.setattr(profiling, "open_runner", open_runner)
    return made


def test_compare_leaves_a_callers_runner_open(opened):
    own = Counted()
    samebits.compare(TEXT, [own, "engine"])
    assert own.closed == 0
    assert [runner.closed for runner in opened] == [1]


def test_compare_closes_what_it_opened_when_the_next_text_is_bad(opened):
    own = Counted()
    with pytest.raises(SamebitsError, match="cannot be opened"):
        samebits.compare(TEXT, [own, "engine", "broken"])
    assert own.closed == 0
    assert [runner.closed for runner in opened] == [1]


def test_compare_closes_what_it_opened_when_the_case_is_too_large(opened):
    with pytest.raises(SamebitsError):
        samebits.compare("conv2d x=1x3x99999x99999 w=64x3x3x3", ["engine"])
    assert all(runner.closed == 1 for runner in opened)


def test_profile_leaves_a_callers_runner_open(opened):
    own = Counted()
    assert samebits.profile(own, TEXT).engine == "counted"
    assert own.closed == 0
    assert opened == []


def test_workers_started_early_are_those_that_are_opened_and_no_other_stays():
    problem = parse_problem_text("linear x=2x3 w=4x3")
    operands = make_exact(problem, 0)
    with runners.start_early(["numpy", "numpy:threads=1", "truth", "emulate:direct", "numpy"]):
        first, left = runners._started["numpy"], runners._started["numpy:threads=1"]
        assert set(runners._started) == {"numpy", "numpy:threads=1"}
        with contextlib.closing(runners.open_runner("numpy", time_limit_s=77.0)) as opened:
            assert (opened, opened.time_limit_s) == (first, 77.0)
            expected = operands["x"].astype(np.float64) @ operands["w"].astype(np.float64).T
            assert check_result(problem, opened.run(problem, operands)).tolist() == expected.tolist()
        with contextlib.closing(runners.open_runner("numpy")) as another:
            assert another is not first
    assert runners._started == {}
    with pytest.raises(RunnerTextError), runners.start_early(["numpy", "no-such-engine"]):
        raise AssertionError
    assert runners._started == {}
    with pytest.raises(ProcessLookupError):
        os.kill(left.process_id, 0)
