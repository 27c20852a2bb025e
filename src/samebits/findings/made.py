"""When, where and by which command a finding was made."""

from __future__ import annotations

import datetime
import platform
import shlex
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from samebits.machine import count_cores, describe_processor

FindingT = TypeVar("FindingT", bound=msgspec.Struct)


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What a colleague has to know of a finding: `at` is the time in UTC, `command` what was typed, if anything."""

    at: str
    command: str
    processor: str
    cores: int
    platform: str
    python: str


def stamp(found: FindingT, arguments: Sequence[str] | None = None) -> FindingT:
    """The finding with when, where and how it was made; one of a kind that has no room for it stays as it is."""
    if "made" not in found.__struct_fields__:
        return found
    made = Made(
        at=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        command="" if arguments is None else shlex.join(["samebits", *arguments]),
        processor=describe_processor(),
        cores=count_cores(),
        platform=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
    )
    return msgspec.structs.replace(found, made=made)


def say_made(made: Made) -> str:
    """When and where, in one line."""
    at = made.at.replace("T", " ").removesuffix("Z")
    cores = f"{made.cores} core{'s' if made.cores != 1 else ''}"
    return f"{at} UTC, {made.processor}, {cores}, {made.platform}, Python {made.python}"
