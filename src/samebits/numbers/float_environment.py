"""The modes in which we compute, whatever the program around us has set: the processor's, and what NumPy warns of.

Rounding is to nearest and subnormals are kept. NumPy warns of nothing: on infinities, NaN and overflow everything here
computes on purpose, and looks at what comes of it.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

# Larger than any C library's fenv_t (x86-64: 32 bytes; AArch64: 16).
_ENVIRONMENT_BYTES = 256


def _find_library() -> tuple[ctypes.CDLL, ctypes.c_void_p] | None:
    """The C library and its FE_DFL_ENV, the environment a program starts with; None where there is none."""
    try:
        library = ctypes.CDLL(None)
        _ = library.fegetenv, library.fesetenv
        if sys.platform == "darwin":
            return library, ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(library, "_FE_DFL_ENV")))
        return library, ctypes.c_void_p(-1)
    except (OSError, AttributeError, ValueError, TypeError):
        return None


class _Callers(threading.local):
    """What this thread had set before the outermost of our calls."""

    environment: ctypes.Array[ctypes.c_char] | None = None
    warnings: dict[str, Any] | None = None


_found = _find_library()
_callers = _Callers()


def reset_float_environment() -> None:
    """Sets the modes of this thread for good, as a thread of our own needs it: it inherits those of its maker."""
    if _found:
        library, default = _found
        library.fesetenv(default)


@contextlib.contextmanager
def default_float_environment() -> Iterator[None]:
    """Computes with the modes a program starts with, without warnings; afterwards this thread has its own again."""
    if _callers.warnings is not None:
        yield
        return
    _callers.warnings = dict(np.geterr())
    if _found:
        library, default = _found
        _callers.environment = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
        library.fegetenv(_callers.environment)
        library.fesetenv(default)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        if _found:
            _found[0].fesetenv(_callers.environment)
        _callers.environment = _callers.warnings = None


@contextlib.contextmanager
def callers_float_environment() -> Iterator[None]:
    """Runs a caller's code, called from within ours, with the modes and warnings that the caller had set."""
    environment, warnings = _callers.environment, _callers.warnings
    if warnings is None:
        yield
        return
    _callers.environment = _callers.warnings = None
    if _found:
        _found[0].fesetenv(environment)
    try:
        with np.errstate(**warnings):
            yield
    finally:
        _callers.environment, _callers.warnings = environment, warnings
        if _found:
            library, default = _found
            library.fesetenv(default)
