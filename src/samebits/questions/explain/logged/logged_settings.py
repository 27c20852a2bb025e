"""Lines that say which implementation ran, in which formats: a setting, not a measurement."""

from __future__ import annotations

from samebits.findings import Comparison, Evidence, Verdict
from samebits.findings.causes import CauseCode
from samebits.questions.explain.log_sentences import say_allowed
from samebits.questions.explain.logged.logged_sides import RECORD, describe_logged_side, describe_mismatch
from samebits.questions.explain.logs import Mismatch
from samebits.questions.explain.logs.tensorrt import WEIGHTS


def explain_build(mismatch: Mismatch) -> Comparison:
    """What TensorRT may compute in, as its build says; and whether weights were converted."""
    says = say_allowed(mismatch)
    cause = CauseCode.REDUCED_PRECISION_OPERANDS if mismatch.computes_in or WEIGHTS in mismatch.facts else None
    evidence = [Evidence("setting", f"line {mismatch.line}: {says}"), Evidence("statistic", RECORD)]
    name = f"TensorRT {mismatch.implementation}".strip()
    side = describe_logged_side(name, "undecided", evidence, says=says, cause=cause)
    return describe_mismatch(mismatch, "undecided", f"{name} {says}.", [side], "none in the log", cause)


def explain_settings(mismatch: Mismatch) -> Comparison:
    """What a oneDNN verbose line says of the arithmetic that ran."""
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
