"""Recording a run: of a command, from its start, or of a part of a program, as a context."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from samebits.errors import ArgumentError, TraceError
from samebits.questions.runs.recorder import CAPTURE_VARIABLE, Recorder, is_raised_by_script, make_plain
from samebits.questions.runs.telling import Ear, tell
from samebits.questions.runs.trace_file import read_blocks
from samebits.regular_files import check_target

_VARIABLE, _STARTED = "SAMEBITS_TRACE", "SAMEBITS_TRACE_COMMAND"
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH)
# The recording of this process, which lasts as long as it does.
_ACTIVE: list[Any] = []


def run_traced(command: Sequence[str], path: str | Path, tell_person: Callable[[str], None] = lambda _: None) -> int:
    """Runs a command with every torch operation of its Pythons recorded in a file; returns its exit status.

    Standard streams, signals and status are the command's own: ended by a signal, this process ends by the same.
    What went wrong in recording does not touch the command; `tell_person` is called with it once, at the end.
    Raises ArgumentError for a command that cannot be started, TraceError for a file that cannot be written.
    """
    if not command:
        raise ArgumentError("trace needs a command behind --, as in: samebits trace -o run.trace -- python train.py")
    try:
        target = Path(path).resolve()
        check_target(target)
        if target.is_fifo():
            raise OSError(errno.EINVAL, "a recording is read again, and a pipe is not")
        target.write_bytes(b"")
    except (OSError, RuntimeError) as error:  # RuntimeError: a link to itself.
        raise TraceError(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error})") from None
    ear = Ear()
    environment = {**make_environment(target, command, os.getcwd(), os.environ), **ear.variables}
    # Signals from the terminal, which both get, are the command's to answer; it does not inherit our handlers.
    for number in (signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)
    try:
        process = subprocess.Popen(command, env=environment)
    except (OSError, ValueError) as error:
        _remove_if_empty(target)
        raise ArgumentError(f"{command[0]}: cannot be started ({getattr(error, 'strerror', None) or error})") from None
    for number in _PASSED_ON:
        signal.signal(number, lambda n, _frame: process.send_signal(n))
    try:
        return process.wait()
    finally:
        for says in ear.close():
            tell_person(says)
        _remove_if_empty(target)


def _remove_if_empty(target: Path) -> None:
    """What a command that recorded nothing would leave behind; a process that outlives it makes the file again.

    A device such as /dev/null has no bytes either, and stays.
    """
    with contextlib.suppress(OSError):
        if target.is_file() and target.stat().st_size == 0:
            target.unlink()


def make_environment(
    trace: Path, command: Sequence[str], folder: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """The environment in which the Pythons of a command, started in that folder, record themselves."""
    start = str(Path(__file__).parent / "start")
    known = environment.get("PYTHONPATH")
    return {
        **environment,
        _VARIABLE: str(trace),
        _STARTED: json.dumps({"command": list(command), "folder": folder}),
        "PYTHONPATH": f"{start}{os.pathsep}{known}" if known else start,
    }


def end_as(status: int) -> int:
    """Returns the exit status; where the command was ended by a signal, ends this process by the same one."""
    if status < 0:
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def is_empty(path: str | Path) -> bool:
    """Whether nothing was recorded, or nothing that can be read."""
    try:
        return Path(path).stat().st_size == 0 or not any(block.records for block in read_blocks(Path(path)))
    except (OSError, TraceError):
        return True


def start_in_process(torch: Any) -> None:
    """Begins the recording of this process, into the file that its environment names."""
    path = os.environ.get(_VARIABLE)
    if not path or _ACTIVE:
        return
    try:
        _ACTIVE.append(_start(torch, path, _name_process()))
    except Exception as error:  # Whatever it is, the script goes on as it would without us.
        if is_raised_by_script(error):
            raise
        tell(f"{make_plain(_name_process())}: nothing is recorded ({type(error).__name__}: {str(error)[:200]})")


def _start(torch: Any, path: str, name: str) -> Any:
    from samebits.questions.runs.operation_saving import make_tracing

    tracing = make_tracing(torch, Recorder(path, name, json.loads(os.environ.get(_STARTED, "null"))))
    tracing.start()
    return tracing


def _name_process() -> str:
    """The name of this process in the run: its rank under a launcher, else what it runs."""
    rank = os.environ.get("RANK") or os.environ.get("LOCAL_RANK")
    if rank is not None:
        return f"rank {rank}"
    arguments = [a for a in sys.orig_argv[1:] if not a.startswith("-")]
    return f"{Path(arguments[0]).name}" if arguments else "python"


class Run:
    """A recording in progress. `note` adds arrays of any library to it; torch's operations come by themselves."""

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        self.step = 0

    def note(self, name: str, arrays: Mapping[str, Any] | Any) -> None:
        """Records arrays (NumPy, JAX, TensorFlow ...) under a name: a batch, weights, a loss. Raises ArgumentError."""
        import numpy as np
        import xxhash

        given = arrays if isinstance(arrays, Mapping) else {"": arrays}
        for key, value in given.items():
            try:
                array = np.ascontiguousarray(value)
            except (TypeError, ValueError):
                raise ArgumentError(f"{name} {key}: arrays are recorded, not {type(value).__name__}") from None
            label = f"{name}.{key}" if key else name
            text = f"note {label}({array.dtype.name}{list(array.shape)})"
            self.recorder.attempt(self._add_note, text, xxhash.xxh3_128_digest(array.tobytes()))

    def _add_note(self, text: str, digest: bytes) -> None:
        what, where = self.recorder.number_text(text), self.recorder.number_text("\t\tforward")
        self.recorder.add((what, where, self.step, [], [digest], False, None))

    def end_step(self) -> None:
        """Counts one step on: for loops without a torch optimizer."""
        self.step += 1
        self.recorder.attempt(self.recorder.note_states, self.step)

    def keras_callback(self) -> Any:
        """A callback for Keras's `fit`, on any backend: weights and logs after every batch."""
        import importlib

        keras = importlib.import_module("keras")
        run = self

        class Recording(keras.callbacks.Callback):  # type: ignore[misc]  (Keras's class, known when it runs)
            def on_train_begin(self, logs: Any = None) -> None:
                run._note_weights(self.model)

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                run.note("logs", {k: float(v) for k, v in (logs or {}).items()})
                run._note_weights(self.model)
                run.end_step()

        return Recording()

    def _note_weights(self, model: Any) -> None:
        self.note("weights", {w.path: w.numpy() for w in model.weights})


