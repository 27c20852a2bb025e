"""What people send each other, damaged: findings, traces, journals, locks, lists, programs, networks, odd files.

Each is read as the command reads it. It ends in an answer or in one line of ours: no traceback, no minute without an
end, no file outside of its folder opened, no program run, no more than 2 GiB of memory. `--at KIND NUMBER` runs one.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from finding_samples import make_samples
from hostile_findings import damage_finding
from peak_memory import read_peak_bytes

import samebits
from samebits.engines.workers.process import WorkerRunner
from samebits.errors import SamebitsError
from samebits.networks.onnx_reading import read_onnx
from samebits.questions.list.journal import Heading, Journal
from samebits.questions.list.list_reading import read_list
from samebits.questions.list.row import Row
from samebits.questions.pick.lock_file import read_lock
from samebits.questions.report.any_finding import read_finding
from samebits.questions.report.rendering import render_markdown, render_page
from samebits.questions.runs.run_diff import diff
from samebits.questions.runs.trace_file import append_block

LONGEST_S, LARGEST_BYTES = 60.0, 2 * 2**30
_PROBLEM = "matmul x=2x3 w=3x4 dtype=float32"
# Programs that may run: our own workers and what infers sizes.
_OURS = ("samebits.engines.workers.worker", "inference_process.py")
Attack = Callable[[Random, Path], None]


class Watched(Exception):
    """Something was done that no file may bring about."""


class Watch:
    """Sees every program that is started and every file that is opened while it is set."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.is_set = False
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_set:
            return
        if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
            words = " ".join(map(str, arguments[:2]))
            if not any(own in words for own in _OURS):
                self.faults.append(f"ran {words[:100]}")
        elif event == "open" and "secret" in str(arguments[0]):
            self.faults.append(f"opened {arguments[0]}")
        elif event in ("pickle.find_class",) and "evil" in str(arguments):
            self.faults.append(f"unpickled {arguments}")


