"""What was asked of a network, and everything that judging it found, before it is put into words."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.engines.runner import Identity
from samebits.findings import Failure, is_agreement
from samebits.networks.model_judging import JudgedUnit, ModelJudge
from samebits.networks.model_runners import ModelRunner
from samebits.networks.network import Network
from samebits.networks.observing import Observer


@dataclass
class Asked:
    """One side of a comparison: its runner, and what came of opening it."""

    name: str
    runner: ModelRunner
    observer: Observer | None = None
    identity: Identity | None = None
    failure: Failure | None = None
    replayed: int | None = None
    exact: tuple[int, int] | None = None


@dataclass(frozen=True)
class Outcome:
    """Everything that judging a network found, before it is put into words."""

    network: Network
    asked: list[Asked]
    judged: list[JudgedUnit]
    judge: ModelJudge | None = None

    def list_deviating(self, side: str) -> list[JudgedUnit]:
        """The units where one side is neither right nor within rounding, in sequence."""
        return [u for u in self.judged if side in u.sides and not is_agreement(u.sides[side].verdict)]

    def find_first(self) -> JudgedUnit | None:
        """The first unit that deviates on some side; without any, the first whose bits differ."""
        deviating = next((u for u in self.judged if u.deviates), None)
        return deviating or next((u for u in self.judged if u.differing), None)
