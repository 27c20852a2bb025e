"""Torch modules and exported programs: exported once, run by torch, compiled, and by ONNX engines."""

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from samebits.errors import ModelError
from samebits.networks.model_comparing import compare_model

pytestmark = [
    pytest.mark.usefixtures("warm_workers"),
    pytest.mark.needs("torch", "openvino"),
    pytest.mark.skipif(importlib.util.find_spec("onnxscript") is None, reason="not installed: onnxscript"),
]

MODULE = """
    import torch
    from torch import nn

    def net():
        torch.manual_seed(0)
        layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5),
        )
        return layers.eval(), torch.randn(2, 3, 6, 6)

    def cube():
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Conv3d(2, 4, 3, padding=1, bias=False), nn.BatchNorm3d(4), nn.ReLU())
        return layers.eval(), torch.randn(1, 2, 4, 4, 4)

    def training():
        module, x = net()
        return module.train(), x

    def nothing():
        return 7

    class Odd(nn.Module):
        def __init__(self, returned):
            super().__init__()
            self.layer, self.returned = nn.Linear(4, 3), returned

        def forward(self, x, scale=1, mask=None):
            y = self.layer(x) * scale
            y = y if mask is None else y * mask
            return {"named": {"a": y, "b": [y, x]}, "int": (y, 3), "complex": torch.complex(y, y)}[self.returned]

    class Kept:
        # As the cache of keys and values that models of transformers return.
        def __init__(self, keys):
            self.keys = keys

    class Keeping(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x, scale=None):
            y = self.layer(x)
            return {"y": y if scale is None else y * scale, "kept": Kept(y)}

    def keeping():
        torch.manual_seed(0)
        return Keeping().eval(), {"x": torch.randn(2, 4), "scale": torch.rand(2, 3)}

    def odd(returned):
        torch.manual_seed(0)
        return Odd(returned).eval()

    def nested():
        return odd("named"), torch.randn(2, 4)

    def by_name():
        return odd("named"), {"x": torch.randn(2, 4), "mask": torch.rand(2, 3)}

    def with_a_number():
        return odd("named"), (torch.randn(2, 4), 3)

    def an_int():
        return odd("int"), torch.randn(2, 4)

    def complex_numbers():
        return odd("complex"), torch.randn(2, 4)
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(textwrap.dedent(MODULE))
    return path


def test_a_module_and_its_export_agree(file):
    found = compare_model(f"{file}:net", ["torch", "onnxruntime"])
    assert found.verdict in ("rounding", "identical")
    assert found.units[0].operators[0] == "Conv"
    assert all(s.own.max_over_bound < 1 for u in found.units for s in u.sides if s.own)
    assert found.data == "given"


def test_batch_norms_stay_and_their_convolutions_have_no_bias(file):
    found = compare_model(
        f"{file}:cube", ["torch", "onnxruntime", "openvino:INFERENCE_PRECISION_HINT=f32"], replay=True
    )
    assert found.verdict in ("rounding", "identical")
    (unit,) = found.units
    assert unit.operators == ["Conv", "BatchNormalization", "Relu"]
    assert unit.problem == "conv3d x=1x2x4x4x4 w=4x2x3x3x3 padding=1 dtype=float32"
    assert [s.replayed for s in found.sides if not s.failure] == [1] * sum(1 for s in found.sides if not s.failure)


def test_a_module_left_in_training_mode_is_said_to_be(file):
    found = compare_model(f"{file}:training", ["torch", "onnxruntime"], attributes=False)
    assert found.verdict in ("rounding", "identical")
    assert any("training mode" in e.says for e in found.evidence)


def test_an_exported_program_runs_too(file, tmp_path):
    torch = pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location("mine_again", file)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    net, x = loaded.net()
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(net, (x,)), path)
    found = compare_model(path, ["torch", "onnxruntime"])
    assert found.verdict in ("rounding", "identical")


def test_what_is_no_model_is_said_in_a_line(file):
    for name in ("nothing", "missing"):
        with pytest.raises(ModelError) as raised:
            compare_model(f"{file}:{name}", ["torch"])
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize("function", ["nested", "by_name", "with_a_number"])
def test_inputs_by_name_numbers_among_them_and_nested_results(file, function):
    found = compare_model(f"{file}:{function}", ["torch", "onnxruntime"])
    assert found.verdict in ("rounding", "identical")
    assert [s.failure for s in found.sides] == [None, None]
    assert len(found.outputs) == 3


@pytest.mark.parametrize(("function", "says"), [("an_int", "int"), ("complex_numbers", "complex numbers")])
def test_results_that_onnx_does_not_have_are_named(file, function, says):
    with pytest.raises(ModelError, match=f"returns {says}"):
        compare_model(f"{file}:{function}", ["torch", "onnxruntime"])


def test_results_of_a_class_that_nothing_exports_are_left_out_and_said_to_be(file):
    found = compare_model(f"{file}:keeping", ["torch", "onnxruntime"])
    assert found.verdict in ("rounding", "identical")
    assert len(found.outputs) == 1
    assert any("returns as Kept is left out" in e.says for e in found.evidence)


def test_an_interrupt_leaves_no_exported_program_behind(file, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    # In the background of a script interrupts are ignored, and stay so.
    command = ["env", "--default-signal=INT", sys.executable, "-m", "samebits", "compare", f"{file}:net"]
    command += ["--on", "torch", "--on", "onnxruntime"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as process:
        ends = time.monotonic() + 60
        while not list(temporary.glob("samebits-*/program.pt2")) and time.monotonic() < ends:
            time.sleep(0.05)
        assert list(temporary.glob("samebits-*/program.pt2"))
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 2
    assert said.endswith(b"samebits: interrupted\n")
    assert not list(temporary.glob("samebits-*"))
