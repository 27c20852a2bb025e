"""The process an engine lives in: `python -m samebits.engines.workers.worker REPLY_FD`, spoken to through `transport`.

The first message names the engine's class and its settings; then one message per run. Standard output belongs to the
framework and goes where standard error goes; answers have a descriptor of their own.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import re
import signal
import sys
from dataclasses import asdict
from typing import Any, BinaryIO

import numpy as np

from samebits.engines.adapters.engine import Engine
from samebits.engines.runner.repeated_runs import repeat_call
from samebits.engines.runner.sliced_runs import Part, look_at
from samebits.engines.runner.timed_runs import TimedRuns
from samebits.engines.workers.run_timing import RunTiming
from samebits.engines.workers.transport import MODEL, TransportError, receive_message, send_message
from samebits.errors import EngineUnsupported
from samebits.problems import Problem
from samebits.problems.any_problem import AnyProblem, parse_any_problem
from samebits.problems.attention import Attention
from samebits.problems.row_functions import RowFunction

_PR_SET_PDEATHSIG = 1
# How the five frameworks say that memory ran out, taken from their messages.
_SIGNS_OF_MEMORY = (
    "bad_alloc", "out of memory", "not enough memory", "can't allocate memory", "resource_exhausted",
    "resourceexhausted", "failed to allocate", "could not allocate", "oom when allocating",
)  # fmt: skip
# Messages that begin with the place where it happened, and which of their lines tells what.
_SIGNS_OF_PLACES = {"Exception from": -1, "Exception encountered when calling": 1}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SIGNS_OF_UNSUPPORTED = (
    "not_implemented", "not implemented", "not yet support", "not supported", "only supports",
    "could not create a primitive descriptor", "must be less than max(stride, dilation)",
    "input and filter must have the same depth", "is inconsistent with input spatial dimensions",
)  # fmt: skip


def main() -> int:
    """Loads an engine and answers messages until standard input ends."""
    requests, replies = _take_streams(int(sys.argv[1]))
    _die_with_parent()
    # Processes that a model's file forks end with this process, as this one ends with the command.
    os.register_at_fork(after_in_child=_die_with_parent)
    engine: Engine | None = None
    timing = RunTiming()
    # Operands that many sizes of one problem read.
    sliced: dict[str, np.ndarray] = {}
    while True:
        try:
            header, arrays = receive_message(requests, 2**48)
        except TransportError:
            return 0
        try:
            if engine is None:
                engine = _load_engine(header)
                send_message(replies, {"report": _report(engine)})
            elif "timed" in header:
                send_message(replies, {"ok": True, **asdict(_time(engine, timing, header, arrays))})
            elif "again" in header:
                send_message(replies, *_run_again(engine, header, arrays))
            elif "sliced" in header:
                sliced = arrays or sliced
                send_message(replies, {"runs": [_run_slice(engine, text, sliced, header) for text in header["sliced"]]})
            elif "wanted" in header:
                send_message(replies, {"ok": True}, _run_model(engine, header, arrays))
            elif "program" in header:
                send_message(replies, *_run_program(engine, header, arrays))
            else:
                send_message(replies, {"ok": True}, {"result": _run(engine, header, arrays)})
        except Exception as error:
            send_message(replies, {"failure": _describe(error)})


def _take_streams(reply_descriptor: int) -> tuple[BinaryIO, BinaryIO]:
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    replies = os.fdopen(reply_descriptor, "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return requests, replies


def _die_with_parent() -> None:
    """Ends this process with its parent, and lets it go first if memory runs out (both on Linux only)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def _load_engine(header: dict[str, Any]) -> Engine:
    engine_class = getattr(importlib.import_module(header["module"]), header["class"])
    engine = engine_class()
    engine.load(header["settings"])
    return engine


def _report(engine: Engine) -> dict[str, Any]:
    report = engine.report()
    return {
        "version": report.version,
        "device": report.device,
        "settings": report.settings,
        "notes": list(report.notes),
    }


