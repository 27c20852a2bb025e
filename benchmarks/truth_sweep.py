"""Is every output of the truth right? Torch's and JAX's convolutions, hard data, every mode and way of calling.

`--outputs N` are compared with sums of integers that share no code with the truth (`exact_reference.py`); outputs that
are no sum, because no product reaches them, come on top. Which problem means what is asked of torch and JAX first
(`sweep_problems.py`). Prints what was checked, and for everything wrong how to see it again; then the status is 1.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import platform
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace

import numpy as np
from exact_reference import EMPTY, OUTCOMES, compute_reference, list_terms
from sweep_operands import KINDS, make_operands
from sweep_problems import find_misreadings, list_directions, list_jax_samples, list_torch_samples
from sweep_ways import COMPILING, WAYS, Job, Way, codes_of, compute_all

from samebits.numbers.format import numpy_dtype
from samebits.problems import Problem, parse_problem_text
from samebits.problems.problem_text import format_problem

SAME_FORMATS = ("float32", "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float64")
FORMATS = (
    *zip(SAME_FORMATS, SAME_FORMATS, strict=True),
    ("float32", "bfloat16"), ("float32", "float16"), ("float32", "float64"), ("float64", "float32"),
    ("bfloat16", "float32"), ("float16", "float32"), ("float8_e5m2", "float32"), ("float8_e4m3fn", "bfloat16"),
)  # fmt: skip
# Compiling takes a minute for all kinds of operands: three of them, each with the most hard cases.
COMPILED_FORMATS = tuple((name, name) for name in ("float32", "float64", "bfloat16"))
JOBS_PER_BATCH, JOBS_COMPILING = 6, 24
# Batches that compile again are apart, so that the others go on meanwhile.
COMPILING_AT: dict[int, Way] = {0: COMPILING[0], 30: COMPILING[1]}
# Fewer outputs than these do without the ways that compile everything again.
COMPILES_FROM = 10**6
# Of one batch and of the whole run: one reproduction tells as much as a hundred of its kind.
MOST_SHOWN, MOST_TERMS = 40, 12


@dataclass(frozen=True)
class Batch:
    """Some jobs that are computed in one way; the same number and seed give the same jobs."""

    seed: int
    number: int
    way: Way
    texts: tuple[str, ...]


@dataclass
class Checked:
    """What was compared and what was wrong, of one batch or of all."""

    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    ways: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    shown: list[str] = field(default_factory=list)

    def add(self, other: Checked) -> None:
        """Counts what the other has counted."""
        for name in ("outcomes", "kinds", "formats", "ways", "wrong"):
            getattr(self, name).update(getattr(other, name))
        self.shown += other.shown

    def count_sums(self) -> int:
        """Outputs that add up at least one product."""
        return self.outcomes.total() - self.outcomes[OUTCOMES[EMPTY]]


def run_batch(batch: Batch) -> Checked:
    """Computes a batch in its way and by the reference, and compares."""
    jobs: list[Job] = []
    kinds: list[str] = []
    for n, text in enumerate(batch.texts):
        random = np.random.default_rng((batch.seed, batch.number, n))
        formats = COMPILED_FORMATS if batch.way in COMPILING else FORMATS
        dtype, out = formats[int(random.integers(len(formats)))]
        problem = replace(parse_problem_text(text), dtype=dtype, out=out)
        kinds.append(str(random.choice(KINDS)))
        jobs.append((format_problem(problem), make_operands(problem, kinds[-1], random)))
    references = [compute_reference(parse_problem_text(text), arrays) for text, arrays in jobs]
    checked = Checked()
    try:
        results = compute_all(batch.way, jobs)
    except Exception as error:
        checked.wrong["failed"] += 1
        checked.shown.append(f"batch {batch.number} failed ({batch.way}): {type(error).__name__}: {error}")
        return checked
    for n, ((text, arrays), kind, reference, result) in enumerate(zip(jobs, kinds, references, results, strict=True)):
        problem = parse_problem_text(text)
        codes = codes_of(result).astype(np.uint64).ravel()
        names = Counter({OUTCOMES[i]: int(c) for i, c in enumerate(np.bincount(reference.outcomes)) if c})
        wrong = np.flatnonzero(codes != reference.codes)
        checked.outcomes += names
        checked.kinds[kind] += codes.size
        checked.formats[f"{problem.dtype} to {problem.out}"] += codes.size
        checked.ways[f"{batch.way.mode}, {batch.way.place}"] += codes.size
        for at in wrong:
            checked.wrong[f"{OUTCOMES[reference.outcomes[at]]} | {batch.way.mode}, {batch.way.place}"] += 1
        if wrong.size:
            again = f"--seed {batch.seed} --only {batch.number} (and the same --jax)"
            found = _show_wrong(batch.way, problem, arrays, int(wrong[0]), codes, reference.codes)
            checked.shown.append(f"{text}\n  {kind}; {batch.way}; job {n} of {again}; {wrong.size} outputs\n{found}")
    return checked


def _show_wrong(
    way: Way, problem: Problem, arrays: dict[str, np.ndarray], at: int, codes: np.ndarray, expected: np.ndarray
) -> str:
    """One wrong output, its terms, and whether they are wrong alone, as few of them as still are."""
    first, second = list_terms(problem, arrays, at)
    digits = numpy_dtype(problem.out).itemsize * 2
    said = f"  output {at} is {codes[at]:#0{digits + 2}x}, must be {expected[at]:#0{digits + 2}x}"
    counted = (first != 0) & (second != 0)
    first, second = first[counted], second[counted]
    if not first.size:
        return f"{said}; it has no product other than zeros"
    # A new process for each term would take too long, and modes are the same in it.
    here = replace(way, place="here") if way.place not in ("here", "several threads at once") else way
    if _is_alone_wrong(here, problem, first, second):
        n = 0
        while n < first.size and first.size > 1:
            fewer = np.delete(first, n), np.delete(second, n)
            if _is_alone_wrong(here, problem, *fewer):
                first, second = fewer
            else:
                n += 1
        said += f"; wrong alone too, as {format_problem(_as_dot_product(problem, first.size))} ({here.mode}, here)"
    pairs = [f"{float(a).hex()} * {float(b).hex()}" for a, b in zip(first, second, strict=True)]
    return f"{said}\n  terms: {' + '.join(pairs[:MOST_TERMS])}{' + ...' if len(pairs) > MOST_TERMS else ''}"


def _as_dot_product(problem: Problem, terms: int) -> Problem:
    return Problem("conv1d", (1, terms, 1), (1, terms, 1), dtype=problem.dtype, out=problem.out)


def _is_alone_wrong(way: Way, problem: Problem, first: np.ndarray, second: np.ndarray) -> bool:
    alone = _as_dot_product(problem, first.size)
    arrays = {"x": second.reshape(alone.x), "w": first.reshape(alone.w)}
    result = codes_of(compute_all(way, [(format_problem(alone), arrays)])[0]).astype(np.uint64).ravel()
    return bool((result != compute_reference(alone, arrays).codes).any())


def list_texts(seed: int, jax_samples: int) -> tuple[list[str], list[str]]:
    """The texts of all problems, shuffled, and what torch or JAX understand otherwise than we do."""
    samples = list(itertools.chain(list_torch_samples(), list_jax_samples(seed, jax_samples)))
    misread: list[str] = []
    for n, sample in enumerate(samples):
        report(f"meaning asked of torch and JAX: {n + 1} of {len(samples)}")
        misread += find_misreadings(sample, seed)
    texts = {format_problem(p): None for sample in samples for p in list_directions(sample.problem)}
    origins = Counter(sample.origin for sample in samples)
    print(f"{len(texts)} problems from {origins['torch']} of torch's convolutions and {origins['jax']} of JAX's")
    return [str(t) for t in np.random.default_rng(seed).permutation(list(texts))], misread


def list_batches(seed: int, texts: list[str]) -> Iterator[Batch]:
    """Batches without end: every way in turn, every problem in turn, between them those that compile again."""
    at = 0
    order = np.random.default_rng(seed).permutation(len(WAYS))
    for number in itertools.count():
        way = COMPILING_AT.get(number) or WAYS[order[number % len(WAYS)]]
        count = JOBS_COMPILING if number in COMPILING_AT else JOBS_PER_BATCH
        yield Batch(seed, number, way, tuple(texts[(at + n) % len(texts)] for n in range(count)))
        at += count


def sweep(batches: Iterator[Batch], outputs: int, processes: int) -> Checked:
    """Runs batches until that many sums are compared."""
    total = Checked()
    start = time.monotonic()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _prepare_process) as pool:
        running: set[Future[Checked]] = set()
        while total.count_sums() < outputs:
            while len(running) < 2 * processes and (batch := next(batches, None)):
                running.add(pool.submit(run_batch, batch))
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                total.add(future.result())
            taken = time.monotonic() - start
            report(f"{total.count_sums()} of {outputs} outputs, {total.wrong.total()} wrong, {taken:.0f} s")
        for future in running:
            future.cancel()
        for future in running:
            if not future.cancelled():
                total.add(future.result())
    return total


def _prepare_process() -> None:
    # So that torch's own switch sets the mode.
    import torch

    torch.set_num_threads(1)


def report(text: str) -> None:
    """A line about progress, over the one before where standard error is a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)
    elif text.endswith(" s"):
        print(text, file=sys.stderr, flush=True)


