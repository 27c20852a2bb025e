"""What the processor has that some engines' kernels, and so their bits, depend on."""

from pathlib import Path


def has_wide_vectors() -> bool:
    """Whether engines have their kernels for AVX-512 here, which some pages and tests show at work."""
    cpuinfo = Path("/proc/cpuinfo")
    return not cpuinfo.exists() or "avx512f" in cpuinfo.read_text()
