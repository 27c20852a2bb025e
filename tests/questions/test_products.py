"""Recorded products of plain NumPy with known faults, and without: what is said of them."""

import numpy as np
import pytest

import samebits
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case, load_case, save_case
from samebits.problems.operands import make_normal


def explain(text, compute, dtype=np.float32):
    problem = parse_problem_text(text)
    operands = make_normal(problem, 1)
    wide = {name: array.astype(np.float64) for name, array in operands.items()}
    case = Case(problem, operands, {"a": np.array(compute(wide), dtype, order="C")})
    (side,) = samebits.explain(case).sides
    return side


FAULTS = [
    ("linear x=8x32 w=32x32 bias", lambda o: o["x"] @ o["w"] + o["bias"], "axis-order", "reads the memory of w"),
    ("linear x=8x32 w=16x32", lambda o: o["x"] @ o["w"].reshape(32, 16), "axis-order", "laid out as n x k, as k x n"),
    ("linear x=8x32 w=16x32", lambda o: o["x"].reshape(32, 8).T @ o["w"].T, "strided-view", "as k x batch"),
    ("linear x=16x32 w=16x32 bias", lambda o: o["x"] @ o["w"].T + o["bias"][:, None], "axis-order", "rows in place of"),
    ("linear x=9x32 w=16x32 bias", lambda o: o["x"] @ o["w"].T, "dropped-attribute", "leaves the bias out"),
    ("linear x=9x32 w=16x32 bias", lambda o: o["x"] @ o["w"].T + 2 * o["bias"], "fusion", "bias twice"),
    ("linear x=9x32 w=16x32 then=relu", lambda o: o["x"] @ o["w"].T, "fusion", "leaves out the relu"),
    ("linear x=9x70 w=12x70", lambda o: o["x"][:, :64] @ o["w"][:, :64].T, "shape-specific-kernel", "last 6 of the 70"),
    ("matmul x=4x8x32 w=4x32x16", lambda o: o["x"][[1, 2, 3, 0]] @ o["w"], "shape-specific-kernel", "shifted by -1"),
    ("matmul x=4x8x32 w=4x32x16", lambda o: o["x"][::-1] @ o["w"], "axis-order", "in reverse along batch"),
    ("matmul x=4x8x32 w=4x32x16", lambda o: o["x"][:1] @ o["w"], "strided-view", "first of x for all"),
    ("matmul x=2x4x8x32 w=2x4x32x16", lambda o: o["x"].swapaxes(0, 1).reshape(2, 4, 8, 32) @ o["w"], "axis-order",
     "batch0 and batch1 exchanged"),
    ("matmul x=16x16 w=16x16", lambda o: o["w"] @ o["x"], "axis-order", "w by x in place of x by w"),
    ("matmul x=8x16 w=16x12", lambda o: (o["x"] @ o["w"]).T.reshape(8, 12), "strided-view", "the result, laid out"),
    ("linear.grad_weight x=40x9 w=7x9", lambda o: (o["dy"].T @ o["x"]).T.reshape(7, 9), "strided-view", "the result"),
    ("linear.grad_input x=8x9 w=9x9", lambda o: o["dy"] @ o["w"].T, "axis-order", "reads the memory of w"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("text", "compute", "cause", "says"), FAULTS, ids=[f[3] for f in FAULTS])
def test_what_was_taken_for_what_is_said(text, compute, cause, says):
    side = explain(text, compute)
    assert (side.verdict, side.cause) == ("wrong", cause)
    assert says in side.says


SOUND = {
    "linear x=16x32 w=16x32 bias": lambda o: o["x"] @ o["w"].T + o["bias"],
    "linear x=2x9x70 w=12x70": lambda o: o["x"] @ o["w"].T,
    "linear x=32 w=32x32": lambda o: o["x"] @ o["w"].T,
    "linear.grad_weight x=40x9 w=9x9": lambda o: o["dy"].T @ o["x"],
    "linear.grad_input x=8x9 w=9x9": lambda o: o["dy"] @ o["w"],
    "matmul x=16x16 w=16x16": lambda o: o["x"] @ o["w"],
    "matmul x=4x8x32 w=4x32x16": lambda o: o["x"] @ o["w"],
    "matmul x=2x1x8x32 w=4x32x16": lambda o: o["x"] @ o["w"],
    "matmul x=300 w=300": lambda o: o["x"] @ o["w"],
}


@pytest.mark.slow
@pytest.mark.parametrize("order", ["blas", "loop", "halves", "wide"])
@pytest.mark.parametrize("text", SOUND)
def test_sound_products_are_never_called_wrong(text, order):
    """In float32: NumPy's BLAS, its own loops, two halves added at the end; in float64."""

    def compute(wide):
        if order == "wide":
            return SOUND[text](wide)
        given = {name: array.astype(np.float32) for name, array in wide.items()}
        if order == "blas":
            return SOUND[text](given)
        if order == "loop":
            return SOUND[text](AsObjects.all_of(given))
        problem = parse_problem_text(text)
        inner = {"forward": ("x", -1), "grad_input": ("dy", -1), "grad_weight": ("dy", 0)}[problem.direction]
        parts = []
        for half in (0, 1):
            part = {name: array.copy() for name, array in given.items()}
            moved = np.moveaxis(part[inner[0]], inner[1], 0)
            moved[half::2] = 0
            if half and "bias" in part:
                part["bias"][:] = 0
            parts.append(SOUND[text](part))
        return parts[0] + parts[1]

    side = explain(text, compute)
    assert side.verdict in ("identical", "rounding"), (side.cause, side.says)


class AsObjects:
    """float32 numbers as objects, which NumPy multiplies and adds one by one, in order."""

    @staticmethod
    def all_of(given):
        make = np.frompyfunc(np.float32, 1, 1)
        return {name: make(array) for name, array in given.items()}


def test_rounded_operands_are_a_downgrade():
    import ml_dtypes

    def compute(wide):
        x, w = (wide[n].astype(ml_dtypes.bfloat16).astype(np.float64) for n in ("x", "w"))
        return x @ w.T

    side = explain("linear x=8x64 w=12x64", compute)
    assert (side.verdict, side.cause) == ("downgrade", "reduced-precision-operands")
    assert "bfloat16" in side.says


def test_a_case_file_of_a_product_is_read_back(tmp_path):
    problem = parse_problem_text("matmul x=4x1x5x7 w=3x7x2")
    operands = make_normal(problem, 2)
    result = (operands["x"].astype(np.float64) @ operands["w"].astype(np.float64)).astype(np.float32)
    save_case(tmp_path / "case.npz", problem, operands, {"theirs": result})
    case = load_case(tmp_path / "case.npz")
    assert case.problem == problem
    np.testing.assert_array_equal(case.results["theirs"], result)
    assert samebits.explain(tmp_path / "case.npz").verdict in ("identical", "rounding")


def test_the_worst_output_is_named_as_it_stands_in_the_result():
    problem = parse_problem_text("matmul x=4x1x5x7 w=3x7x2")
    operands = make_normal(problem, 2)
    result = (operands["x"].astype(np.float64) @ operands["w"].astype(np.float64)).astype(np.float32)
    result[3, 2, 4, 1] += 50
    (side,) = samebits.explain(Case(problem, operands, {"a": result})).sides
    assert side.worst.index == [3, 2, 4, 1]
    assert side.worst.window == {"x": [[3, 4], [0, 1], [4, 5], [0, 7]]}
    assert side.where == "only in batch0 = 3, batch1 = 2, row 4, column 1"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_single_number_is_a_result_too(tmp_path, dtype):
    problem = parse_problem_text(f"matmul x=40 w=40 dtype={dtype}")
    operands = make_normal(problem, 2)
    result = samebits.matmul(operands["x"], operands["w"])
    save_case(tmp_path / "dot.npz", problem, operands, {"theirs": np.asarray(result)})
    found = samebits.explain(tmp_path / "dot.npz")
    assert (found.verdict, found.outputs) == ("identical", 1)
