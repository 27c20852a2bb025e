"""Numbers as people say them."""

from __future__ import annotations

_WHOLE, _BEYOND_COUNTING = 100, 1e7


def say_times(factor: float) -> str:
    """A factor as people say it: 370, 2.4, 12,000; a power of ten where it is beyond counting.

    >>> say_times(0.0238), say_times(461.3), say_times(12_345), say_times(3e20)
    ('0.024', '461', '12,300', '3e+20')
    """
    if factor >= _BEYOND_COUNTING:
        return f"{factor:.0e}"
    return f"{float(f'{factor:.3g}'):,.0f}" if factor >= _WHOLE else f"{factor:.2g}"


def say_count(count: int, thing: str) -> str:
    """1 problem, 1,200 problems.

    >>> say_count(1, "key"), say_count(1200, "key")
    ('1 key', '1,200 keys')
    """
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
