"""The first operation that differed, as a case: both runs are repeated up to it and stopped there."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from samebits.errors import ArgumentError, TraceError
from samebits.numbers.ulps import has_same_bits
from samebits.problems.case_file import save_case
from samebits.progress import Announcement, Progress
from samebits.questions.runs.diff_schema import FirstDifference
from samebits.questions.runs.recorder import CAPTURE_VARIABLE
from samebits.questions.runs.run_reading import Operation, Process, read_trace
from samebits.questions.runs.run_sentences import say_captured, say_command
from samebits.questions.runs.saved_products import SavedProduct, check_is_product, read_saved
from samebits.questions.runs.settings import VARIABLES
from samebits.questions.runs.tracing import make_environment
from samebits.regular_files import open_folder

_ENVIRONMENT = "env "
_NOT_SET = "not set"
_LOOK_AGAIN_S = 0.02


def capture_operation(
    a: Process,
    b: Process,
    first: FirstDifference,
    target: str | Path,
    run: bool | Callable[[Sequence[str]], bool],
    progress: Progress,
) -> list[str]:
    """Writes the operation that both runs did on the same inputs, with both results; returns remarks on it.

    The commands are started again, with the environment variables that were recorded, in the folders where they ran;
    what the scripts write, they write again. `run` says whether they may be: True, or what it returns of the commands,
    which are announced first. Raises TraceError where a run cannot be repeated, where it goes another
    way this time, and for operations that are no convolution and no product.
    """
    if first.kind != "operation" or first.index_a is None or first.index_b is None:
        raise TraceError("no operation gave other bits to the same inputs before the runs part")
    check_is_product(a.operations[first.index_a].name)
    wanted = ((a, first.index_a, "first"), (b, first.index_b, "second"))
    output = _find_output(a.operations[first.index_a], b.operations[first.index_b])
    commands = [write_command(process) for process in (a, b)]
    for which, text in zip(("first", "second"), commands, strict=True):
        progress(Announcement(say_command(which, text)), 0.0)
    if not (run if isinstance(run, bool) else run(commands)):
        raise TraceError("the commands stand in the traces and were not run: --run runs them")
    found: list[SavedProduct] = []
    remarks: list[str] = []
    for n, (process, place, which) in enumerate(wanted):
        progress(f"running the {which} run again, up to {first.operation}", n / 2)
        saved, same, otherwise = _run_again(process, place, which, output)
        found.append(saved)
        remarks.append(say_captured(which, same_as_recorded=same, otherwise=otherwise))
    one, other = found
    if one.problem != other.problem or not all(has_same_bits(one.operands[k], other.operands[k]) for k in one.operands):
        raise TraceError("run again, the runs did not come to the operation with the same inputs")
    try:
        save_case(target, one.problem, one.operands, {"first run": one.result, "second run": other.result})
    except (OSError, ValueError) as error:
        raise ArgumentError(f"{target}: cannot be written ({getattr(error, 'strerror', None) or error})") from None
    return remarks


def write_command(process: Process) -> str:
    """The shell command that runs a process again: folder, variables, command."""
    changed = _list_variables(process)
    unset = [f"-u {name}" for name, value in changed.items() if value is None]
    given = [f"{name}={shlex.quote(value)}" for name, value in changed.items() if value is not None]
    words = [*(["env", *unset] if unset else []), *given, shlex.join(process.root)]
    return f"cd {shlex.quote(process.folder)} && {' '.join(words)}" if process.folder else " ".join(words)


def _find_output(one: Operation, other: Operation) -> int:
    """Which result of the operation differs first."""
    pairs = zip(one.outputs, other.outputs, strict=True)
    return next(i for i, (x, y) in enumerate(pairs) if x is not None and y is not None and x != y)


def _run_again(process: Process, place: int, which: str, output: int) -> tuple[SavedProduct, bool, list[str]]:
    """The operation, whether it had the recorded bits again, and which settings were others than ever recorded."""
    if not process.root or " #" in process.name:
        raise TraceError(f"process {process.name} of the {which} run cannot be started again by itself")
    with open_folder() as folder:
        file, trace = folder / "operation.npz", folder / "again.trace"
        asked = {"process": process.name, "place": place, "file": str(file)}
        environment = {**_restore_variables(process), CAPTURE_VARIABLE: json.dumps(asked)}
        said = _start(process, make_environment(trace, process.root, process.folder, environment), file)
        if not file.exists():
            raise TraceError(f"run again, the {which} run did not come to the operation{said}")
        saved = read_saved(file, output)
        rerun = read_trace(trace).processes[process.name]
        again, recorded = rerun.operations, process.operations[place]
        if len(again) <= place or again[place].what != recorded.what or again[place].inputs != recorded.inputs:
            raise TraceError(f"run again, the {which} run went another way before the operation")
        return saved, again[place].outputs == recorded.outputs, _list_otherwise(process, rerun)


def _list_otherwise(process: Process, rerun: Process) -> list[str]:
    """Settings that a run had never and its repetition has, as "name: one, not another"."""
    last = rerun.settings[-1] if rerun.settings else {}
    known = {name: [s[name] for s in process.settings if name in s] for name in last}
    return [f"{name} is {value}, not {known[name][-1]}" for name, value in last.items()
            if known[name] and value not in known[name] and not name.startswith(_ENVIRONMENT)]  # fmt: skip


def _restore_variables(process: Process) -> dict[str, str]:
    """The environment of now, with the variables that change bits as they were."""
    changed = _list_variables(process)
    kept = {name: value for name, value in os.environ.items() if name not in changed}
    return kept | {name: value for name, value in changed.items() if value is not None}


def _list_variables(process: Process) -> dict[str, str | None]:
    """The recorded values of variables that differ now; None: not set. Variables that are not recorded are ignored."""
    recorded = process.settings[0] if process.settings else {}
    found: dict[str, str | None] = {}
    for name in VARIABLES:
        value = recorded.get(_ENVIRONMENT + name, os.environ.get(name, _NOT_SET))
        if value != os.environ.get(name, _NOT_SET) and "\0" not in value:
            found[name] = None if value == _NOT_SET else value
    return found


def _start(process: Process, environment: dict[str, str], file: Path) -> str:
    """Runs the command until it has written the file; returns its last line of output, in case it did not."""
    folder = process.folder if process.folder and Path(process.folder).is_dir() else None
    with tempfile.TemporaryFile() as said:
        try:
            started = subprocess.Popen(
                process.root, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=said, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            error = error if isinstance(error, OSError) else OSError(str(error))
            raise TraceError(f"{process.root[0]}: cannot be started ({error.strerror or error})") from None
        try:
            while started.poll() is None and not file.exists():
                time.sleep(_LOOK_AGAIN_S)
        finally:
            # Ended here: nothing further is needed of the command, nor if this wait is interrupted.
            with contextlib.suppress(OSError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()
        said.seek(0)
        lines = [line.strip() for line in said.read().decode(errors="replace").splitlines() if line.strip()]
    return f": {lines[-1][:200]}" if lines else ""
