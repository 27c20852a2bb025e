"""Explains random cases of every kind, direction, group count (batches of products) and format; `make attack`.

Shapes are small and odd. The recorded results are the truth, the truth's sums in another order, and faults. Nothing
may be raised, warned of or written that cannot be read back; the truth is identical, and no correct sum is called a
downgrade or wrong.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import io
import itertools
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from samebits.findings import Comparison, finding_from_json, json_from_finding
from samebits.numbers.format import numpy_dtype
from samebits.problems import Problem, format_problem, parse_problem_text
from samebits.problems.case_file import save_case
from samebits.problems.operands import make_exact, make_normal, make_uniform
from samebits.problems.problem import CONVOLUTIONS, DIRECTIONS, PRODUCTS, Kind
from samebits.questions.explain.explaining import explain
from samebits.questions.explain.explanation_report import show_explanation
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe
from samebits.sums.truth import compute_truth

Operands = dict[str, np.ndarray]
# Operands' format, and the result's.
FORMATS = (
    ("float64", "float64"), ("float32", "float32"), ("bfloat16", "bfloat16"), ("float16", "float16"),
    ("float8_e4m3fn", "float8_e4m3fn"), ("float8_e5m2", "float8_e5m2"), ("float16", "float32"),
    ("bfloat16", "float32"), ("float8_e4m3fn", "float16"),
)  # fmt: skip
GROUPS = ("one", "two", "depthwise")
BATCHES = ("none", "of x", "of both")
COMBINATIONS = (
    *itertools.product(CONVOLUTIONS, DIRECTIONS, GROUPS, FORMATS),
    *itertools.product(("linear",), DIRECTIONS, BATCHES, FORMATS),
    *itertools.product(("matmul",), ("forward",), BATCHES, FORMATS),
)
_RESULTS = (("truth",), ("truth", "sum"), ("truth", "fault"), ("sum", "fault"), ("fault", "fault"))
_ORDERS = ("k", "-k", "pairs:k", "halves:k%8|k", "k/5|k", "k%3|k")


@dataclass(frozen=True)
class Asked:
    """What one case came to: verdicts by what its results were, and what is wrong with that."""

    problem: str
    seed: tuple[int, ...]
    verdicts: tuple[tuple[str, str], ...]
    wrong: tuple[str, ...]
    time_s: float


def choose_problem(
    kind: Kind, direction: str, groups: str, formats: tuple[str, str], rng: np.random.Generator
) -> Problem:
    """A small problem with random stride, padding and dilation; drawn again until there is one."""
    rank, transposed = int(kind[-2]), kind.startswith("conv_transpose")
    while True:
        number = {"one": 1, "two": 2, "depthwise": int(rng.integers(2, 7))}[groups]
        first, second = (
            (1, int(rng.integers(1, 3))) if groups == "depthwise" else (int(n) for n in rng.integers(1, 5, 2))
        )
        c_in, c_out = number * first, number * second
        w = (c_in, c_out // number) if transposed else (c_out, c_in // number)
        largest = {1: 24, 2: 9, 3: 6}[rank]
        sizes = [int(n) for n in rng.integers(1, largest, rank)]
        attributes = {
            "stride": rng.integers(1, 4, rank), "dilation": rng.choice([1, 1, 2, 3], rank),
            "output_padding": rng.integers(0, 3, rank) if transposed else np.zeros(rank, int),
        }  # fmt: skip
        padding = "x".join(f"{a}:{b}" for a, b in rng.integers(0, 3, (rank, 2)))
        if rng.random() < 0.15:
            padding = str(rng.choice(["same_upper", "same_lower"]))
        shape = "x".join(map(str, (int(rng.integers(1, 4)), c_in, *sizes)))
        kernel = "x".join(map(str, (*w, *rng.integers(1, 5, rank))))
        words = [f"{kind}.{direction}".removesuffix(".forward"), f"x={shape}", f"w={kernel}", f"padding={padding}"]
        words += [f"{n}={'x'.join(map(str, v))}" for n, v in attributes.items()]
        words += [f"groups={number}", f"dtype={formats[0]}", f"out={formats[1]}"]
        if direction == "forward":
            words += ["bias"] * int(rng.integers(0, 2)) + [[], ["then=relu"], ["then=clip(0,6)"]][
                int(rng.choice([0, 0, 0, 1, 2]))
            ]
        with contextlib.suppress(Exception):
            return parse_problem_text(" ".join(words))


def choose_product(
    kind: Kind, direction: str, batches: str, formats: tuple[str, str], rng: np.random.Generator
) -> Problem:
    """A small product; of matmul the batches are repeated along some axes, and an operand may be a vector."""
    rows, columns, length = (int(n) for n in rng.choice([1, 2, 3, 5, 8, 17, 40], 3))
    batch = [int(n) for n in rng.integers(1, 4, int(rng.integers(1, 4)))] if batches != "none" else []
    x, w = [*batch, rows, length], [columns, length]
    if kind == "matmul":
        own = batch[int(rng.integers(0, len(batch))) :] if batches == "of both" else []
        w = [*(int(rng.choice([n, 1])) for n in own), length, columns]
    if batches == "none" and rng.random() < 0.3:
        x = x[1:]
    if kind == "matmul" and rng.random() < 0.2:
        w = [length]
    words = [f"{kind}.{direction}".removesuffix(".forward"), f"x={'x'.join(map(str, x))}", f"w={'x'.join(map(str, w))}"]
    words += [f"dtype={formats[0]}", f"out={formats[1]}"]
    if direction == "forward":
        words += ["bias"] if kind == "linear" and rng.random() < 0.5 else []
        words += [[], ["then=relu"], ["then=clip(0,6)"]][int(rng.choice([0, 0, 0, 1, 2]))]
    return parse_problem_text(" ".join(words))


def make_data(problem: Problem, rng: np.random.Generator) -> Operands:
    """Normal, uniform, exact, of odd magnitudes, or with infinities and NaN."""
    make = (make_normal, make_uniform, make_exact)[int(rng.choice([0, 0, 1, 2]))]
    operands = make(problem, int(rng.integers(0, 2**31)))
    with np.errstate(all="ignore"):
        if rng.random() < 0.15:
            scale = float(rng.choice([1e-40, 1e-7, 300.0, 1e19]))
            operands = {n: (a.astype(np.float64) * scale).astype(a.dtype) for n, a in operands.items()}
        if rng.random() < 0.15:
            name = str(rng.choice(list(operands)))
            odd = np.array(rng.choice([np.inf, -np.inf, np.nan, -0.0, 1e-45])).astype(operands[name].dtype)
            operands[name] = np.where(rng.random(operands[name].shape) < 0.05, odd, operands[name])
    return operands


def add_otherwise(problem: Problem, operands: Operands, rng: np.random.Generator) -> np.ndarray:
    """The sums in float32 (float64 for float64 operands) in another order: no fault."""
    wide = "float64" if "float64" in (problem.dtype, problem.out) else "float32"
    product = rng.choice(["fused", "rounded"])
    return emulate(problem, parse_recipe(f"direct product={product} acc={wide} order={rng.choice(_ORDERS)}"), operands)


def _shift(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.roll(y, 1, int(rng.integers(0, y.ndim)) if y.ndim else None)


def _flip_bit(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    codes = y.copy().view(f"u{y.itemsize}").reshape(-1)
    codes[rng.integers(0, codes.size)] ^= codes.dtype.type(1 << int(rng.integers(0, 8 * y.itemsize)))
    return codes.view(y.dtype).reshape(y.shape)


def _put_odd(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y = y.copy()
    odd = np.array(rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30])).astype(y.dtype)
    y[rng.random(y.shape) < rng.choice([0.02, 0.5, 1.0])] = odd
    return y


def _empty_tail(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y = y.copy()
    y.reshape(-1)[int(rng.integers(0, y.size)) :] = 0
    return y


def _scale(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (y.astype(np.float64) * rng.choice([2.0, -1.0, 0.5, 1.001])).astype(y.dtype)


def _replace_all(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal(y.shape).astype(y.dtype)


FAULTS: tuple[Callable[[np.ndarray, np.random.Generator], np.ndarray], ...] = (
    _shift, _flip_bit, _put_odd, _empty_tail, _scale, _replace_all,
)  # fmt: skip
_NARROW_RECIPES = (
    "direct acc=bfloat16",
    "direct acc=float16",
    "direct acc=float32/toward_zero",
    "direct x=bfloat16 w=tf32",
)


def make_fault(problem: Problem, operands: Operands, truth: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A result with a fault: its numbers changed, or its sums kept in less."""
    if problem.dtype != "float64" and rng.random() < 0.3:
        return emulate(problem, parse_recipe(str(rng.choice(_NARROW_RECIPES))), operands)
    with np.errstate(all="ignore"):
        # Arithmetic makes of an array without axes what is none.
        return np.asarray(FAULTS[int(rng.integers(0, len(FAULTS)))](truth, rng))


