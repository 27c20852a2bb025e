"""Engines that installed packages bring, ONNX backends, provider libraries: as any engine is; and what breaks."""

import json
import os
import subprocess
import sys
import zipfile
from typing import ClassVar

import numpy as np
import pytest

import samebits
from samebits.engine import Engine, InForce, Setting
from samebits.engines.registry.runner_text import refuse_text_of_file
from samebits.errors import EngineUnsupported, RunnerTextError
from samebits.testing import engine_conformance

PACKAGE = """
import numpy as np
from samebits.engine import Engine, Setting


class Mine(Engine):
    version = "7.5"
    settings = {"skip": Setting("terms that are left out", is_number=True)}

    def run(self, problem, operands):
        x = operands["x"].copy()
        x[..., : int(self.given.get("skip", 0))] = 0
        return x @ operands["w"]


def kernel(problem, operands):
    return np.einsum("mk,kn->mn", operands["x"], operands["w"])


def broken(problem, operands):
    return 1 / 0
"""
BACKEND = """
import numpy
from onnx.reference import ReferenceEvaluator


class Prepared:
    def __init__(self, model):
        self.evaluator = ReferenceEvaluator(model)
        self.names = [one.name for one in model.graph.input]

    def run(self, inputs):
        return self.evaluator.run(None, dict(zip(self.names, inputs)))


def prepare(model, device):
    return Prepared(model)


def supports_device(device):
    return device == "CPU"
"""
POINTS = """[samebits.engines]
mine = mine_package:Mine
mine_kernel = mine_package:kernel
mine_broken = mine_package:broken
mine_missing = mine_package:missing
mine_unread = mine_package.unread:Engine
torch = mine_package:Mine
mine:colon = mine_package:Mine
"""
PROBLEM = "matmul x=3x8 w=8x4"


def make_wheel(folder, name, version, files, points):
    """A wheel as pip takes it: modules, and the entry points that they bring."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": points,
    }
    files[f"{info}/RECORD"] = "".join(f"{one},,\n" for one in files) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(path, "w") as wheel:
        for one, text in files.items():
            wheel.writestr(one, text)
    return path


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder into which pip installed two packages; both bring an engine `shared`."""
    folder = tmp_path_factory.mktemp("wheels")
    files = {"mine_package/__init__.py": PACKAGE, "mine_package/unread.py": "import a_module_that_is_not_there\n"}
    shared = "shared = mine_package:kernel\n"
    wheels = [
        make_wheel(folder, "mine_package", "0.3", {**files, "mine_backend.py": BACKEND}, POINTS + shared),
        make_wheel(folder, "other_package", "1.1", {"other_package.py": ""}, f"[samebits.engines]\n{shared}"),
    ]
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", folder / "at", *wheels]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "at"


