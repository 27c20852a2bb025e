"""A case file's contents for people."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from samebits.display.page_layout import Page, Remark, add_row, indent, make_table, open_console
from samebits.display.visible_text import format_value, make_visible
from samebits.questions.case.case_schema import ArrayContents, CaseContents


def show_case(found: CaseContents, console: Console | None = None, *, verbose: bool = True) -> None:
    """Prints what a case file holds to the console (standard output by default)."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    page.add(Text(found.problem or "(no problem is named)", style="bold"), Text(found.path, style="dim"))
    table = make_table("array", "is", "shape", "dtype", "values")
    for array in found.arrays:
        add_row(table, array.name, array.role, "x".join(map(str, array.shape)), array.dtype, _say_values(array))
    page.add(indent(table))
    if any(array.role != "operand" for array in found.arrays):
        options = [""] if found.problem else [f' --problem "{text}"' for text in found.allowed_problems]
        page.add([Remark("next", f"samebits explain {found.path}{option}", verbatim=True) for option in options])
    page.print_to(console, verbose=verbose)


def _say_values(array: ArrayContents) -> str:
    numbers = "none finite" if array.least is None else f"{format_value(array.least)} to {format_value(array.largest)}"
    return numbers + (f", {array.not_finite:,} not finite" if array.not_finite else "")
