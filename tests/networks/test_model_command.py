"""`samebits compare MODEL`: what is printed, the same as JSON, and the exit status."""

import json

import numpy as np
import pytest

from networks.network_building import conv_clip, make_model, node, random, save
from samebits.cli.app import main
from samebits.errors import ModelError
from samebits.networks.model_fixes import save_cases

FAULT = "emulate:direct x=bfloat16 w=bfloat16"


@pytest.fixture
def path(tmp_path):
    return str(save(conv_clip(), tmp_path / "net.onnx"))


def test_agreement_and_difference_have_their_status(path, capsys):
    assert main(["compare", path, "--on", "onnxruntime", "--on", "truth"]) == 0
    assert "ROUNDING" in capsys.readouterr().out
    assert main(["compare", path, "--on", "onnxruntime", "--on", FAULT]) == 1
    printed = capsys.readouterr().out
    assert "DOWNGRADE" in printed
    assert "conv_c (Conv+Clip)" in printed
    assert "reduced-precision-operands" in printed


def test_json_is_the_document_and_nothing_else(path, capsys):
    assert main(["compare", path, "--on", "onnxruntime", "--on", FAULT, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "samebits.model/1"
    assert document["first"] == "conv_c"


def test_options_of_networks(path, tmp_path, capsys):
    np.savez(tmp_path / "in.npz", x=random((1, 3, 12, 12), 3))
    cases = tmp_path / "cases"
    status = main(
        [
            "compare",
            path,
            "--on",
            FAULT,
            "--on",
            "truth",
            "--inputs",
            str(tmp_path / "in.npz"),
            "--save-cases",
            str(cases),
        ]
    )
    assert status == 1
    assert "inputs: given" in capsys.readouterr().out
    assert len(list(cases.iterdir())) == 1
    assert main(["compare", path, "--on", "truth", "--range", "x=0:1"]) == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["missing.onnx"],
        ["{path}", "{path}", "--on", "truth"],
        ["{path}", "--range", "x"],
        ["{path}", "--range", "x=2:1"],
        ["{path}", "--range", "z=0:1"],
        ["{path}", "--inputs", "missing.npz"],
        ["{path}", "--on", "onnxrutime"],
        ["missing.py:net"],
        ["missing.pt2"],
        ["conv1d x=1x1x7 w=1x1x5", "--inputs", "in.npz"],
    ],
)
def test_what_cannot_be_done_ends_with_one_line_and_status_2(path, arguments, capsys):
    assert main(["compare", *(a.replace("{path}", path) for a in arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    # On a loaded machine progress is shown before.
    assert len([line for line in said.err.strip().splitlines() if not line.endswith(" ...")]) == 1


def test_one_file_at_a_time_is_compared_against(path, capsys):
    assert main(["compare", path, "--on", "onnxruntime", "--against", path, "--against", path]) == 2
    assert "--against takes one file at a time" in capsys.readouterr().err


def test_a_network_with_one_number_as_its_result_is_compared(tmp_path, capsys):
    total = make_model([node("ReduceSum", ["x"], ["y"], keepdims=0)], {"x": [3, 4]}, ["y"], {})
    path = str(save(total, tmp_path / "total.onnx"))
    assert main(["compare", path, "--on", "onnxruntime", "--on", "truth"]) == 0
    assert capsys.readouterr().err.count("Traceback") == 0


@pytest.mark.parametrize("folder", ["", "a\0b"])
def test_folders_that_cannot_be_are_refused(folder):
    with pytest.raises(ModelError):
        save_cases(folder, [])
