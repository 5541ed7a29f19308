"""The page "Review": the queue, and the results so far."""

import streamlit as st

from ui.pages.review.choosing import choose_queue
from ui.pages.review.deciding import decide
from ui.pages.review.results import show_results
from ui.pages.state import settings
from ui.pages.state.database import show_page
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose


def body() -> None:
    choice = choose_queue()
    if choice is None:
        return
    if choose(st.segmented_control, "View", "view", ["Queue", "Results"]) == "Results":
        show_results(choice)
        return
    current = settings.current()
    if current.review and not choice.reviewer:
        layout.empty_state("Who reviews?", "Enter your name above; it is stored with every decision.")
        return
    if not current.review:
        with st.container(border=True, horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(":material/lock: **Read only.** To store decisions, start the UI with")
            to_review = "tagrpo ui --review --demo" if current.shipped else settings.command("ui --review")
            st.code(to_review, language=None, wrap_lines=True)
    decide(choice)


show_page(
    "Review", "Does the neighbor pose the same problem as the question? Decide with the keyboard.", body
)
