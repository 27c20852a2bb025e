"""Recorded codes of integer kernels, written here in plain Python: which are right, and what is wrong.

Right codes come from fractions; kernels are C code's steps on one number at a time.
"""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import samebits
from samebits.cli.app import main

ROWS, TERMS, COLUMNS = 40, 32, 12
TEXT = f"linear x={ROWS}x{TERMS} w={COLUMNS}x{TERMS} bias dtype=int8 out=int8 scale=channel"


def make_layer(seed=0, *, ties=False):
    """Codes, scales and zero points; with `ties` small sums and scales that are powers of two: many lie at halves."""
    rng = np.random.default_rng(seed)
    given = {
        "x": rng.integers(-128, 128, (ROWS, TERMS)).astype(np.int8),
        "w": rng.integers(-127, 128, (COLUMNS, TERMS)).astype(np.int8),
        "bias": rng.integers(-9000, 9000, COLUMNS).astype(np.int32),
        "x_scale": np.float32(0.0217), "w_scale": (0.004 * 2 ** rng.uniform(-1, 1, COLUMNS)).astype(np.float32),
        "y_scale": np.float32(0.137), "x_zero": np.int8(5), "y_zero": np.int8(-7),
    }  # fmt: skip
    if ties:
        exponents = rng.integers(-3, 0, COLUMNS)
        given |= {name: rng.integers(-3, 4, given[name].shape).astype(given[name].dtype) for name in ("x", "w", "bias")}
        given |= {
            "x_scale": np.float32(0.5),
            "w_scale": (2.0**exponents).astype(np.float32),
            "y_scale": np.float32(0.5),
        }
    return given


def sum_codes(g, x_zero=None, bias=None):
    zero = int(g["x_zero"]) if x_zero is None else x_zero
    return (g["x"].astype(np.int64) - zero) @ g["w"].astype(np.int64).T + (g["bias"] if bias is None else bias)


def limit(codes):
    return np.clip(codes, -128, 127).astype(np.int8)


def rescale(g, sums, one, scales=None):
    """Every sum by itself: `one` makes a whole number of a Python integer and three float32 numbers."""
    scales = g["w_scale"] if scales is None else scales
    made = [[one(int(s), g["x_scale"], w, g["y_scale"]) for s, w in zip(row, scales, strict=True)] for row in sums]
    return np.array(made, np.int64) + int(g["y_zero"])


def exactly(s, xs, ws, ys):
    return round(s * Fraction(float(xs)) * Fraction(float(ws)) / Fraction(float(ys)))


def split(xs, ws, ys):
    mantissa, exponent = math.frexp(float(xs) * float(ws) / float(ys))
    number = math.floor(mantissa * 2**31 + 0.5)
    return (number // 2, exponent + 1) if number == 2**31 else (number, exponent)


def gemmlowp(s, xs, ws, ys):
    number, exponent = split(xs, ws, ys)
    product = (s << max(exponent, 0)) * number
    nudged = product + ((1 << 30) if product >= 0 else 1 - (1 << 30))
    high = abs(nudged) // 2**31 * (1 if nudged >= 0 else -1)
    shift = max(-exponent, 0)
    rest, half = high & ((1 << shift) - 1), ((1 << shift) - 1 >> 1) + (high < 0)
    return (high >> shift) + (rest > half)


def round_once(s, xs, ws, ys):
    number, exponent = split(xs, ws, ys)
    return (s * number + (1 << (30 - exponent))) >> (31 - exponent)


def away(s, xs, ws, ys):
    value = float(np.float32(s) * (np.float32(xs) * np.float32(ws) / np.float32(ys)))
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def cut(s, xs, ws, ys):
    return int(float(np.float32(s) * (np.float32(xs) * np.float32(ws) / np.float32(ys))))


def explain(given, **results):
    return samebits.explain(problem=TEXT, **given, **results)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("ties", [False, True])
def test_the_right_codes_are_those_of_fractions(seed, ties):
    g = make_layer(seed, ties=ties)
    found = explain(g, mine=limit(rescale(g, sum_codes(g), exactly)))
    assert (found.verdict, found.sides[0].certainty) == ("identical", "bits")
    assert found.sides[0].error.max_abs == 0


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (gemmlowp, "rounds twice, as gemmlowp does"),
        (round_once, "halves up"),
        (away, "halves away from zero"),
    ],
)
def test_sound_kernels_are_within_the_bound_and_their_rounding_is_named(one, says):
    g = make_layer(1, ties=True)
    if one is gemmlowp:
        # The first rounding makes halves of what is none.
        g |= {"x_scale": np.float32(0.3), "w_scale": (g["w_scale"] * np.float32(1.1)).astype(np.float32)}
    found = explain(g, mine=limit(rescale(g, sum_codes(g), one)))
    (side,) = found.sides
    assert (side.verdict, side.cause, side.cause_certainty) == ("rounding", "requantization", "bits")
    assert side.replay.matched == 1
    assert says in side.says
    assert side.error.max_abs == 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("one", [gemmlowp, round_once, away])
