"""What a list came to, and what changed between two, in sentences."""

from __future__ import annotations

from collections.abc import Mapping


def summarize_list(subjects: int, rows: int, deviating: int, known: int) -> str:
    """The answer in one sentence."""
    said = f"{subjects:,} subjects, {rows:,} rows: "
    if not deviating:
        return said + (f"nothing deviates but what is known ({known:,})" if known else "nothing deviates")
    return said + f"{deviating:,} deviate" + (f", beside {known:,} that are known" if known else "")


def summarize_changes(counts: Mapping[str, int], added: int, lost: int, rows: int) -> str:
    """The answer in one sentence."""
    parts = [f"{count:,} in {name}" for name, count in counts.items() if count]
    if added:
        parts.append(f"{added:,} rows are new")
    if lost:
        parts.append(f"{lost:,} are gone")
    return f"nothing changed in {rows:,} rows" if not parts else f"of {rows:,} rows changed: {', '.join(parts)}"
