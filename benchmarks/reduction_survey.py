"""Faults put into kernels of plain NumPy, reduced: is the smallest problem found, is its condition the fault's?

`make reductions` writes docs/reduction_survey.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from faulty_kernels import FaultyKernel, make_kernels
from samebits.problems import Problem, format_problem
from samebits.progress import ignore_progress
from samebits.questions.reduce.condition_search import ConditionSearch
from samebits.questions.reduce.conditions import say_condition
from samebits.questions.reduce.fault_asking import FaultAsker, find_data
from samebits.questions.reduce.features import list_features
from samebits.questions.reduce.parameters import can_keep_large, find_floor, put_together, set_number, take_apart
from samebits.questions.reduce.shrinking import Shrinker, Smaller

_MOST_S = 60.0


def is_smallest(kernel: FaultyKernel, problem: Problem) -> bool:
    """Whether none of a problem's numbers can be smaller with the fault still there, asked of the fault itself."""
    numbers = take_apart(problem)
    for name, value in numbers.items():
        for keeps in (False, True) if can_keep_large(problem, name) else (False,):
            for smaller in range(find_floor(name), value):
                changed = put_together(problem, set_number(problem, numbers, name, smaller, keeps_large=keeps))
                if changed is not None and kernel.is_faulty(changed):
                    return False
    return True


def survey_one(kernel: FaultyKernel) -> tuple[bool, bool, float, str]:
    """Whether the problem is the smallest, whether the condition is the fault's own, the seconds, and what was said."""
    started = time.perf_counter()
    asker = FaultAsker(lambda: kernel)
    data, answer = find_data(asker, kernel.start, None)
    assert answer.fault == "wrong", answer
    shrinker = Shrinker(asker, Smaller(kernel.start, answer), data, _MOST_S / 2, ignore_progress)
    smaller, _ = shrinker.shrink()
    search = ConditionSearch(asker, smaller.problem, data, answer.fault, _MOST_S / 2, ignore_progress)
    found = search.find()
    took = time.perf_counter() - started
    # Problems nearby that nobody asked about: the condition says of each what the fault says.
    unseen = search.draw_unseen()
    said = found.condition.hold(search.measure(unseen))
    true = np.array([kernel.is_faulty(problem) for problem in unseen])
    words = say_condition(found.condition, list_features(smaller.problem)) or "always"
    if (said != true).any():
        words += f"  (wrong of {int((said != true).sum())} of {len(unseen)})"
    right = not found.exceptions and not (said != true).any()
    return is_smallest(kernel, smaller.problem), right, took, f"{format_problem(smaller.problem)}: {words}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default=None)
    arguments = parser.parse_args()
    tally: Counter[str] = Counter()
    times: list[float] = []
    misses: list[str] = []
    for i, kernel in enumerate(make_kernels(arguments.count, arguments.seed)):
        smallest, condition, took, said = survey_one(kernel)
        times.append(took)
        tally["smallest"] += smallest
        tally["condition"] += condition
        if not (smallest and condition):
            misses.append(f"{kernel.text}: {'' if smallest else 'not the smallest; '}{said}")
            print(misses[-1], file=sys.stderr)
        print(f"{i + 1}: {tally['smallest']} smallest, {tally['condition']} conditions, {took:.1f} s", file=sys.stderr)
    count = len(times)
    lines = [
        "# Faults reduced, and what was said of them\n",
        "`make reductions` puts faults into kernels of plain NumPy, each where it is known when it is there, and"
        " reduces them from a random problem that shows it.\n",
        "| faults | smallest problem | exact condition | median seconds | longest |\n|---|---|---|---|---|\n"
        f"| {count} | {tally['smallest'] / count:.1%} | {tally['condition'] / count:.1%} | {np.median(times):.1f} |"
        f" {max(times):.1f} |\n",
        "A problem is the smallest if none of its numbers can be smaller with the fault still there, asked of the"
        " fault itself. A condition is exact if it agrees with the fault on about a thousand problems nearby that"
        " were not asked.\n",
    ]
    if misses:
        lines.append("Missed:\n\n" + "\n".join(f"- {miss}" for miss in misses) + "\n")
    text = "\n".join(lines)
    if arguments.output:
        Path(arguments.output).write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
