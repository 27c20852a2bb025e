"""Some outputs of a layer or of its gradients, and the terms of their sums, taken out of tensors of any size.

With S the tensor on the side that the stride divides, L the one on the other side and W the weights, as
`problems/terms.py` has them:

    gather   S[n, s, p] = sum over l, k of W[s, l, k] L[n, l, p stride - padding + k dilation]
    scatter  L[n, l, q] = sum over s, k of W[s, l, k] S[n, s, (q + padding - k dilation) / stride]
    filter   W[s, l, k] = sum over n, p of S[n, s, p] L[n, l, p stride - padding + k dilation]

Each is, for outputs that share a group of channels, a product of matrices. Outputs are drawn in blocks: some places in
rows, some channels in columns, of which min(rows, columns) share neither, so that as many of every block are drawn
independently and uniformly from all outputs; where there are groups, each block has one of its own, and counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from samebits.problems.terms import Form
from samebits.torch.plain_arrays import to_numpy

# Numbers that one check takes out of tensors, and rows or columns of a block at most.
_MOST_TAKEN, _MOST_ROWS = 2**17, 16


@dataclass(frozen=True)
class Geometry:
    """How the taps of a convolution lie: per axis of space, stride, padding before it and dilation; and its groups."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1


@dataclass(frozen=True)
class Block:
    """Outputs [blocks, rows, columns] as products of left [blocks, rows, terms] and right [blocks, columns, terms].

    `draws` is how many of them were drawn independently of each other. A bias is the last term, by 1.
    """

    left: np.ndarray
    right: np.ndarray
    result: np.ndarray
    draws: int
    has_bias: bool = False


