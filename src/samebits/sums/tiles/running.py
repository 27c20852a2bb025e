"""Running all tiles of a plan on all cores: compiled work on plain threads, each with its own small buffers."""

from __future__ import annotations

import math
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
import numpy.typing as npt

from samebits.machine import count_cores
from samebits.numbers.float_environment import reset_float_environment
from samebits.progress import Progress, ignore_progress
from samebits.sums.tiles.blocks import Blocks, Buffers, choose_blocks, count_doubles, place_buffers
from samebits.sums.tiles.compiled_cache import compiled
from samebits.sums.tiles.plan import Contraction, Plan

# work(contraction, its blocks, first tile, last tile + 1, buffers); must release the interpreter lock to compute.
Work = Callable[[Contraction, Blocks, int, int, Buffers], None]
# Enough for the threads to finish together, few enough that starting them costs nothing.
JOBS_PER_THREAD = 4
# Half a second of the slowest work, one float64 output after the other.
_PRODUCTS_AT_ONCE = 2**25
# Products that one thread alone adds up in a fraction of a millisecond.
_FEWEST_SHARED = 2**18
# Working memory of threads that have finished, for the next ones: fresh pages cost more than some layers take.
_arenas: queue.SimpleQueue[np.ndarray] = queue.SimpleQueue()
_LARGEST_KEPT_DOUBLES = 2**21
# So many numbers of a narrow format are widened to float32 at once (64 MiB); reading codes takes longer.
_MOST_WIDENED = 2**24
_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):
    # A forked child has the pools' objects but none of their threads.
    os.register_at_fork(after_in_child=_pools.clear)


def run_tiles(
    plan: Plan, work: Work, doing: str, *, threads: int | None = None, progress: Progress = ignore_progress
) -> None:
    """Calls `work` on runs of tiles until all are done; `progress` hears of `doing` and its share after each run."""
    threads = threads or count_cores()
    jobs = [(c, choose_blocks(c, threads)) for c in plan.contractions]
    total = sum(blocks.tasks for _, blocks in jobs)
    done = 0
    given_up = threading.Event()

    def run(c: Contraction, blocks: Blocks, first: int, last: int) -> int:
        arena = _take_arena(count_doubles(blocks))
        buffers, at_once = place_buffers(blocks, arena), _count_tiles_at_once(c, blocks)
        for start in range(first, last, at_once):
            if given_up.is_set():
                break
            work(c, blocks, start, min(start + at_once, last), buffers)
        if arena.size <= _LARGEST_KEPT_DOUBLES:
            _arenas.put(arena)
        return last - first

    if not jobs:
        # No product reaches any output: all are cropped away.
        return
    if total * max(math.prod((b.rows, b.batch, *b.outputs)) * c.reduction_length for c, b in jobs) < _FEWEST_SHARED:
        # Handing it out would take longer.
        for c, blocks in jobs:
            run(c, blocks, 0, blocks.tasks)
        progress(doing, 1.0)
        return
    pool = find_pool(threads)
    futures = []
    for c, blocks in jobs:
        step = max(1, -(-blocks.tasks // (threads * JOBS_PER_THREAD)))
        for first in range(0, blocks.tasks, step):
            futures.append(pool.submit(run, c, blocks, first, min(first + step, blocks.tasks)))
    try:
        for future in as_completed(futures):
            done += future.result()
            progress(doing, done / total)
    finally:
        # After an error or an interrupt nobody wants the rest.
        given_up.set()
        for future in futures:
            future.cancel()


def _count_tiles_at_once(c: Contraction, blocks: Blocks) -> int:
    """Tiles that take a fraction of a second: between them a thread notices that nobody wants the rest."""
    products = blocks.rows * blocks.batch * math.prod(blocks.outputs) * c.reduction_length
    return max(_PRODUCTS_AT_ONCE // max(products, 1), 1)


def find_pool(threads: int) -> ThreadPoolExecutor:
    """The pool of that many threads, kept from call to call: starting threads takes as long as a small layer."""
    if threads not in _pools:
        pool = ThreadPoolExecutor(threads, "samebits", reset_float_environment)
        # An interrupt between a worker's start and its registration leaves a thread that nobody ever ends, and so a
        # program that never ends. Interrupts reach the main thread only; a worker that is registered ends all others.
        starter = threading.Thread(target=pool.submit, args=(int,))
        starter.start()
        starter.join()
        _pools[threads] = pool
    return _pools[threads]


def _take_arena(size: int) -> npt.NDArray[np.float64]:
    """An array of at least `size` doubles with any content; one too small is dropped."""
    try:
        arena = _arenas.get_nowait()
    except queue.Empty:
        return np.empty(size)
    return arena if arena.size >= size else np.empty(size)


@compiled
def _widen_halves(codes, bits, values):
    """float16 as float32, of which `bits` are the codes; faster than NumPy's conversion, which takes one at a time."""
    for i in range(codes.size):
        magnitude = np.uint32(codes[i] & 0x7FFF)
        # Infinity and NaN keep an exponent of all ones; other exponents are 112 too small.
        beyond = magnitude >= 0x7C00
        bits[i] = (magnitude << 13) | np.uint32(0x7F800000 if beyond else 0)
    for i in range(codes.size):
        if bits[i] < 0x7F800000:
            values[i] *= np.float32(2.0**112)
    for i in range(codes.size):
        bits[i] |= np.uint32(codes[i] & 0x8000) << 16


def as_codes(array: np.ndarray) -> tuple[np.ndarray, npt.NDArray[np.float32]]:
    """The array as tiles read it: float32 and float64 flat as they are, narrower ones widened.

    Where that takes much memory they stay codes, with a table of their values.
    """
    # Compiled code is made for one type of array: read-only, as a view of any array can be.
    flat = np.require(array, requirements=["C", "A"]).reshape(-1).view()
    flat.flags.writeable = False
    if flat.dtype in (np.float32, np.float64):
        return flat, np.zeros(1, np.float32)
    if flat.size <= _MOST_WIDENED:
        wide = np.empty(flat.shape, np.float32)
        if flat.dtype == np.float16:
            _widen_halves(flat.view(np.uint16), wide.view(np.uint32), wide)
        else:
            wide[...] = flat
        wide.flags.writeable = False
        return wide, np.zeros(1, np.float32)
    codes = np.dtype(f"uint{8 * flat.dtype.itemsize}")
    every_code = np.arange(2 ** (8 * flat.dtype.itemsize), dtype=codes)
    return flat.view(codes), every_code.view(flat.dtype).astype(np.float32)
