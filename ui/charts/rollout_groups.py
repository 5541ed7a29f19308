"""Joint groups of a training by step: how many are mixed, all-right, all-wrong, or unclear."""

import altair as alt

from ui.charts.building import Row, Rows, colour_by, data_of, frame_chart
from ui.charts.theme import MUTED, PALETTE

KIND_COLOURS = {"mixed": PALETTE[2], "all right": PALETTE[0], "all wrong": PALETTE[1], "unclear": MUTED}
STEP = "picked"
"""Parameter with the step of a clicked bar."""

WIDTH, HEIGHT = 720, 150
"""Pixels: the width of the chart outside a page, the height of the plot alone."""


def group_kinds_chart(data: Rows, *, title: str, window: int = 1, chosen: int | None = None) -> alt.Chart:
    """Return stacked bars of the kinds of groups, one per step or per `window` steps.

    Rows: step and last (of the window), kind, questions. The bar of the `chosen` step is highlighted.
    """
    bars: dict[float, list[Row]] = {}
    for row in data:
        bars.setdefault(row["step"], []).append(row)
    pieces = [piece for bar in bars.values() for piece in _stacked(bar, chosen)]
    picked = alt.selection_point(name=STEP, fields=["step"], on="click", empty=False)
    low, high = min(row["left"] for row in pieces), max(row["right"] for row in pieces)
    chart = (
        alt.Chart(data_of(pieces))
        .mark_rect(cursor="pointer")
        .encode(
            x=alt.X(
                "left:Q",
                title="step",
                scale=alt.Scale(domain=[low, high], nice=False),
                axis=alt.Axis(tickCount=8, tickMinStep=1, format=",d"),
            ),
            x2="right:Q",
            y=alt.Y(
                "below:Q",
                title=None,
                scale=alt.Scale(domain=[0, 1], nice=False),
                axis=alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1]),
            ),
            y2="above:Q",
            opacity=alt.condition("datum.stands_out", alt.value(0.9), alt.value(0.35)),
            color=colour_by(
                "kind",
                KIND_COLOURS,
                alt.Legend(orient="top", title=None, columns=4, symbolType="square"),
            ),
            tooltip=[
                alt.Tooltip("step:Q", format=",d"),
                alt.Tooltip("kind:N"),
                alt.Tooltip("questions:Q", format=",d"),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
        .add_params(picked)
    )
    subtitle = "share of questions by the outcome of their joint group"
    if window > 1:
        subtitle += f"; one bar per {window} steps"
    return frame_chart(chart, title, subtitle, height=HEIGHT, width=WIDTH, fit="fit-x")


def _stacked(bar: Rows, chosen: int | None) -> list[Row]:
    """Return the segments of a bar, as shares of its questions, in the order of the kinds."""
    every = sum(row["questions"] for row in bar)
    order = list(KIND_COLOURS)
    pieces: list[Row] = []
    below = 0.0
    for row in sorted(bar, key=lambda row: order.index(row["kind"])):
        if not row["questions"]:
            continue
        share = row["questions"] / every
        gap = 0.08 * (row["last"] + 1 - row["step"])
        pieces.append(
            {
                **row,
                "share": share,
                "below": below,
                "above": below + share,
                "left": row["step"] - 0.5 + gap / 2,
                "right": row["last"] + 0.5 - gap / 2,
                "stands_out": chosen is None or row["step"] <= chosen <= row["last"],
            }
        )
        below += share
    return pieces
