"""Problems on integers: the operator that is made computes what its text says, and engines are judged on it.

Expected results are plain NumPy's: sums of whole numbers, and decimals of the scales rounded half to even.
"""

import itertools
from fractions import Fraction

import numpy as np
import onnxruntime
import pytest

import samebits
from naive_convolution import convolve
from samebits.cli import main
from samebits.errors import ProblemTextError, SamebitsError
from samebits.networks.integer_problems import make_integer_network
from samebits.problems import parse_problem_text
from samebits.problems.integer_problem import is_integer_problem
from samebits.questions.list.table_changes import list_rows

SHAPES = ("linear x=5x24 w=6x24", "matmul x=2x3x8 w=8x5", "conv2d x=2x4x7x6 w=6x4x3x3 stride=2 padding=1",
          "conv1d x=1x8x12 w=8x2x3 groups=4 dilation=2", "conv2d x=1x3x6x6 w=4x3x2x2 padding=1:0x0:1 bias")  # fmt: skip
FORMS = ("dtype=uint8 weights=int8", "dtype=uint8 weights=uint8 out=uint8", "dtype=int8 weights=int8 out=int8",
         "dtype=uint8 weights=int8 out=uint8 scale=channel", "dtype=uint8 weights=int8 out=float32",
         "dtype=uint8 weights=int8 out=float32 scale=channel")  # fmt: skip


def sum_codes(plain, x, w):
    """The integer sums, term by term, of codes less their zero points."""
    if plain.kind in ("linear", "matmul"):
        return x @ w
    return convolve(plain, {"x": x, "w": w})


def draw(network, ranges, seed=1):
    type_ = network.inputs["x"]
    low, high = ranges["x"]
    return np.random.default_rng(seed).integers(int(low), int(high) + 1, type_.shape).astype(type_.dtype)


