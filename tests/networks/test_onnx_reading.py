"""ONNX files that are hostile, damaged or strange: one line, and nothing outside is touched."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from needed_engines import skip_without_engines
from networks.network_building import conv_clip, make_model, node, random, residual, save
from samebits.errors import ModelError, ResourceLimitError, SamebitsError
from samebits.networks import model_runners, onnx_reading
from samebits.networks.model_comparing import compare_model
from samebits.networks.model_runners import rewire
from samebits.networks.onnx_reading import make_network, read_onnx


def test_a_model_is_read_with_its_weights_and_types(tmp_path):
    network = read_onnx(save(residual(), tmp_path / "net.onnx"))
    assert [n.operator for n in network.nodes][:3] == ["Conv", "Relu", "Conv"]
    assert network.inputs["x"].shape == (2, 2, 8, 8)
    assert network.outputs == ("p",)
    assert np.array_equal(network.constants["w3"], random((4, 5), 4))
    assert network.types["r2"].shape == (2, 4, 8, 8)
    assert network.producers["s"] == 3
    assert network.consumers["r1"] == (2, 3)


def test_a_file_cut_anywhere_is_refused_or_whole(tmp_path):
    whole = conv_clip().SerializeToString()
    path = tmp_path / "cut.onnx"
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(SamebitsError) as raised:
            read_onnx(path)
        assert "\n" not in str(raised.value)


def test_bytes_changed_anywhere_end_in_one_line_or_in_a_network(tmp_path):
    whole = bytearray(conv_clip().SerializeToString())
    rng = np.random.default_rng(3)
    path = tmp_path / "changed.onnx"
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            damaged[place] = rng.integers(0, 256)
        path.write_bytes(damaged)
        said = ""
        try:
            read_onnx(path)
        except SamebitsError as error:
            said = str(error)
        assert "\n" not in said


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a model at all", bytes(1000)])
def test_what_is_no_model_is_refused(tmp_path, content):
    path = tmp_path / "no.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError):
        read_onnx(path)


def test_files_that_are_not_there_and_folders_are_refused(tmp_path):
    with pytest.raises(ModelError, match="No such file"):
        read_onnx(tmp_path / "missing.onnx")
    with pytest.raises(ModelError, match="no regular file"):
        read_onnx(tmp_path)


def test_three_gigabytes_declared_in_a_small_file_are_not_believed(tmp_path):
    model = conv_clip()
    tensor = model.graph.initializer[0]
    del tensor.dims[:]
    tensor.dims.extend([3 * 2**28])
    with pytest.raises(ModelError, match="declares 805,306,368 values but holds"):
        read_onnx(save(model, tmp_path / "huge.onnx"))


@pytest.mark.parametrize("location", ["../outside.bin", "/etc/passwd", "a/../../outside.bin", ""])
def test_external_data_outside_the_folder_is_not_touched(tmp_path, location):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "outside.bin").write_bytes(bytes(10_000))
    with pytest.raises(ModelError, match="not in the model's folder"):
        read_onnx(_make_external(folder, location, 8 * 3 * 9 * 4))


def test_external_data_behind_a_link_that_leads_outside_is_not_touched(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "outside.bin").write_bytes(bytes(10_000))
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")
    with pytest.raises(ModelError, match="not in the model's folder"):
        read_onnx(_make_external(folder, "link.bin", 8 * 3 * 9 * 4))


@pytest.mark.parametrize("offsets", [("0", "16"), ("abc", "0")])
def test_external_data_with_a_key_twice_is_refused(tmp_path, offsets):
    weights = random((8, 3, 3, 3), 9)
    (tmp_path / "data.bin").write_bytes(bytes(64) + weights.tobytes())
    path = _make_external(tmp_path, "data.bin", weights.nbytes, offset=offsets[0])
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer[0].external_data.add(key="offset", value=offsets[1])
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match="a key twice"):
        read_onnx(path)


def test_links_to_the_folder_where_the_model_really_lies_are_followed(tmp_path):
    """As Hugging Face's cache holds them: links from a folder of names to one of contents."""
    weights = random((8, 3, 3, 3), 9)
    contents, names = tmp_path / "blobs", tmp_path / "snapshots" / "main" / "onnx"
    contents.mkdir()
    names.mkdir(parents=True)
    (contents / "11").write_bytes(weights.tobytes())
    _make_external(contents, "net.onnx_data", weights.nbytes).rename(contents / "22")
    (names / "net.onnx_data").symlink_to("../../../blobs/11")
    (names / "net.onnx").symlink_to("../../../blobs/22")
    assert np.array_equal(read_onnx(names / "net.onnx").constants["w"], weights)
    (tmp_path / "outside").write_bytes(weights.tobytes())
    (names / "net.onnx_data").unlink()
    (names / "net.onnx_data").symlink_to(tmp_path / "outside")
    with pytest.raises(ModelError, match="not in the model's folder"):
        read_onnx(names / "net.onnx")


