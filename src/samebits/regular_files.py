"""Files opened as those of a stranger: a pipe, a device or a folder in place of a file is refused."""

from __future__ import annotations

import codecs
import contextlib
import difflib
import errno
import io
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Where samebits lies: what is shown or sent to another Python.
OWN_FOLDER = Path(__file__).resolve().parent
_NO_FILE = "it is no regular file"
# Of a folder so many names are looked at for one that was meant.
_MOST_NAMES = 1000
# How a pointer begins that stands for a file kept elsewhere. Source: Git LFS, docs/spec.md.
_POINTER = b"version https://git-lfs.github.com/spec/"


def open_regular(path: str | Path) -> io.BufferedReader:
    """A regular file opened for reading; raises OSError, whose `strerror` says what else it is.

    A named pipe that nobody writes to would keep a plain `open` waiting for ever.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError:
        raise OSError(errno.EINVAL, "a file's name holds no NUL character", str(path)) from None
    except OSError as error:
        # So a socket is answered.
        if error.errno == errno.ENXIO:
            raise OSError(errno.EINVAL, _NO_FILE, str(path)) from None
        if error.errno == errno.ENOENT and (close := _find_close_name(Path(path))):
            raise OSError(errno.ENOENT, f"{error.strerror}; did you mean {close}?", str(path)) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, _NO_FILE, str(path))
    file = os.fdopen(descriptor, "rb")
    if file.peek(len(_POINTER))[: len(_POINTER)] == _POINTER:
        file.close()
        raise OSError(errno.EINVAL, "it is a pointer of Git LFS: git lfs pull fetches the file", str(path))
    return file


def as_utf8(data: bytes) -> bytes:
    """Text that begins with the mark of UTF-16, as Windows' shell and spreadsheets write it, in UTF-8."""
    if not data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data
    return data.decode("utf-16", "replace").encode("utf-8", "replace")


def read_regular(path: str | Path, most_bytes: int) -> bytes:
    """All of a regular file of at most so many bytes; raises OSError for another one, or a larger one."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            raise OSError(errno.EFBIG, f"it has {size:,} bytes; at most {most_bytes:,} are read", str(path))
        # It may grow while it is read.
        return file.read(most_bytes)


def check_target(path: str | Path) -> None:
    """Raises OSError where writing to the path would wait or harm: a folder, a pipe without a reader, a socket.

    What is not there, a regular file, and a device such as /dev/null may be written to.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except ValueError:
        raise OSError(errno.EINVAL, "a file's name holds no NUL character", str(path)) from None
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISFIFO(mode):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            says = "it is a pipe that nobody reads" if error.errno == errno.ENXIO else error.strerror
            raise OSError(error.errno, says, str(path)) from None
    elif not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
        raise OSError(errno.EINVAL, _NO_FILE, str(path))


def write_text(path: str | Path, text: str) -> None:
    """Writes a text file; raises OSError where `check_target` does."""
    check_target(path)
    Path(path).write_text(text, encoding="utf-8")


_OPEN: list[str] = []


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """An empty folder; it and what lies in it are removed at the end."""
    name = tempfile.mkdtemp(prefix="samebits-")
    _OPEN.append(name)
    try:
        yield Path(name)
    finally:
        shutil.rmtree(name, ignore_errors=True)
        _OPEN.remove(name)


def remove_folders() -> None:
    """Removes those that are open: the program ends without leaving their blocks."""
    for name in list(_OPEN):
        shutil.rmtree(name, ignore_errors=True)


def _find_close_name(path: Path) -> str:
    """The file of the same folder whose name is closest to that of one that is not there; "" for none."""
    try:
        names = [entry.name for entry in itertools.islice(os.scandir(path.parent), _MOST_NAMES)]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, names, 1, cutoff=0.75)
    return "".join(c if c.isprintable() else "?" for c in str(path.with_name(close[0]))) if close else ""
