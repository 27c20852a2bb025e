"""A comparison or an explanation as a document."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from samebits.display.charts import chart_places, chart_shares, chart_sizes
from samebits.display.document import (
    TONES,
    Block,
    Cell,
    Chart,
    Code,
    Document,
    Prose,
    Section,
    Table,
    choose_remedy,
    tabulate_fixes,
)
from samebits.display.order_drawing import draw_order
from samebits.display.visible_text import (
    format_max_error,
    format_share,
    format_value,
    format_values,
    say_of_bound,
    say_terms,
)
from samebits.engines.registry.runner_text import can_be_typed
from samebits.errors import FindingError
from samebits.findings import Comparison, ErrorPicture, Side, is_agreement
from samebits.findings.words.level_words import say_level
from samebits.findings.words.number_words import say_times
from samebits.problems.problem_text import parse_problem_text
from samebits.sums.recipes import format_order, parse_recipe

_MOST_DRAWN = 4
# Magnitudes, error, bound and likely bound.
_POINT = 4
_LONGEST_RECIPE = 2000


def lay_out_comparison(found: Comparison) -> Document:
    """The answer, how far each side is from the truth, the sides, what to change, what is known of each side."""
    for side in found.sides:
        if side.picture:
            _check_picture(side.picture)
    sections = [
        Section("How far from the truth is each side?", list(_draw_shares(found))),
        Section("Sides", [_tabulate_sides(found), *_list_values(found)]),
        Section("What to change", [tabulate_fixes(found.fixes)] if found.fixes else []),
        Section("How this is known", [Prose("", tuple(e.says for e in found.evidence))] if found.evidence else []),
        *_tell_sides(found),
        *_tell_errors(found),
        Section("The other mismatches of this log", list(_list_others(found))),
    ]
    count = f"{found.outputs:,} outputs, {say_terms(found)} each; " if found.outputs else ""
    return (
        Document(
            found.problem,
            found.verdict,
            TONES[found.verdict],
            found.summary,
            f"{count}operands: {found.data}",
            sections,
            found.samebits_version,
            lead=_say_lead(found),
            remedy=choose_remedy(found.fixes, found.verdict),
            again=commands[0] if (commands := list(_list_commands(found))) else "",
            commands=tuple(commands[1:]),
        )
        .stamped(found.made)
        .without_empty()
    )


def _say_lead(found: Comparison) -> str:
    """The number that matters: how far the worst deviating side, or all sides, are from the truth, in bounds."""
    known = [(side, side.error.max_over_bound) for side in found.sides if side.error]
    shares = [(side, share) for side, share in known if share is not None and math.isfinite(share)]
    beyond = [(side, share) for side, share in shares if share > 1 and not is_agreement(side.verdict)]
    if beyond:
        side, share = max(beyond, key=lambda one: one[1])
        return f"The largest error of {side.name} is {say_times(share)} times what rounding can make (its bound)."
    if found.verdict == "rounding" and shares:
        return f"The largest error of all sides is {max(share for _, share in shares):.2g} of what rounding can make."
    return ""


def _draw_shares(found: Comparison) -> Iterator[Block]:
    spec = chart_shares(found.sides)
    if spec is None:
        return
    shares = [(s.name, format_share(s.error)) for s in found.sides if s.error]
    said = "; ".join(f"{name} at most {share}" for name, share in shares)
    says = f"Errors as multiples of their bounds, of which the middle half is drawn thick: {said}."
    says += " Rounding can make what is left of the line at 1; at the far left there is no error."
    yield Chart("", says, spec)


def _tell_sides(found: Comparison) -> Iterator[Section]:
    """What each side does and how it is known; open where the side deviates."""
    drawn = 0
    for side in found.sides:
        blocks: list[Block] = []
        said = [e.says for e in side.evidence] + ([side.failure.says] if side.failure else [])
        if said:
            blocks.append(Prose("", tuple(said)))
        if side.recipe:
            blocks.append(Code(f"Recipe of {side.name}", side.recipe))
            if len(side.recipe) <= _LONGEST_RECIPE and drawn < _MOST_DRAWN:
                drawn += 1
                blocks += _draw_order(found, side.name, side.recipe)
        if side.settings:
            blocks.append(Prose("Settings", (", ".join(f"{k}={v}" for k, v in side.settings.items()),)))
        says = side.says or ("has no result" if side.failure else side.verdict)
        yield Section(f"{side.name}: {says}", blocks, folded=is_agreement(side.verdict))


def _draw_order(found: Comparison, name: str, text: str) -> Iterator[Block]:
    recipe = parse_recipe(text)
    if recipe.algorithm is None:
        lines = draw_order(parse_problem_text(found.problem), format_order(recipe.orders[0]))
        yield Code(f"Order of {name}", "\n".join(lines), drawing=True)


def _tell_errors(found: Comparison) -> Iterator[Section]:
    """Where the errors are and how large, once for sides that have the same."""
    drawn: dict[str, list[Side]] = {}
    for side in found.sides:
        if side.picture:
            drawn.setdefault(repr((side.picture, side.error)), []).append(side)
    for sides in drawn.values():
        title = f"Errors of {' and '.join(side.name for side in sides)}: at most"
        share = sides[0].error.max_over_bound if sides[0].error else None
        yield Section(f"{title} {say_of_bound(share)}", list(_draw_errors(sides[0])), folded=True)


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
            Cell(say_level(side.certainty)),
            Cell(side.cause or "-"),
            Cell(say_level(side.cause_certainty) if side.cause else "-"),
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
    share = side.error.max_over_bound if side.error else None
    where = f", {side.where}" if side.where else ""
    if _has_structure(picture):
        says = (
            f"Errors of {side.name} as shares of their bounds, {picture.rows:,} {picture.row_axis} from top to bottom,"
            f" {picture.columns:,} places ({picture.column_axis}) from left to right; the"
            f" largest is {say_of_bound(share)}{where}."
        )
        yield Chart("error / bound over the result", says, chart_places(picture))
    likely = side.error.max_over_likely if side.error else None
    beside = f" The largest is {likely:,.3g} of the likely bound." if likely is not None else ""
    says = f"Errors of {len(picture.points)} outputs of {side.name} and their bounds, over the size of their terms."
    yield Chart("error, bound and likely bound", says + beside, chart_sizes(picture))
    worst = side.worst
    if worst is not None:
        yield Prose(
            "Worst output",
            (f"{worst.index}: {format_value(worst.value)} where the truth is {format_value(worst.truth)}.",),
        )


def _has_structure(picture: ErrorPicture) -> bool:
    """Whether errors are beyond their bounds in a part of the result, and within them in another: then places tell."""
    beyond = [share is None or share > 1 for row in picture.cells for share in row]
    return any(beyond) and not all(beyond)


def _list_commands(found: Comparison) -> Iterator[str]:
    engines = [s.name for s in found.sides if s.engine and s.engine != "truth"]
    if not all(map(can_be_typed, engines)):
        # Functions and objects of a program have no text.
        return
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
