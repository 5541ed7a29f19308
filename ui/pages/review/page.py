"""The page "Review": the queue, and what the reviews say so far."""

import streamlit as st

from ui.pages.review.choosing import Choice, choose
from ui.pages.review.deciding import decide
from ui.pages.review.results import show_results
from ui.pages.state import links, settings
from ui.pages.state.database import reading
from ui.pages.widgets import layout

VIEWS = ("Queue", "Results")


def show() -> None:
    """Draw the page."""
    layout.title("Review", "Is the neighbor the same problem as the question? Decide by keyboard.")
    with reading():
        pass
    choice = choose()
    if choice is None:
        return
    view = st.segmented_control(
        "View",
        VIEWS,
        label_visibility="collapsed",
        required=True,
        **links.bound(
            "view",
            lambda: links.choice("view", VIEWS, VIEWS[0]),
            lambda one: None if one == VIEWS[0] else one,
        ),
    )
    if view == "Results":
        show_results(choice)
    else:
        _queue(choice)


def _queue(choice: Choice) -> None:
    current = settings.current()
    if not current.review:
        with st.container(border=True, horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(":material/lock: **Read only.** To write decisions, start the pages with")
            where = "--demo" if current.shipped else f"--db {current.database}"
            st.code(f"tagrpo ui --review {where}", language=None)
    elif not choice.reviewer:
        layout.empty_state("Who reviews?", "Give your name above: it is stored with every decision.")
        return
    decide(choice)
