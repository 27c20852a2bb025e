"""How a finding is printed, the options that every command has, and the exit statuses."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import msgspec

AGREE, DIFFER, TROUBLE = 0, 1, 2
# What was typed behind the program's name, in this run of it.
_typed: ContextVar[tuple[str, ...]] = ContextVar("typed", default=())
AsJson = Annotated[bool, typer.Option("--json", help="print the findings as JSON and nothing else")]
TimeLimit = Annotated[float, typer.Option(help="seconds an engine has for loading and for each run", min=0.1, max=1e6)]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="everything, and not only what fits one screen")]


def remember_typed(arguments: Sequence[str]) -> None:
    """Findings that are printed from now on carry this command."""
    _typed.set(tuple(arguments))


def split_engines(given: list[str] | None) -> list[str] | None:
    """Engines one by one, where a text without settings names several: torch,onnxruntime."""
    if given is None:
        return None
    from samebits.engines.runner.guarded_runner import split_engine_texts

    return [name for text in given for name in split_engine_texts(text)]


def complete_engines(incomplete: str) -> list[str]:
    """How what is typed of an engine may go on."""
    from samebits.engines.registry.text_completion import complete_engine_text

    return complete_engine_text(incomplete)


def complete_problems(incomplete: str) -> list[str]:
    """How what is typed of a problem, a list or a file may go on."""
    from samebits.problems.problem import KINDS

    words = [word for word in (*KINDS, "catalog") if word.startswith(incomplete)]
    return [*words, *complete_files(incomplete)]


def complete_files(incomplete: str) -> list[str]:
    """Files that begin so, behind the name of an array (`x=`) as well."""
    name, equals, path = incomplete.rpartition("=")
    found = sorted(glob.glob(f"{glob.escape(path)}*"))
    return [f"{name}{equals}{one}{'/' if os.path.isdir(one) else ''}" for one in found]


def print_finding(found: msgspec.Struct, show: Callable[..., Any], *, verbose: bool, as_json: bool) -> None:
    """On standard output: the document and nothing else, or the report, as much of it as fits a screen."""
    from samebits.findings import json_from_finding
    from samebits.findings.made import stamp

    if as_json:
        print(json_from_finding(stamp(found, [word for word in _typed.get() if word != "--json"])))
    else:
        show(found, verbose=verbose)
