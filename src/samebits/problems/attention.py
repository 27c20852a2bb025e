"""Attention as a problem: `attention q=1x8x128x64 k=1x2x128x64 causal dtype=float16`, its text, operands and masks.

q is (N, H, Lq, d), k (N, H_kv, Lk, d), v (N, H_kv, Lk, d_v), H a multiple of H_kv: query head h reads head
h // (H // H_kv) of k and v. The result is softmax(scores) v over the keys that a query sees, with scores
q k^T * scale, then capped (`softcap=c`: c tanh(score / c)), then with the additive mask added. The order of cap and
mask is ONNX's (operator Attention, version 24), the shapes and the default scale 1 / sqrt(d) are those of
torch.nn.functional.scaled_dot_product_attention.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from samebits.errors import OperandError, ProblemShapeError, ProblemTextError
from samebits.numbers.format import find_format, numpy_dtype
from samebits.numbers.whole_number import is_whole_number
from samebits.problems.operands import check_array
from samebits.problems.problem import DTYPES, LARGEST_SIZE, Shape

KIND = "attention"
Causal = Literal["upper_left", "lower_right"]
KEYS = ("q", "k", "v", "causal", "mask", "scale", "softcap", "window", "dtype")
_MASKS = ("bool", "add")
# Half of the keys, and a quarter of what is added, hide something.
_SEEN, _HIDDEN = 0.5, 0.25
# exp(-128) is 0 in float32, exp(-1024) in float64: a key whose score is so much less than another's adds nothing.
_GAP, _GAPS = 128.0, {"float64": 1024.0}
# Numbers of q and k: smaller ones where larger give scores beyond the format.
_LARGEST_CODES, _LARGEST_VALUE = (2, 1), 16
# As many keys may share the lead: their values, multiples of 4, have means that every format holds.
_SHARED = (0, 1, 2, 4)
_DRAWS = 20
# All scores are held at once.
_MOST_SCORES = 2**26
# What a scale or a cap may be: products with others stay far from the ends of float64.
_LEAST_NUMBER, _LARGEST_NUMBER = 2.0**-100, 2.0**100


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention: shapes, which keys are seen, scale; hashable. Raises ProblemShapeError where shapes do not fit.

    `causal`: "upper_left" lets query i see keys j <= i, "lower_right" keys j <= i + Lk - Lq, None all. `window=W` lets
    it see those at a distance below W: i - j < W and, where nothing is causal, j - i < W, with i moved as for causal.
    `mask` is "bool" (true: the key is seen) or "add" (-inf hides a key), `scale` None stands for 1 / sqrt(d).

    >>> asked = Attention(q=(1, 4, 3, 8), k=(1, 2, 5, 8), v=(1, 2, 5, 6), causal="lower_right")
    >>> asked.out_shape, asked.sees().astype(int).tolist()
    ((1, 4, 3, 6), [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]])
    """

    q: Shape
    k: Shape
    v: Shape
    causal: Causal | None = None
    mask: Literal["bool", "add"] | None = None
    scale: float | None = None
    softcap: float | None = None
    window: int | None = None
    dtype: str = "float32"

    def __post_init__(self) -> None:
        self._check_shapes()
        for name, value, allowed in (
            ("causal", self.causal, (None, "upper_left", "lower_right")),
            ("mask", self.mask, (None, *_MASKS)),
            ("dtype", self.dtype, DTYPES),
        ):
            if value not in allowed:
                known = [one for one in allowed if one is not None]
                raise ProblemShapeError(f"unknown {name} {value!r}; one of {', '.join(known)}")
        for name in ("scale", "softcap"):
            value = getattr(self, name)
            if value is not None and not _LEAST_NUMBER <= value <= _LARGEST_NUMBER:
                raise ProblemShapeError(f"{name} is a number above 0, from 2^-100 to 2^100, not {value!r}")
        if self.window is not None and self.window < 1:
            raise ProblemShapeError(f"window is at least 1, not {self.window}")

    def _check_shapes(self) -> None:
        for name in ("q", "k", "v"):
            shape = getattr(self, name)
            if len(shape) != 4:
                raise ProblemShapeError(f"{name} has 4 sizes, N x heads x length x features, not {len(shape)}")
            if min(shape) < 1 or math.prod(shape) > LARGEST_SIZE:
                raise ProblemShapeError(f"every size of {name} is at least 1, and all together at most 2^40")
        if self.k[0] != self.q[0] or self.v[0] != self.q[0]:
            raise ProblemShapeError(f"q, k and v have batches of {self.q[0]}, {self.k[0]} and {self.v[0]}")
        if self.k[3] != self.q[3]:
            raise ProblemShapeError(f"q has {self.q[3]} features, k has {self.k[3]}")
        if self.v[1:3] != self.k[1:3]:
            raise ProblemShapeError(f"k has {self.k[1]} heads of {self.k[2]} keys, v {self.v[1]} of {self.v[2]}")
        if self.q[1] % self.k[1]:
            raise ProblemShapeError(f"the {self.q[1]} heads of q are no multiple of the {self.k[1]} of k")

    @property
    def out(self) -> str:
        """The result's format: the operands'."""
        return self.dtype

    @property
    def out_shape(self) -> Shape:
        """The result's shape, (N, H, Lq, d_v)."""
        return (*self.q[:3], self.v[3])

    @property
    def operand_shapes(self) -> dict[str, Shape]:
        """The operands that are read, in order; the mask as it is drawn, though any that broadcasts is taken."""
        found = {"q": self.q, "k": self.k, "v": self.v}
        return found | ({"mask": (self.q[0], 1, *self.score_shape[2:])} if self.mask else {})

    @property
    def score_shape(self) -> Shape:
        """The shape of the scores, (N, H, Lq, Lk)."""
        return (*self.q[:3], self.k[2])

    @property
    def group(self) -> int:
        """How many heads of q read one head of k and v."""
        return self.q[1] // self.k[1]

    @property
    def reduction_length(self) -> int:
        """The number of keys."""
        return self.k[2]

    @property
    def multiply_adds(self) -> int:
        """The number of products of both matrix products, hidden keys counted."""
        return math.prod(self.score_shape) * (self.q[3] + self.v[3])

    @property
    def factor(self) -> float:
        """The scale as a number: the one that was given, or 1 / sqrt(d)."""
        return self.scale if self.scale is not None else 1 / math.sqrt(self.q[3])

    def find_distances(self) -> npt.NDArray[np.intp]:
        """How many keys each key is ahead of the query's own one, (Lq, Lk)."""
        queries, keys = self.q[2], self.k[2]
        moved = keys - queries if self.causal == "lower_right" else 0
        return np.arange(keys)[None, :] - np.arange(queries)[:, None] - moved

    def sees(self) -> npt.NDArray[np.bool_]:
        """Which keys each query sees by `causal` and `window` alone, (Lq, Lk)."""
        ahead = self.find_distances()
        seen = ahead <= 0 if self.causal else np.ones(ahead.shape, bool)
        if self.window is not None:
            seen = seen & (ahead > -self.window) & (ahead < self.window)
        return seen

    def sees_with(self, operands: Mapping[str, np.ndarray]) -> npt.NDArray[np.bool_]:
        """Which keys each query sees, the mask included; broadcasts against the scores."""
        seen = self.sees()[None, None]
        if self.mask is None:
            return seen
        mask = operands["mask"]
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
        return seen & (mask if self.mask == "bool" else mask.astype(np.float64) > -np.inf)

    def read_added(self, operands: Mapping[str, np.ndarray]) -> npt.NDArray[np.float64] | None:
        """What an additive mask adds, in float64, of the shape of the scores; None without one."""
        if self.mask != "add":
            return None
        return np.broadcast_to(operands["mask"].astype(np.float64), self.score_shape)


