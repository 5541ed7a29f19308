"""Choice of queue, reviewer and mode: read from the address, changed with widgets at the top."""

import os
from dataclasses import dataclass

import streamlit as st

from rephraser.candidates import STATUSES
from rephraser.reviews.audit import Audit, list_audits
from rephraser.run.spec import KIND
from service.runs.store import Run, list_runs
from ui.pages.state import links
from ui.pages.state.database import fetch
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.beginnings import no_neighbors
from ui.pages.widgets.choices import choose, choose_several, note_absent, switch

USUAL: tuple[str, ...] = STATUSES
"""All judged statuses, so that one reviewer's decision never removes a candidate from another's queue."""

WHOLE = "whole run"
NO_AUDIT = 0
_MAX_SEED = 2**31 - 1


@dataclass(frozen=True)
class QueueChoice:
    """Settings of a queue: of an audit (in its order) or a run; `blind` hides verdicts."""

    run_id: str
    run: str
    audit_id: int | None
    reviewer: str
    blind: bool
    seed: int
    statuses: tuple[str, ...]


def neighbor_runs() -> list[Run]:
    """Return the runs with neighbors, newest first."""
    return [run for run in reversed(fetch(list_runs)) if run.kind == KIND]


def choose_queue() -> QueueChoice | None:
    """Show the widgets and return their settings; None if there is no run with neighbors yet."""
    runs = {run.name: run.id for run in neighbor_runs()}
    if not runs:
        no_neighbors("There are no neighbors to review yet.")
        return None
    names = list(runs)
    name = links.choice("run", names, names[0])
    audits = {audit.id: audit for audit in fetch(list_audits, runs[name])}
    number = links.choice("audit", [NO_AUDIT, *audits], NO_AUDIT)
    blind = number != NO_AUDIT or links.flag("blind", True)

    def queue(number: int) -> str:
        return WHOLE if number == NO_AUDIT else f"audit {number}: {describe(audits[number])}"

    seed, statuses = 0, USUAL
    label = f"{name}, {queue(number)}, {'blind' if blind else 'with verdicts'}"
    with layout.row():
        with st.popover(escaped(label), icon=":material/tune:", key="review-what"):
            choose(st.selectbox, "Run", "run", names, resets=["audit"])
            choose(st.selectbox, "Queue", "audit", [NO_AUDIT, *audits], words=queue)
            if number != NO_AUDIT:
                st.caption("An audit has its own order and is always blind.")
                if audits[number].kind == "groups":
                    st.caption("Shows the accepted neighbors of a question one after another.")
            else:
                hint = "Hides verdict, strategy and model, and shuffles the candidates with the seed."
                switch("Blind", "blind", default=True, help=hint)
            switch("Mark differences", "marks", default=True)
            if number == NO_AUDIT:
                picked = choose_several(st.pills, "Candidates with status", "verdict", STATUSES, USUAL)
                statuses = tuple(picked) or USUAL
                if blind:
                    usual = links.number("seed", low=0, high=_MAX_SEED)
                    bound = links.bind("seed", lambda: usual, lambda seed: seed or None)
                    seed = st.number_input("Shuffle seed", 0, _MAX_SEED, **bound)
        reviewer = ask_reviewer()
    note_absent("run", names, "run with neighbors", name)
    note_absent("audit", list(audits), "audit", f"the {WHOLE}")
    audit_id = None if number == NO_AUDIT else number
    return QueueChoice(runs[name], name, audit_id, reviewer.strip(), blind, seed, statuses)


def describe(audit: Audit) -> str:
    drawn = "questions with their neighbors" if audit.kind == "groups" else "candidates"
    return f"{audit.size:,} {drawn}, seed {audit.seed}"


def ask_reviewer() -> str:
    """Show the field for the reviewer's name; `TAGRPO_REVIEWER` is its default on a server of one person."""
    usual = os.environ.get("TAGRPO_REVIEWER", "").strip()  # a login name would be the same for everyone
    name: str = st.text_input(
        "Reviewer",
        placeholder="your name",
        icon=":material/person:",
        width=190,
        max_chars=80,
        label_visibility="collapsed",
        **links.bind("reviewer", lambda: links.text("reviewer", usual)),
    )
    return name
