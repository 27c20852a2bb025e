"""What probing an engine on one problem found (schema samebits.profile/1)."""

from __future__ import annotations

from typing import Literal

import msgspec

from samebits.findings.comparison_schema import Evidence, ExactData, Replay
from samebits.findings.made import Made
from samebits.findings.shown import ShownFinding


class OrderUse(msgspec.Struct, frozen=True):
    """One summation order: its text in a recipe, in words, and how many outputs use it."""

    order: str
    says: str
    outputs: int


class Invariances(msgspec.Struct, frozen=True):
    """Whether the bits stay the same when something that should not matter changes; null where it was not tried."""

    batch_size: bool | None = None
    batch_position: bool | None = None
    length: bool | None = None
    layout: bool | None = None
    threads: bool | None = None
    repeat: bool | None = None
    channel_order: bool | None = None


class Profile(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """An engine's arithmetic on one problem. What could not be determined is null, with evidence saying why.

    `replay` says how many outputs the recipe reproduced bit for bit on random data, `replay_case` on the person's own.
    `where` maps output positions to the orders (`samebits.sums.recipes.order_map`); `calls` and `time_s` count
    everything that was asked, `order_calls` and `order_time_s` what the summation order took. `exact_data` is there
    where no recipe reproduces everything: what the engine returned on integers that leave no room for rounding;
    `computes_another` says that this is another function, whose arithmetic was not asked further.
    """

    schema: Literal["samebits.profile/1"] = "samebits.profile/1"
    problem: str
    engine: str
    version: str | None = None
    device: str | None = None
    settings: dict[str, str] = {}
    summary: str
    recipe: str | None = None
    family: str | None = None
    replay: Replay | None = None
    replay_case: Replay | None = None
    orders: int | None = None
    order_uses: list[OrderUse] = []
    where: str | None = None
    calls: int
    time_s: float
    order_calls: int | None = None
    order_time_s: float | None = None
    accumulator: str | None = None
    operands: dict[str, str | None] = {}
    fma: bool | None = None
    bias: str | None = None
    subnormals: str | None = None
    invariant_to: Invariances = Invariances()
    distinct_results: int | None = None
    special_values: dict[str, str | None] = {}
    exact_data: ExactData | None = None
    computes_another: bool = False
    evidence: list[Evidence] = []
    failure: str | None = None
    samebits_version: str
    made: Made | None = None

    @property
    def has_own_recipe(self) -> bool:
        """Whether a recipe can be this engine's: it computes the problem, and the same bits each time."""
        return not self.computes_another and (self.distinct_results or 1) == 1
