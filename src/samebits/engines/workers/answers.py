"""What a worker may answer: each kind of message as a value; an answer of another form is the engine's failure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

import msgspec

AnswerT = TypeVar("AnswerT", bound=msgspec.Struct)


class UnexpectedAnswer(ValueError):
    """An answer that has another form than the message it answers asks for."""


class Failed(msgspec.Struct, frozen=True):
    """Why a message could not be answered."""

    kind: str
    says: str


class Report(msgspec.Struct, frozen=True):
    """What an engine says of itself."""

    version: str
    device: str
    settings: dict[str, str]
    notes: list[str]


class Reported(msgspec.Struct, frozen=True):
    """The answer to the first message."""

    report: Report


class Timed(msgspec.Struct, frozen=True):
    """How long runs took, and which bits they had."""

    seconds: list[float]
    digests: list[str]
    peak_bytes: int | None

    def __post_init__(self) -> None:
        if not self.seconds or not self.digests or not all(0 <= s < math.inf for s in self.seconds):
            raise ValueError("no times, or times that are none")


class RanAgain(msgspec.Struct, frozen=True):
    """How many calls returned each of the arrays that came."""

    counts: list[int]

    def __post_init__(self) -> None:
        if not self.counts or min(self.counts) < 1:
            raise ValueError("no calls")


class SizeRun(msgspec.Struct, frozen=True):
    """One size of a sweep: its bits, or its failure (kind, what was said)."""

    digest: str = ""
    even: bool | None = None
    seconds: float = 0.0
    failure: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if self.failure is None and not self.digest:
            raise ValueError("neither bits nor a failure")


class SizesRun(msgspec.Struct, frozen=True):
    """All sizes that were asked for."""

    runs: list[SizeRun]


class ProgramValues(msgspec.Struct, frozen=True):
    """The values that an exported program lets one observe."""

    values: list[str]


class ExportedProgram(msgspec.Struct, frozen=True):
    """What is to be known of a module that was exported."""

    inputs: list[str]
    notes: list[str]
    kind: Literal["torch", "keras", "tflite"]
    layers: list[str]


class Done(msgspec.Struct, frozen=True):
    """Arrays came; nothing else is to be said."""


def read_answer(header: Mapping[str, Any], kind: type[AnswerT]) -> AnswerT:
    """The answer of that kind. Raises UnexpectedAnswer, which says where it is otherwise."""
    try:
        return msgspec.convert(header, kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise UnexpectedAnswer(str(error)[:200]) from None


def read_failure(header: Mapping[str, Any]) -> Failed | None:
    """Why a message was not answered; None where it was. Raises UnexpectedAnswer."""
    return read_answer({"failure": header["failure"]}, _Failure).failure if "failure" in header else None


class _Failure(msgspec.Struct, frozen=True):
    failure: Failed
