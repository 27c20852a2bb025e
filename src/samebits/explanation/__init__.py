"""Recorded results and logs: what made them, found among hypotheses, without any engine."""

from samebits.explanation.explaining import explain

__all__ = ["explain"]
