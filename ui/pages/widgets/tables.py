"""Tables on pages: one page of rows at a time, aligned numbers, CSV safe for spreadsheets.

A table is HTML of text nodes, with selectable rows and sortable columns. Streamlit's own grid is drawn on a
canvas. It takes half a megabyte of script, waits 150 ms after a click, and its content can be neither
searched nor read by a screen reader.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from ui.characters import one_line
from ui.pages.state import links
from ui.pages.text.markup import escaped
from ui.rendering import render_csv

Kind = Literal["text", "code", "figure", "whole", "number", "fixed", "p", "share", "points", "usd", "yes"]

_FORMATS = {
    "whole": ",.0f",
    "number": ".4g",
    "fixed": ".3f",
    "p": ".4f",
    "share": ".1f",
    "points": "+.1f",
    "usd": ",.4f",
}
_CELL_MAX = 400
_FILES = Path(__file__).with_name("table")
_LEAST, _LEAST_P = 1e-3, 1e-4
"""Smallest number, and smallest p-value, shown with four decimals."""


@dataclass(frozen=True)
class Column:
    """A column: the key of its values in the rows, its heading (with its unit), and its kind.

    A share is given from 0 to 1 and shown in percent; a difference of shares, `points`, in percentage points.
    `points` and `usd` need a heading that names the unit. A `number` has as many decimals as its column
    needs, a `p` is a probability; a `figure` is a number given as text. A `wide` column takes the remaining
    width.
    """

    key: str
    heading: str
    kind: Kind = "text"
    hint: str = ""
    wide: bool = False


def page_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    key: str,
    *,
    name: str | None = None,
    chosen: int | None = None,
    on_choose: Callable[[int], None] | None = None,
    toggles: bool = False,
    framed: bool = True,
    height: int = 54,
    words: str = "",
) -> None:
    """Show one page of rows: at most some hundred, their texts literally and cut at 400 characters.

    `name` is that of a CSV file to download. The row at `chosen` is marked; `on_choose` is called with the
    place of a clicked row before the page is drawn again, and a second click `toggles` it. Above `height` rem
    the table scrolls: 25 rows below headings of two lines take 53.3. `words` appear below the table.
    """
    head: list[tuple[str, str, str, bool]] = []
    columns_cells: list[list[str]] = []
    for column in columns:
        values, kind = [row.get(column.key) for row in rows], column.kind
        decimals = _decimals(values) if kind == "number" else None
        columns_cells.append([cell(value, kind, decimals) for value in values])
        look = "number" if kind in _FORMATS or kind == "figure" else "text"
        look = kind if kind in ("yes", "code") else look
        head.append((cell(column.heading), look, column.hint, column.wide))
    cells = list(zip(*columns_cells, strict=True))
    rows_hash = zlib.crc32(repr(cells).encode("utf-8", "replace"))

    def choose() -> None:
        place, clicked = st.session_state[key]["chosen"] or (-1, None)
        # A click that arrives with another page of rows on its way refers to the old rows.
        if on_choose is not None and clicked == rows_hash and place in range(len(rows)):
            on_choose(place)

    data = {
        "head": head,
        "rows": cells,
        "framed": framed,
        "height": height,
        "words": words,
        "chosen": chosen,
        "choosing": on_choose is not None,
        "toggles": toggles,
        "shown": rows_hash,
    }
    load_component("table", _FILES)(key=key, data=data, on_chosen_change=choose)
    if name:
        download(name, rows, [column.key for column in columns], key=f"{key}-csv")


@cache
def load_component(name: str, files: Path) -> Any:
    """Return a part of pages that runs in the browser: `files` with the endings .html, .css and .js."""
    html, css, js = (files.with_suffix(end).read_text("utf-8") for end in (".html", ".css", ".js"))
    return st.components.v2.component(f"tagrpo_{name}", html=html, css=css, js=js)


def pick_row(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    key: str,
    *,
    parameter: str,
    value: str,
    words: str = "",
    **look: Any,
) -> str:
    """Show one page of rows with one selectable row; return the selected value, "" for none.

    The address stores `value` of the row under `parameter`. `words` are shown until a row is chosen.
    """
    picked = links.text(parameter)
    values = [str(row[value]) for row in rows]
    chosen = values.index(picked) if picked in values else None

    def choose(place: int) -> None:
        links.set_query(**{parameter: None if place == chosen else values[place]})

    words = words if chosen is None else ""
    page_table(rows, columns, key, chosen=chosen, on_choose=choose, toggles=True, words=words, **look)
    return picked


def _decimals(values: Sequence[Any]) -> int | None:
    """Return the decimals, at most four, that show each number with four digits; None if they do not."""
    numbers = [abs(float(value)) for value in values if value is not None and value == value]
    if any(0 < number < _LEAST or number == float("inf") for number in numbers):
        return None
    texts = [format(number, ".4g") for number in numbers]
    return min(max((len(text.partition(".")[2]) for text in texts if "e" not in text), default=0), 4)


def cell(value: Any, kind: Kind = "text", decimals: int | None = None) -> str:
    """Return a value as a cell shows it: one line of text, empty for a missing value."""
    if value is None or value != value:
        return ""
    if kind == "yes":
        return "✓" if value else ""
    if kind not in _FORMATS:
        return one_line(str(value), _CELL_MAX)
    if kind == "p" and 0 <= value < _LEAST_P:
        return f"<{_LEAST_P:.4f}"
    amount = float(value) * 100 if kind in ("share", "points") else value
    text = format(amount, _FORMATS[kind] if decimals is None else f",.{decimals}f")
    if not text.strip("+-0.,"):  # no sign before a 0
        text = text.lstrip("+-")
    sign = "\u2212" if text.startswith("-") else ""
    return sign + text.removeprefix("-") + "%" * (kind == "share")


def download(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] | None = None,
    *,
    key: str,
    label: str = "CSV",
) -> None:
    st.download_button(
        escaped(label),
        lambda: render_csv(rows, columns).encode("utf-8", "replace"),
        file_name=f"{name}.csv",
        mime="text/csv",
        key=key,
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
    )