def run(installed, *words):
    paths = [str(installed), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "samebits", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def test_doctor_lists_what_packages_bring_and_what_is_wrong_with_it(installed):
    done = run(installed, "doctor", "--json")
    assert done.returncode == 0, done.stderr
    found = {(one["text"], one["brought_by"]): one for one in json.loads(done.stdout)["plugins"]}
    own, other = "mine_package 0.3", "other_package 1.1"
    assert (found["mine", own]["version"], found["mine", own]["failure"]) == ("7.5", None)
    assert found["mine_kernel", own]["failure"] is None
    assert "mine_package defines no missing" in found["mine_missing", own]["failure"]
    assert "unread.py:1: ModuleNotFoundError" in found["mine_unread", own]["failure"]
    assert "samebits has an engine of that name" in found["torch", own]["failure"]
    assert f"{other} brings an engine of that name, too" in found["shared", own]["failure"]
    assert f"{own} brings an engine of that name, too" in found["shared", other]["failure"]
    assert "'colon' is no key=value" in found["mine:colon", own]["failure"]
    printed = run(installed, "doctor").stdout
    assert "of mine_package 0.3: 7.5 on CPU" in printed


def test_they_are_judged_as_any_engine_is(installed):
    on = [word for name in ("mine", "mine:skip=1", "mine_kernel", "mine_broken") for word in ("--on", name)]
    done = run(installed, "compare", PROBLEM, *on, "--json")
    sides = json.loads(done.stdout)["sides"]
    assert [side["verdict"] for side in sides][1:] == ["wrong", "rounding", "undecided"]
    assert sides[0]["verdict"] in ("identical", "rounding")
    assert "__init__.py:21: ZeroDivisionError" in sides[3]["failure"]["says"]
    assert done.returncode == 1
    profiled = run(installed, "profile", "mine", PROBLEM, "--json")
    assert json.loads(profiled.stdout)["replay"]["matched"] == 1.0
    swept = run(installed, "sweep", "matmul x={1,2}x8 w=8x4", "--on", "mine:skip=2", "--json")
    assert json.loads(swept.stdout)["engine"] == "mine:skip=2"


def test_a_name_that_two_packages_bring_names_both(installed):
    done = run(installed, "compare", PROBLEM, "--on", "shared")
    assert done.returncode == 2
    assert done.stderr == "samebits: engine shared is brought by mine_package 0.3 and by other_package 1.1\n"
    done = run(installed, "compare", PROBLEM, "--on", "min")
    assert "did you mean mine?" in done.stderr


LOGS = """
from samebits.log import Metrics, Mismatch


def read(lines):
    for number, line in enumerate(lines, 1):
        if line.startswith("MYTOOL max diff "):
            yield Mismatch(line=number, names=("mine", "theirs"), metrics=Metrics(max_abs=float(line.split()[-1])))


def broken(lines):
    return [1 / 0]


def odd(lines):
    return ["no mismatch"]
"""


def test_a_log_of_another_tool_is_read_by_the_reader_that_a_package_brings(tmp_path):
    points = "[samebits.logs]\nmytool = my_logs:read\nbroken = my_logs:broken\nodd = my_logs:odd\nnone = my_logs:none\n"
    wheel = make_wheel(tmp_path, "my_logs", "2.0", {"my_logs.py": LOGS}, points)
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", tmp_path / "at", wheel]
    assert subprocess.run(command, capture_output=True).returncode == 0
    log = tmp_path / "run.log"
    log.write_text("linear x=64x512 w=256x512\nMYTOOL max diff 0.0131\n")
    done = run(tmp_path / "at", "explain", str(log), "--json")
    found = json.loads(done.stdout)

    assert (found["line"], [side["name"] for side in found["sides"]]) == (2, ["mine", "theirs"])
    assert found["problem"].startswith("linear x=64x512 w=256x512")
    same = tmp_path / "same.log"
    largest = "Max absolute difference among violations: 0.0131"
    same.write_text(f"linear x=64x512 w=256x512\nMismatched elements: 1 / 16384 (0.0%)\n{largest}\n")
    shown = json.loads(run(tmp_path / "at", "explain", str(same), "--json").stdout)
    assert (found["verdict"], found["cause"]) == (shown["verdict"], shown["cause"])
    said = done.stderr.splitlines()
    assert "samebits: the log reader broken of my_logs 2.0 failed: ZeroDivisionError: division by zero" in said
    assert any("odd of my_logs 2.0 failed: it gave a str, where samebits.log.Mismatch is asked for" in s for s in said)
    log.write_text("nothing here\n")
    done = run(tmp_path / "at", "explain", str(log))
    assert done.returncode == 2
    assert "what installed packages read (broken, mytool, none, odd)" in done.stderr
    readers = json.loads(run(tmp_path / "at", "doctor", "--json").stdout)["log_readers"]
    assert {one["name"]: bool(one["failure"]) for one in readers} == {
        "broken": False, "mytool": False, "none": True, "odd": False
    }  # fmt: skip


def test_a_backend_of_onnx_computes_problems_and_networks(installed, tmp_path):
    done = run(installed, "compare", "linear x=4x64 w=8x64 bias", "--on", "onnx-backend:mine_backend", "--json")
    assert done.returncode == 0, done.stderr
    (side,) = json.loads(done.stdout)["sides"]
    # NumPy computes in ONNX's reference.
    assert (side["verdict"], side["version"], side["exact_data"]["differing"]) == ("rounding", "0.3", 0)
    refused = run(installed, "compare", PROBLEM, "--on", "onnx-backend:mine_backend:device=CUDA", "--json")
    assert "does not support the device CUDA" in json.loads(refused.stdout)["sides"][0]["failure"]["says"]


def save_network(path):
    import onnx

    weights = onnx.numpy_helper.from_array(np.arange(24, dtype=np.float32).reshape(4, 6) / 7, "w")
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["m"]), onnx.helper.make_node("Relu", ["m"], ["y"])]
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in (("x", [2, 4]), ("y", [2, 6])))
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], [weights])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.needs("onnxruntime")
def test_a_published_backend_is_the_engine_behind_it(tmp_path):
    """ONNX Runtime speaks the interface, too: the same bits as by its own calls."""
    ours, backend = "onnxruntime", "onnx-backend:onnxruntime.backend"
    found = samebits.compare("conv2d x=1x3x9x9 w=4x3x3x3 bias padding=1 then=relu", [ours, backend], attributes=False)
    assert found.sides[0].bits == found.sides[1].bits
    save_network(tmp_path / "net.onnx")
    network = samebits.compare(tmp_path / "net.onnx", [ours, backend])
    assert [side.failure for side in network.sides] == [None, None]
    assert network.verdict in ("identical", "rounding")


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("json", "json has no prepare(model, device)"),
    ],
)
def test_a_module_that_is_no_backend_costs_its_own_row(module, says):
    found = samebits.compare(PROBLEM, [f"onnx-backend:{module}", "numpy"], attributes=False)
    assert says in found.sides[0].failure.says
    assert found.sides[1].failure is None


