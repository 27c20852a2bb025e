"""The operation that differed, captured as a case with both results."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import samebits
from samebits.cli import main
from samebits.problems import format_problem
from samebits.problems.case_file import load_case
from samebits.questions.runs.capturing import _restore_variables, capture_operation, write_command
from samebits.questions.runs.diff_schema import FirstDifference
from samebits.questions.runs.run_diff import diff
from samebits.questions.runs.run_reading import read_trace
from traced_runs import run_traced

pytestmark = pytest.mark.needs("torch")


def capture(record, tmp_path, *changes):
    target = tmp_path / "case.npz"
    found = diff(record(), record(*changes), capture=target, run=True)
    assert found.captured == str(target)
    return found, load_case(target)


def test_the_operation_that_differed_is_captured_with_both_results(record, tmp_path):
    found, case = capture(record, tmp_path, "mkldnn=off")
    assert format_problem(case.problem) == "conv2d x=8x3x8x8 w=8x3x3x3 bias padding=1 dtype=float32"
    assert sum("had the recorded bits" in e.says for e in found.evidence) == 2
    a, b = case.results["first run"], case.results["second run"]
    assert not np.array_equal(a, b)
    # Both are the convolution of these operands, computed here by another way.
    padded = np.pad(case.operands["x"].astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    exact = np.einsum("nchwij,ocij->nohw", windows, case.operands["w"]) + case.operands["bias"][None, :, None, None]
    terms = np.einsum("nchwij,ocij->nohw", np.abs(windows), np.abs(case.operands["w"])) + 1
    for result in (a, b):
        assert (np.abs(result - exact) <= 28 * 2.0**-24 * 1.01 * terms).all()
    explained = samebits.explain(tmp_path / "case.npz")
    assert explained.verdict == "rounding"
    assert [s.cause for s in explained.sides] == ["summation-order"] * 2


def test_commands_that_stand_in_traces_are_shown_and_not_run_unasked(record, tmp_path, capfd):
    """A trace is a file like any other: whoever wrote it chose its command."""
    a, b = record(), record("mkldnn=off")
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    assert main(["diff", str(a), str(b), "--capture", str(tmp_path / "case.npz"), "--json"]) == 1
    captured = capfd.readouterr()
    assert "--run runs them" in captured.out
    for which in ("first", "second"):
        (line,) = [x for x in captured.err.splitlines() if f"the {which} trace names this command: " in x]
        assert f"cd {os.getcwd()} && " in line
        assert sys.executable in line
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
    asked = []
    assert diff(a, b, capture=tmp_path / "case.npz", run=lambda commands: bool(asked.append(commands))).captured is None
    assert [len(commands) for commands in asked] == [2]
    assert main(["diff", str(a), str(b), "--capture", str(tmp_path / "case.npz"), "--run"]) == 1
    assert (tmp_path / "case.npz").exists()


def test_a_trace_sets_no_variables_but_those_that_are_recorded(record):
    (process,) = [p for p in read_trace(record()).processes.values() if p.operations][:1]
    process.settings[0] |= {"env LD_PRELOAD": "./evil.so", "env PATH": "/evil", "env MKL_CBWR": "COMPATIBLE; x"}
    assert "evil" not in write_command(process)
    assert "MKL_CBWR='COMPATIBLE; x'" in write_command(process)
    environment = _restore_variables(process)
    assert environment["MKL_CBWR"] == "COMPATIBLE; x"
    assert environment["PATH"] == os.environ["PATH"]
    assert environment.get("LD_PRELOAD") == os.environ.get("LD_PRELOAD")


def test_a_gradient_that_differed_is_captured(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\n"
        "torch.manual_seed(0)\n"
        "layer, x = torch.nn.Conv2d(16, 16, 3), torch.randn(4, 16, 20, 20)\n"
        "y = layer(x)\n"
        "torch.backends.mkldnn.enabled = sys.argv[1] == 'on'\n"
        "y.backward(torch.randn(y.shape))\n"
    )
    for way in ("on", "off"):
        assert run_traced(tmp_path / f"{way}.trace", sys.executable, str(script), way).returncode == 0
    found = diff(tmp_path / "on.trace", tmp_path / "off.trace", capture=tmp_path / "case.npz", run=True)
    assert found.first.operation == "aten.convolution_backward.default"
    case = load_case(tmp_path / "case.npz")
    assert format_problem(case.problem) == "conv2d.grad_weight x=4x16x20x20 w=16x16x3x3 dtype=float32"
    assert set(case.operands) == {"x", "dy"}
    assert not np.array_equal(*case.results.values())


def test_variables_of_the_recorded_run_are_set_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, torch\n"
        "torch.manual_seed(0)\n"
        "torch.backends.mkldnn.enabled = os.environ.get('MKL_CBWR') != 'COMPATIBLE'\n"
        "torch.nn.Conv2d(16, 16, 3)(torch.randn(4, 16, 20, 20))\n"
    )
    for way in ("AUTO", "COMPATIBLE"):
        done = run_traced(tmp_path / way, sys.executable, str(script), env={**os.environ, "MKL_CBWR": way})
        assert done.returncode == 0
    found = diff(tmp_path / "AUTO", tmp_path / "COMPATIBLE", capture=tmp_path / "case.npz", run=True)
    assert sum("had the recorded bits" in e.says for e in found.evidence) == 2
    assert not np.array_equal(*load_case(tmp_path / "case.npz").results.values())


def test_a_block_is_captured_and_its_trace_stays(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch, samebits\n"
        "torch.manual_seed(0)\n"
        "x, w = torch.randn(30, 300), torch.randn(300, 30)\n"
        "torch.rand(3)\n"
        "with samebits.trace(sys.argv[1]):\n"
        "    y = x + 1\n"
        "    (y @ w) if 'whole' in sys.argv[1] else torch.mm(y.clone(), w).relu()\n"
        "print('here')\n"
    )
    # The same product of the same numbers: what differs is made by hand below, in the trace's stead.
    for way in ("whole", "other"):
        done = subprocess.run([sys.executable, str(script), way + ".trace"], cwd=tmp_path, check=True)
    a, b = (read_trace(tmp_path / f"{way}.trace").processes["block"] for way in ("whole", "other"))
    before = (tmp_path / "whole.trace").read_bytes()
    places = [next(i for i, o in enumerate(p.operations) if o.name == "aten.mm.default") for p in (a, b)]
    operation = b.operations[places[1]]
    b.operations[places[1]] = replace(operation, outputs=(b"another result  ",))
    first = diff(tmp_path / "whole.trace", tmp_path / "whole.trace").first
    assert first is None
    given = FirstDifference(
        operation="aten.mm.default", what="", step=0, direction="forward", module="", line="", process="block",
        kind="operation", index_a=places[0], index_b=places[1],
    )  # fmt: skip
    remarks = capture_operation(a, b, given, tmp_path / "case.npz", True, lambda what, share: None)
    # The second run does not have the bits that were made up for it.
    assert ["had the recorded bits" in remark for remark in remarks] == [True, False]
    assert (tmp_path / "whole.trace").read_bytes() == before
    assert load_case(tmp_path / "case.npz").problem.kind == "matmul"
    assert done.returncode == 0


def test_a_command_is_started_where_it_was_and_ended_where_it_is_enough(tmp_path):
    (tmp_path / "sub").mkdir()
    text = "import torch\ntorch.manual_seed(0)\ntorch.nn.Conv2d(16, 16, 3)(torch.randn(4, 16, 20, 20))\n"
    shell = "cd sub\n{python} {way}.py\necho after >> ended\n"
    for way, more in (("a", ""), ("b", "torch.backends.mkldnn.enabled = False\n")):
        (tmp_path / "sub" / f"{way}.py").write_text(text.replace("\n", "\n" + more, 1))
        (tmp_path / f"{way}.sh").write_text(shell.format(python=sys.executable, way="t"))
    for way in ("a", "b"):
        # The processes have the same name in both.
        os.replace(tmp_path / "sub" / f"{way}.py", tmp_path / "sub" / "t.py")
        done = run_traced(tmp_path / f"{way}.trace", "sh", f"{way}.sh", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        os.replace(tmp_path / "sub" / "t.py", tmp_path / "sub" / f"{way}.py")
    # Run again, the script that is there is the second one: the second one is what both are.
    os.replace(tmp_path / "sub" / "b.py", tmp_path / "sub" / "t.py")
    trace = tmp_path / "b.trace"
    (process,) = read_trace(trace).processes.values()
    place = next(i for i, o in enumerate(process.operations) if o.name == "aten.convolution.default")
    operation = process.operations[place]
    other = replace(process, operations=list(process.operations))
    other.operations[place] = replace(operation, outputs=(b"another result  ",))
    first = FirstDifference(
        operation=operation.name, what="", step=0, direction="forward", module="", line="", process=process.name,
        kind="operation", index_a=place, index_b=place,
    )  # fmt: skip
    remarks = capture_operation(process, other, first, tmp_path / "case.npz", True, lambda what, share: None)
    assert "had the recorded bits" in remarks[0]
    # Twice recorded; what follows the script was not done again.
    assert (tmp_path / "sub" / "ended").read_text() == "after\n" * 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [(("seed=1",), "not captured: no operation gave"), (("threads=1", "shuffle=4"), "not captured: no operation gave")],
)
def test_where_inputs_differ_there_is_nothing_to_capture(record, tmp_path, changes, says):
    found = diff(record(), record(*changes), capture=tmp_path / "case.npz", run=True)
    assert found.captured is None
    assert any(re.search(says, e.says) for e in found.evidence)
    assert not (tmp_path / "case.npz").exists()


def test_a_run_that_cannot_be_had_again_is_named(tmp_path):
    script = tmp_path / "script.py"
    text = "import torch\ntorch.manual_seed(0)\ntorch.nn.Conv2d(16, 16, 3)(torch.randn(4, 16, 20, 20))\n"
    for way, more in (("a", ""), ("b", "torch.backends.mkldnn.enabled = False\n")):
        script.write_text(text.replace("\n", "\n" + more, 1))
        assert run_traced(tmp_path / way, sys.executable, str(script)).returncode == 0
    # Another seed, then a script that fails, then none.
    for changed, says in (
        (text.replace("seed(0)", "seed(1)"), "went another way before the operation"),
        ("raise SystemExit('not today')", "did not come to the operation: not today"),
        (None, "did not come to the operation: .*No such file"),
    ):
        if changed is None:
            script.unlink()
        else:
            script.write_text(changed)
        found = diff(tmp_path / "a", tmp_path / "b", capture=tmp_path / "case.npz", run=True)
        assert any(re.search(f"not captured: .*{says}", e.says) for e in found.evidence)
        assert not (tmp_path / "case.npz").exists()
