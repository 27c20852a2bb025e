"""The machine that computes here: its processor, and how many of its cores this process may use."""

from __future__ import annotations

import os
import platform
from pathlib import Path

# Processor features that decide which kernels engines choose.
_TELLING_FEATURES = (
    "sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni", "avx512_bf16",
    "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8", "amx_fp16", "asimd", "asimddp", "asimdhp", "bf16", "i8mm",
    "sve", "sve2", "sme",
)  # fmt: skip
# Those of them that say which generation it is.
_WIDEST_FEATURES = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "bf16", "sve", "sme")


def list_processor_features() -> list[str]:
    """The features that decide which kernels engines choose, as the operating system names them."""
    for line in read_lines("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        if key.strip().lower() in ("flags", "features"):
            present = set(value.split())
            return [f for f in _TELLING_FEATURES if f in present]
    return []


def describe_processor() -> str:
    """The processor's name with what decides kernels: hosts may call processors of two generations by one name."""
    kinds: dict[str, str] = {}
    for line in read_lines("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        kinds.setdefault(key.strip().lower(), value.strip())
    model = " ".join(f"{key} {kinds[key]}" for key in ("cpu family", "model", "cpu part") if key in kinds)
    features = [f for f in list_processor_features() if f in _WIDEST_FEATURES]
    return ", ".join(part for part in (find_processor_name(), model, " ".join(features)) if part)


def find_processor_name() -> str:
    """The processor's name, as the operating system gives it."""
    for line in read_lines("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def count_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe_machine() -> str:
    """The processor and how many of its cores this process may run on."""
    return f"{describe_processor()}, {count_cores()} cores"


def read_lines(path: str) -> list[str]:
    """The lines of a file of the operating system's; none where it has no such file."""
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
