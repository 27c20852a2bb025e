"""Files that a command does not take: what they are is said, and which command takes them."""

import json
import warnings
import zipfile

import numpy as np
import pytest
import torch

from samebits.cli.app import main

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 12345\n"


def write_text(path, text):
    path.write_text(text)


def write_script(path, _):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(torch.nn.Linear(3, 2)), path)


def write_case(path, text):
    np.savez(path, problem=text, x=np.zeros((2, 3), np.int8))


def write_empty_archive(path, _):
    zipfile.ZipFile(path, "w").close()


FINDING = json.dumps({"schema": "samebits.comparison/1", "problem": "linear x=1x2 w=1x2"})
CODES = "linear x=2x3 w=4x3 dtype=int8 out=int8"


@pytest.mark.parametrize(
    ("name", "write", "content", "words", "says"),
    [
        ("net.onnx", write_text, POINTER, ["compare", "--on", "numpy"], "git lfs pull fetches the file"),
        ("a.npy", write_text, POINTER, ["explain"], "git lfs pull fetches the file"),
        ("case.npz", write_text, POINTER, ["compare", "--on", "numpy"], "git lfs pull fetches the file"),
        ("found.json", write_text, FINDING, ["explain"], "samebits report found.json makes a page of it"),
        ("found.json", write_text, FINDING, ["compare"], "a finding is for samebits report found.json"),
        ("mine.csv", write_text, "1,2\n", ["compare"], "two results are for samebits explain mine.csv OTHER"),
        ("run.log", write_text, "all well\n", ["compare"], "a log is for samebits explain run.log"),
        ("w.safetensors", write_text, "", ["explain"], "is no .safetensors file: its header is no JSON"),
        ("case.npz", write_empty_archive, "", ["compare"], "is an empty archive"),
        ("net.pt", write_script, "", ["compare"], "is a TorchScript program"),
        ("net.pt", write_script, "", ["compare"], "returns the module that it was made from"),
        ("codes.npz", write_case, CODES, ["reduce", "--on", "numpy"], "samebits explain codes.npz judges them"),
        ("codes.npz", write_case, CODES, ["compare"], "w, x_scale, w_scale, y_scale missing"),
        ("net.keras", write_empty_archive, "", ["explain"], "is a Keras model"),
        ("folder", lambda path, _: path.mkdir(), "", ["compare"], "is no file; a problem's text, a case or a network"),
    ],
)
def test_what_a_file_is_and_who_takes_it(tmp_path, monkeypatch, capsys, name, write, content, words, says):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / name, content)
    assert main([words[0], name, *words[1:]]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)


@pytest.mark.needs("litert")
def test_a_network_file_that_ends_too_early_is_damaged(tmp_path, capsys):
    (tmp_path / "net.tflite").write_bytes(b"\x1c\0\0\0TFL3" + b"\x14\0" * 40)
    assert main(["compare", str(tmp_path / "net.tflite"), "--on", "litert"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "unpack" not in error


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ("tensorrt", "--recorded mine=FILE"),
        ("onnx", "did you mean onnxruntime?"),
        ("torhc", "did you mean torch?"),
    ],
)
def test_engines_that_do_not_run_here(capsys, engine, says):
    assert main(["compare", "linear x=1x4 w=2x4", "--on", engine]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("name", ["page.pdf", "page.json", "page.txt"])
def test_a_page_is_written_in_a_form_that_its_name_says(tmp_path, capsys, name):
    assert main(["compare", "linear x=1x4 w=2x4", "--on", "numpy", "--json"]) == 0
    (tmp_path / "found.json").write_text(capsys.readouterr().out)
    assert main(["report", str(tmp_path / "found.json"), "-o", str(tmp_path / name)]) == 2
    assert "report writes .html, .md, .xml or .sarif" in capsys.readouterr().err
    assert not (tmp_path / name).exists()
