"""A problem: which convolution or product is computed, as a frozen value without any data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from samebits.errors import ProblemShapeError
from samebits.problems.product_shapes import ProductShapes, Shape, find_product_shapes

Kind = Literal[
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "linear", "matmul"
]
Direction = Literal["forward", "grad_input", "grad_weight"]
AutoPadding = Literal["same_upper", "same_lower"]
Padding = tuple[tuple[int, int], ...] | AutoPadding

KINDS: tuple[Kind, ...] = (
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "linear",
    "matmul",
)
# Kinds without windows: what only convolutions have stays at its default.
PRODUCTS: tuple[Kind, ...] = ("linear", "matmul")
CONVOLUTIONS: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind not in PRODUCTS)
DIRECTIONS: tuple[Direction, ...] = ("forward", "grad_input", "grad_weight")
# Operand formats; results may be any of these too.
DTYPES = ("float64", "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
# Names of the spatial axes by their number.
SPATIAL_AXES = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}
# Sizes beyond this cannot be indexed by a signed 64-bit offset with room for arithmetic.
LARGEST_SIZE = 2**40
# NPY_MAXDIMS: NumPy's arrays, and torch's, have no more.
MOST_AXES = 64


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What follows the sum: `relu` is max(y, 0); `clip` is min(max(y, low), high). NaN stays NaN."""

    name: Literal["relu", "clip"]
    low: float = 0.0
    high: float = math.inf

    def __post_init__(self) -> None:
        if self.name == "clip" and not self.low <= self.high:
            raise ProblemShapeError(f"then=clip needs low <= high, not clip({self.low:g},{self.high:g})")
        # Bounds of zero have no sign: the text has none, and maxima of zeros have either.
        object.__setattr__(self, "low", self.low + 0.0)
        object.__setattr__(self, "high", self.high + 0.0)


@dataclass(frozen=True, slots=True)
class Axis:
    """The arithmetic of one spatial axis, everything resolved.

    `size_small` lies on the side that the stride divides (the output of a convolution, the input of a transposed one),
    `size_large` on the other; large index = small index * stride - pad_begin + tap * dilation.
    """

    size_small: int
    size_large: int
    kernel: int
    stride: int
    dilation: int
    pad_begin: int
    pad_end: int

    @property
    def extra(self) -> int:
        """The output padding of a transposed convolution: by how much its output goes beyond the windows."""
        reach = (self.size_small - 1) * self.stride + (self.kernel - 1) * self.dilation + 1
        return self.size_large - (reach - self.pad_begin - self.pad_end)


