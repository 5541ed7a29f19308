"""Zero-gradient shares during training, side by side."""

from collections.abc import Sequence

import streamlit as st

from trainer_adapter.record.reading import Record
from ui.pages.state.records import recorded
from ui.pages.training_signal import lines
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


def show(runs: Sequence[Run]) -> None:
    chosen = choose(runs)
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
    _shares(chosen)


@st.fragment
def _shares(chosen: Chosen) -> None:
    layout.section(
        "Questions without a gradient",
        "If all responses of a group are right or all are wrong, there is no advantage and no gradient. "
        "Click a step to see its rollouts.",
    )
    kind = choices.choose(st.segmented_control, "Which", "kind", list(KINDS), SHARE, words=KINDS.__getitem__)
    panels = [
        Panel(
            f"zero-{group}" if kind == SHARE else f"zero-{group}-{kind}",
            title,
            "share of questions",
            "share",
            tuple(Line((run.id,), f"tagrpo/zero/{group}/{kind}", run.name) for run in chosen.runs),
        )
        for group, title, _ in GROUPS
    ]
    by_name = {run.name: run.name for run in chosen.runs}
    look = {"palette": chosen.palette, "methods": chosen.methods}
    lines.show(panels, 3, by_name, window=chosen.window, level=True, **look)


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
