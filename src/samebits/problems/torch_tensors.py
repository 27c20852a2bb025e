"""Tensors of files that torch.save wrote, read without torch and without unpickling.

Such a file is a zip archive: `data.pkl` says by a pickle's opcodes which tensors there are, `data/N` holds their bytes.
The opcodes are listed (`pickletools`), never executed; those that tensors in plain containers need are acted on here,
with tuples in place of objects. Whatever else a file names stays a name that nothing calls.

Source: torch 2.13, `torch/serialization.py` (`_save`), `torch/_utils.py` (`_rebuild_tensor_v2`, `_v3`).
"""

from __future__ import annotations

import functools
import io
import math
import pickletools
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.errors import CaseFileError
from samebits.limits import VALUE_BYTES
from samebits.numbers.format import find_stored_dtype

_STORED = {
    "FloatStorage": "float32", "DoubleStorage": "float64", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool",
}  # fmt: skip
_OF_TYPE = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64", "uint16", "uint32", "uint64")
_REBUILT = ("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3")
_PARAMETER, _DICTIONARY = "torch._utils _rebuild_parameter", "collections OrderedDict"
_LARGEST_PICKLE, _ORDER = 64 * 2**20, b"little"
_MARK = object()


@dataclass(frozen=True)
class _Name:
    """What a pickle calls by name."""

    text: str


@dataclass(frozen=True)
class _Storage:
    """The bytes of one entry, and the name of its dtype where the pickle says it there."""

    key: str
    dtype: str | None


@dataclass(frozen=True)
class _Tensor:
    """Where a tensor lies in its storage, in elements."""

    storage: _Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def find_tensors(
    where: str, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo]
) -> dict[str, Callable[[], np.ndarray]]:
    """What reads each tensor, by name: a dictionary's keys, a list's places, or "" for one alone.

    `members` are the archive's, by name. Raises CaseFileError for a file that holds anything but tensors in plain
    containers, and for a damaged one; `where` begins its message.
    """
    pickled = next(name for name in members if name.rpartition("/")[2] == "data.pkl")
    if members[pickled].file_size > _LARGEST_PICKLE:
        raise CaseFileError(f"{where} lists more tensors than are read")
    folder = pickled.removesuffix("data.pkl")
    inside = {name.removeprefix(folder): member for name, member in members.items()}
    if "byteorder" in inside and archive.open(inside["byteorder"]).read(len(_ORDER) + 1) != _ORDER:
        raise CaseFileError(f"{where} holds numbers with the highest byte first; save it on this machine")
    tensors = _name_tensors(_interpret(where, archive.read(members[pickled])))
    return {name: functools.partial(_load, where, archive, inside, tensor) for name, tensor in tensors.items()}


def _name_tensors(saved: Any) -> dict[str, _Tensor]:
    """The tensors inside containers, named by all keys on the way: model.fc.weight.

    A container is entered once: a file may put one into itself, or many times into others.
    """
    named: dict[str, _Tensor] = {}
    entered: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", saved)]
    while waiting:
        name, item = waiting.pop()
        if isinstance(item, _Tensor):
            named[name] = item
        elif isinstance(item, dict | list | tuple) and id(item) not in entered:
            entered.add(id(item))
            inside = item.items() if isinstance(item, dict) else enumerate(item)
            waiting += reversed([(f"{name}.{key}" if name else str(key), inner) for key, inner in inside])
    return named


def _load(where: str, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], tensor: _Tensor) -> np.ndarray:
    """One tensor as an array of its own; nothing outside its storage is read, and no more than that holds."""
    member = members.get(f"data/{tensor.storage.key}")
    dtype = find_stored_dtype(tensor.dtype)
    if member is None:
        raise CaseFileError(f"{where}: the numbers of a tensor are missing")
    VALUE_BYTES.check(member.file_size, where)
    data = np.frombuffer(archive.read(member), np.uint8)
    last = tensor.offset + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
    if min(tensor.shape, default=1) == 0:
        return np.empty(tensor.shape, dtype)
    held = data.size // dtype.itemsize
    VALUE_BYTES.check(math.prod(tensor.shape) * dtype.itemsize, where)
    if min((tensor.offset, *tensor.shape, *tensor.strides)) < 0 or last >= held:
        raise CaseFileError(f"{where}: a tensor reaches beyond its {data.size:,} bytes")
    # As codes: NumPy's views lose the name of a narrow format.
    codes = data[: held * dtype.itemsize].view(f"u{dtype.itemsize}")[tensor.offset :]
    strides = [s * dtype.itemsize for s in tensor.strides]
    return np.lib.stride_tricks.as_strided(codes, tensor.shape, strides).copy().view(dtype)


