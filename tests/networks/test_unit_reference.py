"""What units should return: values against float64 formulas, bounds against float32 computed several ways."""

import itertools
import math

import numpy as np
import onnx
import pytest

from networks.network_building import conv_clip, make_model, node, random, refer
from samebits.errors import SamebitsError
from samebits.networks.bounded import arithmetic_in, exactly
from samebits.networks.onnx_reading import make_network
from samebits.networks.operations import apply_node
from samebits.networks.unit_reference import refer_unit
from samebits.networks.units import divide_network, fold_constants
from samebits.numbers.format import FLOAT32

F = np.float32
X = random((2, 4, 9, 9), 1)
TABLE = random((3, 17), 2, 2.0)


def exact_erf(x):
    return np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape)


def pool(x, size, stride, function, filling, pad=0):
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=filling)
    places = range(0, padded.shape[-1] - size + 1, stride)
    return np.stack([
        np.stack([function(padded[:, :, i : i + size, j : j + size].reshape(2, 4, -1), -1) for j in places], -1)
        for i in places
    ], -2)  # fmt: skip


D = X.astype(np.float64)
T = TABLE.astype(np.float64)
CASES = {
    "relu": ([node("Relu", ["x"], ["y"])], X, np.maximum(D, 0)),
    "sigmoid": ([node("Sigmoid", ["x"], ["y"])], X, 1 / (1 + np.exp(-D))),
    "tanh": ([node("Tanh", ["x"], ["y"])], X, np.tanh(D)),
    "erf": ([node("Erf", ["x"], ["y"])], X, exact_erf(D)),
    "exp": ([node("Exp", ["x"], ["y"])], X, np.exp(D)),
    "leaky": ([node("LeakyRelu", ["x"], ["y"], alpha=0.1)], X, np.where(D < 0, float(F(0.1)) * D, D)),
    "hard sigmoid": ([node("HardSigmoid", ["x"], ["y"])], X, np.clip(float(F(0.2)) * D + 0.5, 0, 1)),
    "hard swish": ([node("HardSwish", ["x"], ["y"])], X, D * np.clip(D / 6 + 0.5, 0, 1)),
    "silu": (
        [node("Sigmoid", ["x"], ["s"]), node("Mul", ["x", "s"], ["y"])], X, D / (1 + np.exp(-D)),
    ),
    "softmax": (
        [node("Softmax", ["x"], ["y"], axis=-1)], TABLE, np.exp(T) / np.exp(T).sum(-1, keepdims=True),
    ),
    "mean": ([node("GlobalAveragePool", ["x"], ["y"])], X, D.mean((2, 3), keepdims=True)),
    "max pool": (
        [node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])],
        X, pool(D, 3, 2, np.max, -np.inf, 1),
    ),
    "average pool": (
        [node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2])], X, pool(D, 3, 2, np.mean, 0),
    ),
    "average with padding": (
        [node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4, count_include_pad=1)],
        X, pool(D, 3, 2, np.mean, 0, 1),
    ),
    "transpose": ([node("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1])], X, D.transpose(0, 2, 3, 1)),
    "layer norm, in parts": (
        [
            node("ReduceMean", ["x", "axes"], ["m"], keepdims=1), node("Sub", ["x", "m"], ["d"]),
            node("Mul", ["d", "d"], ["q"]), node("ReduceMean", ["q", "axes"], ["v"], keepdims=1),
            node("Add", ["v", "e"], ["ve"]), node("Sqrt", ["ve"], ["r"]), node("Div", ["d", "r"], ["y"]),
        ],
        TABLE, (T - T.mean(-1, keepdims=True)) / np.sqrt(T.var(-1, keepdims=True) + float(F(1e-5))),
    ),
}  # fmt: skip
CONSTANTS = {"axes": np.array([-1], np.int64), "e": np.array(1e-5, F)}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_function_and_float32_is_within_the_bound(name):
    nodes, fed, expected = CASES[name]
    used = {v for n in nodes for v in n.input}
    found = refer(nodes, {"x": fed}, {k: v for k, v in CONSTANTS.items() if k in used})
    scale = np.abs(expected).max()
    assert np.abs(found.value - expected).max() <= 1e-13 * scale + 1e-15
    # The best float32 can do is within the bound, and the bound is no more than a small multiple of it.
    assert (np.abs(expected.astype(F) - found.value) <= found.bound).all()
    assert found.bound.max() <= 2.0**-24 * 1000 * scale


def test_an_error_in_what_goes_in_goes_on_through_a_unit():
    """The bound of a chain holds for inputs that a first operation rounded in another direction."""
    nodes = [
        node("Mul", ["x", "c"], ["a"]), node("Exp", ["a"], ["b"]), node("Add", ["b", "x"], ["s"]),
        node("Sqrt", ["s"], ["y"]),
    ]  # fmt: skip
    x = np.abs(TABLE)
    found = refer(nodes, {"x": x}, {"c": np.array(0.3, F)})
    low = np.nextafter(x * F(0.3), F(-np.inf))
    high = np.nextafter(x * F(0.3), F(np.inf))
    for a in (low, high, x * F(0.3)):
        made = np.sqrt(np.exp(a) + x)
        assert made.dtype == F
        assert (np.abs(made.astype(np.float64) - found.value) <= found.bound).all()


def sum_in_order(terms):
    total = F(0)
    for term in terms:
        total = F(total + term)
    return total


@pytest.mark.parametrize("seed", range(6))
def test_a_batch_norm_folded_or_applied_is_within_the_bound_of_its_unit(seed):
    x, w = random((2, 12), seed), random((12, 5), seed + 10)
    constants = {
        "w": w,
        "s": random((5,), seed + 20), "t": random((5,), seed + 30), "m": random((5,), seed + 40),
        "v": np.abs(random((5,), seed + 50)) + F(0.01),
    }  # fmt: skip
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("BatchNormalization", ["p", "s", "t", "m", "v"], ["y"])]
    found = refer(nodes, {"x": x}, constants)
    factor = constants["s"] / np.sqrt(constants["v"] + F(1e-5))
    shift = constants["t"] - constants["m"] * factor
    folded = w * factor
    sums = [[sum_in_order(x[i] * folded[:, j]) for j in range(5)] for i in range(2)]
    plain = [[sum_in_order(x[i] * w[:, j]) for j in range(5)] for i in range(2)]
    one = np.array(sums, F) + shift
    other = (np.array(plain, F) - constants["m"]) * factor + constants["t"]
    for made in (one, other):
        assert (np.abs(made.astype(np.float64) - found.value) <= found.bound).all()
    # A lost normalisation is far outside.
    assert (np.abs(np.array(plain) - found.value) > 100 * found.bound).any()


@pytest.mark.parametrize("first", [True, False])
def test_what_is_added_to_a_product_may_come_first_or_last(first):
    x, w, r = random((4, 300), 1), random((300, 6), 2), random((4, 6), 3, 1000.0)
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "r"], ["y"])]
    found = refer(nodes, {"x": x, "r": r}, {"w": w})
    made = np.empty((4, 6), F)
    for i in range(4):
        for j in range(6):
            products = list(x[i] * w[:, j])
            made[i, j] = sum_in_order([r[i, j], *products] if first else [*products, r[i, j]])
    exact = x.astype(np.float64) @ w.astype(np.float64) + r
    assert np.abs(found.value - exact).max() < 1e-9
    assert (np.abs(made.astype(np.float64) - found.value) <= found.bound).all()


