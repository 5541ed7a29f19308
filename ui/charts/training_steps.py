"""Training over its steps: one line per run (or prompt, or percentile), a forecast as a band."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, pairwise
from math import ceil, floor, log10
from typing import Any, Literal

import altair as alt

from service.errors import InputError
from ui.charts.axes import share_axis, share_ticks
from ui.charts.building import Rows, colour_by, data_of, frame_chart, legend_above
from ui.charts.theme import MUTED, PALETTE, RULE, colours

MOST_POINTS = 200
"""Maximum points of a line: more cannot be distinguished and make a page slow."""

WIDTH, HEIGHT = 420, 290
"""Pixels: the width of a chart outside a page, the height with titles and legend."""

_SHORT_NAME = 16
"""Characters of a line's name; two longer ones do not fit side by side over the narrowest chart."""

_LOG_ROOM = 1.15
"""Maximum ratio of a log axis's range to the range of its values."""

_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])

Scale = Literal["share", "linear", "log"]


def step_chart(
    data: Rows,
    *,
    title: str,
    y_title: str,
    scale: Scale = "linear",
    palette: Mapping[str, str] | None = None,
    methods: Mapping[str, str] | None = None,
    zero_line: bool = False,
    forecast: tuple[float, float, float] | None = None,
    window: int = 1,
    steps: tuple[float, float] | None = None,
    span: tuple[float, float] | None = None,
    dots: bool = False,
    seeds: int = 1,
) -> alt.LayerChart:
    """Return lines over steps; it stretches to the width of its place. A step can be clicked.

    Rows: label (of the line), step, value; of means over seeds also low and high. Rows without a value are
    gaps that the line bridges; a log scale omits values that are not above 0. Lines of one of the `methods`
    (by label) share its colour and differ in their dashes. `window` and `seeds` are for the subtitle, `steps`
    and `span` the ends of the axes, for charts that are compared. `forecast` is the share from before
    training, with its interval, drawn over all steps. `dots` marks each value, if most steps have none.
    """
    rows = [row for row in data if row["value"] is not None and (scale != "log" or row["value"] > 0)]
    if not rows:
        raise InputError(f"{title}: there are no values to plot.")
    names = list(dict.fromkeys(row["label"] for row in rows))
    chosen = colours(names, palette)
    first, last = steps or (min(row["step"] for row in rows), max(row["step"] for row in rows))
    ends = [first - 0.5, last + 0.5] if first == last else [first, last]

    def x(field: str) -> Any:
        return alt.X(
            f"{field}:Q",
            title="step",
            scale=alt.Scale(domain=ends, nice=False),
            axis=alt.Axis(tickCount=6, tickMinStep=1, labelFlush=True, format=",d"),
        )

    spread = [row for row in rows if row.get("low") is not None]
    values = [row["value"] for row in rows]
    values += [*(row[name] for row in spread for name in ("low", "high")), *(forecast or ())]
    y_scale, y_axis = _vertical(scale, [*values, *(span or ())], span)

    def y(field: str) -> Any:
        return alt.Y(f"{field}:Q", title=None, scale=y_scale, axis=y_axis)

    columns = 2 if max(map(len, names)) <= _SHORT_NAME else 1
    legend = legend_above(columns, "stroke", labelLimit=230, symbolOpacity=1)
    colour = colour_by("label", chosen, legend)
    of_method: defaultdict[str, Iterator[int]] = defaultdict(count)  # the first line of a method is solid
    dash = {name: next(of_method[(methods or {}).get(name, name)]) % len(_DASHES) for name in names}
    base = alt.Chart(data_of(rows)).encode(x=x("step"), y=y("value"), color=colour)
    layers = []
    if zero_line:
        zero = alt.Chart(data_of([{"zero": 0}])).mark_rule(color=RULE)
        layers.append(zero.encode(y=y("zero")))
    if forecast:
        predicted = alt.Chart(data_of([dict(zip(("share", "low", "high"), forecast, strict=True))]))
        layers.append(predicted.mark_rect(opacity=0.12, color=MUTED).encode(y=y("low"), y2="high:Q"))
        dashed = predicted.mark_rule(strokeWidth=1.4, strokeDash=[4, 3], color=MUTED)
        layers.append(dashed.encode(y=y("share")))
    if spread:
        band = alt.Chart(data_of(spread)).mark_area(opacity=0.18, aria=False)
        layers.append(band.encode(x=x("step"), y=y("low"), y2="high:Q", color=colour))
    line = base.mark_line(strokeWidth=1.8, aria=False)
    if len(set(dash.values())) > 1:
        domain, ranges = list(dash), [list(_DASHES[place]) for place in dash.values()]
        line = line.encode(
            strokeDash=alt.StrokeDash("label:N", scale=alt.Scale(domain=domain, range=ranges), legend=legend)
        )
    layers.append(line)
    alone = [name for name in names if dots or sum(row["label"] == name for row in rows) == 1]
    if alone:  # a line of one point is invisible
        marks = base.transform_filter(alt.FieldOneOfPredicate("label", alone)).mark_circle(
            size=55, aria=False
        )
        layers.append(marks.encode(opacity=alt.value(1)))
    layers.append(_steps(rows, names, ends, x, scale))
    subtitle = [y_title if window == 1 else f"{y_title}, means of {window} steps"]
    if seeds > 1:
        subtitle.append(f"mean of up to {seeds} seeds; band: lowest to highest")
    if forecast:
        subtitle.append("dashed: forecast, 95% interval")
    return frame_chart(alt.layer(*layers), title, subtitle, height=HEIGHT, width=WIDTH)


