"""A runner from its text."""

from samebits.registry.own_runners import Emulator, TruthRunner
from samebits.registry.runner_text import TRUTH, RunnerText, format_runner_text, parse_runner_text
from samebits.registry.runners import open_runner
from samebits.registry.texts_of_files import refuse_text_of_file

__all__ = [
    "TRUTH",
    "Emulator",
    "RunnerText",
    "TruthRunner",
    "format_runner_text",
    "open_runner",
    "parse_runner_text",
    "refuse_text_of_file",
]
