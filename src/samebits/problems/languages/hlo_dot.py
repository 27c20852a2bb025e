"""XLA HLO `dot` lines, and the custom-calls of cuBLAS that XLA makes of them, as matmul problems.

Semantics: openxla.org/xla/operation_semantics (DotGeneral): the result's axes are the batch's, those of the left
operand that are not summed, those of the right one. The custom-calls: xla/service/gpu/cublas_cudnn.h.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, cast

from samebits.errors import ProblemTextError
from samebits.problems.languages.hlo_text import HloArray, read_array, read_operands, split_operands
from samebits.problems.problem import Epilogue, Problem, Shape

DOT = re.compile(r"(?<![\w.$/\"-])(dot|custom-call)\(")
_CUBLAS = re.compile(r'custom_call_target="__cublas\$(?:gemm|lt\$matmul(?:\$f8)?)"')
_DIMENSIONS = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
# What cuBLASLt does after the product; a problem of `matmul` has no bias.
_EPILOGUES = {"DEFAULT": None, "RELU": Epilogue("relu")}


def is_dot(text: str) -> bool:
    """Whether a line of the text is a dot, or the custom-call that XLA makes of one."""
    return any(_is_dot_line(line) for line in text.splitlines())


def parse_dot(text: str) -> Problem:
    """The product that an HLO line computes, its axes put in matmul's sequence: batch, rows, k and batch, k, columns.

    `text` is one instruction, or lines with one dot among them. Several axes that are summed become one K, several free
    ones one M (or N): shapes say how many elements meet, in which sequence they lie is a matter of layout. A vector
    stays one where nothing else is free. Raises ProblemTextError, ProblemShapeError.
    """
    lines = {line for line in text.splitlines() if _is_dot_line(line)}
    if len(lines) != 1:
        raise ProblemTextError(f"{len(lines) or 'no'} dot products; give one at a time", text)
    head, _, rest = DOT.split(lines.pop(), maxsplit=1)
    words, attributes = split_operands(rest)
    lhs, rhs = read_operands(words[:2], 2, text)
    _check_scales(words[2:], text)
    result = read_array(head.rpartition("=")[2], text)
    if result is None:
        raise ProblemTextError("the result's shape is needed before the operation, e.g. f32[8,64]", text)
    then = _read_configuration(attributes, text)
    left = _arrange(
        lhs, _read_axes(attributes, "lhs_batch_dims", text), _read_axes(attributes, _DIMENSIONS[1], text), text
    )
    right = _arrange(
        rhs, _read_axes(attributes, "rhs_batch_dims", text), _read_axes(attributes, _DIMENSIONS[3], text), text
    )
    (batch, rows, length), (other_batch, columns, other_length) = left, right
    if batch != other_batch or length != other_length:
        raise ProblemTextError(
            f"batch {batch} and K {length} of one operand, {other_batch}, {other_length} of the other", text
        )
    x, w = (*batch, *rows, math.prod(length)), (*other_batch, math.prod(other_length), *columns)
    problem = Problem("matmul", x, w, dtype=lhs.dtype, out=result.dtype, then=then)
    if math.prod(problem.out_shape) != math.prod(result.sizes):
        raise ProblemTextError(f"the operands give a result of {problem.out_shape}, the line has {result.sizes}", text)
    return problem


def _check_scales(words: list[str], text: str) -> None:
    """Refuses further operands (the factors of a float8 product) that are not 1, as a problem cannot express them."""
    for word in words:
        name = word.split()[-1].removeprefix("%") if word.split() else ""
        if not re.search(rf"(?<![\w.-]){re.escape(name)} = f32\[\] constant\(1\)", text):
            raise ProblemTextError(
                f"the product is multiplied by {name[:40]!r}, which a problem cannot express; if it is 1, add the line "
                f"that says so, {name[:40]} = f32[] constant(1)",
                text,
            )


def _is_dot_line(line: str) -> bool:
    found = DOT.search(line)
    return bool(found) and (found[1] == "dot" or bool(_CUBLAS.search(line)))


def _arrange(array: HloArray, batch: Shape, summed: Shape, text: str) -> tuple[Shape, Shape, Shape]:
    """Sizes of an operand's batch axes, its free axes as one (none where there is none), and what is summed."""
    count = len(array.sizes)
    if len({*batch, *summed}) != len((*batch, *summed)) or any(not 0 <= a < count for a in (*batch, *summed)):
        raise ProblemTextError(f"dimension numbers {batch} and {summed} do not fit an operand of {count} axes", text)
    free = [a for a in range(count) if a not in batch and a not in summed]
    one = (math.prod(array.sizes[a] for a in free),) if free or batch else ()
    return tuple(array.sizes[a] for a in batch), one, tuple(array.sizes[a] for a in summed)


def _read_axes(attributes: str, name: str, text: str) -> Shape:
    """`lhs_contracting_dims={1}`, or "lhs_contracting_dimensions":["1"] in a backend_config; none where not given."""
    found = re.search(rf"\b{name}=\{{([0-9,\s]*)\}}", attributes)
    if found is None:
        longer = name.replace("_dims", "_dimensions")
        found = re.search(rf'"{longer}":\[([0-9,"\s]*)\]', attributes)
    if found is None:
        return ()
    numbers = [n.strip(' "') for n in found[1].split(",") if n.strip(' "')]
    if any(not n.isdigit() or len(n) > 2 for n in numbers):
        raise ProblemTextError(f"{name} must be axes, not {found[1][:40]!r}", text)
    return tuple(int(n) for n in numbers)


def _read_configuration(attributes: str, text: str) -> Epilogue | None:
    """The epilogue of a cuBLAS custom-call's backend_config, whose alpha must be 1 and beta 0; none of a plain dot."""
    found = re.search(r"backend_config=(\{.*\})", attributes)
    if found is None:
        return None
    try:
        given, _ = json.JSONDecoder().raw_decode(found[1])
    except (ValueError, RecursionError):
        raise ProblemTextError("the backend_config is no JSON", text) from None
    config: Any = given.get("gemm_backend_config", given) if isinstance(given, dict) else None
    if not isinstance(config, dict):
        raise ProblemTextError("the backend_config is no JSON object", text)
    known = cast("dict[str, Any]", config)
    name = known.get("epilogue", "DEFAULT")
    if not isinstance(name, str) or name not in _EPILOGUES:
        raise ProblemTextError(f"epilogue {str(name)[:40]} is none that a matmul problem has", text)
    alpha = known.get("alpha_real", 1)
    if not isinstance(alpha, (int, float)):
        raise ProblemTextError("alpha_real must be a number", text)
    if alpha != 1:
        raise ProblemTextError("the product is multiplied by alpha, which a problem cannot express", text)
    if known.get("beta", 0) != 0:
        raise ProblemTextError("the product is added to another operand (beta), which a problem cannot express", text)
    return _EPILOGUES[name]
