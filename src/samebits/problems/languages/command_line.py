"""Command lines of other tools, split as a shell splits them."""

from __future__ import annotations

import shlex

from samebits.errors import ProblemShapeError, ProblemTextError

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


def find_padding_end(size_small: int, size_large: int, reach: int, stride: int, begin: int) -> int:
    """The end padding with which a convolution over `size_large` has `size_small` outputs.

    size_small = (size_large + begin + end - reach) // stride + 1 leaves `stride` candidates: `begin` if it is one of
    them (every engine can pad symmetrically), else the smallest. Raises ProblemShapeError where all are negative.
    """
    least = (size_small - 1) * stride + reach - size_large - begin
    if least <= begin < least + stride:
        return begin
    if least + stride <= 0:
        raise ProblemShapeError(
            f"{size_small} outputs at stride {stride} leave over more than a stride of the {size_large} inputs: "
            "that is a negative padding, which a problem does not have"
        )
    return max(least, 0)


def split_transposed_end(begin: int, difference: int, stride: int, dilation: int) -> tuple[int, int]:
    """(end padding, output padding) of a transposed convolution whose end minus output padding is `difference`.

    Only the difference matters to the result; the symmetric split is taken where output padding allows it.
    """
    extra = begin - difference
    if 0 <= extra < max(stride, dilation):
        return begin, extra
    return max(difference, 0), max(-difference, 0)
