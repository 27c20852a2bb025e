"""Engine texts that stand in a file: a file never chooses a program, a host, a container or a variable."""

from __future__ import annotations

from collections.abc import Collection

from samebits.engines.registry.runner_text import RunnerText, parse_runner_text


def list_reaching_parts(runner: RunnerText) -> list[str]:
    """The parts of an engine's text that decide which program runs, where, or with which variables."""
    place = runner.place
    parts = (("python", place.python), ("ssh", place.host), ("docker", place.image))
    return [f"{key}={value}" for key, value in parts if value is not None] + [
        f"env.{key}={value}" for key, value in runner.environment.items()
    ]


def refuse_text_of_file(text: str, named: Collection[str], source: str) -> str | None:
    """Why an engine's text that was read from the file `source` is not opened; None where it may be.

    It may be where it reaches nothing but an engine of this environment with its settings, or where the person named
    that very text. Raises RunnerTextError, RecipeError for a text that cannot be read.

    >>> refuse_text_of_file("numpy:python=./evil.sh", ["numpy"], "a.lock")
    'a.lock names the engine numpy:python=./evil.sh; only a person chooses python=./evil.sh, by that text behind --on'
    >>> refuse_text_of_file("numpy:python=/opt/py/bin/python", ["numpy:python=/opt/py/bin/python"], "a.lock")
    >>> refuse_text_of_file("torch:threads=1", [], "a.lock")
    """
    if text in named:
        return None
    parts = list_reaching_parts(parse_runner_text(text))
    if not parts:
        return None
    return f"{source} names the engine {text}; only a person chooses {', '.join(parts)}, by that text behind --on"
