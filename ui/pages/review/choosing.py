"""What is reviewed, by whom and how: read from the address, chosen with widgets at the top."""

import os
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st
from sqlalchemy.orm import Session

from rephraser.reviews.audit import AuditHeader, list_audits
from rephraser.reviews.status import STATUSES, standing_counts
from rephraser.run.start import KIND
from service.runs.store import Run, list_runs
from ui.pages.state import links
from ui.pages.state.database import cached
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout

USUAL = STATUSES
"""All that are judged: what one reviewer decides must not take a candidate out of another one's queue."""

WHOLE = "whole run"
ANY = "any"
_MAX_SEED = 2**31 - 1


@dataclass(frozen=True)
class Choice:
    """Whose queue, of what, in which order.

    Attributes:
        audit_id: decisions are made for this audit and in its order; None for the run's candidates.
        blind: verdict, strategy and model are hidden and the order is shuffled by the seed.
    """

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
    """Return the runs that hold neighbors, the newest first."""
    return [run for run in reversed(list_runs(session)) if run.kind == KIND]


@cached
def audits_of(session: Session, run_id: str) -> list[AuditHeader]:
    """Return the audits of a run."""
    return list_audits(session, run_id)


@cached
def _makers(session: Session, run_id: str) -> tuple[list[str], list[str]]:
    counts = standing_counts(session, run_id)
    return sorted({one.strategy for one in counts}), sorted({one.model for one in counts})


def choose() -> Choice | None:
    """Show the widgets and return what they say; None where there is no run of neighbors yet."""
    runs = {run.name: run for run in neighbor_runs()}
    if not runs:
        layout.empty_state(
            "There are no neighbors to review yet.",
            "Propose some, and reload this page:",
            commands=("tagrpo neighbors propose SET --name NAME --proposer rules", "tagrpo demo"),
        )
        return None
    with layout.row():
        chosen = _what(runs)
        reviewer = st.text_input(
            "Reviewer",
            placeholder="your name",
            icon=":material/person:",
            width=190,
            max_chars=80,
            label_visibility="collapsed",
            **links.bound("reviewer", lambda: links.text("reviewer", _usual_reviewer())),
        )
    if asked := links.unknown("run", list(runs)):
        layout.note(f"There is no run {asked} with neighbors in this database; this is {chosen.run}.")
    if asked := links.unknown("audit", [str(audit.id) for audit in audits_of(chosen.run_id)]):
        layout.note(f"Run {chosen.run} has no audit {asked}; this is the {WHOLE}.")
    return replace(chosen, reviewer=reviewer.strip())


def _what(runs: dict[str, Run]) -> Choice:
    """Show what is chosen as a button that opens the widgets."""
    names = list(runs)
    run = runs[links.choice("run", names, names[0])]
    audits = {str(audit.id): audit for audit in audits_of(run.id)}
    numbers = ["", *audits]
    number = links.choice("audit", numbers, "")
    said = f"{run.name}, {_said(audits.get(number))}"
    blind = number != "" or links.flag("blind", True)
    label = f"{said}, {'blind' if blind else 'with verdicts'}"
    with st.popover(escaped(label), icon=":material/tune:", key="review-what"):
        st.selectbox(
            "Run",
            names,
            **links.bound(
                "run",
                lambda: links.choice("run", names, names[0]),
                resets=["audit", "strategy", "model"],
                pinned=True,
            ),
        )
        st.selectbox(
            "Queue",
            numbers,
            format_func=lambda one: _said(audits.get(one)),
            **links.bound("audit", lambda: links.choice("audit", numbers, "")),
        )
        if number:
            st.caption("An audit has an order of its own and is always blind.")
            if audits[number].kind == "groups":
                st.caption("The accepted neighbors of a question come one after the other.")
        else:
            st.toggle(
                "Blind",
                help="Hides verdict, strategy and model, and shuffles the order by the seed.",
                **links.bound("blind", lambda: links.flag("blind", True), lambda on: None if on else "0"),
            )
        st.toggle(
            "Mark what differs",
            **links.bound("marks", lambda: links.flag("marks", True), lambda on: None if on else "0"),
        )
        rest = (0, USUAL, None, None) if number else _more(run.id, blind=blind)
    return Choice(run.id, run.name, int(number) if number else None, "", blind, *rest)


def _more(run_id: str, *, blind: bool) -> tuple[int, tuple[str, ...], str | None, str | None]:
    statuses = st.pills(
        "Candidates that are now",
        STATUSES,
        selection_mode="multi",
        **links.bound(
            "verdict",
            lambda: list(links.many("verdict", STATUSES) or USUAL),
            lambda chosen: None if set(chosen) == set(USUAL) else list(chosen),
        ),
    )
    if blind:
        seed = st.number_input(
            "Seed of the order",
            0,
            _MAX_SEED,
            **links.bound("seed", lambda: links.number("seed", low=0, high=_MAX_SEED), lambda n: n or None),
        )
        return int(seed), tuple(statuses) or USUAL, None, None
    strategies, models = _makers(run_id)
    strategy = st.selectbox("Strategy", [ANY, *strategies], **_any("strategy", strategies))
    model = st.selectbox("Model", [ANY, *models], **_any("model", models))
    return 0, tuple(statuses) or USUAL, _or_none(strategy), _or_none(model)


def _any(name: str, values: list[str]) -> dict[str, Any]:
    return links.bound(
        name, lambda: links.choice(name, [ANY, *values], ANY), lambda one: None if one == ANY else one
    )


def _or_none(value: str) -> str | None:
    return None if value == ANY else value


def _said(audit: AuditHeader | None) -> str:
    if audit is None:
        return WHOLE
    return f"audit {audit.id}: {describe(audit)}"


def describe(audit: AuditHeader) -> str:
    """Say what an audit drew, and by which seed."""
    drawn = "questions with their neighbors" if audit.kind == "groups" else "drawn"
    return f"{audit.size:,} {drawn}, seed {audit.seed}"


def _usual_reviewer() -> str:
    """Return the name that the server's user set for reviews; a login name would be everybody's here."""
    return os.environ.get("TAGRPO_REVIEWER", "").strip()
