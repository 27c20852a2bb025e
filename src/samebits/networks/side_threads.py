"""Work on several sides at once, in threads of our own with the modes that we compute in."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from samebits.machine import count_cores
from samebits.numbers.float_environment import reset_float_environment

ResultT = TypeVar("ResultT")


def do_at_once(works: Mapping[str, Callable[[], ResultT]]) -> dict[str, ResultT]:
    """The results of all works, by name and in their sequence; the first error is raised when all have ended.

    Most of the work is on arrays, during which other threads compute.
    """
    threads = min(count_cores(), len(works))
    if threads < 2:
        return {name: work() for name, work in works.items()}
    with ThreadPoolExecutor(threads, "samebits-side", reset_float_environment) as pool:
        # What NumPy warns of is part of the context, of which each thread needs a copy.
        futures = {name: pool.submit(contextvars.copy_context().run, work) for name, work in works.items()}
        return {name: future.result() for name, future in futures.items()}
