"""Real engines that disagree because of one known setting: is a setting found that ends it, and is that true?

One side runs as installed, the other with one setting changed; pairs that agree in every bit are left out. What
`compare --fix` then claims is checked apart from it: the texts it names are run on other data, and their bits compared.
`make fixes` (also --minutes N, --only TEXT, --write FILE, --log FILE).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from pages import write_page

import samebits
from samebits.engines.registry.runners import open_runner
from samebits.errors import EngineFailure
from samebits.findings.engine_settings import SETTINGS
from samebits.numbers.ulps import mark_differing_bits
from samebits.problems import Problem, parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal

ABOUT = """Two sides of one engine, one as installed and one with a single setting changed, on problems where that
changes bits; the same with the second side known by its recorded result only, as from another machine; and pairs of
different engines, of which nobody knows beforehand whether a setting ends it. `compare --fix` is asked; a fix counts as
true if the texts it names, run again here on other random data, agree in every bit (or, where it promises no more than
rounding, if `compare` says so of them). `make fixes` writes this page."""
PROBLEMS = (
    "conv2d x=1x16x14x14 w=32x16x3x3 padding=1",
    "conv2d x=1x64x14x14 w=64x64x1x1",
    "conv1d x=2x32x64 w=48x32x3 padding=1",
    "conv2d x=2x32x12x12 w=32x1x3x3 padding=1 groups=32",
    "conv2d.grad_weight x=4x16x14x14 w=32x16x3x3 padding=1",
    "conv2d.grad_input x=1x16x14x14 w=32x16x3x3 padding=1",
    "linear x=8x256 w=64x256 bias",
    "linear x=1x512 w=100x512",
    "linear.grad_weight x=64x96 w=48x96",
    "matmul x=4x24x160 w=4x160x20",
)
CHANGES = {
    "torch": (
        "mkldnn=off", "threads=1", "layout=channels_last", "fp32_precision=bf16", "env.ONEDNN_MAX_CPU_ISA=AVX2",
        "env.ATEN_CPU_CAPABILITY=default", "linear_as=matmul", "linear_as=addmm", "compile=on", "w_memory=transposed",
        "env.ONEDNN_DEFAULT_FPMATH_MODE=BF16", "x_memory=transposed",
    ),
    "onnxruntime": ("optimization=disable", "weights=runtime", "threads=1", "linear_as=matmul", "conv1d_as=conv2d"),
    "openvino": (
        "INFERENCE_PRECISION_HINT=f32", "INFERENCE_PRECISION_HINT=bf16", "INFERENCE_PRECISION_HINT=f16",
        "INFERENCE_NUM_THREADS=1", "weights=runtime", "EXECUTION_MODE_HINT=ACCURACY",
    ),
    "tensorflow": (
        "env.TF_ENABLE_ONEDNN_OPTS=0", "threads=1", "linear_as=dense", "env.ONEDNN_MAX_CPU_ISA=AVX2",
        "env.ONEDNN_DEFAULT_FPMATH_MODE=BF16",
    ),
    "jax": (
        "jit=off", "precision=highest", "env.XLA_FLAGS=--xla_cpu_max_isa=AVX2",
        "env.XLA_FLAGS=--xla_cpu_use_onednn=false",
    ),
    "numpy": ("call=einsum", "call=dot", "threads=1", "env.OPENBLAS_CORETYPE=Haswell", "w_memory=transposed"),
}  # fmt: skip
CROSS = ("torch", "onnxruntime", "openvino", "tensorflow", "jax")
_ROWS = {(row.engine, row.change) for row in SETTINGS}
_SEEDS = (901, 902, 903)
_SEED = 4


@dataclass
class Asked:
    """One pair of sides that differ in bits, and what was claimed of it."""

    problem: str
    sides: tuple[str, str]
    is_known: bool  # whether one setting must end it
    is_recorded: bool = False  # whether the second side was there as a recorded result only
    verdict: str = ""
    cause: str = ""
    fix: str = ""
    changes: int = 0
    same_bits: bool = False
    is_true: bool | None = None
    time_s: float = 0.0


def run_on(text: str, problem: Problem, seeds: tuple[int, ...]) -> list[np.ndarray] | None:
    """A side's results on several sets of data; None where it cannot compute the problem."""
    runner = open_runner(text, time_limit_s=120)
    try:
        return [runner.run(problem, make_normal(problem, seed)) for seed in seeds]
    except EngineFailure:
        return None
    finally:
        runner.close()


def run_all() -> dict[tuple[str, str], list[np.ndarray] | None]:
    """By side and problem, each side's engine started once; a side that fails starts again for the next problem."""
    results: dict[tuple[str, str], list[np.ndarray] | None] = {}
    for side in [*CHANGES, *(f"{e}:{change}" for e, changes in CHANGES.items() for change in changes)]:
        runner = open_runner(side, time_limit_s=120)
        for text in PROBLEMS:
            problem = parse_problem_text(text)
            try:
                results[side, text] = [runner.run(problem, make_normal(problem, 1))]
            except EngineFailure:
                results[side, text] = None
        runner.close()
        print(f"ran {side}", file=sys.stderr)
    return results


def differ(one: list[np.ndarray] | None, other: list[np.ndarray] | None) -> bool:
    """Whether both ran, and any bit differs."""
    if one is None or other is None:
        return False
    return any(bool(mark_differing_bits(a, b).any()) for a, b in zip(one, other, strict=True))