def _interpret(where: str, data: bytes) -> Any:
    """What a pickle of tensors describes; raises CaseFileError for one that describes other objects."""
    stack: list[Any] = []
    memory: dict[int, Any] = {}
    try:
        for opcode, argument, _ in pickletools.genops(io.BytesIO(data)):
            if opcode.name == "STOP":
                return stack.pop()
            _act(stack, memory, opcode.name, argument)
    except _RefusedError as error:
        raise CaseFileError(f"{where} holds {error}, and only tensors are read; save one, or a dict of them") from None
    except Exception as error:  # Hostile bytes break any step of it.
        raise CaseFileError(f"{where} holds a damaged pickle ({str(error)[:60]})") from None
    raise CaseFileError(f"{where} holds a pickle that does not end")


class _RefusedError(Exception):
    pass


_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_PUSHED = ("BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "SHORT_BINUNICODE", "BINFLOAT")
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _act(stack: list[Any], memory: dict[int, Any], name: str, argument: Any) -> None:
    """One opcode, as pickle's documentation defines it, where a file of tensors has it."""
    if name in _PUSHED:
        stack.append(argument)
    elif name in _CONSTANTS:
        stack.append(_CONSTANTS[name])
    elif name in _TUPLES:
        stack[-_TUPLES[name] :] = [tuple(stack[-_TUPLES[name] :])]
    elif name in _ACTIONS:
        _ACTIONS[name](stack)
    elif name == "GLOBAL":
        stack.append(_Name(str(argument)))
    elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
        memory[len(memory) if argument is None else argument] = stack[-1]
    elif name in ("BINGET", "LONG_BINGET"):
        stack.append(memory[argument])
    elif name not in ("PROTO", "FRAME"):
        raise _RefusedError(f"objects ({name})")


def _pop_to_mark(stack: list[Any]) -> list[Any]:
    at = max(i for i, item in enumerate(stack) if item is _MARK)
    items = stack[at + 1 :]
    del stack[at:]
    return items


def _set_items(stack: list[Any]) -> None:
    items = _pop_to_mark(stack)
    stack[-1].update(zip(items[::2], items[1::2], strict=True))


def _set_item(stack: list[Any]) -> None:
    *_, key, value = stack
    del stack[-2:]
    stack[-1][key] = value


def _append(stack: list[Any]) -> None:
    value = stack.pop()
    stack[-1].append(value)


def _extend(stack: list[Any]) -> None:
    items = _pop_to_mark(stack)
    stack[-1].extend(items)


def _find_storage(stack: list[Any]) -> None:
    kind, named, key, *_ = stack.pop()
    if kind != "storage" or not isinstance(named, _Name):
        raise _RefusedError("other data than tensors")
    stack.append(_Storage(str(key), _STORED.get(named.text.rpartition(" ")[2])))


def _call(stack: list[Any]) -> None:
    """What a call makes: a tensor, an empty dictionary, or a refusal."""
    arguments, called = stack.pop(), stack.pop()
    if called == _Name(_DICTIONARY):
        stack.append({})
    elif called == _Name(_PARAMETER):
        stack.append(arguments[0])
    elif isinstance(called, _Name) and called.text in _REBUILT:
        storage, offset, shape, strides = arguments[:4]
        stated = [a.text.rpartition(" ")[2] for a in arguments[4:] if isinstance(a, _Name)]
        dtype = next((n for n in (storage.dtype, *stated) if n in _OF_TYPE or n in _STORED.values()), None)
        if dtype is None:
            raise _RefusedError(f"numbers of a type that NumPy lacks ({', '.join(stated) or 'unnamed'})")
        stack.append(_Tensor(storage, dtype, int(offset), tuple(map(int, shape)), tuple(map(int, strides))))
    else:
        raise _RefusedError(repr(called.text if isinstance(called, _Name) else called)[:80])


_ACTIONS = {
    "MARK": lambda stack: stack.append(_MARK),
    "EMPTY_DICT": lambda stack: stack.append({}),
    "EMPTY_LIST": lambda stack: stack.append([]),
    "TUPLE": lambda stack: stack.append(tuple(_pop_to_mark(stack))),
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    "APPEND": _append,
    "APPENDS": _extend,
    "BINPERSID": _find_storage,
    "REDUCE": _call,
    # What a dictionary of weights says of itself, and nothing that its numbers depend on.
    "BUILD": lambda stack: stack.pop(),
}
