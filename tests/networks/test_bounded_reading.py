"""What an ONNX file would become is counted before it is made, and no file outside of its folder is read for it."""

import contextlib
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from samebits.errors import ModelError, ResourceLimitError
from samebits.networks.model_comparing import _take_model
from samebits.networks.network import Node
from samebits.networks.onnx_reading import make_network, read_onnx
from samebits.networks.pooling import evaluate_plainly, view_windows
from samebits.networks.value_types import infer_types

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
from peak_memory import read_peak_bytes  # noqa: E402  (from where it lies)

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]


def make_graph(nodes, inputs, output, *, constants=(), shape=None):
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    return helper.make_graph(
        nodes, "g", infos, [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)], constants
    )


def make_doubling(depth, calls=2, constant=None):
    """Functions of which each calls the one before it so often: the first call stands for calls^depth nodes."""
    functions = []
    for i in range(depth):
        names = ["x", *(f"v{n}" for n in range(calls - 1)), "y"]
        operator, domain = ("Relu", "") if i == 0 else (f"F{i - 1}", "own")
        body = [helper.make_node(operator, [a], [b], domain=domain) for a, b in itertools.pairwise(names)]
        if i == 0 and constant is not None:
            body.append(helper.make_node("Constant", [], ["unused"], value=constant))
        functions.append(helper.make_function("own", f"F{i}", ["x"], ["y"], body, OPSETS))
    call = helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="own")
    return helper.make_model(make_graph([call], {"x": [4]}, "y"), functions=functions, opset_imports=OPSETS)


def test_calls_of_functions_are_counted_before_they_are_put_in_place(tmp_path):
    """1.5 kB that stand for 16,777,216 nodes."""
    onnx.save(make_doubling(24), tmp_path / "f.onnx")
    assert (tmp_path / "f.onnx").stat().st_size < 2500
    started = time.perf_counter()
    with pytest.raises(ResourceLimitError, match=r"16,777,216 nodes; the limit is 20,000 \(SAMEBITS_MOST_NODES=N"):
        read_onnx(tmp_path / "f.onnx")
    assert time.perf_counter() - started < 10
    assert len(make_network(make_doubling(10), "f").nodes) == 2**10


@pytest.mark.parametrize(("depth", "calls"), [(1, 1), (3, 3), (5, 2), (2, 7)])
def test_the_count_is_that_of_the_nodes_that_are_there_afterwards(depth, calls, monkeypatch):
    model = make_doubling(depth, calls)
    monkeypatch.setenv("SAMEBITS_MOST_NODES", str(calls**depth))
    assert len(make_network(model, "f").nodes) == calls**depth
    if calls > 1:
        monkeypatch.setenv("SAMEBITS_MOST_NODES", str(calls**depth - 1))
        with pytest.raises(ResourceLimitError, match=f"{calls**depth:,} nodes"):
            make_network(model, "f")


def test_constants_in_functions_are_counted_as_often_as_they_are_called():
    constant = numpy_helper.from_array(np.zeros(2**20, np.float32), "c")
    with pytest.raises(
        ResourceLimitError, match=r"its functions in place of their calls, would become .* GiB of values"
    ):
        make_network(make_doubling(11, constant=constant), "f")


def make_spreading(count, size):
    """A few bytes whose values are as large as one likes: none of them is, all together are."""
    nodes = [
        helper.make_node("Constant", [], ["s"], value=numpy_helper.from_array(np.array([size]), "s")),
        helper.make_node("ConstantOfShape", ["s"], ["v0"]),
        *(helper.make_node("Add", [f"v{i}", "x"], [f"v{i + 1}"]) for i in range(count)),
    ]
    return helper.make_model(make_graph(nodes, {"x": [1]}, f"v{count}"), opset_imports=OPSETS[:1])


def test_values_are_counted_all_together():
    with pytest.raises(ResourceLimitError, match=r"would become 5\.7 GiB of values; the limit is 4\.0 GiB"):
        make_network(make_spreading(60, 25_000_000), "spreading")
    assert len(make_network(make_spreading(60, 25_000), "spreading").types) == 63


