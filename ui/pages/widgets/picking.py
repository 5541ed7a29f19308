"""A table in which a click on a row chooses it: what is chosen stands in the address."""

from collections.abc import Mapping, Sequence
from typing import Any

from ui.pages.state import links
from ui.pages.widgets.tables import Column, page_table


def pick_row(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    key: str,
    *,
    parameter: str,
    value: str,
    name: str | None = None,
) -> str:
    """Show one page of rows and return what is chosen, as the address says it ("" for nothing).

    A click on the chosen row takes the choice back.

    Args:
        key: unique on the page.
        parameter: of the address, for what is chosen.
        value: key of the rows whose value is put there.
        name: of the CSV file, None for no download.
    """
    now = links.text(parameter)
    values = [str(row[value]) for row in rows]
    chosen = values.index(now) if now in values else None

    def choose(place: int) -> None:
        links.put(**{parameter: None if place == chosen else values[place]})

    page_table(rows, columns, key, name=name, chosen=chosen, on_choose=choose)
    return now
