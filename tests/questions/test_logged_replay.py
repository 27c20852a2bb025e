"""Logs of XLA's autotuner compared with its own operands: made again here by plain Python and NumPy, sums by torch."""

import math
import re
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from samebits.errors import ProblemTextError
from samebits.numbers.format import numpy_dtype
from samebits.problems.languages.hlo import parse_hlo
from samebits.progress import ignore_progress
from samebits.questions.explain.logged.autotuner_buffers import HOST_BUFFER_LENGTH, draw_host_buffer
from samebits.questions.explain.logged.logged_mismatch import explain_log
from samebits.questions.explain.logged.logged_replay import replay_values
from samebits.questions.explain.logs import parse_log

# Left out of `make quick`.
pytestmark = pytest.mark.slow

HLO_TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
# The published report of a 3090 (danijar/dreamerv3, issue 19): 1,310,720 products for each output.
DREAMER = """\
E buffer_comparator.cc:731] Difference at 11: 3100 vs 2786
E buffer_comparator.cc:731] Difference at 37: 3104 vs 2792
E buffer_comparator.cc:731] Difference at 47: 3102 vs 2790
E buffer_comparator.cc:731] Difference at 49: 3096 vs 2784
E buffer_comparator.cc:731] Difference at 50: 3098 vs 2782
E buffer_comparator.cc:731] Difference at 86: 3102 vs 2788
E buffer_comparator.cc:731] Difference at 107: 3102 vs 2782
E buffer_comparator.cc:731] Difference at 133: 3106 vs 2790
E gpu_conv_algorithm_picker.cc:697] Results mismatch between different convolution algorithms. This is likely a bug
%cudnn-conv-bw-filter.4 = (f16[48,4,4,3]{3,2,1,0}, u8[0]{0}) custom-call(f16[1280,64,64,3]{3,2,1,0} %bitcast.25895,\
 f16[1280,32,32,48]{3,2,1,0} %convert.637), window={size=4x4 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_o01i->b01f,\
 custom_call_target="__cudnn$convBackwardFilter", backend_config="{\\"conv_result_scale\\":1}" for eng39{k2=11} vs eng20
"""


def draw_as_mt19937(count):
    """The 32-bit numbers of a default-seeded Mersenne Twister, by Matsumoto and Nishimura's own description."""
    state = [5489]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + i) % 2**32)
    drawn = []
    while len(drawn) < count:
        for i in range(624):
            y = (state[i] & 0x80000000) | (state[(i + 1) % 624] & 0x7FFFFFFF)
            state[i] = state[(i + 397) % 624] ^ (y >> 1) ^ (0x9908B0DF if y % 2 else 0)
        for value in state:
            y = value ^ (value >> 11)
            y ^= (y << 7) & 0x9D2C5680
            y ^= (y << 15) & 0xEFC60000
            drawn.append(y ^ (y >> 18))
    return drawn[:count]


DRAWN = draw_as_mt19937(2 * HOST_BUFFER_LENGTH)


def make_buffer(dtype):
    if dtype == "float64":
        pairs = zip(DRAWN[::2], DRAWN[1::2], strict=True)
        return np.array([float(Fraction(a + b * 2**32, 2**64)) for a, b in pairs])
    numbers = np.array([np.float32(float(d)) for d in DRAWN[:HOST_BUFFER_LENGTH]]) / np.float32(2.0**32)
    return (numbers * np.float32(0.1 if dtype == "float16" else 1)).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("dtype", HLO_TYPES)
def test_the_buffer_is_drawn_as_cpp_draws_it(dtype):
    assert DRAWN[9999] == 4123659995  # what the standard of C++ demands of the ten thousandth
    np.testing.assert_array_equal(draw_host_buffer(dtype), make_buffer(dtype))


def fill(dtype, *shapes):
    """Arrays with their elements in memory's sequence, one buffer going through all."""
    total = sum(math.prod(s) for s in shapes)
    flat, arrays = np.resize(make_buffer(dtype), total), []
    for shape in shapes:
        arrays.append(flat[: math.prod(shape)].reshape(shape).astype(np.float64))
        flat = flat[math.prod(shape) :]
    return arrays


