"""Findings with one leaf replaced, as `samebits report` reads them: hostile numbers, texts, lists, kinds."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

# What stands in place of a leaf. Texts try to become markup in a page, in Markdown or in a table.
_NUMBERS = (0, -1, 1, 2**31, 2**63 - 1, -(2**63), 10**30, 0.5, -0.0, 1e308, -1e308, 5e-324, 1e-400)
_TEXTS = (
    "", " ", "wrong", "identical", "x" * 5000, "ü\u202eabc", "\x1b[31m", "\0", "\n\n# heading\n", "</script><script>",
    "``<img src=x onerror=alert(1)>``", "`a``b```c", "| a | b |", "[x](javascript:alert(1))", "conv2d x=1x1 w=1x1",
    "direct order=((1 2) 3)", "direct order=" + "(" * 500, "linear x=1x1000000000 w=1x1000000000", "$x$", "{{ 7 * 7 }}",
    "&lt;img src=x&gt;", "\ud800".encode("utf-8", "replace").decode(), "@everyone", "<details>", "\\", "```\n````",
)  # fmt: skip
_OTHERS = (None, True, False, [], {}, [[]], [None], [1, 2, 3], {"a": 1}, [{}], "null")


def list_leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where all leaves of a JSON value stand, and its lists and objects too, which may be cut or emptied."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, part in value.items():
            yield from list_leaves(part, (*path, key))
    elif isinstance(value, list):
        for i, part in enumerate(value[:6]):
            yield from list_leaves(part, (*path, i))


def damage_finding(sample: Any, rng: Random) -> tuple[Any, str]:
    """A copy with one or two places changed, and what was changed."""
    changed, said = copy.deepcopy(sample), []
    for _ in range(rng.choice((1, 1, 1, 2))):
        leaves = list(list_leaves(changed))
        path = rng.choice(leaves)
        owner = changed
        for key in path[:-1]:
            owner = owner[key]
        value = _choose(owner[path[-1]], rng)
        if value is _DROP:
            del owner[path[-1]]
        else:
            owner[path[-1]] = value
        said.append(f"{'.'.join(map(str, path))} = {str(value)[:60]!r}")
    return changed, "; ".join(said)


_DROP = object()


def _choose(old: Any, rng: Random) -> Any:
    """Mostly something of the same type, which a schema lets pass."""
    if isinstance(old, list) and rng.random() < 0.7:
        return rng.choice((old[:1], old[1:], old * 2, old[::-1], [*old, *old[:1]], [], old[:-1]))
    if isinstance(old, dict) and rng.random() < 0.5:
        return rng.choice((_DROP, {}, dict([*old.items()][1:])))
    if isinstance(old, str) and rng.random() < 0.8:
        return rng.choice(_TEXTS)
    if isinstance(old, (int, float)) and not isinstance(old, bool) and rng.random() < 0.8:
        return rng.choice(_NUMBERS)
    if old is None and rng.random() < 0.7:
        return rng.choice((None, 0, 0.5, 1e308, "text", [1], {"a": [[0, 1]]}))
    return rng.choice((*_NUMBERS, *_TEXTS, *_OTHERS, _DROP))
