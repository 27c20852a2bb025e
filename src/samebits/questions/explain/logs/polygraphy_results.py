"""Polygraphy's saved results (`--save-outputs`, `--save-results`): whole outputs of several runners, compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from samebits.errors import CaseFileError, LogError
from samebits.problems.polygraphy_files import Outputs, list_runs
from samebits.questions.explain.logs.entry import LONGEST_NAME, Metrics, Mismatch, name_sides

_MOST_OUTPUTS = 4096


def read_results(data: bytes, name: str) -> list[Mismatch]:
    """Every output in which two runners differ, or that cannot be compared: the first runner against each other.

    Raises LogError in one line for a file without two runners' outputs, and where all values are the same.
    """
    try:
        runners = list_runs(data, name)
    except CaseFileError as error:
        raise LogError(str(error)) from None
    if len(runners) < 2:
        raise LogError(
            f"{name} holds {'no results' if not runners else 'the results of one runner only'}; save those of two:"
            " polygraphy run MODEL --onnxrt --trt --save-outputs FILE"
        )
    (first, ours), *others = runners
    found: list[Mismatch] = []
    for other, theirs in others:
        names = name_sides(first, other)
        every = list(dict.fromkeys([*ours, *theirs]))
        for output in every[:_MOST_OUTPUTS]:
            found += _compare(output[:LONGEST_NAME], names, ours.get(output), theirs.get(output))
        if len(every) > _MOST_OUTPUTS:
            found.append(_refuse(names, f"outputs beyond the first {_MOST_OUTPUTS:,} are not compared"))
    if found and not _share_any(ours, [theirs for _, theirs in others]):
        raise LogError(f"{name}: none of its outputs can be compared: {found[0].trouble}")
    if not found:
        raise LogError(f"{name}: all {len(runners)} runners have the same values in all {len(ours):,} outputs")
    return found


def _share_any(ours: Outputs, others: Sequence[Outputs]) -> bool:
    """Whether any output was read on both sides."""
    return any(ours.get(output) is not None for theirs in others for output, a in theirs.items() if a is not None)


def _refuse(names: tuple[str, str], why: str) -> Mismatch:
    return Mismatch("polygraphy", 1, names=names, trouble=why)


def _compare(
    output: str, names: tuple[str, str], first: np.ndarray | None, second: np.ndarray | None
) -> Iterator[Mismatch]:
    """The output's mismatch, unless both have the same values."""
    if first is None or second is None:
        why = "is not there on both sides, or holds nothing that can be read as real numbers"
        yield _refuse(names, f"output {output} {why}")
        return
    if first.shape != second.shape:
        shapes = f"has shape {list(first.shape)} on one side and {list(second.shape)} on the other"
        yield _refuse(names, f"output {output} {shapes}")
        return
    a, b = first.ravel(), second.ravel()
    # Integers of 64 bits are compared as what they are, next to floats too.
    wide = a.dtype if a.dtype == b.dtype else np.dtype(np.longdouble)
    differing = (a.astype(wide) != b.astype(wide)) & ~(np.isnan(a) & np.isnan(b))
    if not differing.any():
        return
    with np.errstate(invalid="ignore", over="ignore"):
        a, b = a.astype(np.float64), b.astype(np.float64)
        away = np.abs(a - b)
    known = np.isfinite(away)
    metrics = Metrics(
        mismatched=int(differing.sum()),
        elements=a.size,
        max_abs=float(away.max(initial=0.0)) if known.all() else math.nan,
        mean_abs=float(away[known].mean()) if known.any() else None,
        largest_value=float(np.abs(np.concatenate([a[known], b[known]])).max(initial=0.0)) or None,
    )
    yield Mismatch("polygraphy", 1, names=names, facts={"output": output}, metrics=metrics, outputs=(a, b))
