"""Command lines of other tools, split as a shell splits them."""

from __future__ import annotations

import shlex

from samebits.errors import ProblemTextError

# No real one has a tenth of it; splitting takes time with the square of the length.
_LONGEST = 20_000


def split_command(text: str) -> list[str]:
    """The words of a command line; raises ProblemTextError for one that is too long or leaves a quote open."""
    if len(text) > _LONGEST:
        raise ProblemTextError(f"a command line of {len(text):,} characters is too long to be one", text)
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ProblemTextError(f"cannot split the line into options: {error}", text) from None
