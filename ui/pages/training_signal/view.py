"""The page "Training signal"."""

from collections.abc import Callable

import streamlit as st

from ui.pages.state import settings
from ui.pages.state.database import show_page
from ui.pages.state.records import list_trainings
from ui.pages.training_signal import diagnosis, policy, zero
from ui.pages.training_signal.runs import choose_runs
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose

VIEWS: dict[str, tuple[str, Callable[..., None]]] = {
    "zero": ("Zero gradient", zero.show),
    "policy": ("Policy", policy.show),
    "metrics": ("Metrics", policy.show_metrics),
    "anchor": ("Anchor", policy.show_anchor),
    "covariance": ("Covariance", policy.show_covariance),
    "difficulty": ("Difficulty", diagnosis.difficulty),
    "diversity": ("Diversity", diagnosis.diversity),
}
OF_RESPONSES = ("difficulty", "diversity")  # also of evaluations; the others show metrics of trainings
WITH_SEEDS = ("policy", "metrics")


def body() -> None:
    every = list_trainings()
    runs = [run for run in every if not run.problem]
    if problems := [run.problem for run in every if run.problem]:
        layout.error_box("Some training runs cannot be read. The page shows the others.", "\n".join(problems))
    view = choose(
        st.segmented_control, "View", "view", list(VIEWS), words=lambda view: VIEWS[view][0], resets=["made"]
    )
    if view in OF_RESPONSES:
        VIEWS[view][1](runs)
    elif not runs:
        layout.empty_state(
            "There are no training runs yet.",
            "`tagrpo train run` starts one. To add the folder of another training run:",
            commands=(settings.command("train rollouts FOLDER --add"),),
        )
    elif chosen := choose_runs(runs, seeds=view in WITH_SEEDS):
        VIEWS[view][1](chosen)


show_page("Training signal", "How many sampled responses give a gradient.", body)
