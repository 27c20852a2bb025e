"""Scripts of faults: right where the engine is, wrong where it is not; and oneDNN's lines."""

import subprocess
import sys

import numpy as np
import pytest

from samebits.engines.registry.runner_text import parse_runner_text
from samebits.engines.runner import Identity
from samebits.errors import ProblemTextError
from samebits.problems import parse_problem_text
from samebits.problems.languages.any_language import read_problem
from samebits.problems.operands import make_exact, make_normal
from samebits.questions.reduce.parameters import take_apart
from samebits.questions.reduce.scripts.benchdnn_line import write_benchdnn
from samebits.questions.reduce.scripts.engine_script import run_script, write_script

IDENTITY = Identity("engine", "engine", "1.0", "CPU")
FORWARD = [
    "conv1d x=2x4x11 w=6x2x3 bias stride=2 padding=1:0 dilation=2 groups=2",
    "conv2d x=2x3x8x8 w=4x3x3x2 stride=2x1 padding=1:2x0:1 then=relu",
    "conv3d x=1x2x5x4x6 w=3x2x2x3x2 padding=1 then=clip(-3,5)",
    "linear x=5x7 w=3x7 bias",
    "linear x=2x5x7 w=3x7 bias then=relu",
    "matmul x=2x4x5 w=2x5x3",
]
TRANSPOSED = [
    "conv_transpose1d x=2x3x5 w=3x4x3 bias stride=2 padding=1 output_padding=1",
    "conv_transpose2d x=1x4x4x5 w=4x2x3x3 stride=2x1 padding=1x0 groups=2",
]
BACKWARD = [
    "conv2d.grad_weight x=2x3x9x8 w=4x3x3x2 stride=2x1 padding=1x0",
    "conv2d.grad_input x=2x3x9x8 w=4x3x3x2 stride=2x1 padding=1x0",
    "linear.grad_weight x=2x5x7 w=3x7",
    "linear.grad_input x=5x7 w=3x7",
]
PROBLEMS = {
    "torch": FORWARD + TRANSPOSED + BACKWARD,
    "jax": FORWARD + TRANSPOSED + BACKWARD,
    "tensorflow": FORWARD + TRANSPOSED[:1] + BACKWARD,
    "onnxruntime": FORWARD + TRANSPOSED,
    "openvino": FORWARD + TRANSPOSED,
    "numpy": FORWARD[3:],
}


def write(text, engine, data="integers", problem=None, fault="wrong", calls=1):
    problem = problem or parse_problem_text(text)
    operands = make_exact(problem, 0) if data == "integers" else make_normal(problem, 0)
    return write_script(problem, operands, parse_runner_text(engine), IDENTITY, fault, data=data, calls=calls)


