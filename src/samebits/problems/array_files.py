"""One array out of a file, whatever wrote it: NumPy, torch, safetensors, ONNX's test data, or numbers as text.

Files are read as those of a stranger: nothing is unpickled, nothing larger than its bytes is made.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from samebits.errors import CaseFileError, SamebitsError
from samebits.limits import VALUE_BYTES
from samebits.numbers.format import find_stored_dtype
from samebits.problems.npy_files import list_members, make_printable, read_member, read_npy
from samebits.problems.printed_numbers import PrintedNumbers, parse_numbers
from samebits.problems.torch_tensors import find_tensors
from samebits.regular_files import as_utf8, open_regular

_TEXT = (".csv", ".txt", ".tsv", ".log")
_LARGEST_TEXT, _LARGEST_HEADER = 256 * 2**20, 100 * 2**20
_MOST_SHOWN = 6
# The format's own names: https://github.com/huggingface/safetensors (README, "Format").
_SAFETENSORS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64",
    "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip

Given = np.ndarray | PrintedNumbers
# What reads each array, by name.
Arrays = Mapping[str, Callable[[], Given]]


def read_array_file(text: str, wanted: str = "") -> Given:
    """The array of `FILE` or `FILE:MEMBER`; of a file with several, the one called `wanted`, or the only one.

    Raises CaseFileError, in one line, for whatever is wrong with the file, and for one with several arrays of which
    none is called so.
    """
    path, member = split_member(text)
    with _open_arrays(path) as arrays:
        return arrays[_choose(make_printable(str(path)), list(arrays), member, wanted)]()


def read_every_array(path: str | Path) -> dict[str, Given]:
    """All arrays of a file by name, "" for one without a name; raises CaseFileError as `read_array_file` does."""
    with _open_arrays(Path(path)) as arrays:
        found: dict[str, Given] = {}
        for name, read in arrays.items():
            found[name] = read()
            # Together, too, and before the next one is read: views of one piece of a file may be any number.
            total = sum(a.nbytes for a in found.values() if isinstance(a, np.ndarray))
            VALUE_BYTES.check(total, make_printable(str(path)))
        return found


def list_arrays(path: str | Path) -> list[str]:
    """The names of a file's arrays, "" for one without a name; raises CaseFileError as `read_array_file` does."""
    with _open_arrays(Path(path)) as arrays:
        return list(arrays)


def split_member(text: str) -> tuple[Path, str]:
    """A file and the name of an array in it; a file of the whole name comes first."""
    path, _, member = text.rpartition(":")
    if not path or os.path.lexists(text) or not os.path.lexists(path):
        return Path(text), ""
    return Path(path), member


def _choose(where: str, names: Sequence[str], member: str, wanted: str) -> str:
    """Which of a file's arrays is meant."""
    if member:
        if member in names:
            return member
        held = f"only {_join_names(names)}" if names and names != [""] else "and none with a name"
        raise CaseFileError(f"{where} has no array {make_printable(member)!r}, {held}")
    if len(names) == 1:
        return names[0]
    if wanted in names:
        return wanted
    if not names:
        raise CaseFileError(f"{where} holds no array")
    raise CaseFileError(f"{where} holds {_join_names(names)}: name one, as in {where}:{make_printable(names[0])}")


def _join_names(names: Sequence[str]) -> str:
    shown = ", ".join(make_printable(name) for name in names[:_MOST_SHOWN])
    return shown + (f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else "")


