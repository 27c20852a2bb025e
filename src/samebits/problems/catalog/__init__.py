"""A catalog of named problems: layers of published networks, of real reports, and shapes that break code."""

from __future__ import annotations

import difflib
from functools import cache
from types import MappingProxyType

from samebits.errors import ProblemTextError
from samebits.problems.catalog import (
    corners,
    early_classifiers,
    efficientnet,
    inception,
    mobile,
    patches,
    pictures,
    reported,
    residual,
    segmentation,
    speech,
    transformers,
    variants,
    video,
    waveform,
)
from samebits.problems.catalog.tables import problems_from_table
from samebits.problems.problem import Problem

__all__ = ["catalog", "find"]

_GROUPS = (
    early_classifiers,
    residual,
    inception,
    mobile,
    efficientnet,
    patches,
    segmentation,
    pictures,
    speech,
    waveform,
    video,
    transformers,
    reported,
    corners,
)


@cache
def _problems() -> MappingProxyType[str, Problem]:
    problems: dict[str, Problem] = {}
    for group in _GROUPS:
        for family, table in group.TABLES.items():
            problems |= problems_from_table(family, table)
    return MappingProxyType(problems | variants.variants_of(problems))


def catalog() -> dict[str, Problem]:
    """Every problem by name (`family/layer`), in a fixed order: families as listed here, variants of them last.

    Each is at most 0.5 G multiply-adds, its operands and result together at most 64 MiB; no two are equal.
    The dictionary is the caller's own.
    """
    return dict(_problems())


def find(name: str) -> Problem:
    """The problem of that name; raises ProblemTextError naming the nearest ones where there is none."""
    problems = _problems()
    if name not in problems:
        near = ", ".join(difflib.get_close_matches(name, problems, n=3)) or "see catalog()"
        raise ProblemTextError(f"no problem of this name in the catalog; nearest: {near}", name)
    return problems[name]
