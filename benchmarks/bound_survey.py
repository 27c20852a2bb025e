"""Do the probabilistic bounds hold, and how near are they? Engines, recipes and data as networks have it.

Prints per problem what share of each bound the largest error takes, and which results that keep too little reach.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Runner
from samebits.errors import EngineUnsupported
from samebits.judging.measuring import measure_absolute
from samebits.problems import Problem, format_problem, parse_problem_text
from samebits.problems.lowering import lower_problem
from samebits.problems.terms import find_terms
from samebits.sums.bounds import bound_errors, bound_likely_errors
from samebits.sums.bounds.probabilistic import OrderSpread, spread_order
from samebits.sums.emulators.emulator import emulate
from samebits.sums.recipes import parse_recipe
from samebits.sums.recipes.order import expand_order
from samebits.sums.tiles.magnitudes import sum_magnitudes, sum_squares
from samebits.sums.truth import compute_truth

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from pages import write_page

from network_data import KINDS, make_operands

ABOUT = """`make bounds`: what share of its bounds the largest error takes, over data as networks have it: behind a
relu, pictures, letterboxed ones, normal, nine tenths zeros (`tests/network_data.py`), all kinds together. The worst
case holds for any data and any order of addition; the likely bound is exceeded once in 10^9 results where errors are
independent and terms come in an order that has nothing to do with their values (`sums/bounds/probabilistic.py`);
that of the recipe's order is the same for one known order. A share above 1 would be a breach; OpenVINO computes float64
in float32, and is beyond both by right."""
ENGINES = ("torch", "onnxruntime", "tensorflow", "jax", "openvino:INFERENCE_PRECISION_HINT=f32")
PROBLEMS = (
    "conv2d x=16x64x56x56 w=64x64x3x3 padding=1",
    "conv2d x=8x512x14x14 w=512x512x3x3 padding=1",
    "conv2d x=16x256x28x28 w=512x256x1x1 bias",
    "conv2d x=16x96x56x56 w=96x1x3x3 padding=1 groups=96 bias",
    "conv2d.grad_weight x=4x64x56x56 w=64x64x3x3 padding=1",
    "conv2d.grad_input x=8x128x28x28 w=256x128x3x3 stride=2 padding=1",
    "conv1d x=16x80x1500 w=384x80x3 padding=1 bias",
    "conv2d x=8x64x56x56 w=64x64x3x3 padding=1 dtype=float16",
    "conv2d x=8x64x56x56 w=64x64x3x3 padding=1 bias dtype=bfloat16",
    "linear x=2048x768 w=3072x768 bias",
    "linear x=1024x4096 w=1024x4096",
    "linear x=512x16384 w=256x16384",
    "matmul x=1024x1024 w=1024x1024 dtype=float64",
)
RECIPES = (
    "direct",
    "direct product=rounded",
    "direct order=pairs:k",
    "direct order=halves:k%16|k",
    "direct order=c/16|kh,kw,c",
    "direct order=k/8|fused:k fused=28",
)
RECIPE_PROBLEMS = ("conv2d x=2x64x56x56 w=64x64x3x3 padding=1", "conv2d x=1x512x14x14 w=256x512x3x3 padding=1 bias")
# What keeps less than declared, while its errors stay within the worst case where sums are long.
LESS = ("direct x=tf32 w=tf32", "direct x=bfloat16 w=bfloat16", "direct acc=float16", "direct acc=float32/toward_zero")


@dataclass(frozen=True)
class Reached:
    """The largest shares of the bounds that one result's errors take; `ordered` is that of the recipe's own order."""

    problem: str
    runner: str
    outputs: int
    worst: float
    likely: float
    ordered: float | None = None


class Bounds:
    """The truth of a problem on some operands and both bounds, computed once for all runners."""

    def __init__(self, problem: Problem, operands: Mapping[str, np.ndarray]):
        self.problem, self.operands = problem, operands
        self.truth = compute_truth(problem, operands).values
        self.magnitudes, self.squares = sum_magnitudes(problem, operands), sum_squares(problem, operands)
        self.worst = bound_errors(problem, operands, self.truth, magnitudes=self.magnitudes)
        self.likely = self.bound_likely(None)

    def bound_likely(self, spread: OrderSpread | None) -> np.ndarray:
        """The probabilistic bound of any order, or of one."""
        squares, magnitudes = self.squares, self.magnitudes
        return bound_likely_errors(
            self.problem, self.operands, self.truth, spread=spread, squares=squares, magnitudes=magnitudes
        )

    def measure(self, name: str, result: np.ndarray, ordered: np.ndarray | None = None) -> Reached:
        """The largest shares; `ordered` is the bound of a known order."""
        errors = measure_absolute(result, self.truth)
        of_order = None if ordered is None else float((errors / ordered).max())
        worst, likely = (float((errors / b).max()) for b in (self.worst, self.likely))
        return Reached(format_problem(self.problem), name, errors.size, worst, likely, of_order)

    def emulate(self, text: str, *, is_sound: bool) -> Reached:
        """What a recipe reaches; of a sound one, in the bound of its own order as well."""
        recipe = parse_recipe(text)
        bound = None
        if is_sound:
            terms = find_terms(lower_problem(self.problem).convolution)
            bound = self.bound_likely(spread_order(expand_order(recipe.orders[0], terms.axis_names, terms.axis_sizes)))
        return self.measure(text, emulate(self.problem, recipe, self.operands), bound)


def survey_engines(rounds: int) -> Iterator[Reached]:
    """Every engine on every problem and kind of data."""
    runners: dict[str, Runner] = {name: open_runner(name, time_limit_s=600) for name in ENGINES}
    try:
        for text, kind, seed in itertools.product(PROBLEMS, KINDS, range(rounds)):
            problem = parse_problem_text(text)
            operands = make_operands(problem, kind, np.random.default_rng([seed, KINDS.index(kind)]))
            bounds = Bounds(problem, operands)
            for name, runner in runners.items():
                with contextlib.suppress(EngineUnsupported):
                    yield bounds.measure(name, runner.run(problem, operands))
    finally:
        for runner in runners.values():
            runner.close()


def survey_recipes(recipes: Sequence[str], *, is_sound: bool) -> Iterator[Reached]:
    """Every recipe on the problems for recipes and every kind of data."""
    for text, kind in itertools.product(RECIPE_PROBLEMS, KINDS):
        problem = parse_problem_text(text)
        bounds = Bounds(problem, make_operands(problem, kind, np.random.default_rng([7, KINDS.index(kind)])))
        for recipe in recipes:
            yield bounds.emulate(recipe, is_sound=is_sound)


def tabulate(found: Iterable[Reached], *, is_by_problem: bool) -> Iterator[str]:
    """A row for each problem or runner: how many outputs, and the largest shares over all of its rows."""
    groups: dict[str, list[Reached]] = defaultdict(list)
    for one in found:
        groups[f"{one.problem} | {one.runner}" if is_by_problem else one.runner].append(one)
        print(f"{one.runner:45} {one.likely:.3g} {one.worst:.3g} {one.problem}", file=sys.stderr, flush=True)
    for name, rows in groups.items():
        ordered = [r.ordered for r in rows if r.ordered is not None]
        last = f" {max(ordered):.2g} |" if ordered else " - |"
        shares = f"{max(r.worst for r in rows):.2g} | {max(r.likely for r in rows):.2g} |{last}"
        yield f"| {name} | {sum(r.outputs for r in rows):,} | {shares}"


def render(rounds: int) -> Iterator[str]:
    """The page's tables."""
    shares = "outputs | of the worst case | of the likely bound | of that of the recipe's order |"
    yield f"## Engines\n\n| problem | engine | {shares}\n|---|---|---|---|---|---|"
    yield from tabulate(survey_engines(rounds), is_by_problem=True)
    yield f"\n## Recipes\n\n| recipe | {shares}\n|---|---|---|---|---|"
    yield from tabulate(survey_recipes(RECIPES, is_sound=True), is_by_problem=False)
    yield f"\n## Results that keep less than float32\n\n| recipe | {shares}\n|---|---|---|---|---|"
    yield from tabulate(survey_recipes(LESS, is_sound=False), is_by_problem=False)


def main() -> int:
    """Prints the tables, or writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="how many seeds for engines")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write a page of documentation")
    options = parser.parse_args()
    lines = "\n".join(render(options.rounds))
    if options.write:
        write_page(options.write, "How near the error bounds are", ABOUT, lines)
    else:
        print(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
