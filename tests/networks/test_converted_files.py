"""A network against what converters of others made of its file: the headline names what was converted."""

import functools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from needed_engines import skip_without_engines
from networks.network_building import make_model, node, random, residual
from samebits.networks.conversions import list_odd_weights
from samebits.networks.model_comparing import compare_model
from samebits.networks.onnx_reading import make_network

ORT = "onnxruntime:threads=1"


def attention():
    """One head of attention with a normalisation and a layer of Gelu, all shapes fixed."""
    weights = {"wq": 1, "wk": 2, "wv": 3, "wo": 4}
    constants = {name: random((16, 16), seed, 0.3) for name, seed in weights.items()}
    constants |= {"w1": random((16, 32), 5, 0.3), "b1": random((32,), 6), "w2": random((32, 8), 7, 0.3)}
    constants |= {"scale": random((16,), 8), "shift": random((16,), 9), "root": np.array(0.25, np.float32)}
    nodes = [
        node("MatMul", ["x", "wq"], ["q"]),
        node("MatMul", ["x", "wk"], ["k"]),
        node("MatMul", ["x", "wv"], ["v"]),
        node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        node("MatMul", ["q", "kt"], ["scores"]),
        node("Mul", ["scores", "root"], ["scaled"]),
        node("Softmax", ["scaled"], ["shares"], axis=-1),
        node("MatMul", ["shares", "v"], ["seen"]),
        node("MatMul", ["seen", "wo"], ["out"]),
        node("Add", ["out", "x"], ["added"]),
        node("LayerNormalization", ["added", "scale", "shift"], ["normal"], epsilon=1e-5),
        node("MatMul", ["normal", "w1"], ["wide"]),
        node("Add", ["wide", "b1"], ["biased"]),
        node("Relu", ["biased"], ["relu"]),
        node("MatMul", ["relu", "w2"], ["y"]),
    ]
    return make_model(nodes, {"x": [1, 6, 16]}, ["y"], constants)


