"""Charts of logged metrics over steps, side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import streamlit as st

from trainer_adapter.record.reading import Record as TrainingRecord
from trainer_adapter.record.series import metric_names, over_seeds
from ui.charts.training_steps import POINT, Scale, most_steps, step_chart, window_for, window_means
from ui.pages.state import links
from ui.pages.state.records import recorded
from ui.pages.widgets import charts

Record = dict[str, Any]
Logged = tuple[list[int], dict[str, list[float | None]]]
"""All steps of a run, and by name the values of metrics at these."""


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
    """A chart to draw."""

    name: str
    title: str
    y_title: str
    scale: Scale
    lines: tuple[Line, ...]
    zero_line: bool = False


names_of = recorded(metric_names)


@recorded
def _logged(record: TrainingRecord, names: tuple[str, ...]) -> Logged:
    logged = record.metrics()
    return list(logged), {name: [metrics.get(name) for metrics in logged.values()] for name in names}


def show(
    panels: Sequence[Panel],
    columns: int,
    runs: Mapping[str, str],
    *,
    window: int,
    palette: Mapping[str, str],
    methods: Mapping[str, str] | None = None,
    level: bool = False,
) -> None:
    """Show the charts that have a value side by side; on a narrow page below each other.

    Args:
        runs: the run that a click leads to, by label, or by the panel's name where it has no such label.
        window: steps a point averages; 0 for as few as needed.
        palette, methods: by label.
        level: put the panels of one unit on one axis, so that they can be compared.
    """
    every = [line for panel in panels for line in panel.lines]
    names = tuple(dict.fromkeys(line.metric for line in every))
    runs_there = dict.fromkeys(run for line in every for run in line.runs)
    logged = {run: _logged(run, names) for run in runs_there}
    width = window_for(max((len(steps) for steps, _ in logged.values()), default=0), window)
    rows_of = {
        panel: [row for line in panel.lines for row in _rows(line, logged, width, panel.scale)]
        for panel in panels
    }
    drawn = [(panel, rows) for panel, rows in rows_of.items() if rows]
    spans = _spans(drawn) if level else {}
    for start in range(0, len(drawn), columns):
        places = st.columns(columns, gap="medium")
        for place, (panel, rows) in zip(places, drawn[start : start + columns], strict=False):
            spec = charts.cached_chart(
                step_chart,
                rows,
                title=panel.title,
                y_title=panel.y_title,
                scale=panel.scale,
                palette=palette,
                methods=methods,
                zero_line=panel.zero_line,
                window=width,
                steps=most_steps([steps for steps, _ in logged.values()]),
                span=spans.get(panel.y_title),
                seeds=max(len(line.runs) for line in panel.lines),
            )
            with place:
                state = charts.show_chart(
                    spec, f"tagrpo-{panel.name}", panel.name, rows=rows, on_select=lambda: None
                )
                _follow(state, panel, rows, runs)


def _spans(drawn: Sequence[tuple[Panel, Sequence[Record]]]) -> dict[str, tuple[float, float]]:
    """Return the lowest and the highest value of each unit; shares, and values with a line of 0, reach it."""
    by_unit: dict[str, list[float]] = {}
    for panel, rows in drawn:
        values = [row[name] for row in rows for name in ("value", "low", "high") if row.get(name) is not None]
        if panel.scale == "share" or panel.zero_line:
            values.append(0.0)
        by_unit.setdefault(panel.y_title, []).extend(values)
    return {unit: (min(values), max(values)) for unit, values in by_unit.items()}


def _rows(line: Line, logged: Mapping[str, Logged], width: int, scale: str) -> list[Record]:
    """Return the points of a line; those of several seeds say how far apart these are, and how many."""
    of_runs = [
        [
            (step, abs(value) if line.magnitude and value is not None else value)
            for step, value in window_means(steps, values[line.metric], width)
            if scale != "log" or value != 0  # which has no place on it
        ]
        for steps, values in (logged[run] for run in line.runs)
    ]
    if len(line.runs) == 1:
        return [
            {"label": line.label, "step": step, "value": value}
            for step, value in of_runs[0]
            if value is not None
        ]
    return [{"label": line.label, **asdict(point)} for point in over_seeds(of_runs)]


def _follow(state: Any, panel: Panel, rows: Sequence[Record], runs: Mapping[str, str]) -> None:
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
