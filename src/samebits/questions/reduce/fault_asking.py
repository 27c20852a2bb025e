"""Is the fault there at this problem? A runner asked on exact integers, on random operands, or on those of a case."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from samebits.engines.registry.runner_text import parse_runner_text
from samebits.engines.runner import Runner, check_result
from samebits.engines.runner.lowered_runner import lower_runner
from samebits.engines.runner.repeated_runs import Usual, run_again
from samebits.engines.runner.sliced_runs import slice_operands
from samebits.errors import EngineCrashed, EngineFailure, EngineTimedOut
from samebits.findings import Side, is_agreement
from samebits.judging.references import Reference, make_reference
from samebits.judging.side_running import Ran, judge_exact, judge_ran, run_on_both
from samebits.judging.sides import Recorded
from samebits.problems import Problem
from samebits.problems.lowering import lower_problem
from samebits.problems.operands import make_exact, make_normal
from samebits.progress import ignore_progress
from samebits.questions.reduce.reduction_schema import FaultyVersions, OtherEngine

Operands = Mapping[str, np.ndarray]
Data = Literal["integers", "normal", "given"]
# Several drawings, as a term that is lost may be zero in one of them; more where most terms are zero.
_SEEDS, _SEEDS_OF_THIN = (0, 1), (0, 1, 2, 3)
_MORE_SEEDS = tuple(range(4, 20))
_LONG_SUM = 64
_CALLS, _MOST_AGAIN_S = 6, 3.0
# A fault that comes and goes is looked for with so many calls, in so many seconds.
_USUAL_CALLS = Usual(200, 1.0)
# How often it comes is known from so many faulty calls, of so many in all. A rate seen in ten is true to a factor of
# 0.3 (99.9 %). Where each problem is called ln(1e6) / (0.3 rate) times, one in a million of that rate passes as right.
_FAULTY_CALLS, _CALLS_FOR_RATE, CALLS_PER_RATE = 10, 10_000, 46
_REFUSED, _UNCLEAR = "unsupported", "unclear"


@dataclass(frozen=True)
class Answer:
    """What came of one problem: its fault (None: right), where, and operands that show it.

    `unsupported` says that the runner does not take it, `unclear` that roundings of a transform may be all there is. A
    fault is the verdict (`wrong`, `downgrade`, `undecided`), or the kind of failure: `crash`, `timeout`, `error`.
    """

    fault: str | None
    where: str | None = None
    says: str | None = None
    operands: Operands = field(default_factory=dict[str, np.ndarray])
    result: npt.NDArray[Any] | None = None
    truth: npt.NDArray[Any] | None = None

    @property
    def is_known(self) -> bool:
        """Whether the runner took the problem."""
        return self.fault != _REFUSED

    @property
    def is_fault(self) -> bool:
        """Whether a fault is proved."""
        return self.fault not in (None, _UNCLEAR)


@dataclass(frozen=True)
class Calls:
    """Calls on the same operands: how many, how many of them at fault, and the first answer at fault, if any."""

    count: int
    faulty: int
    answer: Answer
    varies: bool = False

    @property
    def is_by_chance(self) -> bool:
        """Whether the fault comes and goes."""
        return 0 < self.faulty < self.count


class FaultAsker:
    """Asks a runner problem by problem; answers are kept. A process that ended is opened again."""

    def __init__(self, open_again: Callable[[], Runner]) -> None:
        self._open = open_again
        self._runner: Runner | None = None
        self._known: dict[tuple[Problem, Data], Answer] = {}
        self._calls = 1
        self.asked = 0

    @property
    def runner(self) -> Runner:
        """The runner, open."""
        self._runner = self._runner or self._open()
        return self._runner

    def close(self) -> None:
        """Frees the runner."""
        if self._runner is not None:
            self._runner.close()
        self._runner = None

    def ask(self, problem: Problem, data: Data, operands: Operands | None = None) -> Answer:
        """Whether this problem shows a fault. Answers on given `operands` are not kept."""
        if operands is None and (problem, data) in self._known:
            return self._known[problem, data]
        answer = self.ask_anew(problem, data, operands)
        if operands is None:
            self._known[problem, data] = answer
        return answer

    def ask_each(self, calls: int) -> None:
        """From now on every problem is called so often on the same operands; one fault among them is its answer."""
        if calls > 1:
            self._calls = calls
            self._known.clear()

    def ask_anew(self, problem: Problem, data: Data, operands: Operands | None = None) -> Answer:
        """As `ask`, whatever answers are kept."""
        self.asked += 1
        if self._calls > 1:
            return self._ask_often(problem, data, _find_seeds(problem) if data == "integers" else (0,))
        return self._ask_integers(problem) if data == "integers" else self._ask_judged(problem, operands)

    def ask_often(self, problem: Problem, answer: Answer, operands: Operands | None, data: Data) -> Calls:
        """The problem on the same operands again and again, in a few seconds; `answer` is that of the first call."""
        answers, ends = [answer], time.monotonic() + _MOST_AGAIN_S
        while len(answers) < _CALLS and time.monotonic() < ends:
            answers.append(self.ask_anew(problem, data, operands))
        faulty = [a for a in answers if a.is_fault]
        return Calls(len(answers), len(faulty), faulty[0] if faulty else answer)

    def call_often(self, problem: Problem, data: Data, calls: int | None, seed: int = 0) -> Calls:
        """What many calls return on the same operands; None: as many as are cheap.

        Without a fault `faulty` is 0, and `varies` says whether they returned the same bits.
        """
        lowering = lower_problem(problem)
        is_exact = data == "integers"
        convolution = lowering.convolution
        operands = make_exact(convolution, seed) if is_exact else lowering.lower_operands(make_normal(problem, seed))
        given = lowering.restore_operands(operands)
        try:
            first = self._run(problem, given)
        except EngineFailure as error:
            return Calls(1, 1, self._fail(error, given))
        try:
            called = run_again(self.runner, problem, given, first, calls, _USUAL_CALLS)
        except EngineFailure as error:
            return Calls(2, 1, self._fail(error, given))
        reference = make_reference(convolution, operands, ignore_progress, rounds=not is_exact)
        faulty, answer = 0, Answer(None)
        for result, count in zip(called.results, called.counts, strict=True):
            fault, where = _judge_alone(reference, lowering.lower_result(result), is_exact=is_exact)
            if fault is not None:
                faulty += count
                answer = Answer(fault, where, None, given, result, lowering.restore_result(reference.truth))
        return Calls(called.count, faulty, answer, varies=not called.is_same)

    def count_calls_for(self, problem: Problem, data: Data, most_s: float) -> int:
        """How often a problem must be called to show a fault that comes as often as here; 0 where `most_s` is less."""
        started, called, faulty = time.monotonic(), 0, 0
        while faulty < _FAULTY_CALLS and called < _CALLS_FOR_RATE and time.monotonic() - started < _MOST_AGAIN_S:
            more = self.call_often(problem, data, None)
            called, faulty = called + more.count, faulty + more.faulty
        if faulty < _FAULTY_CALLS:
            return 0
        calls, started = math.ceil(CALLS_PER_RATE * called / faulty), time.monotonic()
        self.call_often(problem, data, calls)
        return calls if time.monotonic() - started <= most_s else 0

    def _run(self, problem: Problem, operands: Operands) -> np.ndarray:
        return check_result(problem, self.runner.run(problem, operands))

    def list_answers(self, data: Data) -> list[tuple[Problem, str | None]]:
        """Every problem that was asked on such operands, with its fault."""
        return [(problem, answer.fault) for (problem, kind), answer in self._known.items() if kind == data]

    def ask_more(self, problem: Problem) -> Answer:
        """The answer on more exact integers, where a term that is lost may be 0 in those of `ask`."""
        self.asked += 1
        if self._calls == 1:
            return self._ask_integers(problem, _MORE_SEEDS)
        return self._ask_often(problem, "integers", _MORE_SEEDS)

    def _ask_often(self, problem: Problem, data: Data, seeds: Sequence[int]) -> Answer:
        asked = (self.call_often(problem, data, self._calls, seed).answer for seed in seeds)
        return next((answer for answer in asked if answer.fault is not None), Answer(None))

    def _ask_integers(self, problem: Problem, seeds: Sequence[int] = ()) -> Answer:
        lowering = lower_problem(problem)
        for seed in seeds or _find_seeds(problem):
            operands = make_exact(lowering.convolution, seed)
            given = lowering.restore_operands(operands)
            try:
                result = self._run(problem, given)
            except EngineFailure as error:
                return self._fail(error, given)
            reference = make_reference(lowering.convolution, operands, ignore_progress, rounds=False)
            found, beyond = judge_exact(reference, lowering.lower_result(result))
            if found.differing and not beyond:
                # As a transform rounds on integers, or as a fault that is small: neither a fault nor right.
                return Answer(_UNCLEAR)
            if beyond:
                truth = lowering.restore_result(reference.truth)
                return Answer("wrong", found.where, None, given, result, truth)
        return Answer(None)

    def _ask_judged(self, problem: Problem, operands: Operands | None) -> Answer:
        """The verdict on any operands: random ones, or the beginnings of those given."""
        lowering = lower_problem(problem)
        given = make_normal(problem) if operands is None else slice_operands(problem, operands)
        lowered, exact = lowering.lower_operands(given), make_exact(lowering.convolution)
        runner = lower_runner(self.runner, lowering)
        ran = run_on_both(runner, lowering.convolution, exact, lowered)
        if ran.recorded.failure:
            failure = ran.recorded.failure
            if failure.kind in (EngineCrashed.kind, EngineTimedOut.kind):
                self.close()
            return Answer(failure.kind, says=failure.says, operands=given)
        side, reference = judge_result(lowering.convolution, lowered, exact, ran)
        if is_agreement(side.verdict):
            return Answer(None)
        result = ran.recorded.result
        assert result is not None
        return Answer(
            side.verdict, side.where, None, given,
            lowering.restore_result(result), lowering.restore_result(reference.truth),
        )  # fmt: skip

    def _fail(self, error: EngineFailure, operands: Operands) -> Answer:
        if isinstance(error, (EngineCrashed, EngineTimedOut)):
            self.close()
        return Answer(error.kind, says=str(error), operands=operands)


def _find_seeds(problem: Problem) -> Sequence[int]:
    return _SEEDS if problem.reduction_length <= _LONG_SUM else _SEEDS_OF_THIN


def _judge_alone(reference: Reference, result: np.ndarray, *, is_exact: bool) -> tuple[str | None, str | None]:
    """The fault of one result, and where; None where it is right."""
    if is_exact:
        found, beyond = judge_exact(reference, result)
        return ("wrong", found.where) if beyond else (None, None)
    side = judge_ran(reference, reference, Ran(Recorded("", result)))
    return (None, None) if is_agreement(side.verdict) else (side.verdict, side.where)


def judge_result(problem: Problem, operands: Operands, exact: Operands, ran: Ran) -> tuple[Side, Reference]:
    """The finding on a run, as a side, and the reference that it was compared with."""
    reference = make_reference(problem, operands, ignore_progress)
    on_exact = make_reference(problem, exact, ignore_progress, rounds=False)
    return judge_ran(reference, on_exact, ran), reference


def find_data(asker: FaultAsker, problem: Problem, operands: Operands | None) -> tuple[Data, Answer]:
    """The simplest operands that show a fault: integers, the given ones, random ones; the last answer where none do."""
    answer = asker.ask(problem, "integers")
    if answer.is_fault:
        return "integers", answer
    if operands is not None:
        given = asker.ask(problem, "given", operands)
        if given.fault is not None:
            return "given", given
    return "normal", asker.ask(problem, "normal")


_NUMBERS = re.compile(r"\d{1,9}")
_MOST_PARTS = 4


def find_faulty_versions(text: str, version: str | None, others: Sequence[OtherEngine]) -> FaultyVersions | None:
    """Where in the sequence of versions the fault begins and ends, of the engines asked with the first one's settings.

    None where there are not two versions, one of them right; where the fault comes and goes more than once; or where
    one version is both right and faulty.
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
