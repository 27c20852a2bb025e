"""Engines that a person names, opened once to hear what they say of themselves."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.engines.registry.runners import open_runner
from samebits.errors import RunnerTextError, SamebitsError
from samebits.progress import Progress, ignore_progress
from samebits.questions.doctor.inventory_schema import AskedEngine


def ask_engines(texts: Sequence[str], time_limit_s: float, progress: Progress = ignore_progress) -> list[AskedEngine]:
    """What each engine says of itself, or why it does not. Raises RunnerTextError for a text that names none."""
    found: list[AskedEngine] = []
    for i, text in enumerate(texts):
        progress(f"asking {text}", i / len(texts))
        try:
            runner = open_runner(text, time_limit_s=time_limit_s)
            try:
                identity = runner.identify()
            finally:
                runner.close()
        except RunnerTextError:
            raise
        except SamebitsError as error:
            found.append(AskedEngine(text=text, failure=str(error)))
        else:
            found.append(
                AskedEngine(text=text, version=identity.version, device=identity.device, settings=identity.settings)
            )
    return found
