"""The findings of a logged mismatch: its sides and the document around them."""

from __future__ import annotations

import math

from samebits.findings import Certainty, Comparison, Evidence, Replay, Side, Verdict
from samebits.findings.causes import CauseCode
from samebits.findings.settings_advice import advise
from samebits.mechanisms.facts.hypothesis import Hypothesis
from samebits.problems import format_problem
from samebits.questions.explain.log_sentences import say_oddities
from samebits.questions.explain.logs import Mismatch
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
        summary=summary,
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


def _name_engines(mismatch: Mismatch, sides: list[Side]) -> list[str]:
    """Who computed what deviates: the tool says it for XLA's algorithms, else the sides' names may."""
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
