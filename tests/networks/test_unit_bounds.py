"""Bounds of units hold for float32 computed as engines do it: masks, steps, powers, old operators, narrow formats."""

import math

import numpy as np
import onnx
import pytest

from networks.model_sides import ReferenceSide
from networks.network_building import judge, make_model, node, random, refer
from samebits.judging.measuring import measure_absolute
from samebits.networks.bounded import Arithmetic, Bounded, exactly, raise_power
from samebits.networks.model_comparing import compare_model
from samebits.networks.onnx_reading import make_network
from samebits.networks.units import divide_network, fold_constants

F = np.float32
X = random((2, 4, 9, 9), 1)
MASKED = np.where(np.arange(4)[:, None] < np.arange(8) - 3, F(-np.inf), F(0))


@pytest.mark.parametrize("lowest", [-np.inf, np.finfo(F).min])
@pytest.mark.parametrize("by_product", [True, False])
def test_masked_attention_is_bounded_and_float32_is_within(lowest, by_product):
    mask = np.where(MASKED == 0, F(0), F(lowest))
    q, k = random((4, 16), 1), random((16, 8), 2)
    last = [node("Add", ["s", "m"], ["a"]), node("Softmax", ["a"], ["y"], axis=-1)]
    product = [node("MatMul", ["q", "k"], ["s"])]
    if by_product:
        found = refer(product + last, {"q": q}, {"k": k, "m": mask})
    else:
        found = refer(last, {"s": (q @ k).astype(F)}, {"m": mask})
    powers = np.exp((q @ k + mask) - (q @ k + mask).max(-1, keepdims=True))
    made = powers / powers.sum(-1, keepdims=True)
    assert made.dtype == F
    assert (np.abs(made - found.value) <= found.bound).all()
    assert (found.bound <= 1e-3).all()
    # Masked elements take no part: what leaks into one is beyond the bound.
    assert (found.bound[mask != 0] < 1e-30).all()


def test_softmax_before_opset_13_is_over_all_axes_from_its_own_on():
    x = random((2, 3, 4), 1)
    for attributes, rows in (({}, 2), ({"axis": 1}, 2), ({"axis": 2}, 6)):
        found = refer([node("Softmax", ["x"], ["y"], **attributes)], {"x": x}, opset=11)
        powers = np.exp(x.astype(np.float64).reshape(rows, -1))
        expected = (powers / powers.sum(-1, keepdims=True)).reshape(x.shape)
        assert np.abs(found.value - expected).max() < 1e-15


def test_exp_less_one_may_be_computed_as_it_is_written():
    x = np.concatenate([-np.logspace(-8, 2, 300), np.logspace(-8, 2, 300)]).astype(F)
    found = refer([node("Elu", ["x"], ["y"], alpha=2.0)], {"x": x})
    made = np.where(x < 0, F(2) * (np.exp(np.minimum(x, 0)) - F(1)), x)
    assert made.dtype == F
    assert (np.abs(made - found.value) <= found.bound).all()
    assert (found.bound[x > 1] <= 1e-5 * x[x > 1]).all()


def test_a_sigmoid_by_tanh_is_within_the_bound():
    x = np.linspace(-30, 30, 2001).astype(F)
    found = refer([node("Sigmoid", ["x"], ["y"])], {"x": x})
    # tanh five units in the last place below one, as OpenCL's specification allows.
    off = np.tanh(x / F(2)) * F(1 - 10 * 2.0**-24)
    made = F(0.5) * (F(1) + off)
    assert (np.abs(made - found.value) <= found.bound).all()


