"""Densities of distances between responses: the diversity that neighbors add."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from service.errors import InputError
from ui.charts.building import data_of, frame_chart
from ui.charts.drawing.labels import wrap_labels
from ui.charts.drawing.panels import Size, add_titles, panel_size
from ui.charts.drawing.tables import Row, Rows, in_order, read_rows
from ui.charts.theme import LINE_HEIGHT, altair, apply_theme, colour_by, colours

if TYPE_CHECKING:
    from altair import ConcatChart, LayerChart

_SUBTITLE = "Densities over questions of the mean distance between responses"
_X_TITLE = "mean distance between responses"


def density_chart(data: Rows) -> "ConcatChart":
    """Return densities of distances between responses, one panel per checkpoint, one colour per series.

    Args:
        data: points of the densities, as `evaluator.signal.diversity.densities`: checkpoint; series
            (original against neighbors, ...); distance; density (0 or more).
    """
    rows = _read(data)
    palette = colours(in_order([row["series"] for row in rows]))
    checkpoints = in_order([row["checkpoint"] for row in rows])
    size = panel_size(len(checkpoints))
    alt = altair()
    x_scale = alt.Scale(domain=[end(row["distance"] for row in rows) for end in (min, max)], nice=False)
    y_scale = alt.Scale(domain=[0, max(row["density"] for row in rows) or 1.0], nice=False)
    drawn = []
    for checkpoint in checkpoints:
        part = [row for row in rows if row["checkpoint"] == checkpoint]
        areas = _areas(part, colour_by("series", palette), x_scale, y_scale)
        names = _names(part, palette, size)
        drawn.append(alt.layer(*areas, names).properties(width=size.width, height=size.height))
    if len(checkpoints) > 1:
        drawn = add_titles(drawn, checkpoints, ["" for _ in checkpoints])
    return apply_theme(  # type: ignore[no-any-return]
        alt.concat(*drawn, columns=size.columns, spacing=28).properties(
            title=alt.TitleParams("Diversity: distances between responses", subtitle=_SUBTITLE)
        )
    )


def density_panel(data: Rows, *, title: str, height: int = 300) -> "LayerChart":
    """Return the densities of one checkpoint, as wide as their place, with a legend.

    Args:
        data: as for `density_chart`, of one checkpoint.

    Raises:
        InputError: as `density_chart`, or several checkpoints.
    """
    rows = _read(data)
    checkpoints = in_order([row["checkpoint"] for row in rows])
    if len(checkpoints) > 1:
        raise InputError(f"the panel shows one checkpoint, but the rows have {' and '.join(checkpoints)}.")
    palette = colours(in_order([row["series"] for row in rows]))
    alt = altair()
    legend = alt.Legend(
        orient="top", title=None, columns=2, labelLimit=190, symbolType="stroke", symbolOpacity=1
    )
    layers = _areas(rows, colour_by("series", palette, legend), alt.Scale(nice=False), alt.Undefined)
    return frame_chart(alt.layer(*layers), title, _SUBTITLE, height=height, fit="fit-x")  # type: ignore[no-any-return]


def _read(data: Rows) -> list[Row]:
    rows = read_rows(data, texts=("checkpoint", "series"), numbers=("distance", "density"))
    if any(row["density"] < 0 for row in rows):
        raise InputError("the chart's table contains a density below 0.")
    return rows


def _areas(rows: Sequence[Row], colour: Any, x_scale: Any, y_scale: Any) -> list[Any]:
    """Return each series as an area under a line."""
    alt = altair()
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


def _names(rows: Sequence[Row], palette: dict[str, str], size: Size) -> Any:
    """Return the names of the series, highest peak first: all curves end at the bottom."""
    alt = altair()
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