def ask_about(seed: tuple[int, ...]) -> Asked:
    """One case by its number: (seed, round, combination)."""
    rng = np.random.default_rng(seed)
    started = time.perf_counter()
    choose = choose_product if COMBINATIONS[seed[-1]][0] in PRODUCTS else choose_problem
    problem = choose(*COMBINATIONS[seed[-1]], rng)
    operands = make_data(problem, rng)
    verdicts: list[tuple[str, str]] = []
    wrong: list[str] = []
    try:
        truth = compute_truth(problem, operands).values
        made = {
            "truth": lambda: truth,
            "sum": lambda: add_otherwise(problem, operands, rng),
            "fault": lambda: make_fault(problem, operands, truth, rng),
        }
        names = _RESULTS[int(rng.integers(0, len(_RESULTS)))]
        results = {f"{name} {i}": made[name]() for i, name in enumerate(names)}
        try:
            found = _explain(problem, operands, results, "error")
        except Warning as warning:
            wrong.append(_describe(warning))
            found = _explain(problem, operands, results, "ignore")
        verdicts = [(name, side.verdict) for name, side in zip(names, found.sides, strict=True)]
        wrong += [f"{name} is called {v}" for name, v in verdicts if v in _IMPOSSIBLE[name]]
        wrong += _check_results(problem, results, truth, dict(zip(results, verdicts, strict=True)))
    except Exception as error:
        wrong.append(_describe(error))
    return Asked(format_problem(problem), seed, tuple(verdicts), tuple(wrong), time.perf_counter() - started)


