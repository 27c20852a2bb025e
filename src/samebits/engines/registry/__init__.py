"""A runner from its text."""

from samebits.engines.registry.own_runners import Emulator, TruthRunner
from samebits.engines.registry.runner_text import TRUTH, RunnerText, format_runner_text, parse_runner_text
from samebits.engines.registry.runners import open_runner
from samebits.engines.registry.texts_of_files import refuse_text_of_file

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
