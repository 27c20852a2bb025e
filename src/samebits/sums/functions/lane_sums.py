"""Sums of rows in float32 as vector code adds them: several running sums, joined at the end."""

from __future__ import annotations

import numpy as np


def add_in_lanes(rows: np.ndarray, lanes: int, join: str, *, masked: bool = False) -> np.ndarray:
    """The sum along the last axis: element i to lane i modulo `lanes`, then the lanes joined, then what is left over.

    Masked, what is left over is added to the lanes as well. `join` is that of `join_lanes`.

    >>> rows = np.array([[1e8, 1, -1e8, 1, 1]], np.float32)
    >>> float(add_in_lanes(rows, 2, "halves")[0]), float(add_in_lanes(rows, 1, "chain")[0])
    (3.0, 2.0)
    """
    count = rows.shape[-1]
    whole = count // lanes * lanes
    # Not from 0: the sum of negative zeros is one.
    sums = rows[..., :lanes].astype(np.float32) if whole else np.zeros((*rows.shape[:-1], lanes), np.float32)
    with np.errstate(all="ignore"):
        for start in range(lanes, whole, lanes):
            sums += rows[..., start : start + lanes]
        if masked:
            sums[..., : count - whole] += rows[..., whole:]
            return join_lanes(sums, join)
        total = join_lanes(sums, join) if whole else rows[..., 0]
        for i in range(max(whole, 1), count):
            total = total + rows[..., i]
    return total


def join_lanes(sums: np.ndarray, join: str) -> np.ndarray:
    """The sum of a power of two of lanes: by `halves`, upper onto lower, by `neighbours`, or as a `chain`."""
    with np.errstate(all="ignore"):
        while (width := sums.shape[-1]) > 1:
            if join == "halves":
                sums = sums[..., : width // 2] + sums[..., width // 2 :]
            elif join == "neighbours":
                sums = sums[..., ::2] + sums[..., 1::2]
            else:
                sums = np.add.accumulate(sums, -1, dtype=np.float32)[..., -1:]
    return sums[..., 0]


def add_aligned(rows: np.ndarray, lanes: int) -> np.ndarray:
    """The sum along the last axis by packets that begin where a row's address is a whole number of packets.

    The rows lie one behind the other, the first at a whole packet. So Eigen adds what lies in memory (`redux`); rows
    that begin alike are added at once.
    """
    count = rows.shape[-1]
    flat = rows.reshape(-1, count)
    starts = (-np.arange(len(flat)) * count) % lanes
    total = np.empty(len(flat), np.float32)
    for start in np.unique(starts):
        chosen = starts == start
        total[chosen] = add_packets(flat[chosen], lanes, int(start))
    return total.reshape(rows.shape[:-1])


def add_packets(rows: np.ndarray, lanes: int, start: int = 0) -> np.ndarray:
    """The sum along the last axis by whole packets from element `start` on, two packets at a time to two sums.

    What lies before and behind the packets is added last. So Eigen adds what it computes on the way (`start` 0).
    """
    count = rows.shape[-1]
    packets = [rows[..., i : i + lanes] for i in range(start, count - lanes + 1, lanes)]
    with np.errstate(all="ignore"):
        if not packets:
            return np.add.accumulate(rows, -1, dtype=np.float32)[..., -1]
        sums = packets[0]
        if len(packets) > 1:
            other = packets[1]
            paired = len(packets) // 2 * 2
            for i in range(2, paired, 2):
                sums, other = sums + packets[i], other + packets[i + 1]
            sums = sums + other
            if len(packets) > paired:
                sums = sums + packets[-1]
        total = join_lanes(sums, "halves")
        for i in (*range(start), *range(start + len(packets) * lanes, count)):
            total = total + rows[..., i]
    return total
