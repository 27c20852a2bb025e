"""One `compare` for all subjects: a problem, a case, or a whole network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samebits.engines.runner import Kernel, Runner
from samebits.engines.runner.guarded_runner import list_runners
from samebits.errors import ArgumentError
from samebits.findings import Comparison
from samebits.findings.model_schema import ModelComparison
from samebits.networks.model_comparing import compare_model
from samebits.networks.model_runners import ModelRunner
from samebits.networks.model_subject import is_model
from samebits.networks.network import Network
from samebits.problems import Problem
from samebits.problems.any_problem import Formula
from samebits.problems.case_file import Case
from samebits.problems.integer_problem import is_integer_problem
from samebits.progress import Progress, ignore_progress
from samebits.questions.compare import comparing
from samebits.questions.compare.code_case import compare_codes
from samebits.questions.comparing_arguments import Data
from samebits.questions.formula_comparing import compare_formula
from samebits.questions.given_formula import FormulaCase, read_formula
from samebits.questions.given_operands import is_code_case
from samebits.questions.network.recorded_files import read_inputs, read_recorded


def compare(
    subject: str | Path | Problem | Case | Network | Formula | FormulaCase,
    on: str | Runner | Kernel | Sequence[str | ModelRunner | Runner | Kernel] = (),
    *,
    data: Data = "normal",
    seed: int = 0,
    time_limit_s: float = 300.0,
    attributes: bool = True,
    fix: bool = False,
    calls: int | None = None,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    sizes: Mapping[str, tuple[int, ...]] | None = None,
    replay: bool = False,
    save_cases: str | Path | None = None,
    against: str | Path | None = None,
    recorded: Mapping[str, str | Path | Mapping[str, np.ndarray]] | None = None,
    progress: Progress = ignore_progress,
) -> Comparison | ModelComparison:
    """Runs a problem, a case, or a network on every runner in `on`, and judges each result against the truth.

    `subject` is a problem, its text (ours, XLA HLO, benchdnn ...) or a case (file): see `comparing.compare`, which
    takes `data`. Or an attention ("attention q=1x8x128x64 k=1x2x128x64 causal"), a function of rows ("layernorm
    x=8x768 weight bias"), a problem on integers (`dtype=uint8 weights=int8`), or a network: an .onnx file, a .pt2
    exported program, `file.py:function`: see `models.compare_model`, which takes `inputs`, `ranges`, `sizes`,
    `replay`, `save_cases`, `against` and `recorded` (by side, a file or arrays by name) and returns a
    ModelComparison. Raises SamebitsError for a subject, a runner's text or an option that cannot be dealt with.
    `calls`: how often each runner is called on the same operands, or runs the network, to see whether its bits repeat.

    >>> import samebits
    >>> found = samebits.compare("matmul x=3x8 w=8x4", ["numpy", "emulate:direct acc=float16"])
    >>> [side.verdict for side in found.sides]
    ['rounding', 'downgrade']
    """
    on = list_runners(on)
    common: dict[str, Any] = {
        "seed": seed, "time_limit_s": time_limit_s, "attributes": attributes, "fix": fix, "calls": calls,
        "progress": progress,
    }  # fmt: skip
    formula = read_formula(subject)
    if isinstance(subject, (str, Path, Network)) and (is_model(subject) or is_integer_problem(subject)):
        if data != "normal":
            raise ArgumentError("a network takes `inputs` or `ranges`, not `data`")
        return compare_model(
            subject,
            on,
            inputs=read_inputs(str(inputs)) if isinstance(inputs, (str, Path)) else inputs,
            ranges=ranges,
            sizes=sizes,
            replay=replay,
            save_cases=save_cases,
            against=against,
            recorded=read_recorded(recorded or {}),
            **common,
        )
    if inputs is not None or ranges or sizes or replay or save_cases is not None or against is not None or recorded:
        raise ArgumentError("inputs, ranges, sizes, replay, save_cases, against and recorded are for networks")
    if formula is not None:
        return compare_formula(formula, on, data=data, **common)
    if is_code_case(subject):
        if data != "normal" or fix:
            raise ArgumentError("a case of codes has its operands; nothing is tried for it: no `data`, no `fix`")
        return compare_codes(subject, on, time_limit_s=time_limit_s, calls=calls, progress=progress)  # type: ignore[arg-type]  (a path)
    return comparing.compare(subject, on, data=data, **common)  # type: ignore[arg-type]  (no network is left)
