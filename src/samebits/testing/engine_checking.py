"""Checks of a third-party engine: one line for each requirement of samebits that it does not meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from samebits.engines.adapters.engine import InForce, Setting
from samebits.errors import EngineUnsupported
from samebits.problems import Problem, format_problem, parse_problem_text
from samebits.testing.conforming import check_property

# Problems of every kind, in three formats; an engine may refuse those that it does not support.
PROBLEMS = (
    "matmul x=3x8 w=8x4",
    "linear x=2x3x40 w=5x40 bias",
    "linear x=4x40 w=8x40 dtype=float16",
    "linear x=4x40 w=8x40 dtype=bfloat16",
    "conv1d x=2x4x20 w=6x4x3 padding=1",
    "conv2d x=2x4x9x7 w=6x2x3x3 stride=2 padding=1:0x0:2 dilation=1x2 groups=2 bias then=relu",
    "conv3d x=1x2x5x5x5 w=3x2x2x2x2",
    "conv_transpose2d x=1x4x5x5 w=4x3x3x3 stride=2 padding=1 output_padding=1",
    "conv2d.grad_input x=2x4x9x7 w=6x4x3x3",
    "conv2d.grad_weight x=2x4x9x7 w=6x4x3x3",
)
_CHECKED = ("exact", "bounds", "repeat")
_TAKEN = ("python", "ssh", "docker")


def engine_conformance(engine: type | Callable[..., Any]) -> list[str]:
    """Lists what an engine still lacks, one line each; empty where nothing is missing.

    A class is made and loaded in this process, also with each choice of its settings. It must compute all of PROBLEMS
    that it does not refuse: with the right shape and dtype, exactly on integers, every output within its bound, with
    the same bits again, and without changing operands. A function `kernel(problem, operands)` is checked on the
    problems alone.

    >>> engine_conformance(lambda problem, operands: operands["x"])[0]
    'matmul x=3x8 w=8x4 dtype=float32: shape (3, 8) in place of (3, 4)'
    """
    if not isinstance(engine, type):
        return list(_check_problems(engine, lambda _: None))
    try:
        made: Any = engine()
    except Exception as error:
        return [f"cannot be made without arguments: {_describe(error)}"]
    missing = [*_check_settings(made), *_check_loading(made), *_check_report(made)]
    if not callable(getattr(made, "run", None)):
        return [*missing, "has no run(problem, operands)"]
    explain = getattr(made, "explain_unsupported", None) or (lambda _: None)
    return [*missing, *_check_problems(made.run, explain)]


def _check_settings(made: Any) -> Iterator[str]:
    declared = getattr(made, "settings", {})
    if not isinstance(declared, Mapping):
        yield f"settings must be a dict of samebits.engine.Setting, not {type(declared).__name__}"
        return
    for name, setting in declared.items():
        if not isinstance(setting, Setting):
            yield f"settings[{name!r}] must be a samebits.engine.Setting, not {type(setting).__name__}"
        if name in _TAKEN or name.startswith("env.") or any(sign in name for sign in ",=:"):
            yield f"settings[{name!r}]: a text cannot name it; {', '.join(_TAKEN)} and env.NAME are samebits' own"


def _check_loading(made: Any) -> Iterator[str]:
    """Loads the engine with each choice of each setting, and at last with none; yields what fails.

    A choice may be refused with EngineUnsupported, as one that needs a device that is not here; the defaults may not.
    """
    declared = getattr(made, "settings", {})
    load = getattr(made, "load", None)
    if load is None:
        return
    known = declared.items() if isinstance(declared, Mapping) else ()
    choices = {n: s.choices for n, s in known if isinstance(s, Setting)}
    for given in (*({n: value} for n, values in choices.items() for value in values), {}):
        try:
            load(given)
        except Exception as error:
            if given and isinstance(error, EngineUnsupported):
                continue
            yield f"load({given}) raises {_describe(error)}"


def _check_report(made: Any) -> Iterator[str]:
    report = getattr(made, "report", None)
    if report is None:
        return
    try:
        said = report()
    except Exception as error:
        yield f"report() raises {_describe(error)}"
        return
    if not isinstance(said, InForce):
        yield f"report() must return a samebits.engine.InForce, not {type(said).__name__}"
    elif not all(isinstance(t, str) for t in (said.version, said.device, *said.settings, *said.settings.values())):
        yield "report(): version, device and settings are texts"


def _check_problems(run: Callable[..., Any], explain: Callable[[Problem], Any]) -> Iterator[str]:
    taken = 0
    for text in PROBLEMS:
        problem = parse_problem_text(text)
        name = format_problem(problem)
        try:
            reason = explain(problem)
        except Exception as error:
            yield f"{name}: explain_unsupported raises {_describe(error)}"
            continue
        if isinstance(reason, str):
            continue
        if reason is not None:
            yield f"{name}: explain_unsupported must return a text or None, not {type(reason).__name__}"
        try:
            said = _find_fault(run, problem)
        except EngineUnsupported:
            continue
        taken += 1
        if said is not None:
            yield f"{name}: {said}"
    if not taken:
        yield "computes none of the problems that it was asked"


def _find_fault(run: Callable[..., Any], problem: Problem) -> str | None:
    """What is wrong with a result on one problem, or None; raises EngineUnsupported where the engine refuses it."""
    for promised in _CHECKED:
        try:
            check_property(lambda given, operands: _run(run, given, operands), problem, promised)
        except EngineUnsupported:
            raise
        except _Misshapen as error:
            return str(error)
        except AssertionError as error:
            return f"{promised}: {' '.join(str(error).split())[:300]}"
        except Exception as error:
            return f"raises {_describe(error)}"
    return None


class _Misshapen(Exception):
    """A result of another shape or dtype."""


def _run(run: Callable[..., Any], problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
    result = np.asarray(run(problem, operands))
    if result.shape != problem.out_shape:
        raise _Misshapen(f"shape {result.shape} in place of {problem.out_shape}")
    if str(result.dtype) != problem.out:
        raise _Misshapen(f"dtype {result.dtype} in place of {problem.out}")
    return result


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
