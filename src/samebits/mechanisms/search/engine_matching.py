"""Engines at hand asked how they compute a recorded problem: does one of them give a recorded result? (`--like`)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from samebits.engines.registry.runners import open_runner
from samebits.errors import EngineFailure
from samebits.findings import Evidence
from samebits.judging.attribution import attribute_recipe, find_recipe
from samebits.judging.references import Reference
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.evidence.explanation_sentences import say_like, say_not_asked, say_unlike
from samebits.problems import Problem
from samebits.progress import Progress
from samebits.sums.recipes.recipe import Recipe


@dataclass(frozen=True)
class AskedEngine:
    """An engine at hand and its recipe on the problem; without one `why` says what it answered."""

    text: str
    version: str | None = None
    recipe: Recipe | None = None
    why: str = ""

    @property
    def name(self) -> str:
        """Its text and its version."""
        return f"{self.text} ({self.version})" if self.version else self.text


def ask_engines(texts: Sequence[str], problem: Problem, progress: Progress) -> list[AskedEngine]:
    """The recipes of engines on a problem; one that fails or refuses is in the list as well.

    Raises RunnerTextError for a text that names no engine, EngineMissingError for one that is not installed.
    """
    return [_ask(text, problem, progress) for text in texts]


def _ask(text: str, problem: Problem, progress: Progress) -> AskedEngine:
    progress(f"asking {text} how it adds", 0.0)
    runner = open_runner(text)
    try:
        identity = runner.identify()
        found = find_recipe(runner, problem)
    except EngineFailure as failure:
        return AskedEngine(text, why=str(failure))
    finally:
        runner.close()
    why = "" if found.recipe else str(found.stopped or "its recipe was not found")
    return AskedEngine(text, identity.version, found.recipe, why)


@dataclass(frozen=True)
class EngineMatch:
    """How an engine's recipe compares with a result; the mechanism only where it reproduces every output."""

    engine: AskedEngine
    evidence: Evidence
    mechanism: Mechanism | None = None


def match_engines(
    asked: Sequence[AskedEngine], reference: Reference, operands: Mapping[str, np.ndarray], result: np.ndarray
) -> Iterator[EngineMatch]:
    """Every engine's recipe compared with a result."""
    for engine in asked:
        if engine.recipe is None:
            yield EngineMatch(engine, Evidence("probe", say_not_asked(engine.name, engine.why)))
            continue
        found = attribute_recipe(engine.recipe, reference, operands, result)
        if found is None or found.replay is None or found.mechanism is None:
            yield EngineMatch(engine, Evidence("replay", say_unlike(engine.name, found.replay if found else None)))
            continue
        yield EngineMatch(engine, Evidence("replay", say_like(engine.name, found.replay)), found.mechanism)
