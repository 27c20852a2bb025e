"""What `samebits pick` chooses for problems of the catalog, compared with another timing of all that keep the contract.

`make picks` (also --count N, --on ENGINE, --write FILE).
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pages import write_page

from samebits.engines.registry.runners import open_runner
from samebits.problems import Problem, format_problem, parse_problem_text
from samebits.problems.catalog import catalog
from samebits.problems.operands import make_normal
from samebits.questions.pick.finals import list_by_time, time_finalists
from samebits.questions.pick.pick_schema import Choice
from samebits.questions.pick.picking import pick

ABOUT = """For every problem the candidates are the variants of all engines named. Those that keep the contract
(within the bound, the same bits in every run, no precision lost) and are within 1.5 times of the choice are then
timed again, by themselves, twice in turns with other operands. Loss is the choice's time over the best one's, both as
timed then. `make picks` writes this page. Timings are of one machine, with little else running."""
ENGINES = ("torch", "onnxruntime", "openvino")
_AT_ONCE = 5
_NEAR, _MOST_PRODUCTS = 1.5, 4e8


def main() -> int:
    """Picks, times again, prints a line a problem, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--on", action="append")
    parser.add_argument("--write")
    given = parser.parse_args()
    problems = choose_problems(given.count)
    engines = given.on or list(ENGINES)
    choices: list[Choice] = []
    losses: list[float] = []
    took = 0.0
    for first in range(0, len(problems), _AT_ONCE):
        started = time.perf_counter()
        found = pick(problems[first : first + _AT_ONCE], engines)
        took += time.perf_counter() - started
        for choice in found.choices:
            # At once: what else the machine does changes within minutes.
            choices.append(choice)
            losses.append(time_again(choice))
            print(f"{losses[-1]:6.3f}  {choice.engine}  {choice.problem}", flush=True)
    print(summarize(losses, took))
    if given.write:
        write_page(Path(given.write), "What pick chooses", ABOUT, list_lines(choices, losses, engines, took))
    return 0


def choose_problems(count: int) -> list[Problem]:
    """Forward float32 problems spread over the catalog, none larger than a second's work, each once."""
    fitting = {}
    for problem in catalog().values():
        products = problem.reduction_length * float(math.prod(problem.out_shape))
        if problem.dtype == "float32" and problem.direction == "forward" and 1e5 < products < _MOST_PRODUCTS:
            fitting[format_problem(problem)] = problem
    texts = list(fitting)
    step = max(len(texts) // count, 1)
    return [parse_problem_text(text) for text in texts[::step][:count]]


def time_again(choice: Choice) -> float:
    """The choice's time over the best one's, in a timing of its own."""
    if choice.engine is None or choice.time_s is None:
        return float("nan")
    problem = parse_problem_text(choice.problem)
    expected = {choice.engine: choice.time_s}
    expected |= {t.engine: t.time_s for t in choice.slower if t.time_s <= _NEAR * choice.time_s}
    operands = make_normal(problem, 99)
    runners = [open_runner(text) for text in reversed(expected)]
    try:
        rounds = [time_finalists(runners, problem, operands, expected).times for _ in range(2)]
    finally:
        for runner in runners:
            runner.close()
    times = {text: statistics.mean(r[text] for r in rounds) for text in expected}
    # The slower ones were not asked the last questions; who loses precision by its recipe does not keep the contract.
    for text in list_by_time(times):
        if text == choice.engine or pick(problem, [text]).choices[0].engine is not None:
            return times[choice.engine] / times[text]
    return float("nan")


def summarize(losses: Sequence[float], took: float) -> str:
    """How many choices are within 5 % of the best, the median and the largest loss."""
    known = [loss for loss in losses if loss == loss]
    near = sum(loss <= 1.05 for loss in known)
    return (
        f"{near} of {len(losses)} choices within 5 % of the best, median loss {statistics.median(known):.3f}, largest"
        f" {max(known):.3f}; picking took {took / len(losses):.1f} s a problem"
    )


def list_lines(choices: Sequence[Choice], losses: Sequence[float], engines: Sequence[str], took: float) -> str:
    """The page's tables."""
    lines = [f"{summarize(losses, took)} ({', '.join(engines)}).", ""]
    lines += ["| problem | choice | kept, rejected | time | loss |", "|---|---|---|---|---|"]
    for choice, loss in zip(choices, losses, strict=True):
        counts = f"{len(choice.slower) + 1}, {len(choice.rejected)}"
        time_s = f"{choice.time_s * 1e3:.3f} ms" if choice.time_s else ""
        lines.append(f"| `{choice.problem}` | {choice.engine} | {counts} | {time_s} | {loss:.3f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
