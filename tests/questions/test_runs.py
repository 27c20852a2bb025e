"""Runs of a small training that differ in one thing: traced and compared."""

import importlib.util
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

from samebits.cli.app import main
from samebits.errors import ArgumentError, TraceError
from samebits.questions.runs.run_diff import diff
from samebits.questions.runs.run_reading import read_trace
from samebits.questions.runs.tracing import trace
from traced_runs import TRAINING, run_traced

pytestmark = pytest.mark.needs("torch")


def line_of(text):
    """Where the training does something, as a line of its file."""
    lines = TRAINING.read_text().splitlines()
    return f"training.py:{next(i for i, line in enumerate(lines, 1) if text in line)}"


def test_the_same_run_twice_has_the_same_trace(record):
    found = diff(record(), record("again"))
    assert found.same
    assert found.first is None
    assert found.differing == found.only_a == found.only_b == 0
    assert found.settings == []
    assert found.compared > 250


@pytest.mark.parametrize(
    ("changes", "operation", "kind", "reason", "line"),
    [
        (["seed=1"], "aten.uniform_", "inputs", "random state", "self.conv, self.norm ="),
        (["seed=none"], "aten.uniform_", "inputs", "random state", "self.conv, self.norm ="),
        (["shuffle=4"], "aten.random_", "inputs", "random state", "for step, (x, y) in"),
        (["python_shuffle=1"], "aten.select", "inputs", "order of the data", "x = self.x[self"),
        (["nudge=2"], "aten.nextafter", "structure", None, "model.head.weight[0, 0] ="),
        (["start=1e-6"], "aten.add_", "structure", None, "model.head.bias[0] +="),
        (["p=0.25"], "aten.bernoulli_", "inputs", "arguments", "return self.head"),
        (["lr=0.04"], "aten.add_", "inputs", "arguments", "optimizer.step()"),
        (["autocast=1"], "aten.convolution", "inputs", "number format", "y = torch.relu(self.norm"),
        (["swap=1"], "aten.flip", "structure", None, "x, y = x.flip(0), y.flip(0)"),
    ],
)  # fmt: skip
def test_the_first_difference_is_named(record, changes, operation, kind, reason, line):
    found = diff(record(), record(*changes))
    assert not found.same
    first = found.first
    assert (first.operation.rpartition(".")[0], first.kind, first.reason) == (operation, kind, reason)
    assert first.line == line_of(line)
    assert first.line in found.summary


@pytest.mark.parametrize(
    ("changes", "drawing"),
    [(["extra_draw=2"], "torch.rand(1)"), (["validate=1"], "for x, _ in torch.utils.data.DataLoader")],
)
@pytest.mark.parametrize("which", ["first", "second"])
def test_what_one_run_draws_more_moves_the_random_state_of_both(record, changes, drawing, which):
    runs = [record(), record(*changes)]
    found = diff(*(runs if which == "second" else runs[::-1]))
    first = found.first
    assert (first.operation.rpartition(".")[0], first.reason) == ("aten.bernoulli_", "random state")
    assert (first.step, first.module) == (2, "Net.drop")
    assert f"what the {which} run alone drew before at {line_of(drawing)}" in found.summary


def test_a_draw_that_stands_beside_another_lines_is_the_one_that_the_other_run_lacks(tmp_path):
    torch = pytest.importorskip("torch")

    def draw(name, *, validates):
        torch.manual_seed(0)
        with trace(tmp_path / name):
            for _ in range(3):
                torch.rand(4)  # what both draw
                torch.randperm(7)
                if validates:
                    torch.rand(4)  # what one draws

    draw("a", validates=False)
    draw("b", validates=True)
    lines = (Path(__file__).read_text()).splitlines()
    extra = next(i for i, line in enumerate(lines, 1) if line.endswith("# what one draws"))
    found = diff(tmp_path / "a", tmp_path / "b")
    assert found.first.operation.startswith("aten.randperm")
    assert f"the second run alone drew before at test_runs.py:{extra}" in found.summary


def test_autocast_is_said_in_the_formats_it_computes_in(record):
    found = diff(record(), record("autocast=1"))
    assert "the second run computes in bfloat16 what the first computes in float32" in found.summary
    assert "aten.convolution" in found.summary


def test_the_step_and_the_module_of_a_difference(record):
    nudged = diff(record(), record("nudge=2")).first
    assert (nudged.step, nudged.direction) == (2, "forward")
    dropped = diff(record(), record("p=0.25")).first
    assert (dropped.step, dropped.module, dropped.direction) == (0, "Net.drop", "forward")
    learned = diff(record(), record("lr=0.04")).first
    assert (learned.step, learned.direction) == (0, "optimizer")


def test_another_kernel_is_the_operations_own_doing(record):
    found = diff(record(), record("mkldnn=off"))
    assert (found.first.kind, found.first.operation.rpartition(".")[0]) == ("operation", "aten.convolution")
    assert [s.name for s in found.settings] == ["torch backends.mkldnn.enabled"]
    assert found.first.module == "Net.conv"


