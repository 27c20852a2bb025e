"""Logs of other tools that tell of a mismatch."""

from samebits.logs.entry import PROBLEM_LINE, Metrics, Mismatch
from samebits.logs.log_reading import parse_log, read_log

__all__ = ["PROBLEM_LINE", "Metrics", "Mismatch", "parse_log", "read_log"]
