"""Kernels whose faults come and go, that do not know a bias, or that return other shapes: what reduce says of them."""

import re
import subprocess
import sys
import time

import numpy as np
import pytest

import samebits
from samebits.cli import main

TEXT = "linear x=6x40 w=12x40"


def whole(operands):
    result = operands["x"] @ operands["w"].T
    return result + operands["bias"] if "bias" in operands else result


def now_and_then(every, seconds=0.0):
    """Loses the columns from the ninth on in one of so many calls."""
    calls = iter(range(10**7))

    def kernel(problem, operands):
        result = whole(operands)
        time.sleep(seconds)
        if next(calls) % every == 1:
            result[:, 8:] = 0
        return result

    return kernel


@pytest.mark.parametrize("every", [3, 20])
def test_a_fault_that_comes_and_goes_is_made_small_by_calling_each_problem_often(every):
    found = samebits.reduce(TEXT, [now_and_then(every)], calls=100)
    assert (found.fault, found.repeats, found.is_smallest) == ("wrong", False, True)
    assert (found.problem, found.condition) == ("linear x=1x1 w=9x1 dtype=float32", "columns >= 9")
    assert 0 < found.faulty_calls < found.calls
    # Called so often, a problem with a third or a tenth of this rate would show it, too.
    assert found.calls_each > 10 * every
    assert f"in {found.faulty_calls} of {found.calls} calls on the same operands (it comes and goes)" in found.summary


def test_where_a_call_takes_long_a_fault_that_comes_and_goes_is_said_where_it_was_seen():
    found = samebits.reduce(TEXT, [now_and_then(3, seconds=0.01)])
    assert (found.fault, found.repeats, found.condition, found.is_smallest) == ("wrong", False, None, None)
    assert (found.problem, found.calls_each) == (found.start, 1)
    assert "takes too long" in found.evidence[-1].says


SELDOM = """
import time
import numpy as np

calls = 0

def kernel(problem, operands):
    global calls
    calls += 1
    time.sleep(SECONDS)
    result = operands["x"] @ operands["w"].T
    if operands["w"].shape[0] >= 9 and calls % 7 == 0:
        result[:, -1] += 1
    return result
"""


@pytest.mark.parametrize("seconds", [0, 0.01])
def test_a_script_shows_a_fault_that_comes_and_goes_made_small_or_not(seconds, tmp_path, capsys):
    (tmp_path / "seldom.py").write_text(SELDOM.replace("SECONDS", str(seconds)))
    script = tmp_path / "shows.py"
    words = ["reduce", "linear x=3x20 w=12x20", "--on", f"{tmp_path}/seldom.py:kernel", "-o", str(script)]
    assert main(words) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert ("is wrong" in said, "only where columns >= 9" in said) == (True, seconds == 0)
    assert "-o FILE" not in said
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100, check=False)
    assert "calls are wrong, the first at" in done.stderr
    wrong, calls = map(int, re.search(r"(\d+) of (\d+) calls are wrong", done.stderr).groups())
    assert wrong == calls // 7


@pytest.mark.parametrize("in_order", [True, False])
def test_bits_that_vary_without_a_fault_are_said(in_order):
    rng = np.random.default_rng(0)

    def kernel(problem, operands):
        places = np.arange(problem.reduction_length)
        if not in_order:
            rng.shuffle(places)
        result = np.zeros((operands["x"].shape[0], operands["w"].shape[0]), np.float32)
        for k in places:
            result += operands["x"][:, k, None] * operands["w"][:, k]
        return result

    found = samebits.reduce(TEXT, [kernel])
    assert (found.fault, found.repeats) == (None, None if in_order else False)
    assert ("does not return the same bits twice" in found.summary) != in_order


