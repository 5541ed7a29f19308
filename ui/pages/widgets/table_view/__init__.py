"""A table of texts with selectable rows and sortable columns: an HTML table of text nodes.

Streamlit's own grid is drawn on a canvas. It takes half a megabyte of script, waits 150 ms after a click, and
its content can be neither searched nor read by a screen reader.
"""

import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import streamlit as st

_HERE = Path(__file__).resolve().parent

Look = Literal["text", "code", "number", "yes"]


class Heading(NamedTuple):
    """A column's heading; `hint` explains the values; `wide` columns take the remaining width."""

    name: str
    look: Look = "number"
    hint: str = ""
    wide: bool = False


def show_table(
    head: Sequence[Heading],
    rows: Sequence[Sequence[str]],
    key: str,
    *,
    framed: bool = True,
    height: int = 54,
    words: str = "",
    chosen: int | None = None,
    on_choose: Callable[[int], None] | None = None,
    leads_away: bool = False,
) -> None:
    """Show rows of cells, all of them plain text.

    Args:
        head: a heading for each column.
        rows: at most some hundred, each with a cell for every heading.
        key: unique on the page.
        framed: draw a frame around the table; False inside another frame.
        height: beyond which the table scrolls, in rem; 25 rows below headings of two lines take 53.3.
        words: below the table, such as what a click does.
        chosen: index of the marked row, from 0.
        on_choose: called with the index of a clicked row, before the page is drawn again; None if rows cannot
            be chosen.
        leads_away: whether a click opens another view instead of toggling the row.
    """
    rows_hash = zlib.crc32(repr(rows).encode("utf-8", "replace"))

    def choose() -> None:
        place, clicked = st.session_state[key]["chosen"] or (-1, None)
        # A click that arrives with another page of rows on its way refers to the old rows.
        if on_choose is not None and clicked == rows_hash and place in range(len(rows)):
            on_choose(place)

    data = {
        "head": head,
        "rows": rows,
        "framed": framed,
        "height": height,
        "words": words,
        "chosen": chosen,
        "choosing": on_choose is not None,
        "toggles": not leads_away,
        "shown": rows_hash,
    }
    _component()(key=key, data=data, on_chosen_change=choose)


@cache
def _component() -> Any:
    html, css, js = ((_HERE / f"table.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js"))
    return st.components.v2.component("tagrpo_table", html=html, css=css, js=js)
