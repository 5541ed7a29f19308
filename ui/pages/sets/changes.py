"""Changes between two versions: counts, then neighbors added, removed or changed, page by page."""

from collections.abc import Mapping
from typing import Any, get_args

import streamlit as st

from rephraser.sets.changes import Change, ChangeKind, count_changes, page_changes
from rephraser.sets.types import SetHeader
from ui.pages.rollouts.overview import asked
from ui.pages.state import links, settings
from ui.pages.state.database import fetch
from ui.pages.text.differences import LEGEND, show_side_by_side
from ui.pages.text.markup import escaped, show_math_text
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose, note_absent
from ui.pages.widgets.pager import pager
from ui.pages.widgets.tables import Column, pick_row

PAGE = 25
KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)

_COLUMNS = [
    Column("neighbor", "neighbor"),
    Column("verdicts", "verdict"),
    Column("reviewed", "reviewed", "yes"),
    Column("strategy", "strategy"),
    Column("model", "model"),
    Column("text", "text", wide=True),
]


def show_changes(headers: list[SetHeader], header: SetHeader) -> None:
    others = {other.ref: other for other in reversed(headers) if other.id != header.id}
    if not others:
        layout.empty_state(
            "This set has only one version.",
            "To see changes, publish another version, with other filters or after reviews:",
            commands=(settings.command(f"sets publish {header.name} --run RUN"),),
        )
        return
    parent = next((ref for ref, other in others.items() if other.id == header.parent_id), None)
    resets = ["after", "neighbor"]
    against = choose(st.selectbox, "Since", "against", list(others), parent, resets=resets, width=260)
    note_absent("against", list(others), "other set", f"changes since {against}")
    old = others[against]
    counts = fetch(count_changes, old.id, header.id)
    questions = f"+{counts['questions_added']:,} −{counts['questions_removed']:,}"
    layout.numbers(
        ("neighbors added", f"{counts['added']:,}"),
        ("removed", f"{counts['removed']:,}"),
        ("changed", f"{counts['changed']:,}", "In both versions, with a different verdict or origin."),
        ("questions", questions, "Neighbors added and removed."),
    )
    numbers = {kind: counts[kind] for kind in KINDS}
    if not any(numbers.values()):
        st.caption("The neighbors of both versions are the same.")
        return
    _list(old, header, numbers)


def _list(old: SetHeader, new: SetHeader, numbers: Mapping[ChangeKind, int]) -> None:
    kinds = [kind for kind in KINDS if numbers[kind]]
    kind = choose(
        st.segmented_control,
        "Which",
        "kind",
        kinds,
        words=lambda kind: f"{kind} {numbers[kind]:,}",
        resets=["after", "neighbor"],
    )
    after = links.place("after")
    key = None if after is None else (after[1], after[0])
    page = fetch(page_changes, old.id, new.id, kind, after=key, limit=PAGE + 1)
    members, more = page[:PAGE], len(page) > PAGE
    if not members:
        st.caption("No more changes.")
    rows = [row(change) for change in members]
    chosen = pick_row(rows, _COLUMNS, "changes", parameter="neighbor", value="neighbor", name="changes")
    pager(
        "after",
        f"{members[-1].position}:{members[-1].question_id}" if more else None,
        f"{len(members):,} of {numbers[kind]:,}. Click a row to compare the texts.",
    )
    for change in members:
        if change.neighbor.candidate_id == chosen:
            _compare(change)


def row(change: Change) -> dict[str, Any]:
    neighbor = change.neighbor
    before = change.before.verdict if change.before is not None and "verdict" in change.fields else None
    verdicts = f"{before} → {neighbor.verdict}" if before else neighbor.verdict
    return {**vars(neighbor), "neighbor": neighbor.candidate_id, "verdicts": verdicts}


def _compare(change: Change) -> None:
    neighbor, question = change.neighbor, asked(change.question_id)
    with layout.card():
        with layout.row():
            layout.line(layout.verdict_chip(neighbor.verdict), layout.chip(neighbor.strategy))
            links.link("Question with all its neighbors", "questions", id=change.question_id)
        if question is None:
            show_math_text(neighbor.text, "changed-neighbor")
            return
        for column, heading in zip(st.columns(2, gap="large"), ("Question", "Neighbor"), strict=True):
            column.caption(escaped(heading))
        show_side_by_side(question.text, neighbor.text, "changed")
        st.caption(LEGEND)  # safe