def test_a_gelu_whose_erf_is_exact_beside_one_is_within_the_bound_and_erf_alone_is_not():
    """By the formula 7.1.26 of Abramowitz and Stegun, in float32, one rounding at a time."""
    x = np.linspace(-4, 4, 20_001, dtype=F)
    d = x / F(math.sqrt(2))
    t = F(1) / (F(1) + F(0.3275911) * np.abs(d))
    series = np.zeros_like(t)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + F(factor)) * t
    erf = np.copysign(F(1) - series * np.exp(-d * d), d)
    gelu = x * (F(1) + erf) * F(0.5)
    assert gelu.dtype == F
    constants = {"root": F(math.sqrt(2)), "one": F(1), "half": F(0.5)}
    parts = [node("Div", ["x", "root"], ["d"]), node("Erf", ["d"], ["e"]), node("Add", ["e", "one"], ["a"])]
    written = [*parts, node("Mul", ["x", "a"], ["m"]), node("Mul", ["m", "half"], ["y"])]
    found = refer(written, {"x": x}, constants)
    exact = np.array([0.5 * v * math.erfc(-v / float(F(math.sqrt(2)))) for v in x.astype(float)])
    assert np.abs(exact - found.value).max() < 1e-15
    assert (np.abs(gelu - found.value) <= found.bound).all()
    # What bends the curve by more than such a formula is seen nonetheless.
    assert (np.abs(gelu + F(2e-6) * x - found.value) > found.bound).any()
    alone = refer([node("Erf", ["d"], ["y"])], {"d": d}, {})
    assert (np.abs(erf - alone.value) > alone.bound).any()


@pytest.mark.parametrize("base_is_fed", [True, False])
def test_powers_are_taken_element_by_element(base_is_fed):
    base, power = (np.abs(random((3, 5), 1)) + F(0.5)), np.arange(5, dtype=F)
    fed, constants = ({"b": base}, {"p": power}) if base_is_fed else ({"p": random((3, 5), 2)}, {"b": np.array(2, F)})
    found = refer([node("Pow", ["b", "p"], ["y"])], fed, constants)
    both = {**fed, **constants}
    expected = np.float64(both["b"]) ** np.float64(both["p"])
    assert (np.abs(found.value - expected) <= 1e-15 * expected).all()
    assert (found.bound <= 1e-5 * expected).all()


@pytest.mark.parametrize("power", [0.5, -0.5, -1.0, 2.0, 3.0])
def test_a_power_of_what_has_an_error_is_bounded_on_both_sides(power):
    middle, error = np.array([1.0, 1e-3, 1e-3, 4.0, -1.0, -1e-3]), np.array([1e-3, 9e-4, 2e-3, 3.0, 0.5, 2e-3])
    base = Bounded(middle, error, np.abs(middle))
    found = raise_power(Arithmetic(2.0**-24, 2.0**-149, 2.0**-126), base, exactly(np.array(power)))
    for share in np.linspace(-1, 1, 41):
        with np.errstate(all="ignore"):
            made = (middle + share * error) ** power
        known = np.isfinite(made) & np.isfinite(found.value)
        assert (np.abs(made[known] - found.value[known]) <= found.error[known]).all()
    assert (found.error[[0, 3]] <= 7.0**3).all()


def test_a_root_of_a_difference_that_may_be_zero_is_not_called_another_function():
    x = np.full((4, 64), 3.3, F)
    nodes = [
        node("Mul", ["x", "x"], ["q"]), node("ReduceMean", ["q", "axes"], ["e"]),
        node("ReduceMean", ["x", "axes"], ["m"]), node("Mul", ["m", "m"], ["s"]), node("Sub", ["e", "s"], ["v"]),
        node("Sqrt", ["v"], ["y"]),
    ]  # fmt: skip
    found = refer(nodes, {"x": x}, {"axes": np.array([-1], np.int64)})
    # One unit in the last place of 3.3^2 more than nothing, as one order of addition leaves it.
    made = np.sqrt(np.spacing(F(3.3) ** 2))
    assert (np.abs(made - found.value) <= found.bound).all()


def test_a_step_falls_to_either_side_only_near_its_edge():
    x = np.array([[30.0, 34.0]], F)
    nodes = [node("Mul", ["x", "c"], ["m"]), node("Floor", ["m"], ["y"])]
    found = refer(nodes, {"x": x}, {"c": np.array(0.1, F)})
    assert found.value.tolist() == [[3.0, 3.0]]
    # 30 times the float32 above 0.1 is above 3, by less than a rounding.
    assert found.bound[0, 0] >= 1
    assert found.bound[0, 1] == 0


