"""Paging through a list by the keys of its rows, forward and back."""

from collections.abc import Sequence

import streamlit as st

from evaluator.evals.samples import TEXTS_READ
from ui.pages.state import links
from ui.pages.widgets import layout


def pager(
    name: str,
    following: links.Value,
    words: str = "",
    *,
    earlier: str | None = None,
    resets: Sequence[str] = (),
) -> None:
    """Show the way back and "Next"; only `words` if everything fits on one page.

    "Next" stores `following` in the address under `name`. The way back stores `earlier` under `before`, or
    leads to the start if it is None, so that the browser's Back goes back a page; then `before` belongs to
    another list of the page. `resets` are parameters to remove.
    """
    onward: dict[str, links.Value] = {**dict.fromkeys(resets), name: following}
    back: dict[str, links.Value] = {**dict.fromkeys(resets), name: None}
    if earlier is not None:
        onward["before"], back["before"] = None, earlier
    has_back = bool(links.text(name) if earlier is None else earlier)
    with layout.row():
        if words:
            layout.caption(words)
        if not (following or has_back):
            return
        st.button(
            "From the start" if earlier is None else "Previous",
            icon=":material/first_page:" if earlier is None else ":material/chevron_left:",
            key=f"{name}-back",
            disabled=not has_back,
            on_click=lambda: links.set_query(**back),
        )
        st.button(
            "Next",
            icon=":material/chevron_right:",
            icon_position="right",
            key=f"{name}-next",
            disabled=not following,
            on_click=lambda: links.set_query(**onward),
        )


def found_responses(number: int, *, stopped: bool) -> str:
    """Say how many responses a search page has; `stopped` if it reached its limit of texts."""
    words = f"{number} response{'s' * (number > 1)}" if number else "No matching responses"
    return words + f" among the first {TEXTS_READ:,} texts searched; press Next to continue" * stopped
