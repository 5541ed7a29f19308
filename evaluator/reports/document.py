"""The parts of a report, and its numbers as text; `ui.rendering` writes it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

ABSENT = "-"


@dataclass(frozen=True)
class Heading:
    """What the blocks below it are about."""

    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph; `code` and **strong** parts are marked as in Markdown."""

    text: str


@dataclass(frozen=True)
class Points:
    """A list of short sentences, marked as `Text`."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Cells as they are shown; the commands also print tables of plain values."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]  # a cell may have a second line after a line break
    title: str = ""
    words: int = 1  # columns at the left that hold words; the others hold numbers
    breaks: tuple[int, ...] = ()  # rows before which a line is drawn


@dataclass(frozen=True)
class Picture:
    """A chart."""

    name: str  # of its file, without a suffix
    alt: str  # what it shows, in words
    spec: Mapping[str, Any]  # the finished Vega-Lite specification


@dataclass(frozen=True)
class Commands:
    """Lines for a shell."""

    lines: tuple[str, ...]


Block: TypeAlias = Heading | Text | Points | Table | Picture | Commands


@dataclass(frozen=True)
class Document:
    """Blocks in order, then notes, one sentence or more each, in which `code` is marked."""

    blocks: Sequence[Block]
    notes: tuple[str, ...] = ()
    title: str = ""


def table_of(
    rows: Iterable[Any],
    columns: Sequence[tuple[Any, ...]],
    *,
    title: str = "",
    words: int = 1,
    breaks: Sequence[int] = (),
) -> Table:
    """Return a table with a line for each row, whole numbers with thousands apart, "-" for None.

    Args:
        columns: heading, what of a row appears below it (a key, or a function of the row), and optionally
            the function that writes this value.
        words, breaks: see `Table`.
    """

    def cell(row: Any, source: str | Callable[[Any], Any], write: Callable[[Any], str] | None = None) -> str:
        value = source(row) if callable(source) else row[source]
        if value is None:
            return ABSENT
        return write(value) if write else f"{value:,}" if isinstance(value, int) else value

    cells = tuple(tuple(cell(row, *column) for _, *column in columns) for row in rows)
    return Table(tuple(heading for heading, *_ in columns), cells, title, words, tuple(breaks))


def percent(share: float | None) -> str:
    """Return a share as `12.3%`."""
    return ABSENT if share is None else f"{100 * share:.1f}%"


def hundredths(share: float, digits: int = 2) -> str:
    """Return a share in percent without the sign, for where a heading names the unit: `62.70`."""
    return f"{100 * share:.{digits}f}"


def points(difference: float, digits: int = 1) -> str:
    """Return a difference of shares in percentage points, with its sign: `+3.1`."""
    return f"{100 * difference:+.{digits}f}"


def span(
    low: float | None, high: float | None, end: Callable[[float], str] = lambda share: hundredths(share, 1)
) -> str:
    """Return an interval, `[1.2, 3.4]`; by default of shares in percent.

    Args:
        end: writes an end of it.
    """
    return ABSENT if low is None or high is None else f"[{end(low)}, {end(high)}]"


def number(value: float | None) -> str:
    """Return a number with one decimal, thousands apart."""
    return ABSENT if value is None else f"{value:,.1f}"


def joined(words: Sequence[str]) -> str:
    """Return words as `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
