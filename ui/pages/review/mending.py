"""Mending the text of the candidate on the screen: a new candidate, which its run checks and judges."""

import streamlit as st

from rephraser.reviews.mending import mend_candidate
from rephraser.reviews.queue import ReviewItem
from service.errors import TagrpoError
from ui.pages.review.choosing import Choice
from ui.pages.state.database import review_writer
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout

_OUTCOME = "review-mended"
_HEIGHT = 160


def show_mending(choice: Choice, item: ReviewItem) -> None:
    """Show a field with the candidate's text, and store what it holds as another candidate."""
    outcome = st.session_state.pop(_OUTCOME, None)
    with st.expander("Mend the text", icon=":material/edit:", expanded=outcome is not None):
        if outcome is not None:
            identity, problem = outcome
            if problem:
                layout.error_box("The text was not stored.", problem)
            else:
                st.caption(escaped(f"Stored as {identity}. {choice.run} has it checked and judged by:"))
                st.code(f"tagrpo resume {choice.run}", language=None)
        key = f"mended-{item.candidate_id}"
        st.text_area(
            escaped(f"Text of {item.candidate_id}; the one above stays as it is"),
            item.candidate,
            key=key,
            height=_HEIGHT,
        )
        st.button("Store as a new candidate", on_click=_store, args=(choice, item.candidate_id, key))


def _store(choice: Choice, candidate_id: str, key: str) -> None:
    text = str(st.session_state.get(key, ""))
    try:
        with review_writer() as session:
            mended = mend_candidate(session, candidate_id, text, reviewer=choice.reviewer, run=choice.run_id)
    except TagrpoError as error:
        st.session_state[_OUTCOME] = ("", str(error))
    else:
        st.session_state[_OUTCOME] = (mended.candidate_id, "")
