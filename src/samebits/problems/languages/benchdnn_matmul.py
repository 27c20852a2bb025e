"""oneDNN's benchdnn matrix products as problems: `--matmul --dt=f16:f16:f32 3x20x30:1x30x40`.

Rules and defaults, in oneDNN's tests/benchdnn: doc/driver_matmul.md, matmul/matmul_aux.cpp.
"""

from __future__ import annotations

import re

from samebits.errors import ProblemTextError
from samebits.problems.languages.benchdnn import BenchdnnLine, check_harmless, read_epilogue, read_number_types
from samebits.problems.languages.command_line import split_command
from samebits.problems.problem import Problem

_DESCRIPTOR = re.compile(r"([0-9]{1,18}(?:x[0-9]{1,18})+):([0-9]{1,18}(?:x[0-9]{1,18})+)(?:n.*)?")
_READ = ("dt", "cfg", "bia-dt", "bia-mask", "attr-post-ops")
# What chooses layouts only; the shapes of what is known at run time do not change what is computed.
_LAYOUTS = ("stag", "wtag", "dtag", "strides", "runtime-dims-masks", "sparse-dims")


def parse_benchdnn_matmul(text: str) -> Problem:
    """The product of a `--matmul` line: source (..., M, K), weights (..., K, N), each batch size 1 or the other's.

    With a bias along N (`--bia-dt`, mask of the last axis) it is `linear`, whose w is weights transposed: then weights
    must be one matrix. Raises ProblemTextError and ProblemShapeError.
    """
    tokens = split_command(text.rpartition("__REPRO:")[2])
    line = BenchdnnLine(text, "", driver="matmul", is_bare=False)
    options: dict[str, str] = {}
    descriptors: list[str] = []
    for token in tokens[1:] if tokens and tokens[0].endswith("benchdnn") else tokens:
        name, _, value = token.lstrip("-").replace("_", "-").partition("=")
        if not token.startswith("-"):
            descriptors.append(token)
        elif name in _READ:
            options[name] = token.partition("=")[2]
        elif name == "reset":
            options = {}
        elif name not in ("matmul", *_LAYOUTS):
            check_harmless(line, name, value, token)
    if len(descriptors) != 1:
        raise ProblemTextError("one problem descriptor is needed, such as 3x20x30:1x30x40", text)
    found = _DESCRIPTOR.fullmatch(descriptors[0])
    if not found:
        raise line.refuse(
            f"no matmul descriptor: {descriptors[0][:40]!r}; expected one such as 20x30:30x40", descriptors[0]
        )
    x, w = (tuple(int(size) for size in side.split("x")) for side in found.groups())
    dtype, out = read_number_types(line, options)
    then = read_epilogue(line, options)
    if options.get("bia-dt", "undef") in ("", "undef"):
        return Problem("matmul", x, w, dtype=dtype, out=out, then=then)
    # benchdnn's own default, which is N of two axes, and M of three.
    mask = options.get("bia-mask", "2")
    if mask != str(1 << (len(x) - 1)) or any(size != 1 for size in w[:-2]):
        raise line.refuse("a bias along other axes than N, or with several matrices of weights, is no linear layer")
    return Problem("linear", x, (w[-1], w[-2]), bias=True, dtype=dtype, out=out, then=then)
