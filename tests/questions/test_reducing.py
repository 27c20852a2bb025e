"""Faults made small: kernels whose fault is known, engines without any, crashes, the operands of a case."""

import json
import random

import numpy as np
import pytest

import samebits
from faulty_kernels import FaultyKernel, compute_exactly, draw_problem, everywhere, make_kernels
from samebits.cli.app import main
from samebits.errors import ArgumentError, EngineCrashed, EngineOutOfMemory, EngineRaised
from samebits.problems import format_problem, parse_problem_text
from samebits.problems.case_file import Case
from samebits.progress import ignore_progress
from samebits.questions.reduce.condition_search import ConditionSearch
from samebits.questions.reduce.fault_asking import FaultAsker, find_data
from samebits.questions.reduce.parameters import can_keep_large, find_floor, put_together, set_number, take_apart
from samebits.questions.reduce.reduction_sentences import EVERYWHERE, summarize_reduction
from samebits.questions.reduce.shrinking import Shrinker, Smaller

# Left out of `make quick`.
pytestmark = pytest.mark.slow

KERNELS = make_kernels(27, seed=5)


def reduce_kernel(kernel):
    asker = FaultAsker(lambda: kernel)
    data, answer = find_data(asker, kernel.start, None)
    smaller, _ = Shrinker(asker, Smaller(kernel.start, answer), data, 60, ignore_progress).shrink()
    search = ConditionSearch(asker, smaller.problem, data, answer.fault, 60, ignore_progress)
    return smaller.problem, search.find(), search


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.text.replace(" ", "-"))
def test_the_smallest_problem_and_the_exact_condition_of_a_known_fault_are_found(kernel):
    smallest, found, search = reduce_kernel(kernel)
    numbers = take_apart(smallest)
    for name, value in numbers.items():
        for keeps in (False, True) if can_keep_large(smallest, name) else (False,):
            for smaller in range(find_floor(name), value):
                changed = put_together(smallest, set_number(smallest, numbers, name, smaller, keeps_large=keeps))
                assert changed is None or not kernel.is_faulty(changed)
    unseen = search.draw_unseen()
    said = found.condition.hold(search.measure(unseen))
    assert said.tolist() == [kernel.is_faulty(problem) for problem in unseen]
    assert not found.exceptions


@pytest.mark.parametrize("kind", ["conv2d", "conv1d", "conv_transpose2d", "linear"])
@pytest.mark.parametrize("engine", ["truth", "emulate:direct", "emulate:winograd(2)"])
def test_no_fault_is_claimed_of_what_has_none(engine, kind):
    rng = random.Random(3)
    drawn = [p for p in (draw_problem(rng, kind) for _ in range(12)) if p is not None][:3]
    for problem in drawn:
        if engine == "emulate:winograd(2)":
            if kind != "conv2d":
                continue
            problem = parse_problem_text("conv2d x=2x6x11x13 w=5x6x3x3 padding=1")
        found = samebits.reduce(problem, engine)
        assert found.fault is None
        assert found.problem is None
        assert found.reproducer is None


def test_another_failure_elsewhere_is_neither_right_nor_the_same_fault():
    class OutOfMemory(FaultyKernel):
        def run(self, problem, operands):
            raise EngineOutOfMemory("no more")

    start = parse_problem_text("linear x=3x9 w=4x9")
    wrong = FaultyKernel("wrong", lambda p: p.x[-1] > 4, everywhere, start)
    others = [FaultyKernel("right", lambda p: False, everywhere, start), wrong, OutOfMemory("oom", None, None, start)]
    found = samebits.reduce(start, [wrong, *others])
    assert [other.right for other in found.others] == [True, False, None]


def test_what_was_not_tried_is_not_claimed():
    """Wrong at two values only, far from each other: the smaller one is found, as all are tried at the end."""
    start = parse_problem_text("linear x=2x100 w=3x100")
    found = samebits.reduce(start, FaultyKernel("two", lambda p: p.x[-1] in (50, 100), everywhere, start))
    assert found.problem == "linear x=1x50 w=1x50 dtype=float32"
    assert found.is_smallest
    hasty = samebits.reduce(
        start, FaultyKernel("two", lambda p: p.x[-1] in (50, 100), everywhere, start), most_time_s=0.01
    )
    assert not hasty.is_smallest
    assert not hasty.is_exact


def test_a_crash_is_made_small_as_well():
    class Crashing(FaultyKernel):
        def run(self, problem, operands):
            if self.is_faulty(problem):
                raise EngineCrashed("signal 11")
            return compute_exactly(problem, operands)

    start = parse_problem_text("conv2d x=3x9x12x14 w=10x9x3x3 padding=1 bias")
    kernel = Crashing("falls", lambda p: p.c_in >= 5 and p.w[2] > 1, everywhere, start)
    found = samebits.reduce(start, kernel)
    assert found.fault == "crash"
    assert found.problem == "conv2d x=1x5x2x1 w=1x5x2x1 dtype=float32"
    assert found.condition == "input channels >= 5 and kernel height > 1"
    assert found.is_exact


def test_other_failures_nearby_are_no_evidence():
    class Refusing(FaultyKernel):
        def run(self, problem, operands):
            if problem.x[0] > 3:
                raise EngineRaised("too many")
            return super().run(problem, operands)

    start = parse_problem_text("linear x=3x20 w=9x20")
    found = samebits.reduce(start, Refusing("refuses", lambda p: p.w[0] > 6, everywhere, start))
    assert found.problem == "linear x=1x1 w=7x1 dtype=float32"
    assert found.condition == "columns >= 7"


