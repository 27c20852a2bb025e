"""Every engine on every problem of the catalog, judged: `make survey` (also --only GLOB, --on ENGINE, --write FILE).

`--deployed` asks those that networks are deployed on, which need no minutes to compile.

Each deviation must stand in `known_deviations/` with a reason and a link; one that does not, and an entry there that
nothing matches any more, make the exit status 1.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from product_problems import list_network_products
from survey_tables import ENGINES, KNOWN, sweep_survey, write_lines

from samebits.problems import parse_problem_text
from samebits.questions.list.row import Row
from samebits.questions.list.table_changes import KnownDeviation, find_known, load_known

DEPLOYED = ("ncnn", "ncnn:winograd=off,fp16_storage=off", "mnn", "opencv", "tract", "mlx")
DEPLOYED_KNOWN = KNOWN.with_name("deployed_engines.toml")
COLUMNS = ("identical", "rounding", "undecided", "wrong", "unsupported", "failed")


def name_outcome(row: Row) -> str:
    """The column of a row."""
    if row.verdict is None:
        return "unsupported" if row.failure == "unsupported" else "failed"
    return row.verdict


def render(rows: list[Row], what: str, deviations: list[KnownDeviation], *, is_complete: bool) -> Iterator[str]:
    """The page: counts by engine and dtype, how near the bounds are, the known deviations and how often they occur."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    versions: dict[str, str] = {}
    worst: dict[str, float] = {}
    for row in rows:
        engine, outcome = row.side or "none", name_outcome(row)
        counts[engine, parse_problem_text(row.problem or "").dtype][outcome] += 1
        versions[engine] = row.version or versions.get(engine, "")
        if outcome in ("identical", "rounding"):
            worst[engine] = max(worst.get(engine, 0.0), row.max_over_bound or 0.0)
    subjects = len({row.subject for row in rows})
    yield f"# Survey: every engine on {what}\n"
    yield f"Made by `make survey`: {subjects} problems, each on exact integers and on random normal operands (seed 0)."
    yield "`identical` is correctly rounded; `rounding` is within the bound of the declared formats for any order.\n"
    yield "| engine | dtype | " + " | ".join(COLUMNS) + " |"
    yield "|---|---|" + "---|" * len(COLUMNS)
    for (engine, dtype), own in sorted(counts.items()):
        label = " ".join([engine.partition(":")[0], versions[engine], engine.partition(":")[2]]).strip()
        yield f"| {label} | {dtype} | " + " | ".join(str(own[c]) for c in COLUMNS) + " |"
    yield "\nLargest error as a share of its bound, over all results that are within it:"
    yield ", ".join(f"{e.partition(':')[0]} {w:.2g}" for e, w in sorted(worst.items())) + "."
    seen = [find_known(row, deviations) for row in rows if row.known]
    shown = [known for known in deviations if known in seen or is_complete]
    if shown:
        yield "\n## Known deviations\n"
    for known in shown:
        count = seen.count(known)
        yield f"- **{known.engine}**, {known.verdict}, problems: {count}; {known.reason} ({known.link})"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--products", action="store_true", help="products of real networks in place of the catalog")
    parser.add_argument("--deployed", action="store_true", help="engines that networks are deployed on")
    parser.add_argument("--only", default="*")
    parser.add_argument("--on", action="append")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    name = "survey-products" if options.products else "survey-deployed" if options.deployed else "survey"
    known, engines = (DEPLOYED_KNOWN, DEPLOYED) if options.deployed else (KNOWN, ENGINES)
    lists = write_lines(name, list_network_products()) if options.products else f"catalog:{options.only}"
    found, rows = sweep_survey(name, lists, options.on or engines, "compare", known)
    is_complete = options.only == "*" and not options.on and not options.products
    what = "products of real networks" if options.products else "the catalog"
    text = "\n".join(render(rows, what, load_known(known), is_complete=is_complete)) + "\n"
    print(text)
    if options.write:
        options.write.write_text(text)
    for row in rows:
        if not row.known and name_outcome(row) not in ("identical", "rounding", "unsupported"):
            print(f"NEW {row.side} on {row.subject}: {name_outcome(row)}: {row.says or row.where or row.cause or ''}")
    for entry in found.unmatched if is_complete else []:
        print(f"UNMATCHED {entry}: nothing shows this any more; remove the entry")
    return 1 if found.deviating or (is_complete and found.unmatched) else 0


if __name__ == "__main__":
    sys.exit(main())