def _run(engine: Engine, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray(_compute(engine, _take_any_problem(engine, header), arrays))


def _run_again(
    engine: Engine, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """One problem again and again, each time on operands and for a result of its own."""
    problem = _take_any_problem(engine, header)

    def call() -> np.ndarray:
        return np.array(_compute(engine, problem, {name: array.copy() for name, array in arrays.items()}))

    runs = repeat_call(call, header["again"], header["most_s"], header["most_results"])
    return {"counts": list(runs.counts)}, {str(i): result for i, result in enumerate(runs.results)}


def _run_slice(engine: Engine, text: str, operands: dict[str, np.ndarray], header: dict[str, Any]) -> dict[str, Any]:
    """One size of a sweep, its failure included: the others go on."""
    part = Part(tuple(header["part"]), header["items"])
    try:
        problem = _take_problem(engine, {"problem": text})
        return asdict(look_at(lambda given: np.asarray(engine.run(problem, dict(given))), problem, operands, part))
    except Exception as error:
        return {"failure": [*_describe(error).values()]}


def _take_problem(engine: Engine, header: dict[str, Any]) -> Problem:
    problem = _take_any_problem(engine, header)
    if not isinstance(problem, Problem):
        raise EngineUnsupported("attention and functions of rows are neither timed nor taken in parts yet")
    return problem


def _take_any_problem(engine: Engine, header: dict[str, Any]) -> AnyProblem:
    problem = parse_any_problem(header["problem"])
    if isinstance(problem, Attention):
        reason = engine.explain_no_attention(problem)
    elif isinstance(problem, RowFunction):
        reason = engine.explain_no_function(problem)
    else:
        reason = engine.explain_unsupported(problem)
    if reason:
        raise EngineUnsupported(reason)
    return problem


def _compute(engine: Engine, problem: AnyProblem, operands: dict[str, np.ndarray]) -> np.ndarray:
    if isinstance(problem, Attention):
        return engine.attend(problem, operands)
    return engine.map_rows(problem, operands) if isinstance(problem, RowFunction) else engine.run(problem, operands)


def _time(engine: Engine, timing: RunTiming, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> TimedRuns:
    """Times the first run of the problem in the message, or further runs of the last one."""
    if "problem" not in header:
        return timing.run(header["timed"])
    return timing.prepare(engine, _take_problem(engine, header), arrays)


def _run_model(engine: Engine, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs a model; the message brings it only where it differs from the last one."""
    if header["brings_model"]:
        model = arrays.pop(MODEL)
        engine.data_files, engine.scratch = (header["data_folder"], header["data_files"]), header["scratch"]
        engine.load_onnx(model.tobytes(), header["observed"])
    return {name: np.asarray(value) for name, value in engine.run_onnx(arrays, header["wanted"]).items()}


def _run_program(
    engine: Engine, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Exports a module, says which values a program has, or runs it."""
    path = header["program"]
    if "folder" in header:
        return engine.export_program(path, header["folder"], opens_batch=header["opens_batch"])
    if "outputs" not in header:
        return {"values": engine.list_program_values(path)}, {}
    given = {name: arrays.pop(name) for name in header["given"]}
    return {}, engine.run_program(path, arrays, header["outputs"], header["observed"], given)


def _describe(error: Exception) -> dict[str, str]:
    """The failure as a finding's words: its kind and one line."""
    lines = [line for text in str(error).splitlines() if (line := _COLOURS.sub("", text).strip())]
    # OpenVINO begins with where it was thrown and ends with what is the matter, Keras with where, then what.
    place = next((at for sign, at in _SIGNS_OF_PLACES.items() if lines and lines[0].startswith(sign)), 0)
    says = (lines[place if place < len(lines) else 0] if lines else "")[:300]
    if isinstance(error, EngineUnsupported):
        return {"kind": error.kind, "says": says}
    text = f"{type(error).__name__} {error}".lower()
    if isinstance(error, MemoryError) or any(sign in text for sign in _SIGNS_OF_MEMORY):
        return {"kind": "out-of-memory", "says": f"{type(error).__name__}: {says}"}
    kind = "unsupported" if any(sign in text for sign in _SIGNS_OF_UNSUPPORTED) else "error"
    return {"kind": kind, "says": f"{type(error).__name__}: {says}"}


if __name__ == "__main__":
    sys.exit(main())
