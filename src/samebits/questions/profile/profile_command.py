"""`samebits profile`: its options, and its exit status."""

from __future__ import annotations

from typing import Annotated

import typer

from samebits.display.printing import (
    AGREE,
    DIFFER,
    TROUBLE,
    AsJson,
    Installs,
    TimeLimit,
    Verbose,
    complete_engines,
    complete_problems,
    print_finding,
)
from samebits.display.streams import say
from samebits.questions.question import Command, FindingKind, Question


def profile_command(
    engine: Annotated[
        str,
        typer.Argument(autocompletion=complete_engines, help="an engine, e.g. torch or emulate:direct acc=float16"),
    ],
    subject: Annotated[
        list[str] | None,
        typer.Argument(
            help="a problem's text, or a case file (.npz). Default: a 3x3 layer of 64 channels",
            autocompletion=complete_problems,
            metavar="[PROBLEM|CASE]",
        ),
    ] = None,
    time_limit: TimeLimit = 300,
    install: Installs = False,
    most_time: Annotated[float, typer.Option(help="seconds that all questions may take", min=1, max=1e6)] = 60,
    svg: Annotated[str | None, typer.Option(help="write the order and its map as a picture")] = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Find out how an engine rounds and in which order it adds, and prove it by replay.

    The recipe found is executed on random data and compared with the engine bit for bit.
    """
    from samebits.display.narrator import Narrator
    from samebits.engines.registry.runners import start_early

    with Narrator() as narrator, start_early([engine]):
        from samebits.questions.profile.profiling import USUAL_PROBLEM, profile

        text = " ".join(subject or [USUAL_PROBLEM])
        found = profile(engine, text, time_limit_s=time_limit, most_time_s=most_time, progress=narrator.hear)
    from samebits.questions.profile.profile_picture import write_picture
    from samebits.questions.profile.profile_report import show_profile

    if svg:
        write_picture(found, svg)
    print_finding(found, show_profile, verbose=verbose, as_json=as_json)
    if found.failure:
        say(f"{found.engine}: {found.failure}")
        return TROUBLE
    is_replayed = found.replay is not None and found.replay.is_whole and found.has_own_recipe
    return AGREE if is_replayed else DIFFER


def _load_profile():
    from samebits.questions.profile.profile_document import lay_out_profile
    from samebits.questions.profile.profile_report import show_profile
    from samebits.questions.profile.profile_schema import Profile

    return Profile, lay_out_profile, show_profile


PROFILE = Question(
    commands=(
        Command(
            "profile",
            profile_command,
            (
                'samebits profile torch "conv2d x=1x64x56x56 w=64x64x3x3 padding=1"',
                'samebits profile jax "linear x=4x768 w=768x768" --svg order.svg',
            ),
            "0: the recipe replays every output; 1: it misses some, or there is none",
        ),
    ),
    findings=(FindingKind("samebits.profile/1", _load_profile),),
)
