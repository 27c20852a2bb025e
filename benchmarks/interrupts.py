"""Interrupts real commands at random times: each must end within a second, with status 2 and one line, or its answer.

Half of the signals go to the program alone, half to its whole group, as a terminal sends them. The first 100 ms after
the start are met as often as a command's own share of the others. `make attack`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from samebits.problems import parse_problem_text
from samebits.problems.case_file import save_case
from samebits.problems.operands import make_normal

PROMPT_S = 1.0
_PATIENCE_S = 60.0
_START_S = 0.1
_ROOT = Path(__file__).parent.parent
# Both ways to start it: they end in different ways when interrupted.
_MODULE = (sys.executable, "-m", "samebits")
_SCRIPT = Path(sys.executable).parent / "samebits"
_STARTS: tuple[tuple[str, ...], ...] = (_MODULE, (str(_SCRIPT),)) if _SCRIPT.exists() else (_MODULE,)
_LAYER = "conv2d x=2x64x28x28 w=64x64x3x3 padding=1"
_LONG_SUM = "conv1d x=1x1x5000000 w=1x1x5000000"
# Command and about how long it takes here; signals come until then.
COMMANDS: tuple[tuple[tuple[str, ...], float], ...] = (
    (("compare", _LAYER, "--on", "torch", "--on", "truth"), 6.0),
    (("compare", _LAYER, "--on", "onnxruntime", "--on", "emulate:direct order=pairs:k"), 4.0),
    (("compare", _LAYER, "--on", "emulate:direct acc=bfloat16", "--on", "emulate:direct order=k/8|k"), 5.0),
    (("compare", _LONG_SUM, "--on", "truth", "--on", "emulate:direct"), 20.0),
    (("profile", "emulate:direct order=pairs:k", _LAYER), 6.0),
    (("profile", "onnxruntime", _LAYER), 6.0),
    (("explain", "big.npz"), 12.0),
    (("explain", str(_ROOT / "examples" / "xla_mismatch.log")), 4.0),
    (("compare", "linear x=64x256 w=64x256", "--on", "numpy:call=einsum", "--on", "numpy", "--fix"), 5.0),
    (("doctor",), 0.6),
)


@dataclass(frozen=True)
class Interrupted:
    """One interrupted command: `after_s` from its start, ended `ended_s` later."""

    command: str
    after_s: float
    to_group: bool
    ended_s: float
    status: int
    out: str
    err: str
    left: tuple[str, ...]


def list_session(session: int) -> list[str]:
    """The command lines of all processes of a session that still run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
    return found


def wait_until_gone(process: subprocess.Popen[bytes], started: float) -> tuple[float, tuple[str, ...]]:
    """Seconds until the process and all it started have ended, and what had not when it was killed."""
    while time.monotonic() - started < _PATIENCE_S:
        if process.poll() is not None and not list_session(process.pid):
            return time.monotonic() - started, ()
        # What the program leaves running after its own end is a fault, however soon it ends.
        time.sleep(0.01)
    left = tuple(list_session(process.pid))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return time.monotonic() - started, left


def interrupt(command: tuple[str, ...], after_s: float, to_group: bool, folder: Path) -> Interrupted | None:
    """Starts a program and interrupts it; None if it had ended before."""
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder,
            start_new_session=True,
        )
        time.sleep(after_s)
        if process.poll() is not None:
            return None
        started = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if to_group else os.kill)(process.pid, signal.SIGINT)
        ended_s, left = wait_until_gone(process, started)
    says, complains = ((folder / n).read_bytes().decode(errors="replace") for n in ("out", "err"))
    return Interrupted(_shorten(command), after_s, to_group, ended_s, process.returncode, says, complains, left)


def _shorten(command: tuple[str, ...]) -> str:
    """The command as one types it."""
    start = "python -m samebits" if command[:3] == _MODULE else "samebits"
    return f"{start} {shlex.join(command[3 if command[:3] == _MODULE else 1 :])}"


