"""Charts of findings, by Altair: where errors are, their size over the bound, how they grow along a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from samebits.findings import ErrorPicture
from samebits.findings.model_schema import ModelComparison

# In pixels.
CHART_HEIGHT = 260
_TINY = 1e-12


def chart_places(picture: ErrorPicture) -> dict[str, Any]:
    """The largest share of the bound in every part of a result."""
    rows, columns = len(picture.cells), len(picture.cells[0])
    values = [
        {
            "row": _say_range(i, rows, picture.rows),
            "column": _say_range(j, columns, picture.columns),
            "i": i,
            "j": j,
            "share": None if share is None else max(share, _TINY),
            "state": "no finite bound" if share is None else "beyond" if share > 1 else "within",
        }
        for i, row in enumerate(picture.cells)
        for j, share in enumerate(row)
        if share is None or share > 0
    ]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_rect()
        .encode(
            x=alt.X("j:O", axis=None, scale=alt.Scale(domain=list(range(columns)))),
            y=alt.Y("i:O", axis=None, scale=alt.Scale(domain=list(range(rows)))),
            color=alt.Color(
                "share:Q",
                scale=alt.Scale(type="log", scheme="cividis"),
                legend=alt.Legend(title="error / bound", format=".1e"),
            ),
            tooltip=[
                alt.Tooltip("row:N", title=picture.row_axis),
                alt.Tooltip("column:N", title=picture.column_axis),
                alt.Tooltip("share:Q", title="error / bound", format=".3g"),
                alt.Tooltip("state:N", title="bound"),
            ],
        )
        .properties(width="container", height=CHART_HEIGHT)
    )
    return chart.to_dict()


def chart_sizes(picture: ErrorPicture) -> dict[str, Any]:
    """Errors of some outputs over the sums of magnitudes of their terms, with both bounds."""
    named = (("error", 1), ("bound", 2), ("likely bound", 3))
    values = [
        {"terms": point[0], "value": point[index], "what": name}
        for point in picture.points
        for name, index in named
        if point[0] and point[index]
    ]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_point(filled=True, size=28)
        .encode(
            x=alt.X(
                "terms:Q", scale=alt.Scale(type="log", nice=False, padding=12), title="sum of the terms' magnitudes"
            ),
            y=alt.Y(
                "value:Q", scale=alt.Scale(type="log"), title="distance from the truth", axis=alt.Axis(format=".0e")
            ),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=[n for n, _ in named], range=["#0072B2", "#D55E00", "#E69F00"]),
                legend=alt.Legend(title=None, orient="top"),
            ),
            shape=alt.Shape("what:N", legend=None),
            tooltip=[
                alt.Tooltip("what:N", title="shown"),
                alt.Tooltip("value:Q", title="distance", format=".3g"),
                alt.Tooltip("terms:Q", title="terms", format=".3g"),
            ],
        )
        .properties(width="container", height=CHART_HEIGHT)
        .interactive()
    )
    return chart.to_dict()


def chart_units(found: ModelComparison) -> dict[str, Any] | None:
    """Own and inherited errors of every side along a network's units; None where none are known."""
    values: list[dict[str, Any]] = []
    for number, unit in enumerate(found.units):
        for side in unit.sides:
            sizes = (
                ("own error", side.own.max_abs if side.own else None),
                ("inherited error", side.inherited.max_abs if side.inherited else None),
            )
            values += [
                {"unit": unit.name, "number": number, "side": side.name, "verdict": side.verdict, "what": w, "value": v}
                for w, v in sizes
                if v
            ]
    if not values:
        return None
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X("number:Q", title="unit, in the sequence of the network", axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("value:Q", scale=alt.Scale(type="log"), title="largest error", axis=alt.Axis(format=".0e")),
        color=alt.Color("side:N", scale=alt.Scale(range=["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9"])),
        shape=alt.Shape("what:N", legend=alt.Legend(title=None, orient="top")),
        tooltip=_list_tooltips(("unit", "side", "verdict", "what"), "value"),
    )
    layers = [base.mark_point(size=45)]
    first = next((i for i, unit in enumerate(found.units) if unit.name == found.first), None)
    if first is not None:
        mark = alt.Chart(alt.Data(values=[{"number": first, "says": f"first: {found.first}"}]))
        layers.append(mark.mark_rule(strokeDash=[4, 4], color="#D55E00").encode(x="number:Q", tooltip="says:N"))
    return alt.layer(*layers).properties(width="container", height=CHART_HEIGHT).interactive().to_dict()


def _list_tooltips(names: Sequence[str], number: str) -> list[alt.Tooltip]:
    return [*(alt.Tooltip(f"{n}:N") for n in names), alt.Tooltip(f"{number}:Q", format=".3g")]


def _say_range(index: int, count: int, size: int) -> str:
    first, last = index * size // count, (index + 1) * size // count - 1
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"
