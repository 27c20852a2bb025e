"""onnxruntime#17953: Cast to float16 and back is removed, so that the values are not rounded to float16 at all."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/pull/17953"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.16.3", "1.17.0"
FIRST_FAULTY = None
UNIT = "Cast"
VERDICT = "wrong"
CAUSES = (
    "fusion",
    "excess-precision",
)
CAUSE = "the transformer that removes duplicate casts drops the pair float32 -> float16 -> float32 although it loses precision and range: no rounding, and no infinity beyond 65504"
CONDITION = "Cast to float16/bfloat16 directly followed by Cast back to float32"
WORKAROUND = None
NOTE = "1.15.1 and 1.16.3 (also with optimisations off): 3.9e-1 of the largest value, 13 of 32 elements; 1.17.0: 1e-7. Fix: PR 17953; older reports of the same fault: 8787, 9915, 17565"


def _weights():
    r = np.random.default_rng(1)
    return {
        "k": np.array([30000.0, 35000.0, 40000.0, 25000.0, 50000.0], np.float32),
        "limit": np.float32(131072),
        "v": r.standard_normal((5, 3)).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["m"]),
        helper.make_node("Cast", ["m"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["h"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Min", ["f", "limit"], ["y"]),
        helper.make_node("MatMul", ["y", "v"], ["z"]),
    ]
    x = np.random.default_rng(25).uniform(0.2, 2.5, (4, 5)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y", "z"], 13, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    with np.errstate(over="ignore"):
        f = (inputs["x"] * w["k"]).astype(np.float16).astype(np.float64)
    y = np.minimum(f, 131072.0)
    return {"y": y, "z": y @ w["v"].astype(np.float64)}
