"""Going on through a list whose pages are found by the key of the last row: onward, and back to its start."""

import streamlit as st

from ui.pages.state import links
from ui.pages.text.markup import escaped


def onward(last: str | None, *, begun: bool, words: str = "", name: str = "after") -> None:
    """Show "From the start" and "Next"; nothing where all is on one page. Back in the browser goes back.

    Args:
        last: key of the last row shown, None where nothing follows it.
        begun: whether the page shown is not the first one.
        words: plain text beside the buttons.
        name: of the parameter in the address that holds the key.
    """
    if last is None and not begun:
        if words:
            st.caption(escaped(words))
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "From the start",
            icon=":material/first_page:",
            key=f"{name}-start",
            disabled=not begun,
            on_click=lambda: links.put(**{name: None}),
        )
        st.button(
            "Next",
            icon=":material/chevron_right:",
            icon_position="right",
            key=f"{name}-next",
            disabled=last is None,
            on_click=lambda: links.put(**{name: last}),
        )
        if words:
            st.caption(escaped(words))
