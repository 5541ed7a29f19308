"""Records and documents as text: the values of `--json`, under the same names, in lines and tables."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluator.reports.documents import document as documents
from ui.characters import one_line
from ui.cli.output import BoldLine, Part, PrintedTable

ITEMS_SHOWN = 20
WIDEST_TABLE = 180
LONGEST_MAPPING = 120
LONGEST_CELL = 50
_ID = re.compile("[a-z]+_[0-9a-f]{24}|[0-9a-f]{64}")
_NAME = re.compile(r"[\w.@:/-]{1,130}", re.ASCII)  # which other commands take
_ID_SHOWN = 12  # long enough for `show`
_STRONG = re.compile(r"\*\*([^*]+)\*\*")
EMPTY: tuple[object, ...] = (None, "", [], {})


def record_parts(record: Mapping[str, Any], title: str = "") -> Iterator[Part]:
    """Yield the values that fit on a line, then tables and sections; empty values are left out."""
    named = {str(key).replace("_", " "): value for key, value in record.items() if value not in EMPTY}
    lines = {name: line for name, value in named.items() if (line := one_line_value(value)) is not None}
    if title and lines:
        yield from ("", BoldLine(title))
    width = max(map(len, lines), default=0)
    for name, line in lines.items():
        yield f"{name:{width}}  {line}"
    for name in [name for name in named if name not in lines]:
        value, section = named[name], f"{title} {name}".strip()
        if isinstance(value, str):
            yield from ("", BoldLine(section), value)
        elif isinstance(value, Mapping):
            yield from record_parts(value, section)
        else:
            yield from _list_parts(value, section)


def list_table(rows: Sequence[Mapping[str, Any]], columns: str) -> PrintedTable:
    """Return a table with these columns of the rows, as `Terminal.rows` has them; long texts are cut."""
    paths = {heading: name or heading for heading, _, name in (c.partition("=") for c in columns.split())}
    cells = [[_short(_value(row, path)) for path in paths.values()] for row in rows]
    return PrintedTable([heading.replace("_", " ") for heading in paths], cells)


def _value(row: Any, path: str) -> Any:
    for name in path.split("."):
        row = (row or {}).get(name)
    return row


def _short(value: Any) -> object:
    if not isinstance(value, str):
        return value
    if not value:
        return None
    if _ID.fullmatch(value):
        return value[:_ID_SHOWN]
    return value if _NAME.fullmatch(value) else one_line(value, LONGEST_CELL)


def document_parts(document: documents.Document) -> Iterator[Part]:
    """Yield the parts of a document, an empty line before each heading and titled table but the first."""
    if document.title:
        yield BoldLine(document.title)
    for place, block in enumerate(document.blocks):
        title = block.text if isinstance(block, documents.Heading) else getattr(block, "title", "")
        if title:
            yield from ("", BoldLine(title)) if place or document.title else (BoldLine(title),)
        match block:
            case documents.Text(text):
                yield _STRONG.sub(r"\1", text)
            case documents.Points(texts):
                yield from ("- " + _STRONG.sub(r"\1", text) for text in texts)
            case documents.Commands(lines):
                yield from (f"  {line}" for line in lines)
            case documents.Picture(name, alt, _):
                yield f"[{name}: {alt}]"
            case documents.Table():
                yield PrintedTable(block.columns, block.rows, words=block.words)
    if document.notes:
        yield from ("" if document.blocks else None, *(f"- {note}" for note in document.notes))


def _list_parts(values: Sequence[Any], title: str) -> Iterator[Part]:
    first = values[:ITEMS_SHOWN]
    if (table := _table(first)) is not None:
        yield from ("", BoldLine(title), table)
    else:
        for number, value in enumerate(first, start=1):
            section = f"{title} {number}" if len(values) > 1 else title
            yield from record_parts(value if isinstance(value, Mapping) else {"": value}, section)
    if len(values) > ITEMS_SHOWN:
        yield f"and {len(values) - ITEMS_SHOWN:,} more (--json)"


def _table(rows: Sequence[Any]) -> PrintedTable | None:
    """Return records as a table; None if a cell needs several lines or the table is too wide."""
    if not all(isinstance(row, Mapping) for row in rows):
        return None
    names = dict.fromkeys(name for row in rows for name, value in row.items() if value not in EMPTY)
    lines = [[one_line_value(row.get(name)) for name in names] for row in rows]
    if any(line is None for row in lines for line in row):
        return None
    widths = [max(len(str(cell)) for cell in column) + 2 for column in zip(names, *lines, strict=True)]
    if sum(widths) > WIDEST_TABLE:
        return None
    cells = [[*map(row.get, names)] for row in rows]
    return PrintedTable([name.replace("_", " ") for name in names], cells)


def one_line_value(value: Any) -> str | None:
    """Return a value on one line; None if it needs more."""
    if value in EMPTY:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1_000 else f"{value:.4g}"
    if isinstance(value, str):
        return None if "\n" in value else value
    if isinstance(value, Mapping):
        value = {key: each for key, each in value.items() if each not in EMPTY}
        if not value:
            return "-"
    items = list(value.values()) if isinstance(value, Mapping) else value[:ITEMS_SHOWN]
    texts = [None if isinstance(each, Mapping | list) else one_line_value(each) for each in items]
    if None in texts:
        return None
    if isinstance(value, Mapping):
        line = ", ".join(f"{key}={text}" for key, text in zip(value, texts, strict=True))
        return line if len(line) <= LONGEST_MAPPING else None
    if len(items) == 2 and all(isinstance(each, float) for each in items):
        return " to ".join(map(str, texts))
    more = [f"and {len(value) - ITEMS_SHOWN:,} more (--json)"] if len(value) > ITEMS_SHOWN else []
    return ", ".join([*map(str, texts), *more])
