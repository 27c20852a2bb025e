"""Pages of docs/ that benchmarks write: a title, where the numbers were measured, the tables."""

from __future__ import annotations

from pathlib import Path

from samebits.questions.doctor.inventory import take_inventory
from samebits.version import VERSION


def write_page(path: Path, title: str, about: str, tables: str) -> None:
    """Replaces a page. `about` says what was counted and ends with a full stop."""
    found = take_inventory()
    place = f"Measured with samebits {VERSION} on {found.cores} cores of an {found.processor}."
    path.write_text(f"# {title}\n\n{about}\n{place}\n\n{tables.rstrip()}\n")
