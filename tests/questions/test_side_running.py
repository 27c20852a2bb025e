"""One runner on two sets of operands: what it returned before it failed is kept, and its failure is data."""

import numpy as np
import pytest

from samebits.engines.runner import Identity
from samebits.errors import (
    EngineCrashed,
    EngineFailure,
    EngineOutOfMemory,
    EngineRaised,
    EngineTimedOut,
    EngineUnsupported,
    ResourceLimitError,
)
from samebits.findings import Failure
from samebits.judging.side_running import run_on_both
from samebits.problems import parse_problem_text

PROBLEM = parse_problem_text("conv1d x=1x1x3 w=1x1x1 dtype=float32")
EXACT, GIVEN = {"x": np.zeros(1)}, {"x": np.ones(1)}
IDENTITY = Identity("odd:threads=1", "odd", "1.0", "CPU")
ON_EXACT, RESULT = np.full((1, 1, 3), 1, np.float32), np.full((1, 1, 3), 2, np.float32)


class Runner:
    """Returns, or raises, what it is given for its identity, for exact integers and for the operands."""

    text = "odd:threads=1"

    def __init__(self, identity=IDENTITY, on_exact=ON_EXACT, result=RESULT):
        self.identity, self.on_exact, self.result = identity, on_exact, result
        self.asked = []

    def identify(self):
        return self._give(self.identity)

    def run(self, problem, operands):
        assert problem is PROBLEM
        self.asked.append(operands)
        return self._give(self.on_exact if operands is EXACT else self.result)

    def _give(self, what):
        if isinstance(what, Exception):
            raise what
        return what


def test_a_runner_is_run_on_exact_integers_first():
    runner = Runner()
    ran = run_on_both(runner, PROBLEM, EXACT, GIVEN)
    assert [given is EXACT for given in runner.asked] == [True, False]
    assert ran.on_exact is ON_EXACT
    assert ran.recorded.result is RESULT
    assert (ran.recorded.name, ran.recorded.engine) == ("odd:threads=1", "odd:threads=1")
    assert ran.recorded.identity is IDENTITY
    assert ran.recorded.failure is None


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (EngineUnsupported, "unsupported"),
        (EngineCrashed, "crash"),
        (EngineTimedOut, "timeout"),
        (EngineOutOfMemory, "out-of-memory"),
        (EngineRaised, "error"),
        (EngineFailure, "error"),
    ],
)
def test_an_engine_that_fails_leaves_its_failure_and_what_it_did_before(raised, kind):
    runner = Runner(result=raised("it says why"))
    ran = run_on_both(runner, PROBLEM, EXACT, GIVEN)
    assert ran.recorded.failure == Failure(kind, "it says why")
    assert ran.recorded.result is None
    assert ran.on_exact is ON_EXACT
    assert ran.recorded.identity is IDENTITY


@pytest.mark.parametrize("error", [ResourceLimitError("too much"), MemoryError("too much")])
def test_any_other_error_is_named_by_its_class(error):
    ran = run_on_both(Runner(on_exact=error), PROBLEM, EXACT, GIVEN)
    assert ran.recorded.failure == Failure("error", f"{type(error).__name__}: too much")
    assert ran.on_exact is None
    assert ran.recorded.result is None


def test_a_runner_that_cannot_say_who_it_is_is_not_run():
    runner = Runner(identity=EngineRaised("who?"))
    ran = run_on_both(runner, PROBLEM, EXACT, GIVEN)
    assert ran.recorded.failure == Failure("error", "who?")
    assert ran.recorded.identity is None
    assert runner.asked == []


@pytest.mark.parametrize("which", ["on_exact", "result"])
@pytest.mark.parametrize("bad", [np.zeros(3, np.float32), np.zeros((1, 1, 3)), None])
def test_what_is_not_the_result_of_the_problem_is_an_error(which, bad):
    ran = run_on_both(Runner(**{which: bad}), PROBLEM, EXACT, GIVEN)
    assert ran.recorded.failure is not None
    assert ran.recorded.failure.kind == "error"
    assert ran.recorded.failure.says.startswith("returned")
    assert ran.recorded.result is None