def draw_block(
    form: Form,
    source: Tensor,
    factors: Tensor,
    result: Tensor,
    kernel: Sequence[int],
    geometry: Geometry,
    rng: np.random.Generator,
    bias: Tensor | None = None,
) -> Block | None:
    """A random block of a result's outputs with the terms that each sums; None of a result without outputs or terms.

    `source` is L (gather, filter) or S (scatter), `factors` W (gather, scatter) or S (filter): tensors
    [batch, channels, *space], W [S's channels, L's channels per group, *kernel]. `bias` has one number per channel of
    the result.
    """
    if min(source.numel(), factors.numel(), result.numel()) == 0:
        return None
    large = result if form == "scatter" else source
    small_channels = factors.shape[1] if form == "filter" else factors.shape[0]
    of_group = {"small": small_channels // geometry.groups, "large": large.shape[1] // geometry.groups}
    if form == "filter":
        terms, row_places, columns = factors.numel() // small_channels, prod(kernel) * of_group["large"], "small"
    else:
        read, columns = ("large", "small") if form == "gather" else ("small", "large")
        terms = of_group[read] * prod(kernel)
        row_places = result.shape[0] * prod(result.shape[2:])
    rows = min(_MOST_ROWS, row_places, max(1, _MOST_TAKEN // (2 * terms)))
    width = min(rows, of_group[columns])
    blocks = 1 if geometry.groups == 1 and width == rows else max(1, min(_MOST_ROWS, _MOST_TAKEN // (2 * rows * terms)))
    draw = _Draw(rng, source.device, blocks)
    group = draw.below(geometry.groups, 1)
    column = draw.below(of_group[columns], width) + group * of_group[columns]
    if form == "filter":
        left, right, got = _take_filter(draw, source, factors, result, kernel, geometry, rows, group, column)
    else:
        left, right, got = _take_places(draw, form, source, factors, result, kernel, geometry, rows, group, column)
    left, right = left.reshape(blocks, rows, terms), right.reshape(blocks, width, terms)
    if bias is not None:
        left = torch.cat([left, torch.ones_like(left[..., :1])], dim=-1)
        right = torch.cat([right, bias[column].unsqueeze(-1)], dim=-1)
    # Outputs of one block are of one group of channels: drawn together, not independently.
    draws = blocks * (min(rows, width) if geometry.groups == 1 else 1)
    return Block(to_numpy(left), to_numpy(right), to_numpy(got), draws, bias is not None)


class _Draw:
    """Random indices [blocks, count], each drawn by itself."""

    def __init__(self, rng: np.random.Generator, device: torch.device, blocks: int) -> None:
        self.rng, self.device, self.blocks = rng, device, blocks

    def below(self, bound: int, count: int) -> Tensor:
        return torch.from_numpy(self.rng.integers(bound, size=(self.blocks, count))).to(self.device)

    def aligned(self, index: Tensor, axis: int, axes: int) -> Tensor:
        """An index [blocks, count, own] with `own` as the axis-th of so many axes after the first two."""
        shape = [1] * axes
        shape[axis] = index.shape[2]
        return index.reshape(*index.shape[:2], *shape)


def _take_places(
    draw: _Draw,
    form: Form,
    source: Tensor,
    weights: Tensor,
    result: Tensor,
    kernel: Sequence[int],
    geometry: Geometry,
    rows: int,
    group: Tensor,
    column: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gather and scatter: places of the result in rows, what each reads of the source; channels' weights in columns."""
    rank = len(kernel)
    batch = draw.below(result.shape[0], rows)
    place = [draw.below(size, rows) for size in result.shape[2:]]
    channels = source.shape[1] // geometry.groups
    channel = group.unsqueeze(-1) * channels + torch.arange(channels, device=source.device)
    index = [batch.reshape(*batch.shape, *[1] * (rank + 1)), draw.aligned(channel, 0, rank + 1)]
    read = [_read_at(form, place[axis].unsqueeze(-1), kernel[axis], geometry, axis) for axis in range(rank)]
    left = _take_inside(draw, source, index, read)
    if form == "gather":
        right = weights[column]
    else:
        own = column % (result.shape[1] // geometry.groups)
        right = weights[channel[:, 0].unsqueeze(1), own.unsqueeze(-1)]
    where = [batch.unsqueeze(-1), column.unsqueeze(1), *(p.unsqueeze(-1) for p in place)]
    return left, right, result[tuple(where)]


def _read_at(form: Form, place: Tensor, size: int, geometry: Geometry, axis: int) -> Tensor:
    """Where taps read along an axis, for outputs at `place`; -1 where a stride steps over it."""
    taps = torch.arange(size, device=place.device) * geometry.dilation[axis]
    stride, padding = geometry.stride[axis], geometry.padding[axis]
    if form == "gather":
        return place * stride - padding + taps
    reached = place + padding - taps
    return torch.where(reached % stride == 0, reached.div(stride, rounding_mode="floor"), -torch.ones_like(reached))


def _take_inside(draw: _Draw, tensor: Tensor, index: list[Tensor], read: list[Tensor]) -> Tensor:
    """Numbers at [batch, channel, *places] of a tensor, and zero where a place is outside of it."""
    axes = len(read) + 1
    inside = torch.ones([1] * (axes + 2), dtype=torch.bool, device=tensor.device)
    for axis, at in enumerate(read):
        size = tensor.shape[axis + 2]
        index = [*index, draw.aligned(at.clamp(0, size - 1), axis + 1, axes)]
        inside = inside & draw.aligned((at >= 0) & (at < size), axis + 1, axes)
    return torch.where(inside, tensor[tuple(index)], torch.zeros((), dtype=tensor.dtype, device=tensor.device))


def _take_filter(
    draw: _Draw,
    large: Tensor,
    small: Tensor,
    result: Tensor,
    kernel: Sequence[int],
    geometry: Geometry,
    rows: int,
    group: Tensor,
    column: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Filter: weights of an input channel and tap in rows, channels of S in columns; sums over batch and places."""
    rank = len(kernel)
    own = draw.below(large.shape[1] // geometry.groups, rows)
    tap = [draw.below(size, rows) for size in kernel]
    batch = torch.arange(large.shape[0], device=large.device).reshape(1, 1, -1)
    channel = group * (large.shape[1] // geometry.groups) + own
    index = [draw.aligned(batch, 0, rank + 1), channel.reshape(*channel.shape, *[1] * (rank + 1))]
    read: list[Tensor] = []
    for axis in range(rank):
        places = torch.arange(small.shape[axis + 2], device=large.device) * geometry.stride[axis]
        read.append(places - geometry.padding[axis] + tap[axis].unsqueeze(-1) * geometry.dilation[axis])
    left = _take_inside(draw, large, index, read)
    right = small.transpose(0, 1)[column]
    where = [column.unsqueeze(1), own.unsqueeze(-1), *(t.unsqueeze(-1) for t in tap)]
    return left, right, result[tuple(where)]