def forward(x, w, stride=1):
    """x [b, h, w, f], w [o, h, w, i]: cross-correlation, in float64."""
    size = (x.shape[1] - w.shape[1]) // stride + 1
    out = np.zeros((x.shape[0], size, size, w.shape[0]))
    for i in range(w.shape[1]):
        for j in range(w.shape[2]):
            out += x[:, i : i + stride * size : stride, j : j + stride * size : stride] @ w[:, i, j].T
    return out


def write_forward(dtype, other=lambda v: v * 0.9, *, flip=False):
    """A forward convolution, channels last; the other side is what `other` makes of the true values."""
    x, w = fill(dtype, (2, 12, 12, 24), (16, 3, 3, 24))
    exact = forward(x, w[:, ::-1, ::-1] if flip else w)
    return write(dtype, "Forward", "[2,12,12,24]", "[16,3,3,24]", "[2,10,10,16]", exact, other, flip=flip)


def write_backward_input(dtype, other=lambda v: v * 0.9):
    dy, w = fill(dtype, (2, 12, 12, 24), (24, 3, 3, 16))
    padded = np.pad(dy, ((0, 0), (2, 2), (2, 2), (0, 0)))
    exact = forward(padded, w[:, ::-1, ::-1].transpose(3, 1, 2, 0))
    return write(dtype, "BackwardInput", "[2,12,12,24]", "[24,3,3,16]", "[2,14,14,16]", exact, other)


def write_backward_filter(dtype, other=lambda v: v * 0.9):
    x, dy = fill(dtype, (8, 12, 12, 8), (8, 10, 10, 16))
    exact = np.array(
        [[np.einsum("bhwf,bhwo->of", x[:, i : i + 10, j : j + 10], dy) for j in range(3)] for i in range(3)]
    ).transpose(2, 0, 1, 3)
    return write(dtype, "BackwardFilter", "[8,12,12,8]", "[8,10,10,16]", "[16,3,3,8]", exact, other)


def write(dtype, target, lhs, rhs, result, exact, other, *, flip=False):
    name, last = HLO_TYPES[dtype], "{3,2,1,0}"
    places = np.random.default_rng(1).permutation(exact.size)[:12]
    stored = exact.astype(numpy_dtype(dtype)).astype(np.float64).reshape(-1)
    pairs = [(i, stored[i], np.asarray(other(stored[i])).astype(numpy_dtype(dtype)).item()) for i in sorted(places)]
    lines = [f"buffer_comparator.cc:1] Difference at {i}: {b:.6g}, expected {a:.6g}" for i, a, b in pairs]
    reversal = " rhs_reversal=1x1" if flip else ""
    return [
        *lines,
        "conv_algorithm_picker.cc:697] Results mismatch between different convolution algorithms.",
        # As newer versions print it: no name before the shapes.
        f"({name}{result}{last}, u8[0]{{0}}) custom-call({name}{lhs}{last}, {name}{rhs}{last}),"
        f" window={{size=3x3{reversal}}}, dim_labels=b01f_o01i->b01f, custom_call_target=\"__cudnn$conv{target}\"",
    ]  # fmt: skip


def explain(lines):
    (found,) = explain_log(parse_log(lines), ignore_progress)
    return found, SimpleNamespace(**dict(zip(("bad", "good"), found.sides, strict=True)))


@pytest.mark.parametrize("make", [write_forward, write_backward_input, write_backward_filter])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_right_side_is_proved_value_by_value(make, dtype):
    found, sides = explain(make(dtype))
    assert "to the last bit" in found.data
    assert (sides.good.verdict, sides.good.replay.count, sides.good.replay.elements) == ("rounding", 12, 12)
    # A bfloat16 number says little of which of such sums it is.
    assert sides.good.certainty == "bits" if dtype == "float16" else sides.good.certainty in ("bits", "statistics")
    assert sides.bad.verdict in ("undecided", "downgrade")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_wide_results_are_compared_in_the_digits_that_are_printed(dtype):
    found, sides = explain(write_forward(dtype))
    assert "to the last bit" in found.data
    assert (sides.good.verdict, sides.good.certainty, sides.good.replay.matched) == ("rounding", "bits", 1.0)


