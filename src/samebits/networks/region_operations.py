"""Operators that read an image at computed places: GridSample, RoiAlign, MaxRoiPool, DeformConv.

A value between pixels moves by at most the slope, the difference of two neighbours, times what its place is off.
Where the last bit of a place decides which pixels are read, either may be right.
Sources: ONNX's operators of these names; sums in any order by Higham, chapter 4.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from samebits.limits import STEPS
from samebits.networks import bounded
from samebits.networks.bounded import Arithmetic, Bounded, Floats
from samebits.networks.network import Node
from samebits.networks.values import Rule, Value, list_floats

# A place is made of a scale, a size, a division and a few sums; engines make it in float32 at most as exactly.
_PLACE_ROUNDINGS = 16
# Between pixels: two weights of one direction, two of the other, their products, and a sum of four.
_WEIGHT_ROUNDINGS = 12
# Along one axis.
_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
# The weight that ONNX and PyTorch give to pixels two away.
_CUBIC = -0.75
_NEWER_MODES = {"bilinear": "linear", "bicubic": "cubic"}
# Marks a GridSample that moves points outside the image into it, and not the pixels around them one by one.
CLAMPS = "samebits.clamps"


def _find_places(start: Floats, extent: Floats, bins: int, samples: int) -> Floats:
    """Where a region is read along one axis: in the middle of equal parts of each of its bins."""
    return start + (np.arange(bins * samples) + 0.5) * extent / (bins * samples)


def _weigh(places: Floats, size: int) -> Floats:
    """The weights of an axis' pixels at each place: shape (places, size), nothing beyond a pixel outside."""
    inside = (places >= -1.0) & (places <= size)
    at = np.clip(places, 0.0, size - 1)
    low = np.minimum(at.astype(int), size - 1)
    high = np.minimum(low + 1, size - 1)
    weights, rows = np.zeros((len(places), size)), np.arange(len(places))
    np.add.at(weights, (rows, low), np.where(inside, 1.0 - (at - low), 0.0))
    np.add.at(weights, (rows, high), np.where(inside, at - low, 0.0))
    return weights


def _is_split(size: float, bins: int, off: float, *, is_exact: bool) -> bool:
    """Whether rounding may change how many samples ceil(size / bins) makes; an exact quotient is exact anywhere."""
    quotient = size / bins
    if is_exact and not off and quotient == np.rint(quotient):
        return False
    return abs(quotient - np.rint(quotient)) <= off / bins + _PLACE_ROUNDINGS * 2.0**-24 * (1.0 + abs(quotient))


