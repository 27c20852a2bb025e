"""Explains thousands of injected and fault-free cases; prints how often verdict and cause are right, and what for what.

One case in three is fault-free. `--write FILE` keeps the tables.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import fnmatch
import os
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from samebits.mechanisms.search.recorded_case import explain_case
from samebits.problems import format_problem

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from pages import write_page

from injected_cases import FAULT_FREE, MECHANISMS, PROBLEMS, Injected, make_case
from injected_faults import Skip

ABOUT = """Each case is a recorded result by emulation, with a random order of addition (tests/injected_cases.py); one
in three is fault-free. `make injected` asks `explain` about all of them and writes this page."""


@dataclass(frozen=True)
class Answer:
    """What explain said of one case, beside what is right."""

    mechanism: str
    expected: str
    verdict: str
    cause: str | None
    right_verdict: bool
    right_cause: bool
    time_s: float
    shown: str


def answer(injected: Injected) -> Answer:
    started = time.perf_counter()
    found = explain_case(injected.case)
    expected = FAULT_FREE if injected.mechanism == FAULT_FREE else injected.verdict
    shown = f"{found.verdict} {found.cause} ({found.sides[0].says}) {format_problem(injected.case.problem)}"
    right = found.verdict == injected.verdict, found.cause in injected.causes
    time_s = time.perf_counter() - started
    return Answer(injected.mechanism, expected, found.verdict, found.cause, *right, time_s, shown)


def ask_all(job: tuple[int, str, str]) -> list[Answer]:
    """One problem and one seed: every mechanism that leaves a trace, and half as many fault-free cases."""
    seed, text, only = job
    answers: list[Answer] = []
    for mechanism in MECHANISMS:
        if fnmatch.fnmatch(mechanism, only):
            with contextlib.suppress(Skip):
                answers.append(answer(make_case(mechanism, text, seed)))
    for n in range(-(-len(answers) // 2)):
        answers.append(answer(make_case(FAULT_FREE, text, 1000 * seed + n)))
    return answers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="*", help="mechanisms whose name fits this pattern")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--show", action="store_true", help="print every case that is judged otherwise")
    options = parser.parse_args()
    jobs = [(seed, text, options.only) for seed in range(options.rounds) for text in PROBLEMS]
    answers: list[Answer] = []
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(ask_all, jobs):
            answers += done
            print(f"{len(answers)} cases", file=sys.stderr)
            if options.show:
                wrong = [a for a in done if not (a.right_verdict and a.right_cause)]
                print("".join(f"{a.mechanism}: {a.shown}\n" for a in wrong), end="", flush=True)
            if options.write:
                # Long runs may be stopped: what is done so far is kept.
                write_page(options.write, "Explaining injected and fault-free cases", ABOUT, tabulate(answers))
    print(tabulate(answers), end="")
    return 0


def tabulate(answers: list[Answer]) -> str:
    """How often verdict and cause are right, and what was said for what."""
    verdicts = Counter((a.expected, a.verdict) for a in answers)
    total, times = len(answers), [a.time_s for a in answers]
    right_verdicts, right_causes = sum(a.right_verdict for a in answers), sum(a.right_cause for a in answers)
    false_alarms = sum(a.mechanism == FAULT_FREE and a.verdict in ("downgrade", "wrong") for a in answers)
    lines = [
        f"{total} cases, {sum(v for (e, _), v in verdicts.items() if e == FAULT_FREE)} of them fault-free: verdict"
        f" right in {right_verdicts} ({100 * right_verdicts / total:.2f} %), cause right in {right_causes}"
        f" ({100 * right_causes / total:.2f} %), fault-free cases called downgrade or wrong: {false_alarms}."
        f" Median {statistics.median(times):.2f} s a case, longest {max(times):.1f} s.",
        "",
        *_verdict_table(verdicts),
        "",
        *_cause_table(answers),
    ]
    return "\n".join(lines) + "\n"


def _verdict_table(verdicts: Counter[tuple[str, str]]) -> list[str]:
    given = ["identical", "rounding", "downgrade", "wrong", "undecided"]
    rows = [
        f"| {e} | " + " | ".join(str(verdicts[e, g]) for g in given) + " |" for e in sorted({e for e, _ in verdicts})
    ]
    return [f"| injected \\ said | {' | '.join(given)} |", "|---" * (len(given) + 1) + "|", *rows]


def _cause_table(answers: list[Answer]) -> list[str]:
    rows = []
    for mechanism in dict.fromkeys(a.mechanism for a in answers):
        own = [a for a in answers if a.mechanism == mechanism]
        expected = MECHANISMS[mechanism][2] if mechanism in MECHANISMS else ("summation-order",)
        said = Counter(a.cause or "-" for a in own if not a.right_cause)
        others = ", ".join(f"{c} {n}" for c, n in said.most_common())
        right = sum(a.right_cause for a in own)
        rows.append(f"| {mechanism} | {' or '.join(c or '-' for c in expected)} | {right} of {len(own)} | {others} |")
    return ["| mechanism | cause | right | said instead |", "|---|---|---|---|", *rows]


if __name__ == "__main__":
    sys.exit(main())