@pytest.mark.parametrize("beside", [False, True])
def test_codes_of_four_bits_lie_two_in_a_byte(tmp_path, beside):
    codes, scale = np.arange(-7, 8), np.float32(0.5)
    packed = bytes((int(a) & 15) | (int(b) & 15) << 4 for a, b in zip(codes[::2], [*codes[1::2], 0], strict=True))
    tensor = onnx.TensorProto(name="q", data_type=TensorProto.INT4, dims=[15], raw_data=packed)
    if beside:
        (tmp_path / "q.bin").write_bytes(bytes(5) + packed)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "q.bin"), ("offset", "5"), ("length", str(len(packed)))):
            tensor.external_data.add(key=key, value=value)
    nodes = [node("DequantizeLinear", ["q", "s"], ["w"]), node("Mul", ["x", "w"], ["y"])]
    model = make_model(nodes, {"x": [15]}, ["y"], {"s": scale}, opset=21)
    model.graph.initializer.append(tensor)
    network = read_onnx(save(model, tmp_path / "net.onnx"))
    assert np.array_equal(network.constants["q"].astype(np.int64), codes)


def test_external_data_in_the_folder_is_read_and_must_be_all_there(tmp_path):
    weights = random((8, 3, 3, 3), 9)
    (tmp_path / "data.bin").write_bytes(bytes(64) + weights.tobytes())
    path = _make_external(tmp_path, "data.bin", weights.nbytes, offset=64)
    assert np.array_equal(read_onnx(path).constants["w"], weights)
    (tmp_path / "data.bin").write_bytes(weights.tobytes())
    with pytest.raises(ModelError, match="which holds"):
        read_onnx(path)


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino:INFERENCE_PRECISION_HINT=f32"])
def test_weights_that_fit_in_no_message_stay_in_their_files(tmp_path, monkeypatch, engine):
    """Engines get the model alone, and read the weights where they are."""
    skip_without_engines([engine.partition(":")[0]])
    monkeypatch.setattr(onnx_reading, "LARGEST_BYTES", 2**18)
    tables = {"w": random((300, 256), 1), "v": random((256, 128), 2)}
    nodes = [node("Gather", ["w", "i"], ["g"]), node("MatMul", ["g", "v"], ["m"]), node("Mul", ["m", "x"], ["y"])]
    model = make_model(nodes, {"x": [2, 128]}, ["y"], {**tables, "i": np.array([7, 299])})
    (tmp_path / "deeper").mkdir()
    for tensor, place in zip(model.graph.initializer, ("deeper/w.bin", "v.bin"), strict=False):
        (tmp_path / place).write_bytes(bytes(64) + tables[tensor.name].tobytes())
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", place), ("offset", "64"), ("length", str(tables[tensor.name].nbytes))):
            tensor.external_data.add(key=key, value=value)
    network = read_onnx(save(model, tmp_path / "net.onnx"))
    assert isinstance(network.constants["w"], np.memmap)
    assert len(rewire(network, ["y"])) < 2000
    found = compare_model(network, [engine, "truth"])
    assert [side.failure for side in found.sides] == [None, None]
    assert found.verdict in ("rounding", "identical")
    (tmp_path / "v.bin").write_bytes(bytes(64) + (tables["v"] * 2).tobytes())
    assert not np.array_equal(read_onnx(tmp_path / "net.onnx").constants["v"], tables["v"])


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino:INFERENCE_PRECISION_HINT=f32"])
def test_weights_in_a_file_beside_the_model_change_no_bit(monkeypatch, engine):
    skip_without_engines([engine.partition(":")[0]])
    constants = {"w": random((64, 3, 3, 3), 1), "u": random((64, 64, 3, 3), 2), "b": random((64,), 3)}
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["r"]), node("Conv", ["r", "u", "b"], ["y"])]
    network = make_network(make_model(nodes, {"x": [1, 3, 20, 20]}, ["y"], constants), "net")
    made, folders = [], []
    for most in (2**24, 2**10):
        monkeypatch.setattr(model_runners, "_MOST_SENT", most)
        runner = model_runners.open_model_runner(engine, time_limit_s=100)
        for observed in (["c"], []):
            found = runner.run_network(network, {"x": random((1, 3, 20, 20), 4)}, observed, ["y", *observed], {})
            made.append({name: value.tobytes() for name, value in found.items()})
        # Another network of the same form is another one.
        other = make_network(make_model(nodes, {"x": [1, 3, 20, 20]}, ["y"], {**constants, "u": -constants["u"]}), "o")
        made.append(runner.run_network(other, {"x": random((1, 3, 20, 20), 4)}, [], ["y"], {})["y"].tobytes())
        folders.append(runner._beside and runner._beside.folder.name)
        runner.close()
    assert made[:3] == made[3:]
    assert made[0]["y"] != made[2]
    assert folders[0] is None
    assert not Path(folders[1]).exists()