def test_two_products_in_one_unit_pass_their_errors_on():
    x, w1, w2 = random((3, 40), 1), random((40, 30), 2), random((30, 5), 3)
    nodes = [node("MatMul", ["x", "a"], ["p"]), node("MatMul", ["p", "b"], ["y"])]
    found = refer(nodes, {"x": x}, {"a": w1, "b": w2})
    exact = x.astype(np.float64) @ w1.astype(np.float64) @ w2.astype(np.float64)
    assert np.abs(found.value - exact).max() < 1e-10
    inner = np.array([[sum_in_order(row * w1[:, k]) for k in range(30)] for row in x], F)
    made = np.array([[sum_in_order(row * w2[:, j]) for j in range(5)] for row in inner], F)
    assert (np.abs(made.astype(np.float64) - found.value) <= found.bound).all()
    # Operands in bfloat16 are outside.
    cut = (x.view(np.uint32) & 0xFFFF0000).view(F).astype(np.float64)
    cut = cut @ w1.astype(np.float64) @ w2.astype(np.float64)
    assert (np.abs(cut - found.value) > found.bound).any()


def test_an_operator_without_a_rule_has_no_bound():
    found = refer([node("Hardmax", ["x"], ["y"])], {"x": np.ones((3, 3), np.float32)}, opset=11)
    assert found.bound is None
    assert found.unknown == "Hardmax"


