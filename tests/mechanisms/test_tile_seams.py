"""Planes computed in tiles without what lies around them, and rows read too far apart; padding as a control."""

import numpy as np
import pytest

from cases_by_hand import convolve, explain, make

TEXT = "conv2d x=1x6x20x24 w=8x6x3x3 padding=1"


def pad(x):
    return np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))


def convolve_in_tiles(x, w, height, width):
    """Each tile of the input padded with zeros by itself."""
    result = np.empty((1, len(w), *x.shape[2:]), np.float32)
    for top in range(0, x.shape[2], height):
        for left in range(0, x.shape[3], width):
            tile = x[:, :, top : top + height, left : left + width]
            result[:, :, top : top + height, left : left + width] = convolve(pad(tile), w)
    return result


@pytest.mark.parametrize(
    ("height", "width", "what"),
    [(8, 8, "tiles of 8 x 8 along h and w"), (10, 24, "tiles of 10 along h"), (20, 16, "tiles of 16 along w")],
)
def test_zeros_at_seams_are_named(height, width, what):
    operands, _ = make(TEXT, 1)
    side = explain(TEXT, operands, convolve_in_tiles(operands["x"], operands["w"], height, width))
    assert (side.verdict, side.cause) == ("wrong", "shape-specific-kernel")
    assert what in side.says


def test_tiles_that_read_what_lies_around_them_are_sound():
    operands, _ = make(TEXT, 2)
    padded, result = pad(operands["x"]), np.empty((1, 8, 20, 24), np.float32)
    for top in range(0, 20, 8):
        for left in range(0, 24, 8):
            tile = padded[:, :, top : top + 10, left : left + 10]
            result[:, :, top : top + 8, left : left + 8] = convolve(tile, operands["w"])
    assert explain(TEXT, operands, result).verdict in ("identical", "rounding")


@pytest.mark.parametrize("pitch", [23, 26, 32])
def test_rows_read_too_far_apart_are_named(pitch):
    operands, _ = make(TEXT, 3)
    x = operands["x"]
    memory = np.concatenate([x.reshape(-1), x.reshape(-1)])
    read = np.empty_like(x)
    for channel in range(6):
        for row in range(20):
            start = channel * 480 + row * pitch
            read[0, channel, row] = memory[start : start + 24]
    side = explain(TEXT, operands, convolve(pad(read), operands["w"]))
    assert (side.verdict, side.cause) == ("wrong", "strided-view")
    assert side.says == f"reads the rows of x {pitch} elements apart, where 24 are"
