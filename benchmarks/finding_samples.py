"""One finding of every kind, as JSON, made on emulators and plain functions: what the hostile ones are made from."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import samebits
from samebits.engines.runner import Identity
from samebits.findings import Evidence, json_from_finding
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal
from samebits.questions.guard.guard_schema import Breach, GuardedResult, GuardReport
from samebits.questions.list.list_running import run_list
from samebits.questions.list.table_changes import compare_tables
from samebits.questions.runs.diff_schema import FirstDifference, RunDiff, SettingDifference
from samebits.sums.truth import compute_truth

_LAYER = "conv2d x=2x4x8x9 w=6x4x3x3 padding=1"


class _Shifted:
    """A runner whose results are shifted by a column where there are more than four."""

    text = "shifted"

    def identify(self) -> Identity:
        return Identity(self.text, "shifted", "1.0", "CPU")

    def run(self, problem: Any, operands: Any) -> np.ndarray:
        values = compute_truth(problem, operands).values
        return np.ascontiguousarray(np.roll(values, 1, -1)) if values.shape[-1] > 4 else values

    def close(self) -> None:
        return


def _explain() -> msgspec.Struct:
    problem = parse_problem_text(_LAYER)
    operands = make_normal(problem, 1)
    right = compute_truth(problem, operands).values
    return samebits.explain(Case(problem, operands, {"a": right, "b": np.ascontiguousarray(np.roll(right, 1, -1))}))


def _compare_network() -> msgspec.Struct:
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((4, 4)).astype(np.float32), f"w{i}") for i in range(2)]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="between"),
        helper.make_node("MatMul", ["b", "w1"], ["y"], name="last"),
    ]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3, 4]) for n in ("x", "y")]
    model = helper.make_model(helper.make_graph(nodes, "g", infos[:1], infos[1:], weights))
    from samebits.networks.onnx_reading import make_network

    return samebits.compare(make_network(model, "net.onnx"), ["truth", "emulate:direct x=bfloat16 w=bfloat16"])


def _list_and_changes(folder: Path) -> tuple[msgspec.Struct, msgspec.Struct]:
    (folder / "l").write_text("linear x=2x3 w=2x3\nnonsense\nlinear x=2x40 w=2x40\n")
    narrow = "emulate:direct acc=bfloat16"
    found = run_list(str(folder / "l"), ["truth", narrow], table=folder / "a.parquet")
    run_list(str(folder / "l"), ["truth"], table=folder / "b.parquet")
    return found, compare_tables(folder / "a.parquet", folder / "b.parquet")


def _diff() -> msgspec.Struct:
    first = FirstDifference(
        operation="aten.mm.default", what="aten.mm.default(float32[2, 3], float32[3, 2])", step=2,
        direction="forward", module="net.0", line="train.py:31", process="train.py", kind="operation", index_a=5,
        index_b=5,
    )  # fmt: skip
    settings = [SettingDifference(name="torch threads", a="1", b="2", set="torch.set_num_threads(1)")]
    return RunDiff(
        a="a.trace", b="b.trace", same=False, summary="The runs part here.", first=first, settings=settings,
        compared=9, differing=3, only_a=1, only_b=0, evidence=[Evidence("structure", "ran on")], samebits_version="0.1",
    )  # fmt: skip


def _guard() -> msgspec.Struct:
    counted = GuardedResult(
        layer="conv", direction="forward", seen=9, checks=3, outputs=96, draws=96, breaches=1, max_over_bound=4.5,
        max_over_likely=None,
    )  # fmt: skip
    breach = Breach(
        layer="conv", direction="forward", call=2, verdict="wrong", cause=None, certainty="bounds", outputs=4,
        checked=32, max_over_bound=4.5, max_over_likely=None, says="beyond its bound",
    )  # fmt: skip
    return GuardReport(
        module="net", verdict="wrong", summary="One layer is beyond its bound.", share=0.1, checks=3, outputs=96,
        time_s=0.5, running_s=5.0, results=[counted], breaches=[breach], left_out={"norm": "no product"},
        samebits_version="0.1",
    )  # fmt: skip


def make_samples() -> dict[str, Any]:
    """Every kind of finding by its name, as what JSON holds."""
    with tempfile.TemporaryDirectory() as name:
        listed, changed = _list_and_changes(Path(name))
        makers: dict[str, Callable[[], msgspec.Struct]] = {
            "comparison": lambda: samebits.compare(_LAYER, ["truth", "emulate:direct acc=float16"]),
            "explanation": _explain,
            "model": _compare_network,
            "profile": lambda: samebits.profile("emulate:direct order=pairs:k", "linear x=4x16 w=8x16"),
            "pick": lambda: samebits.pick("linear x=4x16 w=8x16", ["truth", "emulate:direct"]),
            "sweep": lambda: samebits.sweep("linear x={1..6}x16 w=8x16", ["emulate:direct"]),
            "reduction": lambda: samebits.reduce(_LAYER, _Shifted()),
            "diff": _diff,
            "guard": _guard,
            "list": lambda: listed,
            "changes": lambda: changed,
        }
        return {name: json.loads(json_from_finding(make())) for name, make in makers.items()}
