"""What a question declares once: its commands, and the findings that answer it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec


@dataclass(frozen=True)
class Command:
    """A command. Its parameters are its options and its docstring is its help; it returns the exit status."""

    name: str
    run: Callable[..., int]
    # Two commands that can be typed as they stand.
    examples: tuple[str, str]
    # What its exit statuses mean, but for 2: trouble, in every command.
    exits: str
    # How the command line's library is to read it.
    context_settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding: its schema's name; `load` gives its class and the functions that lay it out and print it.

    The first makes it a document, the second a terminal's text; None where only the document is shown.
    """

    schema: str
    load: Callable[[], tuple[type[msgspec.Struct], Callable[[Any], Any], Callable[..., None] | None]]


@dataclass(frozen=True)
class Question:
    """One thing that people ask. Whatever lists commands or findings reads it here."""

    commands: tuple[Command, ...] = ()
    findings: tuple[FindingKind, ...] = ()
