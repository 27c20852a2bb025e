"""onnxruntime#32452: QuantizeLinear of float16 cuts the quotient off instead of rounding it to nearest."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/pull/32452"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.29.0", "1.30.0"
FIRST_FAULTY = None
UNIT = "QuantizeLinear"
VERDICT = "downgrade"
CAUSES = ("requantization",)
CAUSE = "the float16 kernel converts x / scale to int32 directly, which truncates towards zero; QuantizeLinear rounds to nearest even"
CONDITION = "float16 input, per tensor or per axis (not blocked)"
WORKAROUND = None
NOTE = "1.29.0 and before (optimisations off, too; 1.20.1 refuses the model by default): one quantum in the operator, 3.3e-2 of the largest value, 9 of 20 elements; 1.30.0: 6e-8. Fix: PR 32452; older report: 18576"


def _weights():
    r = np.random.default_rng(32452)
    return {
        "k": r.uniform(0.5, 2.0, 6).astype(np.float16),
        "s": np.float16(0.0625),
        "z": np.int8(3),
        "w": r.standard_normal((6, 4)).astype(np.float32),
        "sf": np.float32(0.0625),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["m"]),
        helper.make_node("QuantizeLinear", ["m", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "sf", "z"], ["d"]),
        helper.make_node("MatMul", ["d", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    x = np.random.default_rng(24).standard_normal((5, 6)).astype(np.float16)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y"], 19, 9)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    m = (
        (inputs["x"].astype(np.float64) * w["k"].astype(np.float64)).astype(np.float16).astype(np.float64)
    )  # Mul rounds to float16
    q = np.clip(np.rint(m / 0.0625) + 3, -128, 127)  # a scale of 2**-4: the quotient is exact
    d = (q - 3) * 0.0625
    return {"y": np.maximum(d @ w["w"].astype(np.float64), 0)}
