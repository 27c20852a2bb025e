"""Runners by their texts, opened when they are needed; those that waited longest are closed where there are many."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Identity, Runner
from samebits.sums.tiles.memory import count_available_bytes

_FEWEST, _MOST, _EACH_BYTES = 6, 16, 2**30


class OpenRunners:
    """Closes what it opened; objects that were given stay their owner's."""

    def __init__(self, given: Sequence[Runner], time_limit_s: float):
        self._given = {runner.text: runner for runner in given}
        self._time_limit_s = time_limit_s
        self._open: dict[tuple[str, int], Runner] = {}
        self._most = int(min(max(count_available_bytes() / 2 // _EACH_BYTES, _FEWEST), _MOST))

    def find(self, text: str) -> Runner:
        """The runner of a text. Raises SamebitsError where none can be opened."""
        return self._given.get(text) or self._find(text, 1)

    def find_second(self, text: str) -> Runner | None:
        """Another process of the same text; None of an object that was given. Raises SamebitsError."""
        return None if text in self._given else self._find(text, 2)

    def _find(self, text: str, number: int) -> Runner:
        runner = self._open.pop((text, number), None)
        if runner is None:
            while len(self._open) >= self._most:
                self._open.pop(next(iter(self._open))).close()
            runner = open_runner(text, time_limit_s=self._time_limit_s)
        self._open[text, number] = runner
        return runner

    def is_open(self, text: str) -> bool:
        """Whether a text's process has begun; an object that was given always has."""
        return text in self._given or (text, 1) in self._open

    def identify_given(self, text: str) -> Identity | None:
        """What an object that was given says of itself; None for a text. Raises EngineFailure."""
        return self._given[text].identify() if text in self._given else None

    def drop(self, text: str) -> None:
        """Closes the runners of a text that are open."""
        for number in (1, 2):
            runner = self._open.pop((text, number), None)
            if runner is not None:
                runner.close()

    def close(self) -> None:
        """Closes all."""
        for text, _ in list(self._open):
            self.drop(text)
