"""onnxruntime#25280: Clip of int64 does not clip numbers between 2^31 and 2^32."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/pull/25280"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.31.1", "1.32.0"
FIRST_FAULTY = "1.21.0"
UNIT = "Clip"
VERDICT = "wrong"
CAUSES = (
    "overflow",
    "index-overflow",
)
CAUSE = "Eigen's SSE2 code for int64 comparison (used by min/max) compares the low 32-bit halves as signed numbers where the high halves are equal, so Clip (and Sign) pick the wrong operand"
CONDITION = (
    "int64 values whose bit 31 is set while the high half equals that of the bound, for example 2^31 to 2^32 - 1"
)
WORKAROUND = None
NOTE = "1.21.0 to 1.31.1: unclipped numbers around 3e9 in 16 of 32 elements (1.15.1 and 1.20.1 right: older Eigen); 1.32.0: 3e-8. Fix: PR 32475 (newer Eigen with its SSE2 repair), in favour of which 25280 was closed"


def _weights():
    return {
        "low": np.array(-10, np.int64),
        "high": np.array(1000, np.int64),
        "step": np.array(3, np.int64),
        "k": np.random.default_rng(25280).standard_normal(8).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["ids", "step"], ["m"]),
        helper.make_node("Clip", ["m", "low", "high"], ["c"]),
        helper.make_node("Cast", ["c"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "k"], ["y"]),
    ]
    r = np.random.default_rng(26)
    ids = r.integers(-2000, 2000, (4, 8))
    ids[::2] = r.integers(720_000_000, 1_400_000_000, (2, 8))  # three times this lies between 2**31 and 2**32
    ids[1, :4] *= 2**33 + 7
    write(truth, folder, nodes, {"ids": ids.astype(np.int64)}, _weights(), ["y"], 13, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    clipped = [[min(max(int(v) * 3, -10), 1000) for v in row] for row in inputs["ids"]]
    return {"y": np.array(clipped, np.float64) * w["k"].astype(np.float64)}