@contextlib.contextmanager
def trace(path: str | Path) -> Iterator[Run]:
    """Records every torch operation inside the block, and what is noted, in a file for `samebits diff`.

    Raises TraceError where the file cannot be written.

    >>> import samebits, torch
    >>> with samebits.trace("run.trace"):
    ...     _ = torch.ones(2) * 3
    >>> samebits.diff("run.trace", "run.trace").same
    True
    """
    again = os.environ.get(_VARIABLE) if os.environ.get(CAPTURE_VARIABLE) else None
    try:
        if again is None:
            Path(path).write_bytes(b"")
        # What a run recorded stays as it is where it is run again for one operation.
        recorder = Recorder(again or str(Path(path).resolve()), "block")
    except OSError as error:
        raise TraceError(f"{path}: cannot be written ({error.strerror or error})") from None
    torch = sys.modules.get("torch")
    tracing = None
    if torch is not None:
        from samebits.questions.runs.operation_saving import make_tracing

        tracing = make_tracing(torch, recorder)
        tracing.start()
    try:
        yield Run(recorder)
    finally:
        if tracing is not None:
            tracing.stop()
        else:
            recorder.close()
        if recorder.trouble is not None:
            with contextlib.suppress(OSError, ValueError):
                print(f"samebits: {recorder.trouble}", file=sys.stderr)
