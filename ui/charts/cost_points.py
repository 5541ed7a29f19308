"""A score against what training had drawn: one point a method with its interval."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ui.charts.axes import count_axis, percent_format, share_ticks
from ui.charts.building import data_of
from ui.charts.tables import Frame, Row, in_order, read_rows
from ui.charts.theme import PANEL_TITLE, altair, colours, themed

if TYPE_CHECKING:
    from altair import LayerChart

__all__ = ["cost_points"]


SET_APART = "points of about the same cost are set apart; the tooltip and the file have it exactly"

_NEAR, _STEP = 0.02, 0.022
"""Shares of the scale: costs that are nearer than that are one, and how far their points stand apart."""


def cost_points(
    frame: Frame, *, title: str, x_title: str, y_title: str, palette: Mapping[str, str] | None = None
) -> "LayerChart":
    """Return scores over cost from 0, as wide as its place; points of one label are joined.

    Methods of (nearly) one cost, as with matched budgets, stand beside each other around it.

    Args:
        frame: label, cost (0 or more), value, low, high (shares from 0 to 1), run.
        palette: a colour for each label.

    Raises:
        InputError: no rows, values that cannot be drawn, or more labels than colours.
        PrerequisiteError: altair is not installed.
    """
    rows = read_rows(frame, texts=("label", "run"), numbers=("cost",), shares=("value", "low", "high"))
    names = in_order([row["label"] for row in rows])
    chosen = {name: palette[name] for name in names} if palette else colours(names)
    most = max(row["cost"] for row in rows) or 1
    shifts = _shifts(rows, most)
    rows = [{**row, "place": row["cost"] + shift} for row, shift in zip(rows, shifts, strict=True)]
    ticks = share_ticks([row[key] for row in rows for key in ("low", "high")])
    alt = altair()
    x = alt.X(
        "place:Q",
        title=x_title,
        scale=alt.Scale(domain=[0, most * 1.12], nice=False),
        axis=alt.Axis(tickCount=5, labelOverlap="greedy", labelSeparation=8, **count_axis(most)),
    )
    scale = alt.Scale(domain=[ticks[0], ticks[-1]], nice=False, zero=False)
    axis = alt.Axis(values=ticks, format=percent_format(ticks))

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", title=y_title, scale=scale, axis=axis)

    legend = alt.Legend(
        orient="top", title=None, columns=3, labelLimit=150, symbolType="circle", symbolOpacity=1
    )
    colour = alt.Color(
        "label:N", scale=alt.Scale(domain=list(chosen), range=list(chosen.values())), legend=legend
    )
    base = alt.Chart(data_of(rows)).encode(x=x, color=colour)
    bars = base.mark_rule(strokeWidth=6, opacity=0.28, strokeCap="round").encode(y=y("low"), y2="high:Q")
    lines = base.mark_line(strokeWidth=1.2).encode(y=y("value"))
    dots = base.mark_circle(size=90, opacity=1).encode(
        y=y("value"),
        tooltip=[
            alt.Tooltip("label:N"),
            alt.Tooltip("cost:Q", title=x_title, format=",d"),
            *(alt.Tooltip(f"{key}:Q", format=".1%") for key in ("value", "low", "high")),
        ],
    )
    chart = alt.layer(bars, lines, dots).properties(
        title=alt.TitleParams(title, subtitle=SET_APART if any(shifts) else "", **PANEL_TITLE),
        width="container",
        height=320,
        autosize=alt.AutoSizeParams(type="fit", contains="padding"),
    )
    return themed(chart)  # type: ignore[no-any-return]


def _shifts(rows: Sequence[Row], most: float) -> list[float]:
    """Return how far each point is moved, so that points of different labels at one cost can be seen."""
    shifts = []
    for row in rows:
        near = in_order([one["label"] for one in rows if abs(one["cost"] - row["cost"]) <= _NEAR * most])
        shifts.append((near.index(row["label"]) - (len(near) - 1) / 2) * _STEP * most)
    return shifts
