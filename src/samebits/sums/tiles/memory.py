"""How much memory is free now."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from samebits.errors import ResourceLimitError

# Assumed where the system does not say.
_UNKNOWN_BYTES = 2.0**33
_SYSTEM = Path("/")
# Python, NumPy, SciPy, LLVM and compiling take 0.7 GB of address space on one core; a thread's buffers 64 MiB.
_FEWEST_BYTES, _BYTES_A_CORE = 2**30, 2**26


def count_available_bytes(system: Path = _SYSTEM) -> float:
    """Bytes that can be taken without swapping: the machine's, or fewer where a container or a limit says so.

    Linux: MemAvailable, what the control group (version 2 or 1) leaves, and the limit on this process's address space.
    `system` is the folder that all these files are looked for in.
    """
    found = [_read_available(system), _left_in_group(system), _left_of_address_space(system)]
    return min((number for number in found if number is not None), default=_UNKNOWN_BYTES)


def check_address_space() -> None:
    """Raises ResourceLimitError where a limit on the address space is too narrow for the libraries that compute.

    OpenBLAS waits for ever where it gets no memory for its threads (measured at 0.6 GB on 2 cores; at 0.8 GB it runs).
    """
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        needed = _FEWEST_BYTES + _BYTES_A_CORE * (os.cpu_count() or 1)
        if most not in (resource.RLIM_INFINITY, -1) and most < needed:
            raise ResourceLimitError(
                f"the address space is limited to {most / 2**30:.1f} GiB (ulimit -v);"
                f" {needed / 2**30:.1f} GiB are needed"
            )


def _read_available(system: Path) -> float | None:
    available = _read_fields(system / "proc/meminfo").get("MemAvailable:")
    return available * 1024 if available is not None else None


def _left_in_group(system: Path) -> float | None:
    """What the group that this process sees as its own leaves; caches count as free, as they do in MemAvailable."""
    groups = system / "sys/fs/cgroup"
    for folder, limit, used in (
        (groups, "memory.max", "memory.current"),
        (groups / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        most, now = _read(folder / limit).strip(), _read(folder / used).strip()
        # "max" where there is no limit.
        if most.isdecimal() and now.isdecimal():
            fields = _read_fields(folder / "memory.stat")
            cached = fields.get("inactive_file", fields.get("total_inactive_file", 0.0))
            return max(float(most) - float(now) + cached, 0.0)
    return None


def _left_of_address_space(system: Path) -> float | None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        used = _read_fields(system / "proc/self/status").get("VmSize:")
        if most != resource.RLIM_INFINITY and used is not None:
            return max(float(most) - 1024 * used, 0.0)
    return None


def _read_fields(path: Path) -> dict[str, float]:
    """The whole numbers that stand behind a name, one in a line."""
    words = [line.split() for line in _read(path).splitlines()]
    return {w[0]: float(w[1]) for w in words if len(w) > 1 and w[1].isdecimal()}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