def make_computed(size):
    """The same with a size that must be computed while types are inferred."""
    half = numpy_helper.from_array(np.array([size // 2]), "half")
    two = numpy_helper.from_array(np.array([2]), "two")
    nodes = [
        helper.make_node("Mul", ["half", "two"], ["s"]),
        helper.make_node("ConstantOfShape", ["s"], ["v0"], value=numpy_helper.from_array(np.array([1]), "one")),
        *(helper.make_node("Mul", [f"v{i}", "two"], [f"v{i + 1}"]) for i in range(40)),
        helper.make_node("Cast", ["v40"], ["y"], to=TensorProto.FLOAT),
    ]
    graph = make_graph(nodes, {"x": [1]}, "y", constants=[half, two])
    return helper.make_model(graph, opset_imports=OPSETS[:1])


def test_inferring_types_takes_no_memory_of_the_process_that_asks(tmp_path):
    """onnx carries the numbers of shapes along: 25 million of them take gigabytes. They are another process's."""
    onnx.save(make_computed(50_000_000), tmp_path / "m.onnx")
    code = (
        "import resource, sys\n"
        "from peak_memory import read_peak_bytes\n"
        "from samebits.errors import ResourceLimitError\n"
        "from samebits.networks.onnx_reading import read_onnx\n"
        "try:\n    read_onnx(sys.argv[1])\n"
        "except ResourceLimitError as error: print(error)\n"
        "print(read_peak_bytes(), 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "m.onnx")]
    path = {"PYTHONPATH": str(BENCHMARKS)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=os.environ | path)
    says, sizes = done.stdout.splitlines()
    assert "inferring its sizes takes more than 2.0 GiB" in says
    own, childs = (int(size) / 2**30 for size in sizes.split())
    assert own < 1
    assert childs < 2.1


def test_computed_sizes_are_still_known():
    found = make_network(make_computed(64), "m").types
    assert found["v0"].shape == found["y"].shape == (64,)


def test_reading_ends_when_its_time_is_over(tmp_path):
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(5000)]
    graph = make_graph(nodes, {"v0": ["n"]}, "v5000")
    onnx.save(helper.make_model(graph, opset_imports=OPSETS[:1]), tmp_path / "m.onnx")
    with pytest.raises(ResourceLimitError, match=r"takes more than (0\.01|0|0\.00\d*) s"):
        read_onnx(tmp_path / "m.onnx", time_limit_s=0.01)
    model = onnx.load(tmp_path / "m.onnx")
    with pytest.raises(ResourceLimitError, match=r"inferring its sizes takes more than 0\.001 s"):
        infer_types("m", model, {}, 0.001)


@pytest.mark.parametrize(
    ("operator", "inputs"),
    [
        ("ConstantOfShape", [np.array([2**20, 2**12])]),
        ("Expand", [np.ones(1, np.float32), np.array([2**16, 2**16])]),
        ("Tile", [np.ones(4, np.float32), np.array([2**33])]),
        ("Range", [np.array(0), np.array(2**40), np.array(1)]),
        # Eight bytes each: 1.1 GiB.
        ("Range", [np.array(0), np.array(150_000_000), np.array(1)]),
        ("Pad", [np.ones((4, 4), np.float32), np.array([0, 0, 2**20, 2**20])]),
        ("OneHot", [np.zeros(1000, np.int64), np.array([2**31]), np.array([0.0, 1.0], np.float32)]),
        ("MatMul", [np.ones((70_000, 1), np.float32), np.ones((1, 70_000), np.float32)]),
    ],
)
def test_a_node_whose_numbers_ask_for_any_size_is_not_run(operator, inputs):
    names = [f"a{i}" for i in range(len(inputs))]
    node = Node(operator, operator, tuple(names), ("y",), {}, helper.make_node(operator, names, ["y"]))
    before = read_peak_bytes()
    with pytest.raises(ResourceLimitError, match="SAMEBITS_MOST_RESULT_BYTES"):
        evaluate_plainly(node, inputs, 18)
    assert read_peak_bytes() - before < 2**28


def refer(tensor, location, **more):
    """The tensor with its data in a file of that name."""
    outside = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    outside.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        outside.external_data.add(key=key, value=value)
    return outside


def hide_in(place, tensor):
    """A network with the tensor in some place of it."""
    constant = helper.make_node("Constant", [], ["c"], value=tensor)
    add = helper.make_node("Add", ["x", "c"], ["y"])
    if place == "initializer":
        return helper.make_model(make_graph([add], {"x": [4]}, "y", constants=[tensor]), opset_imports=OPSETS)
    if place == "attribute":
        return helper.make_model(make_graph([constant, add], {"x": [4]}, "y"), opset_imports=OPSETS)
    if place == "list attribute":
        plain = helper.make_node("Relu", ["x"], ["y"])
        plain.attribute.append(onnx.AttributeProto(name="t", type=onnx.AttributeProto.TENSORS, tensors=[tensor]))
        return helper.make_model(make_graph([plain], {"x": [4]}, "y"), opset_imports=OPSETS)
    call = helper.make_node("F", ["x"], ["y"], domain="own")
    if place == "function":
        function = helper.make_function("own", "F", ["x"], ["y"], [constant, add], OPSETS)
        return helper.make_model(make_graph([call], {"x": [4]}, "y"), functions=[function], opset_imports=OPSETS)
    if place == "sparse":
        model = helper.make_model(make_graph([add], {"x": [4]}, "y"), opset_imports=OPSETS)
        indices = numpy_helper.from_array(np.arange(4), "i")
        model.graph.sparse_initializer.add(values=tensor, indices=indices, dims=[4])
        return model
    branch = make_graph([constant, add], {}, "y")
    both = helper.make_node("If", ["b"], ["y"], then_branch=branch, else_branch=branch)
    graph = make_graph([both], {"x": [4]}, "y")
    graph.input.append(helper.make_tensor_value_info("b", TensorProto.BOOL, []))
    return helper.make_model(graph, opset_imports=OPSETS)


PLACES = ("initializer", "attribute", "list attribute", "function", "sparse", "subgraph")


@pytest.mark.parametrize("place", PLACES)
def test_data_outside_of_the_folder_is_not_read_wherever_it_is_asked_for(place, tmp_path, monkeypatch):
    """Neither of the folder above nor of the current one, for a tensor in any place of a file."""
    (tmp_path / "model").mkdir()
    (tmp_path / "here").mkdir()
    np.full(4, 7, np.float32).tofile(tmp_path / "secret.bin")
    np.full(4, 7, np.float32).tofile(tmp_path / "here" / "secret.bin")
    monkeypatch.chdir(tmp_path / "here")
    tensor = numpy_helper.from_array(np.zeros(4, np.float32), "c")
    for location in ("../secret.bin", str(tmp_path / "secret.bin"), "secret.bin"):
        path = tmp_path / "model" / "m.onnx"
        path.write_bytes(hide_in(place, refer(tensor, location)).SerializeToString())
        with pytest.raises(ModelError, match="not in the model's folder"):
            read_onnx(path)


@pytest.mark.parametrize("place", ["attribute", "function"])
def test_data_beside_the_model_is_read_in_functions_and_attributes_too(place, tmp_path):
    np.arange(4, dtype=np.float32).tofile(tmp_path / "data.bin")
    tensor = numpy_helper.from_array(np.zeros(4, np.float32), "c")
    (tmp_path / "m.onnx").write_bytes(hide_in(place, refer(tensor, "data.bin")).SerializeToString())
    network = read_onnx(tmp_path / "m.onnx")
    (stored,) = [n.stored.attribute[0].t for n in network.nodes if n.operator == "Constant"]
    assert numpy_helper.to_array(stored).tolist() == [0, 1, 2, 3]


def test_odd_locations_and_shapes_are_one_line(tmp_path):
    tensor = numpy_helper.from_array(np.zeros(4, np.float32), "c")
    os.symlink("loop.bin", tmp_path / "loop.bin")
    os.mkfifo(tmp_path / "pipe.bin")
    (tmp_path / "folder.bin").mkdir()
    for location in ("a\0b", "loop.bin", "pipe.bin", "folder.bin", "n" * 300, "", ".", "é" * 200):
        (tmp_path / "m.onnx").write_bytes(hide_in("initializer", refer(tensor, location)).SerializeToString())
        with pytest.raises(ModelError) as error:
            read_onnx(tmp_path / "m.onnx")
        assert len(str(error.value).splitlines()) == 1
    os.mkfifo(tmp_path / "pipe.onnx")
    with pytest.raises(ModelError, match="no regular file"):
        read_onnx(tmp_path / "pipe.onnx")


@pytest.mark.parametrize("axes", [64, 65, 200])
def test_values_of_more_axes_than_arrays_have_are_named(axes):
    shape = numpy_helper.from_array(np.ones(axes, np.int64), "s")
    graph = make_graph([helper.make_node("Reshape", ["x", "s"], ["y"])], {"x": [1]}, "y", constants=[shape])
    model = helper.make_model(graph, opset_imports=OPSETS[:1])
    if axes <= 64:
        assert len(make_network(model, "m").types["y"].shape) == axes
    else:
        with pytest.raises(ModelError, match=f"has {axes} axes; arrays have at most 64"):
            make_network(model, "m")


def test_a_pool_of_few_bytes_and_many_steps_is_not_run():
    windows = {"kernel_shape": [2000, 2000], "pads": [1999] * 4}
    with pytest.raises(ResourceLimitError, match="steps; the limit is"):
        view_windows(np.ones((1, 1, 64, 64), np.float32), windows, 0.0)
    assert view_windows(np.ones((1, 1, 64, 64), np.float32), {"kernel_shape": [3, 3]}, 0.0).shape == (
        1,
        1,
        62,
        62,
        3,
        3,
    )


def test_one_value_is_held_to_a_limit_of_its_own():
    with pytest.raises(ResourceLimitError, match=r"value v0 would become 2\.0 GiB of one value"):
        make_network(make_spreading(0, 2**29), "spreading")


def test_a_network_that_takes_memory_says_so_beforehand(tmp_path):
    onnx.save(make_spreading(3, 150_000_000), tmp_path / "m.onnx")
    said = []
    with contextlib.ExitStack() as opened:
        _take_model(str(tmp_path / "m.onnx"), opened, 60, lambda what, _: said.append(what))
    assert said == [f"{tmp_path / 'm.onnx'}: its values come to 2.2 GiB for each side"]
