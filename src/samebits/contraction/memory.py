"""How much memory is free now."""

from __future__ import annotations

from pathlib import Path

# Assumed where the system does not say.
_UNKNOWN_BYTES = 2.0**33


def count_available_bytes() -> float:
    """Bytes that can be taken without swapping (Linux's MemAvailable)."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return _UNKNOWN_BYTES
    found = [line for line in lines if line.startswith("MemAvailable")]
    return float(found[0].split()[1]) * 1024 if found else _UNKNOWN_BYTES
