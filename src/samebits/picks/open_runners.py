"""Runners by their texts, opened when they are needed; those that waited longest are closed where there are many."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.contraction.memory import count_available_bytes
from samebits.registry import open_runner
from samebits.runner import Identity, Runner

_FEWEST, _MOST, _EACH_BYTES = 6, 16, 2**30


class OpenRunners:
    """Closes what it opened; objects that were given stay their owner's."""

    def __init__(self, given: Sequence[Runner], time_limit_s: float):
        self._given = {runner.text: runner for runner in given}
        self._time_limit_s = time_limit_s
        self._open: dict[str, Runner] = {}
        self._most = int(min(max(count_available_bytes() / 2 // _EACH_BYTES, _FEWEST), _MOST))

    def find(self, text: str) -> Runner:
        """The runner of a text. Raises SamebitsError where none can be opened."""
        if text in self._given:
            return self._given[text]
        runner = self._open.pop(text, None)
        if runner is None:
            while len(self._open) >= self._most:
                self._open.pop(next(iter(self._open))).close()
            runner = self.open_another(text)
        self._open[text] = runner
        return runner

    def open_another(self, text: str) -> Runner:
        """One more of a text, for the caller to close; of an object that was given the object itself."""
        return self._given.get(text) or open_runner(text, time_limit_s=self._time_limit_s)

    def identify_given(self, text: str) -> Identity | None:
        """What an object that was given says of itself; None for a text. Raises EngineFailure."""
        return self._given[text].identify() if text in self._given else None

    def drop(self, text: str) -> None:
        """Closes the runner of a text, if it is open."""
        runner = self._open.pop(text, None)
        if runner is not None:
            runner.close()

    def close(self) -> None:
        """Closes all."""
        for text in list(self._open):
            self.drop(text)
