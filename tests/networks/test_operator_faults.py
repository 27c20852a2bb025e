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


WEIGHTS = np.random.default_rng(8).standard_normal((2, 3, 3, 3)).astype(np.float32)
SCATTERED = {
    "places": np.array([[0, 1, 1, 4], [2, 2, -1, 2]]),
    "updates": np.array([[0.3, 1.5, 2.5, 4], [5, 6.25, 7, 0.1]], np.float32),
}
LOST = [
    ("ReduceMean", IMAGE, {"axes": np.array([2, 3])}, {}, "axes", DROPPED, "ignores ReduceMean's axes"),
    ("ReduceSum", [(4, 4)], {"axes": np.array([1])}, {"keepdims": 0}, "keepdims", DROPPED, "ReduceSum's keepdims"),
    ("Transpose", [(4, 4, 4)], {}, {"perm": [1, 2, 0]}, "perm", ORDER, "ignores Transpose's perm"),
    ("Transpose", [(2, 3, 4)], {}, {"perm": [1, 2, 0]}, "perm", ORDER, "ignores Transpose's perm"),
    ("ConvTranspose", IMAGE, {"w": WEIGHTS}, {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, "auto_pad", PADDING, ""),
    ("Conv", [(1, 3, 9, 8)], {"w": WEIGHTS}, {"dilations": [2, 1]}, "dilations", DROPPED, "ignores Conv's dilation"),
    ("Softmax", [(4, 5)], {}, {"axis": 0}, "axis", DROPPED, "axis = -1"),
    ("ScatterElements", [(4, 5)], SCATTERED, {"axis": 1, "reduction": "add"}, "reduction", DROPPED, "reduction"),
    ("ScatterElements", [(4, 5)], SCATTERED, {"axis": 1, "reduction": "max"}, "reduction", DROPPED, "reduction"),
    ("Gemm", [(4, 4), (4, 4)], {}, {"transB": 1}, "transB", ORDER, ""),
]


@pytest.mark.parametrize(
    ("operator", "shapes", "constants", "declared", "lost", "cause", "says"), LOST, ids=lambda value: str(value)[:20]
)
def test_what_an_engine_ignores_is_named(tmp_path, operator, shapes, constants, declared, lost, cause, says) -> None:
    """An attribute or an input that a reader of files does not know: the operator's default is computed with."""
    model, inputs = make(operator, shapes, constants, **declared), draw(shapes)
    kept, left = ({n: v for n, v in given.items() if n != lost} for given in (constants, declared))
    (result,) = ReferenceEvaluator(make(operator, shapes, kept, **left)).run(None, inputs)
    (right,) = ReferenceEvaluator(model).run(None, inputs)
    side = compare(tmp_path, model, inputs, np.asarray(result, np.float32)).units[0].sides[0]
    assert side.verdict == "wrong"
    assert side.cause == cause
    assert says in (side.says or "")
    assert compare(tmp_path, model, inputs, np.asarray(right, np.float32)).verdict in ("identical", "rounding")


def test_windows_that_begin_in_the_end_padding_are_kept(tmp_path) -> None:
    """As OpenVINO did before 2026.2: one row and column of means more than ONNX and PyTorch have."""
    shape = (1, 2, 7, 9)
    attributes = {
        "kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1, "count_include_pad": 1,
    }  # fmt: skip
    model, inputs = make("AveragePool", [shape], {}, **attributes), draw([shape])
    padded = np.pad(inputs["x0"].astype(np.float64), [(0, 0), (0, 0), (1, 2), (1, 2)])
    faulty = padded[:, :, :10, :12].reshape(1, 2, 5, 2, 6, 2).mean((3, 5))
    side = compare(tmp_path, model, inputs, faulty.astype(np.float32)).units[0].sides[0]
    assert (side.verdict, side.cause) == ("wrong", PADDING)
    assert "begin in the end padding" in (side.says or "")
    right = compare(tmp_path, model, inputs, faulty[:, :, :4, :5].astype(np.float32))
    assert right.verdict in ("identical", "rounding")


def test_the_operator_inside_a_unit_is_named(tmp_path) -> None:
    """A mean behind a pool: only the unit's end is compared, and the pool is what deviates."""
    nodes = [
        helper.make_node("MaxPool", ["x0"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Relu", ["p"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x0", (1, 2, 6, 6)), ("y", None)))
    model = helper.make_model(
        helper.make_graph(nodes, "two", [x], [y]), opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9
    )
    inputs = draw([(1, 2, 6, 6)])
    # The smallest of each window: no fault that anybody lists.
    pooled = inputs["x0"].reshape(1, 2, 3, 2, 3, 2).min((3, 5))
    path = tmp_path / "two.onnx"
    onnx.save(model, path)
    side = Side(np.maximum(pooled, 0))
    side._values["p"] = pooled
    found = samebits.compare(path, [side], inputs=inputs)
    assert isinstance(found, ModelComparison)
    (unit,) = found.units
    assert unit.operators == ["MaxPool", "Relu"]
    assert unit.sides[0].verdict == "wrong"
    assert any("(MaxPool), observed inside the unit" in e.says for e in unit.sides[0].evidence)


def _move_points(grid: np.ndarray, sizes: tuple[int, int]) -> np.ndarray:
    """Points outside the image moved onto its border pixels, as onnxruntime did until 1.16."""
    most = np.array([1 - 1 / size for size in sizes[::-1]])
    return np.where((np.abs(grid) > 1).any(-1, keepdims=True), np.clip(grid, -most, most), grid)


def test_points_of_a_grid_that_are_moved_into_the_image_are_named(tmp_path) -> None:
    torch = pytest.importorskip("torch")
    grid = np.random.default_rng(2).uniform(-1.3, 1.3, (1, 5, 6, 2)).astype(np.float32)
    attributes = {"mode": "cubic", "padding_mode": "border"}
    model, inputs = make("GridSample", [(1, 2, 6, 7)], {"grid": grid}, **attributes), draw([(1, 2, 6, 7)])

    def sample(points: np.ndarray) -> np.ndarray:
        x = torch.tensor(inputs["x0"].astype(np.float64))
        found = torch.nn.functional.grid_sample(x, torch.tensor(points), "bicubic", "border", align_corners=False)
        return found.numpy().astype(np.float32)

    assert compare(tmp_path, model, inputs, sample(grid.astype(np.float64))).verdict in ("identical", "rounding")
    side = compare(tmp_path, model, inputs, sample(_move_points(grid.astype(np.float64), (6, 7)))).units[0].sides[0]
    assert (side.verdict, side.cause) == ("wrong", PADDING)
    assert "moves points of GridSample" in (side.says or "")


def test_a_line_that_goes_on_past_the_first_pixels_is_named(tmp_path) -> None:
    """As tract did until 0.23: before the first pixel's middle the line through the first two goes on."""
    model, inputs = (
        make(
            "Resize",
            [(1, 1, 1, 6)],
            {"": np.array([], np.float32), "s": np.array([1, 1, 1, 2], np.float32)},
            mode="linear",
        ),
        draw([(1, 1, 1, 6)]),
    )
    row = inputs["x0"][0, 0, 0].astype(np.float64)
    at = (np.arange(12) + 0.5) / 2 - 0.5
    first = np.clip(np.floor(at), 0, 5).astype(int)
    second, share = np.minimum(first + 1, 5), at - np.clip(np.floor(at), 0, 5)
    faulty = (row[first] * (1 - share) + row[second] * share).reshape(1, 1, 1, 12)
    side = compare(tmp_path, model, inputs, faulty.astype(np.float32)).units[0].sides[0]
    assert (side.verdict, side.cause) == ("wrong", PADDING)
    share = np.clip(share, 0, 1)
    right = (row[first] * (1 - share) + row[second] * share).reshape(1, 1, 1, 12)
    assert compare(tmp_path, model, inputs, right.astype(np.float32)).verdict in ("identical", "rounding")
