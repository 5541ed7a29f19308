"""pass@k over k: one panel a benchmark, one colour a method, the names at the ends of the lines."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from service.errors import InputError
from ui.charts.axes import power_ticks
from ui.charts.labels import wrap_label
from ui.charts.panels import Size, dot_panels, has_interval, is_unsure, line_panels, panel_size, titled
from ui.charts.saving import save_chart
from ui.charts.tables import Frame, Row, in_order, read_rows
from ui.charts.theme import CONFIG, PANEL_TITLE, altair, colours, themed

if TYPE_CHECKING:
    from altair import ConcatChart, LayerChart

__all__ = ["POINT", "curve_chart", "panel_charts", "save_chart"]

POINT = "point"
"""The parameter that holds a clicked point of `panel_charts`, with its label and k."""

_LABEL = (16, 3)  # characters and lines of a name at the end of a line
_CHARACTER = 6.8  # pixels
_AROUND = 118  # pixels of titles, axis and padding above and below a plot

MEANINGS = {
    "pass@k": "share of problems that at least one of k samples solves",
    "pass^k": "share of problems that all of k samples solve",
    "maj@k": "share of problems that the most frequent of k answers solves",
}


def curve_chart(
    frame: Frame, *, metric: str = "pass@k", title: str | None = None, confidence: float = 0.95
) -> "ConcatChart":
    """Return curves of a metric over k with bands, k on a log scale; at a single k, dots with intervals.

    Args:
        frame: one row for each method, benchmark and k, as `evaluator.reports.records.curve_rows` gives them:
            run; label (of the method: its colour and the name at its line); benchmark (its panel); k;
            value and value_high (unknown grades counted wrong and right; drawn dashed where they differ);
            low, high (of the band, missing where undefined); interval (what question the band answers);
            problems (that the point stands on); samples (a problem, at least).
        metric: what `value` is; it names the axis.
        title: instead of the metric with its meaning.
        confidence: of the intervals, as said in the subtitle.

    Methods keep the order of their first rows, and so do panels. The vertical scale is shared by all panels
    unless one would lose half of its height by that.

    Raises:
        InputError: columns or values that cannot be drawn, several intervals in one chart, two runs under one
            label, a line whose points stand on different numbers of problems, or more methods than colours.
        PrerequisiteError: altair is not installed.
    """
    rows = _read(frame)
    palette = colours(in_order([row["label"] for row in rows]))
    benchmarks = in_order([row["benchmark"] for row in rows])
    ks = sorted({row["k"] for row in rows})
    panels = [[row for row in rows if row["benchmark"] == name] for name in benchmarks]
    alt = altair()
    several = len(panels) > 1
    size = panel_size(len(panels))
    tooltip = _tooltip()
    if len(ks) == 1:  # a line of one point would be lost in its panel
        at_k = metric.replace("k", str(ks[0]))
        drawn = dot_panels(panels, palette, size, x_title=at_k, tooltip=tooltip)
    else:
        drawn = line_panels(
            panels,
            palette,
            size,
            at="k",
            x=lambda place: _samples(
                ks, size, "k (samples)" if place + size.columns >= len(panels) else None
            ),
            y_title=metric,
            tooltip=tooltip,
        )
    if several:
        drawn = titled(drawn, benchmarks, [_population(part) for part in panels])
    subtitle = [] if several else [f"{benchmarks[0]}: {_population(panels[0])}"]
    heading = title or _title(metric, ks)
    return themed(  # type: ignore[no-any-return]
        alt.concat(*drawn, columns=size.columns, spacing=28).properties(
            title=alt.TitleParams(heading, subtitle=[*subtitle, *_legend(rows, len(ks) == 1, confidence)])
        )
    )


def panel_charts(
    frame: Frame,
    *,
    metric: str = "pass@k",
    palette: Mapping[str, str] | None = None,
    confidence: float = 0.95,
    height: int = 230,
) -> "dict[str, LayerChart]":
    """Return the panels of `curve_chart` as charts of their own, by benchmark, as wide as their places.

    A point can be clicked: the parameter `POINT` then holds its label and k. The vertical scale is shared as
    there, and so are errors and arguments.

    Args:
        palette: a colour for each label, so that a method keeps its colour whatever else is drawn.
        height: of each chart's plot, in pixels.
    """
    rows = _read(frame)
    labels = in_order([row["label"] for row in rows])
    chosen = {name: palette[name] for name in labels} if palette else colours(labels)
    benchmarks = in_order([row["benchmark"] for row in rows])
    ks = sorted({row["k"] for row in rows})
    panels = [[row for row in rows if row["benchmark"] == name] for name in benchmarks]
    alt = altair()
    size = Size(1, 300, height, 6, 8, _LABEL)
    own = [sorted({row["k"] for row in part}) for part in panels]  # a panel ends where its curves do
    picked = alt.selection_point(name=POINT, fields=["label", "k"], on="click", empty=False)
    if len(ks) == 1:
        drawn = dot_panels(
            panels, chosen, size, x_title=metric.replace("k", str(ks[0])), tooltip=_tooltip(), picked=picked
        )
        right = 12.0
    else:
        drawn = line_panels(
            panels,
            chosen,
            size,
            at="k",
            x=lambda place: _samples(own[place], size, "k (samples)"),
            y_title=metric,
            tooltip=_tooltip(),
            picked=picked,
        )
        longest = max(len(line) for name in labels for line in wrap_label(name, *_LABEL))
        right = 34 + _CHARACTER * longest  # names stand right of the plot, beyond what fits by itself
    padding = {"left": 4, "top": 8, "right": right, "bottom": 4}
    return {
        name: panel.properties(
            width="container",
            height=(height if len(ks) > 1 else 32 * len(chosen)) + _AROUND,
            autosize=alt.AutoSizeParams(type="fit", contains="padding"),
            title=alt.TitleParams(
                name,
                subtitle=[_population(part), *_legend(part, len(ks) == 1, confidence)],
                **PANEL_TITLE,
            ),
        ).configure(**{**CONFIG, "padding": padding})
        for name, panel, part in zip(benchmarks, drawn, panels, strict=True)
    }


def _tooltip() -> list[Any]:
    alt = altair()
    return [
        alt.Tooltip("label:N"),
        alt.Tooltip("k:Q"),
        *(alt.Tooltip(f"{name}:Q", format=".1%") for name in ("value", "low", "high")),
        alt.Tooltip("problems:Q"),
    ]


def _read(frame: Frame) -> list[Row]:
    rows = read_rows(
        frame,
        texts=("run", "label", "benchmark", "interval"),
        shares=("value", "value_high", "low", "high"),
        numbers=("k", "problems", "samples"),
        optional=("low", "high"),
    )
    for place, row in enumerate(rows):
        if row["k"] < 1 or row["k"] != int(row["k"]):
            raise InputError(f"the chart's table, row {place}: k is {row['k']}; give whole numbers from 1.")
        row.update({name: int(row[name]) for name in ("k", "problems", "samples")})
    intervals = in_order([row["interval"] for row in rows])
    if len(intervals) > 1:
        raise InputError(f"one chart shows one kind of interval, not {' and '.join(intervals)}.")
    for (label, benchmark), line in _lines(rows).items():
        runs, problems = {row["run"] for row in line}, {row["problems"] for row in line}
        if len(runs) > 1 or len({row["k"] for row in line}) < len(line):
            raise InputError(
                f"{benchmark}: several runs are labelled {label!r} ({', '.join(sorted(runs))}); "
                "give each a label of its own."
            )
        if len(problems) > 1:
            raise InputError(
                f"{benchmark}: points of {label!r} stand on {min(problems)} to {max(problems)} problems; "
                "a curve needs the same ones at every k."
            )
    return rows


def _lines(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    lines: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: int(row["k"])):
        lines.setdefault((row["label"], row["benchmark"]), []).append(row)
    return lines


def _samples(ks: Sequence[int], size: Size, title: str | None) -> Any:
    alt = altair()
    return alt.X(
        "k:Q",
        title=title,
        scale=alt.Scale(type="log", base=2, domain=[ks[0], ks[-1]], nice=False),
        axis=alt.Axis(values=power_ticks(ks[0], ks[-1], size.x_ticks), format="d", labelFlush=False),
    )


def _title(metric: str, ks: Sequence[int]) -> str:
    meaning = MEANINGS.get(metric)
    if len(ks) == 1:
        metric = metric.replace("k", str(ks[0]))
        meaning = meaning and meaning.replace("of k ", f"of {ks[0]} ")
    return f"{metric}: {meaning}" if meaning else metric


def _population(rows: Sequence[Row]) -> str:
    """Say what a panel stands on: how many problems, how many samples a problem."""
    problems, samples = _range([row["problems"] for row in rows]), _range([row["samples"] for row in rows])
    one = problems == "1"
    return f"{problems} problem{'' if one else 's'}, {samples} sample{'' if samples == '1' else 's'} each"


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _legend(rows: Sequence[Row], dots: bool, confidence: float) -> list[str]:
    """Say what bands and dashes mean, where there are any."""
    said = []
    if any(map(has_interval, rows)):
        what = "Bars" if dots else "Bands"
        said.append(f"{what}: {confidence * 100:g}% interval for {rows[0]['interval']}")
    if any(map(is_unsure, rows)):
        said.append(f"{'Rings' if dots else 'Dashed'}: unknown grades counted right")
    return [". ".join(said)] if said else []
