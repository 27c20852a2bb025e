"""Functions of rows at the doors: their texts, the command line, cases, seals, other commands' refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

import samebits
from samebits.cli.app import main
from samebits.errors import ProblemShapeError, ProblemTextError
from samebits.problems.any_problem import format_any_problem, parse_any_problem
from samebits.problems.row_functions import make_normal_rows, make_uniform_rows, parse_row_function


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("softmax x=4x8", "softmax x=4x8 dtype=float32"),
        ("softmax axis=1 x=4x8 dtype=float16", "softmax x=4x8 dtype=float16"),
        ("softmax x=4x8x2 axis=1", "softmax x=4x8x2 axis=1 dtype=float32"),
        ("layernorm bias x=4x8 eps=1e-3 weight", "layernorm x=4x8 weight bias eps=0.001 dtype=float32"),
        ("rmsnorm x=4x8x2 axes=2", "rmsnorm x=4x8x2 axes=2 eps=1e-05 dtype=float32"),
        ("gelu x=8 approximate=tanh", "gelu x=8 approximate=tanh dtype=float32"),
        ("rope x=1x2x3x4 interleaved", "rope x=1x2x3x4 interleaved dtype=float32"),
    ],
)
def test_texts_are_canonical(text, canonical):
    problem = parse_any_problem(text)
    assert format_any_problem(problem) == canonical
    assert parse_any_problem(canonical) == problem


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("softmax", "x= is missing"),
        ("softmax x=4x8 eps=1", "softmax has no 'eps'"),
        ("layernorm x=4x8 weight=1", "weight stands alone"),
        ("layernorm x=4x8 eps", "eps needs a value"),
        ("layernorm x=4x8 eps=small", "eps is a number"),
        ("softmax x=4x8 x=4x8", "x is given twice"),
        ("softmax x=4by8", "expected sizes"),
        ("softmax x=4x8 axis=one", "axis is a whole number"),
    ],
)
def test_texts_that_cannot_be_read_say_why(text, says):
    with pytest.raises(ProblemTextError, match=says):
        parse_any_problem(text)


@pytest.mark.parametrize(
    "text",
    ["softmax x=0x8", "softmax x=4x8 axis=2", "layernorm x=4x8 axes=3", "layernorm x=4x8 eps=-1", "rope x=1x2x3x5",
     "rope x=4x8", "gelu x=8 approximate=some", "gelu x=8 dtype=int8"],
)  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(text):
    with pytest.raises(ProblemShapeError):
        parse_row_function(text)


def test_rows_are_the_numbers_that_belong_together():
    problem = parse_row_function("softmax x=2x3x4 axis=1")
    x = make_uniform_rows(problem, 1)["x"]
    rows = problem.to_rows(x)
    assert rows.shape == (8, 3)
    assert rows[5].tolist() == x[1, :, 1].tolist()
    assert np.array_equal(problem.from_rows(rows), x)


def test_the_command_compares_and_exits_by_the_verdict(tmp_path, capsys):
    kernel = tmp_path / "mine.py"
    kernel.write_text(
        "import numpy as np\n"
        "def sound(problem, operands):\n"
        "    e = np.exp(operands['x'] - operands['x'].max(-1, keepdims=True))\n"
        "    return e / e.sum(-1, keepdims=True)\n"
        "def tail(problem, operands):\n"
        "    e = np.exp(operands['x'] - operands['x'].max(-1, keepdims=True))\n"
        "    return e / e[:, :96].sum(-1, keepdims=True)\n"
    )
    assert main(["compare", "softmax x=8x100", "--on", f"{kernel}:sound", "--on", "numpy", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problem"] == "softmax x=8x100 dtype=float32"
    assert found["verdict"] in ("rounding", "identical")
    assert main(["compare", "softmax x=8x100", "--on", f"{kernel}:tail"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "sums the first 96 of 100 numbers" in said
    assert "100 numbers each" in said


def test_a_case_file_is_explained(tmp_path, capsys):
    problem = parse_row_function("layernorm x=12x64 weight bias")
    operands = make_normal_rows(problem, 4)
    x, weight, bias = (operands[name] for name in ("x", "weight", "bias"))
    mine = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True, ddof=1) + 1e-5) * weight + bias
    path = tmp_path / "case.npz"
    np.savez(path, problem="layernorm x=12x64 weight bias", mine=mine.astype(np.float32), **operands)
    assert main(["explain", str(path), "--json"]) == 1
    (side,) = json.loads(capsys.readouterr().out)["sides"]
    assert (side["verdict"], side["says"]) == ("wrong", "divides the variance by 63, not by 64")
    found = samebits.explain(str(path))
    assert samebits.compare(str(path)).verdict == found.verdict == "wrong"


def test_operands_that_do_not_fit_are_refused():
    x = np.zeros((4, 8), np.float32)
    for given, says in (
        ({"x": x}, "operand weight is missing"),
        ({"x": x, "weight": x}, "operand weight has shape 4x8"),
        ({"x": x.astype(np.float64) + 0.1, "weight": x[0]}, "needs float32 numbers"),
        ({"x": np.full_like(x, np.nan), "weight": x[0]}, "NaN or infinity"),
    ):
        with pytest.raises(samebits.SamebitsError, match=says):
            samebits.explain(problem="rmsnorm x=4x8 weight", mine=x, **given)


def test_other_commands_say_who_takes_them(capsys):
    assert main(["sweep", "softmax x={1..4}x8", "--on", "numpy"]) == 2
    assert "samebits compare, explain and seal" in capsys.readouterr().err
    assert main(["profile", "numpy", "gelu x=8"]) == 2
    assert "samebits compare, explain and seal" in capsys.readouterr().err


def test_a_seal_holds_the_bits(tmp_path, capsys):
    path = tmp_path / "rows.seal"
    assert main(["seal", "rmsnorm x=4x16 weight", "--on", "numpy", "-o", str(path)]) == 0
    assert main(["check", str(path)]) == 0
    capsys.readouterr()
