"""Running all tiles of a plan on all cores: compiled work on plain threads, each with its own small buffers."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
import numpy.typing as npt

from samebits.contraction.plan import Contraction, Plan
from samebits.contraction.tiles import Blocks, choose_blocks

Progress = Callable[[float], None]
# work(contraction, its blocks, first tile, last tile + 1); must release the interpreter lock while it computes.
Work = Callable[[Contraction, Blocks, int, int], None]
# Enough for the threads to finish together, few enough that starting them costs nothing.
JOBS_PER_THREAD = 6


def run_tiles(plan: Plan, work: Work, *, threads: int | None = None, progress: Progress | None = None) -> None:
    """Calls `work` on runs of tiles until all are done; `progress` hears the share done after each run."""
    threads = threads or len(os.sched_getaffinity(0))
    jobs = [(c, choose_blocks(c)) for c in plan.contractions]
    total = sum(blocks.tasks for _, blocks in jobs)
    done = 0
    with ThreadPoolExecutor(threads) as pool:
        futures = {}
        for c, blocks in jobs:
            step = max(1, -(-blocks.tasks // (threads * JOBS_PER_THREAD)))
            for first in range(0, blocks.tasks, step):
                last = min(first + step, blocks.tasks)
                futures[pool.submit(work, c, blocks, first, last)] = last - first
        for future in as_completed(futures):
            future.result()
            done += futures[future]
            if progress:
                progress(done / total)


def as_codes(array: np.ndarray) -> tuple[np.ndarray, npt.NDArray[np.float32]]:
    """The array as tiles read it: float32 and float64 flat as they are, narrower ones as codes with a value table."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype in (np.float32, np.float64):
        return flat, np.zeros(1, np.float32)
    codes = np.dtype(f"uint{8 * flat.dtype.itemsize}")
    every_code = np.arange(2 ** (8 * flat.dtype.itemsize), dtype=codes)
    return flat.view(codes), every_code.view(flat.dtype).astype(np.float32)
