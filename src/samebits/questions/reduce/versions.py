"""The same engine in several versions: from which on it is faulty, and from which on right again."""

from __future__ import annotations

import re
from collections.abc import Sequence

from samebits.engines.registry.runner_text import parse_runner_text
from samebits.questions.reduce.reduction_schema import FaultyVersions, OtherEngine

_NUMBERS = re.compile(r"\d{1,9}")
_MOST_PARTS = 4


def find_faulty_versions(text: str, version: str | None, others: Sequence[OtherEngine]) -> FaultyVersions | None:
    """Where in the sequence of versions the fault begins and ends, of the engines asked with the first one's settings.

    None where these are not two versions, one of them right; or where it comes and goes more than once, or one version
    is both, which its number then does not decide.
    """
    ours = parse_runner_text(text)
    faulty: dict[tuple[int, ...], bool] = {}
    names: dict[tuple[int, ...], str] = {}
    for other in [OtherEngine(text, version, right=False), *others]:
        theirs = parse_runner_text(other.engine)
        same = (theirs.name, theirs.settings, theirs.environment) == (ours.name, ours.settings, ours.environment)
        if other.right is None or not other.version or not same:
            continue
        key = read_version(other.version)
        if faulty.setdefault(key, not other.right) == other.right:
            return None
        names[key] = other.version
    known = sorted(faulty)
    changes = [i for i in range(1, len(known)) if faulty[known[i]] != faulty[known[i - 1]]]
    begins = [i for i in changes if faulty[known[i]]]
    ends = [i for i in changes if not faulty[known[i]]]
    if not changes or len(begins) > 1 or len(ends) > 1 or (begins and ends and ends < begins):
        return None
    return FaultyVersions(
        first=names[known[begins[0]]] if begins else None,
        right_before=names[known[begins[0] - 1]] if begins else None,
        right_again=names[known[ends[0]]] if ends else None,
        asked=[names[key] for key in known],
    )


def read_version(text: str) -> tuple[int, ...]:
    """The numbers that a version begins with: 2.13.0+cpu is (2, 13, 0)."""
    return tuple(int(number) for number in _NUMBERS.findall(text.partition("+")[0])[:_MOST_PARTS])
