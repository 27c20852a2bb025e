"""A run as torch's DebugMode printed it (`debug_string()` under `log_tensor_hashes`), read as a trace is.

Its hashes are L1 norms or XORs of elements: equal where bits differ, sometimes; unequal only where they differ.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from samebits.errors import TraceError
from samebits.questions.runs.run_reading import Operation, Process, Trace
from samebits.regular_files import open_regular

_LARGEST_BYTES = 2**30
_CALL = re.compile(r"^( *)([A-Za-z_]\w*::[\w.]+)\((.*)\)(?:  ->  (.*?))?(?:  # (\{.*\}))?$")
_MODULE = re.compile(r"^( *)\[nn\.Mod[^\]]*\] (\S+)")
_STACK = re.compile(r"^ *# File: (.+?):(\d+) in ")
_DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u8": "uint8", "b8": "bool",
}  # fmt: skip
_TENSOR = re.compile(r"t(?:\$\d+)?: (\w+)(\[[\d, ]*\])")


def is_debug_mode_log(path: Path) -> bool:
    """Whether a file is text with a line as DebugMode prints them."""
    try:
        with open_regular(path) as file:
            start = file.read(2**16)
    except OSError:
        return False
    return b"\0" not in start and any(_CALL.match(line) for line in start.decode(errors="replace").splitlines())


def read_debug_mode_log(path: Path) -> Trace:
    """The operations of a printed log; raises TraceError where it has no hashes."""
    if path.stat().st_size > _LARGEST_BYTES:
        raise TraceError(f"{path}: too large for a log of DebugMode")
    process = Process("log", is_whole=True)
    # The last operation that had each hash as its result: an input with that hash was made there.
    made: dict[bytes, int] = {}
    for call in _list_calls(path.read_text(errors="replace")):
        place = len(process.operations)
        sources = tuple(made.get(given) if given is not None else None for given in call.inputs)
        process.operations.append(
            Operation(
                what=call.what, module=call.module, line=call.line, direction=call.direction, step=0,
                inputs=call.inputs, sources=sources, outputs=call.outputs, is_view=False, random=None,
            )
        )  # fmt: skip
        made |= {output: place for output in call.outputs if output is not None}
    if not any(output is not None for operation in process.operations for output in operation.outputs):
        raise TraceError(f"{path}: no hashes in it; record with DebugMode.log_tensor_hashes(hash_inputs=True)")
    return Trace(str(path), {process.name: process}, has_weak_hashes=True)


class _Call:
    """One line of a log."""

    def __init__(self, found: re.Match[str], module: str, line: str):
        name = found[2].replace("::", ".")
        self.what = f"{name}({_TENSOR.sub(_say_tensor, found[3])})"
        self.module, self.line = module, line
        self.direction = "backward" if "backward" in name else "forward"
        logged = _read_hashes(found[5])
        self.outputs = tuple(_list_hashes(logged.get("hash")))
        self.inputs = tuple(h for h in _list_hashes(logged.get("input_hash")) if h is not None)


def _list_calls(text: str) -> Iterator[_Call]:
    modules: list[tuple[int, str]] = []
    line = ""
    for row in text.splitlines():
        if stack := _STACK.match(row):
            line = f"{stack[1].replace(chr(92), '/').rpartition('/')[2]}:{stack[2]}"
            continue
        found = _MODULE.match(row) or _CALL.match(row)
        if found is None:
            continue
        depth = len(found[1])
        while modules and modules[-1][0] >= depth:
            modules.pop()
        if found.re is _MODULE:
            modules.append((depth, found[2]))
        else:
            yield _Call(found, modules[-1][1] if modules else "", line)


def _say_tensor(found: re.Match[str]) -> str:
    return f"{_DTYPES.get(found[1], found[1])}{found[2]}"


def _read_hashes(text: str | None) -> dict[str, Any]:
    """The remark behind a call, which Python's own literals make up; `nan` and `inf` are none of them."""
    if text is None:
        return {}
    try:
        read = ast.literal_eval(re.sub(r"\b(nan|inf)\b", r"'\1'", text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _list_hashes(logged: Any) -> Iterator[bytes | None]:
    """Hashes in sequence; None where an argument was no tensor. Of several hashes of one tensor all are taken."""
    if isinstance(logged, dict):
        logged = list(logged.values())
    if isinstance(logged, (list, tuple)):
        for part in logged:
            yield from _list_hashes(part)
    else:
        yield None if logged is None else repr(logged).encode()
