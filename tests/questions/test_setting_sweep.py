"""A network over an engine's settings: which give the same bits, against plain runs; and what an engine cannot load."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from samebits.cli import main
from samebits.errors import ArgumentError
from samebits.questions.sweep.setting_sweeping import sweep_settings

pytestmark = pytest.mark.needs("onnxruntime")
OPTIMIZED = "onnxruntime:optimization={all,disable}"


@pytest.fixture
def network(tmp_path) -> str:
    """A convolution whose norm onnxruntime folds into its weights, and a pool that it cannot change."""
    random = np.random.default_rng(1)
    weights = {"w": random.standard_normal((8, 3, 3, 3))}
    weights |= {name: random.uniform(0.5, 2.0, 8) for name in ("scale", "b", "mean", "var")}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("BatchNormalization", ["c", "scale", "b", "mean", "var"], ["n"], "norm"),
        helper.make_node("MaxPool", ["n"], ["y"], "pool", kernel_shape=[2, 2]),
    ]
    stored = [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 9, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], stored,
    )  # fmt: skip
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)
    return str(path)


def test_a_setting_that_changes_bits_makes_classes(network: str) -> None:
    import onnxruntime

    x = np.random.default_rng(2).standard_normal((1, 3, 9, 9)).astype(np.float32)
    results = []
    for level in ("ORT_ENABLE_ALL", "ORT_DISABLE_ALL"):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
        results.append(session.run(None, {"x": x})[0].tobytes())
    assert results[0] != results[1]
    found = sweep_settings(network, [OPTIMIZED])
    assert found.invariant is False
    assert [one.cells for one in found.classes] == [
        [{"optimization": ["all", "all"]}], [{"optimization": ["disable", "disable"]}],
    ]  # fmt: skip
    assert "pool" not in [unit.name for unit in found.units]


def test_a_setting_that_changes_nothing_makes_one_class(network: str) -> None:
    found = sweep_settings(network, ["onnxruntime:threads={1,2}"])
    assert (found.invariant, len(found.classes), found.units) == (True, 1, [])


def test_what_ends_the_difference_is_tried(network: str) -> None:
    found = sweep_settings(network, ["onnxruntime:threads={1,2},optimization={all,disable}"], fix=True)
    assert found.tried is not None
    assert found.tried > 0
    assert len(found.classes) == 2
    assert all(len(one.cells) == 2 for one in found.classes)


def test_problems_on_integers_are_swept(capsys: pytest.CaptureFixture[str]) -> None:
    text = "linear x=4x64 w=8x64 dtype=uint8 weights=int8"
    assert main(["sweep", text, "--on", "onnxruntime:threads={1,2}", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["sweep"], document["points"], document["invariant"]) == (text, 2, True)


def test_a_point_that_cannot_be_loaded_is_named(
    network: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SAMEBITS_INSTALL", raising=False)
    engine = "onnxruntime:version={0.0.1,0.0.2}"
    assert main(["sweep", network, "--on", engine]) == 2
    assert "onnxruntime 0.0.1 is not installed" in " ".join(capsys.readouterr().out.split())


def test_open_sizes_are_given_beside_a_range_of_settings(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "net", made[:1], made[1:])
    path = tmp_path / "open.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)
    assert main(["sweep", str(path), "--size", "batch=3", "--on", "onnxruntime:threads={1,2}", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["points"], document["outputs"]) == (2, 12)


def test_options_of_other_sweeps_are_refused(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", network, "--on", "onnxruntime:threads={1,2}", "--batch-invariant"]) == 2
    assert "other options are not its own" in capsys.readouterr().err


def test_a_network_needs_a_range(network: str) -> None:
    with pytest.raises(ArgumentError, match="has a range in its engine's settings"):
        sweep_settings(network, ["onnxruntime"])
