"""Every engine on every problem of the catalog: is its arithmetic found, and does replaying it give its bits?

`make replay` (also --only GLOB, --on ENGINE, --write FILE, --every N, --bias). One line per pair that is not
reproduced whole. A run that was interrupted is gone on with.
"""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec
from pages import write_page
from product_problems import list_products
from survey_tables import ENGINES, sweep_survey, write_lines

from samebits.errors import RecipeError
from samebits.problems import Problem, format_problem, parse_problem_text
from samebits.problems.catalog import catalog
from samebits.questions.doctor.inventory import take_inventory
from samebits.questions.list.row import Row
from samebits.sums.recipes import KeyedOrder, format_recipe, parse_recipe
from samebits.sums.recipes.seen import SeenRecipe, name_form, strip_specials

ABOUT = """For each pair of an engine and a problem the recipe is found by probing and then executed on random normal
data, borders included; a pair counts if every output has the engine's bits (large problems: a sample of whole
positions). Each has 60 s in the engine and a minute of refining. `make replay` runs all problems on all five engines
and writes this page. Where an engine computes another function (known_deviations/) no recipe can give its bits."""
ABOUT_PRODUCTS = """The recipes of a hundred matrix products (`benchmarks/product_problems.py`): 1 to 4,096 rows,
sums of 5 to 8,192 terms, primes among both, linear layers with and without bias, `matmul` with and without a batch,
both gradients of linear layers; with NumPy, and with w stored transposed."""
ENGINES_OF_PRODUCTS = ("numpy", "numpy:w_memory=transposed", "torch:w_memory=transposed")
_LONGEST = 160


def is_whole(row: Row) -> bool:
    """Whether every output that was compared has the engine's bits."""
    return row.failure is None and row.replayed == 1.0


def render(rows: list[Row]) -> str:
    """The tables of docs/replay.md."""
    lines = [
        "| engine | dtype | direction | pairs | replayed whole | share | median calls |",
        "|---|---|---|---|---|---|---|",
    ]
    ran = [row for row in rows if row.failure != "unsupported"]
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in ran:
        problem = parse_problem_text(row.problem or "")
        groups[row.side or "none", problem.dtype, problem.direction].append(row)
    for (engine, dtype, direction), own in groups.items():
        whole = sum(map(is_whole, own))
        calls = statistics.median(row.calls or 0 for row in own)
        share = f"{100 * whole / len(own):.1f} %"
        lines.append(f"| {engine} | {dtype} | {direction} | {len(own)} | {whole} | {share} | {calls:.0f} |")
    whole = sum(map(is_whole, ran))
    lines += ["", f"{whole} of {len(ran)} pairs ({100 * whole / max(len(ran), 1):.2f} %) replayed whole.", ""]
    if ran:
        calls = [row.calls or 0 for row in ran]
        lines += [f"All questions: median {statistics.median(calls):.0f} calls, most {max(calls):,}.", ""]
    missed = [row for row in ran if not is_whole(row)]
    if missed:
        lines += ["| engine | problem | replayed | what is known |", "|---|---|---|---|"]
        lines += [
            f"| {row.side} | `{row.problem}` | {100 * (row.replayed or 0.0):.2f} % |"
            f" {(row.says or row.recipe or '')[:_LONGEST]} |"
            for row in missed
        ]
    return "\n".join(lines) + "\n"


def collect_recipes(rows: Iterable[Row], path: Path) -> None:
    """Adds the recipes that were replayed whole, with an order by keys, to those that `explain` tries."""
    inventory = take_inventory()
    versions = {e.name: e.version or "" for e in inventory.engines}
    known: dict[tuple[str, str], SeenRecipe] = {}
    if path.exists():
        known = {(s.recipe, s.form): s for s in msgspec.json.decode(path.read_bytes(), type=list[SeenRecipe])}
    for row in filter(is_whole, rows):
        try:
            recipe = parse_recipe(row.recipe or "")
        except RecipeError:
            # Longer than what is read.
            continue
        if [type(order) for order in recipe.orders] != [KeyedOrder]:
            continue
        name = (row.side or "").split(":")[0]
        key = (format_recipe(strip_specials(recipe)), name_form(parse_problem_text(row.problem or "")))
        old = known.get(key, SeenRecipe(*key, [], [], 0))
        engines, processors = {*old.engines, f"{name} {versions[name]}"}, {*old.processors, inventory.processor}
        known[key] = SeenRecipe(*key, sorted(engines), sorted(processors), old.replayed + 1)
    lines = [msgspec.json.encode(known[key]).decode() for key in sorted(known)]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def add_bias(problem: Problem) -> Problem:
    """A forward problem with a bias; a gradient and a plain product have none."""
    takes = problem.direction == "forward" and problem.kind != "matmul"
    return dataclasses.replace(problem, bias=True) if takes else problem


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", action="append", help="an engine; default: five CPU engines, of products also NumPy")
    parser.add_argument("--products", action="store_true", help="a hundred matrix products in place of the catalog")
    parser.add_argument("--only", default="*", help="problems whose name fits this pattern")
    parser.add_argument("--every", type=int, default=1, help="only every N-th problem")
    parser.add_argument("--bias", action="store_true", help="every forward problem with a bias, of unit size")
    parser.add_argument("--write", type=Path, help="where to write the tables")
    parser.add_argument("--collect", type=Path, help="add the recipes found to this file (sums/recipes/seen.json)")
    options = parser.parse_args()
    known = list_products() if options.products else catalog()
    engines = options.on or (ENGINES + (ENGINES_OF_PRODUCTS if options.products else ()))
    problems = [p for n, p in known.items() if fnmatch.fnmatch(n, options.only)][:: options.every]
    if options.bias:
        problems = list(map(add_bias, problems))
    name = "-".join(["replay", *(["products"] if options.products else []), *(["bias"] if options.bias else [])])
    texts = dict.fromkeys(map(format_problem, problems))
    _, rows = sweep_survey(name, write_lines(name, texts), engines, "recipe")
    tables = render(rows)
    print(tables)
    if options.collect:
        collect_recipes(rows, options.collect)
    if options.write:
        part = f" This run: one problem in {options.every}." if options.every > 1 else ""
        what, about = ("matrix products", ABOUT_PRODUCTS) if options.products else ("the catalog", ABOUT)
        write_page(options.write, f"Recipes replayed: engines on {what}", about + part, tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
