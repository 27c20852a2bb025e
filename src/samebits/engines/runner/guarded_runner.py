"""A caller's runner, isolated: whatever it raises or does to arrays is contained and reported."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from samebits.engines.runner import Identity, Runner, check_result
from samebits.engines.runner.timed_runs import TimedRuns, time_calls
from samebits.errors import ArgumentError, EngineFailure, EngineRaised, EngineUnsupported
from samebits.numbers.float_environment import callers_float_environment
from samebits.numbers.ulps import has_same_bits
from samebits.problems import Problem
from samebits.problems.any_problem import AnyProblem

AnswerT = TypeVar("AnswerT")
_LONGEST_MESSAGE = 300
_EMULATOR = "emulate:"
# A comma, unless between the braces of a range, or written as part of a value.
_COMMA = re.compile(r"(?<!\\),(?![^{}]*\})")


class GuardedRunner:
    """Runs a caller's runner on copies of the operands, read-only, and returns a copy of its result.

    So a runner that keeps one buffer for its results, returns a memory-mapped file or changes its operands deceives
    nobody. Whatever it raises but KeyboardInterrupt becomes an EngineRaised; `close` never raises. `identify` says in
    its notes what the runner was seen to do.
    """

    def __init__(self, runner: Runner, text: str):
        self.text = text
        self._runner = runner
        self._identity: Identity | None = None
        self._last: npt.NDArray[Any] | None = None
        self._remarks: dict[str, None] = {}

    def identify(self) -> Identity:
        """What the runner says of itself, and what it was seen to do so far. Raises EngineFailure."""
        if self._identity is None:
            identity: Any = self._call(self._runner.identify)
            if not isinstance(identity, Identity):
                raise EngineRaised(f"identify() returned a {type(identity).__name__} where an Identity was asked for")
            self._identity = replace(identity, notes=tuple(str(note) for note in identity.notes or ()))
        return replace(self._identity, notes=(*self._identity.notes, *self._remarks))

    def run(self, problem: AnyProblem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """The runner's result in memory of its own, checked for shape and dtype. Raises EngineFailure."""
        given = _copy_all(operands)
        returned = self._call(lambda: self._runner.run(problem, given))
        self._note_changes(given, operands)
        result = check_result(problem, returned)
        if isinstance(returned, np.memmap):
            self._remarks["returned a memory-mapped file, which was copied"] = None
        elif self._last is not None and np.may_share_memory(self._last, result):
            self._remarks["returned its results in one and the same buffer, which was copied each time"] = None
        self._last = result
        return np.array(result, subok=False)

    def time_runs(self, problem: Problem, operands: Mapping[str, np.ndarray], runs: int) -> TimedRuns:
        """Times the runner's own calls, each on its own copy of the operands. Raises EngineFailure."""
        taken: list[TimedRuns] = []
        for _ in range(runs):
            taken.append(self._time_run(problem, _copy_all(operands), operands))
        return TimedRuns(
            tuple(t.seconds[0] for t in taken), tuple(dict.fromkeys(digest for t in taken for digest in t.digests))
        )

    def _time_run(
        self, problem: Problem, given: dict[str, np.ndarray], operands: Mapping[str, np.ndarray]
    ) -> TimedRuns:
        timed = time_calls(
            lambda: self._call(lambda: self._runner.run(problem, given)), lambda r: check_result(problem, r), 1
        )
        self._note_changes(given, operands)
        return timed

    def _note_changes(self, given: Mapping[str, np.ndarray], operands: Mapping[str, np.ndarray]) -> None:
        for name, array in given.items():
            if not has_same_bits(array, operands[name]):
                self._remarks[f"changed {name} while it ran; every run was given its own copy"] = None

    def close(self) -> None:
        """Does nothing: the caller that opened the runner closes it."""

    def _call(self, function: Callable[[], AnswerT]) -> AnswerT:
        try:
            with callers_float_environment():
                return function()
        except (EngineFailure, KeyboardInterrupt):
            raise
        except NotImplementedError as error:
            raise EngineUnsupported(describe_exception(error)) from None
        except BaseException as error:  # A runner is anybody's code: SystemExit too is a finding of its side.
            raise EngineRaised(describe_exception(error)) from None


