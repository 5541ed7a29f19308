"""Zero-gradient shares during training, side by side and compared with a pilot's forecast."""

from collections.abc import Sequence

import streamlit as st

from evaluator.signal.diagnosis import DiagnosisSettings
from evaluator.signal.zero_gradient import JOINT_GROUP, NEIGHBORS_GROUP, ORIGINAL_GROUP
from service.errors import TagrpoError
from trainer_adapter.record.reading import Record
from ui.pages.state import links
from ui.pages.state.records import recorded
from ui.pages.text.markup import escaped
from ui.pages.training_signal import diagnosis, lines
from ui.pages.training_signal.diagnosis import Responses
from ui.pages.training_signal.lines import Line, Panel
from ui.pages.training_signal.runs import Chosen, Run, choose
from ui.pages.widgets import choices, layout
from ui.pages.widgets.documents import show_printed
from ui.pages.widgets.tables import Column, page_table

GROUPS = (
    ("original", "Original alone", "G responses to the question itself"),
    ("neighbors", "Neighbors alone", "N x G responses to its neighbors"),
    ("joint", "Joint group", "(N + 1) x G responses in total"),
)
SHARE = "share"
KINDS = {SHARE: "either", "all_right": "all right: too easy", "all_wrong": "all wrong: too hard"}
LAST_STEPS = 10
PILOT_STEPS = 5
NO_PILOT = "no forecast"
Predicted = tuple[dict[str, tuple[float, float, float]], str]
"""Share, low and high by group (original, neighbors, joint), and the forecast in words."""

FORECAST_GROUPS = {ORIGINAL_GROUP: "original", NEIGHBORS_GROUP: "neighbors", JOINT_GROUP: "joint"}


def show(runs: Sequence[Run]) -> None:
    pilots: list[Responses | None] = []
    chosen = choose(runs, lambda: pilots.append(_choose_pilot(runs)))
    pilot = pilots[0]
    if pilot is None and (asked := links.unknown_value("pilot", [NO_PILOT])):
        layout.note(f"There is no pilot {asked} in this database, so there is no forecast.")
    if not chosen.runs:
        layout.empty_state("No run selected.", "Choose one or more training runs above.")
        return
    names = [f"tagrpo/zero/{group}/share" for group, _, _ in GROUPS]
    logged = {run: lines.names_of(run) for run in chosen.ids}
    if not any(name in logged[run] for run in chosen.ids for name in names):
        layout.empty_state(
            "These runs did not log the share of zero-gradient questions.",
            "Training runs of tagrpo log it at every step, in metrics.jsonl next to the rollouts.",
        )
        return
    _table(chosen)
    _shares(chosen, _predict(pilot, chosen.runs) if pilot else ({}, ""))


@st.fragment
def _shares(chosen: Chosen, predicted: Predicted) -> None:
    layout.section(
        "Questions without a gradient",
        "If all responses of a group are right or all are wrong, there is no advantage and no gradient. "
        "Click a step to see its rollouts.",
    )
    kind = choices.choose(st.segmented_control, "Which", "kind", list(KINDS), SHARE, words=KINDS.__getitem__)
    foreseen, words = predicted if kind == SHARE else ({}, "")
    panels = [
        Panel(
            f"zero-{group}" if kind == SHARE else f"zero-{group}-{kind}",
            title,
            "share of questions",
            "share",
            tuple(Line((run.id,), f"tagrpo/zero/{group}/{kind}", run.name) for run in chosen.runs),
            forecast=foreseen.get(group),
        )
        for group, title, _ in GROUPS
    ]
    by_name = {run.name: run.name for run in chosen.runs}
    look = {"palette": chosen.palette, "methods": chosen.methods}
    lines.show(panels, 3, by_name, window=chosen.window, level=True, **look)
    if words:
        st.caption(escaped(words))


def _table(chosen: Chosen) -> None:
    rows = [{"run": run.name, "method": run.method, **_last_shares(run.id)} for run in chosen.runs]
    layout.section(f"Zero-gradient shares, averaged over the last {LAST_STEPS} steps")
    page_table(
        rows,
        [
            Column("run", "run"),
            Column("method", "recipe"),
            Column("step", "last step", "whole"),
            *(Column(group, group, "share", hint) for group, _, hint in GROUPS),
            Column("all_right", "joint, all right", "share", "too easy"),
            Column("all_wrong", "joint, all wrong", "share", "too hard"),
            Column("correct", "correct", "share", "share of all responses"),
        ],
        "zero-table",
        name="tagrpo-zero-gradient",
    )
    show_printed("equal rewards")


@recorded
def _last_shares(record: Record) -> dict[str, float | int | None]:
    wanted = {
        **{group: f"tagrpo/zero/{group}/share" for group, _, _ in GROUPS},
        "all_right": "tagrpo/zero/joint/all_right",
        "all_wrong": "tagrpo/zero/joint/all_wrong",
        "correct": "tagrpo/correct/mean",
    }
    logged = record.metrics()
    row: dict[str, float | int | None] = {"step": max(logged, default=None)}
    for name, metric in wanted.items():
        values = [metrics[metric] for metrics in list(logged.values())[-LAST_STEPS:] if metric in metrics]
        row[name] = sum(values) / len(values) if values else None
    return row


def _choose_pilot(runs: Sequence[Run]) -> Responses | None:
    pilots = dict(diagnosis.evaluated())
    for run in runs:
        if run.first_step is not None and run.last_step is not None and run.rollouts:
            last = min(run.last_step, run.first_step + PILOT_STEPS - 1)
            start = Responses(run.name, run.n > 0, first=run.first_step, last=last)
            pilots.setdefault(run.name, start)
    options = [NO_PILOT, *pilots]
    chosen = choices.choose(
        st.selectbox,
        "Forecast from a pilot",
        "pilot",
        options,
        words=lambda name: name if name == NO_PILOT else pilots[name].words,
        help="Fits a model of success rates to the pilot's responses and predicts the shares for the "
        "training run's G and N. This takes a few seconds.",
    )
    return pilots.get(chosen)


def _predict(pilot: Responses, runs: Sequence[Run]) -> Predicted:
    """Return the forecast for the sizes of the first run with neighbors, or of the first one, if any."""
    sized = [run for run in runs if run.g]
    of = next((run for run in sized if run.n), sized[0] if sized else None)
    if of is None:
        st.caption("A forecast needs group sizes, but none of these runs has recorded rollouts.")
        return {}, ""
    wanted = DiagnosisSettings(g=of.g, n=of.n if pilot.neighbors else 0)
    try:
        with st.spinner(f"Fitting the pilot: {pilot.words}", show_time=True):  # safe
            [prediction] = diagnosis.diagnosed(pilot, ["forecast"], wanted).predictions
    except TagrpoError as error:
        layout.error_box("This pilot does not allow a forecast.", str(error))
        return {}, ""
    rows = {FORECAST_GROUPS[row.group]: row for row in prediction.rows if row.group in FORECAST_GROUPS}
    figures = "; ".join(
        f"{name} {row.share:.1%} ({row.low:.1%} to {row.high:.1%})" for name, row in rows.items()
    )
    questions = prediction.forecast.questions
    words = f"Forecast from {pilot.words} ({questions:,} questions) for G = {of.g}, N = {of.n}: {figures}."
    if of.n and "joint" not in rows:
        words += " The pilot has no neighbors, so there is no forecast for groups with neighbors."
    return {name: (row.share, row.low, row.high) for name, row in rows.items()}, words
