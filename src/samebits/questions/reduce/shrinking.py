"""The smallest problem that still shows a fault: every number as small as it can be while the others stay."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from samebits.problems import Problem
from samebits.progress import Progress
from samebits.questions.reduce.fault_asking import Answer, Data, FaultAsker, Operands
from samebits.questions.reduce.parameters import can_keep_large, find_floor, put_together, set_number, take_apart

# Up to here every smaller value is tried, beyond it powers of two, and then halfway.
_EVERY_VALUE, _EVERY_AT_LAST = 40, 600
_FIRST_VALUES = 16
# Numbers that are made smaller together, where one alone cannot be: squares, as many channels out as in.
_TOGETHER = (
    ("size_h", "size_w"), ("size_d", "size_h", "size_w"), ("kernel_h", "kernel_w"), ("c_in", "c_out"),
    # Padding before and after: a kernel may not take one without the other.
    ("begin_d", "end_d"), ("begin_h", "end_h"), ("begin_w", "end_w"), ("begin_h", "end_h", "begin_w", "end_w"),
)  # fmt: skip
_USUAL_ORDER = ("n", "batch", "rows", "size", "groups", "c_in", "c_out", "columns", "k", "kernel")


@dataclass(frozen=True)
class Smaller:
    """A problem that shows the fault, and its answer; `operands` are the given ones, cut as the problem was."""

    problem: Problem
    answer: Answer
    operands: Operands | None = None

    @property
    def numbers(self) -> dict[str, int]:
        """The problem's numbers."""
        return take_apart(self.problem)


class Shrinker:
    """Tries smaller numbers as long as there is time; what it has is always a problem with the fault."""

    def __init__(self, asker: FaultAsker, found: Smaller, data: Data, most_s: float, progress: Progress) -> None:
        self._asker = asker
        self._data: Data = data
        self._base = found.problem
        self._fault = found.answer.fault
        self._most_s = most_s
        self._ends = time.monotonic() + most_s
        self._progress = progress
        self._every = _EVERY_VALUE
        self.found = found

    def shrink(self) -> tuple[Smaller, bool]:
        """The smallest problem found, and whether every number of it is at its least (or time ran out before)."""
        while self._pass():
            pass
        if not self._is_over() and max(self.found.numbers.values()) > self._every:
            # What was passed over while problems were large.
            self._every = _EVERY_AT_LAST
            while self._pass():
                pass
        return self.found, not self._is_over() and max(self.found.numbers.values()) <= self._every

    def _share(self) -> float:
        """How much of the time is gone; it seldom takes all of it."""
        return 1 - max(self._ends - time.monotonic(), 0.0) / self._most_s

    def _is_over(self) -> bool:
        return time.monotonic() > self._ends

    def _pass(self) -> bool:
        """Tries to lower every number once; returns whether any became smaller."""
        before = self.found.problem
        self._try_one_group()
        for names in self._list_moves():
            self._progress("making it smaller", self._share())
            for keeps_large in (False, True):
                if not keeps_large or can_keep_large(self._base, names[0]):
                    self._lower(names, keeps_large=keeps_large)
            if self._is_over():
                return False
        return self.found.problem != before

    def _list_moves(self) -> Iterator[tuple[str, ...]]:
        names = list(self.found.numbers)
        order = {name: i for i, name in enumerate(_USUAL_ORDER)}
        names.sort(key=lambda n: order.get(n, order.get(n.partition("_")[0], len(order))))
        yield from ((name,) for name in names)
        yield from (together for together in _TOGETHER if set(together) <= set(names))

    def _try_one_group(self) -> None:
        """Tries a single group, which is simpler: with the channels of one group, or with those of all."""
        numbers = self.found.numbers
        if (groups := numbers.get("groups", 1)) > 1:
            for factor_in, factor_out in ((1, 1), (groups, groups)):
                single = {"groups": 1, "c_in": numbers["c_in"] * factor_in, "c_out": numbers["c_out"] * factor_out}
                if self._try(put_together(self._base, {**numbers, **single})):
                    return

    def _lower(self, names: Sequence[str], *, keeps_large: bool) -> None:
        """Lowers one number, or several equal ones together, as far as the fault stays."""
        numbers = self.found.numbers
        value, floor = numbers[names[0]], find_floor(names[0])
        if value <= floor or any(numbers[name] != value for name in names):
            return

        def make(smaller: int) -> Problem | None:
            changed = dict(numbers)
            for name in names:
                changed = set_number(self._base, changed, name, smaller, keeps_large=keeps_large)
            return put_together(self._base, changed)

        self._descend(make, _list_smaller(floor, value, self._every))

    def _descend(self, make: Callable[[int], Problem | None], values: list[int]) -> None:
        right = values[0] - 1
        for value in values:
            if self._is_over():
                return
            if self._try(make(value)):
                # Between the last value that is right and this one there may be smaller ones.
                while value - right > 1 and not self._is_over():
                    middle = (value + right) // 2
                    if self._try(make(middle)):
                        value = middle
                    else:
                        right = middle
                return
            right = value

    def _try(self, problem: Problem | None) -> bool:
        """Takes a problem over if it shows the same fault; returns whether it does."""
        if problem is None or problem == self.found.problem:
            return False
        own = self.found.operands
        if own is None:
            answer = self._asker.ask(problem, self._data)
            if answer.fault == self._fault:
                self.found = Smaller(problem, answer)
                return True
            return False
        for from_end in (False, True):
            cut = _cut(problem, own, from_end=from_end)
            answer = None if cut is None else self._asker.ask(problem, self._data, cut)
            if answer is not None and answer.fault == self._fault:
                self.found = Smaller(problem, answer, cut)
                return True
        return False


def _list_smaller(floor: int, value: int, every: int) -> list[int]:
    """Values below this one, ascending; all of them where it is no larger than `every`."""
    if value <= every:
        return list(range(floor, value))
    powers: list[int] = []
    power = 2 * _FIRST_VALUES
    while power < value:
        powers.append(power)
        power *= 2
    return [*range(floor, _FIRST_VALUES + 1), *powers, value - 1]


def _cut(problem: Problem, operands: Operands, *, from_end: bool) -> dict[str, np.ndarray] | None:
    """The beginnings or the ends of operands; None where they are not long enough."""
    found: dict[str, np.ndarray] = {}
    for name, shape in problem.operand_shapes.items():
        array = operands[name]
        if len(shape) != array.ndim or any(size > has for size, has in zip(shape, array.shape, strict=True)):
            return None
        starts = [has - size if from_end else 0 for size, has in zip(shape, array.shape, strict=True)]
        found[name] = np.ascontiguousarray(array[tuple(slice(s, s + n) for s, n in zip(starts, shape, strict=True))])
    return found
