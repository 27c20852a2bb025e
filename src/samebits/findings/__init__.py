"""Frozen, versioned values from which everything a person sees is made."""

from samebits.findings.causes import AGREEING, VERDICTS, Verdict, is_agreement, worst_verdict
from samebits.findings.comparison_schema import (
    Certainty,
    Comparison,
    Difference,
    Error,
    ErrorPicture,
    Evidence,
    ExactData,
    Failure,
    Fix,
    Replay,
    Side,
    Varying,
    WorstElement,
)
from samebits.findings.json_text import finding_from_json, json_from_finding

__all__ = [
    "AGREEING",
    "VERDICTS",
    "Certainty",
    "Comparison",
    "Difference",
    "Error",
    "ErrorPicture",
    "Evidence",
    "ExactData",
    "Failure",
    "Fix",
    "Replay",
    "Side",
    "Varying",
    "Verdict",
    "WorstElement",
    "finding_from_json",
    "is_agreement",
    "json_from_finding",
    "worst_verdict",
]
