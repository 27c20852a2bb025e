"""Profiles of integer kernels: of onnxruntime's own, and of kernels in plain Python behind a network's runner."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import samebits
from samebits import SamebitsError
from samebits.cli.app import main
from samebits.engines.runner import Identity
from samebits.networks.integer_problems import make_integer_network
from samebits.networks.model_runners import open_model_runner
from samebits.problems.integer_problem import parse_integer_problem
from samebits.progress import ignore_progress
from samebits.questions.profile.integer_profiling import profile_integers
from samebits.questions.profile.profiling import profile

TEXT = "linear x=12x16 w=8x16 dtype=uint8 weights=int8 out=uint8"


class Kernel:
    """Runs a network of one QLinearMatMul by a function of sums and scales, one number at a time."""

    text = "mine"

    def __init__(self, rescale, add=None):
        self.rescale, self.add = rescale, add

    def identify(self):
        return Identity(self.text, None, None, {})

    def run_network(self, network, inputs, observed, wanted, given):
        c = {name: network.constants[name] for name in network.constants}
        x = inputs["x"].astype(np.int64) - int(c["x_zero"])
        w = c["w"].astype(np.int64)
        sums = x @ w if self.add is None else self.add(inputs["x"].astype(np.int64), w) - int(c["x_zero"]) * w.sum(0)
        scales = c["x_scale"], c["w_scale"], c["y_scale"]
        codes = [[self.rescale(int(s), *scales, int(c["y_zero"])) for s in row] for row in sums]
        return {"y": np.clip(np.array(codes), 0, 255).astype(np.uint8)}

    def close(self):
        pass


def exactly(s, xs, ws, ys, zero):
    return round(s * Fraction(float(xs)) * Fraction(float(ws)) / Fraction(float(ys))) + zero


def zero_first(s, xs, ws, ys, zero):
    return int(np.rint(np.float32(s) * (xs * ws / ys) + np.float32(zero)))


def away(s, xs, ws, ys, zero):
    value = float(np.float32(s) * (xs * ws / ys))
    return int(math.copysign(math.floor(abs(value) + 0.5), value)) + zero


def other_order(s, xs, ws, ys, zero):
    return int(np.rint(np.float32(s) * (xs / ys * ws))) + zero


def divided(s, xs, ws, ys, zero):
    return int(np.rint(np.float32(s) * (xs * ws) / ys)) + zero


def cut(s, xs, ws, ys, zero):
    return int(np.float32(s) * (xs * ws / ys)) + zero


def gemmlowp(s, xs, ws, ys, zero):
    mantissa, exponent = math.frexp(float(xs) * float(ws) / float(ys))
    number = math.floor(mantissa * 2**31 + 0.5)
    if number == 2**31:
        number, exponent = number // 2, exponent + 1
    product = s * number
    nudged = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
    high = abs(nudged) // 2**31 * (1 if nudged >= 0 else -1)
    rest, half = high & ((1 << -exponent) - 1), ((1 << -exponent) - 1 >> 1) + (high < 0)
    return (high >> -exponent) + (rest > half) + zero


def ruy(s, xs, ws, ys, zero, product=None):
    """Plain Python's whole numbers: rounded up at bit 31, then at the shift."""
    mantissa, exponent = math.frexp((float(xs) * float(ws) if product is None else product) / float(ys))
    number = math.floor(mantissa * 2**31 + 0.5)
    if number == 2**31:
        number, exponent = number // 2, exponent + 1
    held = s << max(exponent, 0)
    high, shift = (held * number + 2**30) // 2**31, max(-exponent, 0)
    return (high + (2**shift // 2)) // 2**shift + zero


def ruy_of_float32(s, xs, ws, ys, zero):
    return ruy(s, xs, ws, ys, zero, float(np.float32(xs) * np.float32(ws)))


def saturate(x, w):
    """vpmaddubsw, pair by pair."""
    total = np.zeros((len(x), w.shape[1]), np.int64)
    for i, j in np.ndindex(total.shape):
        for k in range(0, x.shape[1], 2):
            total[i, j] += max(-32768, min(32767, int(x[i, k] * w[k, j] + x[i, k + 1] * w[k + 1, j])))
    return total


@pytest.mark.parametrize(
    ("rescale", "says"),
    [
        (zero_first, "(times x_scale w_scale / y_scale) and adds the zero point and rounds halves to even"),
        (away, "rounds halves away from zero"),
        (other_order, "(times (x_scale / y_scale) w_scale) and rounds halves to even"),
        (divided, "(times x_scale w_scale, divided by y_scale) and rounds halves to even"),
        (cut, "cuts off in place of rounding"),
        (gemmlowp, "rounds twice, as gemmlowp does"),
        (ruy, "31 bits and rounds twice, halves up both times, as ruy does"),
        (ruy_of_float32, "(of x_scale w_scale in float32) and rounds twice, halves up both times, as ruy does"),
    ],
)
@pytest.mark.parametrize("add", [None, saturate])
def test_how_a_kernel_adds_and_rescales_is_found(rescale, says, add):
    found = profile_integers(Kernel(rescale, add), parse_integer_problem(TEXT), ignore_progress)
    assert says in found.summary
    assert found.replay.matched == 1
    assert (found.accumulator == "int32") == (add is None)


def test_a_kernel_that_is_right_to_the_last_half_is_rescaled_in_float64():
    found = profile_integers(Kernel(exactly), parse_integer_problem(TEXT), ignore_progress)
    assert "rescales in float64" in found.summary
    assert found.replay.matched == 1


@pytest.mark.needs("onnxruntime")
@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "linear x=7x33 w=9x33 bias dtype=uint8 weights=uint8 out=uint8",
        "matmul x=4x20 w=20x6 dtype=int8 weights=int8 out=int32",
        "conv2d x=1x4x6x6 w=4x4x3x3 padding=1 bias dtype=uint8 weights=int8 out=uint8 scale=channel",
        "conv1d x=2x3x20 w=6x3x5 stride=2 dtype=uint8 weights=uint8 out=uint8",
    ],
)
def test_onnxruntime_is_replayed_to_the_last_code(text):
    found = profile("onnxruntime:threads=1", text)
    assert found.replay.matched == 1
    if "out=int32" not in text:
        assert "(times x_scale w_scale / y_scale) and rounds halves to even" in found.summary


