"""Zero-gradient shares during training, side by side and compared with a pilot's forecast."""

from collections.abc import Sequence

import streamlit as st

from evaluator.signal.diagnosis import DiagnosisSettings
from evaluator.signal.shapes import JOINT_GROUP, NEIGHBORS_GROUP, ORIGINAL_GROUP
from service.errors import TagrpoError
from trainer_adapter.record.runs import TrainRun
from ui.pages.training_signal import diagnosis, lines
from ui.pages.training_signal.diagnosis import Responses
from ui.pages.training_signal.lines import Line, Panel
from ui.pages.training_signal.runs import Chosen
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
FORECAST_GROUPS = {ORIGINAL_GROUP: "original", NEIGHBORS_GROUP: "neighbors", JOINT_GROUP: "joint"}


def show(chosen: Chosen) -> None:
    names = [f"tagrpo/zero/{group}/share" for group, _, _ in GROUPS]
    if not any(name in logged for logged in chosen.logged.values() for name in names):
        layout.empty_state(
            "These runs did not log the share of zero-gradient questions.",
            "Training runs of tagrpo log it at every step, in metrics.jsonl next to the rollouts.",
        )
        return
    _table(chosen)
    _shares(chosen)


@st.fragment
def _shares(chosen: Chosen) -> None:
    layout.section(
        "Questions without a gradient",
        "If all responses of a group are right or all are wrong, there is no advantage and no gradient. "
        "Click a step to see its rollouts.",
    )
    with layout.row("bottom"):
        kind = choices.choose(
            st.segmented_control, "Which", "kind", list(KINDS), SHARE, words=KINDS.__getitem__
        )
        pilot = _choose_pilot(chosen.trainings)
    forecast = _predict(pilot, chosen) if pilot and kind == SHARE else {}
    panels = [
        Panel(
            f"zero-{group}",
            title,
            "share of questions",
            "share",
            tuple(Line((run.id,), f"tagrpo/zero/{group}/{kind}", run.name) for run in chosen.runs),
            forecast=forecast.get(group),
        )
        for group, title, _ in GROUPS
    ]
    lines.show(panels, 3, chosen, level=True)


def _choose_pilot(trainings: Sequence[TrainRun]) -> Responses | None:
    """Show the choice of a pilot: an evaluation, or the first steps of a training; None for no forecast."""
    pilots = dict(diagnosis.evaluated())
    for each in trainings:
        first, last = each.numbers.first_step, each.numbers.last_step
        if first is not None and last is not None and each.numbers.rollouts:
            name, until = each.run.name, min(last, first + PILOT_STEPS - 1)
            pilots.setdefault(name, Responses(name, run_id=each.run.id, first=first, last=until))
    options = [NO_PILOT, *pilots]
    chosen = choices.choose(
        st.selectbox,
        "Forecast from a pilot",
        "pilot",
        options,
        words=lambda name: name if name == NO_PILOT else pilots[name].words,
        help="Fits a model of success rates to the pilot's responses and predicts the shares for the "
        "training run's G and N. This takes a few seconds.",
        width=320,
    )
    choices.note_absent("pilot", options, "pilot", chosen)
    return pilots.get(chosen)


def _predict(pilot: Responses, chosen: Chosen) -> dict[str, tuple[float, float, float]]:
    """Return share, low and high by group, for the sizes of the chosen run with the most neighbors."""
    n, g = max(diagnosis.sizes(run.id) for run in chosen.runs)
    if not g:
        st.caption("A forecast needs group sizes, but none of these runs has recorded rollouts.")
        return {}
    try:
        with st.spinner(f"Fitting the pilot: {pilot.words}", show_time=True):  # safe
            wanted = DiagnosisSettings(g=g, n=n if pilot.has_neighbors else 0)
            tables = diagnosis.diagnosed(pilot, "forecast", wanted).tables
    except TagrpoError as error:
        layout.error_box("This pilot does not allow a forecast.", str(error))
        return {}
    forecast = [row for row in tables["forecast"] if row["group"] in FORECAST_GROUPS]
    rows = {FORECAST_GROUPS[row["group"]]: (row["share"], row["low"], row["high"]) for row in forecast}
    shares = [f"{name} {share:.1%} ({low:.1%} to {high:.1%})" for name, (share, low, high) in rows.items()]
    questions = tables["forecast_models"][0]["questions"]
    words = f"Forecast from {pilot.words} ({questions:,} questions) for G = {g}, N = {n}"
    lacks = " The pilot has no neighbors." if n and "joint" not in rows else ""
    layout.caption(f"{words}: {'; '.join(shares)}.{lacks}")
    return rows


def _table(chosen: Chosen) -> None:
    rows = [
        {"run": run.name, "method": chosen.methods[run.name], **_last_shares(run.id)} for run in chosen.runs
    ]
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


def _last_shares(run_id: str) -> dict[str, float | int | None]:
    metrics = {
        **{group: f"tagrpo/zero/{group}/share" for group, _, _ in GROUPS},
        "all_right": "tagrpo/zero/joint/all_right",
        "all_wrong": "tagrpo/zero/joint/all_wrong",
        "correct": "tagrpo/correct/mean",
    }
    steps, values = lines.logged_at_steps(run_id, tuple(metrics.values()))
    row: dict[str, float | int | None] = {"step": max(steps, default=None)}
    for name, metric in metrics.items():
        last = [value for value in values[metric][-LAST_STEPS:] if value is not None]
        row[name] = sum(last) / len(last) if last else None
    return row
