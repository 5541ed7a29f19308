"""pass@k over k: one panel per benchmark, one colour per method, the names at the ends of the lines."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt

from ui.charts.building import Row, Rows, apply_theme, percents
from ui.charts.drawing.axes import power_ticks, sample_axis
from ui.charts.drawing.labels import wrap_labels
from ui.charts.drawing.panels import (
    Size,
    add_titles,
    dot_panels,
    has_interval,
    is_unsure,
    line_panels,
    panel_size,
)
from ui.charts.theme import CONFIG, PANEL_TITLE, colours

POINT = "point"
"""Parameter with the clicked point of `panel_charts`: its label and k."""

_LABEL = (16, 3)  # characters and lines of a name at the end of a line
_CHARACTER = 6.8  # pixels
_AROUND = 118  # pixels of titles, axis and padding above and below a plot

MEANINGS = {
    "pass@k": "share of problems that at least one of k samples solves",
    "pass^k": "share of problems that all k samples solve",
    "maj@k": "share of problems whose most frequent answer among k is correct",
}


def curve_chart(data: Rows, *, metric: str = "pass@k", title: str | None = None) -> alt.ConcatChart:
    """Return curves of a metric over k with bands, k on a log scale; at a single k, dots with intervals.

    Rows are those of `evaluator.reports.records.curve_rows`. Methods and panels keep the order of their first
    rows. All panels share the vertical scale, unless one would lose half of its height.

    Raises:
        InputError: more methods than colours.
    """
    panels, ks = _by_benchmark(data), _ks(data)
    size = panel_size(len(panels))

    def x(place: int) -> Any:
        below = place + size.columns >= len(panels)
        return _samples(ks, size, "k (samples)" if below else None)

    drawn = _draw(panels, ks, metric, colours(_labels(data)), size, x)
    subtitle = _legend(data, len(ks) == 1)
    if len(panels) > 1:
        drawn = add_titles(drawn, list(panels), [_population(panel) for panel in panels.values()])
    else:
        subtitle.insert(0, f"{data[0]['benchmark']}: {_population(data)}")
    return apply_theme(
        alt.concat(*drawn, columns=size.columns, spacing=28).properties(
            title=alt.TitleParams(title or _title(metric, ks), subtitle=subtitle)
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
    panels, ks, labels = _by_benchmark(data), _ks(data), _labels(data)
    chosen = {name: palette[name] for name in labels} if palette else colours(labels)
    size = Size(1, 300, height, 6, 8, _LABEL)
    own = [_ks(panel) for panel in panels.values()]  # a panel ends where its curves do
    picked = alt.selection_point(name=POINT, fields=["label", "k"], on="click", empty=False)
    drawn = _draw(
        panels, ks, metric, chosen, size, lambda place: _samples(own[place], size, "k (samples)"), picked
    )
    dots = len(ks) == 1
    longest = max(len(line) for lines in wrap_labels(labels, *_LABEL) for line in lines)
    # Names are right of the plot, outside the area that Vega fits by itself.
    right = 12 if dots else 34 + _CHARACTER * longest
    padding = {"left": 4, "top": 8, "right": right, "bottom": 4}
    return {
        name: panel.properties(
            width="container",
            height=(32 * len(chosen) if dots else height) + _AROUND,
            autosize=alt.AutoSizeParams(type="fit", contains="padding"),
            title=alt.TitleParams(
                name,
                subtitle=[_population(part), *_legend(part, dots)],
                **PANEL_TITLE,
            ),
        ).configure(**{**CONFIG, "padding": padding})
        for (name, part), panel in zip(panels.items(), drawn, strict=True)
    }


def _draw(
    panels: Mapping[str, Rows],
    ks: Sequence[int],
    metric: str,
    palette: dict[str, str],
    size: Size,
    x: Callable[[int], Any],
    picked: Any = None,
) -> list[Any]:
    """Return the panels: lines over k, or dots at a single k, where a line would be invisible."""
    tooltip = [
        alt.Tooltip("label:N"),
        alt.Tooltip("k:Q"),
        *percents("value", "low", "high"),
        alt.Tooltip("problems:Q"),
    ]
    rows = list(panels.values())
    if len(ks) > 1:
        return line_panels(rows, palette, size, at="k", x=x, y_title=metric, tooltip=tooltip, picked=picked)
    at_k = metric.replace("k", str(ks[0]))
    return dot_panels(rows, palette, size, x_title=at_k, tooltip=tooltip, picked=picked)


def _by_benchmark(data: Rows) -> dict[str, list[Row]]:
    panels: dict[str, list[Row]] = {}
    for row in data:
        panels.setdefault(row["benchmark"], []).append(row)
    return panels


def _labels(data: Rows) -> list[str]:
    return list(dict.fromkeys(row["label"] for row in data))


def _ks(data: Rows) -> list[int]:
    return sorted({row["k"] for row in data})


def _samples(ks: Sequence[int], size: Size, title: str | None) -> Any:
    ends = ks[0], ks[-1]
    return alt.X("k:Q", title=title, **sample_axis(ends, power_ticks(*ends, size.x_ticks)))


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
    if any(map(has_interval, rows)):
        what = "Bars" if dots else "Bands"
        words.append(f"{what}: 95% interval for {rows[0]['interval']}")
    if any(map(is_unsure, rows)):
        words.append(f"{'Rings' if dots else 'Dashed'}: unknown grades counted as correct")
    return words
