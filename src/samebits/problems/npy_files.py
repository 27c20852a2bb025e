"""NumPy's files read as those of a stranger: no object, no array larger than its bytes, no byte read twice."""

from __future__ import annotations

import math
import zipfile
from typing import IO

import numpy as np
import numpy.lib.format as npy

from samebits.errors import CaseFileError

_LONGEST_NAME = 80


def list_members(where: str, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The archive's members by name; refuses two that NumPy would call the same, and two that share bytes.

    So all that is read comes from bytes of the file's own, and deflate makes at most 1,032 of one (zlib's manual).
    """
    members: dict[str, zipfile.ZipInfo] = {}
    end = 0
    for member in sorted(archive.infolist(), key=lambda m: m.header_offset):
        name = member.filename.removesuffix(".npy")
        if name in members:
            raise CaseFileError(f"{where} has two entries {make_printable(name)!r}; which one holds is not said")
        if member.header_offset < end:
            raise CaseFileError(f"{where}: entry {make_printable(name)!r} lies inside another one")
        end = member.header_offset + member.compress_size
        members[name] = member
    return members


def read_member(where: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo, limit: int) -> np.ndarray:
    """One entry's array; refuses what has more than `limit` bytes, or other bytes than its own header states."""
    name = make_printable(member.filename.removesuffix(".npy"))
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise CaseFileError(f"{where}: entry {name!r} is compressed in a way that NumPy does not write")
    if member.file_size > limit:
        raise CaseFileError(f"{where}: {name} has {member.file_size:,} bytes, at most {limit:,} are needed")
    with archive.open(member) as stream:
        return read_npy(where, stream, member.file_size, name)


def read_npy(where: str, stream: IO[bytes], size: int, name: str) -> np.ndarray:
    """The array of a `.npy` stream of so many bytes; raises CaseFileError for any other content."""
    if stream.read(len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
        raise CaseFileError(f"{where}: entry {name!r} is no .npy array")
    stream.seek(0)
    _check_header(where, name, stream, size)
    stream.seek(0)
    return npy.read_array(stream, allow_pickle=False)


def _check_header(where: str, name: str, stream: IO[bytes], size: int) -> None:
    """Refuses objects, and an array that is not just as large as its header states, before NumPy makes room for it."""
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise CaseFileError(f"{where}: entry {name!r} is .npy of version {version}; save it as 1.0")
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if dtype.hasobject:
        raise CaseFileError(f"{where} holds pickled objects, which samebits never loads")
    stated, held = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if min(shape, default=0) < 0 or stated != held:
        raise CaseFileError(f"{where}: {name} states {stated:,} bytes of numbers and has {held:,}")


def make_printable(name: str) -> str:
    """A name of a stranger's without what a terminal would obey or cannot show, and not too long."""
    return "".join(c if c.isprintable() else "?" for c in name)[:_LONGEST_NAME] or "unnamed"
