"""Documents as text for a terminal."""

import re
from collections.abc import Iterator

from evaluator.reports.documents import document as documents
from ui.cli.output import Heading, Part, Table

_STRONG = re.compile(r"\*\*([^*]+)\*\*")


def document_parts(document: documents.Document) -> Iterator[Part]:
    """Yield the parts of a document, an empty line before each heading and titled table but the first."""
    if document.title:
        yield Heading(document.title)
    for place, block in enumerate(document.blocks):
        title = block.text if isinstance(block, documents.Heading) else getattr(block, "title", "")
        if title:
            yield from ("", Heading(title)) if place or document.title else (Heading(title),)
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
                yield Table(block.columns, block.rows, words=block.words)
    if document.notes:
        yield from ("" if document.blocks else None, *(f"- {note}" for note in document.notes))
