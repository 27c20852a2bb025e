"""Throughput of the emulators, in multiply-adds per second, against the goals of the project: `make bench`."""

from __future__ import annotations

import statistics
import time

from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe

LAYERS = (
    "conv2d x=1x64x56x56 w=64x64x3x3 padding=1",
    "conv2d x=1x256x14x14 w=256x256x3x3 padding=1",
    "conv2d x=1x256x28x28 w=128x256x1x1",
)
# What is computed, its recipe, and the goal in 10^9 multiply-adds per second on two cores.
RECIPES = (
    ("float32, fused, in order", "direct order=c,kh,kw", 3.0),
    ("float32, fused, blocks of 16 channels", "direct order=c/16|kh,kw,c", 3.0),
    ("float32, fused, 16 lanes", "direct order=halves:k%16|k", 3.0),
    ("float16 accumulator, fused", "direct x=float16 w=float16 acc=float16", 1.0),
    ("Hopper's multi-term sum", "direct x=float16 w=float16 acc=float32/toward_zero fused=25 order=k/16|fused:k", 0.5),
)
RUNS = 7


def main() -> None:
    print("| recipe | " + " | ".join(layer.split(" ", 1)[1] for layer in LAYERS) + " | goal |")
    print("|---|" + "---|" * (len(LAYERS) + 1))
    for name, text, goal in RECIPES:
        recipe = parse_recipe(text)
        rates = []
        for layer in LAYERS:
            problem = parse_problem_text(layer)
            operands = make_normal(problem, 0)
            emulate(problem, recipe, operands)
            times = []
            for _ in range(RUNS):
                started = time.perf_counter()
                emulate(problem, recipe, operands)
                times.append(time.perf_counter() - started)
            rates.append(problem.multiply_adds / statistics.median(times) / 1e9)
        print(f"| {name} | " + " | ".join(f"{r:.2f} G/s" for r in rates) + f" | {goal} G/s |")


if __name__ == "__main__":
    main()
