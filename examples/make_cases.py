"""Writes the example files: cases of one filter of length 5 over 0, 10, 20, ... of three lengths (a report from 2017).

The first outputs of all three lengths are the same sums; on the CPU of the report they were not the same bits. And an
ONNX model of one convolution and one clip, of the size that a report says TensorRT computes wrongly. And arrays without
a problem: a linear layer's operands and two results, one of them of operands in float16.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from samebits.problems import parse_problem_text
from samebits.problems.case_file import save_case

WEIGHT = np.array([-0.7313, -1.1043, 1.8492, 1.3007, -0.1033], np.float32)
BIAS = np.array([0.0401], np.float32)

for length in (7, 8, 9):
    problem = parse_problem_text(f"conv1d x=1x1x{length} w=1x1x5 bias dtype=float32")
    x = np.arange(length, dtype=np.float32) * 10
    operands = {"x": x.reshape(1, 1, length), "w": WEIGHT.reshape(1, 1, 5), "bias": BIAS}
    save_case(Path(__file__).parent / f"length{length}.npz", problem, operands)

random = np.random.default_rng(1)
x, w = (random.standard_normal(shape, np.float32) for shape in ((16, 24), (8, 24)))
results = {
    "mine": (x.astype(np.float64) @ w.T).astype(np.float32),
    "theirs": (x.astype(np.float16).astype(np.float64) @ w.T.astype(np.float16)).astype(np.float32),
}
# NumPy's stubs take the keyword arrays for its own flag.
np.savez(Path(__file__).parent / "arrays.npz", x=x, w=w, **results)  # type: ignore[arg-type]  (arrays by name)
for name, result in results.items():
    np.save(Path(__file__).parent / f"{name}.npy", result)

# A norm as two kernels compute it: one divides the sum of squares by the size of its blocks, 1024, in place of 768.
x = random.standard_normal((8, 768)).astype(np.float32)
weight = (1 + 0.25 * random.standard_normal(768)).astype(np.float32)
squares = (x * x).sum(-1, keepdims=True)
norms = {"block": x / np.sqrt(squares / 1024 + 1e-5) * weight, "plain": x / np.sqrt(squares / 768 + 1e-5) * weight}
np.savez(
    Path(__file__).parent / "rmsnorm.npz",
    problem=np.array("rmsnorm x=8x768 weight"),
    x=x,
    weight=weight,
    **{name: result.astype(np.float32) for name, result in norms.items()},  # type: ignore[arg-type]  (arrays by name)
)

# A layer of int8 codes as two kernels in C compute it: both multiply the sum by a whole number of 31 bits; one shifts
# what comes out to the right and forgets to round, the other rounds twice, as gemmlowp does.
random = np.random.default_rng(2)
codes = {name: random.integers(-127, 128, shape).astype(np.int8) for name, shape in (("x", (32, 48)), ("w", (16, 48)))}
bias = random.integers(-4000, 4000, 16).astype(np.int32)
scales = {"x_scale": np.float32(0.0371), "w_scale": np.float32(0.0052), "y_scale": np.float32(0.291)}
mantissa, exponent = np.frexp(np.float64(scales["x_scale"]) * scales["w_scale"] / scales["y_scale"])
multiplier, shift = int(np.floor(mantissa * 2**31 + 0.5)), -int(exponent)
products = (codes["x"].astype(np.int64) @ codes["w"].T.astype(np.int64) + bias) * multiplier
high = (np.abs(products) + 2**30 >> 31) * np.sign(products)
rest = high & ((1 << shift) - 1)
rounded = (high >> shift) + (rest > ((1 << shift) - 1 >> 1) + (high < 0))
results = {"mine": np.clip(products >> 31 + shift, -128, 127), "theirs": np.clip(rounded, -128, 127)}
np.savez(
    Path(__file__).parent / "int8.npz",
    problem=np.array("linear x=32x48 w=16x48 bias dtype=int8 out=int8"),
    bias=bias,
    **codes,  # type: ignore[arg-type]  (arrays by name)
    **scales,  # type: ignore[arg-type]  (arrays by name)
    **{name: result.astype(np.int8) for name, result in results.items()},  # type: ignore[arg-type]  (arrays by name)
)

random = np.random.default_rng(0)
tensors = {
    "weight": random.standard_normal((8, 3, 3, 3)).astype(np.float32) / 5,
    "bias": random.standard_normal(8).astype(np.float32) / 4,
    "low": np.array(0, np.float32),
    "high": np.array(1, np.float32),
}
nodes = [
    helper.make_node("Conv", ["x", "weight", "bias"], ["sums"], name="conv", pads=[1, 1, 1, 1]),
    helper.make_node("Clip", ["sums", "low", "high"], ["y"], name="clip"),
]
graph = helper.make_graph(
    nodes,
    "conv_clip",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 512, 512])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 512, 512])],
    [numpy_helper.from_array(array, name) for name, array in tensors.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
onnx.save(model, Path(__file__).parent / "conv_clip.onnx")

# A smaller network of the same kind, what it was fed, and what two runs elsewhere could have returned: one that loses
# the clip's upper bound, and one that multiplies in TF32 (ten bits behind the point, to nearest).
SIZE = 32
folder = Path(__file__).parent / "recorded"
folder.mkdir(exist_ok=True)
del graph.input[:], graph.output[:]
graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIZE, SIZE]))
graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, SIZE, SIZE]))
small = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
onnx.save(small, folder / "conv_clip.onnx")


def convolve(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The sums of the convolution and its bias, in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    sums = np.zeros((1, 8, SIZE, SIZE))
    for i, j in np.ndindex(3, 3):
        sums += np.einsum("nchw,oc->nohw", padded[..., i : i + SIZE, j : j + SIZE], w[..., i, j].astype(np.float64))
    return sums + tensors["bias"].astype(np.float64)[:, None, None]


def round_to_tf32(array: np.ndarray) -> np.ndarray:
    """The nearest numbers of TF32, ties to even."""
    bits = array.view(np.uint32).astype(np.uint64)
    return (((bits + 0xFFF + ((bits >> 13) & 1)) >> 13) << 13).astype(np.uint32).view(np.float32)


fed = random.standard_normal((1, 3, SIZE, SIZE)).astype(np.float32)
np.savez(folder / "inputs.npz", x=fed)
np.savez(folder / "clip_lost.npz", y=np.maximum(convolve(fed, tensors["weight"]), 0).astype(np.float32))
narrow = convolve(round_to_tf32(fed), round_to_tf32(tensors["weight"]))
np.savez(folder / "tf32.npz", y=np.clip(narrow, 0, 1).astype(np.float32))
