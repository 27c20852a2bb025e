"""What an engine's arithmetic was sealed as (samebits.seal/1), and what came of checking or running it (.../1)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from samebits.findings.comparison_schema import Evidence, Replay
from samebits.findings.made import Made
from samebits.findings.shown import ShownFinding

Outcome = Literal["same", "same-tried", "different", "failed", "not-tried"]


class SealedUnit(msgspec.Struct, frozen=True, kw_only=True):
    """One problem as the engine computes it: `digests` of its bits on seeded operands, and the recipe that was found.

    `replay` says how many outputs the recipe reproduced; `used_by` names the nodes of a model that compute it.
    """

    problem: str
    digests: list[str]
    recipe: str | None = None
    replay: Replay | None = None
    used_by: list[str] = []

    @property
    def is_whole(self) -> bool:
        """Whether the recipe reproduced every output: it then says the bits for every input."""
        return self.recipe is not None and self.replay is not None and self.replay.is_whole


class SealedOutput(msgspec.Struct, frozen=True):
    """An output of a model on seeded inputs.

    `replay` says how much of it the steps reproduced, one after the other, on inputs that they were not found on.
    """

    name: str
    digest: str
    replay: Replay | None = None


class SealedStep(msgspec.Struct, frozen=True, kw_only=True):
    """How one unit of a model is computed, so that it can be executed without the engine.

    `nodes` names the first value that each of its nodes makes, `outputs` what it hands on. `form` is `nodes` (node by
    node) or how its product was put together with what follows; `recipe` is the product's, `functions` the library
    whose functions are used, `means` the order in which a mean adds, `rescales` how sums of codes become codes.
    `replay` says how many outputs this reproduced where it was sealed; `alternatives` counts other manners that
    reproduced as many and would give others elsewhere.
    """

    unit: str
    nodes: list[str]
    outputs: list[str]
    form: str
    recipe: str | None = None
    functions: str = ""
    means: str = ""
    rescales: str = ""
    replay: Replay
    alternatives: int = 0
    # Sums of products are in it.
    has_products: bool = False

    @property
    def is_followed(self) -> bool:
        """Whether it is known how the unit's products are added, if it has any."""
        return not self.has_products or bool(self.recipe or self.rescales)

    @property
    def is_exact(self) -> bool:
        """Whether this gave every output, nothing else that was tried did, and all sums are followed."""
        return self.replay.is_whole and not self.alternatives and self.is_followed


class SealedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model: its file's name and the digest of what it holds, the shapes of its inputs, its outputs' bits on them."""

    name: str
    fingerprint: str
    sizes: dict[str, list[int]]
    outputs: list[SealedOutput]
    left_out: list[str] = []
    steps: list[SealedStep] = []
    # The SHA-256 of the nodes that the steps compute: with control flow, those that the inputs led to.
    nodes: str = ""


class Seal(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """How one engine computes problems, or a model's products and outputs, where it was sealed.

    `variables` are the environment variables that the engine heeds and that were set; `seed` that of all operands and
    inputs. `content` is the SHA-256 of everything else but `made`.
    """

    _rows: ClassVar[str] = "units"
    schema: Literal["samebits.seal/1"] = "samebits.seal/1"
    subject: str
    engine: str
    version: str
    device: str
    settings: dict[str, str] = {}
    variables: dict[str, str] = {}
    processor: str
    seed: int
    units: list[SealedUnit]
    model: SealedModel | None = None
    summary: str
    evidence: list[Evidence] = []
    content: str = ""
    samebits_version: str
    made: Made | None = None


class RanStep(msgspec.Struct, frozen=True, kw_only=True):
    """A unit, or a problem, as it was executed. `is_exact`: it gave every bit of the engine where it was sealed."""

    name: str
    says: str
    is_exact: bool


class RanOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output that was computed. `is_exact`: everything that it depends on gave every bit where it was sealed."""

    name: str
    dtype: str
    shape: list[int]
    digest: str
    is_exact: bool


class Run(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """The sealed arithmetic executed without the engine, on given inputs or on the seal's own.

    `holds` is whether the seal's own inputs gave the sealed bits, null for other inputs; `saved` the file with the
    outputs.
    """

    _rows: ClassVar[str] = "outputs"
    schema: Literal["samebits.run/1"] = "samebits.run/1"
    subject: str
    sealed: str
    engine: str
    version: str
    data: str
    steps: list[RanStep]
    outputs: list[RanOutput]
    holds: bool | None = None
    seconds: float
    saved: str | None = None
    summary: str
    evidence: list[Evidence] = []
    samebits_version: str
    made: Made | None = None


class CheckedUnit(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of a seal here. `recipe` is the one found here; `says` how the outcome is known."""

    problem: str
    outcome: Outcome
    says: str
    recipe: str | None = None
    used_by: list[str] = []


class CheckedOutput(msgspec.Struct, frozen=True):
    """An output of the sealed model here."""

    name: str
    outcome: Outcome


class Check(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """Whether an engine here computes what a seal says. `holds` is null where something could not be tried."""

    _rows: ClassVar[str] = "units"
    schema: Literal["samebits.check/1"] = "samebits.check/1"
    subject: str
    sealed: str
    engine: str
    version: str | None = None
    device: str | None = None
    processor: str
    holds: bool | None
    units: list[CheckedUnit]
    outputs: list[CheckedOutput] = []
    summary: str
    evidence: list[Evidence] = []
    samebits_version: str
    made: Made | None = None
