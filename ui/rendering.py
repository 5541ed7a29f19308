"""Documents in Markdown and in LaTeX, rows as CSV, numbers for JSON."""

import csv
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evaluator.reports.document import Block, Commands, Document, Heading, Picture, Points, Table, Text

_LATEX = {sign: rf"\{sign}" for sign in "{}#$%&_"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}
_MARKDOWN = re.compile(r"([\\`*_<>|])")
_FORMULA_STARTS = frozenset("=+-@\t\r\n|＝＋－＠")
_MARKED = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")


def render_markdown(document: Document, *, pictures: str = "pictures") -> str:
    """Return the document in Markdown with pipe tables; markup in its texts is escaped.

    Args:
        pictures: the folder of its SVG files, relative to it.
    """
    parts = [f"# {_escape_markdown(document.title)}"] if document.title else []
    parts += [_markdown_block(block, pictures) for block in document.blocks]
    if document.notes:
        parts.append(_markdown_block(Points(document.notes), pictures))
    return "\n\n".join(parts) + "\n"


def _markdown_block(block: Block, pictures: str) -> str:
    match block:
        case Heading(text):
            return f"## {_escape_markdown(text)}"
        case Text(text):
            return _marked(text, _escape_markdown, "`{}`".format, "**{}**")
        case Points(texts):
            return "\n".join(f"- {_markdown_block(Text(text), pictures)}" for text in texts)
        case Commands(lines):
            return "\n".join(("```bash", *lines, "```"))
        case Picture(name, alt, _):
            return f"![{alt}]({pictures}/{name}.svg)"
        case Table(columns, rows, title, words, _):
            drawn = [
                f"| {' | '.join(_escape_markdown(cell).replace(chr(10), '<br>') for cell in row)} |"
                for row in (columns, *rows)
            ]
            marks = ("---" if place < words else "---:" for place in range(len(columns)))
            drawn.insert(1, f"| {' | '.join(marks)} |")
            return (f"**{_escape_markdown(title)}**\n\n" if title else "") + "\n".join(drawn)


def _escape_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def render_latex(document: Document) -> str:
    """Return the tables and notes of a report as LaTeX, for a page that loads booktabs and has T1 fonts."""
    parts = ["% needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}\n"]
    parts += [_latex_table(table) + "\n" for table in document.blocks if isinstance(table, Table)]
    if document.notes:
        items = (rf"\item {_latex_note(note)}" for note in document.notes)
        parts.append("\n".join((r"\begin{itemize}", r"\footnotesize", *items, r"\end{itemize}", "")))
    return "\n".join(parts)


def _latex_note(text: str) -> str:
    return _marked(text, escape_latex, lambda code: rf"\texttt{{{escape_latex(code)}}}", r"\textbf{{{}}}")


def _latex_table(table: Table) -> str:
    rows = [
        " & ".join(_latex_cell(cell, "l" if place < table.words else "r") for place, cell in enumerate(row))
        + r" \\"
        for row in (table.columns, *table.rows)
    ]
    for place in sorted({0, *table.breaks}, reverse=True):
        if place < len(table.rows):
            rows.insert(place + 1, r"\midrule")
    sides = "l" * table.words + "r" * (len(table.columns) - table.words)
    lines = [r"\begin{table}", r"\centering"]
    if table.title:
        lines.append(rf"\caption{{{escape_latex(table.title)}}}")
    lines += [rf"\begin{{tabular}}{{{sides}}}", r"\toprule", *rows, r"\bottomrule", r"\end{tabular}"]
    return "\n".join((*lines, r"\end{table}"))


def _latex_cell(cell: str, side: str) -> str:
    first, *rest = (escape_latex(line) for line in cell.split("\n"))
    if not rest:
        # A bracket that opens a row would be read as an argument of the line break before it.
        return f"{{{first}}}" if first.startswith(("[", "*")) else first
    below = r"\\".join(rf"{{\scriptsize {line}}}" for line in rest)
    return rf"\shortstack[{side}]{{{first}\\{below}}}"


def escape_latex(text: str) -> str:
    """Return text that LaTeX sets as it is."""
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _marked(text: str, escape: Callable[[str], str], code: Callable[[str], str], strong: str) -> str:
    """Escape a text; code and strong parts take the given forms."""
    made, end = [], 0
    for part in _MARKED.finditer(text):
        made += [
            escape(text[end : part.start()]),
            code(part[1]) if part[1] else strong.format(escape(part[2])),
        ]
        end = part.end()
    return "".join((*made, escape(text[end:])))


RENDERERS: dict[str, Callable[[Document], str]] = {
    "markdown": render_markdown,
    "latex": render_latex,
}
"""Formats of a document, next to text for a terminal (`ui.cli.output`)."""


def render_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Return rows as CSV that no spreadsheet takes for formulas; by default with the columns of the first.

    Numbers appear at full precision, None as an empty field; see `guarded`.
    """
    names = list(columns or (rows[0] if rows else ()))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if names:
        writer.writerow([guarded(name) for name in names])
    writer.writerows([guarded(row.get(name)) for name in names] for row in rows)
    return text.getvalue()


def guarded(value: Any) -> Any:
    """Return a cell that a spreadsheet shows and never computes.

    A text that begins like a formula gets a leading apostrophe; numbers, also those written as text, stay.
    Carriage returns become line ends: `csv` does not quote a text for them, and they would begin a row.
    """
    if isinstance(value, str):
        value = value.replace("\r\n", "\n").replace("\r", "\n")
    if not isinstance(value, str) or value.lstrip(" ")[:1] not in _FORMULA_STARTS or not value:
        return value
    try:
        float(value)
    except ValueError:
        return "'" + value
    return value


def finite(value: Any) -> Any:
    """Return the value with infinite numbers, which JSON has not, as the texts "Infinity" and "-Infinity"."""
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
