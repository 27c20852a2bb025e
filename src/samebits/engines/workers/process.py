"""An engine as a runner: a worker process with its own environment, a time limit, and failures that are findings."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any, BinaryIO, cast

import numpy as np

from samebits.engines.runner import Identity, check_result
from samebits.engines.runner.repeated_runs import RepeatedRuns
from samebits.engines.runner.sliced_runs import Part, SlicedRun
from samebits.engines.runner.timed_runs import TimedRuns
from samebits.engines.workers.answers import (
    AnswerT,
    Done,
    ExportedProgram,
    ProgramValues,
    RanAgain,
    Reported,
    SizeRun,
    SizesRun,
    Timed,
    UnexpectedAnswer,
    read_answer,
    read_failure,
)
from samebits.engines.workers.emulated_cpu import EmulatedPython
from samebits.engines.workers.lasting_thread import call_in_lasting_thread
from samebits.engines.workers.place import HERE, Place
from samebits.engines.workers.transport import MODEL, TransportError, receive_message, send_message
from samebits.engines.workers.travelling_worker import TravellingWorker, write_beginning
from samebits.errors import (
    EngineCrashed,
    EngineFailure,
    EngineOutOfMemory,
    EngineRaised,
    EngineTimedOut,
    EngineUnsupported,
)
from samebits.limits import VALUE_BYTES
from samebits.problems import Problem, format_problem
from samebits.problems.any_problem import AnyProblem, format_any_problem

_FAILURES: dict[str, type[EngineFailure]] = {
    "unsupported": EngineUnsupported,
    "out-of-memory": EngineOutOfMemory,
    "error": EngineRaised,
}
DEFAULT_TIME_LIMIT_S = 300.0


def find_largest_result() -> int:
    """The most bytes that all values of a network may have: those of known size, and as much again for open sizes."""
    return 2 * VALUE_BYTES.read()


class WorkerRunner:
    """Runs problems in a process that holds one engine with its settings.

    The process starts with the object and begins to load the engine, except on another machine.

    A crash or a missed time limit ends the process; later calls then raise the same failure. `time_limit_s` holds for
    the start and for each run; on an emulated processor it is longer. `place` is where the engine is; raises
    EngineMissingError where no worker can run there.
    """

    def __init__(
        self,
        text: str,
        name: str,
        module: str,
        class_name: str,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        time_limit_s: float = DEFAULT_TIME_LIMIT_S,
        place: Place = HERE,
    ):
        self.text = text
        self.name = name
        self._place = place
        self.set_time_limit(time_limit_s)
        self._start_header: dict[str, Any] = {"module": module, "class": class_name, "settings": dict(settings or {})}
        self._identity: Identity | None = None
        self._failure: EngineFailure | None = None
        self._model_key: bytes | None = None
        # What is prepared for timing.
        self._timed: tuple[Problem, Mapping[str, np.ndarray]] | None = None
        self._sliced: Mapping[str, np.ndarray] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._elsewhere = place.find()
        # What a worker that samebits travels to reads before the first message.
        self._beginning = b""
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed by close())
        try:
            self._process, self._replies = self._spawn(dict(environment or {}))
        except BaseException:
            self._log.close()
            raise
        self._loads = not isinstance(self._elsewhere, TravellingWorker) and self._begin_loading()

    def set_time_limit(self, time_limit_s: float) -> None:
        """Limits the start and each run to so many seconds, or more on an emulated processor."""
        self.time_limit_s = time_limit_s * self._place.slowness

    @property
    def process_id(self) -> int:
        """The worker's process number."""
        return self._process.pid

    def identify(self) -> Identity:
        """The worker's own report; waits for the engine to be loaded. Raises EngineFailure."""
        if self._identity is None:
            answer, _ = self._exchange(None if self._loads else self._start_header, {}, 0, Reported)
            report = answer.report
            notes = (*report.notes, *say_overruled(self._start_header["settings"], report.settings))
            device = report.device
            if isinstance(self._elsewhere, EmulatedPython):
                device = f"{device}: {self._elsewhere.emulated.describe()}"
            self._identity = Identity(self.text, self.name, report.version, device, report.settings, notes)
        return self._identity

    def run(self, problem: AnyProblem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """The engine's result, checked for shape and dtype. Raises EngineFailure."""
        self.identify()
        largest = 64 + 16 * math.prod(problem.out_shape)
        _, arrays = self._exchange({"problem": format_any_problem(problem)}, operands, largest, Done)
        if "result" not in arrays:
            raise EngineRaised("returned no result")
        return check_result(problem, arrays["result"])

    def run_again(
        self, problem: AnyProblem, operands: Mapping[str, np.ndarray], calls: int, most_s: float, most_results: int
    ) -> RepeatedRuns:
        """At least one and at most so many calls inside the worker, within `most_s` and a call. Raises EngineFailure.

        They end early once there are `most_results` different results.
        """
        self.identify()
        header = {
            "problem": format_any_problem(problem),
            "again": calls,
            "most_s": most_s,
            "most_results": most_results,
        }
        largest = most_results * (64 + 16 * math.prod(problem.out_shape))
        # Two calls may take as long as the time limit, one within `most_s` and one begun at its end.
        answer, arrays = self._exchange(header, operands, largest, RanAgain, 2 + math.ceil(most_s / self.time_limit_s))
        if set(arrays) != {str(i) for i in range(len(answer.counts))}:
            raise EngineRaised(f"answered nonsense: {len(arrays)} results where {len(answer.counts)} were counted")
        results = tuple(check_result(problem, arrays[str(i)]) for i in range(len(arrays)))
        return RepeatedRuns(results, tuple(answer.counts))

    def time_runs(self, problem: Problem, operands: Mapping[str, np.ndarray], runs: int) -> TimedRuns:
        """What calls take inside the worker. The last problem stays prepared there. Raises EngineFailure."""
        self.identify()
        known = self._timed is not None and self._timed[0] == problem and self._timed[1] is operands
        first: tuple[TimedRuns, ...] = ()
        if not known:
            self._timed = None
            # Making it ready, and one run.
            answer, _ = self._exchange({"timed": 1, "problem": format_problem(problem)}, operands, 0, Timed, 2)
            first = (_read_timed(answer),)
            self._timed = (problem, operands)
        answer, _ = self._exchange({"timed": runs}, {}, 0, Timed, runs)
        more = _read_timed(answer)
        # The first call compiles and packs: it counts for bits and memory, not for time.
        digests = dict.fromkeys(d for timed in (*first, more) for d in timed.digests)
        return TimedRuns(more.seconds, tuple(digests), first[0].peak_bytes if first else None)

    def run_slices(
        self, problems: Sequence[Problem], operands: Mapping[str, np.ndarray], part: Part
    ) -> list[SlicedRun]:
        """One answer per size; operands travel once for calls that follow each other. Raises EngineFailure.

        The time limit is that of all of them together.
        """
        self.identify()
        brings = {} if self._sliced is operands else operands
        self._sliced = None
        texts = [format_problem(problem) for problem in problems]
        header = {"sliced": texts, "part": list(part.shape), "items": part.item_axis}
        answer, _ = self._exchange(header, brings, 0, SizesRun)
        if len(answer.runs) != len(texts):
            raise EngineRaised(f"answered nonsense: {len(answer.runs)} sizes where {len(texts)} were asked for")
        self._sliced = operands
        return [_read_sliced(run) for run in answer.runs]

    def run_onnx(
        self,
        model: bytes,
        inputs: Mapping[str, np.ndarray],
        wanted: Sequence[str],
        observed: Sequence[str] = (),
        *,
        files: tuple[str, Sequence[str]] = ("", ()),
    ) -> dict[str, np.ndarray]:
        """The wanted outputs of an ONNX model; it is sent and made ready once for runs that follow each other.

        `observed` are outputs added only to be observed; they come in the dtype that the model declares. `files` are
        a folder and the names of files there, in which the model has data of its own.

        Raises EngineFailure.
        """
        if files[1]:
            self._refuse_files("the model's data is a file here, which is not seen there")
        self.identify()
        # Models that differ in their files' data alone are not the same.
        key = hashlib.sha256(repr(files).encode() + model).digest()
        brings = {} if key == self._model_key else {MODEL: np.frombuffer(model, np.uint8)}
        # Whatever fails, the worker may have dropped the model it had.
        self._model_key = None
        header: dict[str, Any] = {"wanted": list(wanted), "observed": list(observed), "brings_model": bool(brings)}
        if files[1] and self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="samebits-data-", ignore_cleanup_errors=True)
        scratch = self._scratch.name if self._scratch else ""
        header |= {"data_folder": files[0], "data_files": list(files[1]), "scratch": scratch}
        _, arrays = self._exchange(header, {**inputs, **brings}, find_largest_result(), Done)
        self._model_key = key
        if missing := [name for name in wanted if name not in arrays]:
            raise EngineRaised(f"returned no {missing[0]}")
        return arrays

    def export_program(
        self, text: str, folder: str, *, opens_batch: bool = False
    ) -> tuple[ExportedProgram, dict[str, np.ndarray]]:
        """Has a module exported into a folder: what the engine says of it, and example inputs. Raises EngineFailure."""
        self._refuse_files()
        self.identify()
        header = {"program": text, "folder": folder, "opens_batch": opens_batch}
        return self._exchange(header, {}, find_largest_result(), ExportedProgram)

    def list_program_values(self, path: str) -> list[str]:
        """The values that an exported program lets one observe. Raises EngineFailure."""
        self._refuse_files()
        self.identify()
        return self._exchange({"program": path}, {}, 0, ProgramValues)[0].values

    def run_program(
        self,
        path: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        observed: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        """An exported program's outputs and observed values. Raises EngineFailure."""
        self._refuse_files()
        self.identify()
        header = {"program": path, "outputs": list(outputs), "observed": list(observed), "given": list(given)}
        _, arrays = self._exchange(header, {**inputs, **given}, find_largest_result(), Done)
        if missing := [name for name in (*outputs, *observed) if name not in arrays]:
            raise EngineRaised(f"returned no {missing[0]}")
        return arrays

    def close(self) -> None:
        """Ends the process."""
        self._end_process()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None
        self._process.wait()
        if self._elsewhere is not None:
            self._elsewhere.close()
        for stream in (self._process.stdin, self._replies, self._log):
            if stream:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue

    @property
    def is_here(self) -> bool:
        """Whether the engine is of the environment that samebits runs in."""
        return self._place.is_here

    def _refuse_files(
        self, says: str = "torch modules and Keras models are files here, which are not seen there"
    ) -> None:
        if not self._place.shares_files:
            raise EngineUnsupported(says)

    def __enter__(self) -> WorkerRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _spawn(self, variables: dict[str, str]) -> tuple[subprocess.Popen[bytes], BinaryIO]:
        """The process, and the stream of its answers; `variables` are those that the engine's text names."""
        far = self._elsewhere
        if isinstance(far, TravellingWorker):
            self._beginning = write_beginning(variables)
            return call_in_lasting_thread(lambda: far.start(self._log))
        read_end, write_end = os.pipe()

        program, environment = (sys.executable,), {**os.environ, **variables}
        if far is not None:
            program, environment = far.words, far.adapt(environment)

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                # -P: what happens to lie in the current directory must not be taken for a library.
                [*program, "-P", "-m", "samebits.engines.workers.worker", str(write_end)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._log,
                env=environment,
                pass_fds=(write_end,),
                # A group of its own, so that what an engine or a model's file starts ends with it.
                start_new_session=True,
            )

        try:
            process = call_in_lasting_thread(start)
        finally:
            os.close(write_end)
        # Unbuffered it is a FileIO, which reads into a buffer as a BinaryIO does not declare to.
        return process, os.fdopen(read_end, "rb", buffering=0)  # type: ignore[return-value]  (unbuffered: a FileIO)

    def _begin_loading(self) -> bool:
        """Has the worker load its engine, which takes seconds, beside what is done here; False where it ended."""
        try:
            send_message(cast(BinaryIO, self._process.stdin), self._start_header, {})
        except BrokenPipeError:
            return False
        return True

    def _exchange(
        self,
        header: Mapping[str, Any] | None,
        arrays: Mapping[str, np.ndarray],
        largest_bytes: int,
        kind: type[AnswerT],
        runs: int = 1,
    ) -> tuple[AnswerT, dict[str, np.ndarray]]:
        """Sends a message; its answer, of that kind, and the arrays that came with it. Raises EngineFailure.

        Without a header the message was sent before, and its answer is waited for.
        """
        if self._failure:
            raise self._failure
        expired = threading.Event()

        def stop() -> None:
            expired.set()
            self._end_process()

        timer = threading.Timer(self.time_limit_s * runs, stop)
        # An interrupt may come at any moment; a timer left behind must not keep the program from ending.
        timer.daemon = True
        try:
            timer.start()
            if self._beginning:
                cast(BinaryIO, self._process.stdin).write(self._beginning)
                self._beginning = b""
            if header is not None:
                send_message(cast(BinaryIO, self._process.stdin), header, arrays)
            answer, results = receive_message(self._replies, largest_bytes)
            failed = read_failure(answer)
            read = None if failed else read_answer(answer, kind)
        except (TransportError, BrokenPipeError) as error:
            self._failure = self._explain_end(error, expired.is_set())
            raise self._failure from None
        except UnexpectedAnswer as error:
            self._end_process()
            self._failure = EngineRaised(f"answered nonsense: {error}")
            raise self._failure from None
        finally:
            timer.cancel()
        if failed or read is None:
            failure = _FAILURES.get(failed.kind, EngineRaised)(failed.says) if failed else EngineRaised("no answer")
            if self._identity is None:
                self._failure = failure
            raise failure
        return read, results

    def _end_process(self) -> None:
        """Ends the worker, and the processes that it started, as far as they stayed in its group."""
        if not isinstance(self._elsewhere, TravellingWorker):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()

    def _explain_end(self, error: Exception, expired: bool) -> EngineFailure:
        """The failure of a process that timed out, ended, or answered nonsense (it is then ended here)."""
        if expired:
            self._process.wait()
            return EngineTimedOut(f"gave no answer in {self.time_limit_s:g} s and was stopped")
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._end_process()
            return EngineRaised(f"answered nonsense: {error}")
        if code == 0 and "ended" not in str(error):
            return EngineRaised(f"answered nonsense: {error}")
        return EngineCrashed(_describe_exit(code) + self._last_words())

    def _last_words(self) -> str:
        """The last line that the process wrote before it ended; hints to `--help` are passed over."""
        self._log.seek(max(self._log.seek(0, os.SEEK_END) - 4096, 0))
        lines = [line.strip() for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        said = [line for line in lines if "--help" not in line and "warning: TCG" not in line] or lines
        return f"; last words: {said[-1][:200]}" if said else ""


def _read_timed(answer: Timed) -> TimedRuns:
    return TimedRuns(tuple(answer.seconds), tuple(answer.digests), answer.peak_bytes)


def _read_sliced(run: SizeRun) -> SlicedRun:
    if run.failure is not None:
        return SlicedRun(failure=run.failure)
    return SlicedRun(run.digest, run.even, run.seconds)


def say_overruled(asked: Mapping[str, str], effective: Mapping[str, str]) -> list[str]:
    """One line for every setting that was asked for while the engine, read back, has another."""
    return [
        f"{name}={value} was asked for; read back, it is {effective[name]}"
        for name, value in asked.items()
        if name in effective and _spell(effective[name]) != _spell(value)
    ]


def _spell(value: str) -> str:
    """A value in one spelling, as libraries write it in several: YES, True and on become on."""
    return {"yes": "on", "true": "on", "1": "on", "no": "off", "false": "off"}.get(value.lower(), value.lower())


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"its process ended by itself with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = {"SIGKILL": " (as when memory runs out)", "SIGILL": " (an instruction that the processor lacks)"}.get(
        name, ""
    )
    return f"its process was ended by {name}{hint}"
