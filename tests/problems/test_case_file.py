"""Case files: bit for bit there and back, and every way one can be broken gives one line."""

import contextlib
import copy
import io
import os
import pickle
import zipfile

import ml_dtypes
import numpy as np
import pytest

from samebits.errors import CaseFileError, OperandError
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case, load_case, save_case
from samebits.problems.languages.any_language import read_subject
from samebits.problems.operands import make_normal
from samebits.problems.problem import DTYPES

TEXT = "conv1d x=1x1x7 w=1x1x5"


def write(path, **entries):
    good = {"problem": np.array(TEXT), "x": np.ones((1, 1, 7), np.float32), "w": np.ones((1, 1, 5), np.float32)}
    np.savez(path, **{k: v for k, v in (good | entries).items() if v is not None})
    return path


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_format_travels_bit_for_bit(tmp_path, dtype):
    problem = parse_problem_text(f"conv2d x=1x2x5x5 w=3x2x3x3 bias dtype={dtype}")
    operands = make_normal(problem)
    result = np.zeros(problem.out_shape, operands["x"].dtype)
    save_case(tmp_path / "c.npz", problem, operands, {"left": result, "right": result})
    case = load_case(tmp_path / "c.npz")
    assert case.problem == problem
    assert {n: a.tobytes() for n, a in case.operands.items()} == {n: a.tobytes() for n, a in operands.items()}
    assert list(case.results) == ["left", "right"]


@pytest.mark.parametrize("count", [3, 24, 30, 700])
def test_any_number_of_results_is_kept_in_sequence_under_its_names(tmp_path, count):
    problem = parse_problem_text(TEXT)
    results = {f"engine {n}": np.full((1, 1, 3), n, np.float32) for n in range(count)}
    save_case(tmp_path / "c.npz", problem, make_normal(problem), results)
    read = load_case(tmp_path / "c.npz").results
    assert list(read) == list(results)
    assert [r[0, 0, 0] for r in read.values()] == list(range(count))


def test_results_are_the_letters_that_no_operand_has(tmp_path):
    problem = parse_problem_text(TEXT)
    save_case(
        tmp_path / "c.npz", problem, make_normal(problem), {str(n): np.ones((1, 1, 3), np.float32) for n in range(27)}
    )
    with np.load(tmp_path / "c.npz") as stored:
        letters = [name for name in stored if not name.startswith("name_")]
    assert letters == ["problem", "x", "w", *"abcdefghijklmnopqrstuvyz", "aa", "ab", "ac"]


def test_a_result_without_its_neighbours_is_read(tmp_path):
    path = write(tmp_path / "c.npz", c=np.ones((1, 1, 3), np.float32))
    assert list(load_case(path).results) == ["c"]


def test_results_of_one_name_are_kept_apart(tmp_path):
    names = {"a": "t", "b": "t (c)", "c": "t", "d": "t"}
    values = {letter: np.full((1, 1, 3), n, np.float32) for n, letter in enumerate(names)}
    path = write(tmp_path / "c.npz", **values, **{f"name_{k}": np.array(n) for k, n in names.items()})
    read = load_case(path).results
    assert list(read) == ["t", "t (c)", "t (c2)", "t (d)"]
    assert [r[0, 0, 0] for r in read.values()] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (np.ones((1, 1, 2), np.float32), "1x1x2 float32, not 1x1x3 float32"),
        (np.ones((1, 1, 3)), "float64, not 1x1x3 float32"),
        (np.ma.masked_array(np.ones((1, 1, 3), np.float32), True), "masked"),
        ([[[1.0, 1.0, 1.0]]], "not list"),
    ],
)
def test_a_result_that_is_none_of_the_problem_is_refused(tmp_path, result, says):
    problem = parse_problem_text(TEXT)
    for make in (
        lambda: Case(problem, {}, {"r": result}),
        lambda: save_case(tmp_path / "c", problem, make_normal(problem), {"r": result}),
    ):
        with pytest.raises(OperandError, match=says):
            make()


def test_a_result_in_the_other_byte_order_is_one(tmp_path):
    case = Case(parse_problem_text(TEXT), {}, {"r": np.ones((1, 1, 3), ">f4")})
    assert case.results["r"].dtype.isnative
    assert (case.results["r"] == 1).all()


