"""The command line: what is printed where, and the exit status."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from samebits.cli import main
from samebits.findings import Comparison, finding_from_json
from samebits.problems import parse_problem_text
from samebits.problems.case_file import save_case
from samebits.problems.operands import make_normal
from samebits.questions.doctor.inventory_schema import Inventory
from samebits.sums.truth import compute_truth

ROOT = Path(__file__).parent.parent.parent
TEXT = "conv2d x=1x3x8x8 w=4x3x3x3"


def run(capsys, *arguments):
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def make_case(path, **results):
    problem = parse_problem_text(TEXT)
    operands = make_normal(problem)
    true = compute_truth(problem, operands).values
    save_case(path, problem, operands, {name: spoil(true.copy()) for name, spoil in results.items()})
    return str(path)


def test_agreement_exits_with_0(capsys):
    status, out, _ = run(capsys, "compare", TEXT, "--on", "truth", "--on", "onnxruntime")
    assert status == 0
    assert out.startswith(f"{TEXT} dtype=float32")
    assert re.search(r"^(IDENTICAL|ROUNDING)", out, re.MULTILINE)


def test_a_problem_needs_no_quotes(capsys):
    assert run(capsys, "compare", *TEXT.split(), "--on", "truth")[0] == 0


def test_disagreement_exits_with_1(capsys, tmp_path):
    path = make_case(tmp_path / "c.npz", good=lambda y: y, bad=lambda y: y + np.float32(1))
    status, out, _ = run(capsys, "compare", path)
    assert status == 1
    assert "WRONG" in out
    assert "bad (recorded)" in out


def test_json_is_the_whole_of_standard_output(capsys):
    status, out, _ = run(capsys, "compare", TEXT, "--on", "truth", "--json")
    found = finding_from_json(out, Comparison)
    assert status == 0
    assert found.schema == "samebits.comparison/1"
    required = {"problem", "verdict", "cause", "summary", "sides", "fixes"}
    assert required <= json.loads(out).keys()
    side = {"name", "engine", "verdict", "cause", "recipe", "replay", "error", "evidence"}
    assert side <= json.loads(out)["sides"][0].keys()
    assert json.loads(out)["sides"][0]["error"].keys() >= {"max_abs", "max_ulp", "rel_l2", "max_over_bound"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("compare", "conv2d x=1x3x8x8 w=4x3x3xq"), "column 26"),
        (("compare", "conv2d x=1x3x8x8 w=4x2x3x3"), "3 channels"),
        (("compare", TEXT, "--on", "torhc"), "did you mean torch"),
        (("compare", TEXT, "--on", "torch:thread=1"), "did you mean threads"),
        (("compare", "none.npz", "--on", "truth"), "does not exist"),
        (("compare", "conv2d x=1x3x99999x99999 w=64x3x3x3", "--on", "truth"), "GiB"),
        (("compare", TEXT, "--seed", "x"), "--seed"),
        (("compare", TEXT, "--data", "nonsense"), "nonsense"),
        (("compare",), "Missing argument"),
        (("frobnicate",), "No such command"),
        (("compare", "a" * 300), "unknown kind"),
        (("compare", "a" * 100_000), "unknown kind"),
        (("compare", TEXT, "--time-limit", "inf"), "time-limit"),
        (("compare", TEXT, "--on", "torch:threads=999999"), "1 to 1024"),
        (("compare", TEXT, "--frobnicate"), "No such option: --frobnicate"),
        (("compare", TEXT, "-o", "x.html"), "No such option: -o; a page is made of findings"),
        (("compare", TEXT, "--rtol", "1e-3"), "No such option: --rtol; no tolerance is given"),
        (("compare", TEXT, "--engine=torch"), "No such option: --engine; engines are named with --on"),
        (("compare", TEXT, "--batch", "4"), "--size batch=4"),
        (("sweep", TEXT, "-o"), "requires an argument"),
    ],
)
def test_trouble_is_one_line_on_standard_error_and_status_2(capsys, arguments, says):
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert says in err
    assert re.fullmatch(r"samebits: [^\n]+\n", err)


@pytest.mark.needs("tensorflow")
def test_an_engine_that_fails_alone_is_trouble_and_the_others_are_shown(capsys, tmp_path):
    """An engine killed by its time limit: its own column says so, the others stand, the status is 2."""
    status, out, err = run(capsys, "compare", TEXT, "--on", "truth", "--on", "tensorflow", "--time-limit", "0.1")
    assert status == 2
    assert "timeout" in out
    assert "identical" in out
    assert re.search(r"^samebits: tensorflow timeout: gave no answer in 0\.1 s", err, re.MULTILINE)


def test_an_unsupported_problem_is_no_trouble_while_others_run(capsys):
    status, out, _ = run(capsys, "compare", "conv1d.grad_input x=1x1x7 w=1x1x3", "--on", "truth", "--on", "onnxruntime")
    assert status == 0
    assert "unsupported" in out


def test_doctor_lists_engines_and_settings(capsys):
    status, out, _ = run(capsys, "doctor", "--json")
    assert status == 0
    found = finding_from_json(out, Inventory)
    assert [e.name for e in found.engines] == [
        "onnxruntime",
        "torch",
        "tensorflow",
        "jax",
        "openvino",
        "litert",
        "ncnn",
        "mnn",
        "opencv",
        "tract",
        "tvm",
        "iree",
        "mlx",
        "tinygrad",
        "numpy",
        "cudnn",
    ]
    assert run(capsys, "doctor")[1].startswith("samebits")


def test_doctor_says_how_to_get_a_missing_engine(capsys, monkeypatch):
    monkeypatch.setattr("samebits.engines.registry.known_engines.EngineSpec.find_version", lambda self: None)
    _, out, _ = run(capsys, "doctor")
    assert "pip install openvino" in out


def test_a_set_variable_is_shown_in_force(capsys, monkeypatch):
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    found = finding_from_json(run(capsys, "doctor", "--json")[1], Inventory)
    torch = next(e for e in found.engines if e.name == "torch")
    assert [(v.name, v.value, v.origin) for v in torch.variables] == [("ONEDNN_MAX_CPU_ISA", "AVX2", "environment")]


def test_progress_goes_to_standard_error_and_a_closed_pipe_is_no_traceback():
    command = f"{sys.executable} -m samebits compare {TEXT} --on truth | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"})
    assert done.stdout.startswith("conv2d")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_four_languages_of_problems_are_accepted(capsys):
    long_line = (
        "%custom-call.20 = (f16[1,5,24,24]{2,1,0,3}, u8[0]{0}) custom-call(f16[3778,1,50,24]{3,2,1,0} %bitcast.237, "
        "f16[3778,1,10,24]{3,2,1,0} %arg45.46), window={size=1x5 stride=1x5}, dim_labels=b01f_01io->b01f, "
        'custom_call_target="__cudnn$convBackwardFilter", metadata={op_type="Conv2DBackpropFilter"}'
    )
    assert run(capsys, "compare", long_line, "--on", "truth")[0] == 0
    texts = [
        "g1mb1ic3ih8oc4oh6kh3ph0n",
        "--conv --dir=FWD_D g1mb1ic3ih8oc4oh6kh3ph0n",
        "MIOpenDriver conv -n 1 -c 3 -H 8 -W 8 -k 4 -y 3 -x 3 -p 0 -q 0",
        "%c = f32[1,4,6,6] convolution(f32[1,3,8,8] %x, f32[4,3,3,3] %w), "
        "window={size=3x3}, dim_labels=bf01_oi01->bf01",
    ]
    for text in texts:
        status, out, _ = run(capsys, "compare", text, "--on", "truth")
        assert status == 0
        assert out.startswith(f"{TEXT} ")


def test_names_that_look_like_markup_are_shown_as_they_are(capsys, tmp_path):
    problem = parse_problem_text(TEXT)
    operands = make_normal(problem)
    save_case(tmp_path / "c.npz", problem, operands, {"[bold]x[/nope]": compute_truth(problem, operands).values})
    status, out, _ = run(capsys, "compare", str(tmp_path / "c.npz"))
    assert status == 0
    assert "[bold]x[/nope]" in out


# A small answer fits into the buffer, and is written at the end of the program only.
@pytest.mark.parametrize("command", ["compare CASE --on truth", "compare CASE --on truth --json", "doctor", "--help"])
@pytest.mark.parametrize(
    ("redirect", "says"),
    [
        ("| true", "output could not be written: Broken pipe"),
        ("> /dev/full", "output could not be written: No space left on device"),
        (">&-", "output could not be written: standard output is closed"),
        ("2>&- >&-", ""),
        ("2> /dev/full > /dev/full", ""),
    ],
)
def test_output_that_cannot_be_written_is_trouble_in_one_line(command, redirect, says):
    line = f"set -o pipefail; {sys.executable} -m samebits {command.replace('CASE', TEXT)} {redirect}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    # A line that ends so tells of progress, where a busy machine takes more than a second.
    told = [line for line in done.stderr.splitlines() if not line.endswith(" ...")]
    assert told == ([f"samebits: {says}"] if says else [])
    assert done.returncode == 2


@pytest.mark.parametrize("redirect", ["2>&-", "2> /dev/full"])
@pytest.mark.parametrize(
    ("command", "status"), [("compare CASE --on truth", 0), ("explain nothing.npz", 2), ("compare nonsense", 2)]
)
def test_a_standard_error_that_cannot_be_written_changes_nothing(command, status, redirect):
    line = f"{sys.executable} -m samebits {command.replace('CASE', TEXT)} {redirect}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    assert done.returncode == status
    assert bool(done.stdout) == (status == 0)


def test_progress_that_cannot_be_written_changes_nothing(monkeypatch, capsys):
    """Every report is shown at once, and the stream is full."""
    full = open("/dev/full", "w")  # noqa: SIM115  (closed below)
    monkeypatch.setattr(sys, "stderr", full)
    monkeypatch.setattr("samebits.display.narrator.QUIET_S", 0.0)
    assert main(["compare", TEXT, "--on", "truth"]) == 0
    full.close()
    assert capsys.readouterr().out.startswith("conv2d")


def _read_all(pattern):
    found = []
    for file in Path("/proc").glob(pattern):
        with contextlib.suppress(OSError):
            found.append(file.read_text().strip())
    return found


def _list_children(process_id):
    return [int(word) for text in _read_all(f"{process_id}/task/*/children") for word in text.split()]


def _waits_for_interrupts(process_id):
    """The thread that waits for them is the first one that the program starts."""
    return len(_read_all(f"{process_id}/task/*/comm")) > 1


def _used_processor_s(process_id):
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _is_running(process_id):
    with contextlib.suppress(OSError):
        return " Z " not in Path(f"/proc/{process_id}/stat").read_text()
    return False


needs_proc = pytest.mark.skipif(
    not [*Path("/proc/self/task").glob("*/children")], reason="needs /proc to see the worker"
)


def start_program(*arguments):
    # Whoever runs the tests in the background of a script has them ignore interrupts, and so their children. (No
    # preexec_fn: it forks this process, in which there are threads, and jax warns of that where it was imported.)
    command = ["env", "--default-signal=INT", sys.executable, "-m", "samebits", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)


def interrupt(process):
    """Interrupts the program alone, as `kill -INT` does; what it said, and how long it took to end."""
    begun = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    return err.splitlines(), time.monotonic() - begun


@pytest.mark.needs("tensorflow")
@needs_proc
def test_an_interrupt_is_one_line_and_leaves_no_worker():
    # Its worker imports for seconds; before there is one, the command itself may still be importing.
    process = start_program("compare", TEXT, "--on", "tensorflow")
    deadline = time.monotonic() + 60
    while not (workers := _list_children(process.pid)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    lines, took = interrupt(process)
    assert process.returncode == 2
    assert lines[-1] == "samebits: interrupted"
    assert not any("Traceback" in line for line in lines)
    assert took < 2
    deadline = time.monotonic() + 10
    while any(_is_running(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_is_running(worker) for worker in workers)


@needs_proc
def test_an_interrupt_does_not_wait_for_compiled_code():
    # The truth of this takes minutes, all of it in compiled code: 2,000,000 terms for each of 400,000 outputs. (With
    # larger operands single calls of NumPy, before it, hold the interpreter for seconds on a busy machine.)
    process = start_program("compare", "conv1d x=1x4x600000 w=4x4x500000 dtype=float64", "--on", "truth")
    deadline = time.monotonic() + 60
    while not _waits_for_interrupts(process.pid) or _used_processor_s(process.pid) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    lines, took = interrupt(process)
    assert process.returncode == 2
    assert lines[-1] == "samebits: interrupted"
    assert took < 2


def test_an_interrupt_while_modules_are_imported_is_one_line():
    """The handler stands before the first import of ours that takes time: no traceback at any moment after."""
    for share in range(8):
        process = start_program("compare", TEXT, "--on", "truth")
        deadline = time.monotonic() + 60
        while not _waits_for_interrupts(process.pid):
            assert time.monotonic() < deadline
        time.sleep(share * 0.05)
        lines, took = interrupt(process)
        told = [line for line in lines if not line.endswith(" ...")]
        assert (process.returncode, told) in [(2, ["samebits: interrupted"]), (0, [])]
        assert took < 2
