"""Densities of distances between responses: what neighbors add to what a policy tries."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from service.errors import InputError
from ui.charts.building import data_of
from ui.charts.labels import wrap_label
from ui.charts.panels import Size, panel_size, titled
from ui.charts.tables import Frame, Row, in_order, read_rows
from ui.charts.theme import LINE_HEIGHT, altair, colour_by, colours, themed

if TYPE_CHECKING:
    from altair import ConcatChart, LayerChart

__all__ = ["density_chart", "density_panel"]

_SAID = "Densities over questions of the mean distance among responses"
_X_TITLE = "mean distance among responses"


def density_chart(frame: Frame, *, title: str | None = None) -> "ConcatChart":
    """Return densities of distances between responses, one panel a checkpoint, one colour a series.

    Args:
        frame: points of the densities, as `evaluator.signal.diversity.DensityRow`: checkpoint; series
            (original against neighbors, ...); distance; density (0 or more).

    Raises:
        InputError: columns or values that cannot be drawn.
        PrerequisiteError: altair is not installed.
    """
    rows = _read(frame)
    palette = colours(in_order([row["series"] for row in rows]))
    checkpoints = in_order([row["checkpoint"] for row in rows])
    size = panel_size(len(checkpoints))
    ends = [min(row["distance"] for row in rows), max(row["distance"] for row in rows)]
    top = max(row["density"] for row in rows) or 1.0
    panels = [[row for row in rows if row["checkpoint"] == name] for name in checkpoints]
    drawn = [_densities(part, palette, size, ends, top) for part in panels]
    alt = altair()
    if len(checkpoints) > 1:
        drawn = titled(drawn, checkpoints, ["" for _ in checkpoints])
    heading = title or "Diversity: distances between responses"
    return themed(  # type: ignore[no-any-return]
        alt.concat(*drawn, columns=size.columns, spacing=28).properties(
            title=alt.TitleParams(heading, subtitle=_SAID)
        )
    )


def density_panel(frame: Frame, *, title: str, height: int = 300) -> "LayerChart":
    """Return the densities of one checkpoint, as wide as their place, with the names in a legend.

    Args:
        frame: as `density_chart` takes it, of one checkpoint.

    Raises:
        InputError: as there, or several checkpoints.
        PrerequisiteError: altair is not installed.
    """
    rows = _read(frame)
    checkpoints = in_order([row["checkpoint"] for row in rows])
    if len(checkpoints) > 1:
        raise InputError(f"one panel shows one checkpoint, not {' and '.join(checkpoints)}.")
    palette = colours(in_order([row["series"] for row in rows]))
    alt = altair()
    legend = alt.Legend(
        orient="top", title=None, columns=2, labelLimit=190, symbolType="stroke", symbolOpacity=1
    )
    scale = alt.Scale(domain=list(palette), range=list(palette.values()))
    base = alt.Chart(data_of(rows)).encode(
        x=alt.X("distance:Q", title=_X_TITLE, scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=6)),
        y=alt.Y("density:Q", title="density", stack=None, axis=alt.Axis(labels=False, grid=False)),
        color=alt.Color("series:N", scale=scale, legend=legend),
        tooltip=[alt.Tooltip("series:N"), alt.Tooltip("distance:Q", format=".2f")],
    )
    chart = alt.layer(base.mark_area(opacity=0.1), base.mark_line()).properties(
        title=alt.TitleParams(title, subtitle=_SAID, fontSize=13, offset=8),
        width="container",
        height=height,
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
    )
    return themed(chart)  # type: ignore[no-any-return]


def _read(frame: Frame) -> list[Row]:
    rows = read_rows(frame, texts=("checkpoint", "series"), numbers=("distance", "density"))
    if any(row["density"] < 0 for row in rows):
        raise InputError("the chart's table holds a density below 0.")
    return rows


def _densities(
    rows: Sequence[Row], palette: dict[str, str], size: Size, ends: Sequence[float], top: float
) -> Any:
    alt = altair()
    series = {name: [row for row in rows if row["series"] == name] for name in palette}
    peaks = {name: max(row["density"] for row in line) for name, line in series.items() if line}
    x = alt.X(
        "distance:Q",
        title=_X_TITLE,
        scale=alt.Scale(domain=list(ends), nice=False),
        axis=alt.Axis(tickCount=6, labelFlush=False),
    )

    y = alt.Y(
        "density:Q",
        title="density",
        stack=None,
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(labels=False, grid=False),
    )
    colour = colour_by("series", palette)
    base = alt.Chart(data_of(rows)).encode(x=x, y=y, color=colour)
    # All curves end at the bottom, so the names stand beside them from the top, the highest peak's first.
    named, below = [], 0.0
    for name in sorted(peaks, key=lambda name: -peaks[name]):
        wrapped = wrap_label(name, *size.label)
        named.append({"series": name, "text": "\n".join(wrapped), "pixel": below + LINE_HEIGHT / 2})
        below += len(wrapped) * LINE_HEIGHT + 3
    names = alt.Chart(data_of(named)).mark_text(
        align="left", baseline="middle", dx=8, lineBreak="\n", lineHeight=LINE_HEIGHT, fontWeight=600
    )
    at = alt.Y("pixel:Q", scale=None)
    return alt.layer(
        base.mark_area(opacity=0.12),
        base.mark_line(),
        names.encode(x=alt.value(size.width), y=at, text="text:N", color=colour),
    ).properties(width=size.width, height=size.height)
