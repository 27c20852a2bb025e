"""The one-line text of a problem, both ways: `parse_problem_text(format_problem(p)) == p` for every problem."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from samebits.errors import ProblemShapeError, ProblemTextError
from samebits.numbers.whole_number import is_whole_number
from samebits.problems.problem import (
    DIRECTIONS,
    DTYPES,
    KINDS,
    PRODUCTS,
    Direction,
    Epilogue,
    Kind,
    Padding,
    Problem,
    Shape,
)
from samebits.problems.row_functions import KINDS as ROW_KINDS

KEYS = ("x", "w", "bias", "stride", "padding", "dilation", "output_padding", "groups", "dtype", "out", "then")
_PRODUCT_KEYS = ("x", "w", "bias", "dtype", "out", "then")
# What people call formats, in torch, in C and in papers.
_OTHER_NAMES = {
    "fp64": "float64", "f64": "float64", "double": "float64", "fp32": "float32", "f32": "float32", "float": "float32",
    "fp16": "float16", "f16": "float16", "half": "float16", "bf16": "bfloat16", "fp8_e4m3": "float8_e4m3fn",
    "float8_e4m3": "float8_e4m3fn", "fp8_e5m2": "float8_e5m2",
}  # fmt: skip
# Sizes as tuples are written, with or without their brackets.
_TUPLE = re.compile(r"[(\[]?([0-9]+(?:,[0-9]+)+),?[)\]]?")
_CLIP = re.compile(r"clip\(([^,()]+),([^,()]+)\)")


@dataclass(frozen=True)
class _Token:
    text: str
    position: int


def format_problem(problem: Problem) -> str:
    """The canonical text: keys in a fixed order, what equals its default left out, the dtype always named.

    >>> format_problem(parse_problem_text("linear w=2x8 x=3x8"))
    'linear x=3x8 w=2x8 dtype=float32'
    """
    kind = problem.kind if problem.direction == "forward" else f"{problem.kind}.{problem.direction}"
    parts = [kind, f"x={_join(problem.x)}", f"w={_join(problem.w)}"]
    if problem.bias:
        parts.append("bias")
    if any(s != 1 for s in problem.stride):
        parts.append(f"stride={_shorten(problem.stride)}")
    padding = _format_padding(problem.padding) if problem.padding else "0"
    if padding != "0":
        parts.append(f"padding={padding}")
    if any(d != 1 for d in problem.dilation):
        parts.append(f"dilation={_shorten(problem.dilation)}")
    if any(problem.output_padding):
        parts.append(f"output_padding={_shorten(problem.output_padding)}")
    if problem.groups != 1:
        parts.append(f"groups={problem.groups}")
    parts.append(f"dtype={problem.dtype}")
    if problem.out != problem.dtype:
        parts.append(f"out={problem.out}")
    if problem.then:
        parts.append(f"then={_format_epilogue(problem.then)}")
    return " ".join(parts)


def parse_problem_text(text: str) -> Problem:
    """The problem that a samebits text names; raises ProblemTextError with the position of what cannot be read.

    >>> import samebits
    >>> samebits.parse_problem_text("conv2d x=1x3x8x8 w=4x3x3x3 padding=1").out_shape
    (1, 4, 8, 8)
    """
    tokens = list(_split_tokens(text))
    if not tokens:
        raise ProblemTextError("nothing there; expected e.g. conv2d x=1x3x8x8 w=4x3x3x3", text, 0)
    kind, direction = _parse_kind(tokens[0], text)
    keys = _PRODUCT_KEYS if kind in PRODUCTS else KEYS
    values = _parse_values(tokens[1:], keys, 0 if kind in PRODUCTS else int(kind[-2]), text)
    for name in ("x", "w"):
        if name not in values:
            raise ProblemTextError(f"{name}= is missing", text, len(text.rstrip()))
    try:
        return Problem(kind=kind, direction=direction, **values)
    except ProblemShapeError as error:
        raise ProblemShapeError(f"{error} (in {text.strip()!r})") from None


def _split_tokens(text: str) -> Iterator[_Token]:
    return (_Token(m.group(), m.start()) for m in re.finditer(r"\S+", text))


def _parse_kind(token: _Token, text: str) -> tuple[Kind, Direction]:
    kind, dot, direction = token.text.partition(".")
    if kind not in KINDS:
        raise ProblemTextError(_explain_kind(token.text), text, token.position)
    if dot and direction not in DIRECTIONS:
        raise ProblemTextError(
            f"unknown direction {direction!r}; grad_input or grad_weight", text, token.position + len(kind) + 1
        )
    return kind, cast(Direction, direction or "forward")


def _explain_kind(word: str) -> str:
    """Why a first word is no kind of convolution or product, and what it may be."""
    kind, dot, direction = word.partition(".")
    if kind == "attention":
        return "attention is for samebits seal, compare, explain and sweep"
    if kind in ROW_KINDS:
        return f"{kind} is for samebits compare, explain and seal"
    if dot and direction not in DIRECTIONS:
        return (
            f"{word!r} is no kind of problem, and no model file that is there; files of arrays are for samebits explain"
        )
    known = (*KINDS, "attention", *ROW_KINDS)
    close = difflib.get_close_matches(kind.lower().replace("_", ""), known, 1)
    meant = f"; did you mean {close[0]}?" if close else ""
    return f"unknown kind {kind!r}{meant}; one of {', '.join(known)}"


def _parse_values(tokens: list[_Token], keys: tuple[str, ...], rank: int, text: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for token in tokens:
        key, equals, value = token.text.partition("=")
        if key not in keys:
            what = "a product has no" if key in KEYS else "unknown key"
            raise ProblemTextError(f"{what} {key!r}; one of {', '.join(keys)}", text, token.position)
        if key in values:
            raise ProblemTextError(f"{key} is given twice", text, token.position)
        if bool(equals) == (key == "bias") or (equals and not value):
            raise ProblemTextError(
                "bias takes no value" if key == "bias" else f"{key} needs a value", text, token.position
            )
        values[key] = _parse_value(key, value, rank, text, token.position + len(key) + 1)
    return values


def _parse_value(key: str, value: str, rank: int, text: str, position: int) -> Any:
    if key == "bias":
        return True
    if key in ("x", "w"):
        return _parse_sizes(value, text, position)
    if key in ("stride", "dilation", "output_padding"):
        return _spread(_parse_sizes(value, text, position), rank)
    if key == "padding":
        return _parse_padding(value, rank, text, position)
    if key == "groups":
        return _parse_size(value, text, position)
    if key == "then":
        return _parse_epilogue(value, text, position)
    value = _OTHER_NAMES.get(value, value)
    if value not in DTYPES:
        integers = "; integers are for samebits compare, profile, explain and lists"
        more = integers if value in ("int8", "uint8", "int32") else ""
        raise ProblemTextError(f"unknown dtype {value!r}; one of {', '.join(DTYPES)}{more}", text, position)
    return value


def _parse_size(value: str, text: str, position: int) -> int:
    if not is_whole_number(value):
        raise ProblemTextError(f"expected a whole number, not {value!r}", text, position)
    return int(value)


def _parse_sizes(value: str, text: str, position: int) -> Shape:
    sizes: list[int] = []
    if written := _TUPLE.fullmatch(value):
        return tuple(_parse_size(part, text, position) for part in written[1].split(","))
    for part in value.split("x"):
        sizes.append(_parse_size(part, text, position))
        position += len(part) + 1
    return tuple(sizes)


def _spread(values: Shape, rank: int) -> Shape:
    return values * rank if len(values) == 1 else values


def _parse_padding(value: str, rank: int, text: str, position: int) -> Padding:
    if value == "valid":
        return ((0, 0),) * rank
    if value == "same_upper" or value == "same_lower":
        return value
    if _TUPLE.fullmatch(value):
        sizes = tuple((size, size) for size in _parse_sizes(value, text, position))
        return sizes * rank if len(sizes) == 1 else sizes
    pairs: list[tuple[int, int]] = []
    for part in value.split("x"):
        begin, colon, end = part.partition(":")
        first = _parse_size(begin, text, position)
        pairs.append((first, _parse_size(end, text, position + len(begin) + 1) if colon else first))
        position += len(part) + 1
    return tuple(pairs * rank if len(pairs) == 1 else pairs)


def _parse_epilogue(value: str, text: str, position: int) -> Epilogue:
    if value == "relu":
        return Epilogue("relu")
    match = _CLIP.fullmatch(value)
    if not match:
        raise ProblemTextError(f"then= takes relu or clip(low,high), not {value!r}", text, position)
    try:
        low, high = (float(g) for g in match.groups())
    except ValueError:
        raise ProblemTextError("clip needs two numbers", text, position + 5) from None
    if math.isnan(low) or math.isnan(high) or low > high:
        raise ProblemTextError("clip needs low <= high", text, position + 5)
    return Epilogue("clip", low, high)


def _format_epilogue(then: Epilogue) -> str:
    return "relu" if then.name == "relu" else f"clip({_number(then.low)},{_number(then.high)})"


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _format_padding(padding: Padding) -> str:
    if isinstance(padding, str):
        return padding
    if all(begin == end for begin, end in padding):
        return _shorten(tuple(begin for begin, _ in padding))
    return "x".join(f"{begin}:{end}" for begin, end in padding)


def _shorten(values: Shape) -> str:
    return str(values[0]) if len(set(values)) == 1 else _join(values)


def _join(values: Shape) -> str:
    return "x".join(str(v) for v in values)