@pytest.mark.parametrize("operator", ["InstanceNormalization", "LayerNormalization"])
def test_a_normalisation_of_what_hardly_varies_has_no_bound_rather_than_none_that_holds(operator):
    x = (random((1, 2, 64), 1) * F(1e-3) + F(3000)).astype(F)
    size = 2 if operator[0] == "I" else 64
    constants = {"s": np.ones(size, F), "b": np.zeros(size, F)}
    found = refer([node(operator, ["x", "s", "b"], ["y"])], {"x": x}, constants)
    mean = x.mean(-1, keepdims=True)
    made = (x - mean) / np.sqrt(np.maximum((x * x).mean(-1, keepdims=True) - mean * mean, 0) + F(1e-5))
    assert (np.abs(made - found.value) <= found.bound).all()


def test_a_group_norm_before_opset_21_scales_by_group():
    x, s, b = random((2, 4, 5), 1), random((2,), 2), random((2,), 3)
    found = refer([node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=2)], {"x": x}, {"s": s, "b": b})
    groups = x.astype(np.float64).reshape(2, 2, 10)
    spread = np.sqrt(groups.var(-1, keepdims=True) + float(F(1e-5)))
    made = (groups - groups.mean(-1, keepdims=True)) / spread * s[:, None] + b[:, None]
    assert np.abs(found.value - made.reshape(x.shape)).max() < 1e-13


def test_an_average_counts_padding_that_is_asked_for_where_its_size_is_rounded_up():
    attributes = {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1, "count_include_pad": 1}
    x = np.arange(1, 9, dtype=F).reshape(1, 1, 8)
    found = refer([node("AveragePool", ["x"], ["y"], **attributes)], {"x": x}, opset=19)
    # Windows begin at -1, 1, 3, 5 and 7; the last has one element of the data and one of the padding.
    assert found.value.ravel().tolist() == [3 / 3, 9 / 3, 15 / 3, 21 / 3, 8 / 2]


BF = [
    ("MaxPool", {"kernel_shape": [2, 2]},
        lambda x: np.max([x[..., i : 8 + i, j : 8 + j] for i in (0, 1) for j in (0, 1)], 0)),
    ("Relu", {}, lambda x: np.maximum(x, 0)),
    ("Neg", {}, np.negative),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "attributes", "function"), BF)
def test_what_bfloat16_does_to_its_operands_is_within_the_narrow_bound(operator, attributes, function):
    cut = ((X.view(np.uint32) + 0x8000) & 0xFFFF0000).view(F)
    found = refer([node(operator, ["x"], ["y"], **attributes)], {"x": X}, narrow=True)
    assert (np.abs(function(cut) - found.value) <= found.bound).all()
    assert (np.abs(function(X * F(1.1)) - found.value) > found.bound).any()


def test_a_difference_of_operands_in_bfloat16_is_within_the_narrow_bound():
    z = X * F(1.001)
    x, w = (((v.view(np.uint32) + 0x8000) & 0xFFFF0000).view(F) for v in (X, z))
    found = refer([node("Sub", ["x", "z"], ["y"])], {"x": X, "z": z}, narrow=True)
    assert (np.abs((x - w) - found.value) <= found.bound).all()


def test_what_float16_loses_is_within_the_narrow_bound():
    x = np.array([1e-9, -3e-6], F)
    found = refer([node("Mul", ["x", "c"], ["y"])], {"x": x}, {"c": np.array(0.5, F)}, narrow=True)
    assert (np.abs(0.0 - found.value) <= found.bound).all()


def test_a_whole_number_that_rounding_decides_has_no_bound():
    nodes = [node("Mul", ["x", "c"], ["m"]), node("Cast", ["m"], ["i"], to=7), node("Cast", ["i"], ["y"], to=1)]
    for value, is_known in ((30.0, False), (34.0, True)):
        found = refer(nodes, {"x": np.array([value], F)}, {"c": np.array(0.1, F)})
        assert (found.bound is not None) == is_known


def test_an_output_without_axes_is_measured():
    assert measure_absolute(np.array(1.5, F), np.array(1.0, F)) == 0.5
    assert measure_absolute(np.array(np.inf, F), np.array(np.inf, F)) == 0.0


def test_a_bound_of_clip_that_is_computed_brings_its_own_error():
    x, limit = np.full((2, 3), 9.0, F), np.array([3.3], F)
    nodes = [
        node("Mul", ["t", "k"], ["high"]), node("Squeeze", ["high"], ["limit"]),
        node("Clip", ["x", "", "limit"], ["y"]),
    ]  # fmt: skip
    found = refer(nodes, {"x": x, "t": limit}, {"k": np.array([0.1], F)})
    exact = float(limit[0]) * float(F(0.1))
    assert np.abs(found.value - exact).max() < 1e-15
    assert (np.abs(F(exact) - found.value) > 0).all()
    assert (np.abs(F(exact) - found.value) <= found.bound).all()


