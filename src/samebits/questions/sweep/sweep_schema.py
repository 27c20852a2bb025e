"""Over which sizes and settings the bits of the same outputs change (schema samebits.sweep/1)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from samebits.findings.comparison_schema import Evidence, Failure
from samebits.findings.json_text import Count
from samebits.findings.made import Made
from samebits.findings.shown import ShownFinding

SizeOrSetting = int | str


class SweepAxis(msgspec.Struct, frozen=True):
    """One range: what it is called, what changes along it in words, and its values."""

    name: str
    says: str
    values: Annotated[list[SizeOrSetting], msgspec.Meta(min_length=1)]


class SweepClass(msgspec.Struct, frozen=True, kw_only=True):
    """Points at which the shared outputs have the same bits.

    `sizes` are their runs, first and last, where the sweep has one axis of sizes; `cells` the same for any axes, the
    first and last value along each. `recipe` was found at `example`; `replayed` says whether it gives the shared
    outputs' bits there.
    """

    sizes: list[list[int]] = []
    cells: list[dict[str, list[SizeOrSetting]]]
    points: Count
    example: str
    recipe: str | None = None
    replayed: bool | None = None


class SweepUnit(msgspec.Struct, frozen=True):
    """A unit of a network whose shared items have other bits at these points than at the largest, fed the same bits.

    `problem` is that of its only product, at the largest point.
    """

    name: str
    operators: list[str]
    problem: str | None
    cells: list[dict[str, list[SizeOrSetting]]]


class SweepFix(msgspec.Struct, frozen=True):
    """A text of an engine whose bits were the same at every point when it was tried; `says` names what is changed."""

    engine: str
    says: str
    version: str | None = None


class SweepFailure(msgspec.Struct, frozen=True):
    """A point at which the engine gave no result."""

    at: dict[str, SizeOrSetting]
    failure: Failure


class Sweep(ShownFinding, msgspec.Struct, frozen=True, kw_only=True):
    """One engine over the points of a sweep. `invariant` is null where too little ran to say.

    `outputs` are shared by all points; `uneven` are cells whose items, all equal, did not get equal bits, of a network
    those where an item that not all batches have got other bits than in the largest batch. `repeats` says whether
    points that were asked again gave the same bits. `units` are those of a network that make the classes, in sequence;
    `fixes` give the same bits at all points, of as many settings and engines as were `tried` (null where none was asked
    for). `more` are the other engines asked.
    """

    _rows: ClassVar[str] = "classes"
    schema: Literal["samebits.sweep/1"] = "samebits.sweep/1"
    sweep: str
    engine: str
    version: str | None = None
    device: str | None = None
    invariant: bool | None
    axes: list[SweepAxis]
    points: Count
    outputs: Count
    classes: list[SweepClass]
    uneven: list[dict[str, list[SizeOrSetting]]] = []
    repeats: bool | None = None
    failures: list[SweepFailure] = []
    units: list[SweepUnit] = []
    fixes: list[SweepFix] = []
    tried: Count | None = None
    summary: str
    evidence: list[Evidence] = []
    time_s: float
    engine_time_s: float
    more: list[Sweep] = []
    samebits_version: str
    made: Made | None = None

    def __post_init__(self) -> None:
        values = {axis.name: axis.values for axis in self.axes}
        for cell in (*(cell for one in (*self.classes, *self.units) for cell in one.cells), *self.uneven):
            if set(cell) != set(values):
                raise ValueError("a cell of a sweep does not have the axes that the sweep has")
            if not all(ends and {*ends} <= {*values[name]} for name, ends in cell.items()):
                raise ValueError("a cell of a sweep ends at values that its axis does not have")
