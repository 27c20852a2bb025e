"""Explains thousands of planted and healthy cases and prints how often verdict and cause are right, and what for what.

One case in three is healthy. `--write FILE` keeps the tables.
"""

from __future__ import annotations

import argparse
import fnmatch
import statistics
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from samebits.diagnosis.explanation import explain_case
from samebits.problems import format_problem

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from planted_cases import HEALTHY, MECHANISMS, PROBLEMS, Planted, Skip, make_case


def list_cases(rounds: int, only: str = "*"):
    """Every mechanism on every problem, and half as many healthy ones, `rounds` times over."""
    for seed in range(rounds):
        for text in PROBLEMS:
            made = 0
            for mechanism in MECHANISMS:
                if not fnmatch.fnmatch(mechanism, only):
                    continue
                try:
                    yield make_case(mechanism, text, seed)
                    made += 1
                except Skip:
                    continue
            for n in range(-(-made // 2)):
                yield make_case(HEALTHY, text, 1000 * seed + n)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", default="*", help="mechanisms whose name fits this pattern")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--show", action="store_true", help="print every case that is judged otherwise")
    options = parser.parse_args()
    verdicts: Counter[tuple[str, str]] = Counter()
    causes: dict[str, Counter[str]] = defaultdict(Counter)
    right_verdicts = right_causes = total = accused = 0
    times: list[float] = []
    for planted in list_cases(options.rounds, options.only):
        started = time.perf_counter()
        found = explain_case(planted.case)
        times.append(time.perf_counter() - started)
        total += 1
        right_verdict, right_cause = found.verdict in planted.verdicts, found.cause in planted.causes
        right_verdicts += right_verdict
        right_causes += right_cause
        accused += planted.mechanism == HEALTHY and found.verdict in ("downgrade", "wrong")
        verdicts[_expected(planted), found.verdict] += 1
        causes[planted.mechanism][found.cause or "-"] += 1
        if options.show and not (right_verdict and right_cause):
            says = found.sides[0].says
            print(f"{planted.mechanism}: {found.verdict} {found.cause} ({says}) {format_problem(planted.case.problem)}")
        if total % 200 == 0:
            print(f"{total} cases", file=sys.stderr)
    lines = [
        f"{total} cases, {sum(v for (e, _), v in verdicts.items() if e == HEALTHY)} of them healthy: verdict right in"
        f" {right_verdicts} ({100 * right_verdicts / total:.2f} %), cause right in {right_causes}"
        f" ({100 * right_causes / total:.2f} %), healthy cases called downgrade or wrong: {accused}."
        f" Median {statistics.median(times):.2f} s a case, longest {max(times):.1f} s.",
        "",
        *_verdict_table(verdicts),
        "",
        *_cause_table(causes),
    ]
    print("\n".join(lines))
    if options.write:
        options.write.write_text("\n".join(lines) + "\n")
    return 0


def _expected(planted: Planted) -> str:
    return HEALTHY if planted.mechanism == HEALTHY else " or ".join(planted.verdicts)


def _verdict_table(verdicts: Counter[tuple[str, str]]) -> list[str]:
    given = ["identical", "rounding", "downgrade", "wrong", "undecided"]
    rows = [
        f"| {e} | " + " | ".join(str(verdicts[e, g]) for g in given) + " |" for e in sorted({e for e, _ in verdicts})
    ]
    return [f"| planted \\ said | {' | '.join(given)} |", "|---" * (len(given) + 1) + "|", *rows]


def _cause_table(causes: dict[str, Counter[str]]) -> list[str]:
    rows = []
    for mechanism, said in causes.items():
        expected = {
            c or "-"
            for c in (
                (*MECHANISMS[mechanism][2], "overflow")
                if mechanism in MECHANISMS
                else (None, "summation-order", "ill-conditioned")
            )
        }
        right = sum(n for c, n in said.items() if c in expected)
        others = ", ".join(f"{c} {n}" for c, n in said.most_common() if c not in expected)
        rows.append(f"| {mechanism} | {' or '.join(sorted(expected))} | {right} of {sum(said.values())} | {others} |")
    return ["| mechanism | cause | right | said instead |", "|---|---|---|---|", *rows]


if __name__ == "__main__":
    sys.exit(main())
