"""The products of a network's units on exact integers, each in an engine alone: what is wrong there is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from samebits.engines.runner import Runner
from samebits.engines.runner.lowered_runner import lower_runner
from samebits.errors import EngineFailure, ProblemTextError
from samebits.findings import Evidence
from samebits.judging.comparing_cost import check_memory
from samebits.judging.judging_sentences import say_wrong_on_integers
from samebits.judging.references import make_reference
from samebits.judging.side_running import judge_ran, run_on_both
from samebits.networks.model_judging import JudgedUnit
from samebits.problems import Problem, parse_problem_text
from samebits.problems.lowering import lower_problem
from samebits.problems.operands import make_exact
from samebits.progress import Progress, ignore_progress


def try_exact_integers(
    runners: Mapping[str, Runner], judged: Iterable[JudgedUnit], progress: Progress
) -> dict[str, tuple[int, int]]:
    """Runs every distinct product of the units on exact integers, in each engine alone: how many were right, of all.

    A unit whose product is wrong there is `wrong` on this side, whatever it was fed in the network. Problems that an
    engine does not take by themselves are not counted.
    """
    by_problem: dict[str, list[JudgedUnit]] = {}
    for unit in judged:
        if unit.problem is not None and any(side in unit.sides for side in runners):
            by_problem.setdefault(unit.problem, []).append(unit)
    counts: dict[str, tuple[int, int]] = dict.fromkeys(runners, (0, 0))
    for number, (text, units) in enumerate(by_problem.items()):
        progress("exact integers", number / len(by_problem))
        try:
            task = _ExactTask(parse_problem_text(text))
        except ProblemTextError:
            continue
        for side, runner in runners.items():
            own = [unit for unit in units if side in unit.sides]
            if not own:
                continue
            try:
                wrong = task.find_fault(runner)
            except EngineFailure:  # It is not counted.
                continue
            right, tried = counts[side]
            counts[side] = (right + (wrong is None), tried + 1)
            if wrong is not None:
                _mark_wrong_alone(own, side, wrong)
    return counts


def _mark_wrong_alone(units: Iterable[JudgedUnit], side: str, wrong: Evidence) -> None:
    for unit in units:
        own = unit.sides[side]
        evidence = (*own.evidence, wrong)
        unit.sides[side] = replace(own, verdict="wrong", certainty="bounds", is_wrong_alone=True, evidence=evidence)


class _ExactTask:
    """A product on exact integers, with what is right; the same for all engines."""

    def __init__(self, problem: Problem):
        check_memory(problem, 3)
        self.lowering = lower_problem(problem)
        self.operands = make_exact(self.lowering.convolution, 0)
        self.reference = make_reference(self.lowering.convolution, self.operands, ignore_progress, rounds=False)

    def find_fault(self, runner: Runner) -> Evidence | None:
        """What is wrong on exact integers; None where all is right. Raises EngineFailure where there is no result."""
        own = lower_runner(runner, self.lowering)
        ran = run_on_both(own, self.lowering.convolution, self.operands, self.operands)
        if ran.on_exact is None:
            raise EngineFailure(ran.recorded.failure.says if ran.recorded.failure else "no result")
        side = judge_ran(self.reference, self.reference, ran)
        assert side.exact_data is not None
        if side.verdict != "wrong":
            # A transform may differ by what rounding makes.
            return None
        return Evidence("structure", say_wrong_on_integers(side.exact_data))
