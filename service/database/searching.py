"""Searching texts that no index holds: rows are read in order, a part at a time, up to a bound."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Row = TypeVar("Row")
Place = TypeVar("Place")

PART = 500
TEXTS_READ = 20_000
"""Texts that a page of a search reads at most."""


def page_of_rows(
    read: Callable[[Place | None, int], Sequence[Row]],
    place_of: Callable[[Row], Place],
    *,
    after: Place | None,
    limit: int,
    texts_of: Callable[[Sequence[Row]], Sequence[str]] | None = None,
    sought: str = "",
) -> tuple[list[Row], Place | None]:
    """Return up to `limit` rows behind a place, and the place to go on from, None at the end.

    Where a text is sought, whatever the case of its letters, at most `TEXTS_READ` texts are read: the page
    may then be short, even empty, and there is still a place to go on from.

    Args:
        read: returns up to so many rows behind a place, in order.
        texts_of: returns the texts of rows, in which `sought` is looked for; None takes all rows.
    """
    chosen: list[Row] = []
    size = limit + 1 if texts_of is None else PART
    for _ in range(1 if texts_of is None else TEXTS_READ // size):
        rows = read(after, size)
        if texts_of is None:
            chosen += rows
        else:
            texts = zip(rows, texts_of(rows), strict=True)
            chosen += [row for row, text in texts if sought.casefold() in text.casefold()]
        if len(chosen) > limit:
            return chosen[:limit], place_of(chosen[limit - 1])
        if len(rows) < size:
            return chosen, None
        after = place_of(rows[-1])
    return chosen, after
