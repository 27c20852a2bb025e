"""The same call again and again, here and inside a worker: which results there were, and how often each."""

import numpy as np
import pytest

from samebits.engines.registry.runners import open_runner
from samebits.engines.runner.guarded_runner import guard_runner
from samebits.engines.runner.lowered_runner import lower_runner
from samebits.engines.runner.repeated_runs import Usual, run_again
from samebits.errors import EngineFailure
from samebits.problems import parse_problem_text
from samebits.problems.lowering import lower_problem
from samebits.problems.operands import make_normal

PROBLEM = parse_problem_text("linear x=3x5 w=4x5")
FILE = '''
import itertools
import numpy as np

calls = itertools.count()
buffer = np.zeros((3, 4), np.float32)

def steady(problem, operands):
    return operands["x"] @ operands["w"].T

def third(problem, operands):
    result = steady(problem, operands)
    result[1, 1] = 0 if next(calls) % 3 == 2 else result[1, 1]
    return result

def shared(problem, operands):
    """One buffer for all results, and operands that it spoils."""
    buffer[:] = operands["x"] @ operands["w"].T
    buffer[1, 1] = 0 if next(calls) % 3 == 2 else buffer[1, 1]
    operands["x"][:] = 0
    return buffer

def tenth_raises(problem, operands):
    if next(calls) == 9:
        raise ValueError("the tenth")
    return steady(problem, operands)

def tenth_is_short(problem, operands):
    return steady(problem, operands)[: 2 if next(calls) == 9 else 3]
'''


@pytest.fixture
def open_kernel(tmp_path):
    opened = []
    (tmp_path / "mine.py").write_text(FILE)

    def open_one(name):
        opened.append(open_runner(f"{tmp_path}/mine.py:{name}", time_limit_s=60))
        return opened[-1]

    yield open_one
    for runner in opened:
        runner.close()


def ask(runner, calls, usual=None):
    operands = make_normal(PROBLEM)
    first = runner.run(PROBLEM, operands)
    given = () if usual is None else (usual,)
    return run_again(runner, PROBLEM, operands, first, calls, *given)


@pytest.mark.parametrize("name", ["third", "shared"])
def test_each_result_comes_once_with_how_often_it_was_returned(open_kernel, name):
    runs = ask(open_kernel(name), 30)
    assert (runs.count, sorted(runs.counts), runs.other) == (30, [10, 20], 10)
    assert np.argwhere(runs.mark_varying()).tolist() == [[1, 1]]
    operands = make_normal(PROBLEM)
    assert np.array_equal(runs.results[0], operands["x"] @ operands["w"].T)


def test_a_steady_kernel_is_called_as_often_as_is_asked(open_kernel):
    runs = ask(open_kernel("steady"), 500)
    assert (runs.count, runs.is_same) == (500, True)


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_where_nobody_says_how_often_the_time_decides(open_kernel, seconds):
    assert ask(open_kernel("steady"), None, Usual(50, seconds)).count == (50 if seconds else 2)


@pytest.mark.parametrize(("name", "says"), [("tenth_raises", "the tenth"), ("tenth_is_short", "(2, 4)")])
def test_a_call_that_fails_among_many_is_a_failure(open_kernel, name, says):
    with pytest.raises(EngineFailure, match=says.replace("(", r"\(").replace(")", r"\)")):
        ask(open_kernel(name), 30)


@pytest.mark.parametrize("is_worker", [True, False])
def test_a_product_is_called_again_as_the_convolution_it_is(open_kernel, is_worker):
    count = iter(range(10**6))

    def third(problem, operands):
        result = operands["x"] @ operands["w"].T
        result[1, 1] = 0 if next(count) % 3 == 2 else result[1, 1]
        return result

    lowering = lower_problem(PROBLEM)
    runner = lower_runner(open_kernel("third") if is_worker else guard_runner(third), lowering)
    operands = lowering.lower_operands(make_normal(PROBLEM))
    first = runner.run(lowering.convolution, operands)
    runs = run_again(runner, lowering.convolution, operands, first, 30)
    assert (runs.count, sorted(runs.counts)) == (30, [10, 20])
    assert all(result.shape == lowering.convolution.out_shape for result in runs.results)