def window_for(steps: int, asked: int = 0) -> int:
    """Return the number of steps per point: as requested, or as few as keep a line to `MOST_POINTS`."""
    return max(1, asked, -(-steps // MOST_POINTS))


def window_means(
    steps: Sequence[int], values: Sequence[float | None], window: int
) -> list[tuple[float, float | None]]:
    """Return the last step and the mean of each window of `window` steps.

    Steps without a value do not count. A remainder of less than half a window joins the previous one.
    """
    if window < 1 or len(steps) != len(values):
        raise ValueError(f"invalid: {len(steps)} steps, {len(values)} values, a window of {window}")
    means: list[tuple[float, float | None]] = []
    starts = list(range(0, len(steps), window))
    if len(starts) > 1 and 2 * (len(steps) - starts[-1]) < window:
        starts.pop()
    for start, end in pairwise([*starts, len(steps)]):
        there = [value for value in values[start:end] if value is not None]
        means.append((steps[end - 1], sum(there) / len(there) if there else None))
    return means


def _steps(rows: Rows, names: Sequence[str], ends: Sequence[float], x: Any, scale: Scale) -> Any:
    """Return hover targets: a stripe for each step, whose tooltip has the values of all lines."""
    steps = sorted({row["step"] for row in rows})
    borders = [ends[0], *((left + right) / 2 for left, right in pairwise(steps)), ends[1]]
    form = ".1%" if scale == "share" else ".4g"
    values = {(row["step"], row["label"]): format(row["value"], form) for row in rows}
    stripes = []
    for step, (low, high) in zip(steps, pairwise(borders), strict=True):
        texts = {name: values.get((step, name), "none") for name in names}
        texts = {"at step": f"{step:,.0f}", **texts}  # no line's name has a blank
        stripes.append({"step": step, "from": low, "to": high, "values": texts})
    picked = alt.selection_point(name="point", fields=["step"], on="click", empty=False)
    values_of_step = alt.expr("datum.values")
    drawn = alt.Chart(data_of(stripes)).mark_rect(
        color=MUTED, cursor="pointer", tooltip=values_of_step, aria=False
    )
    shade = alt.OpacityValue(0, condition={"param": picked.name, "empty": False, "value": 0.25})
    return drawn.encode(x=x("from"), x2="to:Q", opacity=shade).add_params(picked)


def _vertical(scale: Scale, values: Sequence[float], span: tuple[float, float] | None) -> tuple[Any, Any]:
    if scale == "share":
        ticks = share_ticks(span or values, 5)
        ends = [min(ticks[0], *values), max(ticks[-1], *values)]
        return alt.Scale(domain=ends, nice=False, zero=False), share_axis(ticks)["axis"]
    low, high = min(values), max(values)
    if scale == "log":
        decades = [10.0**power for power in range(ceil(log10(low) - 1e-9), floor(log10(high) + 1e-9) + 1)]
        if len(decades) < 2:
            return alt.Scale(type="log", domain=[low, high], nice=True), alt.Axis(tickCount=5, format="~g")
        ends = [low / _LOG_ROOM, high * _LOG_ROOM]
        return alt.Scale(type="log", domain=ends, nice=False), alt.Axis(values=decades, format="~g")
    domain = {} if span is None else {"domain": [low, high]}
    return alt.Scale(zero=False, nice=True, **domain), alt.Axis(tickCount=5, format="~r")


def method_colours(labels: Mapping[str, str], every: Sequence[str]) -> dict[str, str]:
    """Return the colour of each label by its method, stable under any selection of `every` method."""
    wanted, order = list(dict.fromkeys(labels.values())), list(dict.fromkeys(every))
    if len(wanted) > len(PALETTE):
        raise InputError(f"{len(wanted)} methods are too many to distinguish. Draw at most {len(PALETTE)}.")
    places = {method: order.index(method) % len(PALETTE) for method in wanted}
    if len(set(places.values())) < len(places):  # colours repeat after the eighth method
        places = {method: place for place, method in enumerate(wanted)}
    return {label: PALETTE[places[method]] for label, method in labels.items()}
