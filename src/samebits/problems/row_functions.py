"""Functions of rows as problems: `layernorm x=8x768 weight bias eps=1e-05`; their texts, operands and rows.

    softmax    exp(x - m) / sum exp(x - m) along `axis`, m the largest; -inf hides a number
    layernorm  (x - mean) / sqrt(variance + eps) over the last `axes` axes, times weight, plus bias
    rmsnorm    x / sqrt(mean of squares + eps), times weight
    gelu       x (1 + erf(x / sqrt 2)) / 2; `approximate=tanh`: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
    rope       pairs (a, b) of x's last axis as (a cos - b sin, b cos + a sin): element i with i + D/2, `interleaved` 2i
               with 2i + 1; cos and sin are (length, D/2)

The variance is that of the row itself, divided by its length. The definitions are ONNX's (operators Softmax,
LayerNormalization, RMSNormalization, Gelu and RotaryEmbedding, versions 13 to 24). eps is 1e-05 by default, as there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from samebits.errors import OperandError, ProblemShapeError, ProblemTextError
from samebits.numbers.format import numpy_dtype
from samebits.numbers.whole_number import is_whole_number
from samebits.problems.operands import check_shapes
from samebits.problems.problem import LARGEST_SIZE, Shape

Numbers = npt.NDArray[np.float64]
NORMS = ("layernorm", "rmsnorm")
KINDS = ("softmax", *NORMS, "gelu", "rope")
# What each kind's text may say besides x and dtype.
_KEYS = {
    "softmax": ("axis",),
    "layernorm": ("axes", "weight", "bias", "eps"),
    "rmsnorm": ("axes", "weight", "eps"),
    "gelu": ("approximate",),
    "rope": ("interleaved",),
}
_DTYPES = ("float64", "float32", "float16", "bfloat16")
_FLAGS = ("weight", "bias", "interleaved")
_APPROXIMATIONS = ("none", "tanh")
_USUAL_EPS = 1e-5
_LARGEST_EPS = 1e3
_MOST_AXES = 8
# exp of less is 0 in float32, and in float64.
_LEADS = {"float64": 1100.0}
_LEAD, _CODES = 200.0, 8
# exp of minus this is 0 in every format.
HIDDEN = 2.0**12
# As many leaders share a row of a softmax: their weights are powers of two.
_SHARED = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class RowFunction:
    """One function of rows: kind, shape of x, attributes; hashable. Raises ProblemShapeError for what does not fit.

    `axis` is that of a softmax, counted from the front or the end; `axes` says over how many last axes a norm goes.

    >>> asked = RowFunction("layernorm", (8, 768), has_weight=True)
    >>> asked.operand_shapes, asked.row_shape
    ({'x': (8, 768), 'weight': (768,)}, (8, 768))
    """

    kind: str
    x: Shape
    axis: int = -1
    axes: int = 1
    eps: float = _USUAL_EPS
    has_weight: bool = False
    has_bias: bool = False
    approximate: str = "none"
    interleaved: bool = False
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ProblemShapeError(f"unknown function {self.kind!r}; one of {', '.join(KINDS)}")
        if not 1 <= len(self.x) <= _MOST_AXES:
            raise ProblemShapeError(f"x has 1 to {_MOST_AXES} sizes, not {len(self.x)}")
        if min(self.x) < 1 or math.prod(self.x) > LARGEST_SIZE:
            raise ProblemShapeError("every size of x is at least 1, and all together at most 2^40")
        if self.dtype not in _DTYPES:
            raise ProblemShapeError(f"unknown dtype {self.dtype!r}; one of {', '.join(_DTYPES)}")
        if self.kind == "rope" and (len(self.x) != 4 or self.x[3] % 2):
            raise ProblemShapeError("rope takes x of 4 sizes, N x heads x length x features, the last of them even")
        self._check_attributes()
        if self.axis == len(self.x) - 1:
            object.__setattr__(self, "axis", -1)

    def _check_attributes(self) -> None:
        if not -len(self.x) <= self.axis < len(self.x):
            raise ProblemShapeError(f"axis is from -{len(self.x)} to {len(self.x) - 1}, not {self.axis}")
        if not 1 <= self.axes <= len(self.x):
            raise ProblemShapeError(f"axes is from 1 to {len(self.x)}, the last axes of x, not {self.axes}")
        if not 0 <= self.eps <= _LARGEST_EPS:
            raise ProblemShapeError(f"eps is from 0 to {_LARGEST_EPS:g}, not {self.eps!r}")
        if self.approximate not in _APPROXIMATIONS:
            raise ProblemShapeError(f"approximate is one of {', '.join(_APPROXIMATIONS)}, not {self.approximate!r}")

    @property
    def out(self) -> str:
        """The result's format: the operands'."""
        return self.dtype

    @property
    def out_shape(self) -> Shape:
        """The result's shape, that of x."""
        return self.x

    @property
    def operand_shapes(self) -> dict[str, Shape]:
        """The operands that are read, in order."""
        found: dict[str, Shape] = {"x": self.x}
        if self.has_weight:
            found["weight"] = self.normalized_shape
        if self.has_bias:
            found["bias"] = self.normalized_shape
        if self.kind == "rope":
            found |= dict.fromkeys(("cos", "sin"), (self.x[2], self.x[3] // 2))
        return found

    @property
    def normalized_shape(self) -> Shape:
        """The last axes, over which a norm goes."""
        return self.x[len(self.x) - self.axes :]

    @property
    def row_length(self) -> int:
        """How many numbers each output is made of."""
        if self.kind == "softmax":
            return self.x[self.axis]
        if self.kind in NORMS:
            return math.prod(self.normalized_shape)
        return 2 if self.kind == "rope" else 1

    @property
    def reduction_length(self) -> int:
        """How many numbers each output is made of, by the name that all problems have for it."""
        return self.row_length

    @property
    def row_shape(self) -> tuple[int, int]:
        """x as rows of what is computed together: as many rows, of so many numbers."""
        length = self.x[-1] if self.kind in ("gelu", "rope") else self.row_length
        return math.prod(self.x) // length, length

    def to_rows(self, array: np.ndarray) -> np.ndarray:
        """An array of x's shape as rows."""
        moved = np.moveaxis(array, self.axis, -1) if self.kind == "softmax" else array
        return moved.reshape(self.row_shape)

    def from_rows(self, rows: np.ndarray) -> np.ndarray:
        """Rows in x's shape again."""
        if self.kind != "softmax":
            return rows.reshape(self.x)
        rest = [size for i, size in enumerate(self.x) if i != self.axis % len(self.x)]
        return np.ascontiguousarray(np.moveaxis(rows.reshape(*rest, self.row_length), -1, self.axis))


def is_row_function(text: object) -> bool:
    """Whether a text is a problem of a row function: whether it begins with the name of one."""
    return isinstance(text, str) and text.split(maxsplit=1)[:1] != [] and text.split(maxsplit=1)[0] in KINDS


def format_row_function(asked: RowFunction) -> str:
    """The canonical text; `parse_row_function(format_row_function(f)) == f`.

    >>> format_row_function(parse_row_function("layernorm weight x=2x8"))
    'layernorm x=2x8 weight eps=1e-05 dtype=float32'
    """
    parts = [asked.kind, f"x={_join(asked.x)}"]
    if asked.axis != -1:
        parts.append(f"axis={asked.axis}")
    if asked.axes != 1:
        parts.append(f"axes={asked.axes}")
    flags = (("weight", asked.has_weight), ("bias", asked.has_bias), ("interleaved", asked.interleaved))
    parts += [name for name, is_set in flags if is_set]
    if asked.kind in NORMS:
        parts.append(f"eps={asked.eps!r}")
    if asked.approximate != "none":
        parts.append(f"approximate={asked.approximate}")
    return " ".join([*parts, f"dtype={asked.dtype}"])


def parse_row_function(text: str) -> RowFunction:
    """The row function that a text names; raises ProblemTextError with the position of what cannot be read."""
    words = list(re.finditer(r"\S+", text))
    kind = words[0].group() if words else ""
    if kind not in KINDS:
        raise ProblemTextError(f"unknown function {kind!r}; one of {', '.join(KINDS)}", text, 0)
    allowed = ("x", *_KEYS[kind], "dtype")
    values: dict[str, Any] = {}
    for match in words[1:]:
        key, equals, value = match.group().partition("=")
        if key not in allowed:
            raise ProblemTextError(f"{kind} has no {key!r}; one of {', '.join(allowed)}", text, match.start())
        if key in values:
            raise ProblemTextError(f"{key} is given twice", text, match.start())
        if bool(equals and value) == (key in _FLAGS):
            said = "stands alone, without a value" if key in _FLAGS else "needs a value"
            raise ProblemTextError(f"{key} {said}", text, match.start())
        values[key] = _read_value(key, value, text, match.start() + len(key) + 1)
    if "x" not in values:
        raise ProblemTextError("x= is missing", text, len(text.rstrip()))
    named = {f"has_{key}" if key in ("weight", "bias") else key: value for key, value in values.items()}
    try:
        return RowFunction(kind, **named)
    except ProblemShapeError as error:
        raise ProblemShapeError(f"{error} (in {text.strip()!r})") from None


def _read_value(key: str, value: str, text: str, position: int) -> Any:
    if key in _FLAGS:
        return True
    if key == "x":
        sizes = value.split("x")
        if not all(is_whole_number(size) for size in sizes):
            raise ProblemTextError(f"expected sizes such as 8x768, not {value!r}", text, position)
        return tuple(int(size) for size in sizes)
    if key in ("axis", "axes"):
        if not is_whole_number(value.removeprefix("-") if key == "axis" else value):
            raise ProblemTextError(f"{key} is a whole number, not {value!r}", text, position)
        return int(value)
    if key == "eps":
        try:
            return float(value)
        except ValueError:
            raise ProblemTextError(f"eps is a number, not {value!r}", text, position) from None
    return value


def check_row_operands(asked: RowFunction, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The operands that are read, in order; raises OperandError where one is missing, does not fit or has NaN."""
    expected = numpy_dtype(asked.dtype)
    checked = check_shapes(asked.operand_shapes, operands, expected, f"this {asked.kind}")
    for name, array in checked.items():
        values = array.astype(np.float32) if expected.itemsize < 4 else array
        # In a softmax -inf hides a number.
        if not (np.isfinite(values) | ((values == -np.inf) & (asked.kind == "softmax"))).all():
            also = " and -inf" if asked.kind == "softmax" else ""
            raise OperandError(f"operand {name} holds NaN or infinity; {asked.kind} is judged on numbers{also}")
    return checked


def make_normal_rows(asked: RowFunction, seed: int = 0) -> dict[str, np.ndarray]:
    """x of N(0, 1), each row of a norm moved by N(0, 1); weight about 1, bias N(0, 1); cos and sin of angles."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(asked.x)
    if asked.kind in NORMS:
        x = x + asked.from_rows(np.repeat(rng.standard_normal((asked.row_shape[0], 1)), asked.row_shape[1], axis=1))
    return _complete(asked, x, rng)


def make_uniform_rows(asked: RowFunction, seed: int = 0) -> dict[str, np.ndarray]:
    """The same with x of [0, 1)."""
    rng = np.random.default_rng(seed)
    return _complete(asked, rng.uniform(0, 1, asked.x), rng)


def _complete(asked: RowFunction, x: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    makers: dict[str, Callable[[Shape], np.ndarray]] = {
        "weight": lambda shape: 1 + 0.25 * rng.standard_normal(shape),
        "bias": rng.standard_normal,
    }
    found = {"x": x} | {name: makers[name](shape) for name, shape in asked.operand_shapes.items() if name in makers}
    if asked.kind == "rope":
        angles = make_angles(asked.x[2], asked.x[3] // 2)
        found |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    return {name: array.astype(numpy_dtype(asked.dtype)) for name, array in found.items()}


def make_angles(length: int, pairs: int, base: float = 10000.0) -> np.ndarray:
    """The angle of each position and pair, (length, pairs): position / base^(pair / pairs)."""
    return np.arange(length)[:, None] * base ** (-np.arange(pairs) / pairs)[None, :]


def mark_empty(asked: RowFunction, operands: Mapping[str, np.ndarray]) -> npt.NDArray[np.bool_]:
    """Outputs that are 0 / 0, of x's shape: of rows without a number, or of equal numbers where eps is 0."""
    rows = asked.to_rows(operands["x"]).astype(np.float64)
    if asked.kind == "softmax":
        found = np.isneginf(rows).all(axis=1, keepdims=True)
    elif asked.kind in NORMS and asked.eps == 0:
        found = (rows == (rows[:, :1] if asked.kind == "layernorm" else 0)).all(axis=1, keepdims=True)
    else:
        found = np.zeros((len(rows), 1), bool)
    return asked.from_rows(np.broadcast_to(found, rows.shape))


def find_distances(rows: Numbers) -> Numbers:
    """How far each number is below its row's largest; what is hidden, so far that exp of it is 0."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(rows.max(axis=1, keepdims=True) - rows, nan=HIDDEN, posinf=HIDDEN).clip(max=HIDDEN)


def take_pairs(
    asked: RowFunction, rows: Numbers, given: Mapping[str, Numbers], first: int = 0
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """The pairs of a rotation and the cosines and sines of their positions, (rows, D/2) each; rows begin at `first`."""
    half = rows.shape[1] // 2
    a, b = (rows[:, ::2], rows[:, 1::2]) if asked.interleaved else (rows[:, :half], rows[:, half:])
    positions = (first + np.arange(len(rows))) % asked.x[2]
    return a, b, given["cos"][positions], given["sin"][positions]


def join_pairs(asked: RowFunction, a: Numbers, b: Numbers) -> Numbers:
    """Rows of pairs."""
    if not asked.interleaved:
        return np.concatenate([a, b], axis=1)
    return np.stack([a, b], axis=2).reshape(len(a), -1)


def make_exact_rows(asked: RowFunction, seed: int = 0) -> dict[str, np.ndarray] | None:
    """Integers on which nothing rounds: rows of a softmax with one, two or four leaders, a rotation by small integers.

    None of norms and gelu, whose roots and exponentials always round.
    """
    rng, dtype = np.random.default_rng(seed), numpy_dtype(asked.dtype)
    if asked.kind == "softmax":
        count, length = asked.row_shape
        rows = rng.integers(-_CODES, _CODES + 1, (count, length)).astype(np.float64)
        for row in rows:
            leaders = rng.choice([n for n in _SHARED if n <= length])
            row[rng.permutation(length)[:leaders]] = _LEADS.get(asked.dtype, _LEAD)
        return {"x": asked.from_rows(rows).astype(dtype)}
    if asked.kind == "rope":
        shapes = asked.operand_shapes
        found = {"x": rng.integers(-_CODES, _CODES + 1, shapes["x"])}
        found |= {name: rng.integers(-2, 3, shapes[name]) for name in ("cos", "sin")}
        return {name: array.astype(dtype) for name, array in found.items()}
    return None


def _join(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "scalar"
