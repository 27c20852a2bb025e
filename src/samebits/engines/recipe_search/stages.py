"""What a recipe search knows after each of its stages: frozen values, one per stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from samebits.engines.probes.accumulator import Accumulator
from samebits.engines.probes.bias_position import BiasPosition
from samebits.engines.probes.family import ImpulseResponse
from samebits.engines.probes.operand_rounding import OperandRounding
from samebits.engines.probes.order_search import FoundOrders
from samebits.engines.probes.product_rounding import ProductRounding
from samebits.engines.probes.subnormals import Subnormals
from samebits.engines.recipe_search.replaying import Replayer
from samebits.sums.recipes.recipe import Recipe, Rounding
from samebits.sums.recipes.tree import Item


@dataclass(frozen=True)
class OrderStage:
    """The orders of all positions, what they cost, and where the other questions are read.

    `tree` is the order that most positions use, None where none was found, and `position` one that has all its terms.
    """

    orders: FoundOrders
    calls: int
    time_s: float
    tree: Item | None
    position: int


@dataclass(frozen=True)
class ArithmeticStage:
    """How operands, products and sums are rounded, and where the bias enters, as far as probes could tell."""

    operands: Mapping[str, OperandRounding] = field(default_factory=dict[str, OperandRounding])
    accumulators: tuple[Accumulator, ...] = ()
    product: ProductRounding | None = None
    bias: BiasPosition | None = None

    def find_rounding(self, name: str) -> Rounding | None:
        """What the operand in this place is rounded to; dy stands where x or w is missing."""
        known = self.operands.get(name) or (self.operands.get("dy") if name not in self.operands else None)
        if known is None or known.format is None or known.mode is None:
            return None
        return Rounding(known.format, known.mode)

    def find_main_accumulator(self, dtype: str) -> Rounding:
        """Format and mode of the innermost running sum: float32 where nothing says otherwise."""
        for accumulator in self.accumulators:
            if accumulator.format:
                # float64 is the format that everything is computed in here: it is rounded to nearest.
                mode = "nearest_even" if accumulator.format == "float64" else accumulator.mode
                return Rounding(accumulator.format, mode or "nearest_even")
        return Rounding("float64" if dtype == "float64" else "float32")


@dataclass(frozen=True)
class RecipeStage:
    """The recipe that reproduces most on random data: the share, of how many outputs, after how many tries."""

    recipe: Recipe | None = None
    matched: float = 0.0
    compared: int = 0
    tried: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether every output is reproduced."""
        return self.recipe is not None and self.matched == 1.0


@dataclass(frozen=True)
class SpecialStage:
    """Subnormals, and what becomes of padding, NaN, zeros and overflow; None where it was not asked."""

    subnormals: Subnormals | None = None
    answers: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])


@dataclass(frozen=True)
class SearchResult:
    """Everything a search found, up to the stage it came to; `stopped` is what ended it early."""

    replayers: tuple[Replayer, ...] = ()
    family: ImpulseResponse | None = None
    order: OrderStage | None = None
    arithmetic: ArithmeticStage = field(default_factory=ArithmeticStage)
    chosen: RecipeStage = field(default_factory=RecipeStage)
    special: SpecialStage = field(default_factory=SpecialStage)
    notes: tuple[str, ...] = ()
    stopped: Exception | None = None

    @property
    def recipe(self) -> Recipe | None:
        """The recipe found, if any."""
        return self.chosen.recipe
