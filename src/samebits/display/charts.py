"""Charts of findings, by Altair: where errors are, their size over the bound, how they grow along a network."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from typing import Any

import altair as alt

from samebits.display.visible_text import say_of_bound
from samebits.findings import ErrorPicture, Side, is_agreement
from samebits.findings.model_schema import ModelComparison

# Units that each have a tick of their own.
_MOST_TICKS = 60
# More arcs than this run into each other; and the points of each.
_MOST_ARCS, _ARC_STEPS = 200, 16
# In pixels.
CHART_HEIGHT = 260
_TINY = 1e-12
# Of a strip: its height; what is smaller stands at the left edge; the room right of the largest.
_STRIP, _LEAST_SHARE, _ROOM = 42, 1e-6, 3.0
# Colours with a contrast of at least 3:1 to both a white and a nearly black page (a test computes it).
BLUE, VERMILLION, GREEN, PURPLE, GREY = "#1F77B4", "#D55E00", "#00875F", "#A65FB5", "#7F7F7F"
COLOURS = [BLUE, VERMILLION, GREEN, PURPLE, GREY]


def chart_shares(sides: Sequence[Side]) -> dict[str, Any] | None:
    """For each side a strip from its smallest to its largest error, in bounds; None where no side has a picture."""
    values: list[dict[str, Any]] = []
    for side in sides:
        largest = side.error.max_over_bound if side.error else None
        points = side.picture.points if side.picture else []
        shares = sorted(point[1] / point[2] for point in points if point[1] is not None and point[2])
        if largest is None or not math.isfinite(largest) or not (shares or largest == 0):
            continue
        # Without an error a side stands at the left edge.
        shares = shares or [0.0]
        low, first, third = (_quantile(shares, share) for share in (0, 0.25, 0.75))
        values.append(
            {
                "side": side.name,
                "least": max(low, _LEAST_SHARE),
                "first": max(first, _LEAST_SHARE),
                "third": max(third, _LEAST_SHARE),
                "largest": max(largest, _LEAST_SHARE),
                "says": f"at most {say_of_bound(largest)}" if largest else "no error",
                "state": "beyond" if largest > 1 else "within",
            }
        )
    if not values:
        return None
    right = max(_ROOM * max(value["largest"] for value in values), _ROOM)
    scale = alt.Scale(type="log", domain=[_LEAST_SHARE, right], nice=False)
    axis = alt.Axis(title="error / bound", format="~g", tickCount=6)
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("side:N", sort=None, title=None, axis=alt.Axis(labelLimit=140)),
        color=alt.Color(
            "state:N",
            scale=alt.Scale(domain=["within", "beyond"], range=[BLUE, VERMILLION]),
            legend=alt.Legend(title=None, orient="top"),
        ),
        tooltip=_list_tooltips(("side", "says", "state")),
    )
    bound = alt.Chart(alt.Data(values=[{"one": 1, "says": "the bound"}])).mark_rule(strokeWidth=3, opacity=1)
    layers = [
        base.mark_bar(size=3, opacity=1).encode(x=alt.X("least:Q", scale=scale, axis=axis), x2="largest:Q"),
        base.mark_bar(size=14, opacity=1).encode(x=alt.X("first:Q", scale=scale), x2="third:Q"),
        base.mark_tick(size=20, thickness=3, opacity=1).encode(x=alt.X("largest:Q", scale=scale)),
        bound.encode(x=alt.X("one:Q", scale=scale), tooltip="says:N"),
    ]
    return alt.layer(*layers).properties(width="container", height=_STRIP * len(values)).to_dict()


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[round(share * (len(ordered) - 1))]


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
        .mark_point(filled=True, size=28, opacity=1)
        .encode(
            x=alt.X(
                "terms:Q", scale=alt.Scale(type="log", nice=False, padding=12), title="sum of the terms' magnitudes"
            ),
            y=alt.Y(
                "value:Q", scale=alt.Scale(type="log"), title="distance from the truth", axis=alt.Axis(format=".0e")
            ),
            color=alt.Color(
                "what:N",
                scale=alt.Scale(domain=[n for n, _ in named], range=[BLUE, VERMILLION, GREEN]),
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


def chart_units(found: ModelComparison, told: Collection[int]) -> dict[str, Any] | None:
    """Own and inherited errors of every side along a network's units; None where none are known.

    A click on a unit whose number is in `told` leads to its own part of the page.
    """
    values: list[dict[str, Any]] = []
    for number, unit in enumerate(found.units):
        for side in unit.sides:
            sizes = (
                ("own error", side.own.max_abs if side.own else None),
                ("inherited error", side.inherited.max_abs if side.inherited else None),
            )
            values += [
                {"unit": unit.name, "side": side.name, "verdict": side.verdict, "what": w, "value": float(f"{v:.4g}")}
                | ({"link": f"#{name_anchor(number)}"} if number in told else {})
                for w, v in sizes
                if v
            ]
    if not values:
        return None
    names = list(dict.fromkeys(unit.name for unit in found.units))
    place = alt.X(
        "unit:N",
        scale=alt.Scale(domain=names),
        title="unit, in the sequence of the network",
        axis=alt.Axis(labelAngle=-60, labelLimit=110, labelOverlap="greedy", ticks=len(names) <= _MOST_TICKS),
    )
    base = alt.Chart(alt.Data(values=values)).encode(
        x=place,
        y=alt.Y(
            "value:Q",
            scale=alt.Scale(type="log", padding=8),
            title="largest error",
            axis=alt.Axis(format=".0e", tickCount=6),
        ),
        color=alt.Color("side:N", scale=alt.Scale(range=COLOURS), legend=alt.Legend(title=None, orient="top")),
        shape=alt.Shape("what:N", legend=alt.Legend(title=None, orient="top")),
        href="link:N",
        tooltip=_list_tooltips(("unit", "side", "verdict", "what"), "value"),
    )
    layers = [base.mark_point(size=60, filled=True, opacity=1)]
    if found.first in names:
        mark = alt.Chart(alt.Data(values=[{"unit": found.first, "says": f"first: {found.first}"}]))
        layers.append(mark.mark_rule(strokeDash=[4, 4], strokeWidth=2).encode(x=place, tooltip="says:N"))
    return alt.layer(*layers).properties(width="container", height=CHART_HEIGHT).to_dict()


def chart_branches(found: ModelComparison) -> dict[str, Any] | None:
    """An arc from each unit to those further on that read what it makes; None where each feeds the next alone."""
    names = [unit.name for unit in found.units]
    makers = {value: i for i, unit in enumerate(found.units) for value in unit.outputs}
    arcs = {(makers[v], i) for i, unit in enumerate(found.units) for v in unit.inputs if v in makers}
    long = sorted(arc for arc in arcs if arc[1] - arc[0] > 1)
    if not long or len(long) > _MOST_ARCS:
        return None
    deviating = {i for i, unit in enumerate(found.units) if any(not is_agreement(s.verdict) for s in unit.sides)}
    values = [
        {
            "at": a + (b - a) * step / _ARC_STEPS,
            # Half an ellipse, as high as it is wide.
            "height": (b - a) * math.sqrt(max(0.0, 1 - (2 * step / _ARC_STEPS - 1) ** 2)),
            "arc": number,
            "says": f"{names[a]} is read by {names[b]}",
            "state": "deviates" if a in deviating else "agrees",
        }
        for number, (a, b) in enumerate(long)
        for step in range(_ARC_STEPS + 1)
    ]
    labels = json.dumps(names)
    axis = alt.Axis(
        title="unit, in the sequence of the network", labelExpr=f"{labels}[datum.value] || ''", labelAngle=-60,
        labelLimit=110, tickMinStep=1, labelOverlap="greedy",
    )  # fmt: skip
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_line(strokeWidth=2, opacity=1)
        .encode(
            x=alt.X("at:Q", axis=axis, scale=alt.Scale(domain=[0, len(names) - 1], nice=False)),
            y=alt.Y("height:Q", axis=None),
            detail="arc:N",
            order="at:Q",
            color=alt.Color(
                "state:N",
                scale=alt.Scale(domain=["agrees", "deviates"], range=[BLUE, VERMILLION]),
                legend=alt.Legend(title="what is read", orient="top"),
            ),
            tooltip=_list_tooltips(("says", "state")),
        )
        .properties(width="container", height=CHART_HEIGHT // 2)
    )
    return chart.to_dict()


def name_anchor(number: int) -> str:
    """The anchor of a unit's own part of the page."""
    return f"unit-{number}"


def _list_tooltips(names: Sequence[str], number: str | None = None) -> list[alt.Tooltip]:
    tips = [alt.Tooltip(f"{n}:N") for n in names]
    return [*tips, alt.Tooltip(f"{number}:Q", format=".3g")] if number else tips


def _say_range(index: int, count: int, size: int) -> str:
    first, last = index * size // count, (index + 1) * size // count - 1
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"
