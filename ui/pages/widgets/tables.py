"""Tables on pages: one page of rows at a time, aligned numbers, CSV safe for spreadsheets.

A table is HTML of text nodes, with selectable rows and sortable columns. Streamlit's own grid is drawn on a
canvas. It takes half a megabyte of script, waits 150 ms after a click, and its content can be neither
searched nor read by a screen reader.
"""

import csv
import io
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import streamlit as st

from evaluator.reports.documents.rendering import guarded
from ui.characters import one_line
from ui.pages.state import links
from ui.pages.text.markup import escaped

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
    leads_away: bool = False,
    framed: bool = True,
    height: int = 54,
    words: str = "",
) -> None:
    """Show one page of rows: at most some hundred, their texts literally and cut at 400 characters.

    Args:
        name: of the CSV file to download, without its ending; None for no download.
        chosen: index of the marked row.
        on_choose: called with the index of the clicked row before the page is drawn again.
        leads_away: whether a click opens another view.
        framed: draw a frame around the table; False inside another frame.
        height: beyond which the table scrolls, in rem; 25 rows below headings of two lines take 53.3.
        words: below the table, such as what a click does.
    """
    columns_cells = []
    for column in columns:
        values = [row.get(column.key) for row in rows]
        decimals = _decimals(values) if column.kind == "number" else None
        columns_cells.append([cell(value, column.kind, decimals) for value in values])
    cells = list(zip(*columns_cells, strict=True))
    rows_hash = zlib.crc32(repr(cells).encode("utf-8", "replace"))

    def choose() -> None:
        place, clicked = st.session_state[key]["chosen"] or (-1, None)
        # A click that arrives with another page of rows on its way refers to the old rows.
        if on_choose is not None and clicked == rows_hash and place in range(len(rows)):
            on_choose(place)

    data = {
        "head": [(cell(column.heading), _look(column.kind), column.hint, column.wide) for column in columns],
        "rows": cells,
        "framed": framed,
        "height": height,
        "words": words,
        "chosen": chosen,
        "choosing": on_choose is not None,
        "toggles": not leads_away,
        "shown": rows_hash,
    }
    _component()(key=key, data=data, on_chosen_change=choose)
    if name:
        download(name, rows, [column.key for column in columns], key=f"{key}-csv")


@cache
def _component() -> Any:
    here = Path(__file__).resolve().parent
    html, css, js = ((here / f"table.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js"))
    return st.components.v2.component("tagrpo_table", html=html, css=css, js=js)


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

    The address stores `value` of the chosen row under `parameter`. Clicking the row again clears it. `words`
    are shown until a row is chosen.
    """
    picked = links.text(parameter)
    values = [str(row[value]) for row in rows]
    chosen = values.index(picked) if picked in values else None

    def choose(place: int) -> None:
        links.set_query(**{parameter: None if place == chosen else values[place]})

    words = words if chosen is None else ""
    page_table(rows, columns, key, chosen=chosen, on_choose=choose, words=words, **look)
    return picked


def _look(kind: Kind) -> str:
    if kind in _FORMATS or kind == "figure":
        return "number"
    return kind if kind in ("yes", "code") else "text"


def _decimals(values: Sequence[Any]) -> int | None:
    """Return the decimals that show each number of a column with four digits, at most four; None if too few.

    Numbers in a column end at the same decimal, so that they can be compared at a glance.
    """
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
        lambda: csv_bytes(rows, columns),
        file_name=f"{name}.csv",
        mime="text/csv",
        key=key,
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
    )


def csv_bytes(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> bytes:
    """Return rows as UTF-8 CSV that spreadsheets do not take for formulas.

    Texts that start like a formula get a leading apostrophe; numbers stay, also those written as text.
    """
    names = list(columns or (rows[0].keys() if rows else ()))
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([guarded(name) for name in names])
    for row in rows:
        writer.writerow([guarded(row.get(name)) for name in names])
    return out.getvalue().encode("utf-8", "replace")
