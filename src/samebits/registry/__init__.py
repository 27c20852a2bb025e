"""A runner from its text."""

from samebits.registry.runner_text import RunnerText, format_runner_text, parse_runner_text
from samebits.registry.runners import TruthRunner, open_runner

__all__ = ["RunnerText", "TruthRunner", "format_runner_text", "open_runner", "parse_runner_text"]
