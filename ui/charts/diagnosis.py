"""Difficulty of neighbors and diversity of responses."""

from collections import Counter

import altair as alt

from ui.charts.building import Row, Rows, apply_theme, colour_by, data_of, frame_chart, legend_above, percents
from ui.charts.theme import INK, MUTED, PALETTE, colours

_SIDE = 340  # pixels of the difficulty chart
_AREA, _LARGEST_AREA = 36.0, 700.0  # square pixels of a point for one neighbor, and for the most at one place
_FLAGS = {"too easy": PALETTE[1], "too hard": PALETTE[3]}


def density_panel(data: Rows, *, title: str, height: int = 300) -> alt.LayerChart:
    """Return densities of distances between responses (`evaluator.signal.diversity.densities`) by series."""
    legend = legend_above(2, "stroke", labelLimit=190, symbolOpacity=1)
    base = alt.Chart(data_of(data)).encode(
        x=alt.X(
            "distance:Q",
            title="mean distance between responses",
            scale=alt.Scale(nice=False),
            axis=alt.Axis(tickCount=6, labelFlush=False),
        ),
        y=alt.Y("density:Q", title="density", stack=None, axis=alt.Axis(labels=False, grid=False)),
        color=colour_by("series", colours(list(dict.fromkeys(row["series"] for row in data))), legend),
        tooltip=[alt.Tooltip("series:N"), alt.Tooltip("distance:Q", format=".2f")],
    )
    subtitle = "Distribution over questions of the mean distance between responses"
    drawn = alt.layer(base.mark_area(opacity=0.12), base.mark_line())
    return frame_chart(drawn, title, subtitle, height=height, fit="fit-x")


def difficulty_chart(
    data: Rows, *, title: str = "Difficulty of neighbors compared with their originals"
) -> alt.LayerChart:
    """Return each neighbor's success rate against its original's; equal points become one larger circle.

    A circle can be clicked. Rows are those of the table `difficulty_neighbors`.
    """
    places = Counter((_rate(row, "original_"), _rate(row, ""), row["flag"] or "") for row in data)
    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".0%", grid=True, domain=False, labelFlush=False)
    scale = alt.Scale(domain=[-0.05, 1.05], nice=False)  # room for circles at 0 and 1
    x = alt.X("original:Q", title="success rate of the original", scale=scale, axis=axis)
    y = alt.Y("neighbor:Q", title="success rate of the neighbor", scale=scale, axis=axis)
    area = min(_AREA, _LARGEST_AREA / max(places.values()))
    points = [
        {"original": a, "neighbor": b, "flag": flag, "neighbors": count, "area": area * count}
        for (a, b, flag), count in places.items()
    ]
    fill = {"": PALETTE[0], **_FLAGS}
    ends = [{"original": 0, "neighbor": 0}, {"original": 1, "neighbor": 1}]
    diagonal = alt.Chart(data_of(ends)).mark_line(color=MUTED, strokeWidth=1, strokeDash=[4, 3])
    picked = alt.selection_point(name="dot", fields=["original", "neighbor"], on="click", empty=False)
    circles = alt.Chart(data_of(points)).mark_circle(opacity=0.7, cursor="pointer")
    layers = [
        diagonal.encode(x=x, y=y),
        circles.encode(
            x=x,
            y=y,
            size=alt.Size("area:Q", scale=None, legend=None),
            color=colour_by("flag", fill),
            stroke=alt.condition(picked, alt.value(INK), alt.value("white")),
            strokeWidth=alt.condition(picked, alt.value(1.5), alt.value(0.5)),
            tooltip=[*percents("original", "neighbor"), alt.Tooltip("neighbors:Q"), alt.Tooltip("flag:N")],
        ).add_params(picked),
    ]
    mean = sum(_rate(row, "") - _rate(row, "original_") for row in data) / len(data)
    subtitle = [
        f"{len(data):,} neighbors of {len({row['group_id'] for row in data}):,} questions",
        f"Mean difference {100 * mean:+.1f} points".replace("-", "\N{MINUS SIGN}"),
        "above the dashed line: easier than the original, below: harder",
    ]
    flagged = Counter(row["flag"] for row in data if row["flag"])
    if flagged:
        subtitle.append(", ".join(f"{count} flagged {flag}" for flag, count in flagged.items()))
    return apply_theme(
        alt.layer(*layers).properties(
            width=_SIDE,
            height=_SIDE,
            autosize="pad",  # on a page, the title would otherwise take the width of the square
            title=alt.TitleParams(title, subtitle=subtitle, fontSize=13),
        )
    )


def _rate(row: Row, prefix: str) -> float:
    return float(row[f"{prefix}correct"] / row[f"{prefix}known"])
