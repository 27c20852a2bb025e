"""How much memory this process took at most."""

import resource
from pathlib import Path


def read_peak_bytes() -> int:
    """The most memory that this program held since it was started.

    Linux's `ru_maxrss` of a program that a large process started is at least that process's size at the start
    (getrusage(2) keeps it over exec); `VmHWM` (proc(5)) begins with the program.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
