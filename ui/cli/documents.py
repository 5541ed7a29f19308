"""Documents as text for a terminal."""

import io
import re
from collections.abc import Iterator

from rich.box import Box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text as RichText

from evaluator.reports.documents.document import (
    Block,
    Commands,
    Document,
    Heading,
    Picture,
    Points,
    Table,
    Text,
)

_RULE = "\ue000"
"""A character that no text contains: rules are shorter than the columns that rich draws."""
_RULES = Box("    \n    \n _  \n    \n _  \n    \n    \n    \n".replace("_", _RULE))
_UNFOLDED = 10_000
_STRONG = re.compile(r"\*\*([^*]+)\*\*")


def text_parts(document: Document, *, width: int | None = None) -> Iterator[tuple[str, bool]]:
    """Yield the document for a terminal with aligned columns: its parts, and whether each is a title.

    Args:
        width: fold the cells of wider tables to it.
    """
    if document.title:
        yield document.title, True
    for place, block in enumerate(document.blocks):
        heading = isinstance(block, Heading)
        if (place or document.title) and (heading or (isinstance(block, Table) and block.title)):
            yield "", False
        yield _text_block(block, width), heading
    if document.notes:
        if document.blocks:
            yield "", False
        yield "\n".join(f"- {note}" for note in document.notes), False


def _text_block(block: Block, width: int | None) -> str:
    match block:
        case Heading(text):
            return text
        case Text(text):
            return _STRONG.sub(r"\1", text)
        case Points(texts):
            return "\n".join("- " + _STRONG.sub(r"\1", text) for text in texts)
        case Commands(lines):
            return "\n".join(f"  {line}" for line in lines)
        case Picture(name, alt, _):
            return f"[{name}: {alt}]"
        case Table():
            return _text_table(block, width)


def _text_table(table: Table, width: int | None) -> str:
    drawn = RichTable(box=_RULES, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for place, column in enumerate(table.columns):
        drawn.add_column(
            RichText(column), justify="left" if place < table.words else "right", overflow="fold"
        )
    for place, row in enumerate(table.rows, 1):
        drawn.add_row(*map(RichText, row), end_section=place in table.breaks)
    file = io.StringIO()
    Console(file=file, width=width or _UNFOLDED, color_system=None).print(drawn)
    drawn_text = file.getvalue().replace(f"{_RULE} ", "  ").replace(_RULE, "-")
    return "\n".join(filter(None, (table.title, *(line.rstrip() for line in drawn_text.splitlines()))))
