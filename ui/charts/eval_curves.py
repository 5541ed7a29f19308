"""pass@k over k: one panel per benchmark, one colour per method, the names at the ends of the lines."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from ui.charts.building import Row, Rows, apply_theme, colour_by, data_of, percents
from ui.charts.drawing.axes import power_ticks, sample_axis, share_axis, shared_ticks
from ui.charts.drawing.labels import end_labels, wrap_label
from ui.charts.theme import CONFIG, LINE_HEIGHT, MUTED, PANEL_TITLE, colours

POINT = "point"
"""Parameter with the clicked point of `panel_charts`: its label and k."""

_CHARACTER = 6.8  # pixels
_AROUND = 118  # pixels of titles, axis and padding above and below a plot
_ROW = 32  # pixels of a dot
_SAME = 1e-9
_POINTS_SHOWN = 14
_BANDS_STRONG = 4

MEANINGS = {
    "pass@k": "share of problems that at least one of k samples solves",
    "pass^k": "share of problems that all k samples solve",
    "maj@k": "share of problems whose most frequent answer among k is correct",
}


def curve_chart(data: Rows, *, metric: str = "pass@k", title: str | None = None) -> alt.ConcatChart:
    """Return curves of a metric over k with bands, k on a log scale; at a single k, dots with intervals.

    Rows are those of `evaluator.reports.layout.curve_rows`. Methods and panels keep the order of their first
    rows. All panels share the vertical scale, unless one would lose half of its height.

    Raises:
        InputError: more methods than colours.
    """
    alone = len({row["benchmark"] for row in data}) == 1
    panels = _panels(data, metric, colours(_labels(data)), 330 if alone else 230)
    drawn = [panel.properties(width=520 if alone else 330) for panel in panels.values()]
    return apply_theme(
        alt.concat(*drawn, columns=2, spacing=28).properties(
            title=alt.TitleParams(title or _title(metric, _ks(data)))
        )
    )


def panel_charts(
    data: Rows,
    *,
    metric: str = "pass@k",
    palette: Mapping[str, str] | None = None,
    height: int = 230,
) -> dict[str, alt.LayerChart]:
    """Return the panels of `curve_chart` as charts of their own, by benchmark, as wide as their places.

    A point can be clicked: the parameter `POINT` then contains its label and k. `palette` has a colour for
    each label, so that a method keeps its colour in every selection.
    """
    labels, dots = _labels(data), len(_ks(data)) == 1
    chosen = {name: palette[name] for name in labels} if palette else colours(labels)
    picked = alt.selection_point(name=POINT, fields=["label", "k"], on="click", empty=False)
    longest = max(len(line) for label in labels for line in wrap_label(label))
    # Names are right of the plot, outside the area that Vega fits by itself.
    padding = {"left": 4, "top": 8, "right": 12 if dots else 34 + _CHARACTER * longest, "bottom": 4}
    return {
        name: panel.properties(
            width="container",
            height=(_ROW * len(chosen) if dots else height) + _AROUND,
            autosize=alt.AutoSizeParams(type="fit", contains="padding"),
        ).configure(**{**CONFIG, "padding": padding})
        for name, panel in _panels(data, metric, chosen, height, picked).items()
    }


def _panels(
    data: Rows, metric: str, palette: Mapping[str, str], height: int, picked: Any = None
) -> dict[str, alt.LayerChart]:
    """Return a chart per benchmark: lines over k, or dots at a single k, where a line would be invisible."""
    panels: dict[str, list[Row]] = {}
    for row in sorted(data, key=lambda row: float(row["k"])):
        panels.setdefault(row["benchmark"], []).append(row)
    panels = {name: panels[name] for name in dict.fromkeys(row["benchmark"] for row in data)}
    ends = ("value", "value_high", "low", "high")
    ticks_of = shared_ticks(
        [[row[end] for row in rows for end in ends if row[end] is not None] for rows in panels.values()]
    )
    ks = _ks(data)
    drawn = {}
    for (name, rows), ticks in zip(panels.items(), ticks_of, strict=True):
        if len(ks) == 1:
            layers = _dots(rows, ticks, palette, metric.replace("k", str(ks[0])), picked)
        else:
            layers = _lines(rows, ticks, palette, metric, height, picked)
        subtitle = [_population(rows), *_legend(rows, len(ks) == 1)]
        drawn[name] = alt.layer(*layers).properties(
            height=_ROW * len(palette) if len(ks) == 1 else height,
            title=alt.TitleParams(name, subtitle=subtitle, **PANEL_TITLE),
        )
    return drawn


def _lines(
    rows: Rows, ticks: Sequence[float], palette: Mapping[str, str], metric: str, height: int, picked: Any
) -> list[Any]:
    """Return the layers of a panel: bands, lines, points, names at the ends."""
    lines = {name: [row for row in rows if row["label"] == name] for name in palette}
    lines = {name: line for name, line in lines.items() if line}
    ks, colour, axis = _ks(rows), colour_by("label", palette), share_axis(ticks)
    x = alt.X("k:Q", title="k (samples)", **sample_axis((ks[0], ks[-1]), power_ticks(ks[0], ks[-1], 8)))

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", title=metric, **axis)

    def of(some: Rows) -> Any:
        return alt.Chart(data_of(some)).encode(x=x, color=colour)

    layers = []
    if banded := [row for row in rows if _has_interval(row)]:
        band = of(banded).mark_area(opacity=0.13 if len(lines) <= _BANDS_STRONG else 0.07)
        layers.append(band.encode(y=y("low"), y2="high:Q"))
    if unsure := [row for line in lines.values() if any(map(_is_unsure, line)) for row in line]:
        dashed = of(unsure).mark_line(strokeWidth=1, strokeDash=[4, 3])
        layers.append(dashed.encode(y=y("value_high")))
    layers.append(of(rows).mark_line().encode(y=y("value")))
    few = max(len(line) for line in lines.values()) <= _POINTS_SHOWN
    layers.append(_points(of(rows).encode(y=y("value")), 26 if few else 60, few, picked))
    per_pixel = (ticks[-1] - ticks[0]) / height
    return layers + end_labels(
        [(name, line[-1]["k"], line[-1]["value"]) for name, line in lines.items()],
        x=x,
        y=y,
        colour=colour,
        room=(ticks[0] - LINE_HEIGHT * per_pixel, ticks[-1] + LINE_HEIGHT * per_pixel),
        per_pixel=per_pixel,
    )


def _dots(
    rows: Rows, ticks: Sequence[float], palette: Mapping[str, str], x_title: str, picked: Any
) -> list[Any]:
    """Return the layers of a panel: one row per name, a dot on the bar of its interval."""
    axis = share_axis(ticks, grid=True, domain=False, labelFlush=False)
    y = alt.Y(
        "label:N",
        title=None,
        sort=list(palette),
        scale=alt.Scale(domain=list(palette)),
        axis=alt.Axis(labelLimit=260, labelFontSize=12, labelColor=MUTED, grid=False, domain=False),
    )

    def x(field: str) -> Any:
        return alt.X(f"{field}:Q", title=x_title, **axis)

    def of(some: Rows) -> Any:
        return alt.Chart(data_of(some)).encode(y=y, color=colour_by("label", palette))

    layers = []
    if banded := [row for row in rows if _has_interval(row)]:
        bars = of(banded).mark_rule(strokeWidth=6, opacity=0.28, strokeCap="round")
        layers.append(bars.encode(x=x("low"), x2="high:Q"))
    if unsure := [row for row in rows if _is_unsure(row)]:
        layers.append(of(unsure).mark_point(size=60, strokeWidth=1.2).encode(x=x("value_high")))
    return [*layers, _points(of(rows).encode(x=x("value")), 90, True, picked)]


def _points(base: Any, size: int, visible: bool, picked: Any) -> Any:
    tooltip = [
        alt.Tooltip("label:N"),
        alt.Tooltip("k:Q"),
        *percents("value", "low", "high"),
        alt.Tooltip("problems:Q"),
    ]
    if picked is None:
        return base.mark_circle(size=size, opacity=int(visible)).encode(tooltip=tooltip)
    return (
        base.mark_circle(cursor="pointer")
        .encode(
            tooltip=tooltip,
            size=alt.condition(picked, alt.value(170), alt.value(max(size, 60))),
            opacity=alt.condition(picked, alt.value(1), alt.value(int(visible))),
        )
        .add_params(picked)
    )


def _has_interval(row: Row) -> bool:
    return row["low"] is not None and row["high"] is not None


def _is_unsure(row: Row) -> bool:
    return bool(row["value_high"] > row["value"] + _SAME)


def _labels(data: Rows) -> list[str]:
    return list(dict.fromkeys(row["label"] for row in data))


def _ks(data: Rows) -> list[int]:
    return sorted({row["k"] for row in data})


def _title(metric: str, ks: Sequence[int]) -> str:
    meaning = MEANINGS.get(metric)
    if len(ks) == 1:
        metric = metric.replace("k", str(ks[0]))
        meaning = meaning and meaning.replace("of k ", f"of {ks[0]} ")
    return f"{metric}: {meaning}" if meaning else metric


def _population(rows: Rows) -> str:
    problems, samples = _range([row["problems"] for row in rows]), _range([row["samples"] for row in rows])
    plural = "" if problems == "1" else "s"
    return f"{problems} problem{plural}, {samples} sample{'' if samples == '1' else 's'} each"


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _legend(rows: Rows, dots: bool) -> list[str]:
    words = []
    if any(map(_has_interval, rows)):
        what = "Bars" if dots else "Bands"
        words.append(f"{what}: 95% interval for {rows[0]['interval']}")
    if any(map(_is_unsure, rows)):
        words.append(f"{'Rings' if dots else 'Dashed'}: unknown grades counted as correct")
    return words
