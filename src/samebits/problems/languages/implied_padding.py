"""End paddings that other tools leave to be derived from the sizes on both sides."""

from __future__ import annotations

from samebits.errors import ProblemShapeError


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
