"""Errors and values as they stand in tables."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.findings import Error, Side, is_agreement

# Beyond this a count of representable numbers says that the sum is small, not that the error is large.
MANY_ULPS = 1000


def format_max_error(side: Side) -> str:
    """The largest error in representable numbers; where products cancel within the bound, a dash: it says nothing."""
    ulps = side.error.max_ulp if side.error else None
    if ulps is None or ulps == float("inf"):
        return "NaN/Inf"
    if ulps >= MANY_ULPS and is_agreement(side.verdict):
        return "-"
    return f"{ulps:,.0f} ulp" if ulps < MANY_ULPS else f"{ulps:.1e} ulp"


def format_share(error: Error | None) -> str:
    """The largest error as a share of its own bound."""
    share = error.max_over_bound if error else None
    return "beyond any" if share is None or share == float("inf") else f"{share:.2g}"


def format_value(value: float | None) -> str:
    """One value, in enough digits to tell it from its neighbours in float32."""
    return "NaN/Inf" if value is None else f"{value:.9g}"


def format_values(values: Sequence[float | None] | None) -> str:
    """All values of a small result."""
    return " ".join(map(format_value, values or []))
