"""Which training runs are shown, in which colours, and how their steps are averaged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st
from sqlalchemy.orm import Session

from service.runs.store import Run, find_run
from trainer_adapter.record.reading import Record
from trainer_adapter.record.runs import TrainRun
from trainer_adapter.record.series import metric_names, seed_groups
from ui.charts.training_steps import method_colours
from ui.pages.state.database import cached
from ui.pages.state.records import list_trainings, method_of, recorded
from ui.pages.widgets import choices, layout

MOST_RUNS = 8
FIRST_SHOWN = 4
WINDOWS = (0, 5, 10, 25)


@dataclass(frozen=True)
class Chosen:
    """The runs to show, their colours by name, and how many steps a point averages (0: as few as needed).

    `groups` are the labels of the lines with the ids of their runs, `logged` the names of metrics by run id.
    `trainings` are those that there are to choose from.
    """

    trainings: Sequence[TrainRun]
    runs: tuple[Run, ...]
    palette: dict[str, str]
    methods: dict[str, str]
    window: int
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    logged: dict[str, list[str]]


_names = recorded(metric_names)


def runs_with(question_id: str) -> list[str]:
    """Return the names of the training runs that drew responses to a question, oldest first."""
    trained = [listed.run for listed in list_trainings() if listed.numbers.rollouts]
    return [run.name for run in trained if _drew(run.id, question_id)]


@recorded
def _drew(record: Record, question_id: str) -> bool:
    return question_id in record.questions()


def choose_runs(trainings: Sequence[TrainRun], *, seeds: bool) -> Chosen | None:
    """Show the choice of runs (the newest by default), of averaging, and with `seeds` of joining these.

    Without a run that has metrics, the page says so, and None is returned.
    """
    names = [each.run.name for each in trainings]
    usual = [each.run.name for each in trainings if each.numbers.first_step is not None][-FIRST_SHOWN:]
    with layout.row("bottom"):
        picked = choices.choose_several(
            st.multiselect,
            "Training runs",
            "run",
            names,
            usual,
            most=MOST_RUNS,
            placeholder="Choose runs to compare",
        )
        window = choices.choose(
            st.selectbox,
            "Average over",
            "mean",
            WINDOWS,
            words=lambda steps: f"{steps} steps" if steps else "1 step",
            help="Number of steps averaged into each point. Lines of over 200 points are always averaged.",
            width=150,
        )
    choices.note_absent("run", names, "training run", "the runs above")
    methods = {each.run.name: method_of(each) for each in trainings if each.run.name in picked}
    runs = tuple(each.run for each in trainings if each.run.name in picked)
    if not runs:
        layout.empty_state("No run selected.", "Choose one or more training runs above.")
        return None
    colours = method_colours(methods, [method_of(each) for each in trainings])
    groups = tuple((run.name, (run.id,)) for run in runs)
    logged = {run.id: _names(run.id) for run in runs}
    chosen = Chosen(trainings, runs, colours, methods, window, groups, logged)
    chosen = _join_seeds(chosen) if seeds else chosen
    if not any(logged.values()):
        layout.empty_state(
            "These runs have no metrics.", "Training writes metrics to metrics.jsonl, next to the rollouts."
        )
        return None
    return chosen


@cached
def _seeds(session: Session, run_ids: tuple[str, ...]) -> list[tuple[str, ...]]:
    groups = seed_groups([find_run(session, run_id) for run_id in run_ids])
    return [tuple(run.id for run in group) for group in groups]


def _join_seeds(chosen: Chosen) -> Chosen:
    by_id = {run.id: run.name for run in chosen.runs}
    groups = _seeds(tuple(by_id))
    if all(len(group) == 1 for group in groups) or not choices.switch(
        "Combine seeds",
        "seeds",
        help="Combine runs that differ only in the seed: the line is their mean at steps that all of them "
        "logged, and the band spans the lowest to the highest value.",
    ):
        return chosen
    lines: dict[str, tuple[str, ...]] = {}
    for group in groups:
        first = by_id[group[0]]
        label = first if len(group) == 1 else f"{chosen.methods[first]}, {len(group)} seeds"
        lines[f"{label} ({first})" if label in lines else label] = group
    firsts = {label: by_id[group[0]] for label, group in lines.items()}
    return replace(
        chosen,
        groups=tuple(lines.items()),
        palette={label: chosen.palette[name] for label, name in firsts.items()},
        methods={label: chosen.methods[name] for label, name in firsts.items()},
    )