def test_bfloat16_travels_as_uint16_bit_patterns(tmp_path):
    problem = parse_problem_text(TEXT + " dtype=bfloat16")
    save_case(tmp_path / "c.npz", problem, make_normal(problem))
    with np.load(tmp_path / "c.npz") as stored:
        assert stored["x"].dtype == np.uint16
    assert load_case(tmp_path / "c.npz").operands["x"].dtype == ml_dtypes.bfloat16


def test_bfloat16_numbers_may_stand_in_float32(tmp_path):
    values = np.array([1, -0.0, 2.0**-133, 3.0e38, np.inf, -255, np.nan], ml_dtypes.bfloat16).reshape(1, 1, 7)
    entries = {"x": values.astype(np.float32), "a": np.zeros((1, 1, 3), np.float32)}
    path = write(tmp_path / "c.npz", problem=np.array(TEXT + " dtype=bfloat16"), **entries)
    assert load_case(path).operands["x"].tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"problem": None}, "no entry 'problem'"),
        ({"problem": np.array(["a", "b"])}, "must be one text"),
        ({"problem": np.array("conv1d x=1x1x7")}, "w= is missing"),
        ({"x": None}, "operand x is missing"),
        ({"x": np.ones((1, 1, 7))}, "x has dtype float64"),
        ({"x": np.ones((1, 1, 8), np.float32)}, "operand x has shape 1x1x8"),
        ({"a": np.ones((1, 1, 2), np.float32)}, "result a has shape 1x1x2"),
        ({"a": np.ones((1, 1, 3), np.float16)}, "a has dtype float16"),
        ({"x": np.array([{}], object)}, "pickled"),
        (
            {"problem": np.array(TEXT + " dtype=bfloat16"), "x": np.ones((1, 1, 7), np.float16)},
            "bit patterns of bfloat16",
        ),
        (
            {"problem": np.array(TEXT + " dtype=bfloat16"), "x": np.full((1, 1, 7), 1.001, np.float32)},
            "or float32 with values that bfloat16 has",
        ),
    ],
)
def test_a_case_that_lies_is_refused_in_one_line(tmp_path, entries, says):
    path = write(tmp_path / "c.npz", **entries)
    with pytest.raises(CaseFileError, match=says) as caught:
        load_case(path)
    assert "\n" not in str(caught.value)


def test_every_truncation_is_refused_in_one_line(tmp_path):
    whole = write(tmp_path / "c.npz").read_bytes()
    path = tmp_path / "short.npz"
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(CaseFileError):
            load_case(path)


def test_flipped_bytes_are_refused_or_read_but_never_a_traceback(tmp_path):
    whole = bytearray(write(tmp_path / "c.npz").read_bytes())
    path = tmp_path / "flipped.npz"
    rng = np.random.default_rng(0)
    for _ in range(300):
        spoiled = bytearray(whole)
        for at in rng.integers(0, len(whole), 3):
            spoiled[at] = rng.integers(256)
        path.write_bytes(spoiled)
        with contextlib.suppress(CaseFileError):
            load_case(path)


def test_an_array_that_claims_to_be_huge_is_refused(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**12,)})
    write(tmp_path / "c.npz", x=None)
    with zipfile.ZipFile(tmp_path / "c.npz", "a") as archive:
        archive.writestr("x.npy", header.getvalue() + b"\0" * 28)
    with pytest.raises(CaseFileError):
        load_case(tmp_path / "c.npz")


