"""pass@k over k: one panel per benchmark, one colour per method, the names at the ends of the lines."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt

from ui.charts.axes import sample_axis, share_axis, shared_ticks
from ui.charts.building import Row, Rows, apply_theme, colour_by, data_of, name_rows, percents
from ui.charts.theme import CONFIG, LINE_HEIGHT, PANEL_TITLE, colours

LABEL_WIDTH, LABEL_MOST = 18, 50
"""Maximum characters per line of a name, and in all."""

_CHARACTER = 6.8  # pixels
_NEAR, _FAR = 5, 16  # pixels right of a line's end: where the leader to its name starts and ends
_APART = 2  # pixels between names
_MOVED = 3  # pixels: a name closer to its line than this needs no leader
_AROUND = 118  # pixels of titles, axis and padding above and below a plot
_ROW, _HEIGHT, _HEIGHT_ALONE = 32, 230, 330  # pixels of a dot, of a plot with lines, and of the only plot
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

    Rows are those of `evaluator.reports.layout.curve_rows`, whose order is kept. All panels share the
    vertical scale, unless one would lose half of its height.
    """
    alone = len({row["benchmark"] for row in data}) == 1
    panels = _panels(data, metric, colours(_labels(data)))
    drawn = [panel.properties(width=520 if alone else 330) for panel in panels.values()]
    meaning, ks = MEANINGS.get(metric, ""), _ks(data)
    if len(ks) == 1:
        metric, meaning = metric.replace("k", str(ks[0])), meaning.replace("of k ", f"of {ks[0]} ")
    title = title or (f"{metric}: {meaning}" if meaning else metric)
    return apply_theme(alt.concat(*drawn, columns=2, spacing=28).properties(title=alt.TitleParams(title)))


def panel_charts(data: Rows, metric: str, palette: Mapping[str, str]) -> dict[str, alt.LayerChart]:
    """Return the panels of `curve_chart` as charts of their own, by benchmark, as wide as their places.

    A point can be clicked.
    """
    labels, dots = _labels(data), len(_ks(data)) == 1
    picked = alt.selection_point(name="point", fields=["label", "k"], on="click", empty=False)
    longest = max(len(line) for label in labels for line in wrap_label(label))
    # Names are right of the plot, outside the area that Vega fits by itself.
    padding = {"left": 4, "top": 8, "right": 12 if dots else 34 + _CHARACTER * longest, "bottom": 4}
    return {
        name: panel.properties(
            width="container",
            height=panel.height + _AROUND,
            autosize=alt.AutoSizeParams(type="fit", contains="padding"),
        ).configure(**{**CONFIG, "padding": padding})
        for name, panel in _panels(data, metric, colours(labels, palette), picked).items()
    }


def _panels(
    data: Rows, metric: str, palette: Mapping[str, str], picked: Any = None
) -> dict[str, alt.LayerChart]:
    """Return a chart per benchmark: lines over k, or dots at a single k, where a line would be invisible."""
    panels: dict[str, list[Row]] = {row["benchmark"]: [] for row in data}
    for row in sorted(data, key=lambda row: float(row["k"])):
        panels[row["benchmark"]].append(row)
    ends = ("value", "value_high", "low", "high")
    ticks_of = shared_ticks(
        [[row[end] for row in rows for end in ends if row[end] is not None] for rows in panels.values()]
    )
    dots = len(_ks(data)) == 1
    height = _ROW * len(palette) if dots else _HEIGHT_ALONE if len(panels) == 1 else _HEIGHT
    drawn = {}
    for (name, rows), ticks in zip(panels.items(), ticks_of, strict=True):
        layers = _layers(rows, ticks, palette, metric, height, picked, dots=dots)
        title = alt.TitleParams(name, subtitle=_population(rows, dots=dots), **PANEL_TITLE)
        drawn[name] = alt.layer(*layers).properties(height=height, title=title)
    return drawn


def _layers(
    rows: Rows,
    ticks: Sequence[float],
    palette: Mapping[str, str],
    metric: str,
    height: int,
    picked: Any,
    *,
    dots: bool,
) -> list[Any]:
    """Return the layers of a panel: bands, lines, points, and names at the ends; or dots in rows of names."""
    lines = {name: [row for row in rows if row["label"] == name] for name in palette}
    lines = {name: line for name, line in lines.items() if line}
    ks, colour = _ks(rows), colour_by("label", palette)
    if dots:
        metric = metric.replace("k", str(ks[0]))
        axis = share_axis(ticks, grid=True, domain=False, labelFlush=False)
        across: dict[str, Any] = {"y": name_rows("label", list(palette), 260, labelFontSize=12)}
    else:
        axis = share_axis(ticks)
        across = {"x": sample_axis(ks[0], ks[-1])}

    def value(field: str) -> Any:
        return (alt.X if dots else alt.Y)(f"{field}:Q", title=metric, **axis)

    def of(some: Rows, field: str = "value") -> Any:
        return alt.Chart(data_of(some)).encode(**across, **{"x" if dots else "y": value(field)}, color=colour)

    layers = []
    if banded := [row for row in rows if _has_interval(row)]:
        if dots:
            bars = of(banded, "low").mark_rule(strokeWidth=6, opacity=0.28, strokeCap="round")
            layers.append(bars.encode(x2="high:Q"))
        else:
            band = of(banded, "low").mark_area(opacity=0.13 if len(lines) <= _BANDS_STRONG else 0.07)
            layers.append(band.encode(y2="high:Q"))
    if unsure := [row for line in lines.values() if any(map(_is_unsure, line)) for row in line]:
        base = of(unsure, "value_high")
        rings: dict[str, Any] = {"size": 60, "strokeWidth": 1.2}
        layers.append(base.mark_point(**rings) if dots else base.mark_line(strokeWidth=1, strokeDash=[4, 3]))
    if dots:
        return [*layers, _points(of(rows), 90, True, picked)]
    few = max(len(line) for line in lines.values()) <= _POINTS_SHOWN
    per_pixel = (ticks[-1] - ticks[0]) / height
    return [
        *layers,
        of(rows).mark_line(),
        _points(of(rows), 26 if few else 60, few, picked),
        *_end_labels(
            [(name, line[-1]["k"], line[-1]["value"]) for name, line in lines.items()],
            x=across["x"],
            y=value,
            colour=colour,
            room=(ticks[0] - LINE_HEIGHT * per_pixel, ticks[-1] + LINE_HEIGHT * per_pixel),
            per_pixel=per_pixel,
        ),
    ]