@pytest.mark.parametrize("first", ["Sub", "Add"])
def test_a_constant_may_be_multiplied_out(first):
    """(x - m) k computed as x k - m k, as compilers and Keras do: with large m both parts are rounded."""
    x, m, k, b = random((5, 8), 1) + F(100), random((8,), 2) + F(100), random((8,), 3), random((8,), 4)
    m = m if first == "Sub" else -m
    nodes = [node(first, ["x", "m"], ["d"]), node("Mul", ["d", "k"], ["p"]), node("Add", ["p", "b"], ["y"])]
    found = refer(nodes, {"x": x}, {"m": m, "k": k, "b": b})
    shift = b - np.abs(m) * k
    made = x * k + shift
    away = np.abs(made - found.value)
    assert (away <= found.bound).all()
    # The sequence as written is nearer than that.
    assert away.max() > np.abs(((x - np.abs(m)) * k + b) - found.value).max()
    assert found.bound.max() < 1e-3


@pytest.mark.parametrize("operator", ["Selu", "LogSoftmax", "Softplus"])
def test_what_torch_computes_in_float32_is_within_the_bound(operator):
    torch = pytest.importorskip("torch")
    x = random((40, 30), 1, 8.0)
    found = refer([node("Mul", ["x", "k"], ["m"]), node(operator, ["m"], ["y"])], {"x": x}, {"k": np.array(1.1, F)})
    function = {
        "Selu": torch.nn.functional.selu,
        "LogSoftmax": lambda t: torch.log_softmax(t, -1),
        "Softplus": torch.nn.functional.softplus,
    }[operator]
    exact = function(torch.from_numpy(x).double() * float(F(1.1))).numpy()
    # torch's softplus is the identity from 20 on, e^-20 apart; ONNX has selu's two constants in float32.
    apart = {"Selu": 1e-7 * np.abs(exact).max(), "LogSoftmax": 1e-13, "Softplus": 3e-9}[operator]
    assert np.abs(found.value - exact).max() < apart
    made = function(torch.from_numpy(x) * float(F(1.1))).numpy()
    assert (np.abs(made - found.value) <= found.bound).all()
    assert found.bound.max() < 1e-4


@pytest.mark.parametrize(("limit", "is_known"), [(20.0, True), (3.3, False)])
def test_a_comparison_is_known_unless_an_error_decides_it(limit, is_known):
    x = np.array([[1.0, 3.0, 40.0]], F)
    nodes = [
        node("Mul", ["x", "k"], ["m"]), node("Greater", ["m", "limit"], ["c"]), node("Where", ["c", "m", "x"], ["y"]),
    ]  # fmt: skip
    found = refer(nodes, {"x": x}, {"k": np.array(1.1, F), "limit": np.array(limit, F)})
    assert (found.bound is not None) == is_known
    if is_known:
        assert np.abs(found.value - [[1.0, 3.0, 44.0]]).max() < 1e-5


def run_lstm(x, w, r, b, skipped=-1):
    """A plain LSTM in float32 [steps, 1, batch, hidden]; one step may be left out of the state."""
    hidden = r.shape[-1]
    h, c, states = np.zeros((x.shape[1], hidden), F), np.zeros((x.shape[1], hidden), F), []
    for n, fed in enumerate(x):
        i, o, f, g = np.split(fed @ w[0].T + h @ r[0].T + b[0, : 4 * hidden] + b[0, 4 * hidden :], 4, axis=-1)
        i, o, f = (F(1) / (F(1) + np.exp(-v)) for v in (i, o, f))
        c = f * c + i * np.tanh(g)
        states.append(o * np.tanh(c))
        h = h if n == skipped else states[-1]
    return np.stack(states)[:, None]