def is_attention(text: object) -> bool:
    """Whether a text is a problem of attention: whether it begins with that word."""
    return isinstance(text, str) and text.split(maxsplit=1)[:1] == [KIND]


def format_attention(asked: Attention) -> str:
    """The canonical text; `parse_attention(format_attention(a)) == a`.

    >>> format_attention(parse_attention("attention k=1x2x4x8 q=1x2x4x8 causal=upper_left"))
    'attention q=1x2x4x8 k=1x2x4x8 causal dtype=float32'
    """
    parts = [KIND, f"q={_join(asked.q)}", f"k={_join(asked.k)}"]
    if asked.v != asked.k:
        parts.append(f"v={_join(asked.v)}")
    if asked.causal:
        parts.append("causal" if asked.causal == "upper_left" else f"causal={asked.causal}")
    if asked.mask:
        parts.append(f"mask={asked.mask}")
    for name in ("scale", "softcap"):
        value = getattr(asked, name)
        if value is not None:
            parts.append(f"{name}={value!r}")
    if asked.window is not None:
        parts.append(f"window={asked.window}")
    return " ".join([*parts, f"dtype={asked.dtype}"])


def parse_attention(text: str) -> Attention:
    """The attention that a text names; raises ProblemTextError with the position of what cannot be read."""
    values: dict[str, Any] = {}
    for match in list(re.finditer(r"\S+", text))[1:]:
        key, equals, value = match.group().partition("=")
        if key not in KEYS:
            raise ProblemTextError(f"unknown key {key!r}; one of {', '.join(KEYS)}", text, match.start())
        if key in values:
            raise ProblemTextError(f"{key} is given twice", text, match.start())
        if (not equals and key != "causal") or (equals and not value):
            raise ProblemTextError(f"{key} needs a value", text, match.start())
        values[key] = _read_value(key, value, text, match.start() + len(key) + 1)
    for name in ("q", "k"):
        if name not in values:
            raise ProblemTextError(f"{name}= is missing", text, len(text.rstrip()))
    try:
        return Attention(**({"v": values["k"]} | values))
    except ProblemShapeError as error:
        raise ProblemShapeError(f"{error} (in {text.strip()!r})") from None


