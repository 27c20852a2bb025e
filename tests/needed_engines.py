"""Which engines a test needs: `@pytest.mark.needs("torch")` is skipped, with the reason, where torch is missing."""

import shutil
from collections.abc import Iterable

import pytest

from samebits.engines.registry.known_engines import ENGINES

# What an engine needs beside its package.
PROGRAMS = {"tinygrad": "clang"}


def each_engine(texts: Iterable[str]) -> list:
    """Runner texts as parameters of a test or fixture, each of which needs its own engine."""
    return [pytest.param(text, marks=pytest.mark.needs(text)) for text in texts]


def skip_without_engines(texts: Iterable[str]) -> None:
    """Skips the running test unless the engines of all these runner texts are installed."""
    names = {text.partition(":")[0] for text in texts}
    missing = sorted(name for name in names if ENGINES[name].find_version() is None)
    missing += [program for name, program in PROGRAMS.items() if name in names and shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
