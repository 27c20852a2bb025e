"""What a GPU's kernels add, and in which order: every problem below asked of every engine, and replayed here.

`python benchmarks/gpu_survey.py FOLDER [--seconds S] [--each S] [--processes N] [--only TEXT]` writes a line of JSON
per (configuration, problem) to FOLDER/gpu_*.jsonl, and what was not replayed to FOLDER/gpu_open_*.npz.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samebits.engines.probes.session import ProbeSession
from samebits.engines.recipe_search.recipe_search import search_recipe
from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runner_text import parse_runner_text
from samebits.problems import Problem, parse_problem_text
from samebits.problems.operands import make_normal
from samebits.sums.recipes.recipe_text import format_recipe

PRODUCTS = (
    "matmul x=64x256 w=256x64", "matmul x=128x1024 w=1024x128", "matmul x=16x512 w=512x256", "linear x=1x768 w=256x768",
    "matmul x=256x64 w=64x256", "linear x=8x2048 w=512x2048", "matmul x=4x64x48 w=4x48x64",
)  # fmt: skip
CONVOLUTIONS = (
    "conv2d x=1x64x14x14 w=64x64x1x1", "conv2d x=2x64x14x14 w=64x64x3x3 padding=1",
    "conv2d x=1x32x16x16 w=32x32x3x3 padding=1 stride=2", "conv2d x=1x16x12x12 w=16x16x5x5 padding=2",
    "conv2d x=1x32x14x14 w=32x1x3x3 padding=1 groups=32", "conv2d x=1x3x32x32 w=16x3x7x7 padding=3 stride=2",
    "conv2d x=1x32x14x14 w=32x32x3x3 padding=2 dilation=2",
)  # fmt: skip
GRADIENTS = (
    "conv2d.grad_weight x=4x32x14x14 w=32x32x3x3 padding=1", "conv2d.grad_input x=4x32x14x14 w=32x32x3x3 padding=1",
    "conv2d.grad_weight x=8x16x7x7 w=64x16x1x1", "conv2d.grad_input x=2x16x12x12 w=16x16x5x5 padding=2",
)  # fmt: skip
FORMATS = ("float32", "float16", "bfloat16")
PROBLEMS = tuple(
    f"{text} dtype={name}" for text in (*PRODUCTS, *CONVOLUTIONS) for name in FORMATS
) + tuple(f"{text} dtype={name}" for text in GRADIENTS for name in FORMATS) + (
    "linear x=32x256 w=64x256 dtype=float8_e4m3fn out=float32",
    "linear x=32x512 w=64x512 dtype=float8_e5m2 out=float32",
    "linear x=32x256 w=64x256 dtype=float8_e4m3fn out=bfloat16",
    "matmul x=64x256 w=256x64 dtype=float64", "conv2d x=1x32x14x14 w=32x32x3x3 padding=1 dtype=float64",
    "matmul x=128x4096 w=4096x128 dtype=float16",
)  # fmt: skip
ENGINE_TEXTS = (
    "torch:device=cuda", "torch:device=cuda,tf32=on", "torch:device=cuda,tf32=off", "torch:device=cuda,cudnn=off",
    "torch:device=cuda,reduced_precision=off", "torch:device=cuda,fp16_accumulation=on",
    "torch:device=cuda,layout=channels_last",
    "torch:device=cuda,benchmark=on", "torch:device=cuda,fast_accum=on", "torch:device=cuda,blas=cublaslt",
    "jax:device=cuda", "jax:device=cuda,precision=highest", "torch:device=cuda,deterministic=on",
)  # fmt: skip
CUDNN_TEXTS = ("cudnn", "cudnn:layout=channels_last", "cudnn:compute=float16")


class InProcess:
    """An engine in this very process, as probes want it."""

    def __init__(self, text: str) -> None:
        self.text = text
        named = parse_runner_text(text)
        self.name = named.name
        self.engine: Any = ENGINES[named.name].load_class()()
        self.engine.load(dict(named.settings))

    def run(self, problem: Problem, operands: Any) -> np.ndarray:
        return np.asarray(self.engine.run(problem, operands))


def list_settings_that_matter(text: str, problem: Problem) -> bool:
    """Whether a setting can do something for a problem; the default is asked about all."""
    kind, half = problem.product is not None, problem.dtype in ("float16", "bfloat16")
    if problem.dtype.startswith("float8"):
        return text in ("torch:device=cuda", "torch:device=cuda,fast_accum=on")
    for name, does in (
        ("tf32", problem.dtype == "float32"), ("highest", problem.dtype == "float32"),
        ("compute", problem.dtype == "float16"), ("accumulation", problem.dtype == "float16"),
        ("reduced", half and kind), ("cublaslt", kind), ("cudnn=off", not kind), ("layout", not kind),
        ("benchmark", not kind), ("fast_accum", False), ("deterministic", problem.direction != "forward"),
    ):  # fmt: skip
        if name in text:
            return does
    return True


def describe(runner: Any, problem: Problem, seconds: float) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """One row of the survey; arrays of what was not replayed."""
    started = time.perf_counter()
    operands = make_normal(problem, 77)
    results = [runner.run(problem, operands) for _ in range(4)]
    distinct = len({r.tobytes() for r in results})
    found = search_recipe(ProbeSession(runner, problem, most_time_s=seconds))
    recipe, chosen = found.recipe, found.chosen
    row = {
        "recipe": format_recipe(recipe)[:4000] if recipe else None,
        "matched": chosen.matched,
        "compared": chosen.compared, "tried": chosen.tried, "distinct": distinct,
        "family": found.family.family if found.family else None,
        "notes": list(found.notes), "stopped": str(found.stopped)[:300] if found.stopped else None,
        "operands": {k: f"{v.format}/{v.mode}" for k, v in found.arithmetic.operands.items()},
        "accumulators": [f"{a.format}/{a.mode}/{a.fraction_bits}" for a in found.arithmetic.accumulators],
        "seconds": round(time.perf_counter() - started, 2),
    }  # fmt: skip
    arrays = {} if chosen.matched == 1.0 else {f"{i}": r.result for i, r in enumerate(found.replayers[:1])}
    return row, arrays


def list_jobs(texts: Sequence[str], only: str) -> list[tuple[str, str]]:
    """All (engine text, problem text) that are asked."""
    problems = [text for text in PROBLEMS if only in text]
    return [(t, p) for t in texts for p in problems if list_settings_that_matter(t, parse_problem_text(p))]


def work(name: str, jobs: list[tuple[str, str]], folder: str, seconds: float, until: float) -> None:
    """One process: its jobs one after the other, each with a fair share of the time that is left."""
    kept: dict[str, np.ndarray] = {}
    runner: Any = None
    with open(Path(folder) / f"gpu_{name}.jsonl", "a", buffering=1) as rows:
        for number, (text, problem_text) in enumerate(jobs):
            fair = time.time() + (until - time.time()) / (len(jobs) - number)
            problem = parse_problem_text(problem_text)
            try:
                if runner is None or runner.text != text:
                    runner = InProcess(text)
                    report = runner.engine.report()
                    said = {"version": report.version, "device": report.device, "settings": report.settings}
                    rows.write(json.dumps({"engine": text, **said}) + "\n")
                if runner.engine.explain_unsupported(problem):
                    continue
                plans = _list_plans(runner, problem)
            except Exception as error:
                rows.write(json.dumps({"engine": text, "problem": problem_text, "error": _say(error)}) + "\n")
                continue
            for plan, notes in plans:
                if time.time() > (fair if plan else until):
                    break
                if plan:
                    runner.engine.plan = plan
                asked = f"{text}{':' if ':' not in text else ','}plan={plan}" if plan else text
                try:
                    row, arrays = describe(runner, problem, seconds)
                except Exception as error:
                    row, arrays = {"error": _say(error)}, {}
                of = {"plans": len(plans)} if plan else {}
                rows.write(
                    json.dumps({"engine": asked, "problem": problem_text, "notes_of_cudnn": notes, **of, **row}) + "\n"
                )
                kept.update({f"{asked}|{problem_text}|{k}": v for k, v in arrays.items()})
    named: dict[str, Any] = dict(kept)
    np.savez_compressed(Path(folder) / f"gpu_open_{name}.npz", **named)


def _say(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:400]


def _list_plans(runner: Any, problem: Problem) -> list[tuple[str, list[str] | None]]:
    """Configurations with their notes, one of each engine before the second of any; one nameless one elsewhere."""
    if runner.name != "cudnn":
        return [("", None)]
    runner.engine.plan = ""
    seen: dict[str, int] = {}
    ranked: list[tuple[int, str]] = []
    notes = runner.engine.read_notes(problem)
    for name in notes:
        engine = name.partition("_")[0]
        seen[engine] = seen.get(engine, 0) + 1
        ranked.append((seen[engine], name))
    return [(name, notes[name]) for _, name in sorted(ranked, key=lambda pair: pair[0])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--seconds", type=float, default=300, help="for everything")
    parser.add_argument("--each", type=float, default=15, help="for the questions of one problem")
    parser.add_argument("--processes", type=int, default=12)
    parser.add_argument("--only", default="", help="problems whose text has this in it")
    parser.add_argument("--engines", default="", help="engine texts, separated by semicolons")
    given = parser.parse_args()
    Path(given.folder).mkdir(parents=True, exist_ok=True)
    until = time.time() + given.seconds
    texts = given.engines.split(";") if given.engines else ENGINE_TEXTS
    jobs = list_jobs([t for t in texts if not t.startswith("cudnn")], given.only)
    of_cudnn = list_jobs([t for t in (texts if given.engines else CUDNN_TEXTS) if t.startswith("cudnn")], given.only)
    some = max(given.processes * 2 // 5, 1) if of_cudnn and jobs else given.processes
    # A text's problems stay together: an engine is loaded for each text.
    own = [jobs[i * len(jobs) // some : (i + 1) * len(jobs) // some] for i in range(some)] if jobs else []
    rest = given.processes - len(own)
    own += [of_cudnn[i::rest] for i in range(rest)] if of_cudnn else []
    groups = [(str(i), part) for i, part in enumerate(own) if part]
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=work, args=(name, part, given.folder, given.each, until)) for name, part in groups
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(max(until + 10 - time.time(), 1))
        if process.is_alive():
            process.kill()


if __name__ == "__main__":
    main()
