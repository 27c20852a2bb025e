"""Engines at hand asked whether a recorded result is theirs; sums are added up in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from samebits import explain
from samebits.errors import ArgumentError, RunnerTextError
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case

PROBLEM = parse_problem_text("linear x=8x60 w=6x60 dtype=float32")
LANES = "emulate:direct product=rounded order=k%7|k"


def draw() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in PROBLEM.operand_shapes.items()}


def add_in_lanes(operands: dict[str, np.ndarray], lanes: int) -> np.ndarray:
    """Lane by lane from left to right, then the lanes from left to right, all in float32."""
    products = operands["x"][:, None, :] * operands["w"][None, :, :]
    total = np.zeros(products.shape[:2], np.float32)
    for lane in range(lanes):
        own = np.zeros_like(total)
        for k in range(lane, products.shape[-1], lanes):
            own = own + products[..., k]
        total = own if lane == 0 else total + own
    return total


def ask(result: np.ndarray, like: list[str]):
    side = explain(Case(PROBLEM, draw(), {"mine": result}), like=like).sides[0]
    return side, " ".join(e.says for e in side.evidence)


def test_a_result_that_has_an_engines_bits_is_said_to_be_its():
    side, said = ask(add_in_lanes(draw(), 7), [LANES])
    assert (side.verdict, side.cause, side.cause_certainty) == ("rounding", "summation-order", "bits")
    assert side.engine == LANES
    assert "it is what emulate:direct" in said
    assert side.replay is not None
    assert (side.replay.count, side.replay.elements) == (48, 48)


def test_another_order_is_not_that_engines_and_no_fault_either():
    side, said = ask(add_in_lanes(draw(), 11), [LANES])
    assert (side.verdict, side.certainty, side.engine) == ("rounding", "bounds", None)
    assert "it is not what emulate:direct" in said


def test_narrow_operands_of_an_engine_are_a_downgrade_with_its_advice():
    operands = draw()
    narrow = {n: (a.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for n, a in operands.items()}
    side, said = ask(
        add_in_lanes(narrow, 7), ["emulate:direct x=tf32/toward_zero w=tf32/toward_zero product=rounded order=k%7|k"]
    )
    assert (side.verdict, side.cause, side.cause_certainty) == ("downgrade", "reduced-precision-operands", "bits")
    assert "it is what emulate:direct" in said


def test_the_first_that_fits_is_named_and_the_others_are_in_the_evidence():
    side, said = ask(add_in_lanes(draw(), 7), ["emulate:direct", LANES])
    assert side.engine == LANES
    assert "it is not what emulate:direct" in said


def test_an_engine_without_the_operation_says_so():
    problem = parse_problem_text("conv2d.grad_weight x=1x2x5x5 w=2x2x3x3 dtype=float32")
    rng = np.random.default_rng(1)
    operands = {n: rng.standard_normal(s).astype(np.float32) for n, s in problem.operand_shapes.items()}
    found = explain(Case(problem, operands, {"mine": np.zeros(problem.out_shape, np.float32)}), like=["onnxruntime"])
    said = " ".join(e.says for e in found.sides[0].evidence)
    assert "could not be asked: onnxruntime's inference package has no gradients" in said


def test_what_is_no_engine_and_what_has_no_operands_is_refused(tmp_path):
    with pytest.raises(RunnerTextError, match="unknown engine 'nosuch'"):
        ask(add_in_lanes(draw(), 7), ["nosuch"])
    log = tmp_path / "log.txt"
    log.write_text("Difference at 0: 1, expected 2\n")
    with pytest.raises(ArgumentError, match="--like needs a case file"):
        explain(log, like=["truth"])
