"""Asks `explain` about cases made by other means: plain NumPy, SciPy, NNPACK, with data as networks have it.

Prints how often verdict and cause are right, and every answer at level `bits` or `bounds` that is false.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import fnmatch
import os
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from samebits.findings import Side
from samebits.mechanisms.search.recorded_case import explain_case
from samebits.problems import format_problem

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from pages import write_page

from variant_making import EITHER, FAULT_FREE, NotHere, Variant
from variants import PROBLEMS, VARIANTS, make_variant

ABOUT = """Each case is a recorded result made in plain NumPy, SciPy or NNPACK (tests/variants.py), by code that shares
nothing with what explains it, on layers and data as networks have them. `make variants` asks `explain` about all of
them and writes this page."""
AGREE = ("identical", "rounding")


@dataclass(frozen=True)
class Answer:
    """What explain said of one case, beside what is right."""

    variant: str
    item: str
    fault_free: bool
    verdict: str
    cause: str
    right_verdict: bool
    right_cause: bool
    false_proof: bool
    time_s: float
    shown: str


def ask(job: tuple[str, str, int]) -> Answer | None:
    """One variant on one problem with one seed; None where it leaves no trace."""
    name, text, seed = job
    try:
        made = make_variant(name, text, seed)
    except NotHere:
        return None
    started = time.perf_counter()
    found = explain_case(made.case)
    time_s = time.perf_counter() - started
    side, variant = found.sides[0], made.variant
    right_verdict = side.verdict in variant.verdicts
    right_cause = right_verdict and (side.cause in variant.causes or _needs_no_cause(side, variant))
    shown = (
        f"{name}: {side.verdict}/{side.certainty} {side.cause}/{side.cause_certainty} ({side.says})"
        f" {format_problem(made.case.problem)} [{made.data}, seed {seed}]"
    )
    return Answer(
        name, variant.item, variant.verdicts == FAULT_FREE, side.verdict, side.cause or "-", right_verdict, right_cause,
        _is_false_proof(side, variant), time_s, shown,
    )  # fmt: skip


def _needs_no_cause(side: Side, variant: Variant) -> bool:
    """A sound transform inside the bound of direct sums: another order is as much as anybody can tell."""
    return side.verdict in AGREE and (
        variant.verdicts == FAULT_FREE or (variant.verdicts == EITHER and side.cause_certainty != "bits")
    )


def _is_false_proof(side: Side, variant: Variant) -> bool:
    proved = side.certainty in ("bits", "bounds") and side.verdict not in variant.verdicts
    cause = (
        side.cause_certainty in ("bits", "bounds") and side.verdict not in AGREE and side.cause not in variant.causes
    )
    # Where a fault leaves every output inside its bound, that this is so is no false statement.
    return (proved and not (side.verdict == "rounding" and side.certainty == "bounds")) or cause


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--only", default="*", help="variants whose name or class fits this pattern")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--show", action="store_true", help="print every case that is judged otherwise")
    options = parser.parse_args()
    chosen = [
        n for n, v in VARIANTS.items() if fnmatch.fnmatch(n, options.only) or fnmatch.fnmatch(v.item, options.only)
    ]
    jobs = [(n, t, 7 * s + i) for s in options.seeds for n in chosen for i, t in enumerate(PROBLEMS)]
    answers: list[Answer] = []
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(ask, jobs, chunksize=4):
            if done is None:
                continue
            answers.append(done)
            if options.show and not (done.right_verdict and done.right_cause):
                print(("FALSE PROOF " if done.false_proof else "") + done.shown, flush=True)
    page = write_tables(answers)
    print(page)
    if options.write:
        seeds = f" Seeds of this page: {', '.join(map(str, options.seeds))}."
        write_page(options.write, "Cases made by other means", ABOUT + seeds, page)
    return 0


def write_tables(answers: list[Answer]) -> str:
    """Totals, and a row for each variant."""
    count = len(answers)
    verdicts, causes = sum(a.right_verdict for a in answers), sum(a.right_cause for a in answers)
    sound = [a for a in answers if a.fault_free]
    blamed = sum(a.verdict in ("downgrade", "wrong") for a in sound)
    times = [a.time_s for a in answers]
    lines = [
        f"{count} cases of {len({a.variant for a in answers})} variants: verdict right in {verdicts}"
        f" ({100 * verdicts / count:.2f} %), cause in {causes} ({100 * causes / count:.2f} %); of {len(sound)}"
        f" fault-free ones {blamed} called downgrade or wrong; {sum(a.false_proof for a in answers)} answers at level"
        f" bits or bounds are false. Median {statistics.median(times):.2f} s a case, longest"
        f" {max(times):.1f} s.",
        "",
        "| variant | class | cases | verdict right | cause right |",
        "|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(a.variant for a in answers):
        own = [a for a in answers if a.variant == name]
        lines.append(
            f"| {name} | {own[0].item} | {len(own)} | {sum(a.right_verdict for a in own)} |"
            f" {sum(a.right_cause for a in own)} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
