"""Choice of queue, reviewer and mode: read from the address, changed with widgets at the top."""

import os
from dataclasses import dataclass, replace

import streamlit as st
from sqlalchemy.orm import Session

from rephraser.reviews.audit import Audit, list_audits
from rephraser.reviews.status import STATUSES, standing_counts
from rephraser.run.start import KIND
from service.runs.store import Run, list_runs
from ui.pages.state import links
from ui.pages.state.database import cached
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.beginnings import no_neighbors
from ui.pages.widgets.choices import choose, choose_several, note_absent, switch

USUAL = STATUSES
"""All judged statuses, so that one reviewer's decision never removes a candidate from another's queue."""

WHOLE = "whole run"
NO_AUDIT = 0
ANY = "any"
_MAX_SEED = 2**31 - 1


@dataclass(frozen=True)
class Choice:
    """Settings of a queue: of an audit (in its order) or a run; `blind` hides verdicts."""

    run_id: str
    run: str
    audit_id: int | None
    reviewer: str
    blind: bool
    seed: int
    statuses: tuple[str, ...]
    strategy: str | None
    model: str | None


@cached
def neighbor_runs(session: Session) -> list[Run]:
    """Return the runs with neighbors, newest first."""
    return [run for run in reversed(list_runs(session)) if run.kind == KIND]


audits_of = cached(list_audits)


@cached
def _makers(session: Session, run_id: str) -> tuple[list[str], list[str]]:
    counts = standing_counts(session, run_id)
    return sorted({count.strategy for count in counts}), sorted({count.model for count in counts})


def choose_queue() -> Choice | None:
    """Show the widgets and return their settings; None if there is no run with neighbors yet."""
    runs = {run.name: run for run in neighbor_runs()}
    if not runs:
        no_neighbors("There are no neighbors to review yet.")
        return None
    with layout.row():
        chosen = _what(runs)
        reviewer = ask_reviewer()
    note_absent("run", list(runs), "run with neighbors", chosen.run)
    note_absent("audit", [audit.id for audit in audits_of(chosen.run_id)], "audit", f"the {WHOLE}")
    return replace(chosen, reviewer=reviewer.strip())


def _what(runs: dict[str, Run]) -> Choice:
    """Show the choice as a button that opens the widgets."""
    names = list(runs)
    run = runs[links.choice("run", names, names[0])]
    audits = {audit.id: audit for audit in audits_of(run.id)}
    numbers = [NO_AUDIT, *audits]
    number = links.choice("audit", numbers, NO_AUDIT)
    blind = number != NO_AUDIT or links.flag("blind", True)

    def queue(number: int) -> str:
        return WHOLE if number == NO_AUDIT else f"audit {number}: {describe(audits[number])}"

    label = f"{run.name}, {queue(number)}, {'blind' if blind else 'with verdicts'}"
    with st.popover(escaped(label), icon=":material/tune:", key="review-what"):
        choose(st.selectbox, "Run", "run", names, resets=["audit", "strategy", "model"], pinned=True)
        choose(st.selectbox, "Queue", "audit", numbers, words=queue)
        if number != NO_AUDIT:
            st.caption("An audit has its own order and is always blind.")
            if audits[number].kind == "groups":
                st.caption("Shows the accepted neighbors of a question one after another.")
        else:
            switch(
                "Blind",
                "blind",
                default=True,
                help="Hides verdict, strategy and model, and shuffles the candidates with the seed.",
            )
        switch("Mark differences", "marks", default=True)
        rest = (0, USUAL, None, None) if number != NO_AUDIT else _more(run.id, blind=blind)
    return Choice(run.id, run.name, None if number == NO_AUDIT else number, "", blind, *rest)


def _more(run_id: str, *, blind: bool) -> tuple[int, tuple[str, ...], str | None, str | None]:
    statuses = choose_several(st.pills, "Candidates with status", "verdict", STATUSES, USUAL)
    if blind:
        seed = st.number_input(
            "Shuffle seed",
            0,
            _MAX_SEED,
            **links.bind("seed", lambda: links.number("seed", low=0, high=_MAX_SEED), lambda n: n or None),
        )
        return int(seed), tuple(statuses) or USUAL, None, None
    strategies, models = _makers(run_id)
    strategy = choose(st.selectbox, "Strategy", "strategy", [ANY, *strategies])
    model = choose(st.selectbox, "Model", "model", [ANY, *models])
    makers = [None if value == ANY else value for value in (strategy, model)]
    return 0, tuple(statuses) or USUAL, makers[0], makers[1]


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