def run_precisely(network, x):
    """onnxruntime without graph changes and without sums of pairs in 16 bits."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(network.stored.SerializeToString(), options)
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize(("shape", "form"), list(itertools.product(SHAPES, FORMS)))
def test_the_operator_computes_what_the_text_says(shape, form):
    network, ranges = make_integer_network(f"{shape} {form}")
    plain = parse_problem_text(shape)
    c = network.constants
    # Small codes, so that no processor's pairs overflow.
    x = (c["x_zero"].astype(np.int64) + draw(network, ranges) % 8).astype(c["x_zero"].dtype)
    zeros = c["w_zero"].astype(np.int64)
    if zeros.ndim and plain.kind.startswith("conv"):
        zeros = zeros.reshape(-1, *(1,) * (c["w"].ndim - 1))
    w = c["w"].astype(np.int64) - zeros
    sums = sum_codes(plain, x.astype(np.int64) - int(c["x_zero"]), w)
    got = run_precisely(network, x)
    if "out=" not in form:
        expected = sums + (c["bias"] if plain.bias else 0)
        assert got.dtype == np.int32
        assert np.array_equal(got, expected)
        return
    along = (1, -1, *(1,) * (sums.ndim - 2)) if plain.kind.startswith("conv") else (-1,)
    if "out=float32" in form:
        expected = sums * c["scale"].astype(np.float64) + (c["bias"].astype(np.float64) if plain.bias else 0)
        # Sums of so few small codes are exact; the product is rounded once, and the sum with the bias once.
        assert np.abs(sums).max() < 2**24
        products = np.abs(sums * c["scale"].astype(np.float64))
        assert (np.abs(got - expected) <= 2.0**-24 * (products * (1 + 2.0**-24) + np.abs(expected)) + 2.0**-149).all()
        return
    total = sums + (c["bias"].astype(np.int64).reshape(along) if plain.bias else 0)
    scales = np.broadcast_to(np.atleast_1d(c["w_scale"]).reshape(along), total.shape)
    least, most = np.iinfo(got.dtype).min, np.iinfo(got.dtype).max
    for value, scale, result in zip(total.ravel(), scales.ravel(), got.ravel(), strict=True):
        exact = int(value) * Fraction(float(c["x_scale"])) * Fraction(float(scale)) / Fraction(float(c["y_scale"]))
        nearest = min(max(round(exact) + int(c["y_zero"]), least), most)
        # One step off where float32 rounds a decimal about half way.
        assert abs(int(result) - nearest) <= (abs(exact - round(exact)) > Fraction(499, 1000))


@pytest.mark.parametrize(
    "text",
    [
        "linear x=4x64 w=16x64 weights=uint4",
        "linear x=4x70 w=10x70 weights=uint4 scale=group:16",
        "linear x=2x3x32 w=8x32 weights=int4 scale=group:32 dtype=float16",
    ],
)
def test_weights_in_4_bits_are_read_back_as_the_operator_says(text):
    """Block by block, a half of a byte at a time, in loops: what onnxruntime's description of MatMulNBits says."""
    network, _ = make_integer_network(text)
    c, plain = network.constants, parse_problem_text(" ".join(text.split()[:3]))
    size = int(text.partition("group:")[2].split(" ")[0] or 32)
    columns, length = plain.w
    blocks = -(-length // size)
    rows = np.zeros((columns, length))
    for n, k in itertools.product(range(columns), range(length)):
        block, inside = divmod(k, size)
        code = int(c["w"][n, block, inside // 2]) >> (4 * (inside % 2)) & 15
        zero = 8
        if "uint4" in text:
            zero = int(c["w_zero"].reshape(columns, -1)[n, block // 2]) >> (4 * (block % 2)) & 15
        rows[n, k] = (code - zero) * float(c["w_scale"].reshape(columns, blocks)[n, block])
    x = np.random.default_rng(2).uniform(-1, 1, plain.x).astype("float16" if "float16" in text else "float32")
    expected, got = x.astype(np.float64) @ rows.T, run_precisely(network, x)
    assert got.dtype == x.dtype
    # A weight, each product and each of the sums may be rounded, and the result.
    unit = 2.0**-11 if "float16" in text else 2.0**-24
    growth = (1 + unit) ** (length + 3) - 1
    assert (np.abs(got - expected) <= growth * (np.abs(x.astype(np.float64)) @ np.abs(rows).T)).all()
    assert samebits.compare(text, ["onnxruntime"]).verdict in ("rounding", "identical")


def test_results_use_their_range_and_few_are_clamped():
    network, ranges = make_integer_network("linear x=64x256 w=64x256 dtype=uint8 weights=int8 out=uint8")
    c, x = network.constants, draw(network, ranges)
    sums = (x.astype(np.int64) - int(c["x_zero"])) @ c["w"].astype(np.int64)
    codes = np.rint(sums * float(c["x_scale"]) * float(c["w_scale"]) / float(c["y_scale"])) + int(c["y_zero"])
    assert np.ptp(codes) > 150
    assert ((codes < 0) | (codes > 255)).mean() < 0.02


def test_an_exact_engine_is_right_and_one_that_saturates_is_not(monkeypatch):
    """NumPy's own reference of the operator, and the same with pairs kept in 16 bits."""
    text = "linear x=8x64 w=16x64 dtype=uint8 weights=int8"
    network, ranges = make_integer_network(text)
    found = samebits.compare(text, ["onnxruntime"])
    c, x = network.constants, draw(network, ranges)
    # The product of the processor at hand, judged by plain NumPy on other codes.
    zero, w = int(c["x_zero"]), c["w"].astype(np.int64)
    exact = (x.astype(np.int64) - zero) @ w
    is_exact = np.array_equal(run_precisely(network, x), exact)
    pairs = x.astype(np.int64)[:, 0::2, None] * w[None, 0::2] + x.astype(np.int64)[:, 1::2, None] * w[None, 1::2]
    overflows = (np.clip(pairs, -(2**15), 2**15 - 1) != pairs).any()
    assert overflows
    assert found.verdict == ("identical" if is_exact else "wrong")
    if not is_exact:
        assert str(found.sides[0].cause) == "int8-saturation"


def test_the_command_takes_integers_and_says_what_it_does_not_take(capsys):
    assert (
        main(["compare", "conv2d x=1x3x6x6 w=4x3x3x3 dtype=uint8 weights=uint8", "--on", "onnxruntime", "--json"]) == 0
    )
    assert '"samebits.model/1"' in capsys.readouterr().out
    assert main(["pick", "linear x=4x8 w=4x8 dtype=int8", "--on", "onnxruntime"]) == 2
    assert "integers are for samebits compare, profile, explain and lists" in capsys.readouterr().err


def test_lists_take_integers(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "l.txt").write_text("linear x=4x8 w=6x8 dtype=uint8 weights=uint8 out=uint8\nlinear x=2x8 w=2x8\n")
    on = ["--on", "onnxruntime", "--on", "torch"]
    assert main(["sweep", "l.txt", *on, "-o", "t.parquet"]) == 0
    rows = [row for row in list_rows(tmp_path / "t.parquet") if row.unit is None]
    text = "linear x=4x8 w=6x8 dtype=uint8 weights=uint8 out=uint8"
    found = {(row.subject, row.side): row.verdict or row.failure for row in rows}
    assert found[text, "torch"] == "unsupported"
    assert {found[text, "onnxruntime"], found["linear x=2x8 w=2x8", "torch"]} <= {"identical", "rounding"}
    assert main(["sweep", "l.txt", "--on", "onnxruntime", "--do", "recipe", "-o", "r.parquet"]) == 0
    assert [row.replayed for row in list_rows(tmp_path / "r.parquet")] == [1, 1]
    capsys.readouterr()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("linear x=4x8 w=4x8 dtype=int4", "dtype is one of uint8, int8"),
        ("linear x=4x8 w=4x8 dtype=int8 out=float16", "out is one of"),
        ("linear x=4x8 w=4x8 dtype=int8 scale=row out=int8", "scale is one of"),
        ("linear x=4x8 w=4x8 dtype=int8 scale=channel", "no scale"),
        ("linear.grad_weight x=4x8 w=4x8 dtype=int8", "forward"),
        ("conv_transpose2d x=1x3x6x6 w=3x4x3x3 dtype=int8", "forward"),
        ("linear x=4x8 w=4x8 dtype=int8 then=relu", "then="),
        ("matmul x=2x4x8 w=2x8x4 dtype=int8", "matrix"),
        ("linear x=2x4x8 w=4x8 bias dtype=int8 out=int8", "matrix"),
        ("linear x=4x8 w=4x9 dtype=int8", "must be equal"),
        ("linear x=4x8 w=4x8 weights=uint4 dtype=int8", "4 bits dtype is one of float32, float16"),
        ("linear x=4x8 w=4x8 weights=uint4 scale=channel", "group:16, 32"),
        ("linear x=4x8 w=4x8 weights=uint4 bias", "without bias"),
        ("conv1d x=1x4x8 w=4x4x3 weights=int4", "4 bits are those"),
        ("linear x=4x8 dtype=int8", "w= is missing"),
    ],
)
def test_what_no_operator_computes_is_refused(text, says):
    with pytest.raises(SamebitsError, match=says) as raised:
        make_integer_network(text)
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, ProblemTextError) or "equal" in says


@pytest.mark.parametrize(
    "text", ["linear x=4x8 w=4x8", "net.onnx", "int8.py:make", "dtype=int8", 3, "", "linear x=4x8 w=4x8 dtype=float16"]
)
def test_other_subjects_are_none(text):
    assert not is_integer_problem(text)