def _copy_all(operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Copies, read-only."""
    given = {name: array.copy() for name, array in operands.items()}
    for array in given.values():
        array.flags.writeable = False
    return given


class FunctionRunner:
    """A bare function `kernel(problem, operands) -> array` as a runner, named as the function is."""

    def __init__(self, kernel: Callable[..., Any]) -> None:
        name = getattr(kernel, "__name__", "")
        self.text = name if name.isidentifier() else "function"
        self._kernel = kernel

    def identify(self) -> Identity:
        return Identity(self.text, self.text, "", "CPU")

    def run(self, problem: AnyProblem, operands: Mapping[str, np.ndarray]) -> Any:
        # Some data overflow on purpose.
        with np.errstate(all="ignore"):
            try:
                return self._kernel(problem, operands)
            except EngineFailure:
                raise
            except NotImplementedError as error:
                raise EngineUnsupported(describe_exception(error)) from error
            except Exception as error:
                says = f"{describe_exception(error)} (a function is called as kernel(problem, operands))"
                raise EngineRaised(says) from error

    def close(self) -> None:
        return


def split_engine_texts(text: str) -> list[str]:
    """The engines that a text names, settings and all: torch:threads=1,layout=channels_last,onnxruntime are two.

    Settings are KEY=VALUE, so that what follows a comma without that is another engine. Recipes have commas of their
    own: an emulator comes last.
    """
    if text.startswith(_EMULATOR) or os.path.lexists(text.rpartition(":")[0]):
        return [text]
    found: list[str] = []
    for part in _COMMA.split(text):
        key, equals, _ = part.partition("=")
        if found and ((equals and ":" not in key) or found[-1].startswith(_EMULATOR)):
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


def list_runners(on: object) -> list[Any]:
    """What runs, one by one, of whatever a caller gives: one engine's text, runner or function, or a sequence of them.

    Raises ArgumentError for what is none of these.
    """
    if isinstance(on, str):
        return split_engine_texts(on)
    if isinstance(on, (FunctionType, partial, Runner)):
        return [on]
    if isinstance(on, Sequence) and not isinstance(on, bytes):
        return list(cast("Sequence[Any]", on))
    raise ArgumentError(f"on must be an engine's text, a runner, a function, or a list of them, not {on!r}")


def guard_runner(runner: Any) -> GuardedRunner:
    """The guarded form of a caller's runner, or of a bare function; raises ArgumentError for what is neither."""
    if isinstance(runner, (FunctionType, partial)):
        return guard_runner(FunctionRunner(cast("Callable[..., Any]", runner)))
    try:
        text, is_runner = getattr(runner, "text", None), isinstance(runner, Runner)
    except Exception as error:
        raise ArgumentError(f"a runner's text cannot be read: {describe_exception(error)}") from None
    if not is_runner:
        raise ArgumentError(f"{_describe_object(runner)} is neither an engine's text, a runner nor a function")
    if not isinstance(text, str) or not text:
        raise ArgumentError(f"a runner's text must be a string that names it, not {_describe_object(text)}")
    return GuardedRunner(runner, text)


def describe_exception(error: BaseException) -> str:
    """One line about an exception of anybody's code, even one that cannot say what it is."""
    try:
        says = " ".join(str(error).split())[:_LONGEST_MESSAGE]
    except Exception:
        says = ""
    return f"{type(error).__name__}: {says}" if says else type(error).__name__


def _describe_object(thing: Any) -> str:
    try:
        return repr(thing)[:_LONGEST_MESSAGE]
    except Exception:
        return f"a {type(thing).__name__}"
