"""A recipe: how a convolution is computed, as data. `samebits.sums.recipes.recipe_text` prints and reads it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from samebits.errors import RecipeError
from samebits.numbers.format import FORMATS, find_format
from samebits.numbers.scalar import MODES, NEAREST_EVEN
from samebits.problems import Problem
from samebits.sums.recipes.order import AS_RECIPE, IN_ORDER, KeyedOrder, Level, Order
from samebits.sums.recipes.order_map import Places
from samebits.sums.recipes.tree import Chain

Bias = Literal["first", "after", "last", "rounded"]
Start = Literal["zero", "product"]
PaddingRule = Literal["skipped", "multiplied"]
NanRule = Literal["kept", "bound"]
BIASES: tuple[Bias, ...] = ("first", "after", "last", "rounded")


@dataclass(frozen=True, slots=True)
class Rounding:
    """To which format, in which mode (`samebits.numbers.scalar.MODES`)."""

    format: str
    mode: str = NEAREST_EVEN

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise RecipeError(f"unknown format {self.format!r}; one of {', '.join(FORMATS)}")
        if self.mode not in MODES:
            raise RecipeError(f"unknown rounding mode {self.mode!r}; one of {', '.join(MODES)}")
        if self.format == "float64" and self.mode != NEAREST_EVEN:
            raise RecipeError(f"float64 is rounded to nearest_even only, not {self.mode}")


@dataclass(frozen=True, slots=True)
class FusedSum:
    """A multi-term addition as matrix units do it: align, truncate, add exactly, round once.

    Every product, and the running sum, is truncated to a multiple of 2^(e - fraction_bits), where e is the
    largest exponent among them; a product's exponent is the sum of its operands' exponents, not normalised. The exact
    sum of what is left is rounded by `rounding` (None: as the accumulator says): a matrix unit keeps its own sums, and
    truncates them, while finished ones are joined by ordinary additions. 0 fraction bits: the recipe has no multi-term
    additions.
    """

    fraction_bits: int = 0
    rounding: Rounding | None = None

    def __post_init__(self) -> None:
        if self.rounding and not self.fraction_bits:
            raise RecipeError(
                "fused= takes a rounding behind the fraction bits kept, as in fused=25/float32/toward_zero"
            )
        if not (self.fraction_bits == 0 or 1 <= self.fraction_bits <= 28):
            raise RecipeError(f"fused= keeps 1 to 28 fraction bits, not {self.fraction_bits}")


@dataclass(frozen=True, slots=True)
class Flush:
    """Which subnormal float32 numbers (below 2^-126) become zero: those read, those computed."""

    operands: bool = False
    results: bool = False


@dataclass(frozen=True, slots=True)
class Winograd:
    """F(tile, taps): the tile of outputs computed from one transformed input patch (Lavin and Gray, 2016)."""

    tile: int

    def __post_init__(self) -> None:
        if self.tile not in (2, 4, 6):
            raise RecipeError(f"winograd has tiles of 2, 4 or 6 outputs, not {self.tile}")


@dataclass(frozen=True, slots=True)
class Fft:
    """Transforms of the whole padded plane, extended to powers of two."""


Algorithm = Winograd | Fft | None


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a result comes about; the defaults are a float32 sum in order with fused multiply-adds.

    `x`, `w` and `b` say what the operands and the bias are rounded to before anything else (None: not at all); in
    backward directions the gradient `dy` takes the place of the missing one. `product` is `fused` (not rounded before
    the addition), `rounded` (to the accumulator) or a format's name. The sum is kept in `accumulator`. `orders` holds
    one order, or several, among which `where` (a nested map, see `samebits.sums.recipes.order_map`) chooses by the
    output's position.
    `bias`: `first` starts the running sum of the first term, `after` is added to it once the first `bias_terms` terms
    are in it, `last` is added to the whole sum in the accumulator, `rounded` is added after the sum has been rounded to
    the result's format, and rounded again. `via` is a format the sum passes through on its way to the result. `start`:
    a running sum starts as +0 plus the product, or as the product (they differ for -0). `padding`: terms outside the
    input are left out, or multiplied as zeros. `nan`: what a then=relu or clip makes of NaN. Sums that are stored in a
    format of their own are part of the orders, and an order's `own` ways go before what stands here.
    """

    algorithm: Algorithm = None
    x: Rounding | None = None
    w: Rounding | None = None
    product: str = "fused"
    accumulator: Rounding = Rounding("float32")
    orders: tuple[Order, ...] = (IN_ORDER,)
    where: Places = 0
    fused: FusedSum = FusedSum()
    bias: Bias = "last"
    bias_terms: int = 0
    via: str = ""
    out_mode: str = NEAREST_EVEN
    flush: Flush = Flush()
    start: Start = "zero"
    padding: PaddingRule = "skipped"
    nan: NanRule = "kept"
    b: Rounding | None = None

    def __post_init__(self) -> None:
        if self.product not in ("fused", "rounded", *FORMATS):
            raise RecipeError(f"product is fused, rounded or a format, not {self.product!r}")
        if self.bias not in BIASES:
            raise RecipeError(f"bias is one of {', '.join(BIASES)}, not {self.bias!r}")
        if (self.bias == "after") != (self.bias_terms > 0):
            raise RecipeError("bias=after needs the number of terms it comes after, as in bias=after/144")
        if self.via and self.via not in FORMATS:
            raise RecipeError(f"unknown format {self.via!r}; one of {', '.join(FORMATS)}")
        if not self.orders:
            raise RecipeError("a recipe needs an order")
        for number, order in enumerate(self.orders):
            if order.own != AS_RECIPE:
                self.for_order(number)
        if self.accumulator.format == "float64" and self.product not in ("fused", "rounded", "float64"):
            raise RecipeError("products narrower than a float64 accumulator are not supported")
        if self.product in FORMATS and find_format(self.product).precision > 24:
            raise RecipeError("a product's own format is at most float32")

    def find_rounding(self, problem: Problem, operand: str) -> Rounding | None:
        """What an operand (x, w, dy or bias) is rounded to; a gradient dy takes the place of the missing operand."""
        if operand == "bias":
            return self.b
        missing = "x" if "x" not in problem.operand_shapes else "w"
        return self.x if (missing if operand == "dy" else operand) == "x" else self.w

    def for_order(self, number: int) -> Recipe:
        """The recipe of the sums that use one of the orders, that order's own ways applied."""
        order = self.orders[number]
        own = order.own
        plain = replace(order, own=AS_RECIPE)
        bias = (own.bias, own.bias_terms) if own.bias else (self.bias, self.bias_terms)
        return replace(
            self, orders=(plain,), where=0, product=own.product or self.product, bias=bias[0], bias_terms=bias[1]
        )  # type: ignore[arg-type]  (an order's own bias is plain text; this constructor checks it)

    def find_last_format(self, *, has_bias: bool) -> str | None:
        """The format that every finished sum is a number of; None where there is no such format, or none is known."""
        if self.algorithm is not None or len(self.orders) > 1:
            return None
        own = self.for_order(0)
        if has_bias and own.bias in ("rounded", "after"):
            return None
        if own.via:
            return own.via
        (order,) = own.orders
        root = order.levels[0] if isinstance(order, KeyedOrder) else order.tree
        stored = root.format if isinstance(root, (Level, Chain)) else ""
        # A bias that is added last is added in the accumulator.
        return own.accumulator.format if not stored or (has_bias and own.bias == "last") else stored
