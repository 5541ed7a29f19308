"""A rate from reviews with its interval, as it changes with each decision."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from rephraser.reviews.rates import GrowingRate
from ui.charts.building import apply_theme, data_of, percents
from ui.charts.theme import PALETTE

_WIDTH, _HEIGHT = 560, 240
_MOST_TICKS = 8


def rate_rows(points: Sequence[GrowingRate]) -> list[dict[str, Any]]:
    """Return the points as rows to draw and to download."""
    return [
        {
            "reviewed": point.reviewed,
            "rejected": point.rejected,
            "false_accept_rate": point.share,
            "low": point.low,
            "high": point.high,
        }
        for point in points
    ]


def false_accept_chart(points: Sequence[GrowingRate]) -> alt.LayerChart:
    """Return the false-accept rate over the number of reviewed accepted candidates, with its 95% interval.

    A candidate that is decided again keeps its place in the count: the last point of each number is drawn.
    """
    rows = list({row["reviewed"]: row for row in rate_rows(points)}.values())
    most = rows[-1]["reviewed"]
    step = max(1, -(-most // _MOST_TICKS))
    x = alt.X(
        "reviewed:Q",
        title="accepted candidates reviewed",
        scale=alt.Scale(domain=[0, most], nice=False),
        axis=alt.Axis(values=list(range(0, most + 1, step)), format="d"),
    )
    y_title = "rejected by reviewers"
    shares = {"axis": alt.Axis(format=".0%"), "scale": alt.Scale(domain=[0, 1])}
    y, low = alt.Y("false_accept_rate:Q", title=y_title, **shares), alt.Y("low:Q", title=y_title, **shares)
    tooltip = [
        alt.Tooltip("reviewed:Q"),
        alt.Tooltip("rejected:Q"),
        *percents("false_accept_rate", "low", "high"),
    ]
    base = alt.Chart(data_of(rows)).encode(x=x, tooltip=tooltip)
    steps = {"color": PALETTE[0], "interpolate": "step-after"}
    band = base.mark_area(opacity=0.16, **steps).encode(y=low, y2="high:Q")
    line = base.mark_line(**steps).encode(y=y)
    last = rows[-1]
    end = alt.Chart(data_of([last])).mark_circle(size=55, color=PALETTE[0], opacity=1)
    title = alt.TitleParams(
        "False-accept rate over the reviews",
        subtitle=f"{last['false_accept_rate']:.1%}, 95% interval {last['low']:.1%} to {last['high']:.1%}, "
        f"from {last['reviewed']:,} candidates. Band: exact interval at each point",
    )
    layered = alt.layer(band, line, end.encode(x=x, y=y, tooltip=tooltip))
    return apply_theme(layered.properties(width=_WIDTH, height=_HEIGHT, title=title))
