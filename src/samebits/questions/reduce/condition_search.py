"""When is it wrong? Neighbours of the smallest problem are asked until one simple condition is left."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from samebits.problems import Problem
from samebits.progress import Progress
from samebits.questions.reduce.conditions import Columns, Condition, Truths, hold_any, list_nearby
from samebits.questions.reduce.covering import (
    Clause,
    Clauses,
    find_cheapest,
    find_necessary,
    list_alternatives,
    list_clauses,
)
from samebits.questions.reduce.fault_asking import Data, FaultAsker
from samebits.questions.reduce.features import list_features, measure_features
from samebits.questions.reduce.parameters import (
    can_keep_large,
    count_elements,
    find_floor,
    put_together,
    set_number,
    take_apart,
    turn_axes,
)

# Values of a number that are asked one after the other, beyond which boundaries are looked for by halving.
_VALUES = (*range(25), 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129)
_LARGEST = {
    "kernel": 17,
    "stride": 9,
    "dilation": 9,
    "begin": 8,
    "end": 8,
    "rest": 8,
    "n": 33,
    "batch": 33,
    "groups": 17,
}
_RANDOM = (1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 8, 9, 12, 15, 16, 16, 17, 24, 32, 33, 40, 64, 65)
_MOST_MULTIPLY_ADDS, _MOST_ELEMENTS = 3_000_000, 400_000
# Around a threshold of this or more, problems not asked yet are constructed, as random draws would not hit it.
_FROM, _BESIDE, _LARGEST_ASKED = 10, (-2, -1, 0, 1), 4096
_SIZES = ("n", "c", "size", "kernel", "rows", "columns", "k", "batch")
_FACTORS = (*_SIZES, "dilation", "stride")
_POOL, _MOST_CHANGES = 1500, 4
# How often a neighbour has height and width exchanged: what is true of one axis may be so of the other.
_TURNED = 0.1
_MOST_DEARER, _MOST_ALTERNATIVES, _MOST_ROUNDS = 1.6, 400, 60
# What a runner may not know at all, however small the problem.
_FLAGS = ("bias", "then")
_MOST_EXCEPTIONS = 12
_FEW_COMPARISONS = 5
_ASKED_ALONE, _STARTS, _REFUTING = 20, 12, 0.25
_ASKED_EACH_ROUND, _CHECKED, _ASKED_MORE, _MORE_ROUNDS = 24, 400, 60, 6


@dataclass(frozen=True)
class FoundCondition:
    """What is true of every faulty neighbour, what says most first.

    `wrong` and `right` count the neighbours that were asked.
    `exceptions` are right all the same, the smallest first: none where the condition is exact. `is_settled`: no other
    condition that fits as well was left untried. `left_out` are parts of problems, such as a bias, that no neighbour
    has, as the runner is not right with them where it is right without.
    """

    condition: Condition
    wrong: int
    right: int
    is_settled: bool
    exceptions: tuple[Problem, ...] = ()
    nearest_right: tuple[Problem, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def is_simple(self) -> bool:
        """Whether it may be the reason: of few comparisons, or exact without an `or`. Many others fit by chance."""
        counts = [len(clause) for clause in self.condition.clauses]
        is_exact = self.is_settled and not self.exceptions
        return sum(counts) <= _FEW_COMPARISONS or (is_exact and max(counts) == 1)


class ConditionSearch:
    """Neighbours of one faulty problem, with their answers."""

    def __init__(
        self, asker: FaultAsker, problem: Problem, data: Data, fault: str | None, most_s: float, progress: Progress
    ) -> None:
        self._asker = asker
        self._base = problem
        self._data: Data = data
        self._fault = fault
        self._most_s = most_s
        self._ends = time.monotonic() + most_s
        self._progress = progress
        self._features = list_features(problem)
        # The condition must also hold for the problems that were asked before.
        self._known = {p: answer == fault for p, answer in asker.list_answers(data) if answer in (None, fault)}
        self._seen = [p for p, wrong in self._known.items() if wrong and keep_small(p)]
        self._rng = random.Random(0)
        self._left_out: tuple[str, ...] = ()

    def find(self) -> FoundCondition:
        """The condition, and what speaks for it."""
        self._ask_all([self._base])
        # Sizes first. That a runner knows no bias shows only where it is right without one and wrong with one.
        self._left_out = _FLAGS
        self._scan()
        self._left_out = tuple(flag for flag in _FLAGS if not self._may_have(flag))
        self._scan()
        condition, settled = self._settle()
        condition, exceptions = self._list_exceptions(condition)
        if self._ask_otherwise(exceptions or self._list_doubtful(condition)):
            condition, settled = self._settle()
            condition, exceptions = self._list_exceptions(condition)
        is_exact = not exceptions
        if self._refute(condition) and is_exact:
            condition, settled = self._settle()
        if not is_exact:
            condition = None
        condition, exceptions = self._list_exceptions(condition)
        problems = list(self._known)
        wrong = sum(self._known.values())
        nearest = self._list_nearest()
        left_out = self._left_out
        condition = self._put_first(condition)
        return FoundCondition(condition, wrong, len(problems) - wrong, settled, tuple(exceptions), nearest, left_out)

    def _put_first(self, condition: Condition) -> Condition:
        """The condition with the clauses first that are true of the fewest right neighbours, given those before."""
        right = self.measure([problem for problem, wrong in self._known.items() if not wrong])
        held = _hold_each(condition.clauses, right, len(next(iter(right.values()))))
        order: list[int] = []
        left = np.ones(held.shape[1], bool)
        while len(order) < len(held):
            best = min((i for i in range(len(held)) if i not in order), key=lambda i: int((held[i] & left).sum()))
            order.append(best)
            left &= held[best]
        return Condition(tuple(condition.clauses[i] for i in order))

    def _list_exceptions(self, condition: Condition | None) -> tuple[Condition, list[Problem]]:
        """The condition, a necessary one where none is exact, and the right problems that it is true of."""
        problems = list(self._known)
        columns, faulty = self._tabulate(problems)
        if condition is None:
            condition = find_necessary(list_clauses(self._features, columns, faulty, pairs=False))
        exceptions = [problems[i] for i in np.flatnonzero(condition.hold(columns) & ~faulty)]
        return condition, sorted(exceptions, key=lambda p: (p.multiply_adds, count_elements(p)))

    def _list_doubtful(self, condition: Condition) -> list[Problem]:
        """Right problems for which a condition has a clause of its own, where these are few."""
        problems = list(self._known)
        columns, faulty = self._tabulate(problems)
        held = _hold_each(condition.clauses, columns, len(problems))
        found: list[Problem] = []
        for own in held:
            alone = np.flatnonzero(~own & ~faulty & (held.sum(axis=0) == len(held) - 1))
            found += [problems[i] for i in alone] if len(alone) <= _MOST_EXCEPTIONS else []
        return found[:_MOST_EXCEPTIONS]

    def _ask_otherwise(self, exceptions: Sequence[Problem]) -> bool:
        """Asks on more integers what is right on the first ones, where a lost term may be 0; whether any is faulty."""
        if self._data != "integers" or len(exceptions) > _MOST_EXCEPTIONS:
            return False
        faulty = [p for p in exceptions if not self._is_over() and self._asker.ask_more(p).fault == self._fault]
        self._known.update(dict.fromkeys(faulty, True))
        return bool(faulty)

    def _refute(self, condition: Condition) -> bool:
        """Asks where one clause of a condition alone is not true, until no fault shows there; whether any did."""
        refuted, clauses = False, condition.clauses
        # Looking for a condition may have taken all the time there was.
        self._ends = max(self._ends, time.monotonic() + _REFUTING * self._most_s)
        for _ in range(_MORE_ROUNDS):
            pool = [*self.draw_unseen(), *self._list_beside(clauses)]
            measured = self.measure(pool)
            held = _hold_each(clauses, measured, len(pool))
            # Where one clause is not true, and all others are.
            alone = ~held & (held.sum(axis=0) == len(clauses) - 1)
            asked = [sorted((pool[i] for i in np.flatnonzero(own)), key=count_elements) for own in alone]
            chosen = [problem for own in asked for problem in own[:_ASKED_ALONE]]
            answers = self._ask_all(chosen)
            # Beyond the limits a right answer says that the limits were left, and no more.
            for problem in chosen:
                if self._known.get(problem) is False and not _is_usual(problem):
                    del self._known[problem]
            refuted |= any(answers)
            if not any(answers) or self._is_over():
                break
            columns, faulty = self._tabulate(list(self._known))
            clauses = find_necessary(list_clauses(self._features, columns, faulty, pairs=False)).clauses
        return refuted

    def _list_beside(self, clauses: Sequence[Clause]) -> list[Problem]:
        """Faulty problems with one number set to what the clauses are about, or to its least values.

        Numbers may be larger than those of other neighbours, whose limits are none of the fault's.
        """
        numbers = {atom.number + step for clause in clauses for atom in clause for step in (-1, 0, 1)}
        faulty = sorted((p for p, wrong in self._known.items() if wrong), key=count_elements)
        found: dict[Problem, None] = {}
        for start in [self._base, *faulty[:: len(faulty) // _STARTS + 1]]:
            taken = take_apart(start)
            for name in self._list_varied():
                least, most = find_floor(name), 1 if name in _FLAGS else _VALUES[-1]
                values = [v for v in sorted({least, least + 1, *numbers}) if least <= v <= most]
                ways = (False, True) if can_keep_large(self._base, name) else (False,)
                problems = [self._vary(taken, name, v, keeps=keeps) for v in values for keeps in ways]
                # Where two numbers have to be equal, one alone changes nothing but that.
                alike = [n for n in self._list_varied() if taken[n] == taken[name] > 1]
                if len(alike) > 1:
                    changes = [dict.fromkeys(alike, v) for v in values if v > 0]
                    problems += [keep_small(put_together(self._base, taken | change)) for change in changes]
                found |= dict.fromkeys(p for p in problems if p is not None and p not in self._known)
        return list(found)

    def _may_have(self, flag: str) -> bool:
        """Whether neighbours may have what the smallest problem has not: the runner is right with it somewhere."""
        if take_apart(self._base).get(flag) != 0:
            return True
        # With a bias that happens to be 0, a single output may be right by chance; many outputs are not.
        known = [problem for problem, wrong in self._known.items() if not wrong]
        right = max(known, key=count_elements, default=None) or self._find_smallest_right()
        more = None if right is None else keep_small(put_together(self._base, {**take_apart(right), flag: 1}))
        return more is None or self._asker.ask(more, self._data).fault is None

    def _find_smallest_right(self) -> Problem | None:
        """The problem of the smallest numbers, if the runner is right at it."""
        least = {name: find_floor(name) for name in take_apart(self._base)}
        problem = keep_small(put_together(self._base, least))
        return problem if problem is not None and self._ask_all([problem])[0] is False else None

    def _list_varied(self) -> list[str]:
        """The numbers of a problem that neighbours differ in."""
        return [name for name in take_apart(self._base) if name not in self._left_out]

    def _is_over(self) -> bool:
        return time.monotonic() > self._ends

    def _ask_all(self, problems: Sequence[Problem]) -> list[bool | None]:
        """Whether each shows the fault; None where the runner does not take it, or ends otherwise."""
        found: list[bool | None] = []
        for problem in problems:
            if problem not in self._known and not self._is_over():
                self._progress("asking its neighbours", 1 - (self._ends - time.monotonic()) / self._most_s)
                answer = self._asker.ask(problem, self._data)
                if answer.fault in (None, self._fault):
                    self._known[problem] = answer.fault == self._fault
            found.append(self._known.get(problem))
        return found

    def _scan(self) -> None:
        """Each number by itself, smaller values of all numbers first; then where the answer changes between two."""
        lines = [(name, keeps) for name in self._list_varied() for keeps in (False, True)]
        lines = [(name, keeps) for name, keeps in lines if not keeps or can_keep_large(self._base, name)]
        answers: dict[tuple[str, bool], dict[int, bool]] = {line: {} for line in lines}
        for value in _VALUES:
            for line in lines:
                self._ask_on_line(line, value, answers[line])
        for line, own in answers.items():
            self._close_gaps(line, own)

    def _ask_on_line(self, line: tuple[str, bool], value: int, answers: dict[int, bool]) -> bool | None:
        name, keeps = line
        if not find_floor(name) <= value <= _find_largest(name):
            return None
        problem = self._vary(take_apart(self._base), name, value, keeps=keeps)
        known = None if problem is None else self._ask_all([problem])[0]
        if known is not None:
            answers[value] = known
        return known

    def _close_gaps(self, line: tuple[str, bool], answers: dict[int, bool]) -> None:
        """Finds, by bisection, where the answer changes between two values."""
        for low, high in list(zip(sorted(answers), sorted(answers)[1:], strict=False)):
            while high - low > 1 and answers[low] != answers[high] and not self._is_over():
                middle = (low + high) // 2
                known = self._ask_on_line(line, middle, answers)
                if known is None:
                    break
                low, high = (middle, high) if known == answers[low] else (low, middle)

    def _vary(self, numbers: dict[str, int], name: str, value: int, *, keeps: bool) -> Problem | None:
        """A neighbour that is not too large to ask, or None."""
        return keep_small(put_together(self._base, set_number(self._base, numbers, name, value, keeps_large=keeps)))

    def _settle(self) -> tuple[Condition | None, bool]:
        """Fits a condition, asks where others that fit as well disagree, and fits again, until none do."""
        condition: Condition | None = None
        for _ in range(_MOST_ROUNDS):
            columns, faulty = self._tabulate(list(self._known))
            clauses = list_clauses(self._features, columns, faulty)
            condition = find_cheapest(clauses)
            if condition is None:
                self._ask_more(clauses)
                return None, False
            if self._is_over():
                return condition, False
            near = [
                condition.replace_clause(i, nearby)
                for i, clause in enumerate(condition.clauses)
                for nearby in list_nearby(clause)
            ]
            near = [other for other in near if (other.hold(columns) == faulty).all()]
            others = list_alternatives(condition, clauses, _MOST_DEARER)
            others.sort(key=lambda c: c.cost)
            if self._ask_where_they_differ(condition, near + others[:_MOST_ALTERNATIVES]):
                continue
            if self._check(condition):
                return condition, not self._is_over()
        return condition, False

    def _ask_more(self, clauses: Clauses) -> None:
        """Asks more faulty neighbours, as no simple condition is exact, to find what is true of all of them."""
        for _ in range(_MORE_ROUNDS):
            pool = self.draw_unseen()
            promising = np.flatnonzero(find_necessary(clauses).hold(self.measure(pool)))
            self._ask_all([pool[i] for i in promising[:_ASKED_MORE]])
            columns, faulty = self._tabulate(list(self._known))
            clauses = list_clauses(self._features, columns, faulty, pairs=False)

    def _ask_where_they_differ(self, condition: Condition, others: list[Condition]) -> bool:
        """Asks a few problems at which the condition differs from `others`; returns whether any was answered."""
        pool = [*self.draw_unseen(), *self._list_at_thresholds(condition)]
        columns = self.measure(pool)
        own = condition.hold(columns)
        differing = np.array([other.hold(columns) != own for other in others], bool).reshape(len(others), len(pool))
        sizes = np.array([count_elements(problem) for problem in pool])
        asked = 0
        for _ in range(_ASKED_EACH_ROUND):
            votes = differing.sum(axis=0)
            if not votes.any():
                break
            chosen = int(np.lexsort((sizes, -votes))[0])
            asked += self._ask_all([pool[chosen]])[0] is not None
            differing = differing[~differing[:, chosen]]
            differing[:, chosen] = False
        return asked > 0

    def _check(self, condition: Condition) -> bool:
        """Asks new problems of both kinds; returns whether all are as the condition says."""
        pool = self.draw_unseen()
        predicted = condition.hold(self.measure(pool))
        for expected in (True, False):
            chosen = [pool[i] for i in np.flatnonzero(predicted == expected)[:_CHECKED]]
            answers = self._ask_all(chosen)
            if any(answer not in (None, expected) for answer in answers):
                return False
        return True

    def _list_at_thresholds(self, condition: Condition) -> list[Problem]:
        """Problems just at a threshold, for quantities that are products: one size large, another one small."""
        atoms = [atom for clause in condition.clauses for atom in clause if atom.comparison in (">=", "<=")]
        values = {atom.number + step for atom in atoms for step in _BESIDE if atom.number >= _FROM}
        numbers = take_apart(self._base)
        sizes = [name for name in numbers if name.partition("_")[0] in _SIZES]
        found: dict[Problem, None] = {}
        factors = [name for name in numbers if name.partition("_")[0] in _FACTORS]
        for value, large, small in itertools.product(sorted(values), sizes, factors):
            if 0 < value <= _LARGEST_ASKED:
                changed = set_number(self._base, {**numbers, small: 1}, large, value)
                problem = keep_small(put_together(self._base, changed))
                if problem is not None and problem not in self._known:
                    found[problem] = None
        return list(found)

    def draw_unseen(self) -> list[Problem]:
        """Neighbours of faulty problems, in a few numbers, that were not asked yet."""
        faulty = [problem for problem, wrong in self._known.items() if wrong]
        found: dict[Problem, None] = {}
        varied = self._list_varied()
        for _ in range(_POOL):
            dice = self._rng.random()
            start = (
                self._base if dice < 0.4 else self._rng.choice(faulty if dice < 0.8 or not self._seen else self._seen)
            )
            numbers = take_apart(start)
            if self._rng.random() < _TURNED:
                numbers = turn_axes(numbers)
            for _ in range(self._rng.randint(1, _MOST_CHANGES)):
                name = self._rng.choice(varied)
                value = max(min(self._draw_value(numbers[name]), _find_largest(name)), find_floor(name))
                keeps = can_keep_large(self._base, name) and self._rng.random() < 0.5
                numbers = set_number(self._base, numbers, name, value, keeps_large=keeps)
            problem = keep_small(put_together(self._base, numbers))
            if problem is not None and problem not in self._known:
                found[problem] = None
        return list(found)

    def _draw_value(self, value: int) -> int:
        """Another value of a number: near its own, or any."""
        return value + self._rng.choice((-2, -1, 1, 2)) if self._rng.random() < 0.4 else self._rng.choice(_RANDOM)

    def measure(self, problems: Sequence[Problem]) -> Columns:
        """The features of problems, one array each."""
        rows = [measure_features(problem) for problem in problems]
        return {name: np.array([row[name] for row in rows], np.int64) for name in self._features}

    def _tabulate(self, problems: Sequence[Problem]) -> tuple[Columns, Truths]:
        return self.measure(problems), np.array([self._known[problem] for problem in problems], bool)

    def _list_nearest(self) -> tuple[Problem, ...]:
        """Right problems that differ from the smallest one in a single number, by one step."""
        return tuple(self._iterate_nearest())

    def _iterate_nearest(self) -> Iterator[Problem]:
        numbers = take_apart(self._base)
        seen: set[Problem] = set()
        for name in self._list_varied():
            for keeps in (True, False) if can_keep_large(self._base, name) else (False,):
                problem = self._vary(numbers, name, numbers[name] + 1, keeps=keeps)
                if problem is not None and self._known.get(problem) is False and problem not in seen:
                    seen.add(problem)
                    yield problem


def _hold_each(clauses: Sequence[Clause], columns: Columns, count: int) -> Truths:
    """Which clause holds at which of so many points: a row for each clause."""
    return np.array([hold_any(clause, columns) for clause in clauses], bool).reshape(len(clauses), count)


def keep_small(problem: Problem | None) -> Problem | None:
    """A problem that is asked in no time; None for a larger one, or for none."""
    if problem is None or problem.multiply_adds > _MOST_MULTIPLY_ADDS or count_elements(problem) > _MOST_ELEMENTS:
        return None
    return problem


def _is_usual(problem: Problem) -> bool:
    return all(value <= _find_largest(name) for name, value in take_apart(problem).items())


def _find_largest(name: str) -> int:
    return _LARGEST.get(name, _LARGEST.get(name.partition("_")[0], _VALUES[-1])) if name not in _FLAGS else 1
