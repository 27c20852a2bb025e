"""Profiles of integer kernels: of onnxruntime's own, and of kernels in plain Python behind a network's runner."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from samebits import SamebitsError
from samebits.cli.app import main
from samebits.engines.runner import Identity
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
        ("emulate:direct", TEXT, "on engines that run ONNX"),
    ],
)
def test_what_is_not_profiled_is_one_line(engine, text, says):
    with pytest.raises(SamebitsError) as refused:
        profile(engine, text)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