def test_what_no_setting_explains_is_said_so(record):
    found = diff(record("noise=1"), record("noise=1", "again"))
    assert (found.first.kind, found.first.reason) == ("inputs", "arguments")
    assert found.first.line == line_of("int.from_bytes")


def test_workers_make_the_same_data(record):
    found = diff(record(), record("workers=2"))
    assert found.same
    assert found.only_a > 0
    traced = read_trace(record("workers=2"))
    assert len(traced.processes) == 3
    assert all(p.is_whole and p.operations for p in traced.processes.values())


def test_what_a_worker_did_otherwise_is_found_there(record):
    found = diff(record("workers=1", "augment=1"), record("workers=1", "augment=2"))
    assert (found.first.kind, found.first.reason) == ("inputs", "arguments")
    assert found.first.process.endswith("/0")
    assert found.first.line == line_of("np.random.default_rng")


def test_runs_of_different_lengths_are_compared_as_far_as_both_go(record):
    found = diff(record(), record("stop=2"))
    assert found.same
    assert found.only_a > 0
    assert found.only_b == 0


def test_an_operation_takes_little_room(record):
    count = sum(len(p.operations) for p in read_trace(record()).processes.values())
    assert record().stat().st_size / count < 200


def test_the_commands(record, capsys):
    assert main(["diff", str(record()), str(record("again"))]) == 0
    assert "SAME" in capsys.readouterr().out
    assert main(["diff", str(record()), str(record("seed=1")), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "samebits.diff/1"
    assert {"operation", "step", "direction", "module", "line", "kind"} <= set(document["first"])
    assert {"name": "torch seed", "a": "0", "b": "1"}.items() <= document["settings"][0].items()


@pytest.mark.parametrize("ending", ["sys.exit(7)", "raise SystemExit(0)", "1 / 0", "os.kill(os.getpid(), 15)"])
def test_a_command_ends_as_it_ends_untraced(tmp_path, ending):
    script = tmp_path / "script.py"
    script.write_text(
        f"import os, sys, torch\nprint('a' * 100000)\nprint('b', file=sys.stderr)\ntorch.ones(2) + 1\n{ending}\n"
    )
    plain = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    traced = run_traced(tmp_path / "run.trace", sys.executable, str(script))
    assert traced.returncode == plain.returncode
    assert traced.stdout == plain.stdout
    assert traced.stderr == plain.stderr


def test_what_was_recorded_before_a_kill_can_be_read(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch\nx = torch.zeros(3)\nwhile True:\n    x = x + 1\n")
    path = tmp_path / "run.trace"
    command = [sys.executable, "-m", "samebits", "trace", "-o", str(path), "--", sys.executable, str(script)]
    with subprocess.Popen(command, start_new_session=True) as process:
        ends = time.monotonic() + 60
        while (not path.exists() or path.stat().st_size < 20_000) and time.monotonic() < ends:
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    (only,) = read_trace(path).processes.values()
    assert len(only.operations) > 100
    assert not only.is_whole
    assert "ends early" in " ".join(e.says for e in diff(path, path).evidence)


def test_a_command_without_torch_records_nothing_and_says_so(tmp_path):
    done = run_traced(tmp_path / "run.trace", sys.executable, "-c", "print(1)")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert re.fullmatch(r"samebits: .*nothing was recorded.*\n", done.stderr)


def test_another_sitecustomize_is_still_run(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = run_traced(tmp_path / "run.trace", sys.executable, "-c", "print(1)", env={**os.environ, **path})
    assert done.stdout.splitlines()[-2:] == ["mine", "1"]


def test_a_block_of_a_program_is_recorded(tmp_path):
    torch = pytest.importorskip("torch")

    def record(name, factor):
        with trace(tmp_path / name) as run:
            x = torch.arange(6.0).reshape(2, 3)
            run.note("batch", {"x": np.ones(3), "y": np.zeros((2, 2), np.float32)})
            (x @ x.T) * factor
            run.end_step()
        return tmp_path / name

    assert diff(record("a", 2.0), record("b", 2.0)).same
    found = diff(record("a", 2.0), record("c", 2.5))
    assert (found.first.operation, found.first.reason) == ("aten.mul.Tensor", "arguments")
    assert found.first.line.startswith("test_runs.py:")
    # Nothing of the recording stays.
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert not importlib.import_module("torch.optim.optimizer")._global_optimizer_post_hooks


def test_a_child_of_later_adds_nothing_to_a_block_that_is_over(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, samebits, torch\n"
        "with samebits.trace('run.trace'):\n    torch.ones(2) + 1\n"
        "before = open('run.trace', 'rb').read()\n"
        "child = multiprocessing.get_context('fork').Process(target=print)\n"
        "child.start(), child.join()\n"
        "assert open('run.trace', 'rb').read() == before\n"
    )
    subprocess.run([sys.executable, str(script)], check=True, cwd=tmp_path)


def test_arrays_of_other_libraries_are_recorded_by_name(tmp_path):
    def record(name, value):
        with trace(tmp_path / name) as run:
            for step in range(3):
                run.note("weights", {"w": np.full(4, value if step == 2 else 1.0)})
                run.end_step()
        return tmp_path / name

    found = diff(record("a", 1.0), record("b", np.nextafter(1.0, 2)))
    assert (found.first.what, found.first.step) == ("note weights.w(float64[4])", 2)
    with pytest.raises(ArgumentError, match="arrays are recorded"), trace(tmp_path / "c") as run:
        run.note("bad", {"a": [1, [2, 3]]})


def test_of_a_trace_that_is_cut_off_the_rest_is_read(record, tmp_path):
    path = tmp_path / "cut.trace"
    path.write_bytes(record("workers=2").read_bytes()[:-50])
    whole, cut = (read_trace(p).processes for p in (record("workers=2"), path))
    assert sum(len(p.operations) for p in cut.values()) < sum(len(p.operations) for p in whole.values())
    assert not all(p.is_whole for p in cut.values())


@pytest.mark.parametrize("damage", ["empty", "text", "flipped", "long"])
def test_what_is_no_trace_is_one_line(record, tmp_path, damage):
    data = record().read_bytes()
    made = {
        "empty": b"",
        "text": b"hello" * 100,
        "flipped": data[:200] + bytes([data[200] ^ 1]) + data[201:],
        "long": b"SBT1" + b"\xff" * 100,
    }[damage]
    path = tmp_path / "damaged.trace"
    path.write_bytes(made)
    with pytest.raises(TraceError, match=r"damaged\.trace"):
        read_trace(path)


def test_there_must_be_a_command_and_a_place_for_the_file(tmp_path, capsys):
    assert main(["trace", "-o", str(tmp_path / "a.trace")]) == 2
    assert main(["trace", "-o", str(tmp_path / "no" / "a.trace"), "--", "true"]) == 2
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 2
    assert all(line.startswith("samebits: ") for line in capsys.readouterr().err.splitlines())


@pytest.mark.needs("tensorflow", "jax")
def test_seeds_and_switches_of_other_frameworks_are_told(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, tensorflow as tf, jax, samebits\n"
        "tf.random.set_seed(int(sys.argv[2]))\n"
        "if sys.argv[2] == '2':\n"
        "    jax.config.update('jax_enable_x64', True)\n"
        "    tf.config.experimental.enable_op_determinism()\n"
        "with samebits.trace(sys.argv[1]) as run:\n"
        "    run.note('x', tf.random.normal((3,)))\n"
    )
    for seed in ("1", "2"):
        subprocess.run([sys.executable, str(script), str(tmp_path / seed), seed], check=True, capture_output=True)
    found = diff(tmp_path / "1", tmp_path / "2")
    assert (found.first.kind, found.first.reason) == ("inputs", "noted values")
    told = {s.name: (s.a, s.b) for s in found.settings}
    assert told == {
        "tensorflow seed": ("1", "2"), "tensorflow op determinism": ("off", "on"), "jax enable_x64": ("off", "on"),
    }  # fmt: skip
    assert found.settings[0].name == "tensorflow seed"


def test_other_numbers_of_workers_are_told(record):
    found = diff(record(), record("workers=2"))
    assert found.same
    assert [(s.name, s.a, s.b) for s in found.settings] == [("workers", "0", "2")]


def test_an_operation_that_each_run_does_at_another_step_is_no_other_format(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\n"
        "torch.manual_seed(0)\n"
        "layer = torch.nn.Linear(8, 3)\n"
        "optimizer = torch.optim.SGD(layer.parameters(), 0.1)\n"
        "for step in range(3):\n"
        "    x = torch.randn(4, 8)\n"
        "    if str(step) in sys.argv[1]:\n"
        "        x = x.flip(-1)\n"
        "    layer(x).sum().backward()\n"
        "    optimizer.step()\n"
    )
    for when in ("1", "2"):
        run_traced(tmp_path / when, sys.executable, str(script), when)
    found = diff(tmp_path / "1", tmp_path / "2")
    assert (found.first.kind, found.first.reason) == ("structure", None)
    assert (found.first.operation, found.first.line) == ("aten.flip.default", "script.py:8")
    assert "only the first run does it" in found.summary


def test_other_labels_are_other_data_and_no_order(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, torch\n"
        "torch.manual_seed(0)\n"
        "layer = torch.nn.Linear(8, 4)\n"
        "images = torch.randn(16, 8)\n"
        "labels = torch.tensor([(int(sys.argv[1]) * i) % 4 for i in range(16)])\n"
        "torch.nn.functional.cross_entropy(layer(images), labels).backward()\n"
    )
    for step in ("1", "2"):
        run_traced(tmp_path / step, sys.executable, str(script), step)
    first = diff(tmp_path / "1", tmp_path / "2").first
    assert first.kind == "inputs"
    assert first.reason not in ("order of the data", "order within a batch")
