"""Small networks made with plain ONNX, for tests."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from samebits.networks.onnx_reading import make_network
from samebits.networks.unit_judging import judge_unit
from samebits.networks.unit_reference import refer_unit
from samebits.networks.units import divide_network, fold_constants

Tensors = dict[str, np.ndarray]


def make_model(nodes, inputs, outputs, constants: Tensors, opset=17):
    """An ONNX model; `inputs` by name with their shapes, all float32."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def node(operator, inputs, outputs, **attributes):
    return helper.make_node(operator, inputs, outputs, name=f"{operator.lower()}_{outputs[0]}", **attributes)


def random(shape, seed, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def round_to(bits):
    def narrow(array):
        codes = array.astype(np.float32).view(np.uint32).astype(np.uint64)
        drop = 24 - bits
        return ((codes + (1 << (drop - 1))) >> drop << drop).astype(np.uint32).view(np.float32)

    return narrow


def conv(x, w, b=None, pad=1):
    """A convolution of stride 1 in float64, by plain NumPy."""
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))
    y = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64))
    return y if b is None else y + b.astype(np.float64)[None, :, None, None]


def conv_clip(low=0.0, high=2.0):
    """Convolution and clip, as in the report about TensorRT."""
    constants = {
        "w": random((8, 3, 3, 3), 1, 0.2),
        "b": random((8,), 2),
        "low": np.array(low, np.float32),
        "high": np.array(high, np.float32),
    }
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        node("Clip", ["c", "low", "high"], ["y"]),
    ]
    return make_model(nodes, {"x": [1, 3, 12, 12]}, ["y"], constants)


def residual():
    """Two convolutions, an addition of what came before, a pool, a linear layer with softmax."""
    constants = {
        "w1": random((4, 2, 3, 3), 1, 0.3),
        "w2": random((4, 4, 3, 3), 2, 0.2),
        "b2": random((4,), 3),
        "w3": random((4, 5), 4),
        "b3": random((5,), 5),
    }
    nodes = [
        node("Conv", ["x", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1]),
        node("Add", ["c2", "r1"], ["s"]),
        node("Relu", ["s"], ["r2"]),
        node("GlobalAveragePool", ["r2"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("MatMul", ["f", "w3"], ["m"]),
        node("Add", ["m", "b3"], ["l"]),
        node("Softmax", ["l"], ["p"], axis=-1),
    ]
    return make_model(nodes, {"x": [2, 2, 8, 8]}, ["p"], constants)


def save(model, path):
    onnx.save(model, str(path))
    return path


def run(model, fed):
    """What ONNX Runtime makes of a model, by output."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, fed), strict=True))


def judge(model, seen):
    """Every unit of a model judged by what was seen of its values."""
    network = make_network(model, "test")
    folded = fold_constants(network)
    units = divide_network(network, folded, network.hidden)
    assert [v for unit in units for v in unit.outputs] == sorted(network.outputs)
    references = [refer_unit(network, folded, unit, seen) for unit in units]
    return [judge_unit(network, folded, u, seen, r) for u, r in zip(units, references, strict=True)]


def refer(nodes, fed, constants=None, opset=18, *, narrow=False):
    """The reference of all nodes as one unit."""
    output = nodes[-1].output[0]
    model = make_model(nodes, {n: list(a.shape) for n, a in fed.items()}, [output], constants or {}, opset)
    network = make_network(model, "test")
    folded = fold_constants(network)
    hidden = [v for n in network.nodes[:-1] for v in n.outputs]
    (unit,) = divide_network(network, folded, hidden)
    return refer_unit(network, folded, unit, fed, narrow=narrow)[output]
