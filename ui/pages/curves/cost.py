"""Scores against what training had drawn by the checkpoint that was measured: responses or tokens."""

from dataclasses import dataclass
from typing import Any

import streamlit as st
from sqlalchemy.orm import Session

from trainer_adapter.record.browsing import list_train_runs
from trainer_adapter.record.series import drawn_by_step, trained_checkpoint
from ui.charts.cost_points import cost_points
from ui.pages.curves.choosing import Choice
from ui.pages.curves.data import Reported
from ui.pages.state import links
from ui.pages.state.database import cached
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.charts import kept_chart, show_chart

UNITS = ("responses", "tokens")


@dataclass(frozen=True)
class Drawn:
    """What training had drawn for a model: up to `step` of the training run `train_run`.

    The model that trainings started from has drawn nothing, at step 0.
    """

    train_run: str
    step: int
    responses: int
    tokens: int


@cached
def drawn_for(session: Session, models: tuple[str, ...]) -> dict[str, Drawn]:
    """Return what was drawn for each model that is a checkpoint or the start of an imported training run."""
    trained = list_train_runs(session)
    runs = {one.run.name: one.run.id for one in trained}
    starts = {str(one.run.spec.get("model", "")): one.run.name for one in trained if one.rollouts}
    steps: dict[str, list[Any]] = {}
    found = {}
    for model in models:
        checkpoint = trained_checkpoint(model, list(runs))
        if checkpoint is None:
            start = next((run for path, run in starts.items() if same_model(model, path)), None)
            if start is not None:
                found[model] = Drawn(start, 0, 0, 0)
            continue
        name, step = checkpoint
        if name not in steps:
            steps[name] = drawn_by_step(session, runs[name])
        last = max((one for one in steps[name] if one.step <= step), key=lambda one: one.step, default=None)
        if last is not None:
            found[model] = Drawn(name, step, last.responses, last.tokens)
    return found


def same_model(one: str, other: str) -> bool:
    """Say whether two names are one model: equal, or a path of two or more parts and the end of a longer one.

    >>> same_model("demo/policy", "/models/demo/policy")
    True
    """
    short, long = sorted((one.strip("/").split("/"), other.strip("/").split("/")), key=len)
    return short == long or (len(short) > 1 and long[-len(short) :] == short)


def show_cost(choice: Choice, found: Reported) -> None:
    """Show the scores at the table's k against responses or tokens."""
    models = {
        one.run.spec["model"]: method.label
        for method in choice.methods
        for one in method.runs
        if one.run.spec["problems"] in choice.benchmarks
    }
    drawn = drawn_for(tuple(models))
    rows = cost_rows(found, drawn)
    missing = sorted({label for model, label in models.items() if model not in drawn})
    if missing:
        st.caption(
            escaped(
                f"Not here: {', '.join(missing)}. Their models are neither the start nor checkpoints "
                "(.../NAME/checkpoints/global_step_N/...) of training runs with rollouts in the database."
            )
        )
    if not rows:
        layout.empty_state(
            "No evaluated model is linked to a training run here.",
            "Import the rollouts of its training, under the name that its folder has:",
            commands=("tagrpo rollouts import FOLDER",),
        )
        return
    unit = st.segmented_control(
        "Cost in",
        UNITS,
        required=True,
        **links.bound(
            "unit",
            lambda: links.choice("unit", UNITS, UNITS[0]),
            lambda one: None if one == UNITS[0] else one,
        ),
    )
    names = [name for name in choice.benchmarks if any(row["benchmark"] == name for row in rows)]
    columns = st.columns(2 if len(names) > 1 else 1, gap="medium")
    for place, name in enumerate(names):
        mine = [{**row, "cost": row[str(unit)]} for row in rows if row["benchmark"] == name]
        with columns[place % len(columns)]:
            show_chart(
                kept_chart(
                    cost_points,
                    mine,
                    title=name,
                    x_title=f"{unit} drawn in training",
                    y_title=choice.metric.replace("k", str(found.k)),
                    palette=dict(choice.palette),
                ),
                f"cost-{name}",
                f"cost-{name}",
                rows=mine,
            )


def cost_rows(found: Reported, drawn: dict[str, Drawn]) -> list[dict[str, Any]]:
    """Return the scores at the report's k of the models whose cost is known."""
    return [
        {
            **{key: row[key] for key in ("label", "run", "benchmark", "k", "value", "low", "high")},
            "train_run": cost.train_run,
            "step": cost.step,
            "responses": cost.responses,
            "tokens": cost.tokens,
        }
        for row in found.records
        if row["source"] == "runs" and row["k"] == found.k and (cost := drawn.get(row["model"])) is not None
    ]
