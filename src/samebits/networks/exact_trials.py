"""The products of a network on exact integers, one by one: there nothing rounds, so that any difference is a fault."""

from __future__ import annotations

from collections.abc import Iterable
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


def try_exact_integers(side: str, runner: Runner, judged: Iterable[JudgedUnit], progress: Progress) -> tuple[int, int]:
    """Runs every distinct product of the units on exact integers, in the engine alone: how many were right, of all.

    A unit whose product is wrong there is `wrong` on this side, whatever it was fed in the network. Problems that the
    engine does not take by themselves are not counted.
    """
    by_problem: dict[str, list[JudgedUnit]] = {}
    for unit in judged:
        if unit.problem is not None:
            by_problem.setdefault(unit.problem, []).append(unit)
    right = tried = 0
    for number, (text, units) in enumerate(by_problem.items()):
        progress(f"exact integers on {side[:40]}", number / len(by_problem))
        try:
            wrong = _find_fault(runner, parse_problem_text(text))
        except (EngineFailure, ProblemTextError):
            continue
        tried += 1
        right += wrong is None
        for unit in units if wrong is not None else ():
            own = unit.sides[side]
            assert wrong is not None
            unit.sides[side] = replace(own, verdict="wrong", certainty="bounds", evidence=(*own.evidence, wrong))
    return right, tried


def _find_fault(runner: Runner, problem: Problem) -> Evidence | None:
    """What is wrong on exact integers; None where all is right. Raises EngineFailure where there is no result."""
    check_memory(problem, 3)
    lowering = lower_problem(problem)
    operands = make_exact(lowering.convolution, 0)
    reference = make_reference(lowering.convolution, operands, ignore_progress, rounds=False)
    ran = run_on_both(lower_runner(runner, lowering), lowering.convolution, operands, operands)
    if ran.on_exact is None:
        raise EngineFailure(ran.recorded.failure.says if ran.recorded.failure else "no result")
    side = judge_ran(reference, reference, ran)
    assert side.exact_data is not None
    if side.verdict != "wrong":
        # A transform may differ by what rounding makes.
        return None
    return Evidence("structure", say_wrong_on_integers(side.exact_data))
