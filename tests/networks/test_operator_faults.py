"""One operator gone wrong: what ONNX's own reference returns for another one, as a side of the declared one."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import samebits
from samebits.engines.runner import Identity
from samebits.findings.model_schema import ModelComparison

OPSET = 20


def make(
    operator: str, shapes: list[tuple[int, ...]], constants: dict[str, np.ndarray], **attributes: Any
) -> onnx.ModelProto:
    """A network of one operator on inputs of these shapes, then constants."""
    names = [f"x{i}" for i in range(len(shapes))]
    node = helper.make_node(operator, [*names, *constants], ["y"], **attributes)
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)]
    stored = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(
        [node], "one", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], stored
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


class Side:
    """An engine that returns what it was given."""

    text = "theirs"

    def __init__(self, result: np.ndarray) -> None:
        self._values = {"y": result}

    def identify(self) -> Identity:
        return Identity(self.text, self.text, "0", "CPU")

    def run_network(self, network, inputs, observed, wanted, given) -> dict[str, np.ndarray]:
        return {name: ({**inputs, **given} | self._values)[name] for name in wanted}

    def close(self) -> None:
        return


def compare(tmp_path, model: onnx.ModelProto, inputs: dict[str, np.ndarray], result: np.ndarray) -> ModelComparison:
    """What is said of a result."""
    path = tmp_path / "one.onnx"
    onnx.save(model, path)
    found = samebits.compare(path, [Side(result)], inputs=inputs)
    assert isinstance(found, ModelComparison)
    return found


def draw(shapes: list[tuple[int, ...]]) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    return {f"x{i}": random.standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes)}


IMAGE = [(1, 2, 9, 8)]
POOL = {"kernel_shape": [3, 3], "strides": [2, 2]}
UNEVEN, EVEN = {**POOL, "pads": [1, 0, 0, 1]}, {**POOL, "pads": [1, 1, 1, 1]}
PADDING, DROPPED, ORDER = "padding", "dropped-attribute", "axis-order"
SIZES = {"": np.array([], np.float32), "scales": np.array([1, 1, 2, 2.5], np.float32)}
ALIGNED = {"coordinate_transformation_mode": "align_corners"}
PAIR = [(4, 5), (4, 5)]
CASES = [
    ("AveragePool", IMAGE, {}, UNEVEN, {"pads": [0, 1, 1, 0]}, PADDING, "exchanges the beginning and the end"),
    ("AveragePool", IMAGE, {}, EVEN, {"count_include_pad": 1}, DROPPED, "count_include_pad = 1"),
    ("MaxPool", IMAGE, {}, UNEVEN, {"pads": [0, 1, 1, 0]}, PADDING, "exchanges the beginning and the end"),
    ("MaxPool", IMAGE, {}, POOL, {"ceil_mode": 1}, DROPPED, "rounds MaxPool's size up"),
    ("MaxPool", IMAGE, {}, {**POOL, "dilations": [2, 2]}, {"dilations": [1, 1]}, DROPPED, "ignores MaxPool's dilation"),
    ("MaxPool", IMAGE, {}, EVEN, {"pads": [0, 0, 0, 0]}, PADDING, "ignores MaxPool's padding"),
    ("Resize", IMAGE, SIZES, {"mode": "linear"}, ALIGNED, DROPPED, "align_corners"),
    ("Resize", IMAGE, SIZES, {"mode": "nearest"}, {"nearest_mode": "floor"}, DROPPED, "nearest_mode = floor"),
    ("Sub", PAIR, {}, {}, None, ORDER, "the inputs of Sub in reverse"),
    ("Concat", PAIR, {}, {"axis": 1}, None, ORDER, "the inputs of Concat in reverse"),
    ("CumSum", PAIR[:1], {"axis": np.array(1)}, {}, {"exclusive": 1}, DROPPED, "exclusive = 1"),
]


@pytest.mark.parametrize(("operator", "shapes", "constants", "declared", "changed", "cause", "says"), CASES)
def test_a_fault_of_one_operator_is_named(
    tmp_path, operator, shapes, constants, declared, changed, cause, says
) -> None:
    model, inputs = make(operator, shapes, constants, **declared), draw(shapes)
    faulty = make(operator, shapes, constants, **{**declared, **(changed or {})})
    fed = inputs if changed is not None else dict(zip(inputs, list(inputs.values())[::-1], strict=True))
    (result,) = ReferenceEvaluator(faulty).run(None, fed)
    found = compare(tmp_path, model, inputs, np.asarray(result, np.float32))
    (side,) = found.units[0].sides
    assert (side.verdict, side.cause) == ("wrong", cause)
    assert says in (side.says or "")
    (right,) = ReferenceEvaluator(model).run(None, inputs)
    assert compare(tmp_path, model, inputs, np.asarray(right, np.float32)).verdict in ("identical", "rounding")


def test_cells_beyond_the_padding_are_counted(tmp_path) -> None:
    """As onnxruntime did before 1.21: every window of an average is divided by its whole size."""
    shape = (1, 2, 8, 8)
    attributes = {
        "kernel_shape": [3, 3],
        "strides": [2, 2],
        "pads": [1, 1, 1, 1],
        "ceil_mode": 1,
        "count_include_pad": 1,
    }
    model, inputs = make("AveragePool", [shape], {}, **attributes), draw([shape])
    padded = np.pad(inputs["x0"].astype(np.float64), [(0, 0), (0, 0), (1, 2), (1, 2)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
    faulty = windows.mean((-2, -1))
    counts = np.lib.stride_tricks.sliding_window_view(np.pad(np.ones((10, 10)), (0, 1)), (3, 3))[::2, ::2].sum((-2, -1))
    side = compare(tmp_path, model, inputs, faulty.astype(np.float32)).units[0].sides[0]
    assert (side.verdict, side.cause) == ("wrong", "padding")
    assert "reach beyond the padding" in (side.says or "")
    right = windows.sum((-2, -1)) / counts
    assert compare(tmp_path, model, inputs, right.astype(np.float32)).verdict in ("identical", "rounding")


def test_a_result_of_another_shape_says_so(tmp_path) -> None:
    model, inputs = make("MaxPool", IMAGE, {}, **POOL), draw(IMAGE)
    side = compare(tmp_path, model, inputs, np.zeros((1, 2, 7, 7), np.float32)).units[0].sides[0]
    assert (side.verdict, side.cause) == ("wrong", None)
    assert [e.says for e in side.evidence] == ["it returns the shape 1x2x7x7 where 1x2x4x3 is right"]


def test_nan_where_the_truth_is_a_number_is_wrong(tmp_path) -> None:
    model, inputs = make("Exp", PAIR[:1], {}), draw(PAIR[:1])
    result = np.exp(inputs["x0"])
    assert compare(tmp_path, model, inputs, result).verdict in ("identical", "rounding")
    result[2, 3] = np.nan
    side = compare(tmp_path, model, inputs, result).units[0].sides[0]
    assert side.verdict == "wrong"