@pytest.mark.parametrize("skipped", [-1, 3])
def test_each_step_is_judged_by_the_state_that_was_returned_before_it(skipped):
    """Through 24 steps of 96 cells an error may grow without limit; from one step to the next it does not."""
    x, constants = random((24, 2, 16), 1), {"w": random((1, 384, 16), 2, 0.3), "r": random((1, 384, 96), 3, 0.3)}
    constants["b"] = random((1, 768), 4, 0.1)
    made = [node("LSTM", ["x", "w", "r", "b"], ["y"], hidden_size=96)]
    y = run_lstm(x, constants["w"], constants["r"], constants["b"], skipped)
    assert y.dtype == F
    (judged,) = judge(make_model(made, {"x": [24, 2, 16]}, ["y"], constants), {"x": x, "y": y})
    assert judged.is_judged
    assert judged.verdict == ("rounding" if skipped < 0 else "undecided")
    without = refer(made, {"x": x}, constants, opset=17)
    assert without.bound.max() > 1


def test_a_recurrent_layer_ends_a_unit_as_its_states_are_to_be_seen():
    constants = {"w": random((1, 32, 4), 2), "r": random((1, 32, 8), 3)}
    nodes = [
        node("LSTM", ["x", "w", "r"], ["s"], hidden_size=8),
        node("Exp", ["s"], ["e"]),
        node("Neg", ["e"], ["y"]),
    ]
    network = make_network(make_model(nodes, {"x": [3, 1, 4]}, ["y"], constants), "test")
    units = divide_network(network, fold_constants(network))
    assert [unit.operators for unit in units] == [("LSTM",), ("Exp", "Neg")]


@pytest.mark.parametrize("off", [0.0, 0.1])
def test_constants_that_engines_compute_themselves_are_known_up_to_rounding(off):
    """A product of constants, summed here in the opposite sequence, and scaled by what is fed."""
    constants = {"w": random((3, 256), 1), "v": random((256, 5), 2)}
    nodes = [node("MatMul", ["w", "v"], ["m"]), node("Mul", ["m", "x"], ["y"])]
    x, total = random((3, 5), 3), np.zeros((3, 5), F)
    for k in reversed(range(256)):
        total = total + constants["w"][:, k : k + 1] * constants["v"][k]
    y = ((total + F(off)) * x).astype(F)
    (judged,) = judge(make_model(nodes, {"x": [3, 5]}, ["y"], constants), {"x": x, "y": y})
    assert (judged.verdict in ("rounding", "identical")) == (off == 0.0)


def test_what_rounding_decides_is_not_folded():
    """log(16 / 8) / log(16) * 8 is 2, or a hair less: how many that are, each engine finds itself."""
    constants = {"n": np.array([16, 40], F), "eight": np.array(8, F), "log": np.log(np.array(16, F))}
    nodes = [
        node("Div", ["n", "eight"], ["share"]),
        node("Log", ["share"], ["l"]),
        node("Div", ["l", "log"], ["part"]),
        node("Mul", ["part", "eight"], ["at"]),
        node("Cast", ["at"], ["whole"], to=onnx.TensorProto.INT64),
        node("Cast", ["whole"], ["back"], to=onnx.TensorProto.FLOAT),
        node("Mul", ["back", "x"], ["y"]),
    ]
    folded = fold_constants(make_network(make_model(nodes, {"x": [2]}, ["y"], constants), "test"))
    assert "at" in folded
    assert "whole" not in folded
    constants["n"] = np.array([17, 40], F)
    assert "whole" in fold_constants(make_network(make_model(nodes, {"x": [2]}, ["y"], constants), "test"))


class Silent(ReferenceSide):
    """A side that has no name for the states of a recurrent layer."""

    def list_observable(self, values):
        return [v for v in values if v != "s"]


def test_a_side_that_does_not_show_its_states_leaves_the_others_judged():
    constants = {"w": random((1, 384, 16), 2, 0.3), "r": random((1, 384, 96), 3, 0.3)}
    nodes = [node("LSTM", ["x", "w", "r"], ["s"], hidden_size=96), node("Exp", ["s"], ["y"])]
    network = make_network(make_model(nodes, {"x": [24, 1, 16]}, ["y"], constants), "test")
    found = compare_model(network, [ReferenceSide("shows"), Silent("silent", lambda name, result, values: result * 1)])
    assert {s.name: s.unjudged for s in found.sides} == {"shows": 0, "silent": 1}
    assert found.sides[0].verdict in ("rounding", "identical")
