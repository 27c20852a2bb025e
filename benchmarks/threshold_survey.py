"""Halves and doubles every threshold and counts whose answer changes; writes docs/thresholds.md.

One injected case of every mechanism that leaves a trace, and half as many fault-free ones, for every seventh problem of
the injected cases; sound transforms of NumPy's FFT; logs; recipes of transforms that a search must find. An answer
changes if verdict or cause does. `--write FILE` keeps the table.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import samebits
from samebits import thresholds
from samebits.engines.probes.session import ProbeSession
from samebits.engines.recipe_search.recipe_search import search_recipe
from samebits.engines.registry.runners import Emulator
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal
from samebits.sums.recipes import format_recipe, parse_recipe
from samebits.thresholds import TABLE, Threshold

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from pages import write_page

from injected_cases import FAULT_FREE, MECHANISMS, PROBLEMS, make_case
from injected_faults import Skip

ROOT = Path(__file__).parent.parent
SEED, EVERY = 31, 7
LAYER = "conv2d x=1x8x24x24 w=8x8x3x3 padding=1 dtype=float32"
TRANSFORMS = ("fft", "winograd(2)", "winograd(4)", "winograd(4) order=c/4|c", "winograd(6) product=rounded")
STATISTICS = """{problem}
Mismatched elements: 100 / 2592 (3.9%)
Greatest absolute difference: {largest} at index (0, 1, 2, 3) (up to 1e-05 allowed)
Greatest relative difference: 12.0 at index (0, 0, 0, 0) (up to 1.3e-06 allowed)
"""
ABOUT = """Every number, other than exact data, derived bounds and bits, that can change a verdict or a cause
(`thresholds.py`): what it decides, where it comes from, and how many of {count} answers change when just that
number is halved or doubled (`make thresholds`: {cases} injected and fault-free cases, {rest} transforms, logs and
profiles). A change is another verdict or another cause; in brackets, fault-free results that become `downgrade` or
`wrong`."""
Answer = tuple[str, str]


def explain_injected(mechanism: str, text: str, seed: int) -> Answer | None:
    with contextlib.suppress(Skip):
        found = samebits.explain(make_case(mechanism, text, seed).case)
        return found.verdict, str(found.cause)
    return None


def explain_transform(zeros: int) -> Answer:
    """A correlation through numpy.fft in single precision, a rectangle of its input being zero."""
    problem = parse_problem_text(LAYER)
    operands = make_normal(problem, SEED)
    operands["x"][:, :, :zeros, :zeros] = 0
    padded = np.pad(operands["x"], ((0, 0), (0, 0), (1, 1), (1, 1)))
    size = padded.shape[2:]
    taps = np.zeros((*operands["w"].shape[:2], *size), np.float32)
    taps[:, :, :3, :3] = operands["w"][:, :, ::-1, ::-1]
    spectrum = np.einsum("ncij,ocij->noij", np.fft.rfft2(padded), np.fft.rfft2(taps)).astype(np.complex64)
    result = np.ascontiguousarray(np.fft.irfft2(spectrum, size).astype(np.float32)[:, :, 2:, 2:])
    found = samebits.explain(Case(problem, operands, {"a": result}))
    return found.verdict, str(found.cause)


def explain_log(text: str) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.txt")
        path.write_text(text)
        found = samebits.explain(path)
    return found.verdict, str(found.cause)


def find_recipe(text: str) -> Answer:
    found = search_recipe(ProbeSession(Emulator(parse_recipe(text)), parse_problem_text(LAYER)))
    family = found.family.family if found.family else "unknown"
    return family, format_recipe(found.recipe).split()[0] if found.recipe else "none"


def list_questions() -> list[tuple[str, Callable[..., Answer | None], tuple[object, ...]]]:
    """Name, function and arguments of everything that is asked; fault-free ones are named so."""
    asked: list[tuple[str, Callable[..., Answer | None], tuple[object, ...]]] = []
    for text in PROBLEMS[::EVERY]:
        asked += [(mechanism, explain_injected, (mechanism, text, SEED)) for mechanism in MECHANISMS]
        asked += [(FAULT_FREE, explain_injected, (FAULT_FREE, text, SEED + n)) for n in range(10)]
    asked += [(FAULT_FREE, explain_transform, (zeros,)) for zeros in (0, 6, 12, 18)]
    asked.append(("log", explain_log, ((ROOT / "examples" / "xla_mismatch.log").read_text(),)))
    for largest in (1e-6, 1e-4, 1e-3, 1e-2):
        asked.append(("log", explain_log, (STATISTICS.format(problem=LAYER, largest=largest),)))
    return [*asked, *(("profile", find_recipe, (text,)) for text in TRANSFORMS)]


def ask_all(change: tuple[str, float]) -> list[Answer | None]:
    """All answers with one threshold changed."""
    name, factor = change
    if name:
        setattr(thresholds, name, getattr(thresholds, name) * factor)
    try:
        return [ask(*arguments) for _, ask, arguments in list_questions()]
    finally:
        if name:
            setattr(thresholds, name, getattr(thresholds, name) / factor)


def count_changes(usual: list[Answer | None], changed: list[Answer | None], names: list[str]) -> str:
    differing = [(n, b) for n, a, b in zip(names, usual, changed, strict=True) if a != b]
    alarms = sum(n == FAULT_FREE and b is not None and b[0] in ("downgrade", "wrong") for n, b in differing)
    return f"{len(differing)}" + (f" ({alarms})" if alarms else "")


def format_row(threshold: Threshold, at_half: str, at_twice: str) -> str:
    return (
        f"| `{threshold.name}` | {threshold.value:g} | {threshold.decides} | {threshold.derivation} |"
        f" {at_half} | {at_twice} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    changes = [("", 1.0), *((t.name, factor) for t in TABLE for factor in (0.5, 2.0))]
    answers: list[list[Answer | None]] = []
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        for change, given in zip(changes, pool.map(ask_all, changes), strict=True):
            answers.append(given)
            print(f"{change[0] or 'as they are'} x {change[1]:g}", file=sys.stderr)
    names = [name for name, _, _ in list_questions()]
    kept = [i for i, answer in enumerate(answers[0]) if answer is not None]
    usual = answers[0]
    rows = ["| threshold | value | decides | derivation | at half | at twice |", "|---|---|---|---|---|---|"]
    for number, threshold in enumerate(TABLE):
        half, twice = (count_changes(usual, answers[1 + 2 * number + n], names) for n in (0, 1))
        rows.append(format_row(threshold, half, twice))
    cases = sum(names[i] not in ("log", "profile") for i in kept) - 4
    table = "\n".join(rows)
    print(table)
    if options.write:
        about = ABOUT.format(count=len(kept), cases=cases, rest=len(kept) - cases)
        write_page(options.write, "Thresholds", about, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
