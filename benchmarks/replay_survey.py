"""Every engine on every problem of the catalog: is its arithmetic found, and does replaying it give its bits?

`make replay` (also --only GLOB, --on ENGINE, --write FILE, --every N). One line per pair that is not reproduced whole.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
from pages import write_page
from product_problems import list_products

from samebits.engines.inventory import take_inventory
from samebits.errors import EngineUnsupported, RecipeError
from samebits.probes.session import ProbeSession
from samebits.problems import Problem, format_problem, parse_problem_text
from samebits.problems.catalog import catalog
from samebits.profiles.recipe_search import search_recipe
from samebits.recipes import KeyedOrder, format_recipe, parse_recipe
from samebits.recipes.seen import SeenRecipe, name_form, strip_specials
from samebits.registry import open_runner
from samebits.runner import Runner

ABOUT = """For each pair of an engine and a problem the recipe is found by probing and then executed on random normal
data, borders included; a pair counts if every output has the engine's bits (large problems: a sample of whole
positions). Each has 60 s in the engine and a minute of refining. `make replay` runs all problems on all five engines
and writes this page. Where an engine computes another function (known_deviations/) no recipe can give its bits."""
ABOUT_PRODUCTS = """The recipes of a hundred matrix products (`benchmarks/product_problems.py`): 1 to 4,096 rows,
sums of 5 to 8,192 terms, primes among both, linear layers with and without bias, `matmul` with and without a batch,
both gradients of linear layers; with NumPy, and with w stored transposed. Calls are all that a recipe took, times those
of whole searches."""
ENGINES_OF_PRODUCTS = ("numpy", "numpy:w_memory=transposed", "torch:w_memory=transposed")
ENGINES = ("onnxruntime", "torch", "tensorflow", "jax", "openvino:INFERENCE_PRECISION_HINT=f32")


@dataclass
class Pair:
    """What came of one engine on one problem."""

    engine: str
    name: str
    problem: str
    direction: str
    dtype: str
    outcome: str  # replayed, missed, unsupported, failed
    matched: float = 0.0
    outputs: int = 0
    orders: int = 0
    calls: int = 0
    order_calls: int = 0
    order_time_s: float = 0.0
    time_s: float = 0.0
    recipe: str = ""
    says: str = ""


def examine(runner: Runner, name: str, problem: Problem) -> Pair:
    """One profile's recipe and its replay."""
    text = format_problem(problem)
    pair = Pair(runner.text, name, text, problem.direction, problem.dtype, "failed")
    started = time.perf_counter()
    session = ProbeSession(runner, problem, most_time_s=60.0)
    found = search_recipe(session)
    if isinstance(found.stopped, EngineUnsupported):
        pair.outcome, pair.says = "unsupported", str(found.stopped)
        return pair
    if found.stopped is not None:
        pair.says = f"{type(found.stopped).__name__}: {found.stopped}"
        return pair
    pair.time_s = time.perf_counter() - started
    pair.matched, pair.outputs, pair.calls = found.chosen.matched, found.chosen.compared, session.calls
    if found.order:
        pair.order_calls, pair.order_time_s = found.order.calls, found.order.time_s
    pair.orders = len(found.recipe.orders) if found.recipe else 0
    pair.recipe = format_recipe(found.recipe)[:300] if found.recipe else ""
    pair.says = "; ".join(dict.fromkeys(found.notes))[:300]
    pair.outcome = "replayed" if found.chosen.is_whole else "missed"
    return pair


def survey(engines: Sequence[str], problems: list[tuple[str, Problem]], log: Path | None) -> list[Pair]:
    pairs: list[Pair] = []
    for engine in engines:
        runner = open_runner(engine, time_limit_s=120)
        for i, (name, problem) in enumerate(problems):
            pair = examine(runner, name, problem)
            pairs.append(pair)
            if log:
                with log.open("a") as stream:
                    stream.write(json.dumps(asdict(pair)) + "\n")
            if pair.outcome in ("missed", "failed"):
                known = f"{pair.recipe[:120]} {pair.says[:150]}"
                print(f"{engine} {name} {pair.outcome} {pair.matched:.4f} {pair.problem} {known}")
            if pair.outcome == "failed":
                runner.close()
                runner = open_runner(engine, time_limit_s=120)
            if i % 20 == 0:
                print(f"{engine}: {i} of {len(problems)}", file=sys.stderr)
        runner.close()
    return pairs


