"""Every engine on every problem of the catalog, judged: `make survey` (also --only GLOB, --on ENGINE, --write FILE).

Each deviation must stand in `known_deviations/` with a reason and a link; one that does not, and an entry there that
nothing matches any more, make the exit status 1.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from product_problems import list_network_products

from samebits.comparison import compare
from samebits.findings import Comparison, Side
from samebits.problems import Problem
from samebits.problems.catalog import catalog
from samebits.registry import open_runner
from samebits.runner import Runner

ROOT = Path(__file__).parent.parent
ENGINES = ("onnxruntime", "torch", "tensorflow", "jax", "openvino:INFERENCE_PRECISION_HINT=f32")
COLUMNS = ("identical", "rounding", "undecided", "wrong", "unsupported", "failed")


@dataclass
class Deviation:
    """An entry of known_deviations/: which engine on which problems gives which verdict, and why."""

    engine: str
    problems: list[str]
    verdict: str
    reason: str
    link: str
    matched: int = 0

    def fits(self, engine: str, name: str, verdict: str) -> bool:
        same = fnmatch.fnmatch(engine, self.engine) and verdict == self.verdict
        return same and any(fnmatch.fnmatch(name, pattern) for pattern in self.problems)


@dataclass
class Survey:
    """What was seen: counts by engine and dtype, deviations known and new, failures."""

    counts: dict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    known: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    worst: dict[str, float] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


class Persistent:
    """A runner that several comparisons share: they close what they open, this stays open."""

    def __init__(self, runner: Runner):
        self.runner = runner
        self.text = runner.text
        self.identify = runner.identify
        self.run = runner.run

    def close(self) -> None:
        return


def load_deviations(folder: Path = ROOT / "known_deviations") -> list[Deviation]:
    return [
        Deviation(**entry)
        for path in sorted(folder.glob("*.toml"))
        for entry in tomllib.loads(path.read_text())["deviation"]
    ]


def classify(side: Side) -> str:
    if side.failure:
        return "unsupported" if side.failure.kind == "unsupported" else "failed"
    return side.verdict


def note_side(survey: Survey, deviations: list[Deviation], name: str, dtype: str, side: Side) -> None:
    found = classify(side)
    engine = side.name
    survey.counts[engine, dtype][found] += 1
    if side.version:
        survey.versions[engine] = side.version
    if found in ("identical", "rounding"):
        assert side.error is not None
        survey.worst[engine] = max(survey.worst.get(engine, 0.0), side.error.max_over_bound or 0.0)
    if found in ("identical", "rounding", "unsupported"):
        return
    says = side.failure.says if side.failure else "; ".join(e.says for e in side.evidence)
    line = f"{engine} on {name}: {found}: {says}"
    match = next((d for d in deviations if d.fits(engine, name, found)), None)
    if match:
        match.matched += 1
        survey.known.append(line)
    else:
        survey.new.append(line)


def run_survey(problems: dict[str, Problem], engines: list[str], deviations: list[Deviation]) -> Survey:
    survey = Survey()
    runners = [Persistent(open_runner(text)) for text in engines]
    begun = time.monotonic()
    try:
        for i, (name, problem) in enumerate(problems.items()):
            found: Comparison = compare(problem, runners, attributes=False)
            for side in found.sides:
                note_side(survey, deviations, name, problem.dtype, side)
                if side.failure and side.failure.kind in ("crash", "timeout"):
                    position = [r.text for r in runners].index(side.name)
                    runners[position] = Persistent(open_runner(side.name))
            if sys.stderr.isatty() or i % 50 == 0:
                print(f"\r{i + 1}/{len(problems)} {time.monotonic() - begun:.0f} s {name:<60}", end="", file=sys.stderr)
    finally:
        for runner in runners:
            runner.runner.close()
    print(file=sys.stderr)
    return survey


def render(survey: Survey, deviations: list[Deviation], problems: int, what: str) -> Iterator[str]:
    yield f"# Survey: every engine on {what}\n"
    yield f"Made by `make survey`: {problems} problems, each on exact integers and on random normal operands (seed 0)."
    yield "`identical` is correctly rounded; `rounding` is within the bound of the declared formats for any order.\n"
    yield "| engine | dtype | " + " | ".join(COLUMNS) + " |"
    yield "|---|---|" + "---|" * len(COLUMNS)
    for (engine, dtype), counts in sorted(survey.counts.items()):
        version = survey.versions.get(engine, "")
        label = engine.replace(":", f" {version} ", 1) if ":" in engine else f"{engine} {version}"
        yield f"| {label} | {dtype} | " + " | ".join(str(counts[c]) for c in COLUMNS) + " |"
    yield "\nLargest error as a share of its bound, over all results that are within it: "
    yield ", ".join(f"{e.partition(':')[0]} {w:.2g}" for e, w in sorted(survey.worst.items())) + ".\n"
    shown = [d for d in deviations if d.matched or what == "the catalog"]
    yield "## Known deviations\n" if shown else ""
    for d in shown:
        yield f"- **{d.engine}**, {d.verdict}, {d.matched} problems: {d.reason} ({d.link})"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--products", action="store_true", help="products of real networks in place of the catalog")
    parser.add_argument("--only", default="*")
    parser.add_argument("--on", action="append")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    deviations = load_deviations()
    known = list_network_products() if options.products else catalog()
    problems = {name: problem for name, problem in known.items() if fnmatch.fnmatch(name, options.only)}
    survey = run_survey(problems, options.on or list(ENGINES), deviations)
    what = "products of real networks" if options.products else "the catalog"
    text = "\n".join(render(survey, deviations, len(problems), what)) + "\n"
    print(text)
    if options.write:
        options.write.write_text(text)
    for line in survey.new:
        print(f"NEW {line}")
    complete = options.only == "*" and not options.on and not options.products
    unmatched = [d for d in deviations if not d.matched] if complete else []
    for d in unmatched:
        print(f"UNMATCHED {d.engine} {d.problems}: nothing shows this any more; remove the entry")
    return 1 if survey.new or unmatched else 0


if __name__ == "__main__":
    sys.exit(main())