@pytest.mark.parametrize("engine", [pytest.param(e, marks=pytest.mark.needs(e)) for e in PROBLEMS])
def test_scripts_find_nothing_wrong_with_an_engine_that_is_right(engine):
    """All in one process, as each starts an engine."""
    settings = ":INFERENCE_PRECISION_HINT=f32" if engine == "openvino" else ""
    scripts = [write(text, engine + settings, data) for text in PROBLEMS[engine] for data in ("integers", "normal")]
    # One of each direction that calls again and again, as for a fault that comes and goes.
    often = {text.split()[0].partition(".")[2]: text for text in PROBLEMS[engine]}.values()
    scripts += [write(t, engine + settings, data, calls=3) for t in often for data in ("integers", "normal")]
    assert not any("samebits." in script for script in scripts)
    runs = "\n".join(f"exec(compile({script!r}, 'script {i}', 'exec'), {{}})" for i, script in enumerate(scripts))
    done = subprocess.run([sys.executable, "-c", runs], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("expected") == len(scripts)


@pytest.mark.needs("jax")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_drawn_operands_are_those_of_the_format(dtype):
    script = write(f"matmul x=40x40 w=40x40 dtype={dtype} out=float32", "jax", "normal")
    assert "default_rng" in script
    assert run_script(script, "wrong", None, 100) == (False, "the script found nothing wrong")


@pytest.mark.parametrize("data", ["integers", "normal"])
def test_a_script_fails_where_the_result_is_another(data):
    script = write("matmul x=4x5 w=5x3", "numpy", data)
    assert run_script(script, "wrong", None, 60)[0] is False
    broken = script.replace("result = np.matmul(x, w)", "result = np.matmul(x, w) * np.float32(1.001) + 1")
    assert broken != script
    shows, last = run_script(broken, "wrong", None, 60)
    assert shows
    assert "AssertionError" in last


@pytest.mark.parametrize("data", ["integers", "normal"])
def test_a_script_that_calls_often_says_how_often_it_is_wrong(data):
    script = write("matmul x=4x5 w=5x3", "numpy", data, calls=12)
    assert run_script(script, "wrong", None, 60)[0] is False
    seldom = "result = np.matmul(x, w)\n    made = globals().get('made', 0) + 1\n    result[0, 2] += made % 4 == 3"
    shows, last = run_script(script.replace("result = np.matmul(x, w)", seldom), "wrong", None, 60)
    assert shows
    assert last == "AssertionError: 3 of 12 calls are wrong, the first at [[0, 2]]"


def test_a_script_that_fails_in_another_way_is_no_proof():
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    assert run_script("import a_module_that_is_not_there", "wrong", None, 60)[0] is False
    assert run_script("assert False", "wrong", None, 60)[0] is False
    assert run_script("pass", "wrong", "/no/such/python", 60)[0] is None
    assert run_script(killed, "crash", None, 60)[0] is True
    assert run_script(killed, "wrong", None, 60)[0] is False
    assert run_script("raise RuntimeError", "error", None, 60)[0] is True
    assert run_script("import time; time.sleep(60)", "timeout", None, 1)[0] is True
    assert run_script("import time; time.sleep(60)", "wrong", None, 1)[0] is None


def test_what_a_version_says_stays_a_comment():
    problem = parse_problem_text("matmul x=2x3 w=3x2")
    hostile = Identity("numpy", "numpy", '1"""\nraise SystemExit(7)\n"""', "CPU")
    script = write_script(
        problem, make_exact(problem, 0), parse_runner_text("numpy"), hostile, "wrong", data="integers"
    )
    assert run_script(script, "wrong", None, 60)[0] is False


@pytest.mark.needs("torch")
def test_settings_and_variables_stand_in_the_script():
    script = write("conv2d x=1x3x9x8 w=4x3x3x2", "torch:threads=1,mkldnn=off,env.ATEN_CPU_CAPABILITY=default")
    assert "torch.set_num_threads(1)" in script
    assert "torch.backends.mkldnn.enabled = False" in script
    assert script.index("os.environ['ATEN_CPU_CAPABILITY'] = 'default'") < script.index("import torch")
    assert run_script(script, "wrong", None, 100)[0] is False


OWN = """
import numpy as np

def right(problem, operands):
    assert all(array.dtype == operands["x"].dtype for array in operands.values())
    return (operands["x"].astype(np.float64) @ operands["w"].T.astype(np.float64)).astype(operands["x"].dtype)

def one_off(problem, operands):
    result = right(problem, operands)
    result[-1, -1] += 1
    return result

class Engine:
    settings = {}

    def load(self, settings):
        self.compute = right

    def run(self, problem, operands):
        return self.compute(problem, operands)
"""


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("name", "fails"), [("right", False), ("Engine", False), ("one_off", True)])
def test_the_script_of_a_kernel_in_a_file_calls_it_there(tmp_path, name, fails, dtype):
    (tmp_path / "own.py").write_text(OWN)
    script = write(f"linear x=3x5 w=2x5 dtype={dtype}", f"{tmp_path}/own.py:{name}")
    reproduced, last = run_script(script, "wrong", None, 60)
    assert reproduced is fails
    assert last.startswith("AssertionError: 1 of 6 differ, first at [[2, 1]]" if fails else "the script found nothing")


def test_many_operands_are_drawn_and_not_written_out():
    problem = parse_problem_text("linear x=64x64 w=32x64 bias")
    script = write("", "numpy", "normal", problem)
    assert len(script) < 4000
    made: dict[str, object] = {}
    lines = script.split("\n\n\n")[0].replace("import numpy as np", "")
    exec(compile(lines, "script", "exec"), {"np": np}, made)
    for name, array in make_normal(problem, 0).items():
        assert np.array_equal(made[name], array)


@pytest.mark.parametrize("text", FORWARD[:3] + TRANSPOSED + BACKWARD[:2])
def test_a_line_for_benchdnn_is_read_as_the_same_problem(text):
    problem = parse_problem_text(text)
    line = write_benchdnn(problem)
    read = read_problem(line)
    assert take_apart(read) == take_apart(problem)
    assert (read.direction, read.then, read.dtype) == (problem.direction, problem.then, problem.dtype)


def test_lines_of_products():
    assert write_benchdnn(parse_problem_text("matmul x=2x4x5 w=2x5x3")) == "--matmul 2x4x5:2x5x3"
    line = write_benchdnn(parse_problem_text("linear x=5x7 w=3x7 bias dtype=bfloat16"))
    assert line == "--matmul --dt=bf16 --bia-dt=f32 --wtag=ba 5x7:7x3"
    read = read_problem(line)
    assert (read.kind, read.x, read.w, read.bias) == ("linear", (5, 7), (3, 7), True)
    assert write_benchdnn(parse_problem_text("linear.grad_weight x=5x7 w=3x7")) is None
    with pytest.raises(ProblemTextError):
        read_problem("--matmul 5x7")
