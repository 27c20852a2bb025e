"""Arrays that a person names, in files or in memory: explained with their problem, or compared with each other."""

import io
import json

import ml_dtypes
import numpy as np
import pytest
import torch

from samebits import explain, parse_problem_text
from samebits.cli import main
from samebits.errors import ArgumentError, CaseFileError, OperandError, SamebitsError
from samebits.problems.given_arrays import offer_problems

RNG = np.random.default_rng(11)
X = RNG.standard_normal((16, 64), dtype=np.float32)
W = RNG.standard_normal((8, 64), dtype=np.float32)
TEXT = "linear x=16x64 w=8x64"
SOUND = (X.astype(np.float64) @ W.T.astype(np.float64)).astype(np.float32)
NARROW = X.astype(np.float16).astype(np.float32) @ W.astype(np.float16).astype(np.float32).T


SQUARE = RNG.standard_normal((9, 9), dtype=np.float32)


def run(capsys, *arguments):
    status = main(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def say(found):
    return {side.name: (side.verdict, str(side.cause or "")) for side in found.sides}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    torch.save({"weight": torch.from_numpy(W)}, "w.pt")
    np.save("sound.npy", SOUND)
    np.savetxt("narrow.csv", NARROW, delimiter=",")
    np.savez("all.npz", x=X, w=W, mine=SOUND, theirs=NARROW)
    return tmp_path


def test_files_of_several_kinds_with_a_problem(files, capsys):
    words = ["x=x.npy", "w=w.pt:weight", "mine=sound.npy", "theirs=narrow.csv"]
    status, out, _ = run(capsys, "explain", "--problem", TEXT, *words, "--json")
    assert status == 1
    sides = {side["name"]: side for side in json.loads(out)["sides"]}
    assert sides["mine"]["verdict"] in ("identical", "rounding")
    assert (sides["theirs"]["verdict"], sides["theirs"]["cause"]) == ("downgrade", "reduced-precision-operands")
    assert run(capsys, "explain", "--problem", TEXT, *words[:3])[0] == 0


@pytest.mark.parametrize("first", [TEXT, f"  {TEXT} dtype=float32", parse_problem_text(TEXT)])
def test_a_problem_may_stand_first(files, first, capsys):
    assert say(explain(first, x=X, w=W, theirs=NARROW)) == {"theirs": ("downgrade", "reduced-precision-operands")}
    with pytest.raises(ArgumentError, match="a problem alone has no result to explain"):
        explain(first)
    if isinstance(first, str):
        assert run(capsys, "explain", first, "x=x.npy", "w=w.pt:weight", "mine=sound.npy")[0] == 0


def test_a_problem_may_stand_before_arrays_by_position(files):
    assert say(explain(TEXT, SOUND, NARROW, x=X, w=W))["b"] == ("downgrade", "reduced-precision-operands")


def test_files_with_spaces_and_signs_in_their_names_are_files(files):
    (files / "run lr=0.1.npz").write_bytes((files / "all.npz").read_bytes())
    found = explain("run lr=0.1.npz:mine", "run lr=0.1.npz:theirs")
    assert [side.name for side in found.sides] == ["mine", "theirs"]
    with pytest.raises(SamebitsError, match=r"No such file|does not exist"):
        explain("typo dir=3/log.txt")


def test_single_numbers_are_compared(files):
    found = explain(mine=np.array(1.0, np.float32), theirs=np.array(1.5, np.float32))
    assert found.verdict == "undecided"


def test_a_file_whose_name_reads_like_a_problem_is_a_file(files):
    (files / "linear x=16x64 w=8x64").write_bytes((files / "all.npz").read_bytes())
    assert {side.name for side in explain(TEXT, problem=TEXT).sides} == {"mine", "theirs"}


def test_two_arrays_of_one_file_are_two_results(files, capsys):
    status, out, _ = run(capsys, "explain", "all.npz:mine", "all.npz:theirs", "--json")
    assert (status, [side["name"] for side in json.loads(out)["sides"]]) == (1, ["mine", "theirs"])
    for words, says in (
        (("all.npz:mnie", "all.npz:theirs"), "all.npz has no array 'mnie', only x, w, mine, theirs"),
        (("all.npz:mine", "all.npz:mine"), "all.npz:mine is named twice"),
        (("all.npz", "all.npz"), "all.npz is named twice"),
    ):
        status, out, error = run(capsys, "explain", *words)
        assert (status, out, error.count("\n")) == (2, "", 1)
        assert says in error


def test_a_misspelt_file_is_told_from_what_was_meant(files, capsys):
    for words, says in (
        (("explain", "sound.npy", "narow.csv"), "did you mean narrow.csv?"),
        (("explain", "x=y.npy", "w=w.pt:weight", "mine=somd.npy"), "No such file"),
        (("compare", "net.onx", "--on", "numpy"), "'net.onx' is no kind of problem, and no model file that is there"),
        (("compare", "sound.npy narrow.csv", "--on", "numpy"), "files of arrays are for samebits explain"),
    ):
        status, out, error = run(capsys, *words)
        assert (status, out, error.count("\n")) == (2, "", 1)
        assert says in error


def test_files_without_names_beside_named_ones_are_results(files, capsys):
    status, out, _ = run(capsys, "explain", "x=x.npy", "w=w.pt:weight", "sound.npy", "narrow.csv", "--json")
    assert (status, [side["name"] for side in json.loads(out)["sides"]]) == (1, ["sound", "narrow"])
    status, out, _ = run(capsys, "explain", "w=w.pt:weight", "x.npy", "sound.npy", "--json")
    assert (status, [side["name"] for side in json.loads(out)["sides"]]) == (0, ["sound"])


@pytest.mark.parametrize("make", [lambda a: a, torch.from_numpy, np.ndarray.tolist, np.asfortranarray])
def test_any_librarys_arrays_in_python(make):
    found = explain(problem=TEXT, x=make(X), w=make(W), theirs=NARROW)
    assert say(found) == {"theirs": ("downgrade", "reduced-precision-operands")}


def test_results_beside_a_case(files):
    np.savez("case.npz", problem=TEXT, x=X, w=W, a=SOUND)
    assert set(say(explain("case.npz", mine=NARROW))) == {"a", "mine"}


def test_the_only_product_of_these_shapes_needs_no_problem(files, capsys):
    status, out, _ = run(capsys, "explain", "all.npz", "--json")
    found = json.loads(out)
    assert (status, [side["name"] for side in found["sides"]]) == (1, ["mine", "theirs"])
    assert parse_problem_text(found["problem"]) == parse_problem_text(TEXT)


def test_where_shapes_allow_several_problems_they_can_be_typed(files, capsys):
    """Of a square array of weights both ways to read it; of a convolution what its padding may be."""
    np.savez("square.npz", x=X[:, :8], w=W[:8, :8], y=X[:, :8] @ W[:8, :8].T)
    x, w = np.ones((1, 2, 9, 9), np.float32), np.ones((4, 2, 3, 3), np.float32)
    np.savez("kernel.npz", x=x, w=w, y=np.ones((1, 4, 9, 9), np.float32))
    for name, expected in (
        ("square.npz", "linear x=16x8 w=8x8"),
        ("kernel.npz", "conv2d x=1x2x9x9 w=4x2x3x3 padding=1"),
    ):
        status, _, err = run(capsys, "explain", name)
        assert (status, err.count("\n")) == (2, 1)
        offered = err.split('"')[1]
        assert parse_problem_text(offered) == parse_problem_text(expected)
        status, out, _ = run(capsys, "explain", name, "--problem", offered, "--json")
        assert json.loads(out)["sides"][0]["name"] == "y"


@pytest.mark.parametrize(
    "text",
    [
        "matmul x=3x8 w=8x5",
        "linear x=2x3x8 w=5x8 bias",
        "matmul x=4x3x8 w=8x5",
        "linear x=9x8 w=5x8 dtype=float16",
        "conv1d x=2x4x20 w=6x4x3 padding=1",
        "conv2d x=2x4x9x9 w=6x4x3x3 padding=1 bias",
        "conv2d x=1x8x14x14 w=8x1x3x3 groups=8 stride=2 padding=1",
        "conv2d x=1x4x14x14 w=6x4x3x3 dilation=2",
        "conv3d x=1x2x6x6x6 w=4x2x3x3x3",
        "conv_transpose2d x=1x4x7x7 w=4x3x2x2 stride=2",
        "linear.grad_weight x=9x8 w=5x8",
        "linear.grad_input x=9x8 w=5x8",
        "conv2d.grad_weight x=2x4x9x9 w=6x4x3x3 padding=1",
        "conv2d.grad_input x=2x4x9x9 w=6x4x3x3 padding=1",
    ],
)
def test_the_problem_is_among_those_that_its_shapes_allow(text):
    problem = parse_problem_text(text)
    dtype = np.dtype(problem.dtype)
    given = {name: np.zeros(shape, dtype) for name, shape in problem.operand_shapes.items()}
    offered = offer_problems({**given, "y": np.zeros(problem.out_shape, dtype)})
    assert problem in map(parse_problem_text, offered)


def test_shapes_of_no_problem_are_refused():
    with pytest.raises(CaseFileError, match="no convolution or product has these shapes: x=3x4, w=5x6"):
        explain(x=np.zeros((3, 4), np.float32), w=np.zeros((5, 6), np.float32), a=np.zeros(3, np.float32))
    with pytest.raises(CaseFileError, match="w is needed"):
        explain(x=X, a=SOUND)


def test_operands_of_a_narrower_dtype_than_the_problem_says_are_not_guessed():
    with pytest.raises(OperandError, match=r"float16 and the problem says float32; did you mean '.* dtype=float16'"):
        explain(problem=TEXT, x=X.astype(np.float16), w=W.astype(np.float16), a=SOUND)


def test_wider_arrays_are_taken_where_their_numbers_fit():
    found = explain(problem=TEXT, x=X.astype(np.float64), w=W, a=SOUND.astype(np.float64))
    assert say(found)["a"][0] in ("identical", "rounding")
    with pytest.raises(OperandError, match="numbers that float32 has not"):
        explain(problem=TEXT, x=X.astype(np.float64) + 1e-12, w=W, a=SOUND)


# Two results without operands.


@pytest.mark.parametrize(
    ("other", "says", "cause"),
    [
        (SOUND.astype(np.float16).astype(np.float32), "has a's values, rounded to float16", "result-rounding"),
        (SOUND.astype(ml_dtypes.bfloat16).astype(np.float32), "has a's values, rounded to bfloat16", "result-rounding"),
        (np.maximum(SOUND, 0), "is at least 0, a is not, and else the same", ""),
        (SOUND * np.float32(0.5), None, ""),
        (SOUND[:, ::-1], "has a's values with axis 1 reversed", "axis-order"),
    ],
)
def test_a_rule_that_makes_one_result_of_the_other(other, says, cause):
    found = explain(a=SOUND, b=np.ascontiguousarray(other))
    assert found.verdict == "undecided"
    assert found.sides[1].says == says
    assert str(found.cause or "") == cause
    assert found.sides[0].says == (None if says else "is 2 times b")


def test_only_what_is_known_is_said_of_two_results_that_differ_anyhow():
    found = explain(a=SOUND, b=NARROW)
    assert (found.verdict, found.cause) == ("undecided", None)
    differing = int((SOUND != NARROW).sum())
    assert found.differences[0].differing == differing
    assert found.differences[0].max_abs == np.abs(SOUND.astype(np.float64) - NARROW).max()
    assert any(f"{differing} of 128 values differ" in e.says for e in found.evidence)


def test_two_files_of_results_in_python(files):
    assert explain("sound.npy", "all.npz:mine").verdict == "identical"


def test_a_bias_that_the_problem_does_not_name():
    """A linear layer with a bias, asked about without it: the numbers that were added are said to be that."""
    bias = np.linspace(1, 8, 8, dtype=np.float32)
    found = explain(problem=TEXT, x=X, w=W, a=SOUND + bias)
    assert (found.verdict, found.sides[0].says) == (
        "wrong",
        "adds a number of its own to each channel, as a bias would that the problem does not name",
    )
    named = explain(problem=f"{TEXT} bias", x=X, w=W, bias=bias, a=(SOUND.astype(np.float64) + bias).astype(np.float32))
    assert named.verdict in ("rounding", "identical")
    # A factor beside it is no bias.
    assert "scales and shifts" in explain(problem=TEXT, x=X, w=W, a=SOUND * (bias + 1) + bias).sides[0].says


def test_where_two_results_differ():
    other = SOUND.copy()
    other[:, 5] += 1
    said = [e.says for e in explain(a=SOUND, b=other).evidence]
    assert "they differ only in axis 1 = 5" in said
    square = RNG.standard_normal((12, 12), dtype=np.float32)
    assert "they differ only below the diagonal" in [e.says for e in explain(a=square, b=np.triu(square)).evidence]


def test_equal_bits_equal_values_and_exchanged_axes(files, capsys):
    assert explain(a=SOUND, b=SOUND.copy()).verdict == "identical"
    assert run(capsys, "explain", "sound.npy", "all.npz:mine")[0] == 0
    # The same numbers elsewhere are no identical results.
    for b in (np.ascontiguousarray(SOUND.T), np.ascontiguousarray(SQUARE.T)):
        turned = explain(a=SOUND if b.shape == (8, 16) else SQUARE, b=b)
        assert (turned.verdict, str(turned.cause)) == ("undecided", "axis-order")
        assert turned.sides[1].says == "has a's values with the axes in the sequence 1, 0"
    # Of other numbers nothing is said but how they were compared.
    unlike = explain(a=SOUND, b=np.ascontiguousarray(NARROW.T))
    assert (unlike.verdict, unlike.cause, unlike.sides[1].says) == ("undecided", None, None)
    assert unlike.evidence[0].says == "a is compared with its axes in the sequence 1, 0"
    zeros = np.zeros(8, np.float32)
    signed = explain(a=zeros, b=-zeros)
    assert signed.verdict == "undecided"
    assert any("the values are equal, the bits are not" in e.says for e in signed.evidence)
    assert explain(a=SOUND, b=SOUND.astype(np.float64)).verdict == "undecided"


def test_three_results_are_each_compared_with_the_first():
    found = explain(a=SOUND, b=SOUND, c=NARROW)
    assert [f.verdict for f in (found, *found.more)] == ["identical", "undecided"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sound.npy"], "is one array: give another result, or operands as well"),
        (["a=sound.npy"], "one result alone says nothing"),
        (["sound.npy", "x.npy"], "shapes|needed"),
        (["x=w.pt:weight", "w=sound.npy", "x.npy", "sound.npy"], "x.npy would be x, which is given"),
        (["x=x.npy", "w=w.pt:weight", "all.npz", "sound.npy"], "name each file"),
        (["a=sound.npy", "a=x.npy"], "a is given twice"),
        (["sound.npy", "sound.npy"], "named twice"),
        (["a=nothing.npy", "b=sound.npy"], "No such file"),
        (["a=sound.npy", "b=narrow.csv", "--like", "torch"], "needs operands"),
        (["--problem", TEXT, "x=x.npy", "mine=sound.npy"], "operand w is missing"),
        (["--problem", TEXT, "x=x.npy", "w=w.pt", "dy=sound.npy"], "dy is given"),
        (["--problem", TEXT, "x=x.npy", "w=w.pt", "mine=x.npy"], "16x64"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(files, capsys, words, says):
    status, out, err = run(capsys, "explain", *words)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert any(one in err for one in says.split("|"))


def test_neither_subject_nor_arrays():
    with pytest.raises(ArgumentError, match="arrays are needed"):
        explain()


# Case files.


def test_a_case_file_is_written_shown_and_added_to(files, capsys):
    status, out, _ = run(capsys, "case", "new.npz", "--problem", TEXT, "x=x.npy", "w=w.pt", "mine=sound.npy", "--json")
    shown = json.loads(out)
    assert (status, shown["problem"]) == (0, f"{TEXT} dtype=float32")
    assert [(a["name"], a["role"], a["shape"]) for a in shown["arrays"]] == [
        ("x", "operand", [16, 64]),
        ("w", "operand", [8, 64]),
        ("mine", "result", [16, 8]),
    ]
    assert [a["largest"] for a in shown["arrays"]] == [float(a.max()) for a in (X, W, SOUND)]
    assert run(capsys, "case", "new.npz", "theirs=narrow.csv")[0] == 0
    assert say(explain("new.npz"))["theirs"] == ("downgrade", "reduced-precision-operands")
    status, _, err = run(capsys, "case", "new.npz", "theirs=sound.npy")
    assert (status, "already" in err) == (2, True)


def test_an_archive_without_a_problem_is_shown_with_what_to_ask(files, capsys):
    status, out, _ = run(capsys, "case", "all.npz")
    assert status == 0
    assert 'samebits explain all.npz --problem "linear x=16x64 w=8x64 dtype=float32"' in out
    assert run(capsys, "case", "nothing.npz")[0] == 2
    assert run(capsys, "case", "x.npy", "mine=sound.npy")[0] == 2


@pytest.mark.parametrize(("change", "says"), [(0.0, "as printed, all 15 values agree"), (0.01, "as printed, 1 of 15")])
def test_results_printed_with_few_digits_are_compared_as_far_as_they_go(tmp_path, change, says):
    first = torch.from_numpy(RNG.standard_normal((3, 5), dtype=np.float32) * 4)
    second = first + 1e-6
    second[1, 2] += change
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path, values in zip(paths, (first, second), strict=True):
        path.write_text(str(values))
    found = explain(*paths)
    assert found.verdict == "undecided"
    assert found.evidence[0].says.startswith(says)
    assert "less than 0.0001 was not printed" in found.evidence[1].says
    assert found.cause is None


@pytest.mark.parametrize(("name", "shape"), [("x", (16, 60)), ("w", (8, 60)), ("w", (512,))])
def test_an_operand_of_another_shape_is_named(name, shape):
    arrays = {"x": X, "w": W, "mine": SOUND, name: np.ones(shape, np.float32)}
    given = "x".join(map(str, shape))
    with pytest.raises(OperandError, match=f"{name} has the shape {given}, and 'linear x=16x64 w=8x64"):
        explain(problem=TEXT, **arrays)


@pytest.mark.parametrize("text", ["padding=(1,2)", "padding=[1,2]", "padding=1,2", "padding=1x2"])
def test_sizes_as_python_writes_them(text):
    assert parse_problem_text(f"conv2d x=1,3,8,8 w=(4,3,3,3) {text}").padding == ((1, 1), (2, 2))


@pytest.mark.parametrize(
    ("text", "off", "differing"),
    [
        ("1.234 2.345 3.456", 4e-4, 0),
        ("1.234 2.345 3.456", 6e-4, 3),
        # Each number has a last digit of its own: that of the second is tenths.
        ("1.234e0 2.345e2", 6e-4, 1),
        ("1.234e0 2.345e2", 6e-2, 2),
    ],
)
def test_half_of_a_printed_digit_is_no_difference(tmp_path, text, off, differing):
    (tmp_path / "printed.txt").write_text(text)
    exact = np.float32([float(number) + off for number in text.split()])
    found = explain(a=exact, b=tmp_path / "printed.txt")
    assert found.differences[0].differing == differing


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("c0,c1\n1.5,2.5\n", "begins with names of columns"),
        (",0,1\n0,1.5,2.5\n", "begins with names of columns"),
        ("1,5;2,5\n3,5;4,5\n", "where a comma is a decimal point, write a point"),
        ("1.5;2.5\n3.5;4.5\n", None),
        ("nan,inf\n1,2\n", None),
        ("1.5\t2.5\n3.5\t4.5\n", None),
        ("1.5e3 -2\n3 4\n", None),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_tables_as_spreadsheets_and_pandas_write_them(tmp_path, text, says, encoding):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding)
    if says:
        with pytest.raises(SamebitsError, match=says):
            explain(path, np.zeros((2, 2)))
    else:
        found = explain(path, np.loadtxt(io.StringIO(text.replace(",", " ").replace(";", " "))))
        assert found.differences == [] or found.differences[0].differing == 0


def test_results_by_position_in_python(files):
    found = explain(SOUND, NARROW)
    assert [side.name for side in found.sides] == ["a", "b"]
    assert [side.name for side in explain(torch.from_numpy(SOUND), "narrow.csv").sides] == ["a", "narrow"]
    assert explain(SOUND, SOUND.copy()).verdict == "identical"
    assert explain(SOUND.tolist(), NARROW.tolist()).verdict == "undecided"
    with pytest.raises(SamebitsError, match="one result alone"):
        explain(SOUND)
    np.save("a.npy", SOUND)
    with pytest.raises(SamebitsError, match="by name"):
        explain(SOUND, "a.npy")


@pytest.mark.parametrize("dtype", ["", "dtype=float64"])
def test_lists_of_numbers_of_float32_are_float32_unless_the_problem_says_otherwise(dtype):
    text = f"{TEXT} {dtype}".strip()
    exact = X.astype(np.float64) @ W.T.astype(np.float64)
    result = exact.tolist() if dtype else SOUND.tolist()
    found = explain(problem=text, x=X.tolist(), w=W.tolist(), mine=result)
    assert found.verdict in ("identical", "rounding")
    assert found.problem == f"{TEXT} dtype={'float64' if dtype else 'float32'}"


def test_equal_numbers_in_another_dtype_are_said_to_be_equal():
    found = explain(a=SOUND, b=SOUND.astype(np.float64))
    assert (found.verdict, found.cause, found.sides[1].says) == ("undecided", None, None)
    assert "the values are equal, the bits are not (float32 and float64)" in found.summary


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda a: np.rint(a * 8) / 8, "has a's values, rounded to multiples of 0.125"),
        (lambda a: np.rint(a / np.float32(0.037)) * np.float32(0.037), "has a's values, rounded to multiples of 0.037"),
        (lambda a: np.rint(a * 4) + 3, "holds whole numbers only"),
        (lambda a: a * np.linspace(1, 2, 8, dtype=np.float32), None),
        # Of few levels any numbers may be multiples.
        (lambda a: np.sign(a) + a * 0, "is at least -1 and at most 1, a is not, and else the same"),
    ],
)
def test_a_result_on_a_grid_of_one_step_is_told_by_it(make, says):
    wide = SOUND * np.float32(4)
    found = explain(a=wide, b=make(wide).astype(np.float32))
    assert found.sides[1].says == says


def test_float64_rounded_to_float32_is_told():
    wide = RNG.standard_normal((9, 9))
    found = explain(a=wide, b=wide.astype(np.float32))
    assert found.sides[1].says == "has a's values, rounded to float32"


@pytest.mark.parametrize("least", [5e-324, 1e-300, 0.0])
def test_numbers_as_far_apart_as_can_be_are_no_grid_and_no_warning(least):
    values = np.array([least, -1.7e308, 1.7e308, *RNG.standard_normal(40)])
    found = explain(a=RNG.standard_normal(values.size), b=values)
    assert found.verdict == "undecided"
    assert not any("multiples" in str(side.says) for side in found.sides)