def _align(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """RoiAlign: the mean of an image's values at regular places of each region."""
    x, rois = list_floats(inputs[:2])
    given, items = node.attributes, inputs[2]
    # What the largest is of (values, or what the four pixels around give) is read in two ways.
    if given.get("mode", "avg") != "avg" or items is None or isinstance(items, Bounded):
        return None
    way = given.get("coordinate_transformation_mode", "half_pixel")
    scale, samples = float(np.float32(given.get("spatial_scale", 1.0))), int(given.get("sampling_ratio", 0))
    bins = (int(given.get("output_height", 1)), int(given.get("output_width", 1)))
    corners = rois.value * scale - (0.5 if way == "half_pixel" else 0.0)
    if not np.isfinite(corners).all() or not ((items >= 0) & (items < len(x.value))).all():
        return None
    value, error = (np.zeros((len(corners), x.value.shape[1], *bins)) for _ in range(2))
    for region, corner in enumerate(corners):
        off = float(scale * rois.error[region].max(initial=0.0))
        places = _list_samples(corner, bins, samples, off, is_wide=way == "output_half_pixel")
        if places is None:
            return None
        off = 4 * off + _PLACE_ROUNDINGS * max(a.unit, 2.0**-24) * float(3 * np.abs(corner).max() + 1.0)
        item = int(items[region])
        image = Bounded(x.value[item], x.error[item], x.magnitude[item])
        STEPS.check(sum(len(p) for p in places) * max(image.value.shape[1:]), "a region's samples")
        value[region], error[region] = _average(a, image, places, bins, off)
    return [Bounded(value, error, np.abs(value))]


def _list_samples(
    corner: Floats, bins: tuple[int, int], samples: int, off: float, *, is_wide: bool
) -> list[Floats] | None:
    """Where a region (x, y, x, y) is read along both axes, rows first; None where rounding decides how often."""
    left, top, right, bottom = corner
    is_exact = bool((corner == np.float32(corner)).all())
    places: list[Floats] = []
    for start, extent, count in ((top, bottom - top, bins[0]), (left, right - left, bins[1])):
        size = max(extent, 1.0) if is_wide else extent
        if samples <= 0 and _is_split(size, count, 2 * off, is_exact=is_exact):
            return None
        each = samples if samples > 0 else max(int(np.ceil(size / count)), 0)
        STEPS.check(count * each, "a region's samples")
        places.append(_find_places(start, size, count, each))
    return places


def _average(
    a: Arithmetic, image: Bounded, places: Sequence[Floats], bins: tuple[int, int], off: float
) -> tuple[Floats, Floats]:
    """The mean of (C, H, W) in each bin over the places of both axes, and its bound."""
    shares: list[Floats] = []
    edges = np.zeros(bins)
    for axis, (at, count, size) in enumerate(zip(places, bins, image.value.shape[1:], strict=True)):
        shares.append(_weigh(at, size).reshape(count, -1, size).sum(1) / max(len(at) // count, 1))
        # A pixel outside, values end at once.
        near = (np.minimum(np.abs(at + 1.0), np.abs(at - size)) <= off).reshape(count, -1)
        share = near.mean(1) if near.size else np.zeros(count)
        edges = edges + (share[:, None] if axis == 0 else share[None, :])
    value, sizes, error = (
        np.einsum("yh,chw,xw->cyx", shares[0], part, shares[1])
        for part in (image.value, np.abs(image.value), image.error)
    )
    largest = float((np.abs(image.value) + image.error).max(initial=0.0))
    samples = max(len(places[0]) * len(places[1]) // max(bins[0] * bins[1], 1), 1)
    growth = (samples + _WEIGHT_ROUNDINGS) * a.unit
    return value, error + 2 * 2 * largest * off + largest * edges + growth * (sizes + error)


def _pool_regions(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """MaxRoiPool: the largest value of each bin of a region, whose corners are rounded to pixels."""
    x, rois = list_floats(inputs)
    bins = tuple(int(n) for n in node.attributes["pooled_shape"])
    scale = float(np.float32(node.attributes.get("spatial_scale", 1.0)))
    corners, items = rois.value[:, 1:] * scale, rois.value[:, 0]
    if not np.isfinite(corners).all() or not ((items >= 0) & (items < len(x.value))).all():
        return None
    off = scale * rois.error[:, 1:] + 2 * max(a.unit, 2.0**-24) * np.abs(corners)
    if rois.error[:, 0].any() or ((np.abs(corners - np.floor(corners) - 0.5) <= off) & (off > 0)).any():
        return None
    ends = np.floor(corners + 0.5).astype(int)
    value, error = (np.zeros((len(ends), x.value.shape[1], *bins)) for _ in range(2))
    for region, (left, top, right, bottom) in enumerate(ends):
        item = int(rois.value[region, 0])
        rows = _list_bins(top, bottom, bins[0], x.value.shape[2])
        columns = _list_bins(left, right, bins[1], x.value.shape[3])
        for i, (few_rows, many_rows) in enumerate(rows):
            for j, (few, many) in enumerate(columns):
                least, most = (
                    x.value[item][:, r, c].max((1, 2), initial=-np.inf) for r, c in ((few_rows, few), (many_rows, many))
                )
                kept = np.where(np.isinf(least), 0.0, least)
                value[region, :, i, j] = kept
                own = x.error[item][:, many_rows, many].max((1, 2), initial=0.0)
                error[region, :, i, j] = own + np.where(np.isinf(most), 0.0, np.abs(most - kept))
    return [Bounded(value, error, np.abs(value))]


def _list_bins(start: int, end: int, count: int, size: int) -> list[tuple[slice, slice]]:
    """The pixels of each bin along an axis: those that are surely in it, and those that may be."""
    width = max(end - start + 1, 1) / count
    found: list[tuple[slice, slice]] = []
    for i in range(count):
        off = 4 * 2.0**-24 * (i + 1) * width
        bounds = [
            (int(np.floor(i * width + sign * off)) + start, int(np.ceil((i + 1) * width - sign * off)) + start)
            for sign in (1.0, -1.0)
        ]
        few, many = (slice(*np.clip(pair, 0, size)) for pair in bounds)
        found.append((few, many))
    return found


def _deform(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """DeformConv of images: a convolution of values read at places that are moved by offsets."""
    x, weights, offset = list_floats(inputs[:3])
    if x.value.ndim != 4 or not np.isfinite(offset.value).all():
        return None
    given, (n, channels, *sizes) = node.attributes, x.value.shape
    kernel, out = weights.value.shape[2:], offset.value.shape[2:]
    groups, sets = int(given.get("group", 1)), int(given.get("offset_group", 1))
    taps = kernel[0] * kernel[1]
    STEPS.check(n * channels * taps * out[0] * out[1] * 4, "a deformed convolution's values")
    places, off = _place(a, node, offset, kernel)
    columns = _read_between(a, x, places.reshape(n, sets, taps, 2, *out), off.reshape(n, sets, taps, 2, *out), sizes)
    mask = inputs[4] if len(inputs) > 4 else None
    if mask is not None:
        factor = bounded.move(lambda v: v.reshape(n, sets, 1, taps, *out), list_floats([mask])[0])
        columns = bounded.multiply(a, columns, factor)
    columns = bounded.move(lambda v: v.reshape(n, groups, channels // groups * taps, *out), columns)
    flat = bounded.move(lambda v: v.reshape(groups, v.shape[0] // groups, -1), weights)

    def run(factors: Floats, read: Floats) -> Floats:
        return np.einsum("gok,ngkyx->ngoyx", factors, read).reshape(n, -1, *out)

    value, most = run(flat.value, columns.value), run(np.abs(flat.value), np.abs(columns.value))
    error = run(np.abs(flat.value) + flat.error, columns.error) + run(flat.error, np.abs(columns.value))
    growth = (flat.value.shape[-1] + 2) * a.unit
    found = Bounded(value, error + growth * (most + error) + a.least, most + error, growth)
    bias = inputs[3] if len(inputs) > 3 else None
    if bias is None:
        return [found]
    return [bounded.add(a, found, bounded.move(lambda v: v.reshape(1, -1, 1, 1), list_floats([bias])[0]))]


def _place(a: Arithmetic, node: Node, offset: Bounded, kernel: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Where each tap reads, and how far that may be off: both (N, sets, taps, 2, *outputs)."""
    given, out = node.attributes, offset.value.shape[2:]
    strides, dilations = given.get("strides") or (1, 1), given.get("dilations") or (1, 1)
    pads = given.get("pads") or (0, 0, 0, 0)
    shape = (offset.value.shape[0], -1, *kernel, 2, *out)
    places = offset.value.reshape(shape).copy()
    for axis in range(2):
        starts = np.arange(out[axis]) * strides[axis] - pads[axis]
        regular = (np.arange(kernel[axis]) * dilations[axis])[:, None] + starts
        places[:, :, :, :, axis] += regular[:, None, :, None] if axis == 0 else regular[None, :, None, :]
    return places, offset.error.reshape(shape) + 2 * a.unit * np.abs(places)


def _read_between(a: Arithmetic, x: Bounded, places: Floats, off: Floats, sizes: Sequence[int]) -> Bounded:
    """(N, sets, channels of a set, taps, *outputs) of the images at places; nothing lies outside."""
    n, sets, taps = places.shape[:3]
    out = places.shape[4:]
    each = x.value.shape[1] // sets
    images = [part.reshape(n, sets, each, *sizes) for part in (x.value, x.error)]
    rows, columns = places[:, :, :, 0], places[:, :, :, 1]
    low = [np.floor(rows).astype(int), np.floor(columns).astype(int)]
    value, error, size = (np.zeros((n, sets, each, taps, *out)) for _ in range(3))
    at = np.arange(n)[:, None, None, None, None], np.arange(sets)[None, :, None, None, None]
    for i in range(2):
        for j in range(2):
            y, z = low[0] + i, low[1] + j
            inside = (y >= 0) & (y < sizes[0]) & (z >= 0) & (z < sizes[1])
            weight = np.where(inside, (1.0 - np.abs(rows - y)) * (1.0 - np.abs(columns - z)), 0.0)[:, :, None]
            clipped = np.clip(y, 0, sizes[0] - 1), np.clip(z, 0, sizes[1] - 1)
            read, lost = (np.moveaxis(image[(*at, slice(None), *clipped)], -1, 2) for image in images)
            value, error, size = value + weight * read, error + weight * lost, size + weight * np.abs(read)
    largest = float((np.abs(x.value) + x.error).max(initial=0.0))
    moved = 2 * largest * off.sum(3)[:, :, None]
    return Bounded(value, error + moved + _WEIGHT_ROUNDINGS * a.unit * (size + error), np.abs(value))


def _sample_grid(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """Values between pixels: positions are computed in the unit's format, slopes are at most two pixels' distance."""
    x, grid = list_floats(inputs)
    named = str(node.attributes.get("mode", "linear"))
    mode = _NEWER_MODES.get(named, named)
    if grid.value.shape[-1] != x.value.ndim - 2 or not x.value.size or mode not in _TAPS:
        return None
    if node.attributes.get(CLAMPS):
        grid = Bounded(_clamp(node, grid.value, x.value.shape[2:]), grid.error, grid.magnitude)
    STEPS.check(grid.value.size * x.value.shape[1] * _TAPS[mode] ** grid.value.shape[-1], "what a GridSample reads")
    is_known = np.asarray(np.isfinite(grid.value).all(-1))
    # Where a point is NaN, or infinitely far away, engines differ, and nobody says who is right.
    grid = Bounded(np.where(is_known[..., None], grid.value, 0.0), np.nan_to_num(grid.error), grid.magnitude)
    unknown = np.where(is_known, 0.0, np.inf)[:, None]
    if mode == "nearest":
        found = _take_nearest(a, node, x, grid)
        return [Bounded(found.value, found.error + unknown, found.magnitude)]
    value = _sample(node, x.value, grid.value, mode)
    size = max(x.value.shape[2:])
    largest = float(np.abs(x.value).max(initial=0.0) + x.error.max(initial=0.0))
    slope = 4.0 if mode == "cubic" else 2.0
    position = 8 * a.unit * max(1.0, float(np.abs(grid.value).max(initial=0.0)))
    moved = slope * size * largest * (grid.error.max(initial=0.0) + position)
    reach = slope * x.error.max(initial=0.0) + moved + 8 * a.unit * largest
    return [Bounded(value, reach + unknown + np.zeros_like(value), np.abs(value))]


def _sample(node: Node, x: Floats, grid: Floats, mode: str) -> Floats:
    """The images at the points of a grid; padding is looked up pixel by pixel, as PyTorch does."""
    n, channels, *sizes = x.shape
    rank = len(sizes)
    aligned, padding = bool(node.attributes.get("align_corners")), str(node.attributes.get("padding_mode", "zeros"))
    if padding == "zeros":
        # A ring of zeros stands for all that lies outside.
        x = np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * rank])
    taps: list[list[tuple[np.ndarray, Floats]]] = []
    for axis, size in enumerate(sizes):
        at = grid[..., rank - 1 - axis]
        at = (at + 1) / 2 * (size - 1) if aligned else ((at + 1) * size - 1) / 2
        taps.append([(_look_up(place, size, padding, aligned), weight) for place, weight in _list_taps(at, mode)])
    found = np.zeros((n, channels, *grid.shape[1:-1]))
    which = np.arange(n).reshape(-1, *[1] * rank)
    for chosen in itertools.product(*taps):
        weight = np.prod([w for _, w in chosen], axis=0)
        read = x[(which, slice(None), *(place for place, _ in chosen))]
        found += weight[:, None] * np.moveaxis(read, -1, 1)
    return found


def _list_taps(at: Floats, mode: str) -> Iterator[tuple[Floats, Floats]]:
    """Along one axis: the pixels that are read, and their weights."""
    if mode == "nearest":
        yield np.rint(at), np.ones_like(at)
        return
    first = np.floor(at)
    share = at - first
    if mode == "linear":
        yield from ((first, 1 - share), (first + 1, share))
        return
    for step in range(-1, 3):
        away = np.abs(share - step)
        near = (_CUBIC + 2) * away**3 - (_CUBIC + 3) * away**2 + 1
        far = _CUBIC * (away**3 - 5 * away**2 + 8 * away - 4)
        yield first + step, np.where(away <= 1, near, far)


def _look_up(place: Floats, size: int, padding: str, aligned: bool) -> np.ndarray:
    """Pixels that exist, in place of those that do not."""
    if padding == "zeros":
        return np.clip(place + 1, 0, size + 1).astype(int)
    if padding == "reflection":
        low, span = (0.0, size - 1.0) if aligned else (-0.5, float(size))
        away = np.abs(place - low) % (2 * span) if span else np.zeros_like(place)
        place = low + np.minimum(away, 2 * span - away)
    return np.clip(place, 0, size - 1).astype(int)


def _clamp(node: Node, places: Floats, sizes: Sequence[int]) -> Floats:
    """Points outside the image moved between the middles of its first and last pixels; x comes first."""
    aligned = bool(node.attributes.get("align_corners"))
    most = np.array([1.0 if aligned else 1.0 - 1.0 / size for size in sizes[::-1]])
    return np.where((np.abs(places) > 1).any(-1, keepdims=True), np.clip(places, -most, most), places)


def _take_nearest(a: Arithmetic, node: Node, x: Bounded, grid: Bounded) -> Bounded:
    """The nearest pixels; where what a position is off by could choose another one, either may be right."""
    off = grid.error + 8 * a.unit * np.maximum(1.0, np.abs(grid.value))
    value, error = (_sample(node, part, grid.value, "nearest") for part in (x.value, x.error))
    for signs in itertools.product((-1.0, 1.0), repeat=grid.value.shape[-1]):
        moved = grid.value + np.array(signs) * off
        other, own = (_sample(node, part, moved, "nearest") for part in (x.value, x.error))
        error = np.maximum(error, np.abs(other - value) + own)
    return Bounded(value, error, np.abs(value))


RULES: dict[str, Rule] = {
    "GridSample": _sample_grid,
    "RoiAlign": _align,
    "MaxRoiPool": _pool_regions,
    "DeformConv": _deform,
}
