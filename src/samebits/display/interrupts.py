"""An interrupt ends the program at once, whatever it is doing: with one line and exit status 2."""

from __future__ import annotations

import os
import signal
import sys

_TROUBLE = 2
# On a terminal: the line that shows progress is cleared, and the cursor it had hidden comes back.
_CLEARED_LINE = b"\r\x1b[K\x1b[?25h"
_INTERRUPTED = b"samebits: interrupted\n"


def end_on_interrupt() -> None:
    """From now on an interrupt (SIGINT) ends this process from a thread that waits for it.

    Python itself answers an interrupt between two of its own instructions, and waits for its threads afterwards:
    compiled code of ours or of a library may keep both waiting for minutes. Workers end with this process. Where
    interrupts are ignored, as in the background of a script, they stay ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    # The byte is written by the signal's C handler, which is there only while some handler is set.
    signal.signal(signal.SIGINT, lambda *_: None)
    # From here on nothing is lost: the byte waits in the pipe. (Importing threads takes longer than all above.)
    import threading

    threading.Thread(target=_wait_and_end, args=(read_end,), name="samebits-interrupts", daemon=True).start()


def ignore_interrupts() -> None:
    """The answer is given: an interrupt while the interpreter ends does not change its status any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _wait_and_end(read_end: int) -> None:
    while (seen := os.read(read_end, 1)) != bytes([signal.SIGINT]):
        if not seen:
            return
    try:
        # Not through sys.stderr, whose lock the interrupted thread may hold.
        os.write(2, (_CLEARED_LINE if os.isatty(2) else b"") + _INTERRUPTED)
        # Importing may wait for the interrupted thread; what is not imported has left nothing.
        folders = sys.modules.get("samebits.regular_files")
        if folders is not None:
            folders.remove_folders()
    finally:
        os._exit(_TROUBLE)
