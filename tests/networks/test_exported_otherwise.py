"""A file against one that another exporter made of the same module, and against that one with one thing edited."""

import copy
import warnings

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from needed_engines import skip_without_engines
from networks.network_building import make_model, node, random
from samebits.networks.matched_files import take_other
from samebits.networks.model_comparing import compare_model
from samebits.networks.onnx_reading import make_network, read_onnx

ORT = "onnxruntime:threads=1"


def make_convolutional(torch):
    """Residual blocks, parallel branches of one shape, and batch norms, of which one exporter folds all."""
    nn = torch.nn

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(nn.Sequential(nn.Conv2d(8, 4, 1), nn.BatchNorm2d(4)) for _ in range(3))
            self.skip = nn.Conv2d(8, 12, 1, bias=False)

        def forward(self, x):
            return torch.cat([part(x).relu() for part in reversed(self.parts)], 1) + self.skip(x)

    layers = [nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(), Branches()]
    layers += [nn.Conv2d(12, 8, 3, padding=1, groups=4), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    module = nn.Sequential(*layers, nn.Linear(8, 10), nn.LayerNorm(10), nn.GELU())
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.uniform_(-0.5, 0.5)
            part.running_var.uniform_(0.5, 2)
    return module, torch.randn(2, 3, 12, 12)


def make_attention(torch):
    """Masked attention of several heads, written in rows by one exporter."""
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(16, 2, 24, 0.0, activation="gelu", batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(nn.Linear(5, 16), encoder, nn.Linear(16, 3)), torch.randn(2, 6, 5)


def make_recurrent(torch):
    """An LSTM, of which one exporter writes three outputs and computes the first state."""
    nn = torch.nn

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.lstm, self.out = nn.Linear(6, 10), nn.LSTM(10, 8, batch_first=True), nn.Linear(8, 3)

        def forward(self, x):
            return self.out(self.lstm(torch.tanh(self.into(x)))[0][:, -1])

    return Tagger(), torch.randn(2, 5, 6)


MADE = {"convolutional": make_convolutional, "attention": make_attention, "recurrent": make_recurrent}
# So many units are found by themselves.
UNITS = {"convolutional": 8, "attention": 8, "recurrent": 3}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(network of torch's own exporter, model of the one before it, inputs) by the module's name."""
    skip_without_engines(["torch", "onnxruntime"])
    import torch

    found = {}
    for name, make in MADE.items():
        torch.manual_seed(3)
        module, x = make(torch)
        paths = [tmp_path_factory.mktemp(name) / f"{kind}.onnx" for kind in ("new", "old")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module.eval(), (x,), paths[0], dynamo=True, external_data=False, verbose=False)
            torch.onnx.export(module.eval(), (x,), paths[1], dynamo=False)
        network = read_onnx(paths[0])
        found[name] = network, onnx.load(paths[1]), {next(iter(network.inputs)): x.numpy()}
    return found


def compare(exported, name, model):
    network, _, inputs = exported[name]
    return compare_model(network, on=[ORT], against=make_network(model, "other.onnx"), inputs=inputs)


def optimise(model, folder):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    return onnx.load(options.optimized_model_filepath)


@pytest.mark.parametrize(("name", "units"), [("convolutional", 8), ("attention", 8)])
@pytest.mark.parametrize("optimised", [False, True])
def test_the_same_module_exported_otherwise_is_sound_unit_by_unit(exported, name, units, optimised, tmp_path):
    model = optimise(exported[name][1], tmp_path) if optimised else exported[name][1]
    found = compare(exported, name, model)
    assert found.verdict in ("rounding", "identical")
    assert optimised or len(found.units) >= units
    assert "says something else" not in found.summary


@pytest.fixture(scope="module")
def open_files(tmp_path_factory):
    """Files with an open batch, of both exporters, and inputs; their constants of several numbers are to be edited."""
    skip_without_engines(["torch", "onnxruntime"])
    import torch

    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("open")
    paths = {}
    for name, make in MADE.items():
        module, x = make(torch)
        paths[name] = (folder / f"{name}_new.onnx", folder / f"{name}_old.onnx", x.numpy())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sizes = ({0: torch.export.Dim("batch")},)
            torch.onnx.export(
                module.eval(), (x,), paths[name][0], dynamo=True, external_data=False, verbose=False,
                dynamic_shapes=sizes, input_names=["x"], output_names=["y"],
            )  # fmt: skip
            axes = {"x": {0: "batch"}}
            torch.onnx.export(
                module.eval(), (x,), paths[name][1], dynamo=False, dynamic_axes=axes, input_names=["x"],
                output_names=["y"],
            )  # fmt: skip
    return paths


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", MADE)
def test_open_sizes_are_no_difference_and_hide_none(open_files, name, reverse):
    """Two exporters with an open batch: sound; with one of the weights or biases set to zero the unit is named."""
    *paths, x = open_files[name]
    first, second = reversed(paths) if reverse else paths
    network, model = read_onnx(first), onnx.load(second)
    found = compare_model(network, on=[ORT], against=make_network(model, "other.onnx"), inputs={"x": x})
    assert found.verdict in ("rounding", "identical")
    assert len(found.units) >= UNITS[name]
    assert "says something else" not in found.summary
    biases = [t for t in model.graph.initializer if len(t.dims) == 1 and t.data_type == onnx.TensorProto.FLOAT]
    biases = [t for t in biases if numpy_helper.to_array(t).any() and "norm" not in t.name]
    chosen = biases[len(biases) // 2]
    chosen.CopyFrom(numpy_helper.from_array(np.zeros(chosen.dims, np.float32), chosen.name))
    found = compare_model(network, on=[ORT], against=make_network(model, "other.onnx"), inputs={"x": x})
    assert found.verdict == "wrong"
    assert found.sides[-1].deviating >= 1
    assert "differs in the file" in found.summary


def find_nodes(model, operator):
    return [n for n in model.graph.node if n.op_type == operator]


def put(node, name, value):
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])


def change_weights(model, value, change):
    tensor = next(t for t in model.graph.initializer if t.name == value)
    array = numpy_helper.to_array(tensor).copy()
    change(array)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def scale_branch(model):
    branch = next(n for n in find_nodes(model, "Conv") if "parts.1" in n.name)
    change_weights(model, branch.input[1], lambda a: a.__setitem__(2, a[2] * np.float32(1.5)))


def scale_rows(model):
    change_weights(model, find_nodes(model, "Gemm")[0].input[1], lambda a: a.__imul__(np.float32(1.25)))


EDITS = {
    "padding of a folded convolution": (
        "convolutional",
        lambda m: put(find_nodes(m, "Conv")[0], "pads", [2, 2, 0, 0]),
        "padding",
        "Conv's pads is [2, 2, 0, 0] in place of [1, 1, 1, 1]",
    ),
    "a branch among others alike": ("convolutional", scale_branch, "other-operands", "of 32"),
    "another gelu": (
        "convolutional",
        lambda m: put(find_nodes(m, "Gelu")[0], "approximate", "tanh"),
        "dropped-attribute",
        "Gelu's approximate is tanh in place of none",
    ),
    "epsilon": (
        "attention",
        lambda m: put(find_nodes(m, "LayerNormalization")[1], "epsilon", 0.05),
        "dropped-attribute",
        "LayerNormalization's epsilon is 0.05 in place of 1e-05",
    ),
    "gates in the sequence of another library": (
        "recurrent",
        lambda m: change_weights(m, find_nodes(m, "LSTM")[0].input[1], lambda a: a.__setitem__(0, np.roll(a[0], 8, 0))),
        "axis-order",
        "input 2 of LSTM holds the first file's values in another sequence along axis 1",
    ),
    "weights of a product in rows": ("attention", scale_rows, "other-operands", "the first file's values times 1.25"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_was_edited_is_the_cause(exported, edit):
    name, change, cause, says = EDITS[edit]
    model = copy.deepcopy(exported[name][1])
    change(model)
    found = compare(exported, name, model)
    assert (found.verdict, found.cause) == ("wrong", cause)
    unit = next(u for u in found.units if u.name == found.first)
    assert says in str(unit.sides[-1].says)
    assert len(found.units) >= UNITS[name]


def test_what_these_inputs_do_not_show_is_said_all_the_same(exported):
    """A weight that is a little off: far within every bound."""
    network, model, inputs = exported["attention"]
    edited = copy.deepcopy(model)
    norm = find_nodes(edited, "LayerNormalization")[0]
    change_weights(edited, norm.input[1], lambda a: a.__setitem__(3, a[3] * np.float32(1.000002)))
    found = compare_model(network, on=[ORT], against=make_network(edited, "other.onnx"), inputs=inputs)
    assert found.verdict == "rounding"
    assert "But the second file says something else" in found.summary
    assert any(e.kind == "file" and "(1 of 16)" in e.says for e in found.evidence)


def fold(constants, epsilon=1e-5, shift="b", mean="m"):
    """Weights and bias with the batch norm in them, as an exporter folds it in float32."""
    factor = constants["s"] / np.sqrt(constants["v"] + np.float32(epsilon))
    moved = (constants.get("o", np.float32(0)) - (constants[mean] if mean else 0)) * factor
    return constants["w"] * factor[:, None, None, None], moved + (constants[shift] if shift else np.float32(0))


def spoil(folded, channel):
    folded[0][channel] *= np.float32(1.01)
    return folded


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (fold, None),
        (lambda c: spoil(fold(c), 2), "weights of channel 2 are not the first file's"),
        (lambda c: fold(c, shift="m", mean="b"), "its normalisation's bias and mean exchanged"),
        (lambda c: fold({**c, "s": c["v"], "v": c["s"]}), "its normalisation's scale and variance exchanged"),
        (lambda c: fold(c, shift=""), "lacks its normalisation's bias"),
        (lambda c: fold(c, mean=""), "lacks its normalisation's mean"),
        (lambda c: fold(c, epsilon=1e-3), "an epsilon of 0.001 in place of 1e-05"),
        (lambda c: (fold(c)[0], fold(c)[1] * np.float32(1.5)), "the bias of all channels is not the first file's"),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_what_folding_does_not_give_is_named(make, says, bias):
    constants = {"w": random((4, 3, 3, 3), 1), "b": random((4,), 3), "m": random((4,), 4)}
    constants |= {"v": np.abs(random((4,), 5)) + np.float32(0.5), "s": np.abs(random((4,), 2)) + np.float32(0.5)}
    constants |= {"o": random((4,), 6)} if bias else {}
    sizes = {"x": [1, 3, 6, 6]}
    nodes = [node("Conv", ["x", "w", *("o" * bias)], ["c"]), node("BatchNormalization", ["c", *"sbmv"], ["n"])]
    first = make_network(make_model([*nodes, node("Relu", ["n"], ["y"])], sizes, ["y"], constants), "first")
    held, shift = make(constants)
    folded = [node("Conv", ["x", "w", "bias"], ["a"]), node("Relu", ["a"], ["y"])]
    other = make_network(make_model(folded, sizes, ["y"], {"w": held, "bias": shift}), "other")
    found = compare_model(first, on=[ORT], against=other)
    assert found.verdict in (("rounding", "identical") if says is None else ("wrong",))
    assert (says or "") in str(found.units[0].sides[-1].says)


@pytest.mark.parametrize("format_", ["float16", "bfloat16"])
@pytest.mark.parametrize("narrow_bias", [False, True])
def test_folded_weights_that_were_rounded_to_a_narrow_format_are_a_downgrade(format_, narrow_bias):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.float16 if format_ == "float16" else ml_dtypes.bfloat16
    constants = {"w": random((4, 3, 3, 3), 1), "b": random((4,), 3), "m": random((4,), 4), "o": random((4,), 6)}
    constants |= {"v": np.abs(random((4,), 5)) + np.float32(0.5), "s": np.abs(random((4,), 2)) + np.float32(0.5)}
    sizes = {"x": [1, 3, 6, 6]}
    nodes = [node("Conv", ["x", "w", "o"], ["c"]), node("BatchNormalization", ["c", *"sbmv"], ["y"])]
    first = make_network(make_model(nodes, sizes, ["y"], constants), "first")
    held, shift = fold(constants)
    held = held.astype(dtype).astype(np.float32)
    shift = shift.astype(dtype).astype(np.float32) if narrow_bias else shift
    other = make_model([node("Conv", ["x", "w", "b"], ["y"])], sizes, ["y"], {"w": held, "b": shift})
    found = compare_model(first, on=[ORT], against=make_network(other, "other"))
    assert (found.verdict, found.cause) == ("downgrade", "reduced-precision-operands")
    assert f"with its normalisation, rounded to {format_}" in str(found.units[0].sides[-1].says)


def test_a_constant_that_is_cast_like_a_value_is_compared_as_a_constant():
    """A scale as exporters of torch write it: one file casts it when it runs, the other holds it, with an axis."""
    sizes = {"x": [2, 3]}
    cast = [node("CastLike", ["c", "x"], ["k"]), node("Mul", ["x", "k"], ["y"])]
    first = make_network(make_model(cast, sizes, ["y"], {"c": np.array(0.25, np.float64)}), "first")
    for scale, verdict in ((0.25, "identical"), (1.0, "wrong")):
        held = {"k": np.array([scale], np.float32)}
        other = make_network(make_model([node("Mul", ["x", "k"], ["y"])], sizes, ["y"], held), "other")
        found = compare_model(first, on=[ORT], against=other)
        assert found.verdict == verdict
        says = str(found.units[0].sides[-1].says)
        assert "input 2 of Mul is 1.0 in place of 0.25" in says or verdict == "identical"


def test_a_bias_of_the_product_that_folding_loses_is_named():
    constants = {"w": random((4, 3, 3, 3), 1), "s": random((4,), 2) + 2, "b": random((4,), 3), "m": random((4,), 4)}
    constants |= {"v": np.abs(random((4,), 5)) + np.float32(0.5), "o": random((4,), 6)}
    nodes = [node("Conv", ["x", "w", "o"], ["c"]), node("BatchNormalization", ["c", *"sbmv"], ["y"])]
    first = make_network(make_model(nodes, {"x": [1, 3, 6, 6]}, ["y"], constants), "first")
    held, shift = fold({**constants, "o": np.float32(0)})
    other = make_model([node("Conv", ["x", "w", "b"], ["y"])], {"x": [1, 3, 6, 6]}, ["y"], {"w": held, "b": shift})
    found = compare_model(first, on=[ORT], against=make_network(other, "other"))
    assert found.verdict == "wrong"
    assert "lacks the product's own bias" in str(found.units[0].sides[-1].says)


@pytest.mark.parametrize(("one", "two"), ["bm", "sv"])
def test_a_normalisation_whose_constants_are_exchanged_is_named_by_them(one, two):
    constants = {"w": random((4, 3, 3, 3), 1), "b": random((4,), 3), "m": random((4,), 4)}
    constants |= {"v": np.abs(random((4,), 5)) + np.float32(0.5), "s": np.abs(random((4,), 2)) + np.float32(0.5)}
    nodes = [node("Conv", ["x", "w"], ["c"]), node("BatchNormalization", ["c", *"sbmv"], ["y"])]
    sizes = {"x": [1, 3, 6, 6]}
    exchanged = {**constants, one: constants[two], two: constants[one]}
    first, other = (make_network(make_model(nodes, sizes, ["y"], held), "n") for held in (constants, exchanged))
    found = compare_model(first, on=[ORT], against=other)
    assert found.verdict == "wrong"
    places = ["csbmv".index(name) + 1 for name in sorted((one, two), key="csbmv".index)]
    says = f"input {places[0]} of BatchNormalization holds what input {places[1]} holds in the first file"
    assert says in str(found.units[0].sides[-1].says)


def test_values_of_one_name_are_nearer_to_each_other_than_to_any_other(exported):
    import onnxruntime

    for network, model, inputs in exported.values():
        other = take_other(network, make_network(model, "other.onnx"))
        shared = [v for v in other.producers if v in network.producers]
        results = []
        for one in (network, other):
            shown = type(one.stored)()
            shown.CopyFrom(one.stored)
            known = {v.name for v in shown.graph.output}
            shown.graph.output.extend(onnx.helper.make_empty_tensor_value_info(v) for v in shared if v not in known)
            session = onnxruntime.InferenceSession(shown.SerializeToString())
            results.append(dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs), strict=True)))
        ours, theirs = results
        assert len(shared) >= 6
        for value in shared:
            alike = [v for v in shared if ours[v].shape == theirs[value].shape]
            distances = {v: np.linalg.norm(ours[v] - theirs[value]) for v in alike}
            assert distances[value] == min(distances.values()), value
