"""The front door: a fault found, made small, its condition, the settings it is right under, its script."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from samebits.engines.registry.runner_text import parse_runner_text
from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Identity, Runner
from samebits.engines.runner.guarded_runner import guard_runner, list_runners
from samebits.errors import ArgumentError, SamebitsError
from samebits.findings import Evidence
from samebits.judging.comparing_cost import announce_cost, check_memory
from samebits.judging.fixes.setting_changes import apply_all, list_changes
from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.ulps import has_same_bits
from samebits.problems import Problem, format_problem
from samebits.problems.case_file import Case
from samebits.problems.languages.any_language import read_subject
from samebits.progress import Progress, ignore_progress
from samebits.questions.reduce.condition_search import ConditionSearch, FoundCondition
from samebits.questions.reduce.conditions import Condition, say_condition
from samebits.questions.reduce.fault_asking import (
    CALLS_PER_RATE,
    Answer,
    Calls,
    Data,
    FaultAsker,
    Operands,
    find_data,
    find_faulty_versions,
)
from samebits.questions.reduce.features import list_features
from samebits.questions.reduce.looking_nearby import list_nearby
from samebits.questions.reduce.reduction_schema import FaultyVersions, OtherEngine, Reduction
from samebits.questions.reduce.reduction_sentences import (
    EVERYWHERE,
    say_by_chance,
    say_failure,
    say_found_nearby,
    say_left_out,
    say_more_clauses,
    say_neighbours,
    say_no_fault,
    say_repeats,
    say_script,
    say_smallest,
    say_untried,
    say_varies,
    summarize_reduction,
)
from samebits.questions.reduce.scripts.benchdnn_line import write_benchdnn
from samebits.questions.reduce.scripts.engine_script import run_script, write_script
from samebits.questions.reduce.shrinking import Shrinker, Smaller
from samebits.version import VERSION

# The engines that compute with oneDNN, whose maintainers ask for a line of benchdnn.
_ONEDNN = ("torch", "tensorflow", "openvino")
# Shares of the time for making it small, for its condition, and for other settings.
_SMALLER, _CONDITION, _SETTINGS = 0.4, 0.35, 0.25
# What looking at other sizes may take, where nothing is wrong at those given.
_NEARBY = 0.15
# And what calling one problem again and again may take of it, where a fault comes and goes.
_EACH = 0.005
_SCRIPT_S, _MOST_LISTED = 60.0, 12
# More clauses than these no sentence bears.
_MOST_SAID = 4


@default_float_environment()
def reduce(
    subject: str | Path | Problem | Case,
    on: str | Runner | Sequence[str | Runner],
    *,
    most_time_s: float = 60.0,
    time_limit_s: float = 30.0,
    calls: int | None = None,
    progress: Progress = ignore_progress,
) -> Reduction:
    """The smallest problem at which the first engine of `on` has the same fault as at `subject`, and when it has it.

    `subject` is a problem, its text, or a case (file), whose operands are tried where exact integers show nothing. The
    fault is a result that is wrong or less precise than its format, or a crash. Neighbours of the smallest problem are
    asked until a simple condition is left; settings of the engine, and the other engines of `on` (other versions, for
    example), are asked at the smallest problem. `most_time_s` is about what all that may take, the engine's start
    excepted; one call of an engine may take `time_limit_s`. Where nothing is wrong at first, the engine is called again
    on the same operands, `calls` times or for a second: a fault may come and go. Raises SamebitsError, in one
    line, for a subject or a runner's text that cannot be dealt with.

    >>> import samebits
    >>> def kernel(problem, operands):
    ...     y = operands["x"] @ operands["w"]
    ...     y[:, 4:] = 0
    ...     return y
    >>> found = samebits.reduce("matmul x=3x8 w=8x9", [kernel])
    >>> found.problem, found.condition
    ('matmul x=1x1 w=1x5 dtype=float32', 'columns >= 5')
    """
    runners = list_runners(on)
    if not runners:
        raise ArgumentError("reduce needs an engine that has the fault: --on ENGINE")
    for runner in runners:
        if isinstance(runner, str):
            parse_runner_text(runner)
    if not 0 < most_time_s <= 1e6:
        raise ArgumentError(f"most_time_s must be above 0, not {most_time_s!r}")
    given = read_subject(subject)
    problem = given.problem if isinstance(given, Case) else given
    operands = given.operands if isinstance(given, Case) else None
    started = time.perf_counter()
    with contextlib.ExitStack() as stack:
        asker = FaultAsker(lambda: _open(runners[0], time_limit_s))
        stack.callback(asker.close)
        reducer = _Reducer(asker, runners, most_time_s, time_limit_s, calls, progress)
        found = reducer.find(problem, operands)
    return found.finish(time.perf_counter() - started)


def _open(runner: str | Runner, time_limit_s: float) -> Runner:
    return open_runner(runner, time_limit_s=time_limit_s) if isinstance(runner, str) else guard_runner(runner)


@dataclass
class _Found:
    """Everything that goes into the finding."""

    start: Problem
    identity: Identity
    data: Data
    smaller: Smaller | None = None
    is_smallest: bool | None = None
    repeats: bool | None = None
    calls: Calls | None = None
    calls_each: int = 1
    condition: FoundCondition | None = None
    others: list[OtherEngine] = field(default_factory=list[OtherEngine])
    versions: FaultyVersions | None = None
    right_with: list[str] = field(default_factory=list[str])
    script: str | None = None
    reproduced: bool | None = None
    benchdnn: str | None = None
    evidence: list[Evidence] = field(default_factory=list[Evidence])
    asked: int = 0
    # How many problems of other sizes were right, where nothing is wrong.
    right_nearby: int = 0
    is_case: bool = False

    def finish(self, took_s: float) -> Reduction:
        """The finding."""
        common: dict[str, Any] = {
            "start": format_problem(self.start), "engine": self.identity.text, "version": self.identity.version,
            "device": self.identity.device, "settings": self.identity.settings, "data": self.data,
            "problems_asked": self.asked, "time_s": took_s, "samebits_version": VERSION,
        }  # fmt: skip
        if self.smaller is None or self.smaller.answer.fault is None:
            calls = self.calls.count if self.calls else 1
            summary = say_no_fault(
                self.identity.text, given=self.is_case, varies=self.repeats is False, calls=calls,
                nearby=self.right_nearby,
            )  # fmt: skip
            return Reduction(
                problem=None, fault=None, summary=summary, repeats=self.repeats, evidence=self.evidence, **common
            )
        answer, problem = self.smaller.answer, self.smaller.problem
        fault = answer.fault
        assert fault is not None
        words, exact = self._say_condition(problem)
        index = _find_first(answer, is_exact=self.data == "integers")
        return Reduction(
            problem=format_problem(problem),
            fault=fault,
            is_smallest=self.is_smallest,
            repeats=self.repeats,
            where=answer.where,
            first_index=list(index) if index is not None else None,
            first_value=_read(answer.result, index),
            first_truth=_read(answer.truth, index),
            condition=words,
            is_exact=exact,
            wrong_neighbours=self.condition.wrong if self.condition else 0,
            right_neighbours=self.condition.right if self.condition else 0,
            exceptions=[format_problem(p) for p in self.condition.exceptions[:_MOST_LISTED]]
            if self.condition and words
            else [],
            right_with=self.right_with,
            others=self.others,
            versions=self.versions,
            reproducer=self.script,
            reproduced=self.reproduced,
            benchdnn=self.benchdnn,
            summary=summarize_reduction(
                self.identity.text,
                fault,
                self.data,
                self._shorten(words, problem),
                exact=bool(exact),
                right_neighbours=self.condition.right if self.condition else 0,
                problem=format_problem(problem),
                calls=(self.calls.faulty, self.calls.count) if self.calls and self.calls.is_by_chance else None,
            ),
            calls=self.calls.count if self.calls else None,
            faulty_calls=self.calls.faulty if self.calls else None,
            calls_each=self.calls_each,
            evidence=self.evidence,
            **common,
        )

    def _shorten(self, words: str | None, problem: Problem) -> str | None:
        """The condition as far as a sentence bears it: what says most of it; "" where none that is simple fits."""
        found = self.condition
        if found is not None and not found.is_simple:
            return ""
        more = len(found.condition.clauses) - _MOST_SAID if found else 0
        if words is None or found is None or more <= 1:
            return words
        first = say_condition(Condition(found.condition.clauses[:_MOST_SAID]), list_features(problem))
        return say_more_clauses(first, more)

    def _say_condition(self, problem: Problem) -> tuple[str | None, bool | None]:
        """The condition in words, and whether it is exact; None where there is none worth saying."""
        found = self.condition
        if found is None or not found.is_simple or (self.data == "normal" and found.exceptions):
            # On random operands roundings decide, too, and a condition that does not fit says little.
            return None, None
        return say_condition(found.condition, list_features(problem)) or EVERYWHERE, (
            found.is_settled and not found.exceptions
        )


def _find_first(answer: Answer, *, is_exact: bool) -> tuple[int, ...] | None:
    """The first output that is not as it should be on exact integers; else the worst one."""
    if answer.result is None or answer.truth is None or not answer.result.size:
        return None
    result, truth = answer.result.astype(np.float64), answer.truth.astype(np.float64)
    with np.errstate(invalid="ignore"):
        distance = np.abs(result - truth)
    distance[np.isnan(distance)] = np.inf
    distance[(result == truth) | (np.isnan(result) & np.isnan(truth))] = 0.0
    # On exact integers any other number is the fault; else roundings are among them.
    flat = int(np.argmax(distance > 0)) if is_exact else int(np.argmax(distance))
    return tuple(int(i) for i in np.unravel_index(flat, result.shape))


def _read(array: np.ndarray | None, index: tuple[int, ...] | None) -> float | None:
    return None if array is None or index is None else float(array[index])


@dataclass
class _Reducer:
    asker: FaultAsker
    runners: list[str | Runner]
    most_time_s: float
    time_limit_s: float
    calls: int | None
    progress: Progress

    def find(self, start: Problem, operands: Operands | None) -> _Found:
        """Finds the fault, its smallest problem, its condition, what helps and a script, as far as time allows.

        Where nothing is wrong at the problem given, others of other sizes are asked.
        """
        found = self._find_at(start, operands)
        if found.smaller is not None or operands is not None:
            return found
        found.right_nearby, other = self._look_nearby(start)
        found.asked = self.asker.asked
        if other is None:
            return found
        at_other = self._find_at(other, None)
        at_other.start = start
        at_other.evidence.insert(0, Evidence("structure", say_found_nearby(format_problem(other))))
        return at_other

    def _find_at(self, start: Problem, operands: Operands | None) -> _Found:
        identity = self.asker.runner.identify()
        check_memory(start, 2)
        announce_cost(start, 1, 0, self.progress)
        self.progress("looking for the fault", 0.0)
        data, answer = find_data(self.asker, start, operands)
        found = _Found(start, identity, data, is_case=operands is not None)
        if not answer.is_known:
            raise ArgumentError(f"{identity.text} does not take this problem: {answer.says}")
        calls = self._call_often(found, answer, operands)
        data = found.data
        if calls.is_by_chance:
            answer = calls.answer
            self.asker.ask_each(found.calls_each)
        if answer.fault is not None and calls.is_by_chance and found.calls_each == 1:
            self._write(found, found.data)
        if answer.fault is None or (calls.is_by_chance and found.calls_each == 1):
            found.asked = self.asker.asked
            return found
        shrinker = Shrinker(
            self.asker, Smaller(start, answer, operands if data == "given" else None), data,
            _SMALLER * self.most_time_s, self.progress,
        )  # fmt: skip
        found.smaller, found.is_smallest = shrinker.shrink()
        found.evidence.append(
            Evidence("structure", say_smallest(is_smallest=found.is_smallest, asked=self.asker.asked))
        )
        if found.smaller.answer.says:
            found.evidence.append(Evidence("structure", say_failure(found.smaller.answer.says)))
        smallest, fault = found.smaller.problem, found.smaller.answer.fault
        if data != "given":
            most_s = _CONDITION * self.most_time_s
            search = ConditionSearch(self.asker, smallest, data, fault, most_s, self.progress)
            found.condition = search.find()
            wrong, right, exceptions = found.condition.wrong, found.condition.right, len(found.condition.exceptions)
            doubtful = not found.condition.is_simple
            says = say_neighbours(wrong, right, exceptions, by_chance=data == "normal", doubtful=doubtful)
            found.evidence.append(Evidence("structure", says))
            if found.condition.left_out:
                found.evidence.append(Evidence("structure", say_left_out(found.condition.left_out)))
            found.right_with = [format_problem(p) for p in found.condition.nearest_right[:_MOST_LISTED]]
        if not calls.is_by_chance:
            self._ask_again(found, data)
        self._ask_others(found, data)
        self._write(found, data)
        found.asked = self.asker.asked
        return found

    def _look_nearby(self, start: Problem) -> tuple[int, Problem | None]:
        """How many problems of other sizes are right before one that is at fault, if any is."""
        ends, right = time.perf_counter() + _NEARBY * self.most_time_s, 0
        for problem in list_nearby(start):
            if time.perf_counter() > ends:
                break
            self.progress("asking at other sizes", 0.0)
            answer = self.asker.ask(problem, "integers")
            if answer.is_known and answer.is_fault:
                return right, problem
            right += answer.fault is None
        return right, None

    def _call_often(self, found: _Found, answer: Answer, operands: Operands | None) -> Calls:
        """Whether the fault is there at every call; one that comes and goes is the finding, at the problem given."""
        if answer.fault is None:
            found.data, operands = "integers", None
            answer = self.asker.ask(found.start, found.data)
        given = operands if found.data == "given" else None
        if answer.is_fault:
            calls = self.asker.ask_often(found.start, answer, given, found.data)
        else:
            calls = self.asker.call_often(found.start, "integers", self.calls)
            if not calls.faulty:
                found.data = "normal"
                calls = self.asker.call_often(found.start, "normal", self.calls)
        found.calls = calls
        if calls.is_by_chance:
            found.smaller, found.repeats = Smaller(found.start, calls.answer, given), False
            if given is None:
                self.progress("counting how often it comes", 0.0)
                most_s = _EACH * self.most_time_s
                found.calls_each = self.asker.count_calls_for(found.start, found.data, most_s) or 1
            found.evidence.append(Evidence("structure", say_by_chance(found.calls_each)))
        elif calls.varies:
            found.repeats = False
            found.evidence.append(Evidence("structure", say_varies()))
        return calls

    def _ask_again(self, found: _Found, data: Data) -> None:
        """Whether the smallest problem gives the same wrong bits once more."""
        smaller = found.smaller
        assert smaller is not None
        if smaller.answer.result is not None:
            again = self.asker.ask_anew(smaller.problem, data, smaller.operands)
            if again.result is None or again.result.shape != smaller.answer.result.shape:
                # No result, or one on other integers, tells nothing of its bits.
                return
            found.repeats = has_same_bits(again.result, smaller.answer.result)
            found.evidence.append(Evidence("structure", say_repeats(repeats=found.repeats)))

    def _ask_others(self, found: _Found, data: Data) -> None:
        """The smallest problem on the other engines that were named, and under other settings of the first."""
        smaller = found.smaller
        assert smaller is not None
        found.others += [self._ask_other(runner, smaller, data, found.calls_each) for runner in self.runners[1:]]
        first = self.runners[0]
        if not isinstance(first, str):
            return
        named = [o for o, runner in zip(found.others, self.runners[1:], strict=True) if isinstance(runner, str)]
        found.versions = find_faulty_versions(first, found.identity.version, named)
        ends = time.monotonic() + _SETTINGS * self.most_time_s
        changes, untried = list_changes(first, smaller.problem, None, found.identity.settings), list[str]()
        for change in changes:
            if time.monotonic() > ends:
                untried.append(change.says)
                continue
            self.progress(f"trying {change.says}", 0.0)
            found.others.append(self._ask_other(apply_all(first, (change,)), smaller, data, found.calls_each))
        if untried:
            found.evidence.append(Evidence("setting", say_untried(untried)))

    def _ask_other(self, runner: str | Runner, smaller: Smaller, data: Data, calls: int) -> OtherEngine:
        asker = FaultAsker(lambda: _open(runner, self.time_limit_s))
        asker.ask_each(calls)
        text = runner if isinstance(runner, str) else runner.text
        try:
            identity = asker.runner.identify()
            answer = asker.ask(smaller.problem, data, smaller.operands)
        except SamebitsError as error:
            return OtherEngine(text, None, None, str(error))
        finally:
            asker.close()
        # Another fault, or no answer, says nothing about this one.
        right = {None: True, smaller.answer.fault: False}.get(answer.fault)
        return OtherEngine(text, identity.version, right, answer.says or (answer.fault or "" if right is None else ""))

    def _count_calls(self, found: _Found) -> int:
        """How often a script must call: more often than once only where the fault comes and goes."""
        calls = found.calls
        if calls is None or not calls.is_by_chance:
            return 1
        return max(found.calls_each, math.ceil(CALLS_PER_RATE * calls.count / calls.faulty))

    def _write(self, found: _Found, data: Data) -> None:
        """The script, run once, and benchdnn's line."""
        first, smaller = self.runners[0], found.smaller
        assert smaller is not None
        assert smaller.answer.fault is not None
        if not isinstance(first, str):
            return
        runner = parse_runner_text(first)
        fault = smaller.answer.fault
        operands = smaller.answer.operands
        found.script = write_script(
            smaller.problem, operands, runner, found.identity, fault, data=data, calls=self._count_calls(found)
        )
        if runner.name in _ONEDNN:
            found.benchdnn = write_benchdnn(smaller.problem)
        if found.script is not None and runner.place.shares_files:
            self.progress("running the script", 0.0)
            found.reproduced, last = run_script(found.script, fault, runner.place.program, _SCRIPT_S)
            found.evidence.append(Evidence("replay", say_script(found.reproduced, last)))
