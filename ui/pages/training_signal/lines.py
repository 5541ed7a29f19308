"""Charts of logged metrics over steps, side by side."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

from trainer_adapter.record.reading import Record as TrainingRecord
from trainer_adapter.record.series import over_seeds
from ui.charts.training_steps import Scale, step_chart, window_for, window_means
from ui.pages.state import links
from ui.pages.state.records import recorded, stored_trainings
from ui.pages.training_signal.runs import Chosen
from ui.pages.widgets import charts, layout

Record = dict[str, Any]
Logged = tuple[list[int], dict[str, list[float | None]]]
"""All steps of a run, and by name the values of metrics at these."""


@dataclass(frozen=True)
class Line:
    """A line to draw: a metric, and what it is called.

    Of several runs, seeds of one recipe, their mean is drawn, with a band from the lowest to the highest.
    """

    runs: tuple[str, ...]
    metric: str
    label: str


@dataclass(frozen=True)
class Panel:
    """A chart to draw; `forecast` is a share with its interval (share, low, high).

    With the scale "log", magnitudes are drawn.
    """

    name: str
    title: str
    y_title: str
    scale: Scale
    lines: tuple[Line, ...]
    zero_line: bool = False
    forecast: tuple[float, float, float] | None = None


@recorded
def logged_at_steps(record: TrainingRecord, names: tuple[str, ...]) -> Logged:
    logged = record.metrics()
    return list(logged), {name: [metrics.get(name) for metrics in logged.values()] for name in names}


def show(
    panels: Sequence[Panel],
    columns: int,
    chosen: Chosen,
    *,
    palette: Mapping[str, str] | None = None,
    level: bool = False,
) -> None:
    """Show the charts that have a value side by side; on a narrow page below each other.

    `palette` is by label, by default that of the methods. With `level`, panels of one unit share an axis.
    """
    every = [line for panel in panels for line in panel.lines]
    names = tuple(dict.fromkeys(line.metric for line in every))
    logged = {
        run: logged_at_steps(run, names) for run in dict.fromkeys(run for line in every for run in line.runs)
    }
    width = window_for(max((len(steps) for steps, _ in logged.values()), default=0), chosen.window)
    rows_of = {
        panel: [row for line in panel.lines for row in _rows(line, logged, width, panel.scale)]
        for panel in panels
    }
    drawn = [(panel, rows) for panel, rows in rows_of.items() if rows]
    spans = _spans(drawn) if level else {}
    every_step = [step for steps, _ in logged.values() for step in steps]
    for panel, rows in layout.in_columns(drawn, columns, gap="medium"):
        point = charts.draw_chart(
            step_chart,
            rows,
            f"tagrpo-{panel.name}",
            panel.name,
            on_click=lambda _: None,
            title=panel.title,
            y_title=panel.y_title,
            scale=panel.scale,
            palette=palette or chosen.palette,
            methods=None if palette else chosen.methods,
            zero_line=panel.zero_line,
            forecast=panel.forecast,
            window=width,
            steps=(min(every_step), max(every_step)),
            span=spans.get(panel.y_title),
            seeds=max(len(line.runs) for line in panel.lines),
        )
        if (at := point.get("step")) is not None:
            _link_rollouts(panel, int(at), {row["label"] for row in rows if row["step"] == at})


def _spans(drawn: Sequence[tuple[Panel, Sequence[Record]]]) -> dict[str, tuple[float, float]]:
    """Return the lowest and the highest value of each unit; shares, and values with a line of 0, reach it."""
    by_unit: dict[str, list[float]] = {}
    for panel, rows in drawn:
        values = [row[name] for row in rows for name in ("value", "low", "high") if row.get(name) is not None]
        values += panel.forecast or ()
        if panel.scale == "share" or panel.zero_line:
            values.append(0.0)
        by_unit.setdefault(panel.y_title, []).extend(values)
    return {unit: (min(values), max(values)) for unit, values in by_unit.items()}


def _rows(line: Line, logged: Mapping[str, Logged], width: int, scale: str) -> list[Record]:
    """Return the points of a line; those of several seeds say how far apart these are, and how many."""
    of_runs = [
        [
            (step, abs(value) if scale == "log" and value else value)
            for step, value in window_means(steps, values[line.metric], width)
            if scale != "log" or value != 0  # which has no place on it
        ]
        for steps, values in (logged[run] for run in line.runs)
    ]
    if len(line.runs) > 1:
        return [{"label": line.label, **asdict(point)} for point in over_seeds(of_runs)]
    points = [(step, value) for step, value in of_runs[0] if value is not None]
    return [{"label": line.label, "step": step, "value": value} for step, value in points]


def _link_rollouts(panel: Panel, step: int, labels: Set[str]) -> None:
    """Link to the rollouts of the clicked step, of every run that has a point of its own there."""
    ids = dict.fromkeys(line.runs[0] for line in panel.lines if line.label in labels and len(line.runs) == 1)
    for run in (stored_trainings()[id][0].name for id in ids):
        words = f"Rollouts of {run} at step {step}"
        links.link(words, "rollouts", icon=":material/arrow_forward:", run=run, step=step)
