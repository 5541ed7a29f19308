"""Scores against the training cost of the measured checkpoint, in responses or tokens."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from trainer_adapter.record.reading import Record
from trainer_adapter.record.series import trained_checkpoint
from ui.charts.intervals import cost_points
from ui.pages.curves.choosing import Choice
from ui.pages.curves.data import PageReport
from ui.pages.state import settings
from ui.pages.state.records import list_trainings, recorded
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.charts import cached_chart, show_chart
from ui.pages.widgets.choices import choose

UNITS = ("responses", "tokens")


Cost = tuple[str, int, int, int]
"""The training of a model, the step of its checkpoint, and the responses and tokens drawn until then.

The model that trainings started from has no cost, at step 0.
"""


def training_costs(models: Sequence[str]) -> dict[str, Cost]:
    """Return the cost of each model that is a checkpoint or the start of a recorded training run."""
    trained = list_trainings()
    runs = {training.run.name: training for training in trained}
    starts = {
        str(training.run.spec.get("model", "")): training.run.name
        for training in trained
        if training.numbers.rollouts
    }
    drawn: dict[str, Cost] = {}
    for model in models:
        checkpoint = trained_checkpoint(model, list(runs))
        if checkpoint is None:
            start = next((run for path, run in starts.items() if same_model(model, path)), None)
            if start is not None:
                drawn[model] = (start, 0, 0, 0)
            continue
        name, step = checkpoint
        steps = [] if runs[name].problem else drawn_by_step(runs[name].run.id)
        until = [total for total in steps if total[0] <= step]
        if until:
            drawn[model] = (name, step, *max(until)[1:])
    return drawn


@recorded
def drawn_by_step(record: Record) -> list[tuple[int, int, int]]:
    """Return steps, and the responses and tokens that were drawn until their end."""
    return record.counts().drawn_by_step()


def same_model(first: str, second: str) -> bool:
    """Say whether two names are one model: equal, or a path of two or more parts and the end of a longer one.

    >>> same_model("demo/policy", "/models/demo/policy")
    True
    """
    short, long = sorted((first.strip("/").split("/"), second.strip("/").split("/")), key=len)
    return short == long or (len(short) > 1 and long[-len(short) :] == short)


def show_cost(choice: Choice, report: PageReport) -> None:
    """Show the scores at the table's k against responses or tokens."""
    models = {
        run.run.spec["model"]: method.label
        for method in choice.methods
        for run in method.runs
        if run.benchmark in choice.benchmarks
    }
    drawn = training_costs(tuple(models))
    rows = cost_rows(report, drawn)
    missing = sorted({label for model, label in models.items() if model not in drawn})
    if missing:
        st.caption(
            escaped(
                f"Not shown: {', '.join(missing)}. Their models are no checkpoints "
                "(.../NAME/checkpoints/global_step_N/...) or initial models of recorded training runs."
            )
        )
    if not rows:
        layout.empty_state(
            "No evaluated model comes from a training run in this database.",
            "Add the rollouts of its training run, named like its folder:",
            commands=(settings.command("train rollouts FOLDER --add"),),
        )
        return
    unit = choose(st.segmented_control, "Cost in", "unit", UNITS, label_visibility="visible")
    names = [name for name in choice.benchmarks if any(row["benchmark"] == name for row in rows)]
    columns = st.columns(2 if len(names) > 1 else 1, gap="medium")
    for place, name in enumerate(names):
        mine = [{**row, "cost": row[unit]} for row in rows if row["benchmark"] == name]
        with columns[place % len(columns)]:
            show_chart(
                cached_chart(
                    cost_points,
                    mine,
                    title=name,
                    x_title=f"{unit} sampled in training",
                    y_title=choice.metric.replace("k", str(report.k)),
                    palette=dict(choice.palette),
                ),
                f"cost-{name}",
                f"cost-{name}",
                rows=mine,
            )


def cost_rows(report: PageReport, drawn: dict[str, Cost]) -> list[dict[str, Any]]:
    """Return the scores at the report's k of the models with a known cost."""
    return [
        {
            **{key: row[key] for key in ("label", "run", "benchmark", "k", "value", "low", "high")},
            **dict(zip(("train_run", "step", "responses", "tokens"), cost, strict=True)),
        }
        for row in report.records
        if row["source"] == "runs" and row["k"] == report.k and (cost := drawn.get(row["model"])) is not None
    ]
