"""Pools of ONNX over windows, on arrays: the largest value or the sum of each window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from samebits.limits import STEPS


def view_windows(x: np.ndarray, attributes: Mapping[str, Any], filling: float) -> np.ndarray:
    """Every window of (N, C, spatial): shape (N, C, *outputs, *kernel); what lies outside is `filling`."""
    kernel = tuple(attributes["kernel_shape"])
    rank = len(kernel)
    strides = tuple(attributes.get("strides") or (1,) * rank)
    dilations = tuple(attributes.get("dilations") or (1,) * rank)
    pads = _find_pads(x.shape[2:], attributes)
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=filling)
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, 2 + rank)))
    steps = [slice(None, None, s) for s in strides]
    taps = [slice(None, None, d) for d in dilations]
    found = windows[(slice(None), slice(None), *steps, *taps)]
    STEPS.check(found.size, "a pool's windows")
    return found


def count_taps(x: np.ndarray, attributes: Mapping[str, Any]) -> np.ndarray:
    """How many elements each window of an average counts."""
    present = np.ones((1, 1, *x.shape[2:]))
    rank = len(attributes["kernel_shape"])
    if attributes.get("count_include_pad") and attributes.get("auto_pad", "NOTSET") == "NOTSET":
        # The padding that is named counts; what a window that rounding up made reaches beyond it does not.
        pads = tuple(attributes.get("pads") or (0,) * 2 * rank)
        present = np.pad(present, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)], constant_values=1.0)
        ends = _find_pads(x.shape[2:], attributes)
        beyond = [(0, end - pad) for (_, end), pad in zip(ends, pads[rank:], strict=True)]
        padded = np.pad(present, [(0, 0), (0, 0), *beyond])
        attributes = {**attributes, "pads": (0,) * 2 * rank, "ceil_mode": 0}
        return view_windows(padded, attributes, 0.0).sum(tuple(range(-rank, 0)))
    filling = 1.0 if attributes.get("count_include_pad") else 0.0
    return view_windows(present, attributes, filling).sum(tuple(range(-rank, 0)))


def _find_pads(sizes: tuple[int, ...], attributes: Mapping[str, Any]) -> list[tuple[int, int]]:
    """What is put before and behind each axis, with what a window that rounding up makes reaches beyond."""
    kernel = tuple(attributes["kernel_shape"])
    rank, auto = len(kernel), attributes.get("auto_pad", "NOTSET")
    strides = tuple(attributes.get("strides") or (1,) * rank)
    dilations = tuple(attributes.get("dilations") or (1,) * rank)
    given = tuple(attributes.get("pads") or (0,) * 2 * rank) if auto == "NOTSET" else (0,) * 2 * rank
    found: list[tuple[int, int]] = []
    for i, (size, k, s, d) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        reach = (k - 1) * d + 1
        begin, end = given[i], given[rank + i]
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            total = max((-(-size // s) - 1) * s + reach - size, 0)
            begin, end = total // 2, total - total // 2
            if auto == "SAME_LOWER":
                begin, end = end, begin
        elif attributes.get("ceil_mode"):
            over = (size + begin + end - reach) % s
            # A last window must begin inside of the data or of its first padding.
            outputs = (size + begin + end - reach) // s + 1
            if over and outputs * s < size + begin:
                end += s - over
        found.append((begin, end))
    return found
