"""Tables on pages: a page of rows at a time, numbers aligned, CSV that no spreadsheet computes."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from ui.pages.kit import links
from ui.pages.kit.characters import visible
from ui.pages.kit.text import escaped

PAGE_ROWS = 50

Kind = Literal["text", "whole", "number", "fixed", "share", "points", "usd", "seconds", "time", "yes"]

_FORMATS = {
    "whole": "%,d",
    "number": "%.4g",
    "fixed": "%.3f",
    "share": "%.1f%%",
    "points": "%+.1f",
    "usd": "%,.4f",
    "seconds": "%,.1f s",
}
_FORMULA_STARTS = frozenset("=+-@\t\r\n|＝＋－＠")
_CELL_MAX = 400
_SEEN_WHOLE = 26


@dataclass(frozen=True)
class Column:
    """A column: the key of its values in the rows, its heading (with its unit), what kind of values it has.

    A share is given from 0 to 1 and shown in percent; a difference of shares, `points`, in percentage points.
    `points` and `usd` need a heading that names the unit.
    """

    key: str
    heading: str
    kind: Kind = "text"
    hint: str | None = None
    width: Literal["small", "medium", "large"] | None = None


@dataclass(frozen=True)
class Place:
    """Where in an ordered list a page of rows begins: behind a key, or before one; both None at the start."""

    after: str | None = None
    before: str | None = None


def place(name: str = "") -> Place:
    """Return the place that the address names; `name` tells two lists of one page apart."""
    after, before = links.text(f"{name}after"), links.text(f"{name}before")
    return Place(after or None, (before or None) if not after else None)


def pager(
    first: str | None, last: str | None, *, earlier: bool, later: bool, words: str, name: str = ""
) -> None:
    """Show Previous and Next, with a few words between them ("50 of about 10,000").

    Args:
        first: key of the first row shown; Previous shows the page before it.
        last: key of the last row shown; Next shows the page after it.
        earlier: whether there are rows before `first`.
        later: whether there are rows after `last`.
        words: what is shown, as plain text.
        name: as given to `place`.
    """
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "Previous",
            icon=":material/chevron_left:",
            key=f"{name}pager-previous",
            disabled=not earlier or first is None,
            on_click=lambda: links.put(**{f"{name}before": first, f"{name}after": None}),
        )
        st.button(
            "Next",
            icon=":material/chevron_right:",
            icon_position="right",
            key=f"{name}pager-next",
            disabled=not later or last is None,
            on_click=lambda: links.put(**{f"{name}after": last, f"{name}before": None}),
        )
        if words:
            st.caption(escaped(words))


def page_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    key: str,
    *,
    name: str | None = None,
    select: bool = False,
    on_select: Callable[[int | None], None] | None = None,
) -> int | None:
    """Show one page of rows; return the place of the row that was clicked, where `select` allows it.

    Args:
        rows: at most some hundred; texts are shown as they are (one line, cut at 400 characters).
        columns: those shown, in order.
        key: unique on the page.
        name: of the CSV file to download, without its ending; None for no download.
        select: let one row be chosen.
        on_select: called with the place of the row that was clicked before the page is drawn again: a click
            that leads to another view need not draw this one once more.
    """

    def clicked() -> None:
        if on_select is not None:
            on_select(_first(st.session_state[key]["selection"]["rows"]))

    if len({column.heading for column in columns}) < len(columns):
        raise ValueError(f"two columns of {key} have one heading: {[column.heading for column in columns]}")
    data = {column.heading: [_shown(row.get(column.key), column.kind) for row in rows] for column in columns}
    config = {column.heading: _configured(column) for column in columns}
    # A page of rows is seen whole: a table that scrolls within a page that scrolls is a trap for the wheel.
    height: int | Literal["content"] = "content" if len(rows) <= _SEEN_WHOLE else 35 * (_SEEN_WHOLE + 1) + 2
    chosen = None
    if select:
        event = st.dataframe(
            data,
            key=key,
            hide_index=True,
            column_config=config,
            height=height,
            placeholder="",
            on_select=clicked if on_select is not None else "rerun",
            selection_mode="single-row",
        )
        chosen = _first(event["selection"]["rows"])
    else:
        st.dataframe(data, key=key, hide_index=True, column_config=config, height=height, placeholder="")
    if name:
        download(name, rows, [column.key for column in columns], key=f"{key}-csv")
    return chosen


def _first(picked: Sequence[int]) -> int | None:
    return int(picked[0]) if picked else None


def _shown(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if kind in ("share", "points"):
        return float(value) * 100
    if kind == "yes":
        return bool(value)
    if kind == "fixed":
        return round(float(value), 3) + 0.0  # no minus before a 0
    if kind in _FORMATS:
        return value
    line = " ".join(visible(str(value)[: _CELL_MAX * 4]).split())
    return line if len(line) <= _CELL_MAX else line[:_CELL_MAX] + "…"


def _configured(column: Column) -> Any:
    if column.kind == "yes":
        return st.column_config.CheckboxColumn(column.heading, help=column.hint, width=column.width)
    if column.kind in _FORMATS:
        return st.column_config.NumberColumn(
            column.heading, help=column.hint, width=column.width, format=_FORMATS[column.kind]
        )
    return st.column_config.TextColumn(column.heading, help=column.hint, width=column.width)


def download(
    name: str,
    rows: Sequence[Mapping[str, Any]] | Any,
    columns: Sequence[str] | None = None,
    *,
    key: str,
    label: str = "CSV",
) -> None:
    """Offer rows (mappings, or a DataFrame) as a CSV file; it is written when it is asked for."""
    st.download_button(
        escaped(label),
        lambda: csv_bytes(rows, columns),
        file_name=f"{name}.csv",
        mime="text/csv",
        key=key,
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
    )


def csv_bytes(rows: Sequence[Mapping[str, Any]] | Any, columns: Sequence[str] | None = None) -> bytes:
    """Return rows as CSV in UTF-8 that no spreadsheet takes for formulas.

    Texts that begin like a formula get a leading apostrophe; numbers, also those written as text, stay.
    """
    if not isinstance(rows, Sequence):
        columns = columns or [str(column) for column in rows.columns]
        rows = rows.to_dict("records")
    names = list(columns or (rows[0].keys() if rows else ()))
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([guarded(name) for name in names])
    for row in rows:
        writer.writerow([guarded(row.get(name)) for name in names])
    return out.getvalue().encode("utf-8", "replace")


def guarded(value: Any) -> Any:
    """Return a cell that a spreadsheet shows and never computes."""
    if not isinstance(value, str) or value.lstrip(" ")[:1] not in _FORMULA_STARTS or not value:
        return value
    try:
        float(value)
    except ValueError:
        return "'" + value
    return value