def test_no_sound_kernel_is_wrong(seed, one):
    g = make_layer(seed, ties=seed % 2 == 0)
    found = explain(g, mine=limit(rescale(g, sum_codes(g), one)))
    assert found.verdict in ("identical", "rounding")


def saturated_pairs(g):
    """vpmaddubsw: unsigned times signed bytes, two products a time, in 16 bits; zero points put right afterwards."""
    x, w = g["x"].astype(np.int64) + 128, g["w"].astype(np.int64)
    total = np.zeros((ROWS, COLUMNS), np.int64)
    for i in range(ROWS):
        for j in range(COLUMNS):
            for k in range(0, TERMS, 2):
                pair = int(x[i, k] * w[j, k] + x[i, k + 1] * w[j, k + 1])
                total[i, j] += max(-32768, min(32767, pair))
    return total - (128 + int(g["x_zero"])) * w.sum(1) + g["bias"]


def wrapped(g):
    sums = sum_codes(g, bias=0)
    return (sums + 2**15) % 2**16 - 2**15 + g["bias"]


FAULTS = {
    "no zero point of x": ("dropped-attribute", "x's zero point out", lambda g: rescale(g, sum_codes(g, 0), exactly)),
    "other sign of it": (
        "dropped-attribute", "adds x's zero point", lambda g: rescale(g, sum_codes(g, -int(g["x_zero"])), exactly)
    ),
    "no bias": ("dropped-attribute", "the bias out", lambda g: rescale(g, sum_codes(g, bias=0), exactly)),
    "bias of the next": (
        "axis-order", "bias of the next channel",
        lambda g: rescale(g, sum_codes(g, bias=np.roll(g["bias"], -1)), exactly),
    ),
    "bias unscaled": (
        "dropped-attribute", "bias after rescaling", lambda g: rescale(g, sum_codes(g, bias=0), exactly) + g["bias"]
    ),
    "one scale": (
        "dropped-attribute", "the first channel's scale for all",
        lambda g: rescale(g, sum_codes(g), exactly, np.full(COLUMNS, g["w_scale"][0])),
    ),
    "next scale": (
        "dropped-attribute", "the next channel's scale",
        lambda g: rescale(g, sum_codes(g), exactly, np.roll(g["w_scale"], -1)),
    ),
    "cut off": ("requantization", "cuts off in place of rounding", lambda g: rescale(g, sum_codes(g), cut)),
    "no zero point of y": (
        "dropped-attribute", "y's zero point out", lambda g: rescale(g, sum_codes(g), exactly) - int(g["y_zero"])
    ),
    "a clamp too many": (
        "fusion", "at least y's zero point", lambda g: np.maximum(rescale(g, sum_codes(g), exactly), int(g["y_zero"]))
    ),
    "pairs": (
        "int8-saturation", "sums of two integer products at 16 bits", lambda g: rescale(g, saturated_pairs(g), exactly)
    ),
    "wrapping": ("overflow", "wrap around in 16 bits", lambda g: rescale(g, wrapped(g), exactly)),
    "x as unsigned": (
        "other-operands", "x's int8 codes as uint8",
        lambda g: rescale(g, sum_codes({**g, "x": g["x"].view(np.uint8)}), exactly),
    ),
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_plain_numpy_are_named_and_replayed(fault, seed):
    cause, says, make = FAULTS[fault]
    g = make_layer(seed)
    right = limit(rescale(g, sum_codes(g), exactly))
    found = explain(g, mine=limit(make(g)), right=right)
    mine, other = found.sides
    assert other.verdict == "identical"
    # A bias that is not rescaled takes nearly every code to a limit: what gives such codes is inferred.
    level = "statistics" if fault == "bias unscaled" else "bits"
    assert (mine.verdict, mine.cause, mine.cause_certainty) == ("wrong", cause, level)
    assert says in mine.says
    assert mine.replay.matched == 1


def test_rounding_by_scales_that_float32_has_not_is_inferred():
    """As a script has them that never rounds its scales: no way to rescale the recorded ones gives every code."""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-128, 128, (96, 96)).astype(np.int8) for _ in range(2))
    mine = limit(np.trunc(x.astype(np.int64) @ w.T.astype(np.int64) * 0.02 * 0.01 / 0.3))
    given = {"x_scale": 0.02, "w_scale": 0.01, "y_scale": 0.3}
    found = samebits.explain(problem="linear x=96x96 w=96x96 dtype=int8 out=int8", x=x, w=w, **given, mine=mine)
    (side,) = found.sides
    assert (side.verdict, side.cause) == ("wrong", "requantization")
    if side.cause_certainty != "bits":
        assert (side.says, side.cause_certainty) == ("cuts off in place of rounding", "statistics")


