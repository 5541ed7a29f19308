"""Stacked bars: counts by name and part, and the kinds of joint groups by step of a training."""

from collections import Counter
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import altair as alt

from ui.charts.axes import count_axis
from ui.charts.building import Row, Rows, colour_by, data_of, frame_chart, legend_above, name_rows, percents
from ui.charts.theme import MUTED, PALETTE, RULE

VERDICT_COLOURS = {
    "accepted": PALETTE[2],
    "undecided": PALETTE[4],
    "unverified": RULE,
    "rejected": PALETTE[7],
    "pending": PALETTE[0],
}

KIND_COLOURS = {"mixed": PALETTE[2], "all right": PALETTE[0], "all wrong": PALETTE[1], "unclear": MUTED}

_ROW, _AROUND, _LEGEND = 26, 92, 18
"""Pixels of a bar with its gap, of title and axis, of a line of the legend."""

_LEGEND_COLUMNS = 2


def stacked_bars(
    data: Rows, *, title: str, colours: Mapping[str, str], unit: str, subtitle: str = ""
) -> alt.LayerChart:
    """Return one bar for each name, its parts in the order of `colours`, its sum at the end.

    Rows: name, part, count; those of the same name and part are added. `unit` names the axis.
    """
    counts: Counter[tuple[str, str]] = Counter()
    sums: Counter[str] = Counter()
    for row in data:
        counts[row["name"], row["part"]] += row["count"]
        sums[row["name"]] += row["count"]
    parts = [part for part in colours if any(of == part and count for (_, of), count in counts.items())]
    rows = [
        {"name": name, "part": part, "count": count, "place": parts.index(part), "share": count / sums[name]}
        for (name, part), count in counts.items()
        if count
    ]
    y = name_rows("name", list(sums), 110)
    most = max([*sums.values(), 1])
    look: dict[str, Any] = {"domain": False, "labelOverlap": "greedy", "labelSeparation": 8}
    axis = alt.Axis(tickCount=4, tickMinStep=1, grid=True, **look, **count_axis(most))
    scale = alt.Scale(domain=[0, most * 1.3], nice=False)
    along: dict[str, Any] = {"title": unit, "scale": scale, "axis": axis}
    legend = legend_above(_LEGEND_COLUMNS, labelLimit=110, columnPadding=12)
    drawn = {part: colours[part] for part in parts}
    bars = alt.Chart(data_of(rows)).mark_bar(cornerRadius=2, opacity=0.9, height={"band": 0.7})
    bars = bars.encode(
        x=alt.X("count:Q", stack="zero", **along),
        y=y,
        color=colour_by("part", drawn, legend if len(parts) > 1 else None),
        order=alt.Order("place:Q"),
        tooltip=[
            alt.Tooltip("name:N", title="of"),
            alt.Tooltip("part:N", title="part"),
            alt.Tooltip("count:Q", title=unit, format=",d"),
            *percents("share"),
        ],
    )
    ends = alt.Chart(data_of([{"name": name, "sum": count} for name, count in sums.items()]))
    ends = ends.mark_text(align="left", dx=5, color=MUTED)
    ends = ends.encode(x=alt.X("sum:Q", **along), y=y, text=alt.Text("sum:Q", format=",d"))
    height = _ROW * len(sums) + _AROUND
    if len(parts) > 1:
        height += _LEGEND * -(-len(parts) // _LEGEND_COLUMNS)
    return frame_chart(alt.layer(bars, ends), title, subtitle, height=height, frame="bounds")


def group_kinds_chart(data: Rows, *, title: str, window: int = 1, chosen: int | None = None) -> alt.Chart:
    """Return stacked bars of the kinds of groups, one per step or per `window` steps; a step can be clicked.

    Rows: step and last (of the window), kind (in the order of `KIND_COLOURS`), questions.
    """
    pieces: list[Row] = []
    for step, bar in groupby(data, key=lambda row: row["step"]):
        rows = [row for row in bar if row["questions"]]
        every, below = sum(row["questions"] for row in rows), 0
        for row in rows:
            gap = 0.08 * (row["last"] + 1 - step)
            ends = {"below": below / every, "above": (below + row["questions"]) / every}
            ends |= {"left": step - 0.5 + gap / 2, "right": row["last"] + 0.5 - gap / 2}
            stands_out = chosen is None or step <= chosen <= row["last"]
            pieces.append({**row, **ends, "share": row["questions"] / every, "stands_out": stands_out})
            below += row["questions"]
    picked = alt.selection_point(name="picked", fields=["step"], on="click", empty=False)
    limits = [min(row["left"] for row in pieces), max(row["right"] for row in pieces)]
    steps = alt.Axis(tickCount=8, tickMinStep=1, format=",d")
    shares = alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1])
    chart = alt.Chart(data_of(pieces)).mark_rect(cursor="pointer")
    chart = chart.encode(
        x=alt.X("left:Q", title="step", scale=alt.Scale(domain=limits, nice=False), axis=steps),
        x2="right:Q",
        y=alt.Y("below:Q", title=None, scale=alt.Scale(domain=[0, 1], nice=False), axis=shares),
        y2="above:Q",
        opacity=alt.condition("datum.stands_out", alt.value(0.9), alt.value(0.35)),
        color=colour_by("kind", KIND_COLOURS, legend_above(4)),
        tooltip=[
            alt.Tooltip("step:Q", format=",d"),
            alt.Tooltip("kind:N"),
            alt.Tooltip("questions:Q", format=",d"),
            *percents("share"),
        ],
    ).add_params(picked)
    subtitle = "share of questions by the outcome of their joint group"
    if window > 1:
        subtitle += f"; one bar per {window} steps"
    return frame_chart(chart, title, subtitle, height=150, width=720, fit="fit-x")
