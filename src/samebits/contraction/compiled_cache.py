"""How our functions are compiled, and how compiled code is kept on disk: only code that is intact and ours is loaded.

Numba's own cache notices a change of one source file only, though a function is compiled together with all it calls,
and it loads whatever lies in its files. Here each compiled function is one file: the digest of what follows, then the
code. Its name holds digests of all compiled sources and of the processor, so that other code is never found; a file
that is damaged in any way does not have its digest, and its function is compiled anew.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import njit
from numba.core import serialize
from numba.core.caching import FunctionCache

from samebits.contraction.compile_notices import note_compiled, note_compiling
from samebits.errors import CodeNotKeptWarning

_PACKAGE = Path(__file__).parent.parent
_COMPILED_PARTS = ("contraction", "truth", "emulators")
_DIGEST_BYTES = hashlib.sha256().digest_size
_NAME_DIGITS = 16
_KEPT_MODE = 0o644


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compiles a function so that it releases the interpreter lock, kept on disk where there is a place to write."""

    def compile_function(source: Callable[..., Any]) -> Any:
        dispatcher: Any = njit(nogil=True, **options)(source)
        try:
            dispatcher._cache = _KeptCode(source)
        except (RuntimeError, OSError):  # No writable place for the code: neither beside the source nor in a home.
            _warn_once("no folder for it can be written to")
        return dispatcher

    return compile_function if function is None else compile_function(function)


class _KeptCode(FunctionCache):
    """Compiled forms of one function on disk, as Numba asks for them."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled form for a signature, or None where there is none that is intact."""
        target_context.refresh()
        # Whatever is the matter with a file: its function is compiled anew.
        with contextlib.suppress(Exception):
            path = self._path(sig, target_context.codegen())
            kept = path.read_bytes()
            digest, code = kept[:_DIGEST_BYTES], kept[_DIGEST_BYTES:]
            if digest == _digest_code(path, code):
                return self._impl.rebuild(target_context, pickle.loads(code))
        note_compiling(self._name)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps a compiled form; where that fails it says so once and the program goes on."""
        note_compiled(self._name)
        if not self._impl.check_cachable(data):
            return
        try:
            self._impl.locator.ensure_cache_path()
            self._write(self._path(sig, data.codegen), serialize.dumps(self._impl.reduce(data)))
        except OSError as error:
            _warn_once(f"{error.strerror or error} in {self._cache_path}")

    def _path(self, sig: Any, codegen: Any) -> Path:
        key = hashlib.sha256(
            repr((numba.__version__, llvmlite.__version__, self._index_key(sig, codegen))).encode()
        ).hexdigest()
        return Path(self._cache_path, f"{self._stem()}.{_digest_sources()}.{key[:_NAME_DIGITS]}.code")

    def _stem(self) -> str:
        return str(self._impl.filename_base)

    def _write(self, path: Path, code: bytes) -> None:
        """All or nothing: another process may read at any time."""
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f"{self._stem()}.", delete=False) as file:
            try:
                file.write(_digest_code(path, code) + code)
                file.flush()
                # A temporary file is its owner's alone; code in a folder that several share is for all of them.
                os.chmod(file.name, _KEPT_MODE)
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
        for old in path.parent.glob(f"{self._stem()}.*.code"):
            if old.name.split(".")[-3] != _digest_sources():
                with contextlib.suppress(OSError):
                    old.unlink()


def _digest_code(path: Path, code: bytes) -> bytes:
    """Of the name too: intact code of another function is not this one's."""
    return hashlib.sha256(path.name.encode() + b"\0" + code).digest()


@functools.cache
def _digest_sources() -> str:
    digest = hashlib.sha256()
    for part in _COMPILED_PARTS:
        for path in sorted((_PACKAGE / part).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:_NAME_DIGITS]


@functools.cache
def _warn_once(why: str) -> None:
    warnings.warn(
        f"compiled code cannot be kept ({why}), so that every start compiles anew; "
        "NUMBA_CACHE_DIR can name a folder for it",
        CodeNotKeptWarning,
        stacklevel=2,
    )
