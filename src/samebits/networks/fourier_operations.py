"""DFT and STFT: sums of products with roots of unity, which engines make by any of many algorithms; mel weights.

A sum of n products of an element and a root, which is itself rounded, is off by at most (n + 8) u of the sum of
magnitudes in any order; fast algorithms add fewer terms (Higham, chapter 24), those for sizes that are no power of two
compute up to four such transforms of twice the size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from samebits.networks import bounded
from samebits.networks.bounded import Arithmetic, Bounded
from samebits.networks.network import Node
from samebits.networks.values import Rule, Value, list_floats, read_whole

_TIMES, _MORE = 8, 64
# The mel of a frequency is 2595 log10(1 + hertz / 700); float32 passes through that, its inverse and a quotient.
_MEL, _CORNER, _BIN_ROUNDINGS = 2595.0, 700.0, 64


def _bound(a: Arithmetic, value: np.ndarray, size: np.ndarray, error: np.ndarray, count: int) -> Bounded:
    """A transform of elements whose magnitudes come to `size`, whose errors come to `error`."""
    growth = (_TIMES * count + _MORE) * a.unit
    return Bounded(value, error + growth * (size + error) + count * a.least, np.abs(value))


def _transform(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    x = list_floats(inputs[:1])[0]
    length = read_whole(inputs[1] if len(inputs) > 1 else None)
    given = read_whole(inputs[2] if len(inputs) > 2 else None)
    # To opset 19 the axis was an attribute, by default the second; now it is an input, by default the last but one.
    if not given and "axis" not in node.attributes and x.value.ndim != 3:
        return None
    axis = given[0] if given else int(node.attributes.get("axis", 1))
    axis %= x.value.ndim
    is_inverse, is_half = bool(node.attributes.get("inverse")), bool(node.attributes.get("onesided"))
    if is_inverse and is_half:
        return None
    count = length[0] if length else x.value.shape[axis]
    waves = x.value[..., 0] + (1j * x.value[..., 1] if x.value.shape[-1] == 2 else 0.0)
    found = np.fft.ifft(waves, count, axis) if is_inverse else np.fft.fft(waves, count, axis)
    if is_half:
        found = np.take(found, np.arange(count // 2 + 1), axis)
    share = 1.0 / count if is_inverse else 1.0
    kept = [slice(None)] * x.value.ndim
    kept[axis] = slice(count)
    size, error = (part[tuple(kept)].sum((axis, -1), keepdims=True) * share for part in (np.abs(x.value), x.error))
    return [_bound(a, np.stack([found.real, found.imag], -1), size, error, count)]


def _transform_frames(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    x = list_floats(inputs[:1])[0]
    step = (read_whole(inputs[1]) or (1,))[0]
    window = list_floats(inputs[2:3])[0] if len(inputs) > 2 and inputs[2] is not None else None
    length = read_whole(inputs[3] if len(inputs) > 3 else None)
    count = length[0] if length else (window.value.shape[0] if window is not None else 0)
    if not count or x.value.shape[-1] != 1 or x.value.ndim != 3:
        return None
    weights = Bounded(np.ones(count), np.zeros(count), np.ones(count)) if window is None else window
    frames, errors = (
        np.lib.stride_tricks.sliding_window_view(part[..., 0], count, 1)[:, ::step] for part in (x.value, x.error)
    )
    found = np.fft.fft(frames * weights.value, axis=-1)
    if node.attributes.get("onesided", 1):
        found = found[..., : count // 2 + 1]
    size = (np.abs(frames) * np.abs(weights.value)).sum(-1)[..., None, None]
    error = (errors * (np.abs(weights.value) + weights.error) + np.abs(frames) * weights.error).sum(-1)[..., None, None]
    return [_bound(a, np.stack([found.real, found.imag], -1), size, error, count + 1)]


def _weigh_bands(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """MelWeightMatrix: triangles between whole bins; nothing where rounding decides which bin a frequency is in."""
    bands, length, rate, *edges = (float(v.value.reshape(-1)[0]) for v in list_floats(inputs))
    if any(isinstance(v, Bounded) and v.error.any() for v in inputs):
        return None
    low, high = (_MEL * np.log10(1.0 + edge / _CORNER) for edge in edges)
    count = int(bands)
    steps = np.arange(count + 2) * ((high - low) / (count + 2)) + low
    exact = (length + 1) * _CORNER * (10.0 ** (steps / _MEL) - 1.0) / rate
    off = _BIN_ROUNDINGS * 2.0**-24 * (1.0 + np.abs(exact)) * (1.0 + np.abs(steps) / _MEL)
    bins = np.floor(exact)
    if not np.array_equal(np.floor(exact - off), np.floor(exact + off)):
        return None
    places = np.arange(int(length) // 2 + 1)[:, None]
    start, middle, end = bins[:-2], bins[1:-1], bins[2:]
    with np.errstate(divide="ignore", invalid="ignore"):
        rise = np.where(middle == start, places == middle, (places - start) / (middle - start))
        fall = (end - places) / (end - middle)
    value = np.where((places >= start) & (places <= middle), rise, 0.0)
    value = np.where((places >= middle) & (places < end) & (end > middle), fall, value)
    return [bounded.rounded(a, value, np.zeros_like(value), 2.0)]


RULES: dict[str, Rule] = {"DFT": _transform, "STFT": _transform_frames, "MelWeightMatrix": _weigh_bands}