@pytest.mark.needs("onnxruntime")
def test_providers_of_onnxruntime(tmp_path):
    (tmp_path / "none.so").write_bytes(b"no library")
    texts = [
        "onnxruntime",
        "onnxruntime:provider=CPUExecutionProvider",
        "onnxruntime:provider=NoSuchProvider",
        f"onnxruntime:provider=Mine,library={tmp_path / 'none.so'}",
        f"onnxruntime:library={tmp_path / 'none.so'}",
    ]
    sides = samebits.compare("linear x=4x64 w=8x64", texts, attributes=False).sides
    assert sides[0].bits == sides[1].bits
    assert sides[1].settings["provider"] == "CPUExecutionProvider"
    assert "onnxruntime has no NoSuchProvider here; it has:" in sides[2].failure.says
    assert "none.so" in sides[3].failure.says
    assert "name it with provider=" in sides[4].failure.says


def test_a_file_that_somebody_sends_chooses_no_code():
    for text in ("onnx-backend:os", "onnxruntime:library=/evil.so,provider=P"):
        assert "only a person chooses" in refuse_text_of_file(text, ["numpy"], "a.lock")
    assert refuse_text_of_file("onnxruntime:threads=1,provider=P", [], "a.lock") is None
    with pytest.raises(RunnerTextError):
        refuse_text_of_file("onnx-backend:", [], "a.lock")


class Sound(Engine):
    version = "1"

    def explain_unsupported(self, problem):
        return None if problem.kind == "matmul" else "products only"

    def run(self, problem, operands):
        return operands["x"] @ operands["w"]


class Transposed(Sound):
    def run(self, problem, operands):
        return super().run(problem, operands).T


class Careless(Sound):
    def run(self, problem, operands):
        operands["x"][...] = 0
        return super().run(problem, operands)


class Doubling(Sound):
    def run(self, problem, operands):
        return super().run(problem, operands).astype(np.float64)


class Short(Sound):
    def run(self, problem, operands):
        return operands["x"][:, 1:] @ operands["w"][1:]


class Mute(Sound):
    settings: ClassVar = {"python": Setting("x"), "fast": "yes"}

    def report(self):
        return "1.0"


class Picky(Sound):
    settings: ClassVar = {"mode": Setting("how", choices=("a", "b"))}

    def load(self, settings):
        if settings.get("mode") == "b":
            raise KeyError("b")

    def report(self):
        return InForce("1", "CPU", {})


class Nothing(Engine):
    def explain_unsupported(self, problem):
        return "not this one"

    def run(self, problem, operands):
        raise AssertionError("it refused all of them")


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        (Transposed, ["shape (4, 3) in place of (3, 4)"]),
        (Careless, ["raises ValueError: assignment destination is read-only"]),
        (Doubling, ["dtype float64 in place of float32"]),
        (Short, ["exact: "]),
        (Mute, ["settings['python']", "settings['fast']", "report() must return a samebits.engine.InForce, not str"]),
        (Picky, ["load({'mode': 'b'}) raises KeyError"]),
        (Nothing, ["computes none of the problems"]),
        (type("Idle", (), {}), ["has no run(problem, operands)"]),
        (type("Asking", (), {"__init__": lambda self, thing: None}), ["cannot be made without arguments"]),
    ],
)
def test_conformance_says_what_is_missing(engine, says):
    lines = engine_conformance(engine)
    assert len(lines) == len(says)
    for line, part in zip(lines, says, strict=True):
        assert part in line


def test_a_sound_engine_misses_nothing():
    assert engine_conformance(Sound) == []


@pytest.mark.parametrize(("refused", "said"), [("b", 0), ("a", 1)])
def test_a_choice_may_be_refused_and_the_default_may_not(refused, said):
    class Refusing(Sound):
        settings: ClassVar = {"mode": Setting("what it does", "a", ("a", "b"))}

        def load(self, settings):
            if settings.get("mode", "a") == refused:
                raise EngineUnsupported("mode needs a device that is not here")
            super().load(settings)

    lines = engine_conformance(Refusing)
    assert len(lines) == said
    assert all("load({})" in line for line in lines)


@pytest.mark.needs("torch")
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_an_engine_of_our_own_misses_nothing():
    from samebits.engines.adapters.torch import TorchEngine

    assert engine_conformance(TorchEngine) == []