@dataclass(frozen=True, slots=True)
class Problem:
    """One convolution or product: kind, direction, shapes, attributes; hashable, printed by `problems.problem_text`.

    Shapes follow torch: `x` is (N, C_in, *spatial); `w` is (C_out, C_in/groups, *kernel), and for transposed kinds
    (C_in, C_out/groups, *kernel). `padding` is ((begin, end), ...) per axis, or `same_upper`/`same_lower`. For `linear`
    `x` is (..., K) and `w` (N, K), as in torch; for `matmul` (..., M, K) and (..., K, N), as in NumPy; `product` names
    their axes. A convolution that is computed in place of a product names that as `stated`. Raises ProblemShapeError
    where they do not fit.

    >>> problem = Problem("conv1d", x=(1, 2, 9), w=(4, 2, 3))
    >>> problem.out_shape, problem.reduction_length
    ((1, 4, 7), 6)
    """

    kind: Kind
    x: Shape
    w: Shape
    direction: Direction = "forward"
    bias: bool = False
    stride: Shape = ()
    padding: Padding = ()
    dilation: Shape = ()
    output_padding: Shape = ()
    groups: int = 1
    dtype: str = "float32"
    out: str = ""
    then: Epilogue | None = None
    stated: Problem | None = field(default=None, repr=False)
    axes: tuple[Axis, ...] = field(init=False, compare=False, repr=False)
    product: ProductShapes | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "product", None)
        if self.kind in PRODUCTS:
            self._check_product()
            return
        rank = self.rank
        defaults = {"stride": (1,), "dilation": (1,), "output_padding": (0,), "padding": ((0, 0),)}
        for name, default in defaults.items():
            if not getattr(self, name):
                object.__setattr__(self, name, default * rank)
        if not self.out:
            object.__setattr__(self, "out", self.dtype)
        self._check_names()
        self._check_shapes()
        object.__setattr__(self, "axes", tuple(self._resolve_axis(a) for a in range(rank)))

    @property
    def rank(self) -> int:
        """The number of spatial axes."""
        return 0 if self.kind in PRODUCTS else int(self.kind[-2])

    @property
    def is_transposed(self) -> bool:
        """Whether the kind is a transposed convolution."""
        return self.kind.startswith("conv_transpose")

    @property
    def c_in(self) -> int:
        """Input channels; of a product, the length of its sums."""
        return self.x[-1] if self.product else self.x[1]

    @property
    def c_out(self) -> int:
        """Output channels; of a product, the columns of its result."""
        if self.product:
            return self.product.find_size("y", "n")
        return self.w[1] * self.groups if self.is_transposed else self.w[0]

    @property
    def y_shape(self) -> Shape:
        """The shape of the forward result, (N, C_out, *spatial); of a product as torch and NumPy have it."""
        if self.product:
            return self.product.sizes["y"]
        sizes = tuple(a.size_large if self.is_transposed else a.size_small for a in self.axes)
        return (self.x[0], self.c_out, *sizes)

    @property
    def out_shape(self) -> Shape:
        """The shape of this direction's result: y, the gradient of x, or the gradient of w."""
        return {"forward": self.y_shape, "grad_input": self.x, "grad_weight": self.w}[self.direction]

    @property
    def bias_shape(self) -> Shape:
        """The bias's shape as it broadcasts against a result, whose other axes it is repeated along."""
        return (-1,) if self.product else (1, -1, *(1,) * self.rank)

    @property
    def operand_shapes(self) -> dict[str, Shape]:
        """The operands this direction reads, by name, in the order x, w, bias, dy."""
        if self.direction == "grad_input":
            return {"w": self.w, "dy": self.y_shape}
        if self.direction == "grad_weight":
            return {"x": self.x, "dy": self.y_shape}
        return {"x": self.x, "w": self.w} | ({"bias": (self.c_out,)} if self.bias else {})

    @property
    def reduction_length(self) -> int:
        """K: the most products that any output adds up (borders add fewer), the bias not counted."""
        if self.product:
            return {
                "forward": self.product.length,
                "grad_input": self.c_out,
                "grad_weight": math.prod(self.x[:-1]),
            }[self.direction]
        if self.direction == "grad_weight":
            return self.x[0] * math.prod(a.size_small for a in self.axes)
        gathers = (self.direction == "forward") != self.is_transposed
        if gathers:
            return self.w[1] * math.prod(a.kernel for a in self.axes)
        taps = math.prod(-(-a.kernel // (a.stride // math.gcd(a.stride, a.dilation))) for a in self.axes)
        return (self.w[0] // self.groups) * taps

    @property
    def multiply_adds(self) -> int:
        """The number of products in all outputs together, padded ones counted."""
        if self.product:
            return math.prod(self.y_shape) * self.product.length
        taps = math.prod(a.kernel * a.size_small for a in self.axes)
        return self.x[0] * self.w[0] * self.w[1] * taps

    def _check_product(self) -> None:
        """Checks a product and resolves its shapes, in place of the checks of a convolution."""
        if not self.out:
            object.__setattr__(self, "out", self.dtype)
        for name, none in (("stride", ()), ("padding", ()), ("dilation", ()), ("output_padding", ()), ("groups", 1)):
            if getattr(self, name) != none:
                raise ProblemShapeError(f"{self.kind} has no {name}; leave it out")
        self._check_names()
        if self.kind == "matmul" and self.bias:
            raise ProblemShapeError("matmul has no bias; linear has one")
        if self.kind == "matmul" and self.direction != "forward":
            raise ProblemShapeError(f"matmul has no {self.direction}: its gradients are products, state them as matmul")
        for name, shape in (("x", self.x), ("w", self.w)):
            if shape and min(shape) < 1:
                raise ProblemShapeError(f"every size of {name} must be at least 1, not {min(shape)}")
            if len(shape) > MOST_AXES:
                raise ProblemShapeError(f"{name} has {len(shape)} sizes; arrays have at most {MOST_AXES} axes")
        object.__setattr__(self, "axes", ())
        object.__setattr__(self, "product", find_product_shapes(self.kind, self.x, self.w))
        self._check_sizes((*self.x, *self.w))

    def _check_names(self) -> None:
        if self.kind not in KINDS:
            raise ProblemShapeError(f"unknown kind {self.kind!r}; one of {', '.join(KINDS)}")
        if self.direction not in DIRECTIONS:
            raise ProblemShapeError(f"unknown direction {self.direction!r}; one of {', '.join(DIRECTIONS)}")
        for name in (self.dtype, self.out):
            if name not in DTYPES:
                raise ProblemShapeError(f"unknown dtype {name!r}; one of {', '.join(DTYPES)}")
        if isinstance(self.padding, str) and self.padding not in ("same_upper", "same_lower"):
            raise ProblemShapeError(f"unknown padding {self.padding!r}; a number, valid, same_upper or same_lower")
        if self.direction != "forward" and (self.bias or self.then):
            raise ProblemShapeError(f"{self.direction} has neither bias nor then=; leave them out")

    def _check_shapes(self) -> None:
        rank = self.rank
        for name, shape in (("x", self.x), ("w", self.w)):
            if len(shape) != rank + 2:
                raise ProblemShapeError(f"{self.kind} needs {name} with {rank + 2} sizes, not {len(shape)}")
            if name == "x" and shape[0] == 0:
                raise ProblemShapeError("x is an empty batch, nothing to compute or to compare; N must be at least 1")
            if min(shape) < 1:
                raise ProblemShapeError(f"every size of {name} must be at least 1, not {min(shape)}")
        for name, least in (("stride", 1), ("dilation", 1), ("output_padding", 0)):
            values = getattr(self, name)
            if len(values) != rank:
                raise ProblemShapeError(f"{self.kind} needs {rank} values of {name}, not {len(values)}")
            if min(values) < least:
                raise ProblemShapeError(f"{name} must be at least {least}, not {min(values)}")
        if not isinstance(self.padding, str):
            if len(self.padding) != rank:
                raise ProblemShapeError(f"{self.kind} needs {rank} pairs of padding, not {len(self.padding)}")
            if min(min(pair) for pair in self.padding) < 0:
                raise ProblemShapeError("padding must not be negative")
        self._check_groups()
        if any(self.output_padding) and not self.is_transposed:
            raise ProblemShapeError("output_padding belongs to transposed kinds only")
        every = (*self.x, *self.w, *self.stride, *self.dilation, *self.output_padding)
        pads = () if isinstance(self.padding, str) else tuple(p for pair in self.padding for p in pair)
        self._check_sizes((*every, *pads))

    def _check_sizes(self, every: Shape) -> None:
        if max(every) > LARGEST_SIZE or max(math.prod(self.x), math.prod(self.w)) > LARGEST_SIZE:
            raise ProblemShapeError("sizes beyond 2^40 elements are not supported")

    def _check_groups(self) -> None:
        if self.groups < 1:
            raise ProblemShapeError(f"groups must be at least 1, not {self.groups}")
        if self.w[0] % self.groups:
            raise ProblemShapeError(f"groups={self.groups} must divide the first size of w, {self.w[0]}")
        if self.is_transposed:
            if self.x[1] != self.w[0]:
                raise ProblemShapeError(f"x has {self.x[1]} channels but w, (C_in, C_out/groups, ...), has {self.w[0]}")
        elif self.x[1] != self.w[1] * self.groups:
            raise ProblemShapeError(
                f"x has {self.x[1]} channels but w, (C_out, C_in/groups, ...), needs {self.w[1]} x {self.groups} groups"
            )

    def _resolve_axis(self, a: int) -> Axis:
        size, kernel, stride, dilation = self.x[2 + a], self.w[2 + a], self.stride[a], self.dilation[a]
        reach = (kernel - 1) * dilation + 1
        if self.is_transposed:
            begin, end, extra = self._transposed_padding(a, reach)
            result = (size - 1) * stride - begin - end + reach + extra
            sizes = (size, result)
        else:
            begin, end = self._padding(a, reach)
            result = (size + begin + end - reach) // stride + 1
            sizes = (result, size)
        if result < 1:
            raise ProblemShapeError(
                f"spatial axis {a} has no output: size {size}, kernel reach {reach}, padding {begin}:{end}"
            )
        if not isinstance(self.padding, str) and self.output_padding[a] >= max(stride, dilation):
            raise ProblemShapeError(
                f"output_padding {self.output_padding[a]} must be below stride or dilation on axis {a}"
            )
        return Axis(*sizes, kernel, stride, dilation, begin, end)

    def _padding(self, a: int, reach: int) -> tuple[int, int]:
        if not isinstance(self.padding, str):
            return self.padding[a]
        size, stride = self.x[2 + a], self.stride[a]
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        return self._split(total)

    def _transposed_padding(self, a: int, reach: int) -> tuple[int, int, int]:
        """Padding begin, end and the extra rows at the end. SAME means size * stride outputs, as ONNX defines it."""
        if not isinstance(self.padding, str):
            return (*self.padding[a], self.output_padding[a])
        total = (self.x[2 + a] - 1) * self.stride[a] + self.output_padding[a] + reach - self.x[2 + a] * self.stride[a]
        begin, end = self._split(max(total, 0))
        return begin, end, self.output_padding[a] + max(-total, 0)

    def _split(self, total: int) -> tuple[int, int]:
        small = total // 2
        return (small, total - small) if self.padding == "same_upper" else (total - small, small)


def as_kind(name: str) -> Kind:
    """`name` as a Kind; raises ProblemShapeError for any other text."""
    if name not in KINDS:
        raise ProblemShapeError(f"unknown kind {name!r}; one of {', '.join(KINDS)}")
    return name
