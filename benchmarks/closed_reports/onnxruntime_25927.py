"""onnxruntime#25927: GroupQueryAttention's sliding window reaches one token too far back."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import softmax, write

URL = "https://github.com/microsoft/onnxruntime/pull/25927"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.23.2", "1.24.1"
FIRST_FAULTY = None
UNIT = "GroupQueryAttention"
VERDICT = "wrong"
CAUSES = (
    "hidden-keys",
    "other-keys",
)
CAUSE = "local_window_size did not count the current token, so each query attends to local_window_size + 1 keys (off by one)"
CONDITION = "local_window_size > 0 and more tokens than the window"
WORKAROUND = None
NOTE = "1.23.2 and before: 2.7e-1, 48 of 84 elements (all tokens beyond the window); 1.24.1: 1.3e-7. Fix: PR 25927"


def _weights():
    r = np.random.default_rng(25927)
    return {
        "wq": (r.standard_normal((12, 32)) * 0.4).astype(np.float32),
        "wk": (r.standard_normal((12, 16)) * 0.4).astype(np.float32),
        "wv": (r.standard_normal((12, 16)) * 0.4).astype(np.float32),
        "total": np.array(7, np.int32),
        "wo": (r.standard_normal((32, 6)) * 0.3).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("MatMul", ["x", "wk"], ["k"]),
        helper.make_node("MatMul", ["x", "wv"], ["v"]),
        helper.make_node(
            "GroupQueryAttention",
            ["q", "k", "v", "pk", "pv", "last", "total"],
            ["a", "nk", "nv"],
            domain="com.microsoft",
            num_heads=4,
            kv_num_heads=2,
            local_window_size=3,
        ),
        helper.make_node("MatMul", ["a", "wo"], ["y"]),
    ]
    x = np.random.default_rng(17).standard_normal((2, 7, 12)).astype(np.float32)
    empty = np.zeros((2, 2, 0, 8), np.float32)
    write(
        truth,
        folder,
        nodes,
        {"x": x, "pk": empty, "pv": empty, "last": np.array([6, 6], np.int32)},
        _weights(),
        ["y"],
        17,
        8,
        contrib=True,
    )


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    x = inputs["x"].astype(np.float64)
    q, k, v = (x @ w[n].astype(np.float64) for n in ("wq", "wk", "wv"))
    a = np.zeros((2, 7, 32))
    for b in range(2):
        for head in range(4):
            mine, shared = slice(8 * head, 8 * head + 8), slice(8 * (head // 2), 8 * (head // 2) + 8)
            scores = q[b, :, mine] @ k[b, :, shared].T / np.sqrt(8.0)
            for i in range(7):
                for j in range(7):
                    if j > i or j <= i - 3:  # the window of 3 counts the token itself
                        scores[i, j] = -np.inf
            a[b, :, mine] = softmax(scores) @ v[b, :, shared]
    return {"y": a @ w["wo"].astype(np.float64)}
