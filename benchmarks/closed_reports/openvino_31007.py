"""openvino#31007: ConvTranspose with auto_pad=SAME_LOWER is computed as if unpadded, so all is shifted by one."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

URL = "https://github.com/openvinotoolkit/openvino/issues/31007"
ENGINE = "openvino"
MODEL = "model.onnx"
FAULTY, FIXED = "2025.3.0", "2025.4.0"
FIRST_FAULTY = None
UNIT = "ConvTranspose"
VERDICT = "wrong"
CAUSES = (
    "padding",
    "transposed-geometry",
)
CAUSE = "the ONNX reader hands auto_pad on without computing pads, so they stay zero when output_shape is absent: the output is (in-1)*stride+kernel instead of in*stride"
CONDITION = "auto_pad=SAME_UPPER or SAME_LOWER without output_shape, kernel larger than the stride"
WORKAROUND = None
NOTE = "relative error 0.67, 210 of 210 values, on 2023.0.0 to 2025.3.0 (default and f32); 1.5e-7 on 2025.4.0. Fix: PR 32608, tests PR 32639"

rng = np.random.default_rng(31007)
W1 = (rng.standard_normal((6, 2, 3, 3)) / 4).astype(np.float32)
B1 = rng.standard_normal(6).astype(np.float32)
W2 = (rng.standard_normal((6, 4, 3, 3)) / 5).astype(np.float32)  # in, out, kh, kw
B2 = rng.standard_normal(4).astype(np.float32)
W3 = (rng.standard_normal((5, 4, 3, 3)) / 6).astype(np.float32)


def make(folder: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["image", "w1", "b1"], ["c1"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("LeakyRelu", ["c1"], ["a1"], alpha=0.1),
        helper.make_node(
            "ConvTranspose", ["a1", "w2", "b2"], ["up"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER"
        ),
        helper.make_node("Sigmoid", ["up"], ["s"]),
        helper.make_node("Conv", ["s", "w3"], ["down"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1]),
    ]
    g = helper.make_graph(
        nodes,
        "decoder",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 2, 6, 7])],
        [helper.make_tensor_value_info("down", TensorProto.FLOAT, [1, 5, 6, 7])],
        [numpy_helper.from_array(a, n) for n, a in {"w1": W1, "b1": B1, "w2": W2, "b2": B2, "w3": W3}.items()],
    )
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(m)
    onnx.save(m, str(folder / "model.onnx"))
    np.savez(folder / "inputs.npz", image=np.random.default_rng(1).standard_normal((1, 2, 6, 7)).astype(np.float32))


def truth(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    x = inputs["image"].astype(np.float64)
    n, _, h, w = x.shape
    xp = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    c = np.zeros((n, 6, h, w))
    for i in range(h):
        for j in range(w):
            c[:, :, i, j] = np.einsum("ncij,ocij->no", xp[:, :, i : i + 3, j : j + 3], W1.astype(np.float64)) + B1
    a = np.where(c > 0, c, np.float64(np.float32(0.1)) * c)
    # the whole transposed convolution, then the SAME padding cut away: total = (in-1)*2+3-2*in = 1, all of it at the beginning
    full = np.zeros((n, 4, 2 * (h - 1) + 3, 2 * (w - 1) + 3))
    for i in range(h):
        for j in range(w):
            full[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += np.einsum(
                "nc,coij->noij", a[:, :, i, j], W2.astype(np.float64)
            )
    up = full[:, :, 1:, 1:] + B2.astype(np.float64)[:, None, None]
    s = 1 / (1 + np.exp(-up))
    sp = np.pad(s, ((0, 0), (0, 0), (0, 1), (0, 1)))
    d = np.zeros((n, 5, h, w))
    for i in range(h):
        for j in range(w):
            d[:, :, i, j] = np.einsum(
                "ncij,ocij->no", sp[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3], W3.astype(np.float64)
            )
    return {"down": d}
