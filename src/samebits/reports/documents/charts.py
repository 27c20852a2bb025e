"""Charts of findings, by Altair: where errors are, how large beside their bounds, how they grow along a network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import altair as alt

from samebits.findings import ErrorPicture
from samebits.findings.model_schema import ModelComparison
from samebits.findings.sweep_schema import SizeOrSetting, Sweep, SweepAxis
from samebits.wording.sweep_sentences import say_cell

_HEIGHT = 260
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
        .properties(width="container", height=_HEIGHT)
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
        .properties(width="container", height=_HEIGHT)
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
    return alt.layer(*layers).properties(width="container", height=_HEIGHT).interactive().to_dict()


def _list_tooltips(names: Sequence[str], number: str) -> list[alt.Tooltip]:
    return [*(alt.Tooltip(f"{n}:N") for n in names), alt.Tooltip(f"{number}:Q", format=".3g")]


def _say_range(index: int, count: int, size: int) -> str:
    first, last = index * size // count, (index + 1) * size // count - 1
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def chart_classes(found: Sweep) -> dict[str, Any]:
    """Each point of a sweep in the colour of its class: the first axis across, the second, if there is one, upwards."""
    spans = [_Span(axis) for axis in found.axes]
    across, upwards = spans[0], spans[1] if len(spans) > 1 else None
    values: list[dict[str, Any]] = []
    for number, one in enumerate(found.classes):
        for cell in one.cells:
            x, x2 = across.place(cell)
            y, y2 = upwards.place(cell) if upwards else (0, 1)
            values.append({"class": f"{number + 1}", "points": say_cell(cell), "x": x, "x2": x2, "y": y, "y2": y2})
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_rect(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X("x:Q", title=across.name, axis=across.draw(), scale=alt.Scale(nice=False, zero=False)),
            x2="x2:Q",
            y=alt.Y(
                "y:Q",
                title=upwards.name if upwards else None,
                axis=upwards.draw() if upwards else None,
                scale=alt.Scale(nice=False, zero=False),
            ),
            y2="y2:Q",
            color=alt.Color("class:N", legend=alt.Legend(title="class")),
            tooltip=[alt.Tooltip("class:N"), alt.Tooltip("points:N")],
        )
        .properties(width="container", height=_HEIGHT if upwards else _HEIGHT // 4)
    )
    return chart.to_dict()


class _Span:
    """Where the values of an axis lie: at their size where they are evenly spaced numbers, else one after the other."""

    def __init__(self, axis: SweepAxis) -> None:
        self.name, self.values = axis.name, axis.values
        sizes = [v for v in axis.values if isinstance(v, int)]
        steps = {b - a for a, b in pairwise(sizes)}
        self.step = 1 if len(sizes) < 2 else min(steps)
        self.is_even = len(sizes) == len(axis.values) and len(steps) <= 1 and self.step > 0
        starts = sizes if self.is_even else range(len(axis.values))
        self.starts: dict[SizeOrSetting, int] = dict(zip(axis.values, starts, strict=True))

    def place(self, cell: dict[str, list[SizeOrSetting]]) -> tuple[int, int]:
        """Where a run of values begins and ends."""
        first, *_, last = [*cell[self.name], cell[self.name][-1]]
        return self.starts[first], self.starts[last] + (self.step if self.is_even else 1)

    def draw(self) -> alt.Axis:
        """Ticks at values only, which they are labelled with."""
        if self.is_even:
            return alt.Axis(tickMinStep=self.step, format="d")
        names = json.dumps([str(v) for v in self.values])
        return alt.Axis(values=list(range(len(self.values))), labelExpr=f"{names}[datum.value]", labelAlign="left")
