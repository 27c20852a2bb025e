"""onnxruntime#29020: Causal Attention of a single query over several keys attends to all keys instead of the first one."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import softmax, write

URL = "https://github.com/microsoft/onnxruntime/issues/29020"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.27.0", "1.28.0"
FIRST_FAULTY = None
UNIT = "Attention"
VERDICT = "wrong"
CAUSES = (
    "hidden-keys",
    "other-keys",
    "dropped-attribute",
)
CAUSE = "is_causal=1 with one query, several keys and no past is treated as decoding (aligned to the last key); the specification aligns the mask to the upper left, so query 0 sees key 0 only"
CONDITION = "opset 23, is_causal=1, query length 1, more keys than queries, no past_key"
WORKAROUND = None
NOTE = "1.27.0 and before (1.23.2 on): 1.5, 10 of 10 elements; 1.28.0: 6e-8. Fix: PR 29050 / 28958"


def _weights():
    r = np.random.default_rng(29020)
    return {
        "wq": (r.standard_normal((6, 8)) * 0.6).astype(np.float32),
        "wo": (r.standard_normal((8, 5)) * 0.6).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("Tanh", ["k"], ["kt"]),
        helper.make_node("Attention", ["q", "kt", "v"], ["a"], q_num_heads=2, kv_num_heads=2, is_causal=1),
        helper.make_node("MatMul", ["a", "wo"], ["y"]),
    ]
    r = np.random.default_rng(15)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    write(truth, folder, nodes, {"x": f(2, 1, 6), "k": f(2, 5, 8), "v": f(2, 5, 8)}, _weights(), ["y"], 23, 10)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    q = inputs["x"].astype(np.float64) @ w["wq"].astype(np.float64)
    k, v = np.tanh(inputs["k"].astype(np.float64)), inputs["v"].astype(np.float64)
    a = np.zeros((2, 1, 8))
    for b in range(2):
        for head in range(2):
            part = slice(4 * head, 4 * head + 4)
            scores = q[b, :, part] @ k[b, :, part].T / np.sqrt(4.0)
            for i in range(scores.shape[0]):
                scores[i, i + 1 :] = -np.inf  # lower triangle, upper left aligned
            a[b, :, part] = softmax(scores) @ v[b, :, part]
    return {"y": a @ w["wo"].astype(np.float64)}