def zipped(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
@pytest.mark.parametrize("names", [("x.npy", "x.npy"), ("x", "x.npy"), ("x.npy", "x"), ("x.npy", "x.npy\0y")])
def test_two_entries_that_numpy_takes_for_one_are_refused(tmp_path, names):
    path = write(tmp_path / "c.npz", x=None)
    # A directory that states a small size does not let a large entry of the same name through.
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, size in zip(names, (10**7, 7), strict=True):
            archive.writestr(name, zipped(np.zeros((1, 1, size), np.float32)))
    with pytest.raises(CaseFileError, match="two entries 'x'"):
        load_case(path)


def test_entries_that_share_bytes_are_refused(tmp_path):
    path = write(tmp_path / "c.npz")
    with zipfile.ZipFile(path, "a") as archive:
        second = copy.copy(archive.getinfo("x.npy"))
        second.filename = second.orig_filename = "a.npy"
        archive.filelist.append(second)
        archive.writestr("b.npy", b"")  # So that the directory is written again.
    with pytest.raises(CaseFileError, match="inside another"):
        load_case(path)


@pytest.mark.parametrize("shape", [(10**7,), (1, 1, 8), (1, 1, 6), (-1, -1, 7), (10**30, 0), (2**31, 2**31, 4)])
def test_a_header_that_states_another_size_than_the_entry_has_is_refused(tmp_path, shape):
    path = write(tmp_path / "c.npz", x=None)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x.npy", header.getvalue() + b"\0" * 28)
    with pytest.raises(CaseFileError, match=r"x states|shape"):
        load_case(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_that_numpy_does_not_write_is_refused(tmp_path, method):
    # LZMA's header can ask for a dictionary of 4 GiB.
    path = write(tmp_path / "c.npz", x=None)
    with zipfile.ZipFile(path, "a", method) as archive:
        archive.writestr("x.npy", zipped(np.ones((1, 1, 7), np.float32)))
    with pytest.raises(CaseFileError, match="compressed in a way"):
        load_case(path)


def test_paths_that_are_no_case_are_said(tmp_path):
    with pytest.raises(CaseFileError, match="does not exist"):
        load_case(tmp_path / "none.npz")
    with pytest.raises(CaseFileError, match="cannot be read"):
        load_case(tmp_path)
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(CaseFileError, match=r"no \.npz archive"):
        load_case(tmp_path / "text.npz")
    os.mkfifo(tmp_path / "fifo.npz")
    with pytest.raises(CaseFileError, match="no regular file"):
        load_case(tmp_path / "fifo.npz")
    with pytest.raises(CaseFileError):
        load_case("x" * 5000 + ".npz")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("net.keras", r"Keras model.*keras\.saving\.load_model\('\S+net\.keras'\)"),
        ("net.pth", "torch file.*function returns the module"),
        ("net.xml", "OpenVINO model.*compare the ONNX file or the module"),
    ],
)
def test_a_network_in_another_form_is_told_what_it_needs(tmp_path, name, says):
    path = tmp_path / name
    with pytest.raises(CaseFileError, match=says):
        read_subject(str(path))
    # A Keras file is a zip archive, as a case file is.
    np.savez(path.with_suffix(".npz"), x=np.zeros(2))
    path.write_bytes(path.with_suffix(".npz").read_bytes())
    with pytest.raises(CaseFileError, match=says) as refused:
        load_case(path)
    assert "\n" not in str(refused.value)


def test_a_saved_model_is_told_what_it_needs(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_bytes(b"graph")
    with pytest.raises(CaseFileError, match=r"SavedModel: python -m tf2onnx\.convert --saved-model \S+model --output"):
        read_subject(str(tmp_path / "model"))


@pytest.mark.parametrize(
    "content", [b"hello", pickle.dumps([1]), b"\x93NUMPY\x09\x00", b"\x93NUMPY\x01\x00\x06\x00{'a':("]
)
@pytest.mark.parametrize("name", ["problem", "x"])
def test_an_entry_that_is_no_array_is_refused(tmp_path, name, content):
    write(tmp_path / "c.npz", **{name: None})
    with zipfile.ZipFile(tmp_path / "c.npz", "a") as archive:
        archive.writestr(f"{name}.npy", content)
    with pytest.raises(CaseFileError) as caught:
        load_case(tmp_path / "c.npz")
    assert "\n" not in str(caught.value)


def test_an_entry_larger_than_its_problem_needs_is_not_read(tmp_path):
    path = write(tmp_path / "c.npz", x=np.zeros((1, 1, 10**6), np.float32))
    with pytest.raises(CaseFileError, match="x has 4,000,1"):
        load_case(path)


def test_names_are_made_printable(tmp_path):
    path = write(
        tmp_path / "c.npz", a=np.zeros((1, 1, 3), np.float32), name_a=np.array("\x1b]0;owned\x07 [bold]" + "y" * 200)
    )
    (name,) = load_case(path).results
    assert name.isprintable()
    assert len(name) == 80
