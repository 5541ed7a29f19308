"""What changed between two versions: counts, then neighbors added, removed or changed, page by page."""

from typing import Any, cast, get_args

import streamlit as st
from sqlalchemy.orm import Session

from rephraser.sets.changes import Change, ChangeCounts, ChangeKind, count_changes, page_changes
from rephraser.sets.types import SetHeader
from service.errors import NotFoundError
from service.questions.browsing import find_question
from ui.pages.state import links
from ui.pages.state.database import cached, reading
from ui.pages.state.results import Results
from ui.pages.text.differences import LEGEND, compare, show_difference
from ui.pages.text.markup import show_math_text
from ui.pages.widgets import layout
from ui.pages.widgets.onward import onward
from ui.pages.widgets.picking import pick_row
from ui.pages.widgets.tables import Column

PAGE = 25
KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)

_kept = Results(max_bytes=8 * 2**20)

_COLUMNS = [
    Column("neighbor", "neighbor"),
    Column("verdicts", "verdict"),
    Column("reviewed", "reviewed", "yes"),
    Column("strategy", "strategy"),
    Column("model", "model"),
    Column("text", "text", wide=True),
]


def kept_counts(a_id: str, b_id: str) -> ChangeCounts:
    """Return how much differs; versions never change, so this is kept by their two ids."""

    def make() -> ChangeCounts:
        with reading() as session:
            return count_changes(session, a_id, b_id)

    return _kept.get(("counts", a_id, b_id), make)


def kept_page(a_id: str, b_id: str, kind: ChangeKind, after: tuple[str, int] | None) -> list[Change]:
    """Return a page of changes and one row more, where there is one; kept like the counts."""

    def make() -> list[Change]:
        with reading() as session:
            return page_changes(session, a_id, b_id, kind, after=after, limit=PAGE + 1)

    return _kept.get((kind, a_id, b_id, after), make)


def show_changes(found: list[SetHeader], header: SetHeader) -> None:
    """Show what leads from another version to this one."""
    others = {one.ref: one for one in reversed(found) if one.id != header.id}
    if not others:
        layout.empty_state(
            "There is one version only.",
            "Publish another one, with other filters or after reviews, to see what changed:",
            commands=("tagrpo sets publish NAME --run RUN",),
        )
        return
    usual = next((ref for ref, one in others.items() if one.id == header.parent_id), next(iter(others)))
    with layout.row():
        against = st.selectbox(
            "Since",
            list(others),
            width=260,
            **links.bound(
                "against",
                lambda: links.choice("against", list(others), usual),
                lambda ref: None if ref == usual else ref,
                resets=["after", "neighbor"],
                pinned=True,
            ),
        )
    if asked := links.unknown("against", list(others)):
        layout.note(f"There is no other set {asked} in this database; this is since {against}.")
    old = others[against]
    counts = kept_counts(old.id, header.id)
    layout.numbers(
        [
            layout.Number("neighbors added", f"{counts.added:,}"),
            layout.Number("removed", f"{counts.removed:,}"),
            layout.Number(
                "changed", f"{counts.changed:,}", hint="In both versions, with another verdict or origin."
            ),
            layout.Number(
                "questions", f"+{counts.questions_added:,} −{counts.questions_removed:,}", hint="In and out."
            ),
        ]
    )
    numbers = {"added": counts.added, "removed": counts.removed, "changed": counts.changed}
    if not any(numbers.values()):
        st.caption("The neighbors of both versions are the same.")
        return
    _list(old, header, numbers)


def _list(old: SetHeader, new: SetHeader, numbers: dict[str, int]) -> None:
    kinds = [kind for kind in KINDS if numbers[kind]]
    kind = st.segmented_control(
        "Which",
        kinds,
        format_func=lambda one: f"{one} {numbers[one]:,}",
        label_visibility="collapsed",
        required=True,
        **links.bound(
            "kind",
            lambda: links.choice("kind", kinds, kinds[0]),
            lambda one: None if one == kinds[0] else one,
            resets=["after", "neighbor"],
        ),
    )
    after = _key(links.text("after"))
    page = kept_page(old.id, new.id, cast(ChangeKind, kind or kinds[0]), after)
    members, more = page[:PAGE], len(page) > PAGE
    if not members:
        st.caption("Nothing follows here.")
    chosen = pick_row(
        [row(one) for one in members],
        _COLUMNS,
        "changes",
        parameter="neighbor",
        value="neighbor",
        name="changes",
    )
    last = f"{members[-1].question_id}:{members[-1].position}" if more else None
    onward(
        last,
        begun=after is not None,
        words=f"{len(members):,} of {numbers[kind or kinds[0]]:,}. A click on a row compares the texts.",
    )
    member = next((one for one in members if one.neighbor.candidate_id == chosen), None)
    if member is not None:
        _compare(member)


def row(one: Change) -> dict[str, Any]:
    """Return a change as a row."""
    neighbor = one.neighbor
    before = one.before.verdict if one.before is not None and one.verdict_changed else None
    return {
        "neighbor": neighbor.candidate_id,
        "question": one.question_id,
        "verdicts": f"{before} → {neighbor.verdict}" if before else neighbor.verdict,
        "reviewed": neighbor.reviewed,
        "strategy": neighbor.strategy,
        "model": neighbor.model,
        "text": neighbor.text,
    }


@cached
def _question(session: Session, question_id: str) -> str | None:
    try:
        return find_question(session, question_id).text
    except NotFoundError:
        return None


def _compare(one: Change) -> None:
    question = _question(one.question_id)
    with layout.card():
        with layout.row():
            layout.line(layout.verdict_chip(one.neighbor.verdict), layout.chip(one.neighbor.strategy))
            links.link(
                "Question with all its neighbors",
                "questions",
                icon=":material/format_list_bulleted:",
                id=one.question_id,
            )
        if question is None:
            show_math_text(one.neighbor.text, "changed-neighbor")
            return
        difference = compare(question, one.neighbor.text)
        left, right = st.columns(2, gap="large")
        with left:
            st.caption("Question")
            show_difference(difference, "original", "changed-original")
        with right:
            st.caption("Neighbor")
            show_difference(difference, "neighbor", "changed-neighbor")
        st.caption(LEGEND)  # safe


def _key(said: str) -> tuple[str, int] | None:
    question, _, position = said.rpartition(":")
    return (question, int(position)) if question and position.isdecimal() and len(position) < 10 else None