@pytest.mark.needs("litert")
@pytest.mark.parametrize("kernels", ["xnnpack", "builtin", "reference"])
@pytest.mark.parametrize(
    "text",
    [
        "linear x=8x64 w=32x64 bias dtype=int8 weights=int8 out=int8",
        "linear x=3x5x20 w=7x20 dtype=uint8 weights=uint8 out=uint8",
        "conv2d x=1x8x9x9 w=8x8x3x3 padding=1 bias dtype=int8 weights=int8 out=int8 scale=channel",
        "conv2d x=2x6x9x7 w=6x1x3x3 groups=6 stride=2 padding=0:1x1:2 dtype=int8 weights=int8 out=int8 scale=channel",
        "conv2d x=1x4x8x8 w=6x4x2x3 dilation=2 bias dtype=uint8 weights=uint8 out=uint8",
    ],
)
def test_litert_is_replayed_to_the_last_code(text, kernels):
    found = profile(f"litert:kernels={kernels}", text)
    assert (found.failure, found.replay.matched, found.accumulator) == (None, 1, "int32")


@pytest.mark.needs("litert")
@pytest.mark.parametrize("kernels", ["xnnpack", "builtin", "reference"])
def test_litert_computes_the_product_that_was_asked_for(kernels):
    """By fractions: the exact result to the nearest code, or beside it where it is near a half."""
    text = "conv2d x=1x3x6x5 w=4x3x2x3 bias padding=1:0x0:1 stride=2x1 dtype=int8 weights=int8 out=int8 scale=channel"
    network, _ = make_integer_network(text)
    x = np.random.default_rng(1).integers(-128, 128, (1, 3, 6, 5)).astype(np.int8)
    runner = open_model_runner(f"litert:kernels={kernels}", time_limit_s=60, codes=True)
    try:
        y = runner.run_network(network, {"x": x}, [], ["y"], {})["y"]
    finally:
        runner.close()
    c = network.constants
    padded = np.pad(x.astype(int) - int(c["x_zero"]), ((0, 0), (0, 0), (1, 0), (0, 1)))
    assert y.shape == (1, 4, 3, 4)
    for o, i, j in np.ndindex(y.shape[1:]):
        window = padded[0, :, 2 * i : 2 * i + 2, j : j + 3]
        total = int((window * c["w"][o].astype(int)).sum()) + int(c["bias"][o])
        real = total * Fraction(float(c["x_scale"])) * Fraction(float(c["w_scale"][o])) / Fraction(float(c["y_scale"]))
        nearest = max(-128, min(127, round(real) + int(c["y_zero"])))
        is_beside_half = abs(real - math.floor(real) - Fraction(1, 2)) < Fraction(1, 64)
        assert abs(int(y[0, o, i, j]) - nearest) <= is_beside_half


@pytest.mark.needs("litert")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("linear x=4x8 w=4x8 dtype=uint8 weights=int8 out=uint8", "codes of one dtype, not int8 by uint8"),
        ("linear x=4x8 w=4x8 dtype=uint8 weights=uint8 out=uint8 scale=channel", "unsigned weights have one scale"),
        ("linear x=4x8 w=4x8 dtype=int8 weights=int8 out=int32", "not for MatMulInteger"),
        ("conv1d x=1x2x9 w=2x2x3 dtype=int8 weights=int8 out=int8", "two axes"),
    ],
)
def test_what_litert_has_not_is_said(text, says):
    (side,) = samebits.compare(text, ["litert"]).sides
    assert side.failure.kind == "unsupported"
    assert says in side.failure.says


@pytest.mark.needs("onnxruntime")
def test_the_command_prints_and_writes_it(capsys, tmp_path):
    assert main(["profile", "onnxruntime", TEXT]) == 0
    assert "REPLAYED" in capsys.readouterr().out
    assert main(["profile", "onnxruntime", TEXT, "--json"]) == 0
    said = capsys.readouterr().out
    assert json.loads(said)["replay"]["matched"] == 1
    (tmp_path / "p.json").write_text(said)
    assert main(["report", str(tmp_path / "p.json"), "-o", str(tmp_path / "p.html")]) == 0


@pytest.mark.parametrize(
    ("engine", "text", "says"),
    [
        ("onnxruntime", TEXT.replace("out=uint8", "out=float32"), "out=uint8, int8 or int32"),
        ("emulate:direct", TEXT, "on engines that take them"),
    ],
)
def test_what_is_not_profiled_is_one_line(engine, text, says):
    with pytest.raises(SamebitsError) as refused:
        profile(engine, text)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
