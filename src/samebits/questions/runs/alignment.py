"""Which operations of two runs are the same one: by what they compute and where, not by their bits."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from samebits.questions.runs.run_reading import Operation

Pair = tuple[int | None, int | None]
_Key = tuple[str, str, str]
# Where two runs go different ways, so many operations are searched for where they meet again.
_WINDOW = 4000
_TENSOR = re.compile(r"[a-z]+\d*(?:_[a-z0-9]+)?\[[\d, ]*\]")


def align(a: Sequence[Operation], b: Sequence[Operation]) -> Iterator[Pair]:
    """The operations of both in sequence, by their places; None beside one that the other run does not have.

    Steps are held against steps. Runs of the same program are the same for long stretches, which are walked; only where
    they part are they searched. What makes memory that nobody has written yet is no operation here.
    """
    steps_a, steps_b = _divide(a), _divide(b)
    for step in sorted({*steps_a, *steps_b}):
        yield from _align_places(a, steps_a.get(step, []), b, steps_b.get(step, []))


def _divide(operations: Sequence[Operation]) -> dict[int, list[int]]:
    """The places of the operations of every step, those of memory alone left out."""
    places = (i for i, o in enumerate(operations) if o.is_view or any(f is not None for f in o.outputs))
    return {step: list(own) for step, own in itertools.groupby(places, lambda i: operations[i].step)}


def _align_places(
    a: Sequence[Operation], own_a: Sequence[int], b: Sequence[Operation], own_b: Sequence[int]
) -> Iterator[Pair]:
    keys_a, keys_b = [_key(a[i]) for i in own_a], [_key(b[j]) for j in own_b]
    i = j = 0
    while i < len(keys_a) and j < len(keys_b):
        if keys_a[i] == keys_b[j]:
            yield own_a[i], own_b[j]
            i, j = i + 1, j + 1
            continue
        start, other = _find_meeting(keys_a[i : i + _WINDOW], keys_b[j : j + _WINDOW])
        yield from ((own_a[n], None) for n in range(i, i + start))
        yield from ((None, own_b[n]) for n in range(j, j + other))
        i, j = i + start, j + other
    yield from ((own_a[n], None) for n in range(i, len(keys_a)))
    yield from ((None, own_b[n]) for n in range(j, len(keys_b)))


def _find_meeting(a: Sequence[_Key], b: Sequence[_Key]) -> tuple[int, int]:
    """After how many operations of each run the same ones follow again; all of them, where that never happens."""
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    return blocks[0].a, blocks[0].b


def _key(operation: Operation) -> _Key:
    return strip_numbers(operation.what), operation.module, operation.direction


@functools.lru_cache(maxsize=65536)
def strip_numbers(what: str) -> str:
    """An operation with the shapes of its tensors and without its numbers: which sample, which factor."""
    name, _, rest = what.partition("(")
    return f"{name}({', '.join(_TENSOR.findall(rest))})"
