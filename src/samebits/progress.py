"""The progress callback that all long-running functions take: one type, used everywhere."""

from __future__ import annotations

from collections.abc import Callable


class Announcement(str):
    """Something said once beforehand: a listener shows it at once and keeps it, whatever is said next."""

    __slots__ = ()


class FirstVerdict(Announcement):
    """What is known of a finding before causes and recipes are looked for: shown at once if it takes over a second."""

    __slots__ = ()

    @classmethod
    def of(cls, verdict: str, summary: str, goes_on: str) -> FirstVerdict:
        """Of a finding's verdict and summary, with what is being done next."""
        return cls(f"so far {verdict}: {summary} {goes_on}")


# progress(what is being done, the share of it that is done, from 0 to 1).
Progress = Callable[[str, float], None]


def ignore_progress(what: str, share: float) -> None:
    """The listener of work that nobody waits for."""


def rename_progress(progress: Progress, what: str) -> Progress:
    """A listener that says `what` in place of what it hears, with the same share."""
    return lambda _, share: progress(what, share)


def prefix_progress(progress: Progress, prefix: str) -> Progress:
    """A listener that puts a prefix before what it hears."""
    return lambda what, share: progress(f"{prefix}{what}", share)
