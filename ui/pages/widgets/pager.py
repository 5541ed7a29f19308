"""Paging through a list by the keys of its rows, forward and back."""

from collections.abc import Mapping

import streamlit as st

from evaluator.evals.samples import TEXTS_READ
from ui.pages.state import links
from ui.pages.widgets import layout

Step = Mapping[str, links.Value]


def pager(
    onward: Step | None, back: Step | None, *, words: str = "", name: str = "pager", to_start: bool = True
) -> None:
    """Show the way back and "Next"; only `words` if everything fits on one page.

    `onward` and `back` are the parameters of the following and the earlier rows. If `back` leads `to_start`,
    the browser's Back goes back a page.
    """
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if onward or back:
            st.button(
                "From the start" if to_start else "Previous",
                icon=":material/first_page:" if to_start else ":material/chevron_left:",
                key=f"{name}-back",
                disabled=not back,
                on_click=lambda: links.set_query(**(back or {})),
            )
            st.button(
                "Next",
                icon=":material/chevron_right:",
                icon_position="right",
                key=f"{name}-next",
                disabled=not onward,
                on_click=lambda: links.set_query(**(onward or {})),
            )
        if words:
            layout.caption(words)


def found_responses(number: int, *, stopped: bool) -> str:
    """Say how many responses a search page has; `stopped` if it reached its limit of texts."""
    words = f"{number} response{'s' * (number > 1)}" if number else "No such responses"
    return words + f" among the first {TEXTS_READ:,} texts searched; press Next to continue" * stopped