def report(pairs: list[Pair]) -> str:
    """The tables of docs/replay.md."""
    lines = [
        "| engine | dtype | direction | pairs | replayed whole | share | median calls | median time of the order |",
        "|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, str, str], list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.outcome != "unsupported":
            groups[pair.engine, pair.dtype, pair.direction].append(pair)
    for (engine, dtype, direction), own in groups.items():
        whole = [p for p in own if p.outcome == "replayed"]
        calls = statistics.median(p.order_calls for p in own)
        time_s = statistics.median(p.order_time_s for p in own)
        lines.append(
            f"| {engine} | {dtype} | {direction} | {len(own)} | {len(whole)} | {100 * len(whole) / len(own):.1f} % |"
            f" {calls:.0f} | {time_s:.3f} s |"
        )
    ran = [p for p in pairs if p.outcome != "unsupported"]
    whole = [p for p in ran if p.outcome == "replayed"]
    lines += ["", f"{len(whole)} of {len(ran)} pairs ({100 * len(whole) / max(len(ran), 1):.2f} %) replayed whole.", ""]
    if ran:
        lines += [
            f"All questions: median {statistics.median(p.calls for p in ran):.0f} calls, most"
            f" {max(p.calls for p in ran):,};"
            f" longest search {max(p.time_s for p in ran):.1f} s.",
            f"Summation order: median {statistics.median(p.order_calls for p in ran):.0f} calls,"
            f" {statistics.median(p.order_time_s for p in ran):.3f} s in the engine.",
            "",
        ]
    missed = [p for p in ran if p.outcome != "replayed"]
    if missed:
        lines += ["| engine | problem | replayed | what is known |", "|---|---|---|---|"]
        lines += [
            f"| {p.engine} | `{p.problem}` | {100 * p.matched:.2f} % | {p.says or p.recipe[:160]} |" for p in missed
        ]
    return "\n".join(lines) + "\n"


def collect_recipes(pairs: Iterable[Pair], path: Path) -> None:
    """Adds the recipes that were replayed whole, with an order by keys, to those that `explain` tries."""
    inventory = take_inventory()
    versions = {e.name: e.version or "" for e in inventory.engines}
    known: dict[tuple[str, str], SeenRecipe] = {}
    if path.exists():
        known = {(s.recipe, s.form): s for s in msgspec.json.decode(path.read_bytes(), type=list[SeenRecipe])}
    for pair in pairs:
        problem = parse_problem_text(pair.problem)
        try:
            recipe = parse_recipe(pair.recipe) if pair.outcome == "replayed" else None
        except RecipeError:
            # Longer than what the log keeps of it.
            continue
        if recipe is None or [type(order) for order in recipe.orders] != [KeyedOrder]:
            continue
        name = pair.engine.split(":")[0]
        key = (format_recipe(strip_specials(recipe)), name_form(problem))
        old = known.get(key, SeenRecipe(*key, [], [], 0))
        engines, processors = {*old.engines, f"{name} {versions[name]}"}, {*old.processors, inventory.processor}
        known[key] = SeenRecipe(*key, sorted(engines), sorted(processors), old.replayed + 1)
    rows = [msgspec.json.encode(known[key]).decode() for key in sorted(known)]
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", action="append", help="an engine; default: five CPU engines, of products also NumPy")
    parser.add_argument("--products", action="store_true", help="a hundred matrix products in place of the catalog")
    parser.add_argument("--only", default="*", help="problems whose name fits this pattern")
    parser.add_argument("--every", type=int, default=1, help="only every N-th problem")
    parser.add_argument("--write", type=Path, help="where to write the tables")
    parser.add_argument("--log", type=Path, help="where to append one JSON line per pair")
    parser.add_argument("--collect", type=Path, help="add the recipes found to this file (recipes/seen.json)")
    options = parser.parse_args()
    known = list_products() if options.products else catalog()
    engines = options.on or (ENGINES + (ENGINES_OF_PRODUCTS if options.products else ()))
    problems = [(n, p) for n, p in known.items() if fnmatch.fnmatch(n, options.only)][:: options.every]
    pairs = survey(engines, problems, options.log)
    tables = report(pairs)
    print(tables)
    if options.collect:
        collect_recipes(pairs, options.collect)
    if options.write:
        part = f" This run: one problem in {options.every}." if options.every > 1 else ""
        what, about = ("matrix products", ABOUT_PRODUCTS) if options.products else ("the catalog", ABOUT)
        write_page(options.write, f"Recipes replayed: engines on {what}", about + part, tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
