"""torch-mlir#4752 (iree): ONNX Softplus lowered to log(exp(x) + 1), infinite above 88."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/llvm/torch-mlir/pull/4752"
ENGINE = "iree"
MODEL = "model.onnx"
FAULTY, FIXED = "3.12.0", "3.13.0"
FIRST_FAULTY = None
UNIT = "Softplus"
VERDICT = "wrong"
CAUSES = ("overflow",)
CAUSE = "lowering of ONNX Softplus as log1p(exp(x)): exp overflows float32 and the result is infinite"
CONDITION = "inputs above 88.7"
WORKAROUND = None
NOTE = "Largest error over largest |truth|, elements off by over 1e-3: 3.12.0: inf (6 of 12 off) | 3.13.0: 1.62e-07 (0 of 12 off). 3.0.0 to 3.12.0 wrong; torch-mlir#4752 describes this fault and its fix (the stored copy of the thread still calls it open), the bounds were found by trying."


def parts():
    r = np.random.default_rng(4752)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    return {"w1": (9 * f(6, 7)).astype(np.float32), "b1": f(7), "w2": f(7, 3), "k": np.float32(0.05)}


def make(folder: Path) -> None:
    n = [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("Add", ["a", "b1"], ["b"]),
        helper.make_node("Softplus", ["b"], ["s"]),
        helper.make_node("Mul", ["s", "k"], ["m"]),
        helper.make_node("MatMul", ["m", "w2"], ["y"]),
    ]
    g = helper.make_graph(
        n,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in parts().items()],
    )
    onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    np.savez(folder / "inputs.npz", x=(4 * np.random.default_rng(15).standard_normal((4, 6))).astype(np.float32))


def truth(inputs):
    p = {k: np.asarray(v, np.float64) for k, v in parts().items()}
    b = inputs["x"].astype(np.float64) @ p["w1"] + p["b1"]
    s = np.maximum(b, 0) + np.log1p(np.exp(-np.abs(b)))
    return {"y": p["k"] * s @ p["w2"]}
