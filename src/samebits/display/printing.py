"""How a finding is printed, the options that every command has, and the exit statuses."""

from __future__ import annotations

import contextlib
import glob
import os
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samebits.display.streams import say

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

    texts = [name for text in given for name in split_engine_texts(text)]
    if any("version=" in text for text in texts):
        _prepare_releases(texts)
    return texts


def _prepare_releases(texts: list[str]) -> None:
    """Makes the environments of releases that are not here, if the person lets it; what fails is said by its row."""
    from samebits.engines.registry.runner_text import list_missing_releases
    from samebits.engines.workers.releases import find_environments, make_environment, may_install
    from samebits.errors import EngineMissingError

    missing = list_missing_releases(texts)
    if missing:
        ask_to_install(", ".join(map(str, missing)))
    for release in missing if may_install() else ():
        say(f"installing {release} into {find_environments()}, once")
        with contextlib.suppress(EngineMissingError):
            make_environment(release)


def ask_to_install(what: str) -> None:
    """Asks at a terminal whether environments may be made, unless that is known already."""
    from samebits.engines.workers.releases import INSTALL, find_environments, may_install

    if may_install() or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if typer.confirm(f"samebits: install {what} into {find_environments()}?", err=True):
        os.environ[INSTALL] = "yes"


def _allow_installing(given: bool) -> bool:
    """Lets this command, and the processes that it starts, make environments."""
    from samebits.engines.workers.releases import INSTALL

    if given:
        os.environ[INSTALL] = "yes"
    return given


Installs = Annotated[
    bool,
    typer.Option(
        "--install",
        is_eager=True,
        callback=_allow_installing,
        help="install releases that are named and not here, each into an environment of its own, without asking",
    ),
]


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
