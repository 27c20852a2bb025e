"""Recorded results and logs: what made them, found among hypotheses, without any engine."""

from samebits.questions.explain.explaining import explain

__all__ = ["explain"]
