"""Arrays out of files that other libraries wrote, and out of broken and hostile ones."""

import contextlib
import io
import json
import pickle
import time
import zipfile
from decimal import Decimal

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from samebits.errors import CaseFileError
from samebits.problems.array_files import list_arrays, read_array_file
from samebits.problems.printed_numbers import PrintedNumbers, parse_numbers

RNG = np.random.default_rng(7)
X = RNG.standard_normal((3, 4), dtype=np.float32)
MAKERS = {
    "float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2, "int64": torch.int64, "int32": torch.int32,
    "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8, "bool": torch.bool, "uint16": torch.uint16,
}  # fmt: skip


def numbers(path, **given):
    read = read_array_file(str(path), **given)
    assert isinstance(read, np.ndarray)
    return read


@pytest.mark.parametrize("name", MAKERS)
def test_torchs_tensors_are_read_bit_for_bit(tmp_path, name):
    tensor = torch.arange(12).reshape(3, 4).to(MAKERS[name])
    torch.save(tensor, tmp_path / "x.pt")
    read = numbers(tmp_path / "x.pt")
    assert (read.dtype.name, read.shape) == (name, (3, 4))
    assert np.array_equal(read.astype(np.int64), tensor.to(torch.int64).numpy())


def test_views_parameters_and_several_tensors_of_a_file(tmp_path):
    base = torch.from_numpy(X)
    parts = {"t": base.t(), "part": base[1:, ::2], "w": torch.nn.Parameter(base), "grown": base[:1].expand(5, 4)}
    torch.save({"n": 3, **parts}, tmp_path / "d.pt")
    assert list_arrays(tmp_path / "d.pt") == ["t", "part", "w", "grown"]
    for name, expected in {"t": X.T, "part": X[1:, ::2], "w": X, "grown": np.tile(X[:1], (5, 1))}.items():
        assert np.array_equal(numbers(f"{tmp_path / 'd.pt'}:{name}"), expected)
    assert np.array_equal(numbers(tmp_path / "d.pt", wanted="w"), X)
    with pytest.raises(CaseFileError, match=r"holds t, part, w, grown: name one, as in .*d.pt:t"):
        read_array_file(str(tmp_path / "d.pt"))
    with pytest.raises(CaseFileError, match="has no array 'v', only t, part"):
        read_array_file(f"{tmp_path / 'd.pt'}:v")
    layer = torch.nn.Linear(4, 2)
    torch.save(layer.state_dict(), tmp_path / "weights.pth")
    assert np.array_equal(numbers(tmp_path / "weights.pth", wanted="bias"), layer.bias.detach().numpy())
    torch.save([base, base + 1], tmp_path / "list.pt")
    assert np.array_equal(numbers(f"{tmp_path / 'list.pt'}:1"), X + 1)


def test_tensors_inside_containers_are_named_by_all_keys_on_the_way(tmp_path):
    base = torch.from_numpy(X)
    torch.save({"model": {"fc": {"weight": base}, "steps": [1, base + 1]}, "epoch": 3}, tmp_path / "ck.pt")
    assert list_arrays(tmp_path / "ck.pt") == ["model.fc.weight", "model.steps.1"]
    assert np.array_equal(numbers(f"{tmp_path / 'ck.pt'}:model.fc.weight"), X)
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(CaseFileError, match="has no array 'w', and none with a name"):
        read_array_file(f"{tmp_path / 'x.npy'}:w")


class Calls:
    def __reduce__(self):
        return (open, ("called", "w"))


@pytest.mark.parametrize("content", [torch.nn.Linear(2, 3), Calls(), {"x": torch.ones(2), "more": Calls()}])
def test_objects_in_torchs_files_are_refused_and_nothing_is_called(tmp_path, content, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save(content, "m.pt")
    with pytest.raises(CaseFileError, match="only tensors are read") as raised:
        read_array_file("m.pt", "x")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "called").exists()


