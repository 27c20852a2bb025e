"""Problems of other sizes near one at which nothing is wrong: many faults come at some sizes only."""

from __future__ import annotations

import random
from collections.abc import Iterator

from samebits.problems import Problem
from samebits.questions.reduce.condition_search import keep_small
from samebits.questions.reduce.parameters import find_floor, put_together, set_number, take_apart

# Each number is changed by so much alone, then several together.
_STEPS = (1, -1, 2, 3, 5, 7, -2, -3, 8, 16)
_TOGETHER, _MOST_CHANGED = 200, 4
_SEED = 5
_FLAGS = ("bias", "then")


def list_nearby(start: Problem) -> Iterator[Problem]:
    """Problems with other numbers than `start`: one changed, halved or doubled, then some at random, each once."""
    numbers, rng = take_apart(start), random.Random(_SEED)
    names = [name for name in numbers if name not in _FLAGS]
    seen = {start}
    for problem in _draw(start, numbers, names, rng):
        small = keep_small(problem)
        if small is not None and small not in seen:
            seen.add(small)
            yield small


def _draw(start: Problem, numbers: dict[str, int], names: list[str], rng: random.Random) -> Iterator[Problem | None]:
    for step in _STEPS:
        for name in names:
            yield _change(start, numbers, {name: numbers[name] + step})
    for name in names:
        for value in (2 * numbers[name], numbers[name] // 2, find_floor(name)):
            yield _change(start, numbers, {name: value})
    for _ in range(_TOGETHER):
        chosen = rng.sample(names, min(len(names), rng.randint(2, _MOST_CHANGED)))
        yield _change(start, numbers, {name: rng.randint(find_floor(name), 2 * numbers[name] + 8) for name in chosen})


def _change(start: Problem, numbers: dict[str, int], changed: dict[str, int]) -> Problem | None:
    values = dict(numbers)
    for name, value in changed.items():
        if value < find_floor(name):
            return None
        values = set_number(start, values, name, value)
    return put_together(start, values)
