"""Filters of the list of questions: read from the address, changed with widgets."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import streamlit as st
from sqlalchemy.orm import Session

from rephraser.candidates import PENDING, STATUSES, standing_counts
from rephraser.checks.structure import FINDINGS
from rephraser.questions.store import count_labels
from rephraser.questions.store import list_sets as list_question_sets
from rephraser.run.spec import KIND
from rephraser.sets.store import list_sets
from rephraser.views.questions import QuestionFilters
from service.runs.store import list_runs
from ui.pages.state import links
from ui.pages.state.database import cached, fetch
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose, search_field

ANY = ""
SUSPECT = "suspect"
"""Gold answers that the solvers contradict."""
PLACES = ("after", "before")
"""Parameters to reset when a filter changes."""

FOLDED = {
    "subject": ("Subject", "any subject"),
    "level": ("Level", "any level"),
    "strategy": ("Strategy", "any strategy"),
    "model": ("Model", "any model"),
    "finding": ("Finding", "any finding"),
    "run": ("Run", "any run"),
    "set": ("Question set", "any set"),
    "neighbors": ("Neighbor set", "any neighbor set"),
    "gold": ("Gold answer", "any gold answer"),
}
"""Filters by parameter: the label, and the text if the filter is not set."""
NAMES = ("q", "verdict", *FOLDED)
"""Parameters of all filters."""


@cached
def choices(session: Session) -> dict[str, list[str]]:
    labels, standing = count_labels(session), standing_counts(session)
    runs = [run for run in reversed(list_runs(session)) if run.kind == KIND]
    statuses = {count.status for count in standing}
    return {
        "subject": sorted({subject for subject, _, _ in labels if subject}),
        "level": sorted({level for _, level, _ in labels if level}),
        "verdict": [status for status in (*STATUSES, PENDING) if status in statuses],
        "strategy": sorted({count.strategy for count in standing}),
        "model": sorted({count.model for count in standing}),
        "run": [run.name for run in runs],
        "set": [stored.name for stored, _, _ in list_question_sets(session)],
        "neighbors": [header.ref for header in list_sets(session)],
        "gold": [SUSPECT],
        "finding": list(FINDINGS),
    }


def run_ids() -> dict[str, str]:
    return {run.name: run.id for run in fetch(list_runs)}


def read() -> QuestionFilters:
    """Return the filters in the address; values that are not in the database are dropped."""
    chosen = {name: links.choice(name, [ANY, *values], ANY) or None for name, values in choices().items()}
    run = chosen["run"]
    return QuestionFilters(
        text=links.text("q").strip() or None,
        subject=chosen["subject"],
        level=chosen["level"],
        status=chosen["verdict"],
        strategy=chosen["strategy"],
        model=chosen["model"],
        finding=chosen["finding"],
        run_id=None if run is None else run_ids()[run],
        question_set=chosen["set"],
        neighbor_set=chosen["neighbors"],
        suspect=chosen["gold"] == SUSPECT,
    )


def show() -> None:
    known = choices()
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        hidden = {"label_visibility": "collapsed"}
        search_field("words of a question, answer or neighbor", "q", PLACES, width=320, **hidden)
        select: Callable[..., Any] = partial(choose, st.selectbox, resets=PLACES)
        verdicts = [ANY, *known["verdict"]]
        select("Verdict", "verdict", verdicts, words=lambda it: it or "any verdict", width=165, **hidden)
        with st.popover("Filters", icon=":material/filter_list:", key="question-filters"):
            for name, (label, unset) in FOLDED.items():
                select(label, name, [ANY, *known[name]], words=lambda value, unset=unset: value or unset)
    show_active(list(FOLDED), PLACES)
    warn_absent(NAMES)


def show_active(names: Sequence[str], resets: Sequence[str]) -> None:
    """List the active filters, each with a button that removes it and resets the parameters `resets`."""
    known = choices()
    active = [name for name in names if links.text(name) in known[name]]
    if not active:
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for name in active:
            st.button(
                escaped(f"{name}: {links.text(name)}"),
                icon=":material/close:",
                key=f"clear-{name}",
                help="Remove this filter",
                on_click=lambda name=name: links.set_query(**{name: None}, **dict.fromkeys(resets)),
            )


def warn_absent(names: Sequence[str]) -> None:
    asked = {name: links.unknown_value(name, values) for name, values in choices().items() if name in names}
    absent = [f"{name} {value}" for name, value in asked.items() if value]
    if absent:
        layout.note(f"Not in this database, so ignored: {', '.join(absent)}.")
