"""Charts of metrics over steps, made once for each state of the database and shown side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import streamlit as st

from trainer_adapter.record.reading import Record as TrainingRecord
from trainer_adapter.record.series import MetricSeries, metric_names, metric_series, over_seeds
from ui.charts.building import build_spec
from ui.charts.training_steps import POINT, Scale, most_steps, step_chart, window_for, window_means
from ui.pages.state import links
from ui.pages.state.records import recorded_together
from ui.pages.training_signal.runs import Chosen
from ui.pages.widgets import charts

Record = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """A line to draw: a metric, what it is called; `magnitude` shows values below 0 as above.

    Of several runs, seeds of one recipe, their mean is drawn, with a band from the lowest to the highest.
    """

    runs: tuple[str, ...]
    metric: str
    label: str
    magnitude: bool = False


@dataclass(frozen=True)
class Panel:
    """A chart to draw. `runs` names the run of each line, so that a click finds it."""

    name: str
    title: str
    y_title: str
    scale: Scale
    lines: tuple[Line, ...]
    zero_line: bool = False


@dataclass(frozen=True)
class Drawn:
    """A finished chart with its data; None where no line has a value."""

    spec: Record | None
    rows: list[Record]


logged = recorded_together(metric_names)


def draw(
    panels: tuple[Panel, ...],
    window: int,
    palette: tuple[tuple[str, str], ...] = (),
    methods: tuple[tuple[str, str], ...] = (),
    forecasts: tuple[tuple[str, tuple[float, float, float]], ...] = (),
    level: bool = False,
) -> list[Drawn]:
    """Return the charts of panels; see `_draw`."""
    runs = tuple(dict.fromkeys(run for panel in panels for line in panel.lines for run in line.runs))
    return _draw(runs, panels, window, palette, methods, forecasts, level)


@recorded_together
def _draw(
    records: Mapping[str, TrainingRecord],
    panels: tuple[Panel, ...],
    window: int,
    palette: tuple[tuple[str, str], ...] = (),
    methods: tuple[tuple[str, str], ...] = (),
    forecasts: tuple[tuple[str, tuple[float, float, float]], ...] = (),
    level: bool = False,
) -> list[Drawn]:
    """Return the charts of panels.

    Args:
        window: steps a point averages; 0 for as few as needed.
        palette, methods: by label; each panel in the palette's order without them.
        forecasts: share, low, high by the name of a panel.
        level: put the panels of one unit on one axis, so that they can be compared.
    """
    logged = metric_series(
        records, tuple(dict.fromkeys(line.metric for panel in panels for line in panel.lines))
    )
    by_run = {series.run_id: series for series in logged}
    width = window_for(max((len(series.steps) for series in logged), default=0), window)
    rows_of = [
        [row for line in panel.lines for row in _rows(line, by_run, width, panel.scale)] for panel in panels
    ]
    steps = most_steps([series.steps for series in logged])
    predicted = dict(forecasts)
    spans = _spans(panels, rows_of, predicted) if level else {}
    drawn = []
    for panel, rows in zip(panels, rows_of, strict=True):
        if not rows:
            drawn.append(Drawn(None, []))
            continue
        band = predicted.get(panel.name)
        seeds = max((len(line.runs) for line in panel.lines), default=1)
        spec = build_spec(
            step_chart,
            rows,
            title=panel.title,
            y_title=panel.y_title,
            scale=panel.scale,
            palette=dict(palette) or None,
            methods=dict(methods),
            forecast=None
            if band is None
            else [{"label": "forecast", "share": band[0], "low": band[1], "high": band[2]}],
            zero_line=panel.zero_line,
            window=width,
            steps=steps,
            span=spans.get(panel.y_title),
            seeds=seeds,
        )
        drawn.append(Drawn(spec, rows))
    return drawn


def _spans(
    panels: Sequence[Panel],
    rows_of: Sequence[Sequence[Record]],
    forecasts: Mapping[str, tuple[float, float, float]],
) -> dict[str, tuple[float, float]]:
    """Return the lowest and the highest value of each unit; shares, and values with a line of 0, reach it."""
    by_unit: dict[str, list[float]] = {}
    for panel, rows in zip(panels, rows_of, strict=True):
        values = [row[name] for row in rows for name in ("value", "low", "high") if row.get(name) is not None]
        values += forecasts.get(panel.name, ())
        if values and (panel.scale == "share" or panel.zero_line):
            values.append(0.0)
        by_unit.setdefault(panel.y_title, []).extend(values)
    return {unit: (min(values), max(values)) for unit, values in by_unit.items() if values}


def _rows(line: Line, logged: Mapping[str, MetricSeries], width: int, scale: str) -> list[Record]:
    """Return the points of a line; those of several seeds say how far apart these are, and how many."""
    of_runs = [
        [
            (step, abs(value) if line.magnitude and value is not None else value)
            for step, value in window_means(logged[run].steps, values, width)
            if scale != "log" or value != 0  # which has no place on it
        ]
        for run in line.runs
        if (values := logged[run].values.get(line.metric, ()))
    ]
    if len(line.runs) == 1:
        points = of_runs[0] if of_runs else []
        return [
            {"label": line.label, "step": step, "value": value} for step, value in points if value is not None
        ]
    return [{"label": line.label, **asdict(point)} for point in over_seeds(of_runs)]


def show_methods(panels: tuple[Panel, ...], chosen: Chosen, columns: int) -> None:
    """Show charts whose lines are runs, or methods with their seeds, in their colours."""
    palette, methods = tuple(chosen.palette.items()), tuple(chosen.methods.items())
    by_name = {run.name: run.name for run in chosen.runs}
    show(panels, draw(panels, chosen.window, palette, methods), columns, by_name)


def show(
    panels: Sequence[Panel], drawn: Sequence[Drawn], columns: int, runs: dict[str, str] | None = None
) -> None:
    """Show charts side by side; on a narrow window below each other.

    Args:
        runs: of a label the run that a click on it leads to; by the panel's name where it has no such label.
    """
    charted = [(panel, chart) for panel, chart in zip(panels, drawn, strict=True) if chart.spec is not None]
    for start in range(0, len(charted), columns):
        places = st.columns(columns, gap="medium")
        for place, (panel, chart) in zip(places, charted[start : start + columns], strict=False):
            with place:
                assert chart.spec is not None
                state = charts.show_chart(
                    chart.spec, f"tagrpo-{panel.name}", panel.name, rows=chart.rows, on_select=_noted
                )
                _follow(state, panel, chart.rows, runs or {})


def _noted() -> None:
    """Do nothing more than let the page be drawn again with what was clicked."""


def _follow(state: Any, panel: Panel, rows: Sequence[Record], runs: dict[str, str]) -> None:
    """Link to the rollouts of the clicked step, of every run that has a point there."""
    picked = (state or {}).get("selection", {}).get(POINT) or []
    if not picked or picked[0].get("step") is None:
        return
    step = int(picked[0]["step"])
    there = [str(row["label"]) for row in rows if row["step"] == step]
    named = [runs.get(label) or runs.get(panel.name) for label in there]
    for run in dict.fromkeys(name for name in named if name):
        links.link(
            f"Rollouts of {run} at step {step}",
            "rollouts",
            icon=":material/arrow_forward:",
            run=run,
            step=step,
        )
