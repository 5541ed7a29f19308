"""All runs, newest first: state, requests, cost; the settings of the one chosen."""

from typing import Any

import streamlit as st
from sqlalchemy.orm import Session

from evaluator.reports.methods import run_label
from service.errors import NotFoundError
from service.runs.progress import RunProgress, page_runs, progress_of
from service.runs.store import find_run
from trainer_adapter.record.browsing import TrainRun, list_train_runs
from ui.pages.state import links
from ui.pages.state.database import cached
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.onward import onward
from ui.pages.widgets.picking import pick_row
from ui.pages.widgets.tables import Column

PAGE = 25
ALL = "all"
KINDS = {"propose": "neighbors", "eval": "eval", "train": "training"}

_COLUMNS = [
    Column("run", "run"),
    Column("kind", "kind"),
    Column("state", "state"),
    Column("filled", "requests done", "whole"),
    Column("open", "open", "whole"),
    Column("failed", "failed", "whole"),
    Column("tokens", "tokens written", "whole"),
    Column("usd", "cost, USD", "usd", hint="Requests without a known price are not in it."),
    Column("started", "started (UTC)"),
]


@cached
def _page(session: Session, kind: str, after: str) -> tuple[list[RunProgress], bool]:
    try:
        found = page_runs(session, kind=None if kind == ALL else kind, after=after or None, limit=PAGE + 1)
    except NotFoundError:  # the address names a run of another database
        found = page_runs(session, kind=None if kind == ALL else kind, limit=PAGE + 1)
    return found[:PAGE], len(found) > PAGE


@cached
def _one(session: Session, name: str) -> RunProgress | None:
    try:
        return progress_of(session, [find_run(session, name)])[0]
    except NotFoundError:
        return None


@cached
def _training(session: Session) -> dict[str, TrainRun]:
    return {one.run.id: one for one in list_train_runs(session)}


def show_runs(counts: dict[str, int]) -> None:
    """Show the list with its choice of kind, and below it the run that was clicked."""
    kinds = [ALL, *(kind for kind in KINDS if counts.get(kind))]
    kind = st.segmented_control(
        "Kind of runs",
        kinds,
        format_func=lambda one: KINDS.get(one, one),
        label_visibility="collapsed",
        required=True,
        **links.bound(
            "kind",
            lambda: links.choice("kind", kinds, ALL),
            lambda one: None if one == ALL else one,
            resets=["after"],
        ),
    )
    after = links.text("after")
    found, more = _page(kind or ALL, after)
    training = _training() if any(one.run.kind == "train" for one in found) else {}
    rows = [row(one, training.get(one.run.id)) for one in found]
    name = pick_row(rows, _COLUMNS, "runs", parameter="run", value="run", name="runs")
    total = sum(counts.values()) if kind in (None, ALL) else counts.get(str(kind), 0)
    onward(found[-1].run.id if more else None, begun=bool(after), words=f"{len(found):,} of {total:,} runs")
    if name:
        _details(name)


def row(one: RunProgress, training: TrainRun | None) -> dict[str, Any]:
    """Return a run as a row; a training run has steps instead of requests."""
    state = f"with {one.failed:,} failures" if one.state == "failed" else one.state
    if one.run.kind == "train":
        last = None if training is None else training.last_step
        state = "no steps yet" if last is None else f"to step {last:,}"
    asked = one.run.kind != "train"
    return {
        "run": one.run.name,
        "kind": KINDS.get(one.run.kind, one.run.kind),
        "state": state,
        "filled": one.filled if asked else None,
        "open": one.open if asked else None,
        "failed": one.failed if asked else None,
        "tokens": one.completion_tokens if asked else None,
        "usd": one.usd if asked else None,
        "started": one.run.created_at.replace("T", " ").removesuffix("Z"),
    }


def _details(name: str) -> None:
    one = _one(name)
    if one is None:
        layout.error_box(f"There is no run {name!r} in this database.")
        return
    with layout.card():
        with layout.row():
            layout.line(
                layout.strong(one.run.name), layout.chip(KINDS.get(one.run.kind, one.run.kind), "blue")
            )
            if one.run.kind == "propose":
                links.link("Its neighbors", "questions", icon=":material/format_list_bulleted:", run=name)
                links.link("Review", "review", icon=":material/rate_review:", run=name)
            elif one.run.kind == "eval":
                links.link("Its curve", "curves", icon=":material/show_chart:", run=_label(one))
            elif one.run.kind == "train":
                links.link("Its rollouts", "rollouts", icon=":material/account_tree:", run=name)
                links.link("Training signal", "signal", icon=":material/monitoring:", run=name)
        for kind, (filled, open_, failed) in one.by_kind.items():
            st.caption(escaped(f"{kind}: {filled:,} done, {open_:,} open, {failed:,} failed requests"))
        if one.unpriced:
            st.caption(escaped(f"{one.unpriced:,} requests have no known price."))
        st.caption("Settings")
        st.json(one.run.spec, expanded=1)


def _label(one: RunProgress) -> str:
    return run_label(one.run)
