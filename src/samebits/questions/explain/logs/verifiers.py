"""Failures of libraries' own verifiers and tests: MIOpenDriver, benchdnn, Optimum, googletest, NumPy's ulp asserts.

Each prints what it measures in its own way: MIOpen the root mean square of all differences in shares of the largest
value, benchdnn pairs of small integers, Optimum the largest difference of every output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from samebits.errors import SamebitsError
from samebits.problems import Problem
from samebits.problems.languages.any_language import read_problem
from samebits.questions.explain.logs.entry import DIRECTION, Metrics, Mismatch, name_sides
from samebits.questions.explain.logs.metrics import NUMBER

_MIOPEN = re.compile(
    rf"\b(Forward|Backward) (?:Convolution|Conv)(?: (Data|Weights))? failed: ({NUMBER})(?: > ({NUMBER}))?+",
    re.IGNORECASE,
)
_SOLUTION = re.compile(r"\bSolution: \d{1,9}/(\S{1,80})")
_DIRECTIONS = {"": "forward", "data": "grad_input", "weights": "grad_weight"}

_BENCHDNN = re.compile(r"\b\d{1,9}:FAILED \(errors:(\d{1,18}) total:(\d{1,18})\).{0,80}?__REPRO: (.+)")
# Older versions say fp and dt for what newer ones call exp and got.
_BENCHDNN_PAIR = re.compile(
    rf"\[ {{0,20}}(\d{{1,18}})\]\[.{{1,120}}?\b(?:exp|fp0?): {{0,20}}({NUMBER}) {{1,20}}(?:got|dt): {{0,20}}({NUMBER})"
)
_MOST_PAIRS = 4096

_OPTIMUM = re.compile(rf"^\W{{0,8}}([\w./:-]{{1,80}}): max diff = ({NUMBER})")
_OPTIMUM_ALLOWED = re.compile(rf"not within the set tolerance ({NUMBER})")
_NEAR = re.compile(
    rf"The difference between (\S.{{0,80}}?) and (\S.{{0,80}}?) is ({NUMBER}), which exceeds ({NUMBER})?+"
)
_NEAR_VALUE = re.compile(rf"evaluates to ({NUMBER})")
_ULP = re.compile(
    rf"Arrays are not (?:almost equal up|equal) to ({NUMBER}) ULP \(max (?:difference )?is ({NUMBER}) ?(?:ULP)?\)"
)
# Optimum's and transformers' own lines, one an output, or one in all.
_NOT_CLOSE = re.compile(rf"values not close enough(?:, max diff: ({NUMBER}))?+ \(atol: ({NUMBER})\)")
_GOT = re.compile(rf"Got (?:\(\w\) )?max absolute difference of: ({NUMBER})")


def read_verifiers(lines: Sequence[str]) -> list[Mismatch]:
    """Every failed verification, in the log's sequence."""
    found = [*_read_miopen(lines), *_read_benchdnn(lines), *_read_optimum(lines), *_read_near(lines)]
    return sorted([*found, *_read_ulp(lines)], key=lambda m: m.line)


def _read_miopen(lines: Sequence[str]) -> list[Mismatch]:
    found: list[Mismatch] = []
    solver = ""
    for number, line in enumerate(lines, 1):
        solution = _SOLUTION.search(line)
        solver = solution[1] if solution else solver
        failed = _MIOPEN.search(line)
        if failed:
            metrics = Metrics(rms_share=float(failed[3]), rtol=float(failed[4]) if failed[4] else None)
            names = name_sides(solver or "MIOpen's solver", "the CPU's reference")
            facts = {DIRECTION: _DIRECTIONS[(failed[2] or "").lower()]}
            found.append(Mismatch("verifier", number, names=names, metrics=metrics, facts=facts))
            solver = ""
    return found


def _read_benchdnn(lines: Sequence[str]) -> list[Mismatch]:
    found: list[Mismatch] = []
    pairs: list[tuple[int, float, float]] = []
    for number, line in enumerate(lines, 1):
        pair = _BENCHDNN_PAIR.search(line)
        if pair and len(pairs) < _MOST_PAIRS:
            pairs.append((int(pair[1]), float(pair[3]), float(pair[2])))
        failed = _BENCHDNN.search(line)
        if failed:
            problem, trouble = _read_reproducer(failed[3])
            metrics = Metrics(mismatched=int(failed[1]), elements=int(failed[2]))
            found.append(
                Mismatch(
                    "benchdnn",
                    number,
                    problem,
                    ("oneDNN", "benchdnn's reference"),
                    tuple(pairs),
                    metrics,
                    trouble=trouble,
                    has_reference=True,
                )
            )
            pairs = []
    if pairs:
        names = ("oneDNN", "benchdnn's reference")
        found.append(Mismatch("benchdnn", len(lines), None, names, tuple(pairs), has_reference=True))
    return found


