"""The processor's modes while we compute: round to nearest, keep subnormals, whatever the program around us has set."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Iterator

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
    """The environment this thread had before the outermost of our calls."""

    environment: ctypes.Array[ctypes.c_char] | None = None


_found = _find_library()
_callers = _Callers()


def reset_float_environment() -> None:
    """Sets the modes of this thread for good, as a thread of our own needs it: it inherits those of its maker."""
    if _found:
        library, default = _found
        library.fesetenv(default)


@contextlib.contextmanager
def default_float_environment() -> Iterator[None]:
    """Computes with the modes a program starts with; afterwards this thread has the ones it had before."""
    if not _found or _callers.environment is not None:
        yield
        return
    library, default = _found
    _callers.environment = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    library.fegetenv(_callers.environment)
    library.fesetenv(default)
    try:
        yield
    finally:
        library.fesetenv(_callers.environment)
        _callers.environment = None


@contextlib.contextmanager
def callers_float_environment() -> Iterator[None]:
    """Runs a caller's code, called from within ours, with the modes that the caller had set."""
    ours = _callers.environment
    if not _found or ours is None:
        yield
        return
    library, default = _found
    library.fesetenv(ours)
    _callers.environment = None
    try:
        yield
    finally:
        _callers.environment = ours
        library.fesetenv(default)