def test_a_gemm_with_scales_and_a_matrix_added_is_the_sum_of_its_parts():
    x, w, c = random((3, 7), 1), random((5, 7), 2), random((3, 5), 3)
    gemm = node("Gemm", ["x", "w", "c"], ["y"], alpha=0.5, beta=2.0, transB=1)
    found = refer([gemm], {"x": x}, {"w": w, "c": c})
    exact = 0.5 * (x.astype(np.float64) @ w.T.astype(np.float64)) + 2.0 * c.astype(np.float64)
    assert np.abs(found.value - exact).max() < 1e-12


def test_plain_products_are_the_correctly_rounded_ones():
    network = make_network(conv_clip(), "test")
    folded = fold_constants(network)
    (unit,) = divide_network(network, folded)
    x = random((1, 3, 12, 12), 5)
    found = refer_unit(network, folded, unit, {"x": x})["y"]
    import samebits

    expected = np.clip(samebits.conv2d(x, folded["w"], folded["b"], padding=1), 0, 2)
    assert np.array_equal(found.truth, expected)


def softmax_of_rows(x, rows):
    e = np.exp(x.reshape(rows, -1) - x.reshape(rows, -1).max(1, keepdims=True))
    return (e / e.sum(1, keepdims=True)).reshape(x.shape)