def as_constants():
    """Two convolutions with batch norms, their weights made by nodes of the graph, as Paddle's exporter has them."""
    constants = {"w1": random((4, 3, 3, 3), 1), "w2": random((4, 4, 1, 1), 2), "w3": random((4, 5), 3)}
    for i in "12":
        constants |= {f"s{i}": random((4,), 4) + 2, f"b{i}": random((4,), 5), f"m{i}": random((4,), 6)}
        constants[f"v{i}"] = np.abs(random((4,), 7)) + np.float32(0.5)
    nodes = [node("Constant", [], [name], value=numpy_helper.from_array(a)) for name, a in constants.items()]
    nodes += [
        node("Conv", ["x", "w1"], ["c1"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c1", "s1", "b1", "m1", "v1"], ["n1"]),
        node("Relu", ["n1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"]),
        node("BatchNormalization", ["c2", "s2", "b2", "m2", "v2"], ["n2"]),
        node("GlobalAveragePool", ["n2"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("MatMul", ["f", "w3"], ["y"]),
    ]
    return make_model(nodes, {"x": [1, 3, 8, 8]}, ["y"], {})


NETWORKS = {"residual": residual, "attention": attention, "as_constants": as_constants}


def halve(model, folder):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    return convert_float_to_float16(declare(model), keep_io_types=False)


def halve_inside(model, folder):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    return convert_float_to_float16(declare(model), keep_io_types=True)


def declare(model):
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def quantize(model, folder, *, how):
    from onnxruntime import quantization

    source, target = folder / "plain.onnx", folder / "quantized.onnx"
    onnx.save(declare(model), source)
    # Full weights overflow sums of pairs in 16 bits on older processors: that is another finding.
    if how == "dynamic":
        quantization.quantize_dynamic(source, target, reduce_range=True)
        return onnx.load(target)

    class Examples(quantization.CalibrationDataReader):
        def __init__(self):
            shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
            self.left = iter([{"x": random(tuple(shape), seed)} for seed in range(4)])

        def get_next(self):
            return next(self.left, None)

    form = quantization.QuantFormat.QDQ if how == "qdq" else quantization.QuantFormat.QOperator
    quantization.quantize_static(
        source, target, Examples(), quant_format=form, per_channel=how == "qdq", reduce_range=True,
        # Others are computed by tables, and are off by one step: that is another finding, too.
        op_types_to_quantize=["Conv", "MatMul"],
    )  # fmt: skip
    return onnx.load(target)


def optimise(model, folder):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "optimised.onnx")


def rename(model, folder):
    """The same nodes and constants, under names of their own all through."""
    renamed = onnx.ModelProto()
    renamed.CopyFrom(model)
    names = {}
    for part in (*renamed.graph.input, *renamed.graph.output, *renamed.graph.initializer):
        part.name = names.setdefault(part.name, f"n{len(names)}")
    for i, one in enumerate(renamed.graph.node):
        one.name = f"op{i}"
        for field in (one.input, one.output):
            kept = [names.setdefault(v, f"n{len(names)}") if v else v for v in field]
            del field[:]
            field.extend(kept)
    return renamed


def round_weights(model, folder):
    """Weights in float16, cast back where they are used."""
    rounded = onnx.ModelProto()
    rounded.CopyFrom(model)
    casts = []
    for tensor in rounded.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.ndim > 1:
            name = tensor.name
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float16), f"{name}.half"))
            casts.append(helper.make_node("Cast", [f"{name}.half"], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *rounded.graph.node]
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del rounded.graph.node[:]
    rounded.graph.node.extend(copies)
    return rounded


def compare(name, convert, folder):
    skip_without_engines(["onnxruntime"])
    model = NETWORKS[name]()
    first = make_network(model, "first.onnx")
    second = make_network(convert(model, folder), "second.onnx")
    return compare_model(first, [ORT], against=second)


LOSSES = {
    "float16": (halve, "computes in float16", "reduced-precision-operands"),
    "float16 inside": (halve_inside, "computes in float16", "reduced-precision-operands"),
    "float16 weights": (round_weights, "holds its weights in float16", "reduced-precision-operands"),
    "dynamic": (
        functools.partial(quantize, how="dynamic"),
        "quantises its weights to 8 bits per tensor and its activations to 8 bits by their range in each run",
        "quantized-operands",
    ),
    "QDQ": (functools.partial(quantize, how="qdq"), "and its activations to 8 bits", "quantized-operands"),
    "QOperator": (
        functools.partial(quantize, how="qoperator"),
        "quantises its weights to 8 bits per tensor and its activations to 8 bits",
        "quantized-operands",
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("kind", LOSSES)
def test_what_was_converted_is_the_headline_and_nobody_is_wrong(name, kind, tmp_path):
    convert, says, cause = LOSSES[kind]
    if name == "as_constants" and kind == "float16 weights":
        pytest.skip("that converter of ours rounds initializers, and here are none")
    found = compare(name, convert, tmp_path)
    plain, converted = found.sides
    assert (plain.verdict, plain.cause) in {("rounding", None), ("identical", None)}
    assert (converted.verdict, converted.cause) == ("downgrade", cause)
    assert found.summary.startswith(f"{ORT.partition(':')[0]}")
    assert says in found.summary
    assert "(inferred)" not in found.summary


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("convert", [optimise, rename])
def test_a_file_that_computes_the_same_agrees(name, convert, tmp_path):
    found = compare(name, convert, tmp_path)
    assert found.verdict in ("identical", "rounding")
    assert [side.deviating for side in found.sides] == [0, 0]
    said = " ".join(e.says for e in found.evidence)
    assert ("do not differ" if convert is rename else "in the second file") in said


def test_a_converted_file_is_told_from_an_engine_that_does_not_follow_it(tmp_path):
    """The half file with one weight changed is wrong at that weight, not merely rounded."""

    def spoil(model, folder):
        halved = halve(model, folder)
        tensor = next(t for t in halved.graph.initializer if t.name == "w2")
        array = numpy_helper.to_array(tensor).copy()
        array[0] += 1.0
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
        return halved

    found = compare("residual", spoil, tmp_path)
    said = " ".join(e.says for u in found.units for s in u.sides for e in s.evidence)
    assert found.sides[1].verdict == "wrong", said


def test_values_with_other_names_are_observed_on_both_sides(tmp_path):
    found = compare("attention", rename, tmp_path)
    assert len(found.units) > 4


@pytest.mark.parametrize("exchanged", [False, True])
def test_weights_of_dynamic_quantisation_that_are_none_of_the_first_files_are_named(exchanged, tmp_path):
    """Two rows of the second layer exchanged before onnxruntime's own quantiser ran."""
    skip_without_engines(["onnxruntime"])
    from onnxruntime.quantization import QuantType, quantize_dynamic

    constants = {"w1": random((16, 24), 1), "w2": random((24, 20), 2), "w3": random((20, 8), 3)}
    nodes = [node("MatMul", ["x", "w1"], ["a"]), node("Relu", ["a"], ["b"]), node("MatMul", ["b", "w2"], ["c"])]
    nodes += [node("Relu", ["c"], ["d"]), node("MatMul", ["d", "w3"], ["y"])]
    first = make_model(nodes, {"x": [4, 16]}, ["y"], constants)
    if exchanged:
        constants = {**constants, "w2": constants["w2"][:, [0, 7, *range(2, 7), 1, *range(8, 20)]]}
    onnx.save(make_model(nodes, {"x": [4, 16]}, ["y"], constants), tmp_path / "plain.onnx")
    quantize_dynamic(tmp_path / "plain.onnx", tmp_path / "codes.onnx", weight_type=QuantType.QUInt8)
    found = compare_model(make_network(first, "first"), on=[ORT], against=tmp_path / "codes.onnx")
    wrong = [u.name for u in found.units if u.sides[-1].verdict == "wrong"]
    assert found.verdict == ("wrong" if exchanged else "downgrade")
    assert len(wrong) == exchanged
    said = [e.says for e in found.evidence]
    assert any("none of the first file's" in s for s in said) == exchanged


@pytest.mark.parametrize("exchanged", [False, True])
def test_a_normalisation_folded_in_half_precision_is_part_of_the_conversion(exchanged):
    """A module that was made half before it was exported: every step of the folding was rounded to float16."""
    half = np.float16
    parts = {"w": random((8, 3, 3, 3), 1), "b": random((8,), 2), "s": np.abs(random((8,), 3)) + np.float32(0.5)}
    parts |= {"t": random((8,), 4), "m": random((8,), 5), "v": np.abs(random((8,), 6)) + np.float32(0.3)}
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"]),
        node("BatchNormalization", ["c", "s", "t", "m", "v"], ["n"]),
        node("Relu", ["n"], ["y"]),
    ]
    first = make_model(nodes, {"x": [1, 3, 8, 8]}, ["y"], parts)
    rounded = {name: array.astype(half) for name, array in parts.items()}
    factor = (rounded["s"] / np.sqrt((rounded["v"] + half(1e-5)).astype(half)).astype(half)).astype(half)
    weights = (rounded["w"] * factor[:, None, None, None]).astype(half)
    bias = ((rounded["b"] - rounded["m"]).astype(half) * factor + rounded["t"]).astype(half)
    if exchanged:
        weights = weights[:, ::-1].copy()
    folded = [
        node("Cast", ["x"], ["h"], to=onnx.TensorProto.FLOAT16),
        node("Conv", ["h", "w", "b"], ["c"]),
        node("Relu", ["c"], ["r"]),
        node("Cast", ["r"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    second = make_network(make_model(folded, {"x": [1, 3, 8, 8]}, ["y"], {"w": weights, "b": bias}), "second")
    odd = list_odd_weights(make_network(first, "first"), second)
    assert len(odd) == exchanged