def test_a_filter_stored_from_its_other_end_is_read_so():
    _, sides = explain(write_forward("float16", flip=True))
    assert (sides.good.certainty, sides.good.replay.matched) == ("bits", 1.0)


def test_sums_kept_in_float16_are_named_and_counted():
    x, w = fill("float16", (2, 12, 12, 24), (16, 3, 3, 24))
    # Taps in sequence, channels fastest: every product added to a float16 sum.
    products = [
        x[:, i : i + 10, j : j + 10, None, f] * w[:, i, j, f] for i in range(3) for j in range(3) for f in range(24)
    ]
    sums = np.zeros(products[0].shape, np.float16)
    for product in products:
        sums = (sums.astype(np.float64) + product).astype(np.float16)
    narrow = iter(sums.reshape(-1)[np.sort(np.random.default_rng(1).permutation(sums.size)[:12])])
    found, sides = explain(write_forward("float16", lambda _: next(narrow)))
    assert (found.verdict, found.cause) == ("downgrade", "low-precision-accumulator")
    assert (sides.bad.cause_certainty, sides.bad.replay.count) == ("bits", 12)
    assert "acc=float16" in sides.bad.recipe


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_two_sides_that_only_round_differently_are_both_right(dtype):
    unit = 2.0**-11 if dtype == "float16" else 2.0**-20
    signs = iter([1, -1] * 6)
    found, sides = explain(write_forward(dtype, lambda v: v * (1 + next(signs) * unit)))
    assert found.verdict == "rounding"
    assert {s.verdict for s in (sides.good, sides.bad)} == {"rounding"}
    assert found.cause is None


