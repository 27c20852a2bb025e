"""onnxruntime#24017: MultiHeadAttention reads an attention bias of shape [batch, 1, S, T] at the wrong place for every batch entry but the first."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import softmax, write

URL = "https://github.com/microsoft/onnxruntime/pull/24017"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.21.0", "1.21.1"
FIRST_FAULTY = None
UNIT = "MultiHeadAttention"
VERDICT = "wrong"
CAUSES = (
    "axis-order",
    "other-operands",
)
CAUSE = "offset into attention_bias when only the head axis is broadcast: wrong stride over the batch"
CONDITION = "attention_bias of shape [B, 1, S, T] with B > 1"
WORKAROUND = None
NOTE = "1.20.1: 8e-1 and 1.21.0: 6.6e-1, 40 of 60 elements (all of batch entries 1 and 2), 1.19.2 refuses the model; 1.21.1: 9e-8. Fix: PR 24017"


def _weights():
    r = np.random.default_rng(24017)
    return {
        "wq": (r.standard_normal((6, 8)) * 0.6).astype(np.float32),
        "wo": (r.standard_normal((8, 5)) * 0.6).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("Tanh", ["k"], ["kt"]),
        helper.make_node(
            "MultiHeadAttention", ["q", "kt", "v", "", "", "bias"], ["a"], domain="com.microsoft", num_heads=2
        ),
        helper.make_node("MatMul", ["a", "wo"], ["y"]),
    ]
    r = np.random.default_rng(23)

    def f(*s):
        return r.standard_normal(s).astype(np.float32)

    write(
        truth,
        folder,
        nodes,
        {"x": f(3, 4, 6), "k": f(3, 5, 8), "v": f(3, 5, 8), "bias": f(3, 1, 4, 5)},
        _weights(),
        ["y"],
        17,
        8,
        contrib=True,
    )


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    q = inputs["x"].astype(np.float64) @ w["wq"].astype(np.float64)
    k, v = np.tanh(inputs["k"].astype(np.float64)), inputs["v"].astype(np.float64)
    a = np.zeros((3, 4, 8))
    for b in range(3):
        for head in range(2):
            part = slice(4 * head, 4 * head + 4)
            scores = q[b, :, part] @ k[b, :, part].T / np.sqrt(4.0) + inputs["bias"][b, 0].astype(np.float64)
            a[b, :, part] = softmax(scores) @ v[b, :, part]
    return {"y": a @ w["wo"].astype(np.float64)}
