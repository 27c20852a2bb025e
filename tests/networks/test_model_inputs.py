"""What a network is fed: arrays from files that do not fit end in one line; ranges as wide as numbers are."""

import os
import zipfile

import numpy as np
import pytest
from onnx import TensorProto, helper

from networks.network_building import conv_clip, node
from samebits.errors import ModelError, ResourceLimitError, SamebitsError
from samebits.networks.model_inputs import load_inputs, make_inputs
from samebits.networks.onnx_reading import make_network


@pytest.fixture
def network():
    return make_network(conv_clip(), "test")


def test_one_array_without_a_name_is_refused(network, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 12, 12), np.float32))
    with pytest.raises(ModelError, match="by name"):
        load_inputs(network, tmp_path / "x.npy")


def test_terabytes_declared_in_a_small_file_are_not_believed(network, tmp_path):
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 4096), }"
    stored = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(64)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("x.npy", stored)
    with pytest.raises(SamebitsError):
        load_inputs(network, tmp_path / "x.npz")


@pytest.mark.parametrize(
    "header", ["{", "((((", "{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000000000000,)}"]
)
def test_headers_that_no_reader_expects_are_one_line(header, network, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    with pytest.raises(ModelError, match="cannot be read") as caught:
        load_inputs(network, tmp_path / "x.npz")
    assert "\n" not in str(caught.value)


def test_a_range_as_wide_as_numbers_are_is_drawn_from(network):
    drawn = make_inputs(network, 0, {"x": (-1e308, 1.5e308)})["x"]
    assert np.isinf(drawn).all()
    narrow = make_inputs(network, 0, {"x": (2.0, 3.0)})["x"]
    assert narrow.min() >= 2
    assert narrow.max() <= 3
    assert narrow.max() - narrow.min() > 0.9


def test_whole_numbers_are_drawn_from_what_their_dtype_holds():
    graph = helper.make_graph(
        [node("Identity", ["i"], ["y"])], "test",
        [helper.make_tensor_value_info("i", TensorProto.UINT8, [500])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [500])],
    )  # fmt: skip
    network = make_network(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "test")
    drawn = make_inputs(network, 0, {"i": (250, 255)})["i"]
    assert (drawn.dtype, drawn.min()) == (np.uint8, 250)
    for limits in ((-1.0, 3.0), (0.0, 256.0), (0.0, 1e300)):
        with pytest.raises(ModelError, match="uint8"):
            make_inputs(network, 0, {"i": limits})


def test_inputs_that_are_small_as_a_file_and_large_in_memory_are_counted_first(network, tmp_path, monkeypatch):
    """A thousandth of its size, deflated; a pipe in its place is not waited for."""
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros(2**22, np.float32))
    assert (tmp_path / "x.npz").stat().st_size < 2**16
    monkeypatch.setenv("SAMEBITS_MOST_VALUE_BYTES", "1000000")
    with pytest.raises(ResourceLimitError, match="SAMEBITS_MOST_VALUE_BYTES"):
        load_inputs(network, tmp_path / "x.npz")
    os.mkfifo(tmp_path / "p.npz")
    with pytest.raises(ModelError, match="no regular file"):
        load_inputs(network, tmp_path / "p.npz")
