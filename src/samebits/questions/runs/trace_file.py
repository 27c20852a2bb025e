"""The file of a trace: blocks that several processes append, each whole or not there; what a reader makes of them.

A block is a mark, its length, its checksum, and compressed msgpack. A process that is killed loses what it had not yet
appended, nothing else: a reader stops where a block is cut off.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from samebits.errors import TraceError
from samebits.regular_files import open_regular

_MARK = b"SBT1"
_HEAD = struct.Struct("<4sII")
_LARGEST_BLOCK = 64 * 2**20
_LARGEST_TEXT = 512 * 2**20

# An input: the number of the output it was; or 16 bytes of its own, with the number of the output through which its
# memory was written last, where that is known; or None where nothing can be said of its bits.
Input = int | bytes | tuple[int, bytes] | None


class Record(msgspec.Struct, array_like=True, frozen=True):
    """One operation. Texts stand in the process's table; `outputs` get numbers in sequence, over all records.

    `what` is the operation with shapes and settings, `where` its module, line and direction. Outputs of a view have no
    fingerprint of their own. `random` is the random state's fingerprint before, where the operation draws numbers.
    """

    what: int
    where: int
    step: int
    inputs: list[Input]
    outputs: list[bytes | None]
    is_view: bool = False
    random: bytes | None = None


class Block(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one process appended at once. `rows` has, by the fingerprint of a tensor from outside, those of its rows.

    `command` is the process's own, `root` what the run was started with, `folder` where: as `write_word` has it.
    """

    process: str
    number: int
    texts: list[str] = []
    records: list[Record] = []
    settings: dict[str, str] | None = None
    rows: dict[str, list[int]] = {}
    states: list[tuple[int, str, bytes]] = []
    command: list[str] | None = None
    folder: str = ""
    root: list[str] = []
    is_last: bool = False


_ENCODER = msgspec.msgpack.Encoder()


def write_word(text: str) -> str:
    """A word of a command, or a folder, as a block can hold it: what is no UTF-8 becomes NUL and its bytes in hex."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "\0" + os.fsencode(text).hex()
    return text


def read_word(stored: str) -> str:
    """The word that `write_word` was given; raises ValueError for what it does not write."""
    return os.fsdecode(bytes.fromhex(stored[1:])) if stored.startswith("\0") else stored


def append_block(descriptor: int, content: Any) -> None:
    """Appends one block with a single write; `content` is a Block, or what encodes as one."""
    packed = zlib.compress(_ENCODER.encode(content), 1)
    data = _HEAD.pack(_MARK, len(packed), zlib.crc32(packed)) + packed
    while data:
        data = data[os.write(descriptor, data) :]


def read_blocks(path: Path) -> Iterator[Block]:
    """All whole blocks; raises TraceError for a file that is no trace. What is cut off or damaged ends it."""
    decoder = msgspec.msgpack.Decoder(Block)
    try:
        with open_regular(path) as file:
            if file.read(4) != _MARK:
                raise TraceError(f"{path} is no trace of samebits")
            file.seek(0)
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                mark, length, checksum = _HEAD.unpack(head)
                packed = file.read(length) if mark == _MARK and length <= _LARGEST_BLOCK else b""
                if len(packed) != length or zlib.crc32(packed) != checksum:
                    return
                unpacker = zlib.decompressobj()
                content = unpacker.decompress(packed, _LARGEST_TEXT)
                if unpacker.unconsumed_tail:
                    raise TraceError(f"{path}: a block of it is larger than any that samebits writes")
                yield decoder.decode(content)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (zlib.error, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: a damaged trace ({str(error)[:100]})") from None
