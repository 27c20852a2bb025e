"""`samebits doctor`: its options, and what it does."""

from __future__ import annotations

from typing import Annotated

import typer

from samebits.display.printing import (
    AGREE,
    TROUBLE,
    AsJson,
    Installs,
    TimeLimit,
    complete_engines,
    print_finding,
    split_engines,
)
from samebits.questions.question import Command, Question

DoctorOn = Annotated[
    list[str] | None,
    typer.Option(
        "--on",
        autocompletion=complete_engines,
        callback=split_engines,
        help="open this engine, too, and say what it is: torch:ssh=gpu-box; repeat it",
    ),
]
DoctorCompiles = Annotated[
    bool,
    typer.Option("--compile", help="compile for all formats now (minutes, once), so that first answers wait less"),
]


def doctor_command(
    on: DoctorOn = None,
    compiles: DoctorCompiles = False,
    time_limit: TimeLimit = 60,
    install: Installs = False,
    as_json: AsJson = False,
) -> int:
    """Say which engines are here, which settings decide their bits, and how to get what is missing."""
    import msgspec

    from samebits.display.narrator import Narrator
    from samebits.engines.registry.known_engines import list_plugins
    from samebits.questions.doctor.inventory import ask_plugins, list_readers, take_inventory
    from samebits.questions.doctor.inventory_report import show_inventory

    with Narrator() as narrator:
        if compiles:
            from samebits.questions.doctor.compiling_ahead import compile_ahead

            compile_ahead(narrator.hear)
        found = take_inventory()
        if list_plugins():
            found = msgspec.structs.replace(found, plugins=ask_plugins(time_limit, narrator.hear))
        if brought := list_readers():
            found = msgspec.structs.replace(found, log_readers=brought)
        if on:
            from samebits.questions.doctor.inventory import ask_engines

            found = msgspec.structs.replace(found, asked=ask_engines(on, time_limit, narrator.hear))
    print_finding(found, lambda found, verbose: show_inventory(found), verbose=True, as_json=as_json)
    return TROUBLE if any(one.failure for one in found.asked) else AGREE


DOCTOR = Question(
    commands=(
        Command(
            "doctor",
            doctor_command,
            ("samebits doctor", "samebits doctor --on torch:ssh=gpu-box"),
            "0: all engines that were named are there",
        ),
    )
)
