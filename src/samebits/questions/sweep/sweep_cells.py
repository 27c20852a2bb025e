"""Points of a sweep as cells: per axis the first and the last value."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.questions.sweep.sweep_schema import SizeOrSetting
from samebits.questions.sweep.sweep_text import Point, Range, list_intervals


def list_cells(ranges: Sequence[Range], points: Sequence[Point]) -> list[dict[str, list[SizeOrSetting]]]:
    """Cells that hold just these points: per axis the first and the last value, in the range's own sequence.

    Values that are words, as names of processors, have no values between them: each is a cell's own.
    """
    if not points:
        return []
    *before, last = ranges
    if not before:
        chosen = {point[last.name] for point in points}
        if _are_words(last):
            return [{last.name: [value, value]} for value in last.values if value in chosen]
        return [{last.name: [first, end]} for first, end in list_intervals(last.values, chosen)]
    first, *rest = ranges
    by_value: dict[SizeOrSetting, list[Point]] = {}
    for point in points:
        by_value.setdefault(point[first.name], []).append(point)
    cells: list[dict[str, list[SizeOrSetting]]] = []
    # Cells of the value before, by what they are along the other axes, and their place in the list.
    open_cells: dict[str, int] = {}
    for value in first.values:
        inner = list_cells(rest, by_value.get(value, []))
        still: dict[str, int] = {}
        for cell in inner:
            known = None if _are_words(first) else open_cells.get(repr(cell))
            if known is None:
                cells.append({first.name: [value, value], **cell})
                known = len(cells) - 1
            else:
                cells[known][first.name] = [cells[known][first.name][0], value]
            still[repr(cell)] = known
        open_cells = still
    return cells


def _are_words(axis: Range) -> bool:
    return any(isinstance(value, str) for value in axis.values)
