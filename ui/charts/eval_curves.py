"""pass@k over k: one panel a benchmark, one colour a method, the names at the ends of the lines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evaluator.errors import InputError
from ui.charts.axes import percent_format, power_ticks, shared_ticks
from ui.charts.ends import end_labels
from ui.charts.saving import save_chart
from ui.charts.tables import Frame, Row, in_order, read_rows
from ui.charts.theme import GRID, LINE_HEIGHT, MUTED, PANEL_TITLE, altair, colour_by, colours, themed

if TYPE_CHECKING:
    from altair import ConcatChart

__all__ = ["curve_chart", "save_chart"]

MEANINGS = {
    "pass@k": "share of problems that at least one of k samples solves",
    "pass^k": "share of problems that all of k samples solve",
    "maj@k": "share of problems that the most frequent of k answers solves",
}
_SAME = 1e-9
_POINTS_SHOWN = 14


@dataclass(frozen=True)
class _Size:
    """How panels are laid out: pixels, the most steps of ticks, characters and lines of a label."""

    columns: int
    width: int
    height: int
    share_ticks: int
    power_ticks: int
    label: tuple[int, int]


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
    draw = _dots if len(ks) == 1 else _curves
    alt = altair()
    several = len(panels) > 1
    size = _size(len(panels))
    drawn = draw(panels, palette, size, ks, metric if len(ks) > 1 else metric.replace("k", str(ks[0])))
    several = len(panels) > 1
    if several:
        drawn = [
            panel.properties(title=alt.TitleParams(name, subtitle=_population(part), **PANEL_TITLE))
            for name, panel, part in zip(benchmarks, drawn, panels, strict=True)
        ]
    subtitle = [] if several else [f"{benchmarks[0]}: {_population(panels[0])}"]
    heading = title or _title(metric, ks)
    return themed(  # type: ignore[no-any-return]
        alt.concat(*drawn, columns=size.columns, spacing=28).properties(
            title=alt.TitleParams(heading, subtitle=[*subtitle, *_legend(rows, len(ks) == 1, confidence)])
        )
    )


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


def _size(panels: int) -> _Size:
    if panels == 1:
        return _Size(1, 520, 330, 8, 11, (24, 3))
    if panels <= 4:
        return _Size(2, 330, 230, 6, 8, (22, 2))
    return _Size(3, 235, 185, 5, 6, (18, 2))


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
    if any(row["low"] is not None and row["high"] is not None for row in rows):
        what = "Bars" if dots else "Bands"
        said.append(f"{what}: {confidence * 100:g}% interval for {rows[0]['interval']}")
    if any(_unsure(row) for row in rows):
        said.append(f"{'Rings' if dots else 'Dashed'}: unknown grades counted right")
    return [". ".join(said)] if said else []


def _unsure(row: Row) -> bool:
    return bool(row["value_high"] > row["value"] + _SAME)


def _extent(rows: Sequence[Row]) -> list[float]:
    names = ("value", "value_high", "low", "high")
    return [row[name] for row in rows for name in names if row[name] is not None]


def _curves(
    panels: Sequence[Sequence[Row]], palette: dict[str, str], size: _Size, ks: Sequence[int], metric: str
) -> list[Any]:
    alt = altair()
    ticks = shared_ticks([_extent(rows) for rows in panels], size.share_ticks)
    powers = power_ticks(ks[0], ks[-1], size.power_ticks)
    scale = alt.Scale(type="log", base=2, domain=[ks[0], ks[-1]], nice=False)
    axis = alt.Axis(values=powers, format="d", labelFlush=False)
    drawn = []
    for place, (rows, own) in enumerate(zip(panels, ticks, strict=True)):
        below = place + size.columns < len(panels)  # another panel stands below and names the axis
        x = alt.X("k:Q", title=None if below else "k (samples)", scale=scale, axis=axis)
        drawn.append(_panel(rows, palette, size, x, own, None if place % size.columns else metric))
    return drawn


def _panel(
    rows: Sequence[Row],
    palette: dict[str, str],
    size: _Size,
    x: Any,
    ticks: Sequence[float],
    metric: str | None,
) -> Any:
    alt = altair()
    lines = _lines(rows)
    data = [row for line in lines.values() for row in line]
    colour = colour_by("label", palette)

    def y(field: str) -> Any:
        return alt.Y(
            f"{field}:Q",
            title=metric,
            scale=alt.Scale(domain=[ticks[0], ticks[-1]], nice=False, zero=False),
            axis=alt.Axis(values=list(ticks), format=percent_format(ticks)),
        )

    base = alt.Chart(alt.Data(values=data)).encode(x=x, color=colour)
    banded = [row for row in data if row["low"] is not None and row["high"] is not None]
    layers = []
    if banded:
        band = alt.Chart(alt.Data(values=banded)).encode(x=x, color=colour)
        layers.append(
            band.mark_area(opacity=0.13 if len(lines) <= 4 else 0.07).encode(y=y("low"), y2="high:Q")
        )
    unsure = [row for line in lines.values() if any(map(_unsure, line)) for row in line]
    if unsure:
        dashed = alt.Chart(alt.Data(values=unsure)).encode(x=x, color=colour)
        layers.append(dashed.mark_line(strokeWidth=1, strokeDash=[4, 3]).encode(y=y("value_high")))
    layers.append(base.mark_line().encode(y=y("value")))
    few = max(len(line) for line in lines.values()) <= _POINTS_SHOWN
    points = base.mark_circle(size=26 if few else 60, opacity=1 if few else 0)
    layers.append(points.encode(y=y("value"), tooltip=_tooltip(alt)))
    ends = [line[-1] for line in lines.values()]
    per_pixel = (ticks[-1] - ticks[0]) / size.height
    layers += end_labels(
        [(row["label"], row["k"], row["value"]) for row in ends],
        x=x,
        y=y,
        colour=colour,
        room=(ticks[0] - LINE_HEIGHT * per_pixel, ticks[-1] + LINE_HEIGHT * per_pixel),
        per_pixel=per_pixel,
        wrapped=size.label,
    )
    return alt.layer(*layers).properties(width=size.width, height=size.height)


def _tooltip(alt: Any) -> list[Any]:
    shares = [alt.Tooltip(f"{name}:Q", format=".1%") for name in ("value", "low", "high")]
    return [alt.Tooltip("label:N"), alt.Tooltip("k:Q"), *shares, alt.Tooltip("problems:Q")]


def _dots(
    panels: Sequence[Sequence[Row]], palette: dict[str, str], size: _Size, ks: Sequence[int], metric: str
) -> list[Any]:
    """Draw one row a method: a line of one point would be lost in its panel."""
    alt = altair()
    all_ticks = shared_ticks([_extent(rows) for rows in panels], size.share_ticks)
    drawn = []
    for place, (rows, ticks) in enumerate(zip(panels, all_ticks, strict=True)):
        x = alt.Scale(domain=[ticks[0], ticks[-1]], nice=False, zero=False)
        axis = alt.Axis(
            values=list(ticks), format=percent_format(ticks), grid=True, domain=False, labelFlush=False
        )
        names = alt.Axis(labelLimit=240, labelFontSize=12, grid=False, gridColor=GRID, labelColor=MUTED)
        base = alt.Chart(alt.Data(values=list(rows))).encode(
            y=alt.Y(
                "label:N",
                title=None,
                sort=list(palette),
                scale=alt.Scale(domain=list(palette)),
                axis=names if place % size.columns == 0 else None,
            ),
            color=colour_by("label", palette),
        )
        banded = base.transform_filter("isValid(datum.low) && isValid(datum.high)")
        layers = [
            banded.mark_rule(strokeWidth=5, opacity=0.28, strokeCap="round").encode(
                x=alt.X("low:Q", title=metric, scale=x, axis=axis), x2="high:Q"
            )
        ]
        if any(map(_unsure, rows)):
            layers.append(
                base.mark_point(size=60, strokeWidth=1.2).encode(
                    x=alt.X("value_high:Q", title=metric, scale=x, axis=axis)
                )
            )
        layers.append(
            base.mark_circle(size=90, opacity=1).encode(
                x=alt.X("value:Q", title=metric, scale=x, axis=axis), tooltip=_tooltip(alt)
            )
        )
        drawn.append(alt.layer(*layers).properties(width=size.width, height=34 * len(palette)))
    return drawn
