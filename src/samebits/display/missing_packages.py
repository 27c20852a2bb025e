"""What is said where packages that pages are made with are missing."""

from __future__ import annotations

from samebits.errors import FindingError


def report_missing(error: ModuleNotFoundError) -> FindingError:
    """The error that names the missing package and the extra that brings it."""
    return FindingError(
        f"pages and Markdown need more packages: pip install 'samebits[report]' ({error.name} is missing)"
    )
