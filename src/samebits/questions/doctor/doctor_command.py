"""`samebits doctor`: its options, and what it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from samebits.display.printing import AGREE, TROUBLE, print_finding

DoctorOn = Annotated[
    list[str] | None,
    typer.Option("--on", help="open this engine, too, and say what it is: torch:ssh=gpu-box; repeat it"),
]
DoctorCompiles = Annotated[
    bool,
    typer.Option("--compile", help="compile for all formats now (minutes, once), so that first answers wait less"),
]


def examine(on: Sequence[str], *, compiles: bool, time_limit_s: float, as_json: bool) -> int:
    """Takes the inventory, prints it, and returns the exit status: 2 where an engine that was named is not there."""
    import msgspec

    from samebits.display.narrator import Narrator
    from samebits.questions.doctor.inventory import take_inventory
    from samebits.questions.doctor.inventory_report import show_inventory

    with Narrator() as narrator:
        if compiles:
            from samebits.questions.doctor.compiling_ahead import compile_ahead

            compile_ahead(narrator.hear)
        found = take_inventory()
        if on:
            from samebits.questions.doctor.inventory import ask_engines

            found = msgspec.structs.replace(found, asked=ask_engines(on, time_limit_s, narrator.hear))
    print_finding(found, lambda found, verbose: show_inventory(found), verbose=True, as_json=as_json)
    return TROUBLE if any(one.failure for one in found.asked) else AGREE
