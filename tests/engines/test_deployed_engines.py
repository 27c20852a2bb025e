"""Engines that networks are deployed on: what they round and transform is named, and networks run on them whole."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import samebits
from needed_engines import each_engine, skip_without_engines
from networks.network_building import conv_clip, residual
from samebits.machine import list_processor_features
from samebits.networks.onnx_reading import make_network

DEPLOYED = ("ncnn", "mnn", "opencv", "tract", "tvm", "iree", "mlx", "tinygrad")
OF_THIS_PROCESSOR = ("opencv", "tract", "iree", "tinygrad", "ncnn:winograd=off")
READ_ONNX = ("mnn", "opencv", "tract", "tvm", "iree", "tinygrad")
CONVOLUTION = "conv2d x=1x16x14x14 w=16x16x3x3 bias padding=1"
PRODUCT = "linear x=8x64 w=32x64 bias"


# The engine is loaded where it is checked: in a process of its own. ncnn's narrow weights are what it is told to leave.
CONFORMANCE = """
import json, sys
from samebits.engines.registry.known_engines import ENGINES
from samebits.testing import engine_conformance

name = sys.argv[1]

class Wide(ENGINES[sys.argv[1]].load_class()):
    if name == "tvm":
        formats = ("float32", "float64")  # It adds products of float16 in float16, as it says.

    def load(self, settings):
        super().load({**({"fp16_storage": "off"} if self.name == "ncnn" else {}), **settings})

print("lacks", json.dumps(engine_conformance(Wide)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", each_engine(DEPLOYED))
def test_an_author_has_nothing_left_to_do(name):
    words = [sys.executable, "-c", CONFORMANCE, name]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    (said,) = [line for line in done.stdout.splitlines() if line.startswith("lacks ")]
    assert json.loads(said.removeprefix("lacks ")) == []


@pytest.mark.parametrize("name", each_engine(READ_ONNX))
def test_a_network_runs_whole_and_is_observed_unit_by_unit(name):
    # MNN 3.6.1 averages over whole planes wrongly, or ends with a corrupted heap.
    model, units = (conv_clip(), 1) if name == "mnn" else (residual(), 5)
    found = samebits.compare(make_network(model, "net"), [name], calls=2)
    # Its Winograd rounds more than a sum does.
    assert found.verdict in ("identical", "rounding", *(["undecided"] if name == "mnn" else [])), found.summary
    assert all(unit.sides for unit in found.units)
    assert len(found.units) == units
    assert not any("reads no ONNX" in e.says for e in found.evidence)


@pytest.mark.parametrize("name", each_engine(["ncnn", "mlx"]))
def test_of_a_network_the_others_compute_the_products(name):
    found = samebits.compare(make_network(residual(), "residual"), [name])
    assert found.verdict in ("identical", "rounding"), found.summary


@pytest.mark.parametrize(
    "name", each_engine(["opencv", "tract", "tvm", "iree", "mlx", "tinygrad", "ncnn:winograd=off"])
)
@pytest.mark.parametrize(
    "text", ["conv2d x=1x16x10x10 w=16x16x3x3 bias padding=1", "conv2d x=1x8x9x11 w=8x8x3x2 stride=2"]
)
def test_sums_are_replayed_to_the_last_bit(name, text):
    """Kernels for this processor were measured with AVX-512; other processors have others."""
    if name in OF_THIS_PROCESSOR and "avx512f" not in list_processor_features():
        pytest.skip("its kernels were measured with AVX-512 alone")
    found = samebits.profile(name, text)
    assert found.replay.is_whole, found.summary


@pytest.mark.needs("ncnn")
@pytest.mark.parametrize(("settings", "named"), [("", "w"), (",bf16_storage=on", "x and w")])
def test_narrow_storage_of_ncnn_is_named_and_replayed(settings, named):
    """Where the processor has no float16 conversions, ncnn stores nothing in it."""
    if not settings and "f16c" not in list_processor_features():
        pytest.skip("this processor converts no float16")
    found = samebits.compare(PRODUCT, [f"ncnn:winograd=off{settings}"])
    (side,) = found.sides
    format_ = "bfloat16" if settings else "float16"
    assert (side.verdict, side.cause) == ("downgrade", "reduced-precision-operands")
    assert f"rounds {named} to {format_} before it multiplies" in found.summary
    assert side.replay.is_whole


@pytest.mark.needs("ncnn")
def test_the_setting_that_ends_the_narrow_storage_is_found():
    found = samebits.compare(PRODUCT, ["ncnn", "numpy"], fix=True)
    if found.verdict == "rounding":
        pytest.skip("ncnn stores nothing in float16 on this processor")
    assert "fp16_storage=off" in {fix.setting for fix in found.fixes if fix.verified}


@pytest.mark.needs("ncnn")
def test_transforms_are_named():
    """On tiles of 6 outputs where it was measured; which tiles it takes may be the processor's."""
    name = "ncnn"
    found = samebits.compare(CONVOLUTION, [name])
    assert (found.sides[0].verdict, found.sides[0].cause) == ("rounding", "winograd")
    assert re.search(r"ncnn uses Winograd's transforms on tiles of [246] outputs \(inferred\)", found.summary)
    profile = samebits.profile(name, CONVOLUTION)
    assert profile.family == "winograd"
    assert "It multiplies transforms of tiles" in profile.summary
    plain = samebits.compare(CONVOLUTION, [f"{name}:winograd=off"])
    assert plain.sides[0].exact_data.differing == 0


@pytest.mark.parametrize("name", each_engine(DEPLOYED))
def test_no_file_is_left_where_the_command_runs(name, tmp_path):
    """Engines that read files alone get them in a folder that is removed."""
    words = [sys.executable, "-m", "samebits", "compare", "matmul x=3x8 w=8x4", "--on", name, "--quick"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["tmp"]
    assert not [p for p in (tmp_path / "tmp").iterdir() if p.name.startswith("samebits-")]


def test_mnn_is_asked_without_the_module_that_installs_packages():
    skip_without_engines(["mnn"])
    code = "import sys; from samebits.engines.adapters.mnn import MnnEngine; e = MnnEngine(); e.load({});"
    code += "import numpy as np; from samebits.problems import parse_problem_text as p;"
    code += "e.run(p('matmul x=3x8 w=8x4'), {'x': np.ones((3, 8), 'f4'), 'w': np.ones((8, 4), 'f4')});"
    code += "assert 'MNN.tools' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.needs("mlx")
@pytest.mark.parametrize("text", ["conv2d.grad_weight x=2x4x9x8 w=8x4x3x3 padding=1", "linear.grad_input x=5x7 w=3x7"])
def test_gradients_of_mlx_are_those_of_torch(text):
    skip_without_engines(["torch"])
    found = samebits.compare(text, ["mlx", "torch"], data="exact")
    assert found.verdict == "identical"
    assert np.all([s.verdict == "identical" for s in found.sides])
