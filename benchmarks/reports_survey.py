"""Simulates public reports of mismatching convolutions and asks `explain` what they are.

One row per report: where it stands, whether its cause is established there (E) or read from its numbers (G), what was
simulated, and the answer. Shapes are the report's, or smaller where its own would only take longer. What no case can
hold is listed after the table.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from samebits import explain
from samebits.findings import Comparison
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case

sys.path.insert(0, str(Path(__file__).parent))
from pages import write_page
from reports_table import LEFT_OUT, REASONS, REPORTS, Report

ROOT = Path(__file__).parent.parent

ABOUT = """Layers like those of public reports, with what the report's thread establishes (E) or suggests (G) as the
cause injected in them; what `explain` says of the result, and how it is known. An answer agrees if it names that
cause, or one that says the same of such a result (`causes` in benchmarks/reports_table.py). They are constructions of
ours, not the reporters' data. `make reports` writes this page."""


def ask(report: Report) -> Comparison:
    """What explain says of a report."""
    if report.make is None:
        return explain(ROOT / "examples" / "xla_mismatch.log")
    problem, operands, results = report.make(parse_problem_text(report.problem), np.random.default_rng(9))
    return explain(Case(problem, {n: operands[n] for n in problem.operand_shapes}, results))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows, agreed, established = [], [0, 0], [0, 0]
    disagreeing: list[str] = []
    for report in REPORTS:
        found = ask(report)
        said = found.cause or found.verdict
        agrees = said in report.causes
        if not agrees:
            disagreeing.append(report.source)
        for counts in (agreed, *([established] if report.established else [])):
            counts[0] += agrees
            counts[1] += 1
        sure = next((s.certainty for s in found.sides if s.verdict == found.verdict), None) or "-"
        rows.append(
            f"| {report.source} | {'E' if report.established else 'G'} | `{report.problem}` | {report.causes[0]} |"
            f" {found.verdict}, {said} ({sure}) | {'yes' if agrees else 'no'} |"
        )
        print(f"{len(rows)} of {len(REPORTS)}", file=sys.stderr)
    lines = [
        f"{len(REPORTS)} reports simulated; {agreed[0]} agree with the cause given there. Of {established[1]} whose"
        f" cause is established (E), {established[0]} agree ({100 * established[0] / established[1]:.1f} %).",
        "",
        "| report | | simulated on | cause | explain says | agrees |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        "Why not:",
        "",
        *(f"- {source}: {REASONS.get(source, 'not looked into yet')}." for source in disagreeing),
        "",
        "Rows that could be emulated in principle and are left out:",
        "",
        *(f"- {reports}: {why}." for reports, why in LEFT_OUT),
    ]
    print("\n".join(lines))
    if options.write:
        write_page(options.write, "Public reports simulated", ABOUT, "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
