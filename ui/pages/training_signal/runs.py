"""Which training runs are shown, in which colours, and how their steps are averaged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import streamlit as st
from sqlalchemy.orm import Session

from service.runs.store import find_run
from trainer_adapter.record.reading import Record
from trainer_adapter.record.series import seed_groups
from ui.charts.training_steps import method_colours
from ui.pages.state.database import cached
from ui.pages.state.records import list_trainings, recorded
from ui.pages.widgets import choices

MOST_RUNS = 8
FIRST_SHOWN = 4
WINDOWS = (0, 5, 10, 25)


@dataclass(frozen=True)
class Run:
    """A training run with what the page needs of it; `problem` says why its record cannot be read."""

    id: str
    name: str
    method: str
    first_step: int | None
    last_step: int | None
    rollouts: int
    has_neighbors: bool
    problem: str | None = None


@dataclass(frozen=True)
class Chosen:
    """The runs to show, their colours by name, and how many steps a point averages (0: as few as needed).

    `groups` are the labels of the lines with the ids of their runs: one each, or seeds of one recipe.
    """

    runs: tuple[Run, ...]
    palette: dict[str, str]
    methods: dict[str, str]
    window: int
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(run.id for run in self.runs)


def train_runs() -> list[Run]:
    runs = []
    for listed in list_trainings():
        numbers = listed.numbers
        runs.append(
            Run(
                listed.run.id,
                listed.run.name,
                listed.recipe or listed.run.name,
                numbers.first_step,
                numbers.last_step,
                numbers.rollouts,
                not listed.problem and _has_neighbors(listed.run.id),
                problem=listed.problem,
            )
        )
    return runs


@recorded
def _has_neighbors(record: Record) -> bool:
    return any(group.prompts > 1 for group in record.counts().page_groups(limit=16))


def runs_with(question_id: str) -> list[str]:
    """Return the names of the training runs that drew responses to a question, oldest first."""
    trained = [listed.run for listed in list_trainings() if listed.numbers.rollouts]
    return [run.name for run in trained if _drew(run.id, question_id)]


@recorded
def _drew(record: Record, question_id: str) -> bool:
    return bool(record.counts().question_history(question_id))


def choose(runs: Sequence[Run]) -> Chosen:
    """Show the choice of runs (the newest by default) and of averaging."""
    names = [run.name for run in runs]
    usual = [run.name for run in reversed(runs) if run.first_step is not None][:FIRST_SHOWN][::-1]

    places = st.columns([5, 1], vertical_alignment="bottom")
    with places[0]:
        picked = choices.choose_several(
            st.multiselect,
            "Training runs",
            "run",
            names,
            usual,
            most=MOST_RUNS,
            placeholder="Choose runs to compare",
        )
    with places[1]:
        window = choices.choose(
            st.selectbox,
            "Average over",
            "mean",
            WINDOWS,
            words=lambda steps: f"{steps} steps" if steps else "a step",
            help="Number of steps averaged into each point. Lines of over 200 points are always averaged.",
        )
    choices.note_absent("run", names, "training run", "the runs above")
    chosen = tuple(run for run in runs if run.name in picked)
    methods = {run.name: run.method for run in chosen}
    colours = method_colours(methods, [run.method for run in runs])
    return Chosen(chosen, colours, methods, window, tuple((run.name, (run.id,)) for run in chosen))


@cached
def _seeds(session: Session, run_ids: tuple[str, ...]) -> list[tuple[str, ...]]:
    groups = seed_groups([find_run(session, run_id) for run_id in run_ids])
    return [tuple(run.id for run in group) for group in groups]


def join_seeds(chosen: Chosen) -> Chosen:
    """Offer to draw runs that differ in their seed alone as one line, where there are any."""
    groups = _seeds(chosen.ids)
    if all(len(group) == 1 for group in groups):
        return chosen
    joined = choices.switch(
        "Combine seeds",
        "seeds",
        help="Combine runs that differ only in the seed: the line is their mean at steps that all of them "
        "logged, and the band spans the lowest to the highest value.",
    )
    if not joined:
        return chosen
    by_id = {run.id: run for run in chosen.runs}
    lines: dict[str, tuple[str, ...]] = {}
    for group in groups:
        first = by_id[group[0]]
        label = first.name if len(group) == 1 else f"{first.method}, {len(group)} seeds"
        lines[f"{label} ({first.name})" if label in lines else label] = group
    firsts = {label: by_id[group[0]].name for label, group in lines.items()}
    return replace(
        chosen,
        groups=tuple(lines.items()),
        palette={label: chosen.palette[name] for label, name in firsts.items()},
        methods={label: chosen.methods[name] for label, name in firsts.items()},
    )
