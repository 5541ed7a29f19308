"""The list of questions, paged by key."""

from typing import Any

import streamlit as st

from rephraser.candidates import PENDING, STATUSES
from rephraser.views.questions import ListedQuestion, QuestionFilters, count_questions, page_questions
from ui.pages.questions import filters
from ui.pages.state import links
from ui.pages.state.database import fetch
from ui.pages.text.markup import cut_text, escaped, safe_md
from ui.pages.widgets import layout, tables
from ui.pages.widgets.beginnings import no_questions
from ui.pages.widgets.pager import pager

PAGE = 15
TEXT_SHOWN = 280

_STYLE = """<style>
[class*="st-key-question-row-"] {
  flex-wrap: nowrap; border-bottom: 1px solid rgba(128, 136, 150, 0.22); padding-bottom: 0.75rem;
}
[class*="st-key-question-row-"] > :first-child { flex: 1; min-width: 0; }
[class*="st-key-question-row-"] p:last-child { margin-top: -0.5rem; font-size: 0.9rem; }
</style>"""


def show() -> None:
    filters.show()
    wanted, after, before = filters.read(), links.text("after"), links.text("before")
    with layout.or_stop("These questions cannot be listed."):
        ends: dict[str, Any] = {"after": after or None, "before": None if after else before or None}
        page = fetch(page_questions, wanted, **ends, limit=PAGE)
        number, is_all = fetch(count_questions, wanted)
    if not page.questions and wanted == QuestionFilters() and not (after or before):
        no_questions("There are no questions yet.")
        return
    if not page.questions:
        layout.empty_state(
            "No question matches.",
            "Use fewer words or filters. One text must contain all words; put a phrase in quotation marks "
            "to match it exactly.",
        )
        every = dict.fromkeys((*filters.NAMES, *filters.PLACES))
        st.button("Show all questions", on_click=lambda: links.set_query(**every))
        return
    st.html(_STYLE)  # safe: a constant
    with st.container(gap="small"):
        for listed in page.questions:
            _row(listed)
    of = "" if is_all else "more than "
    words = f"{len(page.questions)} of {of}{number:,} question{'s' * (number != 1)}"
    pager("after", page.after, words, earlier=page.before or "")
    rows = []
    for listed in page.questions:
        labels = {name: getattr(listed.question, name) for name in ("answer", "subject", "level")}
        counts = {status: listed.candidates.get(status, 0) for status in (*STATUSES, PENDING)}
        rows.append({"id": listed.question.id, "question": listed.question.text, **labels, **counts})
    tables.download("questions", rows, key="questions-csv")


def _row(listed: ListedQuestion) -> None:
    question = listed.question
    counts = listed.candidates
    labels = [escaped(label) for label in (question.subject, question.level) if label]
    chips = [
        layout.chip(f"{counts[status]} {status}", layout.VERDICTS.get(status, ("gray", ""))[0])
        for status in (*STATUSES, PENDING)
        if counts.get(status)
    ]
    words = " · ".join([*labels, f"answer {escaped(question.answer[:60])}"])
    with st.container(key=f"question-row-{question.id}", horizontal=True, gap="small"):
        text = question.text if len(question.text) <= TEXT_SHOWN else cut_text(question.text, TEXT_SHOWN)
        below = f":gray[{words}] {' '.join(chips or [':gray[no neighbors]'])}"
        st.markdown(f"{safe_md(text)}\n\n{below}")  # safe
        st.button(
            "Open",
            key=f"open-{question.id}",
            icon=":material/arrow_forward:",
            type="tertiary",
            on_click=lambda: links.set_query(id=question.id),
        )