def list_pairs() -> list[tuple[str, tuple[str, str], bool]]:
    """All pairs in a random sequence: problem, sides, whether a fix is known to exist."""
    pairs: list[tuple[str, tuple[str, str], bool]] = []
    for text in PROBLEMS:
        pairs += [(text, (e, f"{e}:{change}"), True) for e, changes in CHANGES.items() for change in changes]
        pairs += [(text, (a, b), False) for i, a in enumerate(CROSS) for b in CROSS[i + 1 :]]
    random.Random(_SEED).shuffle(pairs)
    return pairs


def examine(
    text: str, sides: tuple[str, str], results: tuple[list[np.ndarray] | None, ...], *, is_known: bool
) -> Asked | None:
    """What is claimed of a pair, checked; None where the sides agree or one cannot run."""
    problem = parse_problem_text(text)
    if not differ(*results):
        return None
    name, _, change = sides[1].partition(":")
    asked = Asked(text, sides, is_known, is_recorded=(name, change) in _ROWS)
    started = time.perf_counter()
    if asked.is_recorded:
        operands = make_normal(problem, 1)
        assert results[1]
        found = samebits.compare(Case(problem, operands, {"recorded": results[1][0]}), on=[sides[0]], fix=True)
    else:
        found = samebits.compare(text, on=list(sides), fix=True)
    asked.time_s = round(time.perf_counter() - started, 1)
    asked.verdict, asked.cause = str(found.verdict), str(found.cause or "")
    fixes = [fix for fix in found.fixes if fix.verified and fix.text]
    if fixes:
        best = fixes[0]
        asked.fix = " + ".join([str(best.text), *best.together_with])
        asked.changes, asked.same_bits = best.changes or 0, bool(best.same_bits)
        # A recorded result was made by what the second side says.
        after = [str(best.text), *([sides[1]] if asked.is_recorded else best.together_with)]
        asked.is_true = is_true(problem, sides, after, same_bits=asked.same_bits)
    return asked


def is_true(problem: Problem, sides: tuple[str, str], after: list[str], *, same_bits: bool) -> bool:
    """Whether the changed side agrees with one that was left (or both changed ones with each other) on other data."""
    others = after[1:] or list(sides)
    changed = run_on(after[0], problem, _SEEDS)
    for other in others:
        if same_bits and changed is not None and not differ(changed, run_on(other, problem, _SEEDS)):
            return True
        if not same_bits:
            again = samebits.compare(problem, on=[after[0], other])
            if str(again.verdict) in ("rounding", "identical"):
                return True
    return False


def report(every: list[Asked]) -> str:
    """The tables of the page."""
    known, cross = [a for a in every if a.is_known], [a for a in every if not a.is_known]
    live, recorded = [a for a in known if not a.is_recorded], [a for a in known if a.is_recorded]
    lines = [
        "| sides | differ | a fix found | the same bits | one change | true on other data |",
        "|---|---|---|---|---|---|",
    ]
    groups = {"one setting apart": live, "one setting apart, one side recorded": recorded, "two engines": cross}
    for name, own in groups.items():
        fixed = [a for a in own if a.fix]
        same, single = sum(a.same_bits for a in fixed), sum(a.changes == 1 for a in fixed)
        lines.append(
            f"| {name} | {len(own)} | {len(fixed)} | {same} | {single} | {sum(bool(a.is_true) for a in fixed)} |"
        )
    engines = Counter(a.sides[0] for a in known)
    lines += ["", "One setting apart, by engine: " + ", ".join(f"{n} {e}" for e, n in engines.most_common()) + "."]
    if every:
        lines.append(f"Median time of a question {statistics.median(a.time_s for a in every):.0f} s.")
    odd = [a for a in every if (a.is_known and not (a.fix and a.same_bits)) or a.is_true is False]
    if odd:
        lines += ["", "| problem | sides | said | fix | true |", "|---|---|---|---|---|"]
        lines += [
            f"| `{a.problem}` | `{'`, `'.join(a.sides)}` | {a.verdict} {a.cause} | {a.fix or 'none'} | {a.is_true} |"
            for a in odd
        ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="no new pair is begun after so many")
    parser.add_argument("--only", default="", help="sides that contain this text")
    parser.add_argument("--write", type=Path, help="where to write the tables")
    parser.add_argument("--log", type=Path, help="one JSON line per pair is appended; pairs in it are not asked again")
    options = parser.parse_args()
    ends, every = time.monotonic() + 60 * options.minutes, []
    if options.log and options.log.exists():
        every = [Asked(**json.loads(line)) for line in options.log.read_text().splitlines()]
    known = {(a.problem, tuple(a.sides)) for a in every}
    results = run_all()
    for text, sides, is_known in list_pairs():
        if time.monotonic() > ends:
            break
        if options.only not in " ".join(sides) or (text, sides) in known:
            continue
        asked = examine(text, sides, tuple(results[side, text] for side in sides), is_known=is_known)
        if asked is None:
            continue
        every.append(asked)
        print(f"{len(every)}: {text} | {' '.join(sides)} | {asked.fix or 'none'} | {asked.is_true}", file=sys.stderr)
        if options.log:
            with options.log.open("a") as stream:
                stream.write(json.dumps(asdict(asked)) + "\n")
    tables = report(every)
    print(tables)
    if options.write:
        write_page(options.write, "Fixes tried on real engines", ABOUT, tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
