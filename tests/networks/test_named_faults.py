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
def test_right_results_are_not_accused(tmp_path: Any, case: Case) -> None:
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


def test_far_beyond_bfloat16_is_wrong(tmp_path: Any) -> None:
    """x / sqrt(mean of x^2) with a cube in place of the square: wide bounds of the worst case leave it open."""
    x = draw(5, 16)
    nodes = [
        node("Pow", ["x", "two"], "p"), node("ReduceMean", ["p", "axes"], "m"), node("Add", ["m", "eps"], "a"),
        node("Sqrt", ["a"], "s"), node("Div", ["x", "s"], "y"),
    ]  # fmt: skip
    constants = {"two": np.array(3, np.float32), "axes": np.array([-1]), "eps": np.array(8, np.float32)}
    case = Case("", nodes, {"x": x}, dict, "", "", constants)
    right = compute_right(case)
    assert ask(tmp_path, case, right).verdict in RIGHT
    wide = x.astype(np.float64)
    squared = (wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 8)).astype(np.float32)
    # Only the last value is another: looked into, all operators before it are right.
    side = ask(tmp_path, case, {**right, "y": squared})
    assert side.verdict == "wrong"
    narrow = right["y"].view(np.uint32) & np.uint32(0xFFFF0000)
    assert ask(tmp_path, case, {**right, "y": narrow.view(np.float32)}).verdict == "downgrade"
