"""Counts by name and part as vertical bars: neighbors by strategy and verdict, questions by neighbors."""

from collections.abc import Mapping

import altair as alt

from ui.charts.building import Rows, colour_by, data_of, frame_chart, percents
from ui.charts.drawing.axes import count_axis
from ui.charts.theme import MUTED, PALETTE, RULE

VERDICT_COLOURS = {
    "accepted": PALETTE[2],
    "undecided": PALETTE[4],
    "unverified": RULE,
    "rejected": PALETTE[7],
    "pending": PALETTE[0],
}

_ROW, _AROUND, _LEGEND = 26, 92, 18
"""Pixels of a bar with its gap, of title and axis, of a line of the legend."""

_LEGEND_COLUMNS = 2


def stacked_bars(
    data: Rows, *, title: str, colours: Mapping[str, str], unit: str, subtitle: str = ""
) -> alt.LayerChart:
    """Return one bar for each name, its parts in the order of `colours`, its sum at the end.

    Rows: name, part, count; those of the same name and part are added. `unit` names the axis.
    """
    names = list(dict.fromkeys(row["name"] for row in data))
    counts: dict[tuple[str, str], int] = {}
    for row in data:
        key = row["name"], row["part"]
        counts[key] = counts.get(key, 0) + int(row["count"])
    sums = {name: sum(count for (of, _), count in counts.items() if of == name) for name in names}
    parts = [part for part in colours if any(of == part and count for (_, of), count in counts.items())]
    rows = [
        {
            "name": name,
            "part": part,
            "count": count,
            "place": parts.index(part),
            "share": count / sums[name] if sums[name] else 0,
        }
        for (name, part), count in counts.items()
        if part in parts and count
    ]
    y = alt.Y(
        "name:N",
        title=None,
        sort=names,
        scale=alt.Scale(domain=names, paddingInner=0.35, paddingOuter=0.15),
        axis=alt.Axis(labelLimit=110, labelColor=MUTED, grid=False, domain=False),
    )
    most = max([*sums.values(), 1])
    scale = alt.Scale(domain=[0, most * 1.3], nice=False)
    axis = alt.Axis(
        tickCount=4,
        grid=True,
        domain=False,
        tickMinStep=1,
        labelOverlap="greedy",
        labelSeparation=8,
        **count_axis(most),
    )
    legend = alt.Legend(
        orient="top",
        title=None,
        columns=_LEGEND_COLUMNS,
        labelLimit=110,
        symbolType="square",
        columnPadding=12,
    )
    bars = (
        alt.Chart(data_of(rows))
        .mark_bar(cornerRadius=2, opacity=0.9)
        .encode(
            x=alt.X("count:Q", title=unit, scale=scale, axis=axis, stack="zero"),
            y=y,
            color=colour_by(
                "part", {part: colours[part] for part in parts}, legend if len(parts) > 1 else None
            ),
            order=alt.Order("place:Q"),
            tooltip=[
                alt.Tooltip("name:N", title="of"),
                alt.Tooltip("part:N", title="part"),
                alt.Tooltip("count:Q", title=unit, format=",d"),
                *percents("share"),
            ],
        )
    )
    ends = (
        alt.Chart(data_of([{"name": name, "sum": count} for name, count in sums.items()]))
        .mark_text(align="left", dx=5, color=MUTED)
        .encode(
            x=alt.X("sum:Q", title=unit, scale=scale, axis=axis), y=y, text=alt.Text("sum:Q", format=",d")
        )
    )
    legend_height = _LEGEND * -(-len(parts) // _LEGEND_COLUMNS) if len(parts) > 1 else 0
    return frame_chart(
        alt.layer(bars, ends),
        title,
        subtitle,
        height=_ROW * len(names) + _AROUND + legend_height,
        fontSize=13,
        offset=8,
        frame="bounds",
    )
