"""Logs of other tools that tell of a mismatch."""

from samebits.questions.explain.logs.entry import PLACE, PROBLEM_LINE, Metrics, Mismatch
from samebits.questions.explain.logs.log_reading import STANDARD_INPUT, parse_log, read_log, read_log_text

__all__ = ["PLACE", "PROBLEM_LINE", "STANDARD_INPUT", "Metrics", "Mismatch", "parse_log", "read_log", "read_log_text"]
