"""Documents and rows as text: for a terminal, Markdown, LaTeX, CSV and JSON. Pure."""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from evaluator.reports.document import Document, Sheet

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "#": r"\#",
    "$": r"\$",
    "%": r"\%",
    "&": r"\&",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}
_MARKDOWN = re.compile(r"([\\`*_<>|])")
_COMMAND = re.compile(r"(`[^`]+`)")


def render_text(document: Document) -> str:
    """Return the document for a terminal, columns aligned by blanks."""
    parts = [_text_sheet(sheet) for sheet in document.sheets]
    if document.notes:
        parts.append("\n".join(f"- {note}" for note in document.notes) + "\n")
    return "\n".join(parts)


def render_markdown(document: Document) -> str:
    """Return the document in Markdown with pipe tables; what could be read as markup is escaped."""
    parts = []
    for sheet in document.sheets:
        rows = [_markdown_row(sheet.columns), _markdown_rule(sheet)]
        rows += [_markdown_row(row) for row in sheet.rows]
        parts.append(f"**{_escape_markdown(sheet.title)}**\n\n" + "\n".join(rows) + "\n")
    if document.notes:
        notes = [_with_commands(note, _escape_markdown, "`{}`") for note in document.notes]
        parts.append("\n".join(f"- {note}" for note in notes) + "\n")
    return "\n".join(parts)


def render_latex(document: Document) -> str:
    """Return the document as LaTeX tables for a page that loads booktabs and has T1 fonts; notes follow."""
    parts = ["% needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}\n"]
    for sheet in document.sheets:
        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escape_latex(sheet.title)}}}",
            rf"\begin{{tabular}}{{{'l' * sheet.words}{'r' * (len(sheet.columns) - sheet.words)}}}",
            r"\toprule",
            _latex_row(sheet.columns, sheet.words),
            r"\midrule",
        ]
        for number, row in enumerate(sheet.rows):
            if number and number in sheet.breaks:
                lines.append(r"\midrule")
            lines.append(_latex_row(row, sheet.words))
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
        parts.append("\n".join(lines) + "\n")
    if document.notes:
        notes = [_with_commands(note, escape_latex, r"\texttt{{{}}}") for note in document.notes]
        items = "\n".join(rf"\item {note}" for note in notes)
        parts.append(f"\\begin{{itemize}}\n\\footnotesize\n{items}\n\\end{{itemize}}\n")
    return "\n".join(parts)


def render_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of one set of keys as CSV; numbers at full precision, None as an empty field."""
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def render_json(value: Mapping[str, Any]) -> str:
    """Return a value as JSON, see `finite`."""
    return json.dumps(finite(value), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def finite(value: Any) -> Any:
    """Return the value with infinite numbers, which JSON has not, as the texts "Infinity" and "-Infinity"."""
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


RENDERERS: dict[str, Callable[[Document], str]] = {
    "table": render_text,
    "markdown": render_markdown,
    "latex": render_latex,
}
"""The formats of a document; `csv` and `json` are formats of its rows."""

FORMATS = (*RENDERERS, "csv", "json")


def escape_latex(text: str) -> str:
    """Return text that LaTeX sets as it is."""
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _text_sheet(sheet: Sheet) -> str:
    cells = [[cell.split("\n") for cell in row] for row in (sheet.columns, *sheet.rows)]
    widths = [max(len(line) for row in cells for line in row[place]) for place in range(len(sheet.columns))]
    lines = [sheet.title]
    rule = "  ".join("-" * width for width in widths)
    for number, row in enumerate(cells):
        if number == 1 or (number > 1 and number - 1 in sheet.breaks):
            lines.append(rule)
        for height in range(max(len(cell) for cell in row)):
            parts = [cell[height] if height < len(cell) else "" for cell in row]
            aligned = [
                part.ljust(width) if place < sheet.words else part.rjust(width)
                for place, (part, width) in enumerate(zip(parts, widths, strict=True))
            ]
            lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escape_markdown(cell).replace("\n", "<br>") for cell in cells) + " |"


def _markdown_rule(sheet: Sheet) -> str:
    marks = ["---" if place < sheet.words else "---:" for place in range(len(sheet.columns))]
    return "| " + " | ".join(marks) + " |"


def _escape_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _with_commands(note: str, escape: Callable[[str], str], form: str) -> str:
    """Escape a note; what stands in it between backticks, a command, takes the form of code."""
    parts = _COMMAND.split(note)
    code = [part[1:-1] for part in parts[1::2]]
    shown = [form.format(one if form.startswith("`") else escape(one)) for one in code]
    words = [escape(part) for part in parts[::2]]
    return "".join(word + after for word, after in zip(words, [*shown, ""], strict=True))


def _latex_row(cells: Sequence[str], words: int) -> str:
    made = [_latex_cell(cell, "l" if place < words else "r") for place, cell in enumerate(cells)]
    return " & ".join(made) + r" \\"


def _latex_cell(cell: str, side: str) -> str:
    first, *rest = (escape_latex(line) for line in cell.split("\n"))
    if not rest:
        # A bracket that opens a row would be read as an argument of the line break before it.
        return f"{{{first}}}" if first.startswith(("[", "*")) else first
    below = r"\\".join(rf"{{\scriptsize {line}}}" for line in rest)
    return rf"\shortstack[{side}]{{{first}\\{below}}}"
