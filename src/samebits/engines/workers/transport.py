"""Messages between a runner and its worker: a JSON header and raw array bytes. Nothing is pickled.

8 bytes length of the header, big endian | header, JSON | the arrays' bytes, in the header's order
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from samebits.numbers.format import FORMATS, find_stored_dtype, name_dtype

LARGEST_HEADER = 2**24
# What networks hold other than the formats that samebits computes with.
_OTHER_DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_CHUNK = 2**24
# The array that holds a model's bytes; no input of a model is called so.
MODEL = "#model"


class TransportError(Exception):
    """The stream ended or what came is no message."""


def send_message(stream: BinaryIO, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> None:
    """Writes one message; arrays must have a dtype of `samebits.numbers`, or one of integers."""
    contiguous = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
    described = [[name, name_dtype(array.dtype), list(array.shape)] for name, array in contiguous.items()]
    text = json.dumps({"header": header, "arrays": described}).encode()
    stream.write(len(text).to_bytes(8, "big") + text)
    for array in contiguous.values():
        view = array.reshape(-1).view(np.uint8).data
        for start in range(0, len(view), _CHUNK):
            stream.write(view[start : start + _CHUNK])
    stream.flush()


def receive_message(stream: BinaryIO, largest_bytes: int) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads one message; raises TransportError at the end of the stream, for nonsense, or for more than allowed."""
    length = int.from_bytes(_read_exactly(stream, 8), "big")
    if length > LARGEST_HEADER:
        raise TransportError(f"a header of {length} bytes is no header")
    try:
        message = json.loads(_read_exactly(stream, length))
        header, described = message["header"], message["arrays"]
        arrays: dict[str, np.ndarray] = {}
        for name, dtype, shape in described:
            arrays[str(name)] = _read_array(stream, dtype, shape, largest_bytes)
            # All arrays of a message together are no larger.
            largest_bytes -= arrays[str(name)].nbytes
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TransportError(f"what came is no message: {error}") from None
    if not isinstance(header, dict):
        raise TransportError("what came is no message: its header is no object")
    return header, arrays


def _read_array(stream: BinaryIO, dtype_name: str, shape: list[int], largest_bytes: int) -> np.ndarray:
    if dtype_name not in (*FORMATS, *_OTHER_DTYPES) or any(type(s) is not int or s < 0 for s in shape):
        raise ValueError(f"an array of dtype {dtype_name!r} and shape {shape}")
    dtype = find_stored_dtype(dtype_name)
    size = math.prod(shape) * dtype.itemsize
    if size > largest_bytes:
        raise ValueError(f"an array of {size} bytes where at most {largest_bytes} were expected")
    return np.frombuffer(_read_exactly(stream, size), np.uint8).view(dtype).reshape(shape)


def _read_exactly(stream: BinaryIO, size: int) -> bytearray:
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        # Every binary stream has readinto; typing's BinaryIO leaves it out.
        count = stream.readinto(view[filled : filled + _CHUNK])  # type: ignore[attr-defined]  (pipes have it)
        if not count:
            raise TransportError("the stream ended")
        filled += count
    return data
