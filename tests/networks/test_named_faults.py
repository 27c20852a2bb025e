"""Faults of closed reports, made by plain NumPy in networks of one or two operators: each is named, no right one is.

What an engine returns is the faulty operator's result, followed by whatever stands behind it in the network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import samebits
from samebits.engines.runner import Identity
from samebits.findings.model_schema import ModelComparison, UnitSide

Arrays = Mapping[str, np.ndarray]
OPSET = 21
RIGHT = ("identical", "rounding")
DRAWS = np.random.default_rng(12)


class Values:
    """A side that returns what it was given, by the names of values."""

    text = "theirs"

    def __init__(self, values: Arrays) -> None:
        self._values = values

    def identify(self) -> Identity:
        return Identity(self.text, self.text, "0", "CPU")

    def run_network(self, network: Any, inputs: Arrays, observed: Any, wanted: Any, given: Arrays) -> Arrays:
        return {name: ({**inputs, **self._values, **given})[name] for name in wanted}

    def close(self) -> None:
        return


@dataclass(frozen=True)
class Case:
    """A network's nodes, what is fed, its constants, the faulty values by name, and what is to be said."""

    name: str
    nodes: list[Any]
    fed: Mapping[str, np.ndarray]
    faulty: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]
    cause: str
    says: str
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    outputs: tuple[str, ...] = ("y",)

    def __str__(self) -> str:
        return self.name


def draw(*shape: int) -> np.ndarray:
    return DRAWS.standard_normal(shape).astype(np.float32)


def node(operator: str, inputs: list[str], output: str, **attributes: Any) -> Any:
    return helper.make_node(operator, inputs, [output], name=f"{operator}_{output}", **attributes)


