"""The findings of a logged mismatch: its sides and the document around them."""

from __future__ import annotations

import math

from samebits.findings import Certainty, Comparison, Evidence, Replay, Side, Verdict
from samebits.findings.causes import CauseCode
from samebits.findings.settings_advice import advise
from samebits.mechanisms.facts.observation import Hypothesis
from samebits.problems import format_problem
from samebits.questions.explain.log_sentences import say_allowed, say_oddities
from samebits.questions.explain.logs import PLACE, Mismatch
from samebits.questions.explain.logs.tensorrt import WEIGHTS
from samebits.sums.recipes.recipe_text import format_recipe
from samebits.version import VERSION

UNKNOWN = "(the log names no problem)"
RECORD = (
    "cannot tell; to find out, store operands and both results in a case file (problem, x, w, a, b) and run samebits"
    " explain CASE"
)

NAME_IT = "put a line with its problem into the log to be told more (conv2d x=1x64x56x56 w=64x64x3x3 padding=1)"


def describe_mismatch(
    mismatch: Mismatch,
    verdict: Verdict,
    summary: str,
    sides: list[Side],
    data: str,
    cause: CauseCode | None = None,
) -> Comparison:
    """The document of one mismatch; `data` says how operands were rebuilt."""
    problem = mismatch.problem
    return Comparison(
        problem=format_problem(problem) if problem else UNKNOWN,
        verdict=verdict,
        cause=cause,
        summary=_say_which(mismatch, summary),
        data=data,
        outputs=math.prod(problem.out_shape) if problem else 0,
        reduction_length=problem.reduction_length if problem else 0,
        settled={},
        sides=sides,
        differences=[],
        evidence=[Evidence("statistic", said) for said in say_oddities(mismatch)],
        fixes=advise([cause], names=_name_engines(mismatch, sides)) if cause else [],
        line=mismatch.line,
        samebits_version=VERSION,
    )


def _say_which(mismatch: Mismatch, summary: str) -> str:
    """The summary, with the output, or the part of it, that the log names."""
    if mismatch.outputs is not None:
        return summary
    output = mismatch.facts.get("output")
    named = f"Output {output}" if output else mismatch.facts.get(PLACE, "")
    return f"{named}: {summary}" if named else summary


def _name_engines(mismatch: Mismatch, sides: list[Side]) -> list[str]:
    """The engines of the deviating sides: XLA for its own logs, else what the sides' names say."""
    if mismatch.tool == "xla":
        return ["xla"]
    return [s.name for s in sides if s.cause is not None]


def describe_logged_side(
    name: str,
    verdict: Verdict,
    evidence: list[Evidence],
    *,
    says: str | None = None,
    cause: CauseCode | None = None,
    hypothesis: Hypothesis | None = None,
    certainty: Certainty = "statistics",
    replay: Replay | None = None,
) -> Side:
    """A side of a log; what is said of it is inferred, unless `certainty` says otherwise."""
    return Side(
        name=name,
        engine=None,
        verdict=verdict,
        cause=cause,
        says=says,
        certainty="open" if verdict == "undecided" else certainty,
        cause_certainty=certainty if cause else None,
        recipe=format_recipe(hypothesis.recipe) if hypothesis and hypothesis.recipe else None,
        evidence=evidence,
        replay=replay,
    )


def explain_build(mismatch: Mismatch) -> Comparison:
    """Reports the formats that TensorRT may compute in, as its build says, and whether weights were converted."""
    says = say_allowed(mismatch)
    cause = CauseCode.REDUCED_PRECISION_OPERANDS if mismatch.computes_in or WEIGHTS in mismatch.facts else None
    evidence = [Evidence("setting", f"line {mismatch.line}: {says}"), Evidence("statistic", RECORD)]
    name = f"TensorRT {mismatch.implementation}".strip()
    side = describe_logged_side(name, "undecided", evidence, says=says, cause=cause)
    return describe_mismatch(mismatch, "undecided", f"{name} {says}.", [side], "none in the log", cause)


def explain_settings(mismatch: Mismatch) -> Comparison:
    """Reports what a oneDNN verbose line says of the arithmetic that ran."""
    source, weights, result = mismatch.computes_in
    algorithm = mismatch.facts.get("algorithm", "")
    name = f"oneDNN {mismatch.implementation}"
    says = f"reads {source or '?'} and {weights or '?'}, writes {result or '?'}"
    says += f", {algorithm}" if algorithm else ""
    verdict: Verdict = "undecided"
    cause: CauseCode | None = None
    narrow = [f for f in (source, weights) if f in ("float16", "bfloat16")]
    if (narrow and result == "float32") or mismatch.facts.get("fpmath", "strict") != "strict":
        verdict, cause = "downgrade", CauseCode.REDUCED_PRECISION_OPERANDS
    elif "wino" in algorithm or "wino" in mismatch.implementation:
        cause = CauseCode.WINOGRAD
    evidence = [Evidence("setting", f"line {mismatch.line}: {says}")]
    if mismatch.trouble:
        evidence.append(Evidence("setting", f"cannot read its problem: {mismatch.trouble}"))
    if verdict == "undecided":
        evidence.append(Evidence("statistic", RECORD))
    loses = ": it multiplies numbers rounded to less than its result holds" if verdict == "downgrade" else ""
    side = describe_logged_side(name, verdict, evidence, says=says, cause=cause)
    return describe_mismatch(mismatch, verdict, f"{name} {says}{loses}.", [side], "none in the log", cause)
