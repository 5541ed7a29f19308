"""Rates with their intervals, one dot a name: accept rates by strategy and by model."""

from typing import TYPE_CHECKING

from ui.charts.axes import percent_format, share_ticks
from ui.charts.building import data_of
from ui.charts.tables import Frame, read_rows
from ui.charts.theme import MUTED, PALETTE, altair, themed

if TYPE_CHECKING:
    from altair import LayerChart

__all__ = ["rate_dots"]

_ROW, _AROUND = 30, 100
"""Pixels of a row, and of title and axis."""


def rate_dots(
    frame: Frame, *, title: str, x_title: str, subtitle: str = "", colour: str = PALETTE[0]
) -> "LayerChart":
    """Return one row a name, in the order of the table: a dot on the bar of its interval.

    Args:
        frame: name, rate, low, high (shares from 0 to 1), of (what the rate stands on, a number).

    Raises:
        InputError: no rows, or values that cannot be drawn.
        PrerequisiteError: altair is not installed.
    """
    rows = read_rows(frame, texts=("name",), shares=("rate", "low", "high"), numbers=("of",))
    ticks = share_ticks([row[key] for row in rows for key in ("low", "high")])
    alt = altair()
    scale = alt.Scale(domain=[ticks[0], ticks[-1]], nice=False, zero=False)
    axis = alt.Axis(
        values=ticks,
        format=percent_format(ticks),
        grid=True,
        domain=False,
        labelOverlap="greedy",
        labelSeparation=8,
    )
    names = [row["name"] for row in rows]
    y = alt.Y(
        "name:N",
        title=None,
        sort=names,
        scale=alt.Scale(domain=names),
        axis=alt.Axis(labelLimit=110, labelColor=MUTED, grid=False, domain=False),
    )
    base = alt.Chart(data_of(rows)).encode(y=y)
    bars = base.mark_rule(strokeWidth=6, opacity=0.28, strokeCap="round", color=colour).encode(
        x=alt.X("low:Q", title=x_title, scale=scale, axis=axis), x2="high:Q"
    )
    dots = base.mark_circle(size=90, opacity=1, color=colour).encode(
        x=alt.X("rate:Q", title=x_title, scale=scale, axis=axis),
        tooltip=[
            alt.Tooltip("name:N", title="of"),
            *(alt.Tooltip(f"{key}:Q", format=".1%") for key in ("rate", "low", "high")),
            alt.Tooltip("of:Q", title="out of", format=",d"),
        ],
    )
    chart = alt.layer(bars, dots).properties(
        title=alt.TitleParams(title, subtitle=subtitle, fontSize=13, offset=8, frame="bounds"),
        width="container",
        height=_ROW * len(rows) + _AROUND,
        autosize=alt.AutoSizeParams(type="fit", contains="padding"),
    )
    return themed(chart)  # type: ignore[no-any-return]