def _points(base: Any, size: int, visible: bool, picked: Any) -> Any:
    tooltip = [alt.Tooltip("label:N"), alt.Tooltip("k:Q"), *percents("value", "low", "high")]
    tooltip.append(alt.Tooltip("problems:Q"))
    if picked is None:
        return base.mark_circle(size=size, opacity=int(visible)).encode(tooltip=tooltip)
    sizes = alt.condition(picked, alt.value(170), alt.value(max(size, 60)))
    opacity = alt.condition(picked, alt.value(1), alt.value(int(visible)))
    points = base.mark_circle(cursor="pointer").encode(tooltip=tooltip, size=sizes, opacity=opacity)
    return points.add_params(picked)


def _has_interval(row: Row) -> bool:
    return row["low"] is not None and row["high"] is not None


def _is_unsure(row: Row) -> bool:
    return bool(row["value_high"] > row["value"] + _SAME)


def _labels(data: Rows) -> list[str]:
    return list(dict.fromkeys(row["label"] for row in data))


def _ks(data: Rows) -> list[int]:
    return sorted({row["k"] for row in data})


def _population(rows: Rows, *, dots: bool) -> list[str]:
    """Return a panel's subtitle: numbers of problems and samples, and what bands and dashes mean."""
    ranges = []
    for name in ("problem", "sample"):
        low, high = (end(row[f"{name}s"] for row in rows) for end in (min, max))
        ranges.append(f"{low:,} to {high:,} {name}s" if low < high else f"{low:,} {name}{'s' * (low != 1)}")
    words = [f"{', '.join(ranges)} each"]
    if any(map(_has_interval, rows)):
        words.append(f"{'Bars' if dots else 'Bands'}: 95% interval for {rows[0]['interval']}")
    if any(map(_is_unsure, rows)):
        words.append(f"{'Rings' if dots else 'Dashed'}: unknown grades counted as correct")
    return words


def _end_labels(
    ends: Sequence[tuple[str, float, float]],
    *,
    x: Any,
    y: Callable[[str], Any],
    colour: Any,
    room: tuple[float, float],
    per_pixel: float,
) -> list[Any]:
    """Return layers with the name of each line right of its end, moved apart if names would overlap.

    `ends` are name, last k and value there. `room` has the lowest and highest position of a label.
    """
    labels = ["\n".join(wrap_label(name)) for name, _, _ in ends]
    heights = [((label.count("\n") + 1) * LINE_HEIGHT + _APART) * per_pixel for label in labels]
    places = spread_labels([value for _, _, value in ends], heights, *room)
    rightmost = max(last for _, last, _ in ends)
    rows = [
        {
            "label": name,
            "text": label,
            "k": last,
            "right": rightmost,
            "value": value,
            "place": place,
            # A text of several lines is anchored at its first one.
            "first": place + (height - (LINE_HEIGHT + _APART) * per_pixel) / 2,
            "moved": abs(place - value) > _MOVED * per_pixel or last != rightmost,
        }
        for (name, last, value), label, height, place in zip(ends, labels, heights, places, strict=True)
    ]
    at_right = x.copy(deep=False)
    at_right.shorthand = "right:Q"
    base = alt.Chart(data_of(rows)).encode(color=colour)
    leaders = (
        base.transform_filter("datum.moved")
        .mark_rule(strokeWidth=0.8, opacity=0.7, xOffset=_NEAR, x2Offset=_FAR)
        .encode(x=x, x2="right:Q", y=y("value"), y2="place:Q")
    )
    names = base.mark_text(
        align="left",
        baseline="middle",
        dx=_FAR + 3,
        lineBreak="\n",
        lineHeight=LINE_HEIGHT,
        fontWeight=600,
    ).encode(x=at_right, y=y("first"), text="text:N")
    return [leaders, names]


def spread_labels(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Return positions for the centres of labels: in order, without overlap, near the wanted ones.

    Labels that do not fit between `low` and `high` exceed the lower end.
    """
    places = list(wanted)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    for label in order:  # no lower than the one below allows
        places[label] = max(places[label], low + heights[label] / 2)
        low = places[label] + heights[label] / 2
    for label in reversed(order):  # no higher than the one above allows
        places[label] = min(places[label], high - heights[label] / 2)
        high = places[label] - heights[label] / 2
    return places


def wrap_label(label: str) -> list[str]:
    """Return a label in lines of up to `LABEL_WIDTH` characters; the middle of a long one is cut.

    Model and checkpoint names differ more often at the ends than in the middle.
    """
    label = " ".join(label.split())
    if len(label) > LABEL_MOST:
        label = f"{label[: LABEL_MOST // 2].rstrip()}…{label[-(LABEL_MOST // 2 - 1) :].lstrip()}"
    return textwrap.wrap(label, LABEL_WIDTH)
