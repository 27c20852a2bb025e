"""onnxruntime#28052: RNN reads memory in front of its buffer for Y_h of a sequence of length 0."""

from pathlib import Path

import numpy as np
from onnx import helper
from plain_operators import write

URL = "https://github.com/microsoft/onnxruntime/pull/28052"
ENGINE = "onnxruntime"
MODEL = "model.onnx"
FAULTY, FIXED = "1.25.1", "1.26.0"
FIRST_FAULTY = None
UNIT = "RNN"
VERDICT = "wrong"
CAUSES = ("uninitialized-memory",)
CAUSE = "Y_h of a batch entry with sequence_lens=0 is copied from time step -1, that is from whatever lies before the buffer of Y, instead of being zero"
CONDITION = "sequence_lens holds a 0 (forward direction)"
WORKAROUND = None
NOTE = "1.25.1 and before: what lies before the buffer of Y (here the end of the input of the RNN), 8.1e-1 of the largest value, 3 of 28 elements, the same in every run here, in principle any value (1.15.1 and 1.20.1 have the same code, but zeros lie there in this model); 1.26.0: 1.4e-7. Fix: PR 28052"


def _weights():
    r = np.random.default_rng(28052)
    return {
        "w": (r.standard_normal((1, 4, 8)) * 0.4).astype(np.float32),
        "r": (r.standard_normal((1, 4, 4)) * 0.5).astype(np.float32),
        "b": r.standard_normal((1, 8)).astype(np.float32),
        "lens": np.array([4, 0, 2, 3], np.int32),
        "axes": np.array([0], np.int64),
        "v": r.standard_normal((4, 3)).astype(np.float32),
        "k": r.standard_normal(8).astype(np.float32),
    }


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["u"]),
        helper.make_node("Tanh", ["u"], ["t"]),
        helper.make_node("RNN", ["t", "w", "r", "b", "lens"], ["seq", "last"], hidden_size=4),
        helper.make_node("Squeeze", ["last", "axes"], ["h"]),
        helper.make_node("MatMul", ["h", "v"], ["y"]),
        helper.make_node("ReduceMax", ["seq"], ["top"], axes=[0, 1], keepdims=0),
    ]
    x = np.random.default_rng(10).standard_normal((4, 4, 8)).astype(np.float32)
    write(truth, folder, nodes, {"x": x}, _weights(), ["y", "top"], 17, 8)


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    w = _weights()
    t = np.tanh(inputs["x"].astype(np.float64) * w["k"])
    W, R, B = w["w"][0].astype(np.float64), w["r"][0].astype(np.float64), w["b"][0].astype(np.float64)
    seq, last = np.zeros((4, 4, 4)), np.zeros((4, 4))
    for k in range(4):
        h = np.zeros(4)
        for s in range(int(w["lens"][k])):
            h = np.tanh(W @ t[s, k] + R @ h + B[:4] + B[4:])
            seq[s, k] = h
        last[k] = h  # stays zero for a sequence of length 0
    return {"y": last @ w["v"].astype(np.float64), "top": seq.max(axis=0)}