def test_codes_that_wrap_around_in_place_of_saturating():
    g = make_layer(2) | {"y_scale": np.float32(0.02)}
    codes = rescale(g, sum_codes(g), exactly)
    found = explain(g, mine=codes.astype(np.int8))
    assert (found.verdict, found.cause) == ("wrong", "overflow")
    assert "wrap around in place of saturating" in found.sides[0].says
    # No kernel of codes is told what a kernel of floats is.
    assert "narrow" in found.fixes[0].setting
    assert not any("float32" in fix.setting for fix in found.fixes)


def test_a_multiplier_of_few_bits_is_named_where_all_its_codes_are_within_the_bound():
    """15 bits, as kernels for 16-bit processors have them: wrong on some layers, a step from the nearest on others."""

    def round_narrow(s, xs, ws, ys):
        mantissa, exponent = math.frexp(float(xs) * float(ws) / float(ys))
        number = math.floor(mantissa * 2**15 + 0.5)
        return (s * number + (1 << (14 - exponent))) >> (15 - exponent)

    seen = set()
    for seed in range(12):
        g = make_layer(seed)
        mine = limit(rescale(g, sum_codes(g), round_narrow))
        (side,) = explain(g, mine=mine).sides
        seen.add(side.verdict)
        if side.verdict == "rounding":
            assert "15 bits" in side.says
            assert side.cause == "requantization"
        # Of few codes that tell nothing follows for the rest.
        assert side.cause_certainty != "bits" or side.verdict == "wrong"
    assert "rounding" in seen


def test_a_wrong_code_without_a_rule_has_a_place_and_no_cause():
    g = make_layer(3)
    mine = limit(rescale(g, sum_codes(g), exactly))
    mine[7, 3] = 11 if mine[7, 3] != 11 else 44
    found = explain(g, mine=mine)
    assert (found.verdict, found.cause) == ("wrong", None)
    assert any("the farthest is at [7, 3]" in e.says for e in found.sides[0].evidence)


