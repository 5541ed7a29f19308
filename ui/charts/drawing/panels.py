"""Panels of shares with intervals: lines over a scale, or one dot per line at a single position."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from ui.charts.building import Row, Rows, colour_by, data_of
from ui.charts.drawing.axes import share_axis, shared_ticks
from ui.charts.drawing.labels import end_labels
from ui.charts.theme import LINE_HEIGHT, MUTED, PANEL_TITLE

_SAME = 1e-9
_POINTS_SHOWN = 14
_BANDS_STRONG = 4


@dataclass(frozen=True)
class Size:
    """Layout of panels: pixels, maximum ticks, characters and lines of a label."""

    columns: int
    width: int
    height: int
    share_ticks: int
    x_ticks: int
    label: tuple[int, int]


def panel_size(panels: int) -> Size:
    """Return the layout of this many panels: one large one, or up to two or three side by side."""
    if panels == 1:
        return Size(1, 520, 330, 8, 11, (24, 3))
    if panels <= 4:
        return Size(2, 330, 230, 6, 8, (22, 2))
    return Size(3, 235, 185, 5, 6, (18, 2))


def has_interval(row: Row) -> bool:
    return row["low"] is not None and row["high"] is not None


def is_unsure(row: Row) -> bool:
    return bool(row["value_high"] > row["value"] + _SAME)


def line_panels(
    panels: Sequence[Rows],
    palette: dict[str, str],
    size: Size,
    *,
    at: str,
    x: Callable[[int], Any],
    y_title: str,
    tooltip: Sequence[Any],
    picked: Any = None,
) -> list[Any]:
    """Return a layered chart for each panel: bands, lines, points, names at the ends.

    Args:
        panels: rows with label (one line each), `at` (their position), value, value_high, low, high.
        x: the encoding of `at` in the panel at this index.
        picked: a selection of points, None if they cannot be clicked.
    """

    def panel(place: int, rows: Rows, ticks: Sequence[float]) -> alt.LayerChart:
        rows = sorted(rows, key=lambda row: float(row[at]))
        lines = {name: [row for row in rows if row["label"] == name] for name in palette}
        lines = {name: line for name, line in lines.items() if line}
        colour = colour_by("label", palette)
        axis = share_axis(ticks)

        def y(field: str) -> Any:
            return alt.Y(f"{field}:Q", title=None if place % size.columns else y_title, **axis)

        def of(some: Rows) -> Any:
            return alt.Chart(data_of(some)).encode(x=x(place), color=colour)

        layers = []
        if banded := [row for row in rows if has_interval(row)]:
            strong = len(lines) <= _BANDS_STRONG
            band = of(banded).mark_area(opacity=0.13 if strong else 0.07)
            layers.append(band.encode(y=y("low"), y2="high:Q"))
        if unsure := [row for line in lines.values() if any(map(is_unsure, line)) for row in line]:
            dashed = of(unsure).mark_line(strokeWidth=1, strokeDash=[4, 3])
            layers.append(dashed.encode(y=y("value_high")))
        layers.append(of(rows).mark_line().encode(y=y("value")))
        few = max(len(line) for line in lines.values()) <= _POINTS_SHOWN
        points = of(rows).mark_circle(size=26 if few else 60, opacity=1 if few else 0, **_pointer(picked))
        points = points.encode(y=y("value"), tooltip=list(tooltip))
        layers.append(points if picked is None else _clickable(points, picked, 26 if few else 60, few))
        per_pixel = (ticks[-1] - ticks[0]) / size.height
        layers += end_labels(
            [(name, line[-1][at], line[-1]["value"]) for name, line in lines.items()],
            at=at,
            x=x(place),
            y=y,
            colour=colour,
            room=(ticks[0] - LINE_HEIGHT * per_pixel, ticks[-1] + LINE_HEIGHT * per_pixel),
            per_pixel=per_pixel,
            wrapped=size.label,
        )
        return alt.layer(*layers).properties(width=size.width, height=size.height)

    ticks_of = shared_ticks([_extent(rows) for rows in panels], size.share_ticks)
    return [
        panel(place, rows, ticks) for place, (rows, ticks) in enumerate(zip(panels, ticks_of, strict=True))
    ]


def _pointer(picked: Any) -> dict[str, str]:
    return {} if picked is None else {"cursor": "pointer"}


def _clickable(points: Any, picked: Any, size: int, visible: bool) -> Any:
    return points.encode(
        size=alt.condition(picked, alt.value(170), alt.value(max(size, 60))),
        opacity=alt.condition(picked, alt.value(1), alt.value(1 if visible else 0)),
    ).add_params(picked)


def dot_panels(
    panels: Sequence[Rows],
    palette: dict[str, str],
    size: Size,
    *,
    x_title: str,
    tooltip: Sequence[Any],
    picked: Any = None,
) -> list[Any]:
    """Return a layered chart for each panel: one row per name, a dot on a bar; see `line_panels`."""
    names = alt.Axis(labelLimit=260, labelFontSize=12, labelColor=MUTED, grid=False, domain=False)
    drawn = []
    ticks_of = shared_ticks([_extent(rows) for rows in panels], size.share_ticks)
    for place, (rows, ticks) in enumerate(zip(panels, ticks_of, strict=True)):
        axis = share_axis(ticks, grid=True, domain=False, labelFlush=False)
        below = place + size.columns < len(panels)
        y = alt.Y(
            "label:N",
            title=None,
            sort=list(palette),
            scale=alt.Scale(domain=list(palette)),
            axis=None if place % size.columns else names,
        )

        def x(field: str, axis: dict[str, Any] = axis, below: bool = below) -> Any:
            return alt.X(f"{field}:Q", title=None if below else x_title, **axis)

        def of(some: Rows, y: Any = y) -> Any:
            return alt.Chart(data_of(some)).encode(y=y, color=colour_by("label", palette))

        layers = []
        if banded := [row for row in rows if has_interval(row)]:
            bars = of(banded).mark_rule(strokeWidth=6, opacity=0.28, strokeCap="round")
            layers.append(bars.encode(x=x("low"), x2="high:Q"))
        if unsure := [row for row in rows if is_unsure(row)]:
            layers.append(of(unsure).mark_point(size=60, strokeWidth=1.2).encode(x=x("value_high")))
        dots = of(rows).mark_circle(size=90, opacity=1, **_pointer(picked))
        dots = dots.encode(x=x("value"), tooltip=list(tooltip))
        layers.append(dots if picked is None else _clickable(dots, picked, 90, True))
        drawn.append(alt.layer(*layers).properties(width=size.width, height=32 * len(palette)))
    return drawn


def add_titles(panels: Sequence[Any], names: Sequence[str], subtitles: Sequence[str]) -> list[Any]:
    return [
        panel.properties(title=alt.TitleParams(name, subtitle=subtitle, **PANEL_TITLE))
        for panel, name, subtitle in zip(panels, names, subtitles, strict=True)
    ]


def _extent(rows: Rows) -> list[float]:
    names = ("value", "value_high", "low", "high")
    return [row[name] for row in rows for name in names if row[name] is not None]