def print_checked(checked: Checked) -> None:
    """What was checked, by classes; what was wrong."""
    print(
        f"{checked.count_sums()} sums compared in bits, {checked.outcomes[OUTCOMES[EMPTY]]} outputs without a product"
    )
    for title, counts in (
        ("what became of them", checked.outcomes), ("data", checked.kinds), ("formats", checked.formats),
        ("ways of calling", checked.ways),
    ):  # fmt: skip
        print(f"\n{title}")
        for name, count in sorted(counts.items(), key=lambda item: -item[1]):
            print(f"  {count:>10}  {name}")
    print(f"\n{checked.wrong.total()} wrong")
    for name, count in checked.wrong.most_common():
        print(f"  {count:>10}  {name}")
    for text in checked.shown[:MOST_SHOWN]:
        print(f"\n{text}")
    if len(checked.shown) > MOST_SHOWN:
        print(f"\nand {len(checked.shown) - MOST_SHOWN} more jobs")


def main() -> int:
    """Runs the sweep; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outputs", type=lambda text: int(float(text)), default=10**7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jax", type=int, default=120, metavar="N", help="how many of JAX's parameters to draw")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, metavar="BATCH", help="one batch of a run with the same seed and --jax")
    arguments = parser.parse_args()
    if sys.platform != "linux" or platform.machine() != "x86_64":
        print("the modes of the floating-point unit are set as on x86-64 under Linux, and only there", file=sys.stderr)
        return 2
    texts, misread = list_texts(arguments.seed, arguments.jax)
    for text in misread:
        print(f"means something else: {text}")
    batches = list_batches(arguments.seed, texts)
    if arguments.outputs < COMPILES_FROM:
        batches = (batch for batch in batches if batch.way not in COMPILING)
    if arguments.only is not None:
        batches = list_batches(arguments.seed, texts)
        batches = itertools.islice(batches, arguments.only, arguments.only + 1)
    checked = sweep(batches, arguments.outputs, arguments.processes)
    print_checked(checked)
    return 1 if misread or checked.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