EXPONENTS = np.array([2, 3, 0, 1, 0.5, -1, 4, 2.5, -2], F)
GROUP = D.reshape(2, 2, -1)
GROUP = ((GROUP - GROUP.mean(-1, keepdims=True)) / np.sqrt(GROUP.var(-1, keepdims=True) + float(F(1e-5)))).reshape(
    D.shape
)
SCALES = random((2,), 8)
ODD_WAYS = {
    "largest of an axis": ([node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)], X, D.max(1), {}, 11),
    "smallest of all": ([node("ReduceMin", ["x"], ["y"], keepdims=0)], X, np.asarray(D.min()), {}, 18),
    "global maximum": ([node("GlobalMaxPool", ["x"], ["y"])], X, D.max((2, 3), keepdims=True), {}, 18),
    "powers of every column": (
        [node("Pow", ["x", "p"], ["y"])], np.abs(X), np.abs(D) ** EXPONENTS.astype(float), {"p": EXPONENTS}, 18,
    ),
    "powers of two": ([node("Pow", ["p", "x"], ["y"])], X, 2.0**D, {"p": np.array(2, F)}, 18),
    "softmax before opset 13": ([node("Softmax", ["x"], ["y"])], X, softmax_of_rows(D, 2), {}, 11),
    "softmax before opset 13, of all": ([node("Softmax", ["x"], ["y"], axis=0)], X, softmax_of_rows(D, 1), {}, 11),
    "group norm before opset 21": (
        [node("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=2)],
        X, (GROUP + 1) * np.repeat(SCALES.astype(float), 2)[None, :, None, None], {"s": SCALES}, 18,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD_WAYS)
def test_rules_hold_for_attributes_and_opsets_that_are_seldom(name):
    nodes, fed, expected, constants, opset = ODD_WAYS[name]
    found = refer(nodes, {"x": fed}, constants, opset)
    assert found.value.shape == expected.shape
    scale = np.abs(expected).max()
    assert np.abs(found.value - expected).max() <= 1e-12 * scale
    assert (np.abs(expected.astype(F) - found.value) <= found.bound).all()
    assert found.bound.max() <= 2.0**-24 * 1000 * scale


def test_a_mask_of_minus_infinity_leaves_softmax_its_bound():
    x = TABLE.copy()
    x[:, ::3] = -np.inf
    found = refer([node("Softmax", ["x"], ["y"], axis=-1)], {"x": x})
    expected = np.exp(x.astype(float)) / np.exp(x.astype(float)).sum(-1, keepdims=True)
    assert np.abs(found.value - expected).max() < 1e-15
    assert found.bound.max() < 1e-4
    assert not np.isnan(found.bound).any()


@pytest.mark.parametrize("operator", ["Softmax", "Exp"])
def test_powers_that_are_made_as_twice_a_smaller_one_may_be_lost(operator):
    """oneDNN's exp: 2^n is twice 2^(n - 1), whose bits are put together from n, and are 0 below 2^-126."""
    x = np.concatenate([[F(0)], np.linspace(-90, -84, 500).astype(F)])[None]
    found = refer([node(operator, ["x"], ["y"])], {"x": x})
    n = np.floor(x.astype(np.float64) * np.log2(np.e) + 0.5)
    made = np.where(n - 1 < -126, 0.0, np.exp(x.astype(np.float64)))
    made = (made / made.sum() if operator == "Softmax" else made).astype(F)
    assert ((made == 0) & (np.exp(x.astype(np.float64)) > 2.0**-126)).any()
    assert (np.abs(made.astype(np.float64) - found.value) <= found.bound).all()
    # No larger one may be.
    lost = np.where(found.value > 2.0**-124, 0.0, found.value)
    assert (np.abs(lost - found.value) > found.bound).any()


def test_elu_as_onnx_defines_it_is_within_the_bound_near_zero():
    x = random((400,), 3, 0.01)
    for alpha in (1.0, 20.0):
        found = refer([node("Elu", ["x"], ["y"], alpha=alpha)], {"x": x})
        made = np.where(x < 0, F(alpha) * (np.exp(x) - F(1)), x)
        assert made.dtype == F
        assert (np.abs(made.astype(np.float64) - found.value) <= found.bound).all()
        assert found.bound.max() < 1e-4


def test_a_sum_of_many_may_be_added_in_any_order():
    x, b, c = np.full((3,), 1e8, F), np.full((3,), -1e8, F), np.full((3,), 3.0, F)
    found = refer([node("Sum", ["x", "b", "c"], ["y"])], {"x": x}, {"b": b, "c": c})
    for made in ((x + b) + c, x + (b + c), (x + c) + b):
        assert (np.abs(made - found.value) <= found.bound).all()


def test_powers_below_the_smallest_normal_number_may_be_lost():
    x = np.array([-88.0, -100.0, -1.0, 0.0], F)
    for nodes in ([node("Exp", ["x"], ["y"])], [node("Softmax", ["x"], ["y"], axis=0)]):
        found = refer(nodes, {"x": x})
        assert (found.value[:2] <= found.bound[:2]).all()
        assert (found.value[2:] > 1000 * found.bound[2:]).all()


def test_padding_that_is_named_counts_and_what_rounding_up_adds_does_not():
    pool_node = node("AveragePool", ["x"], ["y"], kernel_shape=[2], strides=[2], ceil_mode=1, pads=[1, 1],
                     count_include_pad=1)  # fmt: skip
    x = np.array([[[1, 2, 3, 4, 5]]], F)
    # Windows of 0 1 2 3 4 5 0 and one place beyond: the last has one element, the padding.
    assert refer([pool_node], {"x": x}, opset=19).value.ravel().tolist() == [0.5, 2.5, 4.5]
    wide = node("AveragePool", ["x"], ["y"], kernel_shape=[4], strides=[3], ceil_mode=1, pads=[1, 1],
                count_include_pad=1)  # fmt: skip
    # 0 1 2 3, and 3 4 5 0: both whole; of six elements the second reaches 3 4 5 6.
    assert refer([wide], {"x": x}, opset=19).value.ravel().tolist() == [1.5, 3.0]
    more = np.array([[[1, 2, 3, 4, 5, 6, 7]]], F)
    # 0 1 2 3, 3 4 5 6, and 6 7 0 with one place beyond: three count.
    assert refer([wide], {"x": more}, opset=19).value.ravel().tolist() == [1.5, 4.5, 13 / 3]


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_what_is_scattered_onto_one_place_may_come_in_any_order(reduction):
    """Three updates of one place, of 1e8 and -1e8 and 1, in every order, each step rounded to float32."""
    x = np.array([[1.5, -2.25], [0.1, 7]], F)
    updates = np.array([[1e8, 1.1], [1, -1.3], [-1e8, 0.7]], F)
    made = node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)
    found = refer([made], {"x": x, "u": updates}, constants={"i": np.zeros((3, 1), np.int64)}, opset=18)
    step = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
    for order in itertools.permutations(range(3)):
        row = x[0]
        for i in order:
            row = step(row, updates[i])
        assert (np.abs(row.astype(np.float64) - found.value[0]) <= found.bound[0]).all()
    # The row that none meets keeps its bits, and the last update alone is no sum.
    assert found.value[1].tolist() == x[1].tolist()
    assert not found.bound[1].any()
    if reduction in ("add", "mul"):
        assert (np.abs(updates[2] - found.value[0]) > found.bound[0]).any()


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([node("Dropout", ["x", "r", "t"], ["y"])], {"r": np.array(0.5, F), "t": np.array(True)}),
        ([node("RandomNormal", [], ["r"], shape=[9]), node("Add", ["x", "r"], ["y"])], {}),
        ([node("Pad", ["x", "p"], ["y"])], {"p": np.array([0, 0, -1, 2, 0, 0, 2, -1])}),
        ([node("Resize", ["x", "", "s"], ["y"], mode="linear", coordinate_transformation_mode="align_corners")],
         {"s": np.array([1, 1, 1.5, 0.7], F)}),
        ([node("BatchNormalization", ["x", "s", "s", "s", "s"], ["y", "m", "v"], training_mode=1)],
         {"s": np.abs(random((4,), 1))}),
    ],
)  # fmt: skip
def test_what_is_drawn_or_read_in_several_ways_has_no_bound(nodes, constants):
    model = make_model(nodes, {"x": list(X.shape)}, ["y"], constants, 18)
    network = make_network(model, "test")
    folded = fold_constants(network)
    (unit,) = divide_network(network, folded, [v for n in network.nodes[:-1] for v in n.outputs])
    assert refer_unit(network, folded, unit, {"x": X})["y"].bound is None


def test_the_mask_beside_what_dropout_passes_on_stays_a_mask():
    (dropout,) = make_network(
        make_model([node("Dropout", ["x"], ["y", "m"])], {"x": list(X.shape)}, ["y"], {}, 18), "test"
    ).nodes
    moved, mask = apply_node(arithmetic_in(FLOAT32), dropout, [exactly(X)], 18)
    assert np.array_equal(moved.value, X)
    assert mask.dtype == bool
    assert mask.all()


def test_a_bias_of_another_length_is_refused_in_a_line():
    model = conv_clip()
    model.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(random((8, 2), 1), "b"))

    def judge():
        network = make_network(model, "test")
        folded = fold_constants(network)
        refer_unit(network, folded, divide_network(network, folded)[0], {"x": random((1, 3, 12, 12), 5)})

    with pytest.raises(SamebitsError) as raised:
        judge()
    assert "\n" not in str(raised.value)
