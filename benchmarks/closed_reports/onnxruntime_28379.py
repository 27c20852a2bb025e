"""onnxruntime#28379: Attention applies softcap after the mask, so masked positions come back with a weight."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import softmax, write

URL = "https://github.com/microsoft/onnxruntime/pull/28379"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.26.0", "1.27.0"
FIRST_FAULTY = None
UNIT = "Attention"
VERDICT = "wrong"
CAUSES = (
    "hidden-keys",
    "other-keys",
    "softmax",
)
CAUSE = "attn_mask (and the causal mask) is added before softcap; softcap * tanh squeezes minus infinity to -softcap, so that masked keys still count. The mask belongs after the softcap"
CONDITION = "softcap > 0 together with attn_mask or is_causal"
WORKAROUND = None
NOTE = "1.26.0 and before (1.23.2 on): 3.2e-1, 40 of 40 elements; 1.27.0: 9e-8. Fix: PR 28379 (follows onnx PR 7867, which set the order: scale, softcap, mask, softmax)"


def _weights():
    r = np.random.default_rng(28379)
    return {
        "wq": (r.standard_normal((6, 8)) * 0.8).astype(np.float32),
        "wo": (r.standard_normal((8, 5)) * 0.6).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("Tanh", ["k"], ["kt"]),
        helper.make_node("Attention", ["q", "kt", "v", "mask"], ["a"], q_num_heads=2, kv_num_heads=2, softcap=2.0),
        helper.make_node("MatMul", ["a", "wo"], ["y"]),
    ]
    r = np.random.default_rng(16)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    mask = r.random((4, 5)) > 0.5
    mask[:, 0] = True
    write(
        truth,
        folder,
        nodes,
        {"x": f(2, 4, 6), "k": f(2, 5, 8), "v": f(2, 5, 8), "mask": mask},
        _weights(),
        ["y"],
        23,
        10,
    )


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    q = inputs["x"].astype(np.float64) @ w["wq"].astype(np.float64)
    k, v = np.tanh(inputs["k"].astype(np.float64)), inputs["v"].astype(np.float64)
    a = np.zeros((2, 4, 8))
    for b in range(2):
        for head in range(2):
            part = slice(4 * head, 4 * head + 4)
            scores = 2.0 * np.tanh(q[b, :, part] @ k[b, :, part].T / np.sqrt(4.0) / 2.0)
            scores = np.where(inputs["mask"], scores, -np.inf)
            a[b, :, part] = softmax(scores) @ v[b, :, part]
    return {"y": a @ w["wo"].astype(np.float64)}
