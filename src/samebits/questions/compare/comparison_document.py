"""A comparison or an explanation as a document."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from samebits.display.charts import chart_places, chart_sizes
from samebits.display.document import (
    LEVEL_WORDS,
    TONES,
    Block,
    Cell,
    Chart,
    Code,
    Document,
    Prose,
    Section,
    Table,
    tabulate_fixes,
)
from samebits.display.order_drawing import draw_order
from samebits.display.visible_text import format_max_error, format_share, format_value, format_values
from samebits.errors import FindingError
from samebits.findings import Comparison, ErrorPicture, Side
from samebits.problems.problem_text import parse_problem_text
from samebits.sums.recipes import format_order, parse_recipe

_MOST_DRAWN = 4
# Magnitudes, error, bound and likely bound.
_POINT = 4
_LONGEST_RECIPE = 2000


def lay_out_comparison(found: Comparison) -> Document:
    """The answer, the sides, where errors are, how each side adds, what to change, how to see it again."""
    sections = [Section("Sides", [_tabulate_sides(found), *_list_values(found)])]
    drawn: dict[str, list[str]] = {}
    for side in found.sides:
        if side.picture:
            _check_picture(side.picture)
            drawn.setdefault(repr((side.picture, side.error)), []).append(side.name)
    for names in drawn.values():
        side = next(s for s in found.sides if s.name == names[0])
        sections.append(Section(f"Errors of {' and '.join(names)}", list(_draw_errors(side))))
    sections += [
        Section("How each side adds", list(_draw_orders(found))),
        Section("What to change", [tabulate_fixes(found.fixes)] if found.fixes else []),
        Section("How this is known", list(_list_evidence(found))),
        Section("Do it again", [Code("", command) for command in _list_commands(found)]),
        Section("The other mismatches of this log", list(_list_others(found))),
    ]
    count = f"{found.outputs:,} outputs, {found.reduction_length:,} products each; " if found.outputs else ""
    return Document(
        found.problem,
        found.verdict,
        TONES[found.verdict],
        found.summary,
        f"{count}operands: {found.data}",
        sections,
        found.samebits_version,
    ).without_empty()


def _check_picture(picture: ErrorPicture) -> None:
    """Raises FindingError for cells that are no rectangle, and points that are no four numbers."""
    widths = {len(row) for row in picture.cells}
    if len(widths) != 1 or 0 in widths or any(len(point) != _POINT for point in picture.points):
        raise FindingError(
            "the picture of a side's errors is damaged: its cells are no rectangle, or its points no points"
        )


def _tabulate_sides(found: Comparison) -> Table:
    rows = [
        (
            Cell(_name(side)),
            Cell(side.failure.kind if side.failure else side.verdict, TONES[side.verdict]),
            Cell(LEVEL_WORDS[side.certainty or "open"]),
            Cell(side.cause or "-"),
            Cell(LEVEL_WORDS[side.cause_certainty or "open"] if side.cause else "-"),
            Cell(format_max_error(side) if side.error else "-"),
            Cell(format_share(side.error) if side.error else "-"),
            Cell(f"{side.replay.count:,} of {side.replay.elements:,}" if side.replay else "-"),
        )
        for side in found.sides
    ]
    headings = (
        "side",
        "verdict",
        "evidence level",
        "cause",
        "evidence level",
        "max error",
        "error / bound",
        "bits replayed",
    )
    return Table(headings, rows)


def _name(side: Side) -> str:
    return f"{side.name} {side.version}" if side.version and side.engine and side.engine != "truth" else side.name


def _list_values(found: Comparison) -> Iterator[Block]:
    if found.truth is None:
        return
    rows = [(Cell("the truth"), Cell(format_values(found.truth), code=True))]
    rows += [(Cell(s.name), Cell(format_values(s.values), code=True)) for s in found.sides if s.values]
    yield Table(("side", "values"), rows)


def _draw_errors(side: Side) -> Iterator[Block]:
    picture = side.picture
    assert picture is not None
    share = format_share(side.error)
    where = f", {side.where}" if side.where else ""
    says = (
        f"Errors of {side.name} as shares of their bounds, {picture.rows:,} {picture.row_axis} from top to bottom,"
        f" {picture.columns:,} places ({picture.column_axis}) from left to right; the largest is {share}{where}."
    )
    yield Chart("error / bound over the result", says, chart_places(picture))
    likely = side.error.max_over_likely if side.error else None
    beside = f" The largest is {likely:.2g} of the likely bound." if likely is not None else ""
    says = f"Errors of {len(picture.points)} outputs of {side.name} and their bounds, over the size of their terms."
    yield Chart("error, bound and likely bound", says + beside, chart_sizes(picture))
    worst = side.worst
    if worst is not None:
        yield Prose(
            "Worst output",
            (f"{worst.index}: {format_value(worst.value)} where the truth is {format_value(worst.truth)}.",),
        )


def _draw_orders(found: Comparison) -> Iterator[Block]:
    drawn = 0
    for side in found.sides:
        if side.recipe is None:
            continue
        yield Code(f"Recipe of {side.name}", side.recipe)
        if len(side.recipe) <= _LONGEST_RECIPE and drawn < _MOST_DRAWN:
            drawn += 1
            recipe = parse_recipe(side.recipe)
            if recipe.algorithm is None:
                lines = draw_order(parse_problem_text(found.problem), format_order(recipe.orders[0]))
                yield Code(f"Order of {side.name}", "\n".join(lines), drawing=True)


def _list_evidence(found: Comparison) -> Iterator[Block]:
    if found.evidence:
        yield Prose("All sides", tuple(e.says for e in found.evidence))
    for side in found.sides:
        said = [e.says for e in side.evidence]
        if side.failure:
            said.append(side.failure.says)
        if side.settings:
            said.append("settings: " + ", ".join(f"{k}={v}" for k, v in side.settings.items()))
        if said:
            yield Prose(side.name, tuple(said))


def _list_commands(found: Comparison) -> Iterator[str]:
    engines = [s.name for s in found.sides if s.engine and s.engine != "truth"]
    if engines and found.data != "recorded":
        asked = " ".join(f"--on {shlex.quote(name)}" for name in engines)
        # Operands of a person's own stand in their file.
        subject = "CASE.npz" if found.data == "given" else shlex.quote(found.problem)
        yield f"samebits compare {subject} {asked}"
        yield f"samebits profile {shlex.quote(engines[0])} {shlex.quote(found.problem)}"
    elif found.line is not None:
        yield "samebits explain THE-LOG"
    elif found.outputs:
        yield "samebits explain CASE.npz"


def _list_others(found: Comparison) -> Iterator[Block]:
    if found.more:
        rows = [
            (
                Cell(str(one.line or "")),
                Cell(one.problem, code=True),
                Cell(one.verdict, TONES[one.verdict]),
                Cell(one.summary),
            )
            for one in found.more
        ]
        yield Table(("line", "problem", "verdict", "answer"), rows)
