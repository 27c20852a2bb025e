"""The chart of a sweep: every point in the colour of its class."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import altair as alt

from samebits.display.charts import CHART_HEIGHT, COLOURS
from samebits.questions.sweep.sweep_schema import SizeOrSetting, Sweep, SweepAxis
from samebits.questions.sweep.sweep_sentences import say_cell


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
        .mark_rect(stroke="white", strokeWidth=0.5, opacity=1)
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
            color=alt.Color("class:N", scale=alt.Scale(range=COLOURS), legend=alt.Legend(title="class")),
            tooltip=[alt.Tooltip("class:N"), alt.Tooltip("points:N")],
        )
        .properties(width="container", height=CHART_HEIGHT if upwards else CHART_HEIGHT // 4)
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
            # A square ends where the next size would begin, which was not asked.
            last = max(self.starts.values())
            return alt.Axis(tickMinStep=self.step, format="d", labelExpr=f"datum.value <= {last} ? datum.label : ''")
        names = json.dumps([str(v) for v in self.values])
        return alt.Axis(values=list(range(len(self.values))), labelExpr=f"{names}[datum.value]", labelAlign="left")