def convolve(x, w, zero, pad, stride, groups):
    """Sums of a padded convolution, one output at a time."""
    n, channels, height, width = x.shape
    filters, depth, kh, kw = w.shape
    padded = np.full((n, channels, height + 2, width + 2), pad, np.int64)
    padded[:, :, 1:-1, 1:-1] = x
    padded -= zero
    places = [((height + 2 - kh) // stride + 1), ((width + 2 - kw) // stride + 1)]
    out = np.zeros((n, filters, *places), np.int64)
    for b, f, i, j in np.ndindex(out.shape):
        start = f // (filters // groups) * depth
        part = padded[b, start : start + depth, i * stride : i * stride + kh, j * stride : j * stride + kw]
        out[b, f, i, j] = int((part * w[f].astype(np.int64)).sum())
    return out


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(("pad", "cause"), [(121, None), (0, "padding")])
def test_convolutions_pad_with_the_zero_point(groups, pad, cause):
    rng = np.random.default_rng(groups)
    x = rng.integers(0, 256, (2, 4, 7, 6)).astype(np.uint8)
    w = rng.integers(-127, 128, (8, 4 // groups, 3, 3)).astype(np.int8)
    sums = convolve(x, w, 121, pad, 2, groups)
    shapes = f"conv2d x=2x4x7x6 w=8x{4 // groups}x3x3 padding=1 stride=2"
    text = f"{shapes}{f' groups={groups}' * (groups > 1)} dtype=uint8 weights=int8"
    found = samebits.explain(problem=f"{text} out=int32", x=x, w=w, x_zero=121, mine=sums.astype(np.int32))
    assert (found.verdict, found.cause) == ("wrong" if cause else "identical", cause)
    scale = Fraction(1, 2**12)
    codes = np.clip([round(int(s) * scale) + 100 for s in sums.ravel()], 0, 255).astype(np.uint8).reshape(sums.shape)
    given = {"x_scale": 2.0**-6, "w_scale": 2.0**-6, "y_scale": 1.0, "x_zero": 121, "y_zero": 100}
    found = samebits.explain(problem=f"{text} out=uint8", x=x, w=w, **given, mine=codes)
    assert (found.verdict, found.cause) == ("wrong" if cause else "identical", cause)


@pytest.mark.needs("onnxruntime")
@pytest.mark.parametrize("weights", ["uint8", "int8"])
def test_what_onnxruntime_returns_is_sound_or_saturates(weights):
    """Processors without VNNI saturate pairs of unsigned by signed bytes, and nothing else goes wrong."""
    import onnx
    import onnxruntime

    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (16, 64)).astype(np.uint8)
    w = rng.integers(np.iinfo(weights).min, np.iinfo(weights).max + 1, (64, 24)).astype(weights)
    given = {"x_scale": np.float32(0.02), "w_scale": np.float32(0.01), "y_scale": np.float32(1.3)}
    zeros = {"x_zero": np.uint8(120), "w_zero": np.array(7, weights), "y_zero": np.uint8(110)}
    names = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero"]
    held = {"w": w, **given, **zeros}
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("QLinearMatMul", names, ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.UINT8, x.shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, (16, 24))],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    (mine,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    text = f"matmul x=16x64 w=64x24 dtype=uint8 weights={weights} out=uint8"
    found = samebits.explain(problem=text, x=x, w=w, **given, **zeros, mine=mine)
    if weights == "uint8" or found.cause is None:
        assert found.verdict in ("identical", "rounding")
    else:
        assert (found.cause, found.sides[0].cause_certainty) in (
            ("int8-saturation", "bits"),
            ("requantization", "bits"),
        )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"y_scale": None}, "y_scale missing"),
        ({"y_scale": 0.0}, "y_scale must be finite numbers above 0"),
        ({"w_scale": np.array([np.nan] * COLUMNS)}, "w_scale must be finite numbers above 0"),
        ({"w_scale": np.ones(5)}, "w_scale has 5 numbers, and 1 or 12 fit"),
        ({"x_zero": 200}, "x_zero holds 200, and int8 has no such number"),
        ({"x": np.full((ROWS, TERMS), 0.5)}, "x holds 0.5"),
        ({"x": np.zeros((3, TERMS), np.int8)}, f"x has the shape 3x{TERMS}"),
        ({"bias": None}, "bias missing"),
        ({"mine": np.zeros((2, 2), np.int8)}, "mine has the shape 2x2"),
        ({"mine": None}, "a result is needed"),
    ],
)
def test_what_does_not_fit_is_one_line(change, says):
    given = {**make_layer(), "mine": np.zeros((ROWS, COLUMNS), np.int8), **change}
    with pytest.raises(samebits.SamebitsError) as refused:
        samebits.explain(problem=TEXT, **{name: value for name, value in given.items() if value is not None})
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_command_takes_numbers_files_and_archives(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    g = make_layer()
    mine = limit(rescale(g, sum_codes(g, bias=0), exactly))
    np.savez("case.npz", problem=TEXT, **g, mine=mine)
    for name in ("x", "w", "bias", "w_scale"):
        np.save(name, g[name])
    np.save("mine", mine)
    numbers = [f"{name}={g[name]}" for name in ("x_scale", "y_scale", "x_zero", "y_zero")]
    files = [f"{name}={name}.npy" for name in ("x", "w", "bias", "w_scale", "mine")]
    for words in (["--problem", TEXT, *files, *numbers], ["case.npz"]):
        assert main(["explain", *words, "--json"]) == 1
        found = json.loads(capsys.readouterr().out)
        assert (found["verdict"], found["cause"]) == ("wrong", "dropped-attribute")
        assert "leaves the bias out" in found["summary"]


@pytest.fixture
def recorded_layer(tmp_path):
    """A case of codes whose `mine` forgot the bias, and its right codes."""
    g = make_layer()
    path = tmp_path / "case.npz"
    np.savez(path, problem=TEXT, **g, mine=limit(rescale(g, sum_codes(g, bias=0), exactly)))
    return path, limit(rescale(g, sum_codes(g), exactly))


@pytest.mark.needs("onnxruntime")
def test_engines_run_a_recorded_case_of_codes(recorded_layer, capsys):
    """Signed codes on both sides do not saturate: whatever the processor, the engine is right."""
    path, _ = recorded_layer
    assert main(["compare", str(path), "--on", "onnxruntime", "--on", "onnxruntime", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    sides = {s["name"]: s for s in found["sides"]}
    assert list(sides) == ["mine", "onnxruntime", "onnxruntime #2"]
    assert (sides["mine"]["verdict"], sides["mine"]["cause"]) == ("wrong", "dropped-attribute")
    assert sides["onnxruntime"]["verdict"] in ("identical", "rounding")
    assert (sides["onnxruntime"]["repeats"], sides["onnxruntime"]["calls"]) == (True, 2)
    assert sides["onnxruntime"]["version"]
    assert "mine leaves the bias out" in found["summary"]
    alone = samebits.compare(path)
    assert [s.name for s in alone.sides] == ["mine"]


@pytest.mark.needs("openvino")
def test_an_engine_that_does_not_take_the_codes_costs_its_own_side(recorded_layer, capsys):
    """OpenVINO reads no matrix product of codes with a bias."""
    path, _ = recorded_layer
    assert main(["compare", str(path), "--on", "openvino"]) == 1
    said = capsys.readouterr()
    assert "no result:" in said.out
    assert "openvino error:" in said.err


@pytest.mark.needs("onnxruntime")
def test_names_and_options_that_do_not_fit_codes_are_one_line(recorded_layer, tmp_path):
    path, right = recorded_layer
    taken = tmp_path / "taken.npz"
    np.savez(taken, **np.load(path), onnxruntime=right)
    with pytest.raises(samebits.SamebitsError, match="two sides are called 'onnxruntime'"):
        samebits.compare(taken, "onnxruntime")
    with pytest.raises(samebits.SamebitsError, match="no `fix`"):
        samebits.compare(path, "onnxruntime", fix=True)