def judge_interrupt(one: Interrupted, boot_s: float) -> list[str]:
    """What is wrong with how a command ended; while Python itself starts nothing is ours."""
    lines = [
        line for line in one.err.splitlines() if not re.fullmatch(r"samebits: (.* \.\.\.|a large problem: .*)", line)
    ]
    wrong = [f"left running: {p}" for p in one.left]
    if one.ended_s > PROMPT_S:
        wrong.append(f"took over {PROMPT_S:.0f} s")
    ours = re.findall(r"samebits/([\w/]+\.py)", one.err)
    if not ours and one.status in (-signal.SIGINT, 1, 130) and (one.after_s < boot_s or "Traceback" in one.err):
        return wrong
    if "Traceback" in one.err:
        wrong.append(f"traceback through {ours[-1] if ours else 'Python alone'}")
    elif one.status == 2:
        if lines != ["samebits: interrupted"]:
            wrong.append(f"says {' | '.join(lines)[:100]!r}")
    elif not (one.status in (0, 1) and one.out.strip() and not lines):
        wrong.append(f"status {one.status}")
    return wrong


def measure_boot_s() -> float:
    """How long Python takes to run nothing."""
    times = []
    for _ in range(5):
        started = time.monotonic()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append(time.monotonic() - started)
    return max(times)


def prepare(folder: Path) -> None:
    """The files the commands read, and our code compiled."""
    problem = parse_problem_text("conv2d x=4x64x56x56 w=64x64x3x3 padding=1")
    result = np.random.default_rng(0).standard_normal(problem.out_shape, np.float32)
    save_case(folder / "big.npz", problem, make_normal(problem), {"theirs": result})
    warm = ("compare", "conv2d x=1x4x8x8 w=4x4x3x3", "--on", "truth", "--on", "emulate:direct order=pairs:k")
    subprocess.run([*_MODULE, *warm], check=False, capture_output=True)


def choose_moment(rng: Random, usual_s: float) -> float:
    """A third of the signals come in the first 100 ms, the others at any time."""
    return rng.uniform(0, _START_S) if rng.random() < 1 / 3 else rng.uniform(_START_S, usual_s)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    # A shell that starts us in the background has interrupts ignored, and the commands would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng = Random(options.seed)
    seen: list[Interrupted] = []
    faults: dict[str, list[Interrupted]] = defaultdict(list)
    boot_s, finished = measure_boot_s(), 0
    with tempfile.TemporaryDirectory(prefix="interrupts-") as name:
        folder = Path(name)
        prepare(folder)
        while len(seen) < options.count:
            command, usual_s = rng.choice(COMMANDS)
            start = rng.choice(_STARTS)
            one = interrupt((*start, *command), choose_moment(rng, usual_s), rng.random() < 0.5, folder)
            if one is None:
                finished += 1
                continue
            seen.append(one)
            for fault in judge_interrupt(one, boot_s):
                faults[fault].append(one)
                print(f"{fault}: {one.command[:90]}, {one.ended_s:.2f} s", file=sys.stderr, flush=True)
    show(seen, faults, boot_s, finished)
    return 1 if faults else 0


def show(seen: list[Interrupted], faults: dict[str, list[Interrupted]], boot_s: float, finished: int) -> None:
    """The counts, and for each fault how to see it again."""
    times = [one.ended_s for one in seen]
    print(f"{len(seen)} interrupts ({finished} commands had ended before theirs); Python starts in {boot_s:.3f} s")
    print(f"  status {dict(sorted(Counter(one.status for one in seen).items()))}")
    print(f"  ended after {statistics.median(times):.2f} s (median), {max(times):.2f} s (longest)")
    for fault, those in sorted(faults.items(), key=lambda pair: -len(pair[1])):
        print(f"\n{fault}: {len(those)} times")
        for one in sorted(those, key=lambda o: -o.ended_s)[:4]:
            whom = "its group" if one.to_group else "it alone"
            print(
                f"  {one.after_s:.3f} s after the start, to {whom}, ended {one.ended_s:.2f} s later with status", end=""
            )
            print(f" {one.status}: {one.command[:160]}\n    {one.err.strip()[-200:]!r}")


if __name__ == "__main__":
    sys.exit(main())