# What has a problem here: benchdnn also tests pooling, element-wise functions, reorders ...
_REBUILT = ("conv", "deconv", "matmul")
_DRIVER = re.compile(r"^\s{0,8}--(\w{1,40})")


def _read_reproducer(text: str) -> tuple[Problem | None, str]:
    driver = _DRIVER.match(text)
    if driver and driver[1] not in _REBUILT:
        return None, f"operands of benchdnn's --{driver[1]} are not rebuilt, those of --conv, --deconv and --matmul are"
    try:
        return read_problem(text.strip()), ""
    except SamebitsError as error:
        return None, str(error)


def _read_optimum(lines: Sequence[str]) -> list[Mismatch]:
    """Optimum's message names the tolerance first, then every output beyond it."""
    found: list[Mismatch] = []
    allowed = None
    for number, line in enumerate(lines, 1):
        tolerance = _OPTIMUM_ALLOWED.search(line)
        allowed = float(tolerance[1]) if tolerance else allowed
        output = _OPTIMUM.search(line)
        if output and allowed is not None:
            metrics = Metrics(max_abs=float(output[2]), atol=allowed)
            names = name_sides("the exported model", "the reference model")
            found.append(Mismatch("verifier", number, names=names, metrics=metrics, facts={"output": output[1]}))
    return found or _read_not_close(lines)


def _read_not_close(lines: Sequence[str]) -> list[Mismatch]:
    """The lines that stand for outputs while they are validated; the largest difference may come in the end."""
    found: list[Mismatch] = []
    names = name_sides("the exported model", "the reference model")
    for number, line in enumerate(lines, 1):
        if match := _NOT_CLOSE.search(line):
            metrics = Metrics(max_abs=float(match[1]) if match[1] else None, atol=float(match[2]))
            found.append(Mismatch("verifier", number, names=names, metrics=metrics))
        elif match := _GOT.search(line):
            largest = float(match[1])
            if found and found[-1].metrics and found[-1].metrics.max_abs is None:
                found[-1] = replace(found[-1], metrics=replace(found[-1].metrics, max_abs=largest))
            elif not found:
                found.append(Mismatch("verifier", number, names=names, metrics=Metrics(max_abs=largest)))
    return found


def _read_near(lines: Sequence[str]) -> list[Mismatch]:
    """EXPECT_NEAR of googletest, as ONNX Runtime's tests print it: equal places together."""
    pairs: list[tuple[int, float, float]] = []
    differences: list[float] = []
    first, allowed = 0, None
    for number, line in enumerate(lines, 1):
        near = _NEAR.search(line)
        if near is None:
            continue
        differences.append(float(near[3]))
        first = first or number
        allowed = float(near[4]) if near[4] else allowed
        values = [float(m[1]) for m in map(_NEAR_VALUE.search, lines[number : number + 2]) if m]
        if len(values) == 2:
            # Tests name what is expected first, as a rule; the names say so where it is otherwise.
            swapped = "expect" in near[2].lower() and "expect" not in near[1].lower()
            actual, expected = values if swapped else reversed(values)
            pairs.append((len(pairs), actual, expected))
    if not differences:
        return []
    largest = max((abs(v) for pair in pairs for v in pair[1:]), default=None)
    metrics = Metrics(mismatched=len(differences), max_abs=max(differences), atol=allowed, largest_value=largest)
    return [
        Mismatch("verifier", first, names=("actual", "expected"), metrics=metrics, pairs=tuple(pairs[:_MOST_PAIRS]))
    ]


def _read_ulp(lines: Sequence[str]) -> list[Mismatch]:
    found = ((number, _ULP.search(line)) for number, line in enumerate(lines, 1))
    return [
        Mismatch("verifier", number, names=("actual", "expected"), metrics=Metrics(max_ulp=float(m[2])))
        for number, m in found
        if m
    ]
