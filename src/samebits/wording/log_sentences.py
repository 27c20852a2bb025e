"""What a log says of a mismatch, in sentences."""

from __future__ import annotations

from samebits.logs import Metrics


def say_metrics(metrics: Metrics) -> str:
    """The statistics that a log prints."""
    parts: list[str] = []
    if metrics.mismatched is not None and metrics.elements:
        parts.append(f"{metrics.mismatched:,} of {metrics.elements:,} elements differ by more than the tolerance")
    if metrics.max_abs is not None:
        parts.append(f"the largest difference is {metrics.max_abs:g}")
    if metrics.max_rel is not None:
        parts.append(f"relative {metrics.max_rel:g}, which says nothing where outputs are near zero")
    return ", ".join(parts) or "the log gives no statistics"
