"""Dots and bands with their intervals: rates by name, scores over cost, differences over k, reviews."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt

from ui.charts.axes import count_axis, sample_axis, share_axis, share_ticks
from ui.charts.building import Rows, colour_by, data_of, frame_chart, legend_above, name_rows, percents
from ui.charts.theme import PALETTE, PANEL_TITLE, RULE, colours

SET_APART = "methods are moved apart a little; the tooltip and file give the exact cost"

_STEP = 0.015
"""Share of the scale by which the points of two methods are moved apart."""

_ROW, _AROUND = 30, 100
"""Pixels of a row of rates, and of title and axis."""


def rate_dots(
    data: Rows, rate: str, *, title: str, x_title: str, subtitle: str = "", colour: str = PALETTE[0]
) -> alt.LayerChart:
    """Return one row per name, in order: a dot on the bar of its interval (name, low, high, and `rate`)."""
    ticks = share_ticks([row[key] for row in data for key in ("low", "high")])
    axis = share_axis(ticks, grid=True, domain=False, labelOverlap="greedy", labelSeparation=8)
    layers = _interval_dots(
        alt.Chart(data_of(data)).encode(y=name_rows("name", [row["name"] for row in data], 180)),
        rate,
        lambda field: alt.X(f"{field}:Q", title=x_title, **axis),
        tooltip=[alt.Tooltip("name:N", title="of"), *percents(rate, "low", "high")],
        upright=False,
        color=colour,
    )
    height = _ROW * len(data) + _AROUND
    return frame_chart(alt.layer(*layers), title, subtitle, height=height, frame="bounds")


def cost_points(
    data: Rows, *, title: str, x_title: str, y_title: str, palette: Mapping[str, str] | None = None
) -> alt.LayerChart:
    """Return scores over cost from 0, as wide as its place; points of one label are joined.

    Methods are placed side by side around their cost, since matched budgets have one.
    """
    names = list(dict.fromkeys(row["label"] for row in data))
    chosen = colours(names, palette)
    most = max(row["cost"] for row in data) or 1
    middle = (len(names) - 1) / 2
    rows = [
        {**row, "place": row["cost"] + (names.index(row["label"]) - middle) * _STEP * most} for row in data
    ]
    x = alt.X(
        "place:Q",
        title=x_title,
        scale=alt.Scale(domain=[-middle * _STEP * most, most * 1.12], nice=False),
        axis=alt.Axis(tickCount=5, labelOverlap="greedy", labelSeparation=8, **count_axis(most)),
    )
    axis = share_axis(share_ticks([row[key] for row in rows for key in ("low", "high")]))

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", title=y_title, **axis)

    legend = legend_above(3, "circle", labelLimit=150, symbolOpacity=1)
    base = alt.Chart(data_of(rows)).encode(x=x, color=colour_by("label", chosen, legend))
    tooltip = [alt.Tooltip("label:N"), alt.Tooltip("cost:Q", title=x_title, format=",d")]
    tooltip += percents("value", "low", "high")
    bars, dots = _interval_dots(base, "value", y, tooltip=tooltip)
    lines = base.mark_line(strokeWidth=1.2).encode(y=y("value"))
    subtitle = SET_APART if len(names) > 1 else ""
    return frame_chart(alt.layer(bars, lines, dots), title, subtitle, height=320, **PANEL_TITLE)


def difference_chart(
    data: Rows, *, title: str, subtitle: str = "", reach: float | None = None, colour: str = PALETTE[0]
) -> alt.LayerChart:
    """Return differences over k on a log scale, as wide as its place; above 0 the first method is better.

    `reach` is the end of the vertical scale on both sides of 0, for charts that are compared.
    """
    points = [{**row, **{key: 100 * row[key] for key in ("difference", "low", "high")}} for row in data]
    most = 100 * reach if reach else max(abs(row[key]) for row in points for key in ("low", "high"))
    most = max(most, 1.0) * 1.05
    ks = sorted({row["k"] for row in data})
    x = sample_axis(ks[0], ks[-1], room=1.25)
    scale = alt.Scale(domain=[-most, most], nice=False)
    axis = alt.Axis(tickCount=7, labelExpr="datum.value === 0 ? '0' : format(datum.value, '+d')")

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", title="difference, points", scale=scale, axis=axis)

    zero = alt.Chart(data_of([{"zero": 0}])).mark_rule(color=RULE, strokeWidth=1.2)
    tooltip = [
        alt.Tooltip("k:Q"),
        *(alt.Tooltip(f"{key}:Q", format="+.1f") for key in ("difference", "low", "high")),
        alt.Tooltip("wins:Q", title="problems better"),
        alt.Tooltip("losses:Q", title="problems worse"),
    ]
    layers = _interval_dots(
        alt.Chart(data_of(points)).encode(x=x), "difference", y, tooltip=tooltip, size=80, color=colour
    )
    return frame_chart(
        alt.layer(zero.encode(y=y("zero")), *layers), title, subtitle, height=300, **PANEL_TITLE
    )


def _interval_dots(
    base: Any,
    value: str,
    across: Callable[[str], Any],
    *,
    tooltip: Sequence[Any],
    upright: bool = True,
    size: int = 90,
    **look: Any,
) -> list[Any]:
    """Return two layers: a bar from `low` to `high`, and a dot at `value`.

    `across` returns the encoding of a field on the scale of the values, which is vertical if `upright`.
    """
    along = "y" if upright else "x"
    bars = base.mark_rule(strokeWidth=6, opacity=0.28, strokeCap="round", **look)
    dots = base.mark_circle(size=size, opacity=1, **look)
    return [
        bars.encode(**{along: across("low"), f"{along}2": "high:Q"}),
        dots.encode(**{along: across(value)}, tooltip=list(tooltip)),
    ]
