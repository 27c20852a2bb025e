"""What sides are called in sentences: the engine alone where that says which, emulators by number."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.findings import Side

EMULATE = "emulate"


def shorten_names(sides: Sequence[Side]) -> dict[str, str]:
    """A name for each side's name: the engine's where no other side has the same; emulators are numbered.

    A recipe is too long for a sentence; it stands in full in the finding. Recorded results keep their names.
    """
    bases = [s.name.partition(":")[0] for s in sides]
    names: dict[str, str] = {}
    for number, (side, base) in enumerate(zip(sides, bases, strict=True)):
        if side.engine and bases.count(base) == 1:
            names[side.name] = base
        else:
            names[side.name] = f"{base} {bases[: number + 1].count(base)}" if base == EMULATE else side.name
    return names
