"""Tables on pages: one page of rows at a time, aligned numbers, CSV safe for spreadsheets."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from evaluator.reports.records import guarded
from ui.characters import one_line
from ui.pages.state import links
from ui.pages.text.markup import escaped
from ui.pages.widgets.table_view import Heading, Look, show_table

Kind = Literal["text", "figure", "whole", "number", "fixed", "p", "share", "points", "usd", "yes"]

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
) -> None:
    """Show one page of rows.

    Args:
        rows: at most some hundred; texts are shown literally (one line, cut at 400 characters).
        columns: those shown, in order.
        key: unique on the page.
        name: of the CSV file to download, without its ending; None for no download.
        chosen: index of the marked row.
        on_choose: called with the index of the clicked row before the page is drawn again.
        leads_away: whether a click opens another view.
    """
    head = [Heading(cell(column.heading), _look(column.kind), column.hint, column.wide) for column in columns]
    decimals = [
        _decimals([row.get(column.key) for row in rows]) if column.kind == "number" else None
        for column in columns
    ]
    cells = [
        [
            cell(row.get(column.key), column.kind, places)
            for column, places in zip(columns, decimals, strict=True)
        ]
        for row in rows
    ]
    show_table(head, cells, key, chosen=chosen, on_choose=on_choose, leads_away=leads_away)
    if name:
        download(name, rows, [column.key for column in columns], key=f"{key}-csv")


def pick_row(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    key: str,
    *,
    parameter: str,
    value: str,
    name: str | None = None,
) -> str:
    """Show one page of rows with one selectable row; return the selected value, "" for none.

    The choice is in the address. Clicking the chosen row again clears it.

    Args:
        key: unique on the page.
        parameter: of the address, for the choice.
        value: key of the row value that is stored there.
        name: of the CSV file, None for no download.
    """
    picked = links.text(parameter)
    values = [str(row[value]) for row in rows]
    chosen = values.index(picked) if picked in values else None

    def choose(place: int) -> None:
        links.set_query(**{parameter: None if place == chosen else values[place]})

    page_table(rows, columns, key, name=name, chosen=chosen, on_choose=choose)
    return picked


def _look(kind: Kind) -> Look:
    if kind in _FORMATS or kind == "figure":
        return "number"
    return "yes" if kind == "yes" else "text"


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
    """Return a value as a cell shows it: one line of text, empty for a missing value.

    Args:
        decimals: of a `number`; without it, four digits in total.
    """
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
    """Offer rows as a CSV file, written on demand."""
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