@pytest.mark.parametrize("knows_bias", [True, False])
def test_a_bias_that_a_kernel_does_not_know_is_no_part_of_its_fault(knows_bias):
    def kernel(problem, operands):
        given = {name: operands[name] for name in operands if name != "bias" or knows_bias}
        length = problem.reduction_length
        kept = length // 16 * 16 if length > 16 else length
        return whole({**given, "x": given["x"][:, :kept], "w": given["w"][:, :kept]})

    found = samebits.reduce(TEXT, [kernel])
    assert found.problem == "linear x=1x17 w=1x17 dtype=float32"
    assert sorted(found.condition.split(" and ")) == ["terms (K) >= 17", "the number of terms (K) is no multiple of 16"]
    assert found.is_exact
    assert any("without a bias" in e.says for e in found.evidence) != knows_bias


def test_what_came_in_place_of_a_result_is_said():
    def kernel(problem, operands):
        result = whole(operands)
        return result[:, :8] if result.shape[1] > 8 else result

    found = samebits.reduce(TEXT, [kernel])
    assert (found.fault, found.condition) == ("error", "columns >= 9")
    assert any("shape (1, 8) where the problem says (1, 9)" in e.says for e in found.evidence)


def test_the_worst_output_is_shown_where_roundings_are_among_them():
    """A lost power of two on random operands only: integers are exact in any format that this kernel rounds to."""

    def kernel(problem, operands):
        result = whole(operands)
        odd = np.abs(operands["x"]).max() < 8 and not np.equal(operands["x"], np.round(operands["x"])).all()
        if odd:
            result[-1, -1] *= 2
        return result

    found = samebits.reduce("linear x=3x40 w=5x40", [kernel])
    assert found.data == "normal"
    # Nothing but the lost power of two is so far off.
    assert round(found.first_value / found.first_truth, 3) == 2


@pytest.mark.parametrize("in_file", [True, False])
def test_a_kernel_that_says_what_it_does_not_take_is_not_wrong_there(in_file, tmp_path):
    """Square strides alone: `reduce` stays within them, and compare counts the others as unsupported."""
    code = (
        "import numpy as np\n"
        "def kernel(problem, operands):\n"
        "    if len(set(problem.stride)) > 1 or any(map(any, problem.padding)):\n"
        "        raise NotImplementedError('equal strides, no padding')\n"
        "    x, w, s = operands['x'], operands['w'], problem.stride[0]\n"
        "    view = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::s, ::s]\n"
        "    result = np.einsum('nchwij,ocij->nohw', view, w).astype(x.dtype)\n"
        "    return np.roll(result, 1, 3) if s == 2 else result\n"
    )
    (tmp_path / "square.py").write_text(code)
    scope = {}
    exec(code, scope)
    kernel = f"{tmp_path}/square.py:kernel" if in_file else scope["kernel"]
    found = samebits.reduce("conv2d x=2x2x9x9 w=2x2x3x3 stride=2", [kernel])
    assert found.fault == "wrong"
    assert "stride=2" in found.problem
    assert "padding" not in found.problem
    assert "stride" in found.condition
    asked = samebits.compare("conv2d x=1x2x9x9 w=2x2x3x3 stride=2x1", [kernel])
    assert asked.sides[0].failure.kind == "unsupported"
    assert "equal strides, no padding" in asked.sides[0].failure.says


def test_a_race_that_exact_integers_do_not_show_is_said_by_its_calls():
    """One product in seven is lost now and then, of which the small integers are 0: no precision is spoken of."""
    calls = iter(range(10**6))

    def kernel(problem, operands):
        x, w = operands["x"], operands["w"]
        result = x @ w.T
        whole_numbers = (x == np.rint(x)).all()
        if not whole_numbers and next(calls) % 25 == 3:
            result[:, -1] -= x[:, -1] * w[-1, -1]
        return result

    found = samebits.compare("linear x=9x7 w=33x7", [kernel], calls=200, attributes=False)
    assert re.match(
        r"kernel is beyond its error bound in \d+ of \d+ calls on the same operands, and within it in the others: 9 of",
        found.summary,
    )
    assert "less precision" not in found.summary
