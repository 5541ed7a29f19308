"""What a pilot predicts for the shares of zero-gradient questions, beside what training then logged."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from evaluator.signal.diagnosis import Settings
from evaluator.signal.zero_gradient import JOINT_GROUP, NEIGHBORS_GROUP, ORIGINAL_GROUP
from service.errors import TagrpoError
from ui.pages.state import links
from ui.pages.training_signal import sources
from ui.pages.training_signal.runs import Run
from ui.pages.training_signal.sources import Responses
from ui.pages.widgets import layout

PILOT_STEPS = 5
NONE = "no forecast"
GROUPS = {ORIGINAL_GROUP: "original", NEIGHBORS_GROUP: "neighbors", JOINT_GROUP: "joint"}


@dataclass(frozen=True)
class Predicted:
    """Share, low and high by group (original, neighbors, joint), and the forecast in words."""

    shares: dict[str, tuple[float, float, float]]
    words: str


def choose_pilot(runs: Sequence[Run]) -> Responses | None:
    """Show the choice of a pilot: an evaluation run, or the first steps of a training run."""
    pilots: dict[str, Responses] = {choice.name: Responses(choice.name) for choice in sources.eval_choices()}
    for run in runs:
        if start := sources.beginning(run, PILOT_STEPS):
            pilots.setdefault(run.name, start)
    options = [NONE, *pilots]
    chosen = st.selectbox(
        "Forecast from a pilot",
        options,
        format_func=lambda name: name if name == NONE else pilots[name].words,
        help="A model of success rates is fitted to the pilot's responses, which takes some seconds; "
        "it predicts the shares for the G and N of the training.",
        **links.bound(
            "pilot",
            lambda: links.choice("pilot", options, NONE),
            lambda name: None if name == NONE else name,
        ),
    )
    return pilots.get(chosen)


def predict(pilot: Responses, runs: Sequence[Run]) -> Predicted | None:
    """Return the forecast for the sizes of the first run that has neighbors, or the first run at all."""
    sized = [run for run in runs if run.g]
    of = next((run for run in sized if run.n), sized[0] if sized else None)
    if of is None:
        st.caption("A forecast needs the sizes of groups: none of these runs has recorded rollouts.")
        return None
    try:
        with st.spinner(f"Fitting the pilot: {pilot.words}", show_time=True):  # safe
            return _predicted(pilot, of.g, of.n)
    except TagrpoError as error:
        layout.error_box("There is no forecast from this pilot.", str(error))
        return None


def _predicted(pilot: Responses, g: int, n: int) -> Predicted:
    [prediction] = sources.diagnosed(pilot, ["forecast"], Settings(g=g, n=n)).predictions
    rows = {GROUPS[row.shape.name]: row for row in prediction.rows if row.shape.name in GROUPS}
    figures = "; ".join(
        f"{name} {row.share:.1%} ({row.low:.1%} to {row.high:.1%})" for name, row in rows.items()
    )
    questions = prediction.forecast.questions
    words = f"Forecast from {pilot.words} ({questions:,} questions) for G = {g}, N = {n}: {figures}."
    if n and "joint" not in rows:
        words += " The pilot has no neighbors, so it says nothing about groups with them."
    return Predicted({name: (row.share, row.low, row.high) for name, row in rows.items()}, words)
