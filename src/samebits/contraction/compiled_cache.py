"""How our functions are compiled, and when compiled code on disk is thrown away: when any of our sources changed.

Numba keeps compiled functions beside their source and notices a change of that one file only; but a function is
compiled together with all it calls, from other files too. So a digest of all sources is kept beside the code.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

_PACKAGE = Path(__file__).parent.parent
_COMPILED_PARTS = ("contraction", "truth", "emulators")


def discard_stale_code() -> None:
    """Deletes our compiled functions unless made from the present sources; harmless where it may not write."""
    folder = Path(__file__).parent / "__pycache__"
    stamp = folder / "sources.sha256"
    digest = _digest_sources()
    with contextlib.suppress(OSError):
        if stamp.exists() and stamp.read_text() == digest:
            return
        for part in _COMPILED_PARTS:
            for path in (_PACKAGE / part / "__pycache__").glob("*.nb[ic]"):
                path.unlink(missing_ok=True)
        folder.mkdir(exist_ok=True)
        stamp.write_text(digest)


def _digest_sources() -> str:
    digest = hashlib.sha256()
    for part in _COMPILED_PARTS:
        for path in sorted((_PACKAGE / part).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compiles a function so that it releases the interpreter lock, kept on disk where there is a place to write."""

    def compile_function(source: Callable[..., Any]) -> Any:
        try:
            return njit(nogil=True, cache=True, **options)(source)
        except RuntimeError:  # Numba found no writable place for the code: neither beside the source nor in a home.
            return njit(nogil=True, **options)(source)

    return compile_function if function is None else compile_function(function)
