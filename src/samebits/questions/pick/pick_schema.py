"""What was picked for each problem, and the lock file that keeps it (schemas samebits.pick/1 and samebits.lock/1)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from samebits.findings.causes import CauseCode
from samebits.findings.comparison_schema import Evidence, Replay
from samebits.findings.made import Made
from samebits.findings.shown import ShownFinding

# How a choice was come by: timed now; taken from the lock as it stands; from a lock made elsewhere, the bits checked.
PickedBy = Literal["timing", "lock", "checked lock"]


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """What a choice must keep. Exact integers must come out exact for `within="bound"`, whatever else is asked for.

    `max_ulp` is the largest distance from the correctly rounded result, in representable numbers. `within` says whether
    every output must keep its error bound and the recipe the declared precision. `workspace` is in bytes.
    """

    max_ulp: float | None = None
    within: Literal["bound", "any"] = "bound"
    deterministic: bool = True
    batch_invariant: bool = False
    workspace: int | None = None


class Timed(msgspec.Struct, frozen=True):
    """A candidate that keeps the contract, as far as it was looked at, and the median seconds of a call.

    `as_fast`: turns taken in the same rounds do not tell whether it is slower than the choice.
    """

    engine: str
    time_s: float
    as_fast: bool = False


class Rejection(msgspec.Struct, frozen=True):
    """A candidate that breaks the contract, or that cannot compute the problem."""

    engine: str
    why: str
    cause: CauseCode | None = None


class Place(msgspec.Struct, frozen=True):
    """Where a choice is known to give its bits: the engine's version and the processor with its cores."""

    version: str
    device: str


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest candidate of one problem that keeps the contract; `engine` is null where none does.

    `used_by` names the nodes of a model; `digests` stand for its bits on exact integers and on normal operands.
    """

    problem: str
    engine: str | None
    time_s: float | None
    rejected: list[Rejection]
    slower: list[Timed] = []
    picked_by: PickedBy = "timing"
    places: list[Place] = []
    recipe: str | None = None
    replay: Replay | None = None
    peak_bytes: int | None = None
    digests: list[str] = []
    used_by: list[str] = []


class Pick(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """The choices for a problem, or for every convolution and product of a model."""

    _rows: ClassVar[str] = "choices"
    schema: Literal["samebits.pick/1"] = "samebits.pick/1"
    subject: str
    contract: Contract
    choices: list[Choice]
    summary: str
    lock: str | None = None
    evidence: list[Evidence] = []
    samebits_version: str
    made: Made | None = None


class LockedChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A choice and the contract that it keeps."""

    contract: Contract
    choice: Choice


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """A lock file: choices by problem, each once."""

    schema: Literal["samebits.lock/1"] = "samebits.lock/1"
    samebits_version: str
    choices: list[LockedChoice]
