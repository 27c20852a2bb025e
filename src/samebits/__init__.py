"""samebits: two convolutions disagree; which is right, does it matter and what causes it.

Everything public is loaded on first use, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from samebits.version import VERSION

# Type checkers take it for true. Importing it from typing takes most of the time before the command can say anything.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from samebits.errors import (
        ArgumentError,
        CaseFileError,
        EngineFailure,
        EngineMissingError,
        FindingError,
        GuardBreachError,
        LockError,
        LogError,
        ModelError,
        OperandError,
        ProblemShapeError,
        ProblemTextError,
        RecipeError,
        ReproducibilityError,
        ResourceLimitError,
        RunnerTextError,
        SamebitsError,
        SealError,
        TraceError,
    )
    from samebits.problems import Problem, parse_problem_text
    from samebits.problems.case_file import Case, load_case, save_case
    from samebits.questions.compare.front_door import compare
    from samebits.questions.compare.version_search import compare_versions
    from samebits.questions.explain.explaining import explain
    from samebits.questions.pick.picking import pick
    from samebits.questions.profile.profiling import profile
    from samebits.questions.reduce.reducing import reduce
    from samebits.questions.report.any_finding import load
    from samebits.questions.runs.reproducing import reproducible
    from samebits.questions.runs.run_diff import diff
    from samebits.questions.runs.tracing import trace
    from samebits.questions.seal.checking import check
    from samebits.questions.seal.running import run
    from samebits.questions.seal.sealing import seal
    from samebits.questions.sweep.sweeping import sweep
    from samebits.sums.truth import Truth, compute_truth
    from samebits.sums.truth.functional import (
        attention,
        conv1d,
        conv2d,
        conv3d,
        conv_transpose1d,
        conv_transpose2d,
        conv_transpose3d,
        linear,
        matmul,
    )

__version__ = VERSION
__all__ = [
    "ArgumentError",
    "Case",
    "CaseFileError",
    "EngineFailure",
    "EngineMissingError",
    "FindingError",
    "GuardBreachError",
    "LockError",
    "LogError",
    "ModelError",
    "OperandError",
    "Problem",
    "ProblemShapeError",
    "ProblemTextError",
    "RecipeError",
    "ReproducibilityError",
    "ResourceLimitError",
    "RunnerTextError",
    "SamebitsError",
    "SealError",
    "TraceError",
    "Truth",
    "attention",
    "check",
    "compare",
    "compare_versions",
    "compute_truth",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "diff",
    "explain",
    "linear",
    "load",
    "load_case",
    "matmul",
    "parse_problem_text",
    "pick",
    "profile",
    "reduce",
    "reproducible",
    "run",
    "save_case",
    "seal",
    "sweep",
    "trace",
]

_FUNCTIONAL = {
    name: "samebits.sums.truth.functional"
    for name in __all__
    if name.startswith("conv") or name in ("attention", "linear", "matmul")
}
_ERRORS = {name: "samebits.errors" for name in __all__ if name.endswith(("Error", "Failure"))}
_HOMES = (
    _FUNCTIONAL
    | _ERRORS
    | {
        "Case": "samebits.problems.case_file",
        "load_case": "samebits.problems.case_file",
        "save_case": "samebits.problems.case_file",
        "Problem": "samebits.problems",
        "parse_problem_text": "samebits.problems",
        "Truth": "samebits.sums.truth",
        "compute_truth": "samebits.sums.truth",
        "compare": "samebits.questions.compare.front_door",
        "compare_versions": "samebits.questions.compare.version_search",
        "explain": "samebits.questions.explain.explaining",
        "pick": "samebits.questions.pick.picking",
        "profile": "samebits.questions.profile.profiling",
        "diff": "samebits.questions.runs.run_diff",
        "load": "samebits.questions.report.any_finding",
        "reduce": "samebits.questions.reduce.reducing",
        "check": "samebits.questions.seal.checking",
        "run": "samebits.questions.seal.running",
        "seal": "samebits.questions.seal.sealing",
        "sweep": "samebits.questions.sweep.sweeping",
        "trace": "samebits.questions.runs.tracing",
        "reproducible": "samebits.questions.runs.reproducing",
    }
)
# Modules with functions of their own.
_PARTS = ("engine", "errors", "testing", "torch")
# Functions that return findings, which notebooks show as pages.
_FINDERS = ("check", "compare", "explain", "load", "pick", "profile", "diff", "run", "seal", "sweep", "reduce")


def __getattr__(name: str) -> Any:
    import importlib

    if name in _PARTS:
        return importlib.import_module(f"samebits.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'samebits' has no attribute {name!r}")
    if name in _FINDERS:
        importlib.import_module("samebits.questions.report.rendering").show_everywhere()
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__", "__doc__"})
