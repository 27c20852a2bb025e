"""Assertions for tests: faulty kernels fail with what is wrong, correct ones in any order and format pass."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from samebits import explain
from samebits.errors import SamebitsError
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.sums.truth import compute_truth
from samebits.testing import assert_conv_close, check_property
from samebits.testing.conforming import Promise
from testing.kernels import CORRECT, FAULTY, by_blas, correct

# Left out of `make quick`.
pytestmark = pytest.mark.slow

LAYER = "conv2d x=3x16x13x11 w=10x16x3x3 padding=1 bias"
EVERY = ("exact", "bounds", "special", "repeat")


@pytest.fixture(autouse=True)
def cases(tmp_path, monkeypatch):
    monkeypatch.setenv("SAMEBITS_CASES", str(tmp_path / "cases"))
    return tmp_path / "cases"


@pytest.mark.parametrize("name", CORRECT)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_correct_kernels_pass_whatever_their_order_and_format(name, dtype, cases):
    for promised in EVERY:
        check_property(CORRECT[name], f"{LAYER} dtype={dtype}", promised)
    assert not cases.exists()


def find_failure(kernel):
    for promised in EVERY:
        try:
            check_property(kernel, LAYER, promised)
        except AssertionError as failure:
            return promised, str(failure)
    return None


@pytest.mark.parametrize("name", FAULTY)
def test_faulty_kernels_fail_with_what_is_wrong(name, cases):
    kernel, verdict, cause = FAULTY[name]
    found = find_failure(kernel)
    assert found is not None
    _, says = found
    assert verdict.upper() in says
    assert cause in says
    path = Path(says.rsplit("samebits explain ", 1)[1].strip())
    assert path.parent == cases
    assert explain(path).verdict.upper() in says


def test_allclose_lets_many_of_them_pass():
    """What they are here for: `allclose` at 1e-2, as half-precision kernels are compared, sees only some."""
    problem = parse_problem_text(LAYER)
    operands = make_normal(problem)
    truth = compute_truth(problem, operands).values
    # What is compared here is the comparison that people use.
    close = np.allclose  # noqa: TID251 - the comparison whose blindness is the subject
    passed = [n for n, (k, *_) in FAULTY.items() if close(k(problem, operands), truth, rtol=1e-2, atol=1e-2)]
    assert len(passed) >= 10


def test_an_accumulator_that_was_declared_is_no_fault_and_one_that_was_not_is():
    problem = "conv2d x=2x64x8x8 w=8x64x3x3 dtype=float16"
    half = correct(dtype=np.float16)
    check_property(half, problem, "bounds", Promise(accumulator="float16"))
    with pytest.raises(AssertionError, match="beyond their error bound"):
        check_property(half, problem, "bounds")


def test_a_declared_recipe_is_held_to_its_bits():
    promise = Promise(recipe="direct product=rounded order=k")
    check_property(CORRECT["in order"], LAYER.replace(" bias", ""), "recipe", promise)
    with pytest.raises(AssertionError, match="other bits than the recipe"):
        check_property(CORRECT["backwards"], LAYER.replace(" bias", ""), "recipe", promise)


def test_items_alone_and_in_company():
    def depends(problem, operands):
        return CORRECT["in order" if problem.x[0] > 1 else "backwards"](problem, operands)

    check_property(CORRECT["in order"], LAYER, "batch")
    with pytest.raises(AssertionError, match="item 0 has other bits alone than among 3"):
        check_property(depends, LAYER, "batch")
    with pytest.raises(pytest.skip.Exception):
        check_property(depends, "conv2d x=1x4x5x5 w=2x4x3x3", "batch")


def test_products_and_gradients_are_checked_too():
    def multiply(problem, operands):
        return operands["x"] @ operands["w"].T

    check_property(multiply, "linear x=24x96 w=40x96", "bounds")
    with pytest.raises(AssertionError, match="beyond"):
        check_property(lambda p, o: multiply(p, o) * np.float32(1.01), "linear x=24x96 w=40x96", "bounds")


def test_other_libraries_arrays_are_taken(cases):
    torch = pytest.importorskip("torch")
    problem = parse_problem_text("conv2d x=2x4x9x9 w=3x4x3x3 padding=1 dtype=bfloat16")
    generator = torch.Generator().manual_seed(0)
    operands = {
        name: torch.randn(shape, generator=generator).to(torch.bfloat16)
        for name, shape in problem.operand_shapes.items()
    }
    result = torch.nn.functional.conv2d(operands["x"], operands["w"], padding=1)
    assert_conv_close(result, problem, operands)
    with pytest.raises(AssertionError, match="beyond"):
        assert_conv_close(result + 1, problem, operands)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (lambda y: y[:, :, :-1], "shape"),
        (lambda y: y.astype(np.float64), "dtype float64"),
        (lambda y: np.full_like(y, np.nan), "beyond their error bound"),
    ],
)
def test_results_of_another_kind_fail(result, says):
    problem = parse_problem_text(LAYER)
    operands = make_normal(problem)
    with pytest.raises(AssertionError, match=says):
        assert_conv_close(result(by_blas(problem, operands)), problem, operands)


@pytest.mark.parametrize("options", [{"accumulator": "float99"}, {"recipe": "nonsense"}], ids=["accumulator", "recipe"])
def test_arguments_that_mean_nothing_are_errors_and_no_failures(options):
    problem = parse_problem_text(LAYER)
    operands = make_normal(problem)
    with pytest.raises(SamebitsError):
        assert_conv_close(by_blas(problem, operands), problem, operands, **options)
    with pytest.raises(SamebitsError):
        check_property(by_blas, LAYER, "speed")
    with pytest.raises(SamebitsError):
        assert_conv_close(by_blas(problem, operands), problem, {"x": operands["x"]})


KERNEL_TEST = """
import numpy as np
from samebits.testing import conformance

def kernel(problem, operands):
    return (operands["x"] @ operands["w"].T) * np.float32({factor})

test_kernel = conformance(kernel, ["linear x=8x24 w=6x24", "linear x=1x5 w=2x5"])
"""


def run_pytest(folder, *options):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    return subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, check=False)


def test_pytest_collects_one_test_for_each_problem_and_property(tmp_path, monkeypatch):
    monkeypatch.delenv("SAMEBITS_CASES")
    path = tmp_path / "test_kernel.py"
    path.write_text(KERNEL_TEST.format(factor="1"))
    done = run_pytest(tmp_path)
    assert "8 passed" in done.stdout, done.stdout
    assert not (tmp_path / "samebits-cases").exists()
    path.write_text(KERNEL_TEST.format(factor="1.01"))
    done = run_pytest(tmp_path, "--samebits-cases", "kept")
    assert "WRONG" in done.stdout
    assert "kept/test_kernel" in done.stdout
    assert list((tmp_path / "kept").glob("*.npz"))
    # The worst output, and no line of what is not the person's own.
    assert re.search(r"worst at \[\d, \d\]: got \S+, expected \S+", done.stdout)
    assert not re.search(r"samebits/(testing|questions)|contextlib", done.stdout)


def test_the_plugin_imports_nothing_that_takes_time():
    code = (
        "import sys, samebits.pytest_plugin; print([m for m in sys.modules if m.split('.')[0] in ('numpy', 'numba')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_operands_in_the_place_of_a_problem_are_one_line():
    ones = np.ones((2, 2), np.float32)
    with pytest.raises(SamebitsError, match=r"operands are given by name, as in \{'x': x, 'w': w\}, not ndarray"):
        assert_conv_close(ones, ones, ones)