def test_a_fault_of_some_values_is_made_small_on_the_operands_of_the_case():
    class Overflowing(FaultyKernel):
        def run(self, problem, operands):
            result = compute_exactly(problem, operands)
            return np.where(np.abs(result) > 60000, np.float32(np.inf), result)

    start = parse_problem_text("conv1d x=2x3x40 w=4x3x5")
    rng = np.random.default_rng(0)
    operands = {"x": rng.standard_normal((2, 3, 40), np.float32), "w": rng.standard_normal((4, 3, 5), np.float32)}
    operands["x"][1, 2, 33] = 1e6
    case, kernel = Case(start, operands, {}), Overflowing("overflows", lambda p: True, everywhere, start)
    found = samebits.reduce(case, kernel)
    assert found.data == "given"
    # `compare` explains the whole result and says `wrong`; each smaller problem is judged by bounds alone.
    assert found.fault == "undecided"
    assert found.problem == "conv1d x=1x1x1 w=1x1x1 dtype=float32"
    assert found.condition is None


def test_numbers_make_the_problem_again():
    rng = random.Random(8)
    for kind in ("conv1d", "conv2d", "conv3d", "conv_transpose2d", "linear"):
        for _ in range(60):
            problem = draw_problem(rng, kind)
            if problem is not None:
                again = put_together(problem, take_apart(problem))
                assert again is not None
                assert format_problem(again) == format_problem(problem)
    for text in ("matmul x=3x1x4x5 w=2x5x6", "matmul x=5 w=5x2", "matmul x=4x5 w=5", "linear x=2x3x7 w=4x7 bias"):
        problem = parse_problem_text(text)
        again = put_together(problem, take_apart(problem))
        assert again == problem
    same = parse_problem_text("conv2d x=1x3x9x9 w=2x3x3x3 stride=2 padding=same_upper")
    assert put_together(same, take_apart(same)).axes == same.axes


def test_a_problem_without_the_engine_is_refused_in_one_line():
    with pytest.raises(ArgumentError, match="does not take this problem"):
        samebits.reduce("conv2d x=1x1x5x5 w=1x1x3x3 dtype=float8_e4m3fn", "numpy")
    with pytest.raises(ArgumentError, match="--on ENGINE"):
        samebits.reduce("conv1d x=1x1x7 w=1x1x5", [])


def test_the_command_says_it_with_an_exit_status(capsys, tmp_path):
    recipe = "emulate:direct x=bfloat16"
    assert main(["reduce", "conv1d x=1x2x17 w=3x2x5", "--on", recipe, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "samebits.reduction/1"
    assert found["fault"] == "undecided"
    assert found["problem"] == "conv1d x=1x1x1 w=1x1x1 dtype=float32"
    assert main(["reduce", "conv1d x=1x2x17 w=3x2x5", "--on", "truth"]) == 0
    assert "NO FAULT" in capsys.readouterr().out
    assert main(["reduce", "conv1d x=1x2x17 w=3x2x5", "--on", recipe, "--markdown"]) == 1
    report = capsys.readouterr().out
    for heading in ("Summary", "Version", "Environment", "Steps to reproduce", "Observed", "Expected", "When"):
        assert f"## {heading}" in report
    words = ["reduce", "conv1d x=1x2x17 w=3x2x5", "--on", recipe, "--markdown", "-o", str(tmp_path / "f.md")]
    assert (main(words), capsys.readouterr().out) == (1, "")
    assert (tmp_path / "f.md").read_text().startswith(report[: report.index("## Version")])
    assert main(["reduce", "conv1d x=1x2x17 w=3x2x5", "--on", recipe, "-o", str(tmp_path / "f.py")]) == 1
    assert "was not written" in capsys.readouterr().err
    assert main(["reduce", "conv1d x=1x2x17 w=3x2x5", "--on", "truth", "-o", str(tmp_path / "f.py")]) == 0
    assert "there is no fault" in capsys.readouterr().err
    assert main(["reduce", "conv1d x=1x2x17 w=3x2x5", "--on", recipe, "--on", "torhc"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["reduce", "conv1d x=1x2x17", "--on", recipe]) == 2
    assert main(["reduce", "conv1d x=1x2x17 w=3x2x5", "--on", recipe, "--json", "--markdown"]) == 2


@pytest.mark.parametrize(("right", "says"), [(0, "every problem nearby that was asked"), (39, "most problems nearby")])
def test_a_fault_everywhere_is_said_of_all_only_where_all_show_it(right, says):
    assert says in summarize_reduction("mine", "wrong", "integers", EVERYWHERE, exact=False, right_neighbours=right)


def test_a_fault_at_other_sizes_is_found_from_a_sound_start():
    """Terms behind the last whole block of eight are lost where there are five of them or more."""

    def kernel(problem, operands):
        x, w = operands["x"].astype(np.float64), operands["w"].astype(np.float64)
        terms = x.shape[-1]
        kept = terms - (terms % 8 if terms % 8 > 4 else 0)
        return (x[..., :kept] @ w[..., :kept].T).astype(np.float32)

    found = samebits.reduce("linear x=12x64 w=20x64", [kernel])
    assert found.fault == "wrong"
    assert found.start == "linear x=12x64 w=20x64 dtype=float32"
    assert found.condition == "terms (K) modulo 8 >= 5"
    assert "at other sizes" in found.evidence[0].says
    sound = samebits.reduce(
        "linear x=12x64 w=20x64", [lambda p, o: (o["x"].astype(float) @ o["w"].T).astype(np.float32)]
    )
    assert sound.problem is None
    assert "problems of other sizes, too" in sound.summary