def _read_value(key: str, value: str, text: str, position: int) -> Any:
    if key in ("q", "k", "v"):
        sizes = value.split("x")
        if not all(is_whole_number(size) for size in sizes):
            raise ProblemTextError(f"expected sizes such as 1x8x128x64, not {value!r}", text, position)
        return tuple(int(size) for size in sizes)
    if key == "causal":
        return value or "upper_left"
    if key in ("scale", "softcap"):
        try:
            return float(value)
        except ValueError:
            raise ProblemTextError(f"{key} is a number, not {value!r}", text, position) from None
    if key == "window":
        if not is_whole_number(value):
            raise ProblemTextError(f"window is a whole number, not {value!r}", text, position)
        return int(value)
    return value


def check_attention_operands(asked: Attention, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The operands that are read, in order; raises OperandError for one that is missing or does not fit, for NaN too.

    A mask has any shape that broadcasts to (N, H, Lq, Lk); an additive one the operands' dtype, and may hold -inf.
    """
    expected = numpy_dtype(asked.dtype)
    checked: dict[str, np.ndarray] = {}
    for name, shape in asked.operand_shapes.items():
        if name not in operands:
            raise OperandError(f"operand {name} is missing; this attention reads {', '.join(asked.operand_shapes)}")
        dtype = np.dtype(bool) if name == "mask" and asked.mask == "bool" else expected
        array = check_array(operands[name], f"operand {name}", dtype)
        if array.dtype != dtype:
            raise OperandError(f"operand {name} has dtype {array.dtype}, but the problem says {dtype}")
        fits = array.shape == shape if name != "mask" else _broadcasts(array.shape, asked.score_shape)
        if not fits:
            says = _join(asked.score_shape if name == "mask" else shape)
            raise OperandError(f"operand {name} has shape {_join(array.shape)}, but the problem says {says}")
        array = array.astype(dtype)
        values = array.astype(np.float32) if dtype.itemsize < 4 else array
        if not (np.isfinite(values) | ((values == -np.inf) & (name == "mask"))).all():
            raise OperandError(f"operand {name} holds NaN or infinity; attention is judged on numbers")
        checked[name] = array
    return checked


def _broadcasts(shape: Shape, onto: Shape) -> bool:
    return len(shape) <= len(onto) and all(
        size in (1, whole) for size, whole in zip(shape, onto[len(onto) - len(shape) :], strict=True)
    )


def make_normal_attention(asked: Attention, seed: int = 0) -> dict[str, np.ndarray]:
    """q, k, v of N(0, 1); a boolean mask that hides about half of the keys, an additive one of N(0, 1) with some -inf.

    Every query sees at least one of the keys that it would see without a mask, if any.
    """
    rng = np.random.default_rng(seed)
    return _draw(asked, rng, lambda shape: rng.standard_normal(shape))


def make_uniform_attention(asked: Attention, seed: int = 0) -> dict[str, np.ndarray]:
    """The same with numbers of [0, 1)."""
    rng = np.random.default_rng(seed)
    return _draw(asked, rng, lambda shape: rng.uniform(0, 1, shape))


def _draw(asked: Attention, rng: np.random.Generator, numbers: Any) -> dict[str, np.ndarray]:
    dtype = numpy_dtype(asked.dtype)
    found = {name: numbers(getattr(asked, name)).astype(dtype) for name in ("q", "k", "v")}
    if asked.mask:
        shape = asked.operand_shapes["mask"]
        hidden = rng.random(shape) < (_SEEN if asked.mask == "bool" else _HIDDEN)
        hidden = _show_one(asked, hidden, rng)
        added = np.where(hidden, -np.inf, numbers(shape)).astype(dtype)
        found["mask"] = ~hidden if asked.mask == "bool" else added
    return found


def _show_one(asked: Attention, hidden: npt.NDArray[np.bool_], rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Shows each query one of the keys that `causal` and `window` leave it, whichever the mask would hide."""
    chosen = np.where(asked.sees(), rng.random(hidden.shape), -1.0).argmax(axis=-1)
    shown = hidden.copy()
    np.put_along_axis(shown, chosen[..., None], False, axis=-1)
    return shown


def make_exact_attention(asked: Attention, seed: int = 0) -> dict[str, np.ndarray] | None:
    """Integers on which attention rounds nothing: every query's weights are 1 for a single key, else 0.

    The key that a query sees with the largest score (or 2 or 4 that share it) leads by so much that exp of the others'
    is 0 in any order and any blocks; keys that are hidden have larger scores still, many of them. None where no such
    data were found: with a cap of the scores, too many of them, or too few features for the keys to differ.
    """
    if asked.softcap is not None or math.prod(asked.score_shape) > _MOST_SCORES:
        return None
    drawn = (_draw_exact(asked, np.random.default_rng(seed), largest) for largest in _LARGEST_CODES)
    return next((found for found in drawn if found is not None), None)


def _draw_exact(asked: Attention, rng: np.random.Generator, largest_code: int) -> dict[str, np.ndarray] | None:
    scale = asked.factor
    lead = 2.0 ** math.ceil(math.log2(_GAPS.get(asked.dtype, _GAP) / scale))
    largest = float(find_format(asked.dtype).largest)
    found: dict[str, np.ndarray] = {"v": _draw_values(rng, asked.v)}
    if asked.mask:
        hidden = _show_one(asked, rng.random(asked.operand_shapes["mask"]) < _SEEN, rng)
        found["mask"] = ~hidden if asked.mask == "bool" else np.where(hidden, -np.inf, 0.0)
    seen = asked.sees_with(found)
    k = rng.integers(-largest_code, largest_code + 1, asked.k).astype(np.float64)
    q = np.zeros(asked.q)
    left, scores = np.ones(asked.q[:3], bool), np.zeros(0)
    for _ in range(_DRAWS):
        drawn = rng.integers(-largest_code, largest_code + 1, asked.q).astype(np.float64)
        q[left] = drawn[left]
        scores = np.einsum("nhgqd,nhkd->nhgqk", q.reshape(q.shape[0], asked.k[1], asked.group, *q.shape[2:]), k)
        visible = np.where(seen, scores.reshape(asked.score_shape), -np.inf)
        best = visible.max(axis=-1, keepdims=True)
        left = ~np.isin(((visible == best) & np.isfinite(visible)).sum(axis=-1), _SHARED)
        if not left.any():
            break
    most = float(np.abs(scores).max()) * lead * max(scale, 1.0)
    if left.any() or max(most, largest_code * lead) > largest:
        return None
    found |= {"q": q * lead, "k": k}
    dtype = numpy_dtype(asked.dtype)
    cast = {name: found[name].astype(dtype) for name in ("q", "k", "v")}
    if asked.mask:
        cast["mask"] = found["mask"] if asked.mask == "bool" else found["mask"].astype(dtype)
    return cast


def _draw_values(rng: np.random.Generator, shape: Shape) -> npt.NDArray[np.float64]:
    """Multiples of 4, of one sign in each column, so that no mean of them is 0."""
    sizes = rng.integers(1, _LARGEST_VALUE + 1, shape).astype(np.float64)
    return 4.0 * sizes * rng.choice(np.array([-1.0, 1.0]), (*shape[:2], 1, shape[3]))


def _join(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "scalar"
