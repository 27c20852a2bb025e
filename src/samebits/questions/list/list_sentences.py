"""What a list came to, and what changed between two, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def summarize_list(subjects: int, rows: int, deviating: int, known: int) -> str:
    """The answer in one sentence."""
    said = f"{subjects:,} subjects, {rows:,} rows: "
    if not deviating:
        return said + (f"nothing deviates but what is known ({known:,})" if known else "nothing deviates")
    return said + f"{deviating:,} deviate" + (f", beside {known:,} that are known" if known else "")


def say_damaged_lines(journal: str, lines: Sequence[int]) -> str:
    """What becomes of the lines of a journal that are not as they were written."""
    numbers = ", ".join(map(str, lines[:10])) + (", ..." if len(lines) > 10 else "")
    if len(lines) == 1:
        return f"line {numbers} of {journal} is damaged; its subject is asked again"
    return f"lines {numbers} of {journal} are damaged; their subjects are asked again"


def summarize_changes(counts: Mapping[str, int], added: int, lost: int, rows: int) -> str:
    """The answer in one sentence."""
    parts = [f"{count:,} in {name}" for name, count in counts.items() if count]
    if added:
        parts.append(f"{added:,} rows are new")
    if lost:
        parts.append(f"{lost:,} are gone")
    return f"nothing changed in {rows:,} rows" if not parts else f"of {rows:,} rows changed: {', '.join(parts)}"
