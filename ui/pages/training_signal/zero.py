"""Zero-gradient shares over training, beside each other and beside the forecast."""

from collections.abc import Sequence

import streamlit as st
from sqlalchemy.orm import Session

from trainer_adapter.record.series import metric_series
from ui.pages.state import links
from ui.pages.state.database import cached
from ui.pages.text.markup import escaped
from ui.pages.training_signal import lines
from ui.pages.training_signal.forecasting import NONE, Predicted, choose_pilot, predict
from ui.pages.training_signal.lines import Line, Panel
from ui.pages.training_signal.runs import Chosen, Run, choose
from ui.pages.training_signal.sources import Responses
from ui.pages.widgets import layout
from ui.pages.widgets.tables import Column, page_table

GROUPS = (
    ("original", "Original alone", "G responses to the question itself"),
    ("neighbors", "Neighbors alone", "N x G responses to its neighbors"),
    ("joint", "Joint group", "(N + 1) x G responses, all together"),
)
SHARE = "share"
KINDS = {SHARE: "either", "all_right": "all right: too easy", "all_wrong": "all wrong: too hard"}
LAST_STEPS = 10


def show(runs: Sequence[Run]) -> None:
    """Show the table of where training stands, and the shares over training."""
    pilots: list[Responses | None] = []
    chosen = choose(runs, lambda: pilots.append(choose_pilot(runs)))
    pilot = pilots[0]
    if pilot is None and (asked := links.unknown("pilot", [NONE])):
        layout.note(f"There is no pilot {asked} in this database, so no forecast is shown.")
    if not chosen.runs:
        layout.empty_state("No run is chosen.", "Choose one or more training runs above.")
        return
    names = [f"tagrpo/zero/{group}/share" for group, _, _ in GROUPS]
    logged = lines.logged(chosen.ids)
    if not any(name in logged[run] for run in chosen.ids for name in names):
        layout.empty_state(
            "These runs have not logged shares of zero-gradient questions.",
            "Runs that tagrpo trains log them at every step; import their metrics with their rollouts:",
            commands=("tagrpo rollouts import FOLDER",),
        )
        return
    _table(chosen)
    _shares(chosen, predict(pilot, chosen.runs) if pilot else None)


@links.part
def _shares(chosen: Chosen, predicted: Predicted | None) -> None:
    layout.section(
        "Questions without a gradient",
        "All responses of the group are right, or all are wrong: no advantage, nothing learned. "
        "Click a step to see its rollouts.",
    )
    kind = st.segmented_control(
        "Which",
        list(KINDS),
        format_func=KINDS.__getitem__,
        label_visibility="collapsed",
        required=True,
        **links.bound(
            "kind",
            lambda: links.choice("kind", list(KINDS), SHARE),
            lambda kind: None if kind == SHARE else kind,
        ),
    )
    panels = tuple(
        Panel(
            f"zero-{group}" if kind == SHARE else f"zero-{group}-{kind}",
            title,
            "share of questions",
            "share",
            tuple(Line(run.id, f"tagrpo/zero/{group}/{kind}", run.name) for run in chosen.runs),
        )
        for group, title, _ in GROUPS
    )
    palette, methods = tuple(chosen.palette.items()), tuple(chosen.methods.items())
    shown = predicted if kind == SHARE else None
    forecasts = tuple((f"zero-{name}", band) for name, band in shown.shares.items()) if shown else ()
    drawn = lines.draw(panels, chosen.window, palette, methods, forecasts, True)
    lines.show(panels, drawn, 3, {run.name: run.name for run in chosen.runs})
    if shown:
        st.caption(escaped(shown.words))


def _table(chosen: Chosen) -> None:
    rows = [{**row, "method": chosen.methods[str(row["run"])]} for row in last_shares(chosen.runs)]
    layout.section(f"Where training stands: zero-gradient shares, mean of the last {LAST_STEPS} steps")
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


@cached
def last_shares(session: Session, runs: tuple[Run, ...]) -> list[dict[str, str | float | int | None]]:
    """Return a row a run with the means of its last steps."""
    wanted = {
        **{group: f"tagrpo/zero/{group}/share" for group, _, _ in GROUPS},
        "all_right": "tagrpo/zero/joint/all_right",
        "all_wrong": "tagrpo/zero/joint/all_wrong",
        "correct": "tagrpo/correct/mean",
    }
    rows = []
    for run, series in zip(
        runs, metric_series(session, [run.id for run in runs], tuple(wanted.values())), strict=True
    ):
        row: dict[str, str | float | int | None] = {
            "run": run.name,
            "step": series.steps[-1] if series.steps else None,
        }
        for name, metric in wanted.items():
            values = [value for value in series.values[metric][-LAST_STEPS:] if value is not None]
            row[name] = sum(values) / len(values) if values else None
        rows.append(row)
    return rows
