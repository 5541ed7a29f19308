"""The queue on the screen: items rendered ahead (the browser shows one of them), keys, and editing."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import streamlit as st

from rephraser.candidates import mend_candidate
from rephraser.reviews.audit import audit_progress, audit_queue, get_audit
from rephraser.reviews.store import (
    Decision,
    ReviewItem,
    ReviewProgress,
    Withdrawal,
    open_queue,
    read_items,
    record_changes,
    run_progress,
)
from rephraser.views.candidates import NeighborCard, read_cards
from service.errors import TagrpoError
from ui.pages.questions.evidence import provenance
from ui.pages.review.choosing import QueueChoice
from ui.pages.review.keys import MARKS, READ_ONLY_KEYS, REVIEW_KEYS, Queue, read_events
from ui.pages.state import links, settings
from ui.pages.state.database import reading, review_writer
from ui.pages.text.answers import show_answers
from ui.pages.text.differences import show_side_by_side
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.pictures import show_pictures
from ui.pages.widgets.tables import load_component

BEHIND, AT_FIRST, DRAWN = 2, 12, 24
"""Items kept for undo, items rendered at the start, and items rendered after the browser's first message.
The browser requests the others. Twenty keys per second are about six items ahead of the server.
"""

_OPENED, _MENDED = "review-opened", "review-mended"
_FIELD_HEIGHT = 160
_FILES = Path(__file__).with_name("queue")
_STYLE = """<style>
html:not([data-review-ready]) [class*="st-key-review-slot-"] { display: none; }
.st-key-review-items { min-height: 46vh; }
[class*="st-key-review-slot-"] [data-testid="stColumn"]::before {
  content: "Neighbor"; display: block; font-size: 0.85rem; opacity: 0.65; margin-bottom: 0.4rem;
}
[class*="st-key-review-slot-"] [data-testid="stColumn"]:first-child::before { content: "Question"; }
div:has(> .st-key-review-keys) { position: sticky; bottom: 0.75rem; z-index: 20; }
</style>"""


@dataclass
class Opened:
    """A queue as opened in a browser tab, with a new token, so that keys of an earlier one do not count."""

    choice: QueueChoice
    queue: Queue
    token: str
    before: ReviewProgress
    cards: dict[str, NeighborCard | None] = field(default_factory=dict)


@st.fragment
def decide(choice: QueueChoice) -> None:
    """Handle the received keys, draw the items around the current one, then the keys."""
    opened = _opened(choice)
    queue = opened.queue
    name = f"review-keys-{opened.token}"
    client, events = read_events((st.session_state.get(name) or {}).get("keys"))
    error = ""
    try:
        queue.handle_keys(client, events, _store)
    except TagrpoError as problem:
        error = str(problem)
    if not queue.order:
        _nothing(choice)
        return
    words = f"{len(queue.order):,} candidates, in review order"
    if queue.keys is REVIEW_KEYS:
        accepted, rejected, skipped = map(queue.count, MARKS)
        decided = opened.before.decided + accepted + rejected
        words = f"{decided:,} of {opened.before.total:,} decided by {queue.reviewer}; in this session: "
        words += f"{accepted:,} accepted, {rejected:,} rejected, {skipped:,} skipped"
    layout.caption(words)
    first = max(0, queue.at - BEHIND)
    ahead = queue.order[first : first + DRAWN]
    window = list(ahead if client else ahead[:AT_FIRST])
    items = _read(opened, window)
    st.html(_STYLE)  # safe: a constant
    with st.container(key="review-items", gap=None):
        for place in range(DRAWN):
            at = (place - first) % DRAWN  # an item keeps its slot of the page while it is rendered
            _slot(opened, items.get(window[at]) if at < len(window) else None)
        if queue.current == "":
            with st.container(key="review-slot-end", border=True, gap="small"):
                _end(queue)
    with st.container(key="review-keys"):
        load_component("review_keys", _FILES)(
            key=name,
            data={
                "first": first,
                "items": window,
                "more": len(window) < len(ahead),
                "total": len(queue.order),
                "at": queue.at,
                "heard": queue.heard,
                "refused": queue.refused,
                "marks": {id: queue.marks[id] for id in window if id in queue.marks},
                "writes": queue.keys is REVIEW_KEYS,
                "error": error,
                "keys": [vars(key) for key in queue.keys],
            },
            on_keys_change=lambda: None,
        )
    if queue.keys is REVIEW_KEYS and queue.current in items:
        show_edit_form(choice, items[queue.current])


def _opened(choice: QueueChoice) -> Opened:
    kept: Opened | None = st.session_state.get(_OPENED)
    if kept is not None and kept.choice == choice:
        return kept
    run_id, reviewer = choice.run_id, choice.reviewer
    with reading() as session:
        if choice.audit_id is not None:
            audit = get_audit(session, choice.audit_id)
            order = audit_queue(session, audit, reviewer)
            before = audit_progress(session, audit, reviewer)
        else:
            seed = choice.seed if choice.blind else None
            order = open_queue(session, run_id, reviewer, statuses=choice.statuses, seed=seed)
            before = run_progress(session, run_id, reviewer)
    keys = REVIEW_KEYS if settings.current().review else READ_ONLY_KEYS
    queue = Queue(order, reviewer, choice.audit_id, keys)
    opened = Opened(choice, queue, secrets.token_hex(8), before)
    st.session_state[_OPENED] = opened
    return opened


def reopen() -> None:
    """Open the queue again: skipped candidates return, and new ones are added."""
    st.session_state.pop(_OPENED, None)


def _store(changes: Sequence[Decision | Withdrawal]) -> None:
    with review_writer() as session:
        record_changes(session, changes)


def _read(opened: Opened, window: Sequence[str]) -> dict[str, ReviewItem]:
    with reading() as session:
        opened.cards = {id: card for id, card in opened.cards.items() if id in window}
        for id in () if opened.choice.blind else window:
            if id not in opened.cards:
                of_run = (card for card in read_cards(session, id) if card.run_id == opened.choice.run_id)
                opened.cards[id] = next(of_run, None)
        return {item.candidate_id: item for item in read_items(session, window)}


def _slot(opened: Opened, item: ReviewItem | None) -> None:
    with st.container(key=f"review-slot-{item.candidate_id}" if item else None):
        if item is None:
            return
        card = opened.cards.get(item.candidate_id)
        if card is not None:
            with layout.row():
                layout.line(*provenance(card))
                if reason := card.review_reason or card.verdict_reason:
                    layout.caption(reason)
        show_pictures(item.images)
        key = f"review-{item.candidate_id}"
        show_side_by_side(item.question, item.candidate, key, marks=links.flag("marks", True))
        if card is not None:
            show_answers(card.evidence)
        # This is the last element and contains the id: once it appears, the whole item is on the screen.
        st.caption(f"Answer: **{escaped(item.answer)}** · {escaped(item.candidate_id)}")


def _nothing(choice: QueueChoice) -> None:
    if choice.audit_id is not None:
        layout.empty_state(
            f"{choice.reviewer or 'No reviewer'} has decided all candidates of audit {choice.audit_id}.",
            "The Results tab shows its error rates.",
        )
    else:
        layout.empty_state(
            "Nothing left to review.",
            f"No {', '.join(choice.statuses)} candidate of {choice.run} is waiting for "
            f"{choice.reviewer or 'a reviewer'}. Choose another status or run above.",
        )
    st.button("Refresh", icon=":material/refresh:", on_click=reopen)


def _end(queue: Queue) -> None:
    st.markdown("**That was the last candidate.**")
    label = "Start again"
    if queue.keys is REVIEW_KEYS:
        accepted, rejected, skipped = map(queue.count, MARKS)
        words = f"{accepted:,} accepted, {rejected:,} rejected, {skipped:,} skipped."
        st.markdown(escaped(f"{words} All decisions are stored."))
        label = "Review skipped candidates" if skipped else label
    st.button(escaped(label), icon=":material/refresh:", on_click=reopen)


def show_edit_form(choice: QueueChoice, item: ReviewItem) -> None:
    outcome = st.session_state.pop(_MENDED, None)
    with st.expander("Edit the text", icon=":material/edit:", expanded=outcome is not None):
        if outcome is not None:
            identity, problem = outcome
            if problem:
                layout.error_box("The text was not stored.", problem)
            else:
                layout.caption(f"Stored as {identity}. To check and judge it, resume {choice.run}:")
                st.code(settings.command(f"resume {choice.run}"), language=None)
        key = f"mended-{item.candidate_id}"
        label = f"Text of {item.candidate_id}; the original candidate stays unchanged"
        st.text_area(escaped(label), item.candidate, key=key, height=_FIELD_HEIGHT)
        st.button("Store as a new candidate", on_click=_store_edit, args=(choice, item.candidate_id, key))


def _store_edit(choice: QueueChoice, candidate_id: str, key: str) -> None:
    text = str(st.session_state.get(key, ""))
    try:
        with review_writer() as session:
            who = {"reviewer": choice.reviewer, "run": choice.run_id}
            edited, _ = mend_candidate(session, candidate_id, text, **who)
    except TagrpoError as error:
        st.session_state[_MENDED] = ("", str(error))
    else:
        st.session_state[_MENDED] = (edited.candidate_id, "")