_IMPOSSIBLE = {"truth": ("rounding", "downgrade", "wrong", "undecided"), "sum": ("downgrade", "wrong"), "fault": ()}


def _describe(error: Exception) -> str:
    """The error and the last of our lines that it went through."""
    places = [f for f in traceback.extract_tb(error.__traceback__) if "/samebits/" in f.filename]
    where = f"{Path(places[-1].filename).name}:{places[-1].lineno}" if places else "benchmarks"
    return f"{type(error).__name__}: {str(error)[:100]} ({where})"


def _explain(
    problem: Problem,
    operands: Operands,
    results: dict[str, np.ndarray],
    warned: Literal["error", "ignore"],
) -> Comparison:
    """The case written, read, explained, shown and read back from its JSON."""
    with tempfile.TemporaryDirectory(prefix="cases-") as folder:
        path = Path(folder) / "case.npz"
        save_case(path, problem, operands, results)
        with warnings.catch_warnings():
            warnings.simplefilter(warned)
            found = explain(path)
    with contextlib.redirect_stdout(io.StringIO()):
        show_explanation(found)
    if json_from_finding(finding_from_json(json_from_finding(found), Comparison)) != json_from_finding(found):
        raise ValueError("the finding's JSON is not read back as it was")
    return found


def _check_results(
    problem: Problem, results: dict[str, np.ndarray], truth: np.ndarray, verdicts: dict[str, tuple[str, str]]
) -> list[str]:
    """What is made is as the problem says; identical is what has the truth's bits, with any NaN as any other."""
    wanted = problem.out_shape, numpy_dtype(problem.out)
    wrong = [f"{n} has another shape or dtype" for n, y in results.items() if (y.shape, y.dtype) != wanted]
    for name, y in results.items():
        equal = ((y == truth) & (np.signbit(y) == np.signbit(truth))) | ((y != y) & (truth != truth))
        if (verdicts[name][1] == "identical") != bool(equal.all()):
            wrong.append(f"{verdicts[name][0]} is called {verdicts[name][1]}: its bits say otherwise")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="cases of every combination")
    parser.add_argument("--count", type=int, help="stop after this many cases, spread over all combinations")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    seeds = [(options.seed, r, c) for r in range(options.rounds) for c in range(len(COMBINATIONS))]
    if options.count:
        chosen = np.random.default_rng(options.seed).permutation(len(seeds))[: options.count]
        seeds = [seeds[i] for i in chosen]
    seen: list[Asked] = []
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        for asked in pool.map(ask_about, seeds, chunksize=4):
            seen.append(asked)
            for says in asked.wrong:
                print(f"{says}: {asked.problem} {asked.seed}", file=sys.stderr, flush=True)
    show(seen)
    return 1 if any(asked.wrong for asked in seen) else 0


def show(seen: list[Asked]) -> None:
    """What was said of what, and each fault with the cases that show it."""
    verdicts = Counter(pair for asked in seen for pair in asked.verdicts)
    longest = max(seen, key=lambda asked: asked.time_s)
    print(f"{len(seen)} random cases, longest {longest.time_s:.1f} s ({longest.problem} {longest.seed})")
    for (name, verdict), number in sorted(verdicts.items()):
        print(f"  {name:6} is called {verdict:10} {number:6}")
    faults: dict[str, list[Asked]] = defaultdict(list)
    for asked in seen:
        for says in asked.wrong:
            faults[says].append(asked)
    for says, those in sorted(faults.items(), key=lambda pair: -len(pair[1])):
        print(f"\n{says}: {len(those)} times")
        for asked in sorted(those, key=lambda a: len(a.problem))[:3]:
            print(f"  python -c 'from random_cases import *; print(ask_about({asked.seed}))'  {asked.problem}")


if __name__ == "__main__":
    sys.exit(main())
