"""What can go wrong for a person, as typed errors whose message is one clear line: what, where, what to do."""

from __future__ import annotations

_LONGEST_QUOTE = 200


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."


class SamebitsError(Exception):
    """Base of every error a person may see; the command line prints its message and exits with status 2."""


class ProblemTextError(SamebitsError):
    """A problem's text cannot be read. `position` is the 0-based column of the offending character, or None."""

    def __init__(self, says: str, text: str, position: int | None = None):
        self.position = position
        where = "" if position is None else f" at column {position + 1}"
        super().__init__(f"problem text{where}: {_shorten(says)} (in {_shorten(text)!r})")


class ProblemShapeError(SamebitsError):
    """The shapes and attributes of a problem do not fit each other."""


class ArgumentError(SamebitsError):
    """An argument of a Python call is none that it takes."""


class OperandError(SamebitsError):
    """Arrays do not fit their problem: missing, of another shape, of another dtype."""


class CaseFileError(SamebitsError):
    """A case file cannot be read safely or does not hold what it must."""


class ModelError(SamebitsError):
    """A model cannot be read safely, or has what samebits cannot deal with."""


class ReproducibilityError(SamebitsError):
    """A run cannot be made repeatable as asked: a setting that comes too late, an operation without such a kernel."""


class TraceError(SamebitsError):
    """A file that is no trace, or a damaged one."""


class LogError(SamebitsError):
    """A log cannot be read, or tells of no mismatch."""


class RecipeError(SamebitsError):
    """A recipe's text cannot be read, or the recipe cannot be executed on this problem."""


class RunnerTextError(SamebitsError):
    """The text naming an engine cannot be read, names no known engine, or gives a setting it does not have."""


class EngineMissingError(SamebitsError):
    """A known engine is not installed here."""


class FindingError(SamebitsError):
    """A file is no finding, or a finding cannot be shown as asked."""


class GuardBreachError(SamebitsError):
    """A guarded layer returned something that is not what it should be."""


class LockError(SamebitsError):
    """A lock file cannot be read or written, or its choices do not hold here."""


class SealError(SamebitsError):
    """A seal cannot be read or written, or is none of what it is checked against."""


class ResourceLimitError(SamebitsError):
    """The problem needs more memory than this machine can give."""


class ProbeStopped(SamebitsError):
    """A probe would have needed more calls or more time than it was given."""


class EngineFailure(SamebitsError):
    """An engine did not return a result: base of the ways it can fail, each of which becomes a finding of its side."""

    kind = "error"


class EngineUnsupported(EngineFailure):
    """The engine declares that it cannot run this problem."""

    kind = "unsupported"


class EngineCrashed(EngineFailure):
    """The engine's process ended without an answer."""

    kind = "crash"


class EngineTimedOut(EngineFailure):
    """The engine's process gave no answer in its time limit and was stopped."""

    kind = "timeout"


class EngineOutOfMemory(EngineFailure):
    """The engine reported that memory ran out."""

    kind = "out-of-memory"


class EngineRaised(EngineFailure):
    """The engine raised an error of its own, or returned something that is not the result."""

    kind = "error"


class LogReaderWarning(UserWarning):
    """A reader of logs that an installed package brings failed; the other readers' answers stand."""


class CodeNotKeptWarning(UserWarning):
    """Our compiled code cannot be kept on disk: results are the same, and every start takes half a minute longer."""