def flip_bytes(data: bytes, rng: Random) -> bytes:
    """Some bytes of it otherwise, or the end cut off."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 20))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed[: rng.choice((len(changed), len(changed), rng.randrange(len(changed) + 1)))])


SAMPLES: dict[str, Any] = {}


def attack_finding(rng: Random, folder: Path) -> None:
    """A finding with a leaf replaced, as a page and as Markdown."""
    if not SAMPLES:
        SAMPLES.update(make_samples())
    changed, _ = damage_finding(SAMPLES[rng.choice(list(SAMPLES))], rng)
    found = read_finding(json.dumps(changed).encode())
    render_markdown(found)
    if rng.random() < 0.25:
        render_page(found)


def make_trace(path: Path, rng: Random) -> None:
    """A trace of a few operations."""
    with path.open("wb") as file:
        records = [[0, 1, 0, [rng.randbytes(16)], [rng.randbytes(16)], False, None] for _ in range(6)]
        records += [[2, 1, 1, [i], [rng.randbytes(16)], False, rng.randbytes(8)] for i in range(4)]
        content = {
            "process": "train.py", "number": 0, "texts": ["aten.mm.default(float32[2, 2])", "m\tt.py:3\tforward", "x"],
            "records": records, "rows": {rng.randbytes(16).hex(): [1, 2]}, "states": [[0, "python", rng.randbytes(8)]],
            "is_last": True, "settings": {"env OMP_NUM_THREADS": "2"}, "command": ["python", "train.py"], "folder": "/",
            "root": ["./secret.sh"],
        }  # fmt: skip
        append_block(file.fileno(), content)


def attack_trace(rng: Random, folder: Path) -> None:
    """Two traces, one damaged within its compressed content or without."""
    import zlib

    make_trace(folder / "a", rng)
    make_trace(folder / "b", rng)
    data = (folder / "b").read_bytes()
    if rng.random() < 0.6:
        head, packed = data[:4], zlib.decompress(data[12:])
        packed = zlib.compress(flip_bytes(packed, rng), 1)
        data = head + len(packed).to_bytes(4, "little") + zlib.crc32(packed).to_bytes(4, "little") + packed
    else:
        data = flip_bytes(data, rng)
    (folder / "b").write_bytes(data)
    diff(folder / "a", folder / "b", capture=folder / "c.npz")


def attack_journal(rng: Random, folder: Path) -> None:
    """A journal with bits flipped: what is taken over is what was written."""
    heading = Heading("samebits.rows/1", "digest", ["truth"], {"seed": "0"})
    journal = Journal(folder / "t.parquet", heading, resumes=False)
    rows = {i: [Row(subject=f"s{i}", side="truth", verdict="identical", max_abs=i / 8)] for i in range(6)}
    for number, own in rows.items():
        journal.add(number, own)
    journal.close()
    journal.path.write_bytes(flip_bytes(journal.path.read_bytes(), rng))
    again = Journal(folder / "t.parquet", heading, resumes=True)
    again.close()
    if any(again.rows[n] != rows.get(n) for n in again.rows):
        raise Watched("took over a row that nobody wrote")


LOCK: list[bytes] = []


def attack_lock(rng: Random, folder: Path) -> None:
    """A lock whose leaves are other ones, its engine a program among them."""
    if not LOCK:
        samebits.pick(_PROBLEM, ["truth"], lock=folder / "made.lock")
        LOCK.append((folder / "made.lock").read_bytes())
    lock = json.loads(LOCK[0])
    if rng.random() < 0.5:
        lock, _ = damage_finding(lock, rng)
    else:
        place = rng.choice(("python=./secret.sh", "env.LD_PRELOAD=./secret.so", "ssh=secret", "docker=secret", "x=1"))
        lock["choices"][0]["choice"]["engine"] = f"{rng.choice(('numpy', 'onnxruntime', 'torch'))}:{place}"
    (folder / "a.lock").write_text(json.dumps(lock))
    read_lock(folder / "a.lock")
    if rng.random() < 0.1:
        samebits.pick(_PROBLEM, ["truth"], lock=folder / "a.lock")


def attack_list(rng: Random, folder: Path) -> None:
    """Lists that include each other, options that multiply, lines that are none."""
    names = ["a.txt", "b.txt", "c.txt"]
    for name in names:
        lines = rng.choices(
            (
                f"--batch={rng.choice(names)}", "--batch=../secret", f"--conv --dir={','.join(['FWD_B'] * 3000)}",
                f"--dt={','.join(['f32'] * rng.choice((2, 3000)))}", "mb1ic4ih8oc6oh8kh3ph1", "linear x=2x3 w=2x3", "#",
                "x" * 10_000, "\0", "--reset", "--matmul", "linear x={1..9}x3 w=2x3", f"--batch={folder}",
            ),
            k=rng.choice((3, 30, 100)),
        )  # fmt: skip
        (folder / name).write_text("\n".join(lines))
    read_list([str(folder / "a.txt")])


def attack_network(rng: Random, folder: Path) -> None:
    """Networks that are small and stand for much, damaged ones, and programs of torch with more than tensors."""
    if rng.random() < 0.3:
        data = _make_program(rng)
        (folder / "p.pt2").write_bytes(data)
        from samebits.engines.adapters.program_file import copy_cleanly
        from samebits.engines.adapters.program_graph import ProgramRefused

        with contextlib.suppress(ProgramRefused):
            copy_cleanly(folder / "p.pt2", folder / "clean.pt2")
        return
    model = _make_network(rng)
    data = model.SerializeToString()
    (folder / "m.onnx").write_bytes(flip_bytes(data, rng) if rng.random() < 0.4 else data)
    read_onnx(folder / "m.onnx")


def _make_network(rng: Random) -> Any:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    size = rng.choice((4, 10**6, 10**9, 2**40))
    shape = numpy_helper.from_array(np.array([size]), "s")
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["v0"])]
    nodes += [
        helper.make_node(rng.choice(("Relu", "Exp")), [f"v{i}"], [f"v{i + 1}"]) for i in range(rng.choice((1, 60)))
    ]
    functions, depth = [], rng.choice((0, 3, 24, 99))
    for i in range(depth):
        operator, domain = ("Relu", "") if i == 0 else (f"F{i - 1}", "own")
        body = [helper.make_node(operator, [a], [b], domain=domain) for a, b in (("x", "m"), ("m", "y"))]
        functions.append(helper.make_function("own", f"F{i}", ["x"], ["y"], body, opsets))
    if depth:
        nodes.append(helper.make_node(f"F{depth - 1}", [nodes[-1].output[0]], ["z"], domain="own"))
    constants = [shape]
    if rng.random() < 0.3:
        outside = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
        outside.data_location = TensorProto.EXTERNAL
        outside.external_data.add(
            key="location", value=rng.choice(("../secret", "/etc/secret", "secret\0", "", "x" * 999))
        )
        constants.append(outside)
    output = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])], [output], constants
    )
    return helper.make_model(graph, functions=functions, opset_imports=opsets)


def _make_program(rng: Random) -> bytes:
    texts = ["torch.os.system", "torch.ops.aten.add.Tensor", "__import__('os')", "s0", "x; evil()", "9**9**9"]
    value = {"dtype": 7, "sizes": [{"as_expr": {"expr_str": rng.choice(texts)}}]}
    nodes = [{"target": rng.choice(texts), "name": rng.choice(texts)}]
    graph = {"graph_module": {"graph": {"nodes": nodes, "tensor_values": {"x": value}}}}
    entries = {
        "m/models/model.json": json.dumps(graph).encode(),
        "m/data/sample_inputs/model.pt": rng.choice((b"", b"cevil\nevil\n.", rng.randbytes(50))),
        f"m/{rng.choice(('data/aotinductor/x.so', 'extra/x', '../../x', 'archive_format'))}": b"x",
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return flip_bytes(stream.getvalue(), rng) if rng.random() < 0.4 else stream.getvalue()


def attack_worker(rng: Random, folder: Path) -> None:
    """A worker whose answers are damaged."""
    tests = str(Path(__file__).parent.parent / "tests")
    sys.path.insert(0, tests)
    from faulty_engines import ODD_ANSWERS

    odd = json.dumps([rng.choice((0, 1)), rng.choice(ODD_ANSWERS)])
    name = "BabblingEngine"
    path = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])
    runner = WorkerRunner(name, name, "faulty_engines", name, {}, {"PYTHONPATH": path, "BABBLES": odd}, 20)
    from samebits.problems import parse_problem_text
    from samebits.problems.operands import make_normal

    problem = parse_problem_text("conv1d x=1x1x7 w=1x1x5")
    with contextlib.closing(runner):
        ask = rng.choice(("run", "time", "values", "onnx"))
        operands = make_normal(problem)
        if ask == "run":
            runner.run(problem, operands)
        elif ask == "time":
            runner.time_runs(problem, operands, 2)
        elif ask == "values":
            runner.list_program_values("p")
        else:
            runner.run_onnx(b"m", {}, ["y"])


def attack_odd_file(rng: Random, folder: Path) -> None:
    """A pipe, a folder, a device or a link to itself where a file is expected."""
    kind, path = rng.choice(("pipe", "folder", "loop", "device", "nothing", "empty")), folder / "odd"
    suffix = rng.choice(("", ".npz", ".onnx", ".parquet", ".lock", ".json", ".trace", ".toml", ".pt2"))
    path = path.with_name(f"odd{suffix}")
    makers: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(path), "folder": path.mkdir, "loop": lambda: path.symlink_to(path),
        "device": lambda: path.symlink_to("/dev/zero"), "nothing": lambda: None, "empty": path.touch,
    }  # fmt: skip
    makers[kind]()
    (folder / "l").write_text("linear x=2x3 w=2x3\n")
    text = str(path)
    commands = (
        ("explain", text), ("report", text), ("diff", text, text), ("sweep", text, "--on", "truth", "-o", "t.parquet"),
        ("sweep", str(folder / "l"), "--on", "truth", "-o", str(folder / "t.parquet"), "--known", text),
        ("compare", text, "--on", "truth"), ("pick", _PROBLEM, "--on", "truth", "-o", text),
        ("report", "-o", text, text),
        ("profile", "truth", _PROBLEM, "--svg", text), ("trace", "-o", text, "--", "true"),
        ("compare", str(folder / "m.onnx"), "--on", "truth", "--inputs", text),
    )  # fmt: skip
    data = _make_network(Random(1)).SerializeToString()
    (folder / "m.onnx").write_bytes(data)
    code = "import sys; from samebits.cli import run_program; sys.exit(run_program())"
    command = [sys.executable, "-c", code, *rng.choice(commands)]
    environment = {**os.environ, "SAMEBITS_TRACEBACK": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=LONGEST_S, cwd=folder, env=environment, check=False
    )
    if "Traceback" in done.stderr:
        raise Watched(f"{command[3:]}: {done.stderr.splitlines()[-1]}")
    if done.returncode not in (0, 1, 2):
        raise Watched(f"{command[3:]}: status {done.returncode}")


KINDS: dict[str, tuple[Attack, int]] = {
    "findings": (attack_finding, 4000),
    "traces": (attack_trace, 500),
    "journals": (attack_journal, 300),
    "locks": (attack_lock, 1000),
    "lists": (attack_list, 100),
    "networks": (attack_network, 200),
    "workers": (attack_worker, 100),
    "odd files": (attack_odd_file, 100),
}


def run_attack(kind: str, number: int, watch: Watch) -> list[str]:
    """What was wrong with how one ended."""
    attack, _ = KINDS[kind]
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        started = time.monotonic()
        # Their programs are those of the command that is tried.
        watch.faults, watch.is_set = [], kind != "odd files"
        try:
            attack(Random(f"{kind} {number}"), Path(name))
        except SamebitsError as error:
            if len(str(error).splitlines()) > 1:
                faults.append(f"more than a line: {error}")
        except Watched as error:
            faults.append(str(error))
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            faults.append(f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}: {str(error)[:100]}")
        finally:
            watch.is_set = False
        if time.monotonic() - started > LONGEST_S:
            faults.append(f"took {time.monotonic() - started:.0f} s")
    return faults + watch.faults


def main() -> int:
    """Runs all, says what was wrong; the status is how many kinds had faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", nargs=2, metavar=("KIND", "NUMBER"))
    parser.add_argument("--share", type=float, default=1.0, help="of the numbers of each kind")
    given = parser.parse_args()
    watch = Watch()
    if given.at:
        print(run_attack(given.at[0], int(given.at[1]), watch))
        return 0
    before, bad = 0, 0
    for kind, (_, count) in KINDS.items():
        started, found = time.monotonic(), Counter[str]()
        total = max(int(count * given.share), 1)
        for number in range(total):
            for fault in run_attack(kind, number, watch):
                found[fault] += 1
                print(f"  {kind} {number}: {fault}", flush=True)
        peak = read_peak_bytes()
        grown = f", memory up to {peak / 2**30:.1f} GiB" if peak > before else ""
        if peak > LARGEST_BYTES:
            found["too much memory"] += 1
        before = peak
        bad += bool(found)
        print(f"{kind}: {total:,}, {sum(found.values())} faults, {time.monotonic() - started:.0f} s{grown}", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
