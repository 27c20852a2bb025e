"""Problems on integers: `dtype=uint8 weights=int8 out=int8 scale=channel`, or weights in 4 bits in groups.

They have the shapes and attributes of another problem; operands are codes, with scales and zero points beside them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from samebits.errors import ProblemTextError
from samebits.problems.problem import KINDS, PRODUCTS, Problem
from samebits.problems.problem_text import format_problem, parse_problem_text

CODES = ("uint8", "int8")
PACKED, FLOATS, _GROUP = ("uint4", "int4"), ("float32", "float16"), re.compile(r"group:(16|32|64|128|256)")
RESULTS = (*CODES, "int32", "float32")
_SCALES = ("tensor", "channel")


@dataclass(frozen=True)
class IntegerProblem:
    """What an integer problem says beyond its shapes; `plain` has the shapes and attributes, `scale` is that of w."""

    plain: Problem
    x: str
    w: str
    out: str
    scale: str

    @property
    def channel_axis(self) -> int:
        """The axis of w along which its channels lie."""
        return -1 if self.plain.kind == "matmul" else 0

    @property
    def channels(self) -> int:
        """How many channels the weights have, and so the result."""
        return self.plain.w[self.channel_axis]


def is_integer_problem(text: object) -> bool:
    """Whether a text is a problem on integers: it begins with a kind of ours and names an integer dtype."""
    if not isinstance(text, str):
        return False
    words = text.split()
    return (
        bool(words)
        and words[0].partition(".")[0] in KINDS
        and any(
            word.partition("=")[0] in ("dtype", "weights") and word.partition("=")[2].lstrip("u").startswith("int")
            for word in words[1:]
        )
    )


def format_integer_problem(asked: IntegerProblem) -> str:
    """The problem's text with all that was left out."""
    shapes = format_problem(asked.plain).replace(f" dtype={asked.plain.dtype}", "")
    scale = "" if asked.out == "int32" else f" scale={asked.scale}"
    return f"{shapes} dtype={asked.x} weights={asked.w} out={asked.out}{scale}"


def parse_integer_problem(text: str) -> IntegerProblem:
    """The problem of a text; raises ProblemTextError for what no operator computes."""
    given: dict[str, str] = {}
    kept: list[str] = []
    for word in text.split():
        key, equals, value = word.partition("=")
        if key in ("dtype", "weights", "out", "scale") and equals:
            given[key] = value
        else:
            kept.append(word)
    plain = parse_problem_text(" ".join(kept))
    if given.get("weights") in PACKED:
        x = given.get("dtype", "float32")
        packed = IntegerProblem(plain, x, given["weights"], given.get("out", x), given.get("scale", "group:32"))
        _check_packed(packed, text)
        return packed
    allowed = {"dtype": CODES, "weights": (*CODES, *PACKED), "out": RESULTS, "scale": _SCALES}
    for key, value in given.items():
        if value not in allowed[key]:
            raise ProblemTextError(f"{key} is one of {', '.join(allowed[key])}, not {value!r}", text)
    x, w = given.get("dtype", "uint8"), given.get("weights", "int8")
    asked = IntegerProblem(plain, x, w, given.get("out", "int32"), given.get("scale", "tensor"))
    _check(asked, text)
    return asked


def _check_packed(asked: IntegerProblem, text: str) -> None:
    """Raises ProblemTextError for what MatMulNBits does not compute."""
    if asked.plain.kind != "linear" or asked.plain.direction != "forward" or asked.plain.bias or asked.plain.then:
        raise ProblemTextError("weights in 4 bits are those of a forward linear without bias and then=", text)
    if asked.x not in FLOATS or asked.out != asked.x:
        raise ProblemTextError(f"with weights in 4 bits dtype is one of {', '.join(FLOATS)}, and out= the same", text)
    if not _GROUP.fullmatch(asked.scale):
        raise ProblemTextError("weights in 4 bits have scale=group:16, 32, 64, 128 or 256", text)


def _check(asked: IntegerProblem, text: str) -> None:
    """Raises ProblemTextError for what no operator computes."""
    plain = asked.plain
    if plain.direction != "forward" or plain.kind.startswith("conv_transpose"):
        raise ProblemTextError("integers are multiplied in forward conv1d to conv3d, linear and matmul", text)
    if plain.then:
        raise ProblemTextError("then= is not applied to integers", text)
    if plain.kind in PRODUCTS and len(plain.w) != 2:
        raise ProblemTextError("the weights of a product on integers are a matrix", text)
    if asked.out == "int32" and asked.scale == "channel":
        raise ProblemTextError("out=int32 has no scale", text)
