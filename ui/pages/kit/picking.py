"""A table in which a click on a row chooses it: what is chosen stands in the address."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from ui.pages.kit import links
from ui.pages.kit.tables import Column, page_table


def pick_row(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    key: str,
    *,
    parameter: str,
    value: str,
    name: str | None = None,
    resets: Sequence[str] = (),
) -> str:
    """Show one page of rows and return what is chosen, as the address says it ("" for nothing).

    Only a click changes the address, so that Back leads to what was chosen before.

    Args:
        key: unique on the page.
        parameter: of the address, for what is chosen.
        value: key of the rows whose value is put there.
        name: of the CSV file, None for no download.
        resets: parameters that lose their meaning with another choice.
    """
    # Another page of rows is another table: a row that was clicked at the same place is not meant.
    table = f"{key}:{rows[0][value]}" if rows else key
    seen = f"picked:{table}"
    if table not in st.session_state:  # it is drawn anew, with no row chosen: nobody has taken a choice back
        st.session_state.pop(seen, None)
    place = page_table(rows, columns, table, name=name, select=True)
    now = None if place is None or place >= len(rows) else str(rows[place][value])
    if now != st.session_state.get(seen):
        st.session_state[seen] = now
        links.put(**{parameter: now}, **dict.fromkeys(resets))
    return links.text(parameter)