def write_integers(result, other, *, stored=lambda v: v, depth=24):
    """A convolution of int8 as XLA fills it, zeros and ones, summed in NumPy's int64; as XLA prints its results."""
    numbers = np.array([np.float32(float(d)) for d in DRAWN[:HOST_BUFFER_LENGTH]]) / np.float32(2.0**32)
    ones = (numbers.astype(np.float64) + 0.5).astype(np.int8)
    shapes = (2, 12, 12, depth), (16, 3, 3, depth)
    flat = np.resize(ones, sum(map(math.prod, shapes))).astype(np.int64)
    x, w = (part.reshape(s) for part, s in zip(np.split(flat, [math.prod(shapes[0])]), shapes, strict=True))
    exact = np.rint(stored(forward(x.astype(np.float64), w.astype(np.float64))))
    changed = other(exact)
    at = np.flatnonzero((changed != exact).reshape(-1))
    chosen = at[:: max(len(at) // 12, 1)][:12]
    pairs = [(i, changed.flat[i], exact.flat[i]) for i in chosen]
    last = "{3,2,1,0}"
    return [
        *(f"buffer_comparator.cc:1] Difference at {i}: {b:.6g}, expected {a:.6g}" for i, b, a in pairs),
        "conv_algorithm_picker.cc:697] Results mismatch between different convolution algorithms.",
        f"%cudnn-conv.1 = ({result}[2,10,10,16]{last}, u8[0]{{0}}) custom-call(s8[2,12,12,{depth}]{last} %a,"
        f" s8[16,3,3,{depth}]{last} %b), window={{size=3x3}}, dim_labels=b01f_o01i->b01f,"
        ' custom_call_target="__cudnn$convForward"',
    ]  # fmt: skip


def spoil_last_channel(values):
    changed = values.copy()
    changed[..., 15] = changed[..., 14]
    return changed


@pytest.mark.parametrize("result", ["f32", "s32", "s8"])
def test_int8_operands_are_zeros_and_ones_and_other_sums_are_wrong(result):
    found, sides = explain(write_integers(result, spoil_last_channel))
    assert "int8 is held in float32" in found.data
    assert (sides.good.verdict, sides.good.replay.matched, sides.good.certainty) == ("rounding", 1.0, "bits")
    assert (sides.bad.verdict, sides.bad.certainty) == ("wrong", "bits")
    assert any("in channel 15" in e.says for e in sides.bad.evidence)


def test_int8_results_are_clipped_to_what_they_hold():
    """Sums of 576 zeros and ones lie about 144: nearly all are 127, as those of other operands would be."""
    lines = write_integers("s8", lambda v: np.where(v == 127, v - 60, v), stored=lambda v: np.minimum(v, 127), depth=64)
    found, sides = explain(lines)
    assert "then=clip(-128,127)" in found.problem
    assert "to the last bit" not in found.data
    assert (found.verdict, sides.good.verdict, sides.bad.verdict) == ("undecided",) * 3


def test_int8_values_of_other_operands_are_not_replayed():
    lines = write_integers("f32", spoil_last_channel)
    random = np.random.default_rng(5)
    other = [f"Difference at {i}: {v}, expected {v + 5}" for i, v in enumerate(random.integers(150, 200, 10))]
    found, _ = explain([*other, *lines[12:]])
    assert "to the last bit" not in found.data


def test_int8_sums_of_which_one_is_not_right_prove_nothing():
    """No side has all of them: that these are the operands is then not shown."""
    lines = write_integers("f32", spoil_last_channel)
    lines[0] = re.sub(r"expected (\d+)", lambda m: f"expected {int(m[1]) + 1}", lines[0])
    found, _ = explain(lines)
    assert found.verdict == "undecided"
    assert "to the last bit" not in found.data


@pytest.mark.parametrize("named", ["%conv.1 = ", "conv.1 = ", ""])
@pytest.mark.parametrize("tuple_", [True, False])
def test_only_a_result_of_int8_is_clipped(named, tuple_):
    lines = write_integers("f32", spoil_last_channel, depth=64)
    lines[-1] = lines[-1].replace("%cudnn-conv.1 = ", named)
    if not tuple_:
        lines[-1] = lines[-1].replace("(f32[2,10,10,16]{3,2,1,0}, u8[0]{0})", "f32[2,10,10,16]{3,2,1,0}")
    found, sides = explain(lines)
    assert "clip" not in found.problem
    assert (sides.good.certainty, sides.bad.verdict) == ("bits", "wrong")


def test_words_of_int8_beside_a_call_do_not_make_it_one():
    lines = write_forward("float16")
    lines[-1] += ', metadata={op_name="jit(f)/convert s32[4] s8[2]"}'
    found, sides = explain(lines)
    assert "int8" not in found.data
    assert (sides.good.certainty, sides.good.replay.matched) == ("bits", 1.0)


def test_int8_with_a_bias_is_not_held_against_anything():
    lines = write_integers("f32", spoil_last_channel)
    lines[-1] = lines[-1].replace("%b)", "%b, f32[16]{0} %c)").replace("convForward", "convBiasActivationForward")
    found, _ = explain(lines)
    assert found.verdict == "undecided"
    assert "to the last bit" not in found.data


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_bias_is_rebuilt_with_the_rest(dtype):
    x, w, bias = fill(dtype, (2, 12, 12, 24), (16, 3, 3, 24), (16,))
    exact = forward(x, w) + bias
    lines = write(dtype, "Forward", "[2,12,12,24]", "[16,3,3,24]", "[2,10,10,16]", exact, lambda v: v * 0.9)
    name = HLO_TYPES[dtype]
    lines[-1] = lines[-1].replace("24]{3,2,1,0}),", f"24]{{3,2,1,0}}, {name}[16]{{0}}),")
    lines[-1] = lines[-1].replace("convForward", "convBiasActivationForward")
    found, sides = explain(lines)
    assert "bias" in found.problem
    assert (sides.good.verdict, sides.good.replay.matched) == ("rounding", 1.0)


def test_the_chance_of_agreement_is_one():
    """Values of other operands of the same kind: as small a chance as c comes up no more often than c."""
    (mismatch,) = parse_log(write_forward("float32"))
    values = (np.array([p[i] for p in mismatch.pairs]) for i in (1, 2))
    call = replay_values(mismatch, *values, [p[0] for p in mismatch.pairs]).call
    random, chances = np.random.default_rng(0), []
    for _ in range(400):
        x, w = (random.uniform(0, 1, s) for s in ((1, 9, 24), (12, 9, 24)))
        chances.append(call.measure_chance(np.einsum("ijk,ojk->o", x, w)))
    for most in (0.3, 0.1, 0.03):
        assert np.mean(np.array(chances) <= most) <= most + 3 * (most / 400) ** 0.5


def test_int8_outside_of_logs_is_refused():
    with pytest.raises(ProblemTextError, match="element type s8"):
        parse_hlo(write_integers("f32", spoil_last_channel)[-1])


def test_bfloat16_buffers_of_older_releases_have_the_bits_of_float16():
    """An autotuner that fills them so gives sums far below those of uniform numbers."""
    halves = make_buffer("float16").view(np.uint16)
    as_bfloat16 = (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    shapes = (2, 12, 12, 24), (16, 3, 3, 24)
    flat = np.resize(as_bfloat16, sum(map(math.prod, shapes)))
    x, w = (part.reshape(s) for part, s in zip(np.split(flat, [math.prod(shapes[0])]), shapes, strict=True))
    lines = write(
        "bfloat16", "Forward", "[2,12,12,24]", "[16,3,3,24]", "[2,10,10,16]", forward(x, w), lambda v: v * 0.9
    )
    found, sides = explain(lines)
    assert "to the last bit" in found.data
    assert (sides.good.verdict, sides.good.replay.matched) == ("rounding", 1.0)


def test_values_of_other_operands_are_not_said_to_be_replayed():
    lines = write_forward("float16")
    random = np.random.default_rng(5)
    other = [
        f"Difference at {i}: {v:.6g}, expected {v * 1.2:.6g}"
        for i, v in enumerate(random.uniform(0.3, 0.4, 10).astype(np.float16).astype(float))
    ]
    found, sides = explain([*other, *lines[12:]])
    assert "to the last bit" not in found.data
    assert sides.good.replay is None


def test_a_published_log_of_a_million_products_per_output():
    (found,) = explain_log(parse_log(DREAMER.splitlines()), ignore_progress)
    right, narrow = found.sides
    assert (found.verdict, found.cause) == ("downgrade", "low-precision-accumulator")
    assert (right.verdict, right.replay.count, right.certainty) == ("rounding", 7, "statistics")
    assert "one batch item" in narrow.says
    assert narrow.cause_certainty == "statistics"


def test_sums_too_long_to_simulate_are_replayed_all_the_same():
    """More products for an output than operands are drawn for where a log does not say how they lie."""
    count = 2_100_000
    x, dy = fill("float32", (count, 3, 1), (count, 1, 1))
    exact = [float(np.dot(x[:, tap, 0], dy[:, 0, 0])) for tap in range(3)]
    lines = [f"Difference at {i}: {v * 0.8:.6g}, expected {v:.6g}" for i, v in enumerate(exact)]
    hlo = (
        "(f32[3,1,1]{2,1,0}, u8[0]{0}) custom-call(f32[2100000,3,1]{2,1,0}, f32[2100000,1,1]{2,1,0}), window={size=3},"
        ' dim_labels=b0f_0io->b0f, custom_call_target="__cudnn$convBackwardFilter"'
    )
    found, sides = explain([*lines, hlo])
    assert "to the last bit" in found.data
    assert (sides.good.verdict, sides.good.replay.matched) == ("rounding", 1.0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # An element beyond the result; axes and products that no memory holds; windows that read padding only.
        ("Difference at", "Difference at 99999999: 3, expected 2.5\nDifference at"),
        ("2,12,12,24", "2,12,900000000012,24"),
        ("24]", "9000000000000000024]"),
        ("size=3x3", "size=3x3 pad=90_90x90_90"),
    ],
)
def test_what_no_call_has_is_not_replayed(old, new):
    text = "\n".join(write_forward("float16")).replace(old, new)
    if "pad=" in new:
        text = text.replace("2,10,10,16", "2,190,190,16")
    for found in explain_log(parse_log(text.splitlines()), ignore_progress):
        assert found.verdict in ("undecided", "downgrade", "wrong")
        assert "to the last bit" not in found.data


def test_a_layout_that_is_none_is_no_memory():
    lines = write_forward("float16")
    (plain,) = parse_log([*lines[:13], lines[13].replace("{3,2,1,0}", "")])
    assert plain.problem is not None
    assert plain.memory is None
    (broken,) = parse_log([*lines[:13], lines[13].replace("{3,2,1,0}", "{3,2,1,1}")])
    assert broken.memory is None
    assert "does not number the axes" in broken.trouble
