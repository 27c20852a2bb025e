"""How a contraction is divided into tiles and chunks that stay in the cache, and the working memory they need."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from samebits.sums.tiles.microkernel import LANES, PIXELS
from samebits.sums.tiles.plan import Contraction, Three

# Measured on ResNet-50's layers: shorter chunks load C too often, longer ones fall out of the first-level cache.
TERMS_PER_CHUNK = 144
OUTPUTS_PER_TILE = 360
ROWS_PER_TILE = 512
# Rows are divided further until every thread has this many tiles.
TASKS_PER_THREAD = 2
WINDOW_DOUBLES = 96 * 1024
# Of a few vectors, each multiplied by every row, so many values at once stay in the first-level cache.
_FEW_VALUES = 4096
# Rows of a buffer are this much longer than they need to be: a power of two between them maps all to few cache sets.
SPARE = 16


class Blocks(NamedTuple):
    """The box of one tile and of one chunk, and the sizes of the buffers they need (in doubles).

    Along each axis a window holds every `grid`-th source position; those that nothing reaches are left out.
    """

    rows: int
    batch: int
    outputs: Three
    depth: int
    terms: Three
    window: Three
    grid: Three
    tasks: int
    chain: int
    roundings: int

    @property
    def positions(self) -> int:
        """Columns of the tile's sums, rounded up to whole microkernel calls."""
        return -(-self.batch * math.prod(self.outputs) // PIXELS) * PIXELS


def choose_blocks(c: Contraction, threads: int) -> Blocks:
    """Boxes for a contraction: innermost axes first, then shrunk until the source window fits its buffer."""
    *outputs, batch = _fill((*c.outputs[::-1], c.batch), OUTPUTS_PER_TILE)
    is_vectors = math.prod(c.outputs) == math.prod(c.terms) == 1 and 0 < c.batch <= PIXELS
    length = max(TERMS_PER_CHUNK, _FEW_VALUES // c.batch) if is_vectors else TERMS_PER_CHUNK
    *terms, depth = _fill((*c.terms[::-1], c.depth), length)
    box = [*outputs[::-1], batch, *terms[::-1], depth]
    while _window_size(c, box) > WINDOW_DOUBLES:
        if box[7] > 1:
            box[7] = box[7] // 2
        else:
            largest = max((i for i in range(7) if box[i] > 1), key=lambda i: _window_share(c, box, i), default=None)
            if largest is None:
                break
            box[largest] = -(-box[largest] // 2)
    outputs3, terms3 = (box[0], box[1], box[2]), (box[4], box[5], box[6])
    chunks = math.prod(-(-n // b) for n, b in zip((*c.terms, c.depth), (*terms3, box[7]), strict=True) if b)
    tiles = c.groups * math.prod(c.phases)
    tiles *= math.prod(-(-n // b) for n, b in zip((*c.outputs, c.batch), box[:4], strict=True))
    rows = _choose_rows(c.rows, tiles, TASKS_PER_THREAD * threads)
    chain = math.prod(terms3) * box[7]
    return Blocks(
        rows, box[3], outputs3, box[7], terms3, _window(c, box), _grid(c),
        -(-c.rows // rows) * tiles, chain, chain + chunks + 2,
    )  # fmt: skip


def _choose_rows(rows: int, tiles: int, fewest: int) -> int:
    """Rows of one tile: whole vectors of them, few enough for `fewest` tiles in all."""
    pieces = max(-(-rows // ROWS_PER_TILE), -(-fewest // tiles))
    return -(-rows // pieces // LANES) * LANES if rows // pieces >= LANES else LANES


def _fill(sizes: tuple[int, ...], target: int) -> list[int]:
    """The largest even parts of `sizes`, first axes first, whose product stays at or below the target."""
    parts = []
    for size in sizes:
        part = _even_part(size, max(target, 1)) if size else 0
        parts.append(part)
        target //= max(part, 1)
    return parts


def _even_part(size: int, most: int) -> int:
    """`size` divided into the fewest equal parts of at most `most`."""
    pieces = -(-size // most)
    return -(-size // pieces)


def _grid(c: Contraction) -> Three:
    """The greatest common divisor of an axis's steps; a single term has no step."""
    steps = [
        math.gcd(c.source_output_step[a] if c.outputs[a] > 1 else 0, c.source_term_step[a] if c.terms[a] > 1 else 0)
        or 1
        for a in range(3)
    ]
    return steps[0], steps[1], steps[2]


def _window(c: Contraction, box: list[int]) -> Three:
    reaches = [
        (box[a] - 1) * c.source_output_step[a] + max(box[4 + a] - 1, 0) * abs(c.source_term_step[a]) for a in range(3)
    ]
    spans = [reach // step + 1 for reach, step in zip(reaches, _grid(c), strict=True)]
    return spans[0], spans[1], spans[2]


def _window_size(c: Contraction, box: list[int]) -> int:
    return box[3] * max(box[7], 1) * math.prod(_window(c, box))


def _window_share(c: Contraction, box: list[int], i: int) -> int:
    """How many doubles the window loses when entry i of the box is halved."""
    smaller = list(box)
    smaller[i] = -(-box[i] // 2)
    return _window_size(c, box) - _window_size(c, smaller)


class Buffers(NamedTuple):
    """One thread's working memory."""

    sums: np.ndarray  # float64 [positions, rows and some to spare]
    window: np.ndarray  # float64, the chunk's source
    packed: np.ndarray  # float64, LANES rows of the chunk
    bases: np.ndarray  # int64 [positions], where in the window each output's source begins
    offsets: np.ndarray  # int64 [chain], how far from there each term lies
    start: np.ndarray  # float64 [rows], what the sums start from
    magnitudes: np.ndarray  # float64 [rows], sum of |row| over all terms so far
    lows: np.ndarray  # float64 [as sums], what sums leave out where they are kept twice as precise
    codes: np.ndarray  # uint32 [as sums], for whoever turns sums into results; shares its memory with lows


def count_doubles(blocks: Blocks) -> int:
    """How many doubles the buffers of these blocks take; about 250,000 (2 MiB) for ordinary problems."""
    return sum(_buffer_sizes(blocks))


def _buffer_sizes(blocks: Blocks) -> tuple[int, ...]:
    sums = blocks.positions * (blocks.rows + SPARE)
    window = blocks.batch * max(blocks.depth, 1) * math.prod(blocks.window)
    chain = max(blocks.chain, 1)
    return sums, window, chain * LANES, blocks.positions, chain, blocks.rows, blocks.rows, sums


def place_buffers(blocks: Blocks, arena: np.ndarray) -> Buffers:
    """Buffers for any tile of these blocks inside `arena`, a float64 array of at least `count_doubles` elements."""
    parts, start = [], 0
    for size in _buffer_sizes(blocks):
        parts.append(arena[start : start + size])
        start += size
    shape = (blocks.positions, blocks.rows + SPARE)
    codes = parts[7].view(np.uint32)[: math.prod(shape)].reshape(shape)
    return Buffers(
        sums=parts[0].reshape(shape), window=parts[1], packed=parts[2], bases=parts[3].view(np.int64),
        offsets=parts[4].view(np.int64), start=parts[5], magnitudes=parts[6], lows=parts[7].reshape(shape), codes=codes,
    )  # fmt: skip