@contextlib.contextmanager
def _open_arrays(path: Path) -> Iterator[Arrays]:
    """What reads each array of a file, by name, while the file is open; errors become one line."""
    where = make_printable(str(path))
    try:
        with open_regular(path) as file, warnings.catch_warnings():
            # NumPy warns of headers that Python 2 wrote.
            warnings.simplefilter("ignore")
            yield _find_arrays(where, path, file)
    except SamebitsError:
        raise
    except OSError as error:
        raise CaseFileError(f"{where} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # Readers raise whatever hostile bytes make them raise.
        raise CaseFileError(f"{where} cannot be read: {(str(error) or type(error).__name__)[:100]}") from None


def _find_arrays(where: str, path: Path, file: BinaryIO) -> Arrays:
    """The arrays by what the file begins with; by the name's end only where the content does not say."""
    begin = file.read(8)
    file.seek(0)
    size = os.fstat(file.fileno()).st_size
    if begin.startswith(b"\x93NUMPY"):
        return {"": lambda: read_npy(where, file, size, path.name)}
    if begin.startswith(b"PK\x03\x04"):
        return _find_in_archive(where, zipfile.ZipFile(file))
    if path.suffix == ".safetensors":
        return _find_in_safetensors(where, file, size)
    if path.suffix == ".pb":
        return {"": lambda: _read_tensor_proto(where, file.read(VALUE_BYTES.read()))}
    if path.suffix in (".pt", ".pth", ".bin", ".pkl"):
        raise CaseFileError(f"{where} is no file of tensors as torch 1.6 or later saves them")
    if path.suffix not in _TEXT and b"\0" in begin:
        raise CaseFileError(f"{where} is no file of numbers: .npy, .npz, .pt, .safetensors, .pb and text are read")
    if size > _LARGEST_TEXT:
        raise CaseFileError(f"{where} has {size:,} bytes of text; store it with np.save")
    return {"": lambda: parse_numbers(where, as_utf8(file.read()).decode("utf-8-sig", errors="replace"))}


def _find_in_archive(where: str, archive: zipfile.ZipFile) -> Arrays:
    """The arrays of NumPy's archive, or of torch's."""
    members = list_members(where, archive)
    if any(name.rpartition("/")[2] == "data.pkl" for name in members):
        return find_tensors(where, archive, members)
    arrays = {name: member for name, member in members.items() if member.filename.endswith(".npy")}
    return {name: functools.partial(_read_entry, where, archive, member) for name, member in arrays.items()}


def _read_entry(where: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    VALUE_BYTES.check(member.file_size, where)
    return read_member(where, archive, member, member.file_size)


def _find_in_safetensors(where: str, file: BinaryIO, size: int) -> Arrays:
    """Eight bytes with the header's length, a header of JSON, the numbers; the library reads no narrow formats."""
    length = int.from_bytes(file.read(8), "little")
    if length > min(size, _LARGEST_HEADER):
        raise CaseFileError(f"{where} is no .safetensors file: its header is longer than the file")
    try:
        header = json.loads(file.read(length))
    except ValueError:
        raise CaseFileError(f"{where} is no .safetensors file: its header is no JSON") from None
    start = 8 + length
    return {
        name: functools.partial(_read_safetensor, where, file, entry, start, size - start)
        for name, entry in header.items()
        if name != "__metadata__"
    }


def _read_safetensor(where: str, file: BinaryIO, entry: Mapping[str, Any], start: int, size: int) -> np.ndarray:
    begin, end = entry["data_offsets"]
    name, shape = _SAFETENSORS.get(entry["dtype"]), tuple(map(int, entry["shape"]))
    if name is None:
        raise CaseFileError(f"{where} holds {make_printable(str(entry['dtype']))}, which is not read")
    dtype = find_stored_dtype(name)
    if min(shape, default=0) < 0 or not 0 <= begin <= end <= size:
        raise CaseFileError(f"{where}: a tensor reaches beyond the file")
    if math.prod(shape) * dtype.itemsize != end - begin:
        raise CaseFileError(f"{where}: a tensor's shape does not fit its {end - begin:,} bytes")
    file.seek(start + begin)
    return np.frombuffer(file.read(end - begin), dtype).reshape(shape).copy()


def _read_tensor_proto(where: str, data: bytes) -> np.ndarray:
    """A tensor of ONNX's test data sets (input_0.pb), whose numbers lie in the file itself."""
    import onnx
    from onnx import numpy_helper

    tensor = onnx.TensorProto()
    tensor.ParseFromString(data)
    if not tensor.data_type or tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise CaseFileError(f"{where} is no ONNX tensor with its numbers inside")
    return np.asarray(numpy_helper.to_array(tensor))
