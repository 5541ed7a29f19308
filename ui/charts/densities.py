"""Densities of distances between responses: the diversity that neighbors add."""

from typing import Any

import altair as alt

from ui.charts.building import Rows, apply_theme, colour_by, data_of, frame_chart
from ui.charts.drawing.labels import wrap_labels
from ui.charts.drawing.panels import Size, add_titles, panel_size
from ui.charts.theme import LINE_HEIGHT, colours

_SUBTITLE = "Distribution over questions of the mean distance between responses"
_X_TITLE = "mean distance between responses"


def density_chart(data: Rows) -> alt.ConcatChart:
    """Return densities of distances between responses, one panel per checkpoint, one colour per series.

    Args:
        data: points of the densities, as `evaluator.signal.diversity.densities`: checkpoint; series
            (original against neighbors, ...); distance; density (0 or more).
    """
    palette = colours(list(dict.fromkeys(row["series"] for row in data)))
    checkpoints = list(dict.fromkeys(row["checkpoint"] for row in data))
    size = panel_size(len(checkpoints))
    x_scale = alt.Scale(domain=[end(row["distance"] for row in data) for end in (min, max)], nice=False)
    y_scale = alt.Scale(domain=[0, max(row["density"] for row in data) or 1.0], nice=False)
    drawn = []
    for checkpoint in checkpoints:
        part = [row for row in data if row["checkpoint"] == checkpoint]
        areas = _areas(part, colour_by("series", palette), x_scale, y_scale)
        names = _names(part, palette, size)
        drawn.append(alt.layer(*areas, names).properties(width=size.width, height=size.height))
    if len(checkpoints) > 1:
        drawn = add_titles(drawn, checkpoints, ["" for _ in checkpoints])
    return apply_theme(
        alt.concat(*drawn, columns=size.columns, spacing=28).properties(
            title=alt.TitleParams("Diversity: distances between responses", subtitle=_SUBTITLE)
        )
    )


def density_panel(data: Rows, *, title: str, height: int = 300) -> alt.LayerChart:
    """Return the densities of one checkpoint, as wide as their place, with a legend; see `density_chart`."""
    palette = colours(list(dict.fromkeys(row["series"] for row in data)))
    legend = alt.Legend(
        orient="top", title=None, columns=2, labelLimit=190, symbolType="stroke", symbolOpacity=1
    )
    layers = _areas(data, colour_by("series", palette, legend), alt.Scale(nice=False), alt.Undefined)
    return frame_chart(alt.layer(*layers), title, _SUBTITLE, height=height, fit="fit-x")


def _areas(rows: Rows, colour: Any, x_scale: Any, y_scale: Any) -> list[Any]:
    """Return each series as an area under a line."""
    base = alt.Chart(data_of(rows)).encode(
        x=alt.X("distance:Q", title=_X_TITLE, scale=x_scale, axis=alt.Axis(tickCount=6, labelFlush=False)),
        y=alt.Y(
            "density:Q",
            title="density",
            stack=None,
            scale=y_scale,
            axis=alt.Axis(labels=False, grid=False),
        ),
        color=colour,
        tooltip=[alt.Tooltip("series:N"), alt.Tooltip("distance:Q", format=".2f")],
    )
    return [base.mark_area(opacity=0.12), base.mark_line()]


def _names(rows: Rows, palette: dict[str, str], size: Size) -> Any:
    """Return the names of the series, highest peak first: all curves end at the bottom."""
    peaks: dict[str, float] = {}
    for row in rows:
        peaks[row["series"]] = max(row["density"], peaks.get(row["series"], 0.0))
    named, below = [], 0.0
    names = sorted(peaks, key=lambda name: -peaks[name])
    for name, wrapped in zip(names, wrap_labels(names, *size.label), strict=True):
        named.append({"series": name, "text": "\n".join(wrapped), "pixel": below + LINE_HEIGHT / 2})
        below += len(wrapped) * LINE_HEIGHT + 3
    marks = alt.Chart(data_of(named)).mark_text(
        align="left", baseline="middle", dx=8, lineBreak="\n", lineHeight=LINE_HEIGHT, fontWeight=600
    )
    return marks.encode(
        x=alt.value(size.width),
        y=alt.Y("pixel:Q", scale=None),
        text="text:N",
        color=colour_by("series", palette),
    )
