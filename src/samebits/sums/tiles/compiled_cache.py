"""How our functions are compiled, and how compiled code is kept on disk: only code that is intact and ours is loaded.

Numba's own cache notices a change of one source file only, though a function is compiled together with all it calls,
and it loads whatever lies in its files. Here each compiled function is one file: the digest of what follows, then the
code. Its name holds digests of all compiled sources and of the processor, so that other code is never found; a file
that is damaged in any way does not have its digest, and its function is compiled again.

The code is unpickled, so whoever can write these files can run programs as whoever reads them. They lie in a folder
of their own that belongs to the user and that nobody else may enter (mode 0700); one that is otherwise is not used.
That folder lies beside the sources, or below SAMEBITS_CODE_DIR: sources that travel to another machine come to lie in a
new place each time, and would be compiled there each time.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import pickle
import secrets
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import njit
from numba.core import serialize
from numba.core.caching import FunctionCache

from samebits.errors import CodeNotKeptWarning
from samebits.regular_files import OWN_FOLDER
from samebits.sums.tiles.compile_notices import note_compiled, note_compiling

# All code that is compiled lies below it.
_COMPILED = OWN_FOLDER / "sums"
_DIGEST_BYTES = hashlib.sha256().digest_size
_NAME_DIGITS = 16
_OTHERS = 0o077
# Code of other sources, which another samebits of this user may still need, is removed at this age.
_MOST_AGE_S = 30 * 24 * 3600.0


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

    def __init__(self, source: Callable[..., Any]) -> None:
        super().__init__(source)
        self._is_shared = False
        place, path = os.environ.get("SAMEBITS_CODE_DIR"), Path(source.__code__.co_filename)
        if place and path.is_relative_to(_COMPILED):
            self._is_shared = True
            self._cache_path = str(Path(place).expanduser() / path.parent.relative_to(_COMPILED))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled form for a signature, or None where there is none that is intact."""
        target_context.refresh()
        # Whatever is the matter with a file: its function is compiled again.
        with contextlib.suppress(Exception):
            name = self._name_file(sig, target_context.codegen())
            folder = _open_own_folder(self._cache_path)
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(descriptor, "rb") as file:
                kept = file.read()
            digest, code = kept[:_DIGEST_BYTES], kept[_DIGEST_BYTES:]
            if digest == _digest_code(name, code):
                return self._impl.rebuild(target_context, pickle.loads(code))
        note_compiling(self._name)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps a compiled form; where that fails it says so once and the program goes on."""
        note_compiled(self._name)
        if not self._impl.check_cachable(data):
            return
        try:
            os.makedirs(self._cache_path, exist_ok=True)
            self._write(self._name_file(sig, data.codegen), serialize.dumps(self._impl.reduce(data)))
        except OSError as error:
            says = str(error.strerror or error)
            _warn_once(says if self._cache_path in says else f"{says} in {self._cache_path}")

    def _name_file(self, sig: Any, codegen: Any) -> str:
        key = hashlib.sha256(
            repr((numba.__version__, llvmlite.__version__, self._index_key(sig, codegen))).encode()
        ).hexdigest()
        return f"{self._stem()}.{_digest_sources()}.{key[:_NAME_DIGITS]}.code"

    def _stem(self) -> str:
        return str(self._impl.filename_base)

    def _write(self, name: str, code: bytes) -> None:
        """All or nothing: another process may read at any time."""
        folder = _open_own_folder(self._cache_path)
        begun = f"{name}.{secrets.token_hex(8)}.new"
        descriptor = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_digest_code(name, code) + code)
            os.replace(begun, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            os.unlink(begun, dir_fd=folder)
            raise
        for old in os.listdir(folder):
            parts = old.rsplit(".", 3)
            if parts[0] == self._stem() and parts[-1] == "code" and parts[1] != _digest_sources():
                with contextlib.suppress(OSError):
                    if not self._is_shared or time.time() - os.stat(old, dir_fd=folder).st_mtime > _MOST_AGE_S:
                        os.unlink(old, dir_fd=folder)


@functools.cache
def _open_own_folder(parent: str) -> int:
    """The user's own folder in a cache's, made if it is not there. Raises OSError where it is not the user's alone.

    It stays open: what is checked here is what is read from later, wherever its name may lead by then.
    """
    path = os.path.join(parent, f"samebits-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(folder)
    if found.st_uid != os.getuid() or found.st_mode & _OTHERS:
        os.close(folder)
        whose = "belongs to another user" if found.st_uid != os.getuid() else f"has mode {found.st_mode & 0o777:04o}"
        raise PermissionError(errno.EACCES, f"{path} {whose}, and must be this user's with mode 0700", path)
    return folder


def _digest_code(name: str, code: bytes) -> bytes:
    """Of the name too: intact code of another function is not this one's."""
    return hashlib.sha256(name.encode() + b"\0" + code).digest()


@functools.cache
def _digest_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(_COMPILED.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_NAME_DIGITS]


@functools.cache
def _warn_once(why: str) -> None:
    warnings.warn(
        f"compiled code cannot be kept ({why}), so that every start compiles again; "
        "SAMEBITS_CODE_DIR can name a folder for it",
        CodeNotKeptWarning,
        stacklevel=2,
    )