def _make_external(folder, location, length, offset=0):
    model = conv_clip()
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_cycles_and_values_from_nowhere_are_refused():
    loop = [node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])]
    with pytest.raises(ModelError, match="reads b, which nothing before it makes"):
        make_network(make_model(loop, {"x": [1]}, ["b"], {}), "loop")
    twice = [node("Relu", ["x"], ["a"]), node("Abs", ["x"], ["a"])]
    with pytest.raises(ModelError, match="a second time"):
        make_network(make_model(twice, {"x": [1]}, ["a"], {}), "twice")


def test_unknown_operators_and_opsets_are_refused():
    odd = helper.make_node("FusedConv", ["x"], ["y"], name="odd")
    with pytest.raises(ModelError, match=r"operator FusedConv is none of ONNX's opset 17"):
        make_network(make_model([odd], {"x": [1]}, ["y"], {}), "odd")
    with pytest.raises(ModelError, match="opset 999"):
        make_network(make_model([node("Relu", ["x"], ["y"])], {"x": [1]}, ["y"], {}, opset=999), "new")


def test_absurd_sizes_are_refused_before_memory_is_taken():
    relu = [node("Relu", ["x"], ["y"])]
    with pytest.raises(ResourceLimitError, match="GiB"):
        make_network(make_model(relu, {"x": [2**20, 2**20]}, ["y"], {}), "large")
    # Converters write -1 for any size.
    assert make_network(make_model(relu, {"x": [-5]}, ["y"], {}), "negative").inputs["x"].shape == (None,)


def test_shapes_that_do_not_fit_each_other_are_refused():
    wrong = [node("MatMul", ["x", "w"], ["y"])]
    with pytest.raises(ModelError):
        make_network(make_model(wrong, {"x": [2, 3]}, ["y"], {"w": random((4, 5), 1)}), "wrong")


def test_functions_of_the_file_are_put_in_place():
    body = [node("Mul", ["a", "a"], ["sq"]), node("Relu", ["sq"], ["out"])]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("local", "Square", ["a"], ["out"], body, opsets)
    model = make_model([helper.make_node("Square", ["x"], ["y"], domain="local")], {"x": [3]}, ["y"], {})
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("local", 1))
    assert [n.operator for n in make_network(model, "f").nodes] == ["Mul", "Relu"]
    assert onnx.defs.onnx_opset_version() >= 17


def test_strings_are_refused():
    model = make_model([node("Cast", ["x"], ["y"], to=8)], {"x": [4]}, ["y"], {})
    model.graph.output[0].type.tensor_type.elem_type = 8
    with pytest.raises(ModelError, match="strings"):
        make_network(model, "test")


def test_functions_that_call_themselves_are_refused():
    call = helper.make_node("F", ["a"], ["b"], domain="own")
    model = make_model([helper.make_node("F", ["x"], ["y"], domain="own")], {"x": [4]}, ["y"], {})
    model.functions.append(helper.make_function("own", "F", ["a"], ["b"], [call], [helper.make_opsetid("own", 1)]))
    model.opset_import.append(helper.make_opsetid("own", 1))
    with pytest.raises(ModelError, match="calls itself"):
        make_network(model, "test")
