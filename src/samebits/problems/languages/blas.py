"""Matrix products of BLAS libraries as problems: hipblaslt-bench and rocblas-bench lines, cuBLASLt's log.

C (m x n) = op(A) (m x k) op(B) (k x n), column by column: in rows that is C^T = op(B)^T op(A)^T, the product that a
framework asked for, `matmul x=nxk w=kxm`. Sources: ROCm/hipBLASLt clients' help, ROCm/rocBLAS rocblas-bench help,
docs.nvidia.com/cuda/cublas (cuBLASLt logging).
"""

from __future__ import annotations

import itertools
import re

from samebits.errors import ProblemTextError
from samebits.numbers.whole_number import is_whole_number
from samebits.problems.languages.command_line import split_command
from samebits.problems.problem import Epilogue, Problem

BENCH = re.compile(r"(hipblaslt|rocblas)-bench\b")
# No second Adesc on the way to Bdesc: from every one of many to the end takes time with the square of the length.
LOG = re.compile(r"\bAdesc=\[(?:(?!\bAdesc=\[).)*\bBdesc=\[")
_TYPES = {
    "f64_r": "float64", "f32_r": "float32", "f16_r": "float16", "bf16_r": "bfloat16", "f8_r": "float8_e4m3fn",
    "bf8_r": "float8_e5m2", "R_64F": "float64", "R_32F": "float32", "R_16F": "float16", "R_16BF": "bfloat16",
    "R_8F_E4M3": "float8_e4m3fn", "R_8F_E5M2": "float8_e5m2",
}  # fmt: skip
_SHORT = {"-m": "sizem", "-n": "sizen", "-k": "sizek", "-f": "function", "-r": "precision"}
_FIELD = re.compile(r"(\w+)=([\w.+-]+)")
_DEFAULT_TYPES = {"hipblaslt": "f16_r", "rocblas": "f32_r"}
# What a benchmark computes in addition to the product, where it is given and not 0.
_CHANGING = (
    "bias_vector", "scalea", "scaleb", "scalec", "scaled", "scalealpha_vector", "scalee", "amaxscalea", "amaxscaleb",
    "use_e", "gradient", "grouped_gemm",
)  # fmt: skip


def parse_blas(text: str) -> Problem:
    """The product that a line of a BLAS library's benchmark or log computes. Raises ProblemTextError.

    alpha must be 1 and beta 0; of epilogues relu is read. Where a line names one type it is that of all operands.
    """
    return _read_log(text) if LOG.search(text) else _read_bench(text)


def _read_bench(text: str) -> Problem:
    _, tool, options = BENCH.split(text, maxsplit=1)
    words = split_command(options)
    given: dict[str, str] = {}
    for word, following in itertools.pairwise((*words, "")):
        if word.startswith("-") and not is_whole_number(word[1:2]):
            name, equals, value = word.partition("=")
            given[_SHORT.get(name, name.lstrip("-").lower())] = value if equals else following
    for name, allowed in (("alpha", 1.0), ("beta", 0.0)):
        if name in given and _read_float(given[name], text) != allowed:
            raise ProblemTextError(
                f"--{name} {given[name]} is not {allowed:g}: a problem has neither alpha nor beta", text
            )
    for name in _CHANGING:
        if given.get(name, "0") != "0":
            raise ProblemTextError(f"--{name} changes what is computed in a way that a problem cannot express", text)
    function, activation = given.get("function", "gemm"), given.get("activation_type", "none").lower()
    if not ("gemm" in function or function == "matmul"):
        raise ProblemTextError(f"function {function[:40]!r} is no matrix product", text)
    if activation not in ("none", "relu"):
        raise ProblemTextError(f"activation {activation[:40]!r} is none that a matmul problem has", text)
    m, n, k = (_read_size(given, name, text) for name in ("sizem", "sizen", "sizek"))
    batch = _read_size(given, "batch_count", text) if "batch_count" in given else 1
    common = given.get("precision", _DEFAULT_TYPES[tool])
    dtypes = {_read_type(given.get(f"{letter}_type", common), text) for letter in "ab"}
    out = _read_type(given.get("d_type", given.get("c_type", common)), text)
    return _make(m, n, k, batch, dtypes, out, Epilogue("relu") if activation == "relu" else None, text)


def _read_log(text: str) -> Problem:
    parts: dict[str, dict[str, str]] = {}
    for name in ("Adesc", "Bdesc", "Ddesc", "Cdesc", "computeDesc"):
        found = re.search(rf"\b{name}=\[([^\[\]]*)\]", text)
        parts[name] = dict(_FIELD.findall(found[1])) if found else {}
    turned = {side: parts["computeDesc"].get(f"trans{side.lower()}", "OP_N") != "OP_N" for side in "AB"}
    rows = {side: [_read_size(parts[f"{side}desc"], key, text) for key in ("rows", "cols")] for side in "AB"}
    (m, k), (other_k, n) = (rows[s][::-1] if turned[s] else rows[s] for s in "AB")
    if k != other_k:
        raise ProblemTextError(f"A has k = {k}, B has {other_k}", text)
    epilogue = parts["computeDesc"].get("epilogue", "EPILOGUE_DEFAULT").removeprefix("EPILOGUE_")
    if epilogue not in ("DEFAULT", "RELU"):
        raise ProblemTextError(f"epilogue {epilogue[:40]} is none that a matmul problem has", text)
    batch = _read_size(parts["Adesc"], "batchCount", text) if "batchCount" in parts["Adesc"] else 1
    dtypes = {_read_type(parts[f"{side}desc"].get("type", ""), text) for side in "AB"}
    out = _read_type((parts["Ddesc"] or parts["Cdesc"]).get("type", ""), text)
    return _make(m, n, k, batch, dtypes, out, Epilogue("relu") if epilogue == "RELU" else None, text)


def _make(m: int, n: int, k: int, batch: int, dtypes: set[str], out: str, then: Epilogue | None, text: str) -> Problem:
    if len(dtypes) > 1:
        raise ProblemTextError(f"operands of two types, {' and '.join(sorted(dtypes))}; a problem has one", text)
    outer = () if batch == 1 else (batch,)
    return Problem("matmul", (*outer, n, k), (*outer, k, m), dtype=dtypes.pop(), out=out, then=then)


def _read_size(given: dict[str, str], name: str, text: str) -> int:
    value = given.get(name, "")
    if not is_whole_number(value):
        raise ProblemTextError(f"{name} must be a whole number, not {value[:40]!r}", text)
    return int(value)


def _read_type(name: str, text: str) -> str:
    if name not in _TYPES:
        raise ProblemTextError(f"type {name[:40]!r} is none of {', '.join(_TYPES)}", text)
    return _TYPES[name]


def _read_float(value: str, text: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ProblemTextError(f"expected a number, not {value[:40]!r}", text) from None