def make_model(case: Case) -> onnx.ModelProto:
    fed = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in case.fed.items()
    ]
    made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in case.outputs]
    stored = [numpy_helper.from_array(np.asarray(a), n) for n, a in case.constants.items()]
    graph = helper.make_graph(case.nodes, "net", fed, made, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def compute_right(case: Case) -> dict[str, np.ndarray]:
    """Every value by ONNX's reference."""
    model = make_model(case)
    names = [v for n in model.graph.node for v in n.output]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    return dict(zip(names, ReferenceEvaluator(model).run(None, dict(case.fed)), strict=True))


def ask(tmp_path: Any, case: Case, values: Mapping[str, np.ndarray]) -> UnitSide:
    """What is said of the first unit that deviates, else of the last one."""
    path = tmp_path / "net.onnx"
    onnx.save(make_model(case), path)
    found = samebits.compare(path, [Values(dict(values))], inputs=dict(case.fed))
    assert isinstance(found, ModelComparison)
    sides = [unit.sides[0] for unit in found.units]
    return next((side for side in sides if side.verdict not in RIGHT), sides[-1])


CODES = DRAWS.integers(-100, 100, (6, 5)).astype(np.int8)
SCALES = (0.01 + DRAWS.random(5) / 20).astype(np.float32)
UNPACKED = [node("DequantizeLinear", ["codes", "scale"], "w", axis=1), node("MatMul", ["x", "w"], "y")]


def unpack(scale: np.ndarray, codes: np.ndarray = CODES) -> Callable[..., dict[str, np.ndarray]]:
    return lambda v: {"y": (v["x"].astype(np.float64) @ (codes * scale.astype(np.float64))).astype(np.float32)}


def normalise(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    wide = x.astype(np.float64)
    return (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + 1e-5)


def take_nearest(v: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"y": v["x"][:, :, :, (np.arange(3) / 0.3).astype(int)]}


def normalise_in_one_pass(v: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The variance as a difference of two sums in float32, each added up in sequence."""
    x = v["x"]
    mean, square = (np.add.accumulate(a, -1, dtype=np.float32)[:, -1:] / np.float32(16) for a in (x, x * x))
    with np.errstate(invalid="ignore"):
        return {"y": (x - mean) / np.sqrt(square - mean * mean + np.float32(1e-5))}


def average_without_end(v: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    padded, counted = (
        np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
        for a in (v["x"].astype(np.float64), np.ones_like(v["x"], np.float64))
    )
    counted[:, :, 0], counted[:, :, :, 0] = 1, 1
    counted[:, :, -1], counted[:, :, :, -1] = 0, 0
    sums, counts = (
        np.lib.stride_tricks.sliding_window_view(a, (3, 3), (2, 3)).sum((-1, -2)) for a in (padded, counted)
    )
    return {"y": (sums / counts).astype(np.float32)}


def read_before(v: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Negative indices as offsets in memory: they reach into the row before."""
    places = np.arange(4)[:, None] * 6 + PLACES
    return {"g": (found := v["x"].reshape(-1)[places % 24]), "y": np.tanh(found)}


PLACES = np.array([[0, -1, 3], [5, 2, -2], [-3, 1, 1], [4, -1, 0]])
# Half of the rows have one number throughout: their variance, as a difference, may come out below zero.
SPREAD = (20 * DRAWS.standard_normal((24, 1)) + DRAWS.standard_normal((24, 16))).astype(np.float32)
SPREAD[::2] = (2000 * DRAWS.standard_normal((12, 1))).astype(np.float32)
WHOLE = DRAWS.integers(-60000, 60000, (6, 9)).astype(np.int32)
IMAGE = draw(3, 2, 6, 6)
SLOPES = (0.1 + DRAWS.random((1, 1, 6, 1))).astype(np.float32)
SQUARE = draw(1, 6, 6, 5)
STEPS = {"s": np.array(0.125, np.float32), "z": np.array(3, np.uint8)}
CASES = [
    Case(
        "one scale for all columns", UNPACKED, {"x": draw(4, 6)}, unpack(SCALES[0]), "quantized-operands",
        "with the first scale", {"codes": CODES, "scale": SCALES},
    ),
    Case(
        "codes below zero cut off", UNPACKED, {"x": draw(4, 6)}, unpack(SCALES, np.maximum(CODES, 0)),
        "quantized-operands", "codes below zero for 0", {"codes": CODES, "scale": SCALES},
    ),
    Case(
        "slopes along channels", [node("PRelu", ["x", "slope"], "y")], {"x": SQUARE},
        lambda v: {"y": np.where(v["x"] < 0, v["x"] * SLOPES.reshape(1, 6, 1, 1), v["x"])}, "axis-order",
        "along axis 1 in place of 2", {"slope": SLOPES},
    ),
    Case(
        "a bound of zero", [node("Clip", ["x", "", "high"], "y")], {"x": draw(5, 6)},
        lambda v: {"y": np.clip(v["x"], 0, np.float32(0.75))}, "fusion", "does not have for 0",
        {"high": np.array(0.75, np.float32)},
    ),
    Case(
        "a norm over the batch", [node("InstanceNormalization", ["x", "one", "zero"], "y")], {"x": IMAGE},
        lambda v: {"y": normalise(v["x"], (0, 2, 3)).astype(np.float32)}, "axis-order", "over the batch",
        {"one": np.ones(2, np.float32), "zero": np.zeros(2, np.float32)},
    ),
    Case(
        "nearest without its halves", [node("Resize", ["x", "", "scales"], "y", mode="nearest")],
        {"x": draw(1, 1, 4, 10)}, take_nearest, "dropped-attribute", "asymmetric with nearest_mode = floor",
        {"scales": np.array([1, 1, 1, 0.3], np.float32)},
    ),
    Case(
        "a variance that cancels", [node("LayerNormalization", ["x", "one"], "y")], {"x": SPREAD},
        normalise_in_one_pass, "cancellation", "less the squared mean", {"one": np.ones(16, np.float32)},
    ),
    Case(
        "fractions cut off",
        [node("QuantizeLinear", ["x", "s", "z"], "q"), node("DequantizeLinear", ["q", "s", "z"], "y")],
        {"x": draw(5, 8)},
        lambda v: {
            "q": (q := (np.trunc(v["x"] / np.float32(0.125)) + 3).clip(0, 255).astype(np.uint8)),
            "y": (q.astype(np.float32) - 3) * np.float32(0.125),
        },
        "requantization", "cuts off the fraction", STEPS,
    ),
    Case(
        "the padding behind is not counted",
        [node("AveragePool", ["x"], "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)],
        {"x": IMAGE}, average_without_end, "padding", "out of AveragePool's count",
    ),
    Case(
        "sums that leave 32 bits",
        [node("ReduceL2", ["x", "axes"], "r", keepdims=0), node("Cast", ["r"], "y", to=TensorProto.FLOAT)],
        {"x": WHOLE // 2},
        lambda v: {
            "r": (r := np.sqrt((v["x"] * v["x"]).sum(1, dtype=np.int32).astype(float)).astype(np.int32)),
            "y": r.astype(np.float32),
        },
        "overflow", "in their own format", {"axes": np.array([1])},
    ),
    Case(
        "indices from the end", [node("GatherElements", ["x", "places"], "g", axis=1), node("Tanh", ["g"], "y")],
        {"x": draw(4, 6)}, read_before, "index-overflow", "negative indices", {"places": PLACES},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_fault_of_a_closed_report_is_named(tmp_path: Any, case: Case) -> None:
    right = compute_right(case)
    with np.errstate(over="ignore", invalid="ignore"):
        values = {**right, **case.faulty({**case.fed, **right})}
    side = ask(tmp_path, case, values)
    assert side.verdict in ("wrong", "downgrade")
    assert side.cause == case.cause
    assert case.says in (side.says or "")


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.name not in ("sums that leave 32 bits", "the padding behind is not counted")],
    ids=str,
)
def test_right_results_are_right(tmp_path: Any, case: Case) -> None:
    assert ask(tmp_path, case, compute_right(case)).verdict in RIGHT


def test_sums_of_whole_numbers_are_exact(tmp_path: Any) -> None:
    """Python's integers in place of ONNX's reference, which adds in 32 bits."""
    case = next(c for c in CASES if c.name == "sums that leave 32 bits")
    small = {"x": WHOLE // 2}
    exact = np.array([math.isqrt(sum(int(n) ** 2 for n in row)) for row in small["x"]])
    values = {"r": exact.astype(np.int32), "y": exact.astype(np.float32)}
    fitting = Case(case.name, case.nodes, small, case.faulty, case.cause, case.says, case.constants)
    assert ask(tmp_path, fitting, values).verdict in RIGHT


def test_reductions_over_no_axes_still_square(tmp_path: Any) -> None:
    x = draw(3, 4)
    nodes = [node("ReduceSumSquare", ["x", "axes"], "y", noop_with_empty_axes=1)]
    case = Case("", nodes, {"x": x}, dict, "fusion", "leaves out", {"axes": np.array([], np.int64)})
    assert ask(tmp_path, case, {"y": x * x}).verdict in RIGHT
    side = ask(tmp_path, case, {"y": x})
    assert (side.verdict, side.cause) == ("wrong", "fusion")


def test_what_is_right_elsewhere_is_displaced(tmp_path: Any) -> None:
    """A mean over the first axis whose last rows repeat earlier ones, as OpenCV 4.8 had them."""
    x = draw(2, 6, 20)
    nodes = [node("ReduceMean", ["x", "axes"], "y", keepdims=0)]
    case = Case("", nodes, {"x": x}, dict, "", "", {"axes": np.array([0])})
    right = x.astype(np.float64).mean(0).astype(np.float32)
    assert ask(tmp_path, case, {"y": right}).verdict in RIGHT
    moved = right.copy()
    moved[4:] = right[1:3]
    side = ask(tmp_path, case, {"y": moved})
    assert (side.verdict, side.cause) == ("wrong", "shape-specific-kernel")
    assert "right at others" in (side.says or "")
    # Zeros are right somewhere, too, and everywhere.
    moved[4:] = 0
    assert ask(tmp_path, case, {"y": moved}).cause is None


def ask_of(tmp_path: Any, nodes: list[Any], fed: Arrays, values: Arrays, **constants: np.ndarray) -> UnitSide:
    return ask(tmp_path, Case("", nodes, fed, dict, "", "", constants), values)


def test_where_every_output_hangs_on_a_negative_index_it_shows_nothing(tmp_path: Any) -> None:
    x = draw(4, 5, 16)
    nodes = [node("Gather", ["x", "last"], "g", axis=1), node("Mul", ["g", "k"], "y")]
    fed, constants = {"x": x}, {"last": np.array(-1), "k": draw(16)}
    off = (x[:, -1] * constants["k"] * 1.05).astype(np.float32)
    side = ask_of(tmp_path, nodes, fed, {"g": x[:, -1], "y": off}, **constants)
    assert "negative" not in (side.says or "")


def test_whole_numbers_are_right_elsewhere_by_chance(tmp_path: Any) -> None:
    x = DRAWS.uniform(-5, 5, (64, 256)).astype(np.float32)
    nodes = [node("Mul", ["x", "k"], "m"), node("Floor", ["m"], "y")]
    cut = (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    k = np.array(7.3, np.float32)
    side = ask_of(tmp_path, nodes, {"x": x}, {"m": x * k, "y": np.floor(cut * k)}, k=k)
    assert "right at others" not in (side.says or "")


def test_many_values_in_between_are_not_found_elsewhere(tmp_path: Any) -> None:
    """So many outputs that some are within the bound of any number."""
    x = draw(1, 3, 112, 112)
    nodes = [node("Resize", ["x", "", "scales"], "y", mode="linear")]
    scales = np.array([1, 1, 2, 2], np.float32)
    right = compute_right(Case("", nodes, {"x": x}, dict, "", "", {"scales": scales}))["y"]
    off = right.copy()
    off[..., -2:] = 0.3 * right[..., :2] + 0.7 * right[..., 40:42]
    side = ask_of(tmp_path, nodes, {"x": x}, {"y": off}, scales=scales)
    assert (side.verdict in RIGHT, side.cause) == (False, None)


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1"])
def test_large_whole_numbers_are_reduced(tmp_path: Any, operator: str) -> None:
    x = DRAWS.integers(-(2**50), 2**50, (3, 7))
    reduce = {"ReduceMax": max, "ReduceMin": min, "ReduceSum": sum, "ReduceL1": lambda row: sum(map(abs, row))}
    exact = np.array([reduce[operator]([int(n) for n in row]) for row in x])
    nodes = [
        node(operator, ["x", "axes"], "r", keepdims=0), node("Sub", ["r", "r"], "d"),
        node("Cast", ["d"], "y", to=TensorProto.FLOAT),
    ]  # fmt: skip
    values = {"r": exact, "d": exact - exact, "y": np.zeros(3, np.float32)}
    side = ask_of(tmp_path, nodes, {"x": x}, values, axes=np.array([1]))
    assert (side.verdict, side.is_judged) == ("identical", True)


def test_infinities_hide_no_cause(tmp_path: Any) -> None:
    x, mask = draw(4, 6), np.where(DRAWS.random(6) < 0.3, -np.inf, 0).astype(np.float32)
    nodes = [node("Add", ["x", "mask"], "a"), node("Mul", ["a", "k"], "y")]
    constants = {"mask": mask, "k": np.array(3, np.float32)}
    side = ask_of(tmp_path, nodes, {"x": x}, {"a": x + mask, "y": x + mask}, **constants)
    assert side.verdict == "wrong"
    assert "leaves out Mul" in (side.says or "")
    assert ask_of(tmp_path, nodes, {"x": x}, {"a": x + mask, "y": (x + mask) * 3}, **constants).verdict in RIGHT


@pytest.mark.parametrize("value", [70000.0, -1e9, 65519.0])
def test_beyond_the_largest_number_a_cast_gives_infinity(tmp_path: Any, value: float) -> None:
    x = np.array([1.5, value, 3], np.float32)
    nodes = [node("Cast", ["x"], "h", to=TensorProto.FLOAT16), node("Cast", ["h"], "y", to=TensorProto.FLOAT)]
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    values = {"h": half, "y": half.astype(np.float32)}
    assert ask_of(tmp_path, nodes, {"x": x}, values).verdict in RIGHT
    # What engines keep in float32 is no rounding beyond the range.
    assert (ask_of(tmp_path, nodes, {"x": x}, {**values, "y": x}).verdict in RIGHT) is (value == 65519.0)


def test_an_update_of_everything_is_refused_in_one_line(tmp_path: Any) -> None:
    """Indices without a last size name the whole array: onnxruntime takes them."""
    x, updates = draw(6, 6), draw(3, 6, 6)
    nodes = [node("ScatterND", ["x", "i", "u"], "y", reduction="add")]
    side = ask_of(tmp_path, nodes, {"x": x, "u": updates}, {"y": x + updates.sum(0)}, i=np.zeros((3, 0), np.int64))
    assert not side.is_judged


def test_windows_without_padding_count_what_is_there(tmp_path: Any) -> None:
    x = draw(2, 3, 5, 7)
    given = {"auto_pad": "VALID", "ceil_mode": 1, "count_include_pad": 1}
    nodes = [node("AveragePool", ["x"], "y", kernel_shape=[2, 1], strides=[2, 2], **given)]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (0, 1), (0, 0)))
    counts = np.array([2, 2, 1]).reshape(3, 1)
    right = ((padded[:, :, 0::2] + padded[:, :, 1::2])[..., ::2] / counts).astype(np.float32)
    assert ask_of(tmp_path, nodes, {"x": x}, {"y": right}).verdict in RIGHT


def test_a_fault_of_what_made_a_constant_is_found_by_our_own_rules(tmp_path: Any) -> None:
    """Weights that are quantised in the file, and whose fractions an engine cuts off when it folds them."""
    w, x, s = draw(6, 5), draw(4, 6), np.array(0.05, np.float32)
    nodes = [
        node("QuantizeLinear", ["w", "s", "z"], "q"), node("DequantizeLinear", ["q", "s", "z"], "v"),
        node("MatMul", ["x", "v"], "y"),
    ]  # fmt: skip
    cut = np.trunc(w / s).clip(-128, 127) * s.astype(np.float64)
    values = {"y": (x.astype(np.float64) @ cut).astype(np.float32)}
    side = ask_of(tmp_path, nodes, {"x": x}, values, w=w, s=s, z=np.array(0, np.int8))
    assert side.verdict not in RIGHT
    assert "cuts off the fraction" in (side.says or "")


def test_a_window_that_is_larger_than_its_image_is_not_judged(tmp_path: Any) -> None:
    x = draw(2, 3, 4)
    given = {"kernel_shape": [4], "dilations": [2], "strides": [2], "pads": [0, 1], "ceil_mode": 1}
    side = ask_of(tmp_path, [node("LpPool", ["x"], "y", **given)], {"x": x}, {"y": x[..., :1]})
    assert not side.is_judged
