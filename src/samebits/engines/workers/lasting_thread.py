"""One thread that lasts as long as this program, and starts processes for all others.

A worker asks the kernel to be ended with its parent, and the kernel takes the *thread* that started it for the parent:
a worker started by a thread of a caller's that ends would be ended too.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class _LastingThread:
    """The thread of one process; a forked child has none of its parent's threads and makes its own."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="samebits-starter", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], ResultT]) -> ResultT:
        """What the function returns or raises, called in the thread."""
        future: Future[ResultT] = Future()
        self._tasks.put((future, function))
        return future.result()

    def _work(self) -> None:
        while True:
            future, function = self._tasks.get()
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
            del future, function


_threads: dict[int, _LastingThread] = {}
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):
    # A lock that another thread holds while this one forks would be held for ever in the child.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def call_in_lasting_thread(function: Callable[[], ResultT]) -> ResultT:
    """Calls a function in this process's lasting thread and returns, or raises, what it does."""
    process = os.getpid()
    with _lock:
        if process not in _threads:
            _threads[process] = _LastingThread()
        thread = _threads[process]
    return thread.call(function)
