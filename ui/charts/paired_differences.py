"""Paired differences of two methods over k: points with intervals around the line of no difference."""

from typing import TYPE_CHECKING, Any

from ui.charts.axes import power_ticks
from ui.charts.building import data_of
from ui.charts.tables import Frame, read_rows
from ui.charts.theme import PALETTE, PANEL_TITLE, RULE, altair, themed

if TYPE_CHECKING:
    from altair import LayerChart

__all__ = ["difference_chart"]


def difference_chart(
    frame: Frame, *, title: str, subtitle: str = "", reach: float | None = None, colour: str = PALETTE[0]
) -> "LayerChart":
    """Return differences over k on a log scale, as wide as its place; above 0 the first method is better.

    Args:
        frame: k, difference, low, high, in shares from -1 to 1; wins, losses (problems).
        reach: of the vertical scale to both sides of 0, for charts that are compared.

    Raises:
        InputError: no rows, or values that cannot be drawn.
        PrerequisiteError: altair is not installed.
    """
    rows = read_rows(frame, numbers=("k", "difference", "low", "high", "wins", "losses"))
    alt = altair()
    points = [{**row, **{key: 100 * row[key] for key in ("difference", "low", "high")}} for row in rows]
    most = 100 * reach if reach else max(abs(row[key]) for row in points for key in ("low", "high"))
    most = max(most, 1.0) * 1.05
    ks = sorted({int(row["k"]) for row in rows})
    x = alt.X(
        "k:Q",
        title="k (samples)",
        scale=alt.Scale(type="log", base=2, domain=[ks[0] / 1.25, ks[-1] * 1.25], nice=False),
        axis=alt.Axis(values=power_ticks(ks[0], ks[-1], 8), format="d", labelFlush=False),
    )
    scale = alt.Scale(domain=[-most, most], nice=False)
    axis = alt.Axis(tickCount=7, format="+d")

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", title="difference, points", scale=scale, axis=axis)

    base = alt.Chart(data_of(points)).encode(x=x)
    zero = alt.Chart(data_of([{"zero": 0}])).mark_rule(color=RULE, strokeWidth=1.2)
    bars = base.mark_rule(strokeWidth=6, opacity=0.28, strokeCap="round", color=colour)
    dots = base.mark_circle(size=80, opacity=1, color=colour).encode(
        y=y("difference"),
        tooltip=[
            alt.Tooltip("k:Q"),
            *(alt.Tooltip(f"{key}:Q", format="+.1f") for key in ("difference", "low", "high")),
            alt.Tooltip("wins:Q", title="problems better"),
            alt.Tooltip("losses:Q", title="problems worse"),
        ],
    )
    chart = alt.layer(zero.encode(y=y("zero")), bars.encode(y=y("low"), y2="high:Q"), dots).properties(
        title=alt.TitleParams(title, subtitle=subtitle, **PANEL_TITLE),
        width="container",
        height=300,
        autosize=alt.AutoSizeParams(type="fit", contains="padding"),
    )
    return themed(chart)  # type: ignore[no-any-return]
