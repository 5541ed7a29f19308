"""What a report or comparison shows, before any format: sheets of cells and notes below them."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sheet:
    """A table. A cell may hold a second line behind a line break.

    `words` columns at the left hold words, the others numbers. `breaks` are the rows before which a line is
    drawn.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    breaks: tuple[int, ...] = field(default=())


@dataclass(frozen=True)
class Document:
    """Sheets in order, then notes, one sentence or more each."""

    sheets: tuple[Sheet, ...]
    notes: tuple[str, ...]


def percent(share: float, digits: int = 2) -> str:
    """Return a share in percent without the sign: 62.70."""
    return f"{100 * share:.{digits}f}"


def signed(share: float, digits: int = 2) -> str:
    """Return a difference of shares in points, with its sign: +3.10."""
    return f"{100 * share:+.{digits}f}"