def test_pickles_by_themselves_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(X))
    (tmp_path / "o.npy").write_bytes(b"")
    np.save(tmp_path / "o.npy", np.array([Calls()], object), allow_pickle=True)
    torch.save(torch.ones(2), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("x.pkl", "o.npy", "old.pt"):
        with pytest.raises(CaseFileError):
            read_array_file(name)
    assert not (tmp_path / "called").exists()


def rewrite(path, **entries):
    """The archive with other bytes in some entries."""
    with zipfile.ZipFile(path) as archive:
        kept = {n: archive.read(n) for n in archive.namelist()}
    for name, data in entries.items():
        (key,) = [n for n in kept if n.endswith(name.replace("__", "/"))]
        kept[key] = data
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in kept.items():
            archive.writestr(name, data)


def test_a_tensor_that_reaches_beyond_its_bytes_is_refused(tmp_path):
    torch.save(torch.ones(64), tmp_path / "x.pt")
    rewrite(tmp_path / "x.pt", data__0=b"\0" * 12)
    with pytest.raises(CaseFileError, match="reaches beyond its 12 bytes"):
        read_array_file(str(tmp_path / "x.pt"))


def test_containers_inside_themselves_are_entered_once(tmp_path):
    inner = [torch.ones(2)]
    inner += [inner] * 200
    for _ in range(6):
        inner = [inner] * 200
    torch.save({"a": inner}, tmp_path / "x.pt")
    began = time.monotonic()
    assert len(list_arrays(tmp_path / "x.pt")) == 1
    # Each entered again would be 200^7 steps.
    assert time.monotonic() - began < 60


def test_a_small_tensor_that_says_it_is_huge_is_refused(tmp_path):
    torch.save(torch.ones(1).expand(2**40), tmp_path / "x.pt")
    with pytest.raises(Exception, match="the limit is") as raised:
        read_array_file(str(tmp_path / "x.pt"))
    assert "\n" not in str(raised.value)


def write_safetensors(path, tensors, **other):
    """The format as its README defines it, by hand."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, array) in tensors.items():
        held = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(held)]}
        data += held
    for name, changed in other.items():
        header[name] |= changed
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_safetensors(tmp_path):
    narrow = X.astype(ml_dtypes.bfloat16)
    path = tmp_path / "w.safetensors"
    write_safetensors(
        path, {"x": ("F32", X), "b": ("BF16", narrow), "f": ("F8_E4M3", X.astype(ml_dtypes.float8_e4m3fn))}
    )
    assert np.array_equal(numbers(path, wanted="x"), X)
    assert numbers(f"{path}:b").dtype == ml_dtypes.bfloat16
    assert np.array_equal(numbers(f"{path}:b"), narrow)
    for changed, says in (
        ({"shape": [3, 5]}, "does not fit"),
        ({"data_offsets": [0, 10**9]}, "beyond"),
        ({"dtype": "F4"}, "not read"),
    ):
        write_safetensors(path, {"x": ("F32", X)}, x=changed)
        with pytest.raises(CaseFileError, match=says):
            read_array_file(str(path))
    path.write_bytes((2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(CaseFileError, match="header"):
        read_array_file(str(path))


def test_numpys_files_and_onnxs(tmp_path):
    np.save(tmp_path / "x.npy", np.asfortranarray(X))
    np.savez(tmp_path / "c.npz", x=X, y=X + 1)
    (tmp_path / "input_0.pb").write_bytes(numpy_helper.from_array(X, "x").SerializeToString())
    assert all(np.array_equal(numbers(tmp_path / n, wanted="x"), X) for n in ("x.npy", "c.npz", "input_0.pb"))
    assert np.array_equal(numbers(f"{tmp_path / 'c.npz'}:y"), X + 1)
    outside = onnx.TensorProto(data_type=1, dims=[3], data_location=onnx.TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="../../etc/passwd")
    (tmp_path / "input_1.pb").write_bytes(outside.SerializeToString())
    with pytest.raises(CaseFileError, match="inside"):
        read_array_file(str(tmp_path / "input_1.pb"))


WAYS = {
    "rows": lambda a: "\n".join(" ".join(repr(float(v)) for v in row) for row in a),
    "commas": lambda a: "# a comment\n" + "\n".join(", ".join(f"{v:.9g}" for v in row) for row in a),
    "numpy": lambda a: np.array2string(a, floatmode="unique", separator=", "),
    "repr": lambda a: np.array_repr(a, precision=9),
    "torch": lambda a: str(torch.from_numpy(a)),
    "json": lambda a: json.dumps(a.tolist()),
    "session": lambda a: f">>> y = net(x)\n>>> y\n{np.array_repr(a, precision=9)}\n",
    "notebook": lambda a: f"In [3]: y\nOut[3]:\n{np.array_repr(a, precision=9)}\n",
    "assigned": lambda a: f"y = np.{np.array_repr(a, precision=9).replace('dtype=', 'dtype=np.')}\n",
    # As TensorFlow 2.21 prints them.
    "print of tensorflow": lambda a: (
        f"tf.Tensor(\n{np.array2string(a, floatmode='unique')}, shape=(3, 4), dtype=float32)"
    ),
    "repr of tensorflow": lambda a: (
        f"<tf.Tensor: shape=(3, 4), dtype=float32, numpy=\n{np.array_repr(a, precision=9)}>"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_numbers_as_text(tmp_path, way):
    torch.set_printoptions(precision=9)
    try:
        (tmp_path / "x.txt").write_text(WAYS[way](X))
    finally:
        torch.set_printoptions(profile="default")
    read = read_array_file(str(tmp_path / "x.txt"))
    assert isinstance(read, PrintedNumbers)
    assert np.array_equal(read.round_to("x", "float32"), X)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (str(torch.from_numpy(X)), "too few digits"),
        ("\n".join(" ".join(f"{v:.4f}" for v in row) for row in X), "too few digits"),
        ("[0.1, ..., 0.2]", "dots"),
        ("0.1\n...\n0.2\n", "dots"),
        ("1 2\n3", "several lengths"),
        ("[[1, 2], [3]]", "brackets do not fit"),
        ("[1, 2", "brackets do not fit"),
        ("1 2]", "where a number should stand|brackets|nothing opens"),
        ("x = 3", "'x = 3' where a number should stand"),
        ("", "it has none"),
        ("[" * 20 + "1" + "]" * 20, "deep"),
    ],
)
def test_text_that_is_no_array_or_does_not_say_the_bits_is_refused(tmp_path, text, says):
    (tmp_path / "x.txt").write_text(text)
    with pytest.raises(CaseFileError, match=says):
        read_array_file(str(tmp_path / "x.txt")).round_to("x", "float32")


def test_whole_numbers_and_halves_are_known_from_few_digits(tmp_path):
    (tmp_path / "x.txt").write_text("[[1, -2.5], [3., 0.25]]")
    assert np.array_equal(read_array_file(str(tmp_path / "x.txt")).round_to("x", "float16"), [[1, -2.5], [3, 0.25]])


def test_files_with_random_damage_are_read_or_refused_in_one_line(tmp_path):
    whole = {}
    torch.save({"x": torch.from_numpy(X), "y": torch.ones(3)}, tmp_path / "x.pt")
    np.savez(tmp_path / "x.npz", x=X)
    np.save(tmp_path / "x.npy", X)
    write_safetensors(tmp_path / "x.safetensors", {"x": ("F32", X)})
    (tmp_path / "x.pb").write_bytes(numpy_helper.from_array(X, "x").SerializeToString())
    (tmp_path / "x.txt").write_text(str(X.tolist()))
    for path in sorted(tmp_path.iterdir()):
        whole[path] = path.read_bytes()
    rng = np.random.default_rng(0)
    read = 0
    for path, data in whole.items():
        for _ in range(60):
            changed = bytearray(data)
            for at in rng.integers(0, len(data), 3):
                changed[at] = rng.integers(0, 256)
            path.write_bytes(bytes(changed[: rng.integers(1, len(data) + 1)]) if rng.random() < 0.3 else bytes(changed))
            with contextlib.suppress(CaseFileError), one_line():
                read_array_file(str(path), "x")
                read += 1
    assert 20 < read < 300


@contextlib.contextmanager
def one_line():
    """What is raised inside says it in one line."""
    try:
        yield
    except CaseFileError as error:
        if "\n" in str(error):
            raise AssertionError(str(error)) from error
        raise


def test_what_is_no_file_of_numbers(tmp_path):
    (tmp_path / "x.bin2").write_bytes(bytes(range(256)))
    for name, says in ((".", "no regular file"), ("nothing.npy", "No such file"), ("x.bin2", "no file of numbers")):
        with pytest.raises(CaseFileError, match=says):
            read_array_file(str(tmp_path / name))
    buffer = io.BytesIO()
    np.save(buffer, X)
    (tmp_path / "cut.npy").write_bytes(buffer.getvalue()[:-4])
    with pytest.raises(CaseFileError, match="states 48 bytes of numbers and has 44"):
        read_array_file(str(tmp_path / "cut.npy"))


@pytest.mark.parametrize(("written", "digits"), [("%.5g", 5), ("%.3g", 3), ("%.6e", 7)])
def test_zeros_that_a_printer_leaves_out_count_as_printed(written, digits):
    """A printer of significant digits writes 0.5 for 0.50000; the unit of its last digit is known by the others."""
    rng = np.random.default_rng(3)
    numbers = rng.standard_normal((20, 30)) * np.exp(2 * rng.standard_normal((20, 30)))
    read = parse_numbers("x", "\n".join(",".join(written % v for v in row) for row in numbers))
    for value, unit in zip(read.values.ravel(), read.units.ravel(), strict=True):
        assert unit == float(f"1e{Decimal(repr(float(value))).adjusted() + 1 - digits}")


def test_decimals_that_numpy_leaves_out_count_as_printed():
    numbers = np.round(np.random.default_rng(3).standard_normal((8, 9)) * 10, 4)
    read = parse_numbers("x", np.array2string(numbers, precision=4))
    assert set(read.units.ravel()) == {1e-4}


def test_numbers_that_people_write_keep_their_own_digits():
    read = parse_numbers("x", "0.5, 0.25, 0.125, 3")
    assert read.units.tolist() == [0.1, 0.01, 0.001, 1.0]


def test_two_arrays_in_one_text_are_refused():
    with pytest.raises(CaseFileError, match="holds several arrays"):
        parse_numbers("f", "[1, 2][3, 4]")
