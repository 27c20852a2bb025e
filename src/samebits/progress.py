"""The progress callback that all long-running functions take: one type, used everywhere."""

from __future__ import annotations

from collections.abc import Callable


class Announcement(str):
    """Something said once beforehand: a listener shows it at once and keeps it, whatever is said next."""

    __slots__ = ()


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
