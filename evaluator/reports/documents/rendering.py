"""Documents as text: for a terminal, Markdown, LaTeX, and as one HTML file. Pure."""

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence

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
from evaluator.reports.documents.html import render_html

NARROWEST = 8
"""Signs of a column that is folded."""

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
_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")


def render_text(document: Document, *, width: int | None = None) -> str:
    """Return the document for a terminal, columns aligned by blanks.

    Args:
        width: fold the cells of wider tables to it.
    """
    return "".join(f"{part}\n" for part, _ in text_parts(document, width=width))


def text_parts(document: Document, *, width: int | None = None) -> Iterator[tuple[str, bool]]:
    """Yield the parts of `render_text`, each without its last line break, and whether it is a title."""
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


def render_markdown(document: Document, *, pictures: str = "pictures") -> str:
    """Return the document in Markdown with pipe tables; what could be read as markup is escaped.

    Args:
        pictures: the folder of its SVG files, relative to it.
    """
    parts = [f"# {_escape_markdown(document.title)}"] if document.title else []
    parts += [_markdown_block(block, pictures) for block in document.blocks]
    if document.notes:
        parts.append("\n".join(f"- {_markdown_marked(note)}" for note in document.notes))
    return "\n\n".join(parts) + "\n"


def render_latex(document: Document, *, pictures: str = "pictures") -> str:
    """Return the document as LaTeX for a page that loads booktabs and has T1 fonts; notes follow.

    Args:
        pictures: the folder of its pictures, for which the page loads graphicx.
    """
    parts = ["% needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}\n"]
    if document.title:
        parts.append(f"\\section*{{{escape_latex(document.title)}}}\n")
    parts += [_latex_block(block, pictures) + "\n" for block in document.blocks]
    if document.notes:
        parts.append(_latex_items(document.notes, "\\footnotesize\n") + "\n")
    return "\n".join(parts)


RENDERERS: dict[str, Callable[[Document], str]] = {
    "table": render_text,
    "markdown": render_markdown,
    "latex": render_latex,
    "html": render_html,
}
"""The formats of a document; `csv` and `json` are formats of its rows."""


def escape_latex(text: str) -> str:
    """Return text that LaTeX sets as it is."""
    return "".join(_LATEX.get(sign, sign) for sign in text)


def _marked(text: str, escape: Callable[[str], str], code: Callable[[str], str], strong: str) -> str:
    """Escape a text; what is marked in it as code or strong takes that form."""
    made = []
    for place, part in enumerate(_CODE.split(text)):
        if place % 2:
            made.append(code(part))
        else:
            pieces = _STRONG.split(part)
            made += [
                strong.format(escape(piece)) if at % 2 else escape(piece) for at, piece in enumerate(pieces)
            ]
    return "".join(made)


def _text_table(table: Table, width: int | None) -> str:
    cells = [[cell.split("\n") for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(len(line) for row in cells for line in row[place]) for place in range(len(table.columns))]
    if width is not None:
        widths = _narrowed(widths, width)
        cells = [[_folded(cell, widths[place]) for place, cell in enumerate(row)] for row in cells]
    lines = [table.title] if table.title else []
    rule = "  ".join("-" * size for size in widths)
    for place, row in enumerate(cells):
        if place == 1 or (place > 1 and place - 1 in table.breaks):
            lines.append(rule)
        for height in range(max(len(cell) for cell in row)):
            parts = [cell[height] if height < len(cell) else "" for cell in row]
            aligned = [
                part.ljust(size) if column < table.words else part.rjust(size)
                for column, (part, size) in enumerate(zip(parts, widths, strict=True))
            ]
            lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def _narrowed(widths: Sequence[int], width: int) -> list[int]:
    """Take from the widest columns until all fit into `width`, or none can be narrower."""
    made = list(widths)
    while sum(made) + 2 * (len(made) - 1) > width and max(made) > NARROWEST:
        made[made.index(max(made))] -= 1
    return made


def _folded(lines: Sequence[str], width: int) -> list[str]:
    return [part for line in lines for part in (textwrap.wrap(line, width) if len(line) > width else [line])]


def _markdown_block(block: Block, pictures: str) -> str:
    match block:
        case Heading(text):
            return f"## {_escape_markdown(text)}"
        case Text(text):
            return _markdown_marked(text)
        case Points(texts):
            return "\n".join(f"- {_markdown_marked(text)}" for text in texts)
        case Commands(lines):
            return "\n".join(("```bash", *lines, "```"))
        case Picture(name, alt, _):
            return f"![{alt}]({pictures}/{name}.svg)"
        case Table(columns, rows, title, words, _):
            marks = ["---" if place < words else "---:" for place in range(len(columns))]
            table = [_markdown_row(columns), f"| {' | '.join(marks)} |", *map(_markdown_row, rows)]
            return (f"**{_escape_markdown(title)}**\n\n" if title else "") + "\n".join(table)


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escape_markdown(cell).replace("\n", "<br>") for cell in cells) + " |"


def _markdown_marked(text: str) -> str:
    return _marked(text, _escape_markdown, "`{}`".format, "**{}**")


def _escape_markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _latex_block(block: Block, pictures: str) -> str:
    match block:
        case Heading(text):
            return rf"\subsection*{{{escape_latex(text)}}}"
        case Text(text):
            return _latex_marked(text)
        case Points(texts):
            return _latex_items(texts)
        case Commands(lines):
            return "\n".join((r"\begin{verbatim}", *lines, r"\end{verbatim}"))
        case Picture(name, alt, _):
            return "\n".join(
                (
                    r"\begin{figure}",
                    r"\centering",
                    rf"\includegraphics[width=\linewidth]{{{pictures}/{name}}}",
                    rf"\caption{{{escape_latex(alt)}}}",
                    r"\end{figure}",
                )
            )
        case Table():
            return _latex_table(block)


def _latex_table(table: Table) -> str:
    lines = [r"\begin{table}", r"\centering"]
    if table.title:
        lines.append(rf"\caption{{{escape_latex(table.title)}}}")
    lines += [
        rf"\begin{{tabular}}{{{'l' * table.words}{'r' * (len(table.columns) - table.words)}}}",
        r"\toprule",
        _latex_row(table.columns, table.words),
        r"\midrule",
    ]
    for place, row in enumerate(table.rows):
        if place and place in table.breaks:
            lines.append(r"\midrule")
        lines.append(_latex_row(row, table.words))
    return "\n".join((*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}"))


def _latex_items(texts: Sequence[str], size: str = "") -> str:
    items = "\n".join(rf"\item {_latex_marked(text)}" for text in texts)
    return f"\\begin{{itemize}}\n{size}{items}\n\\end{{itemize}}"


def _latex_marked(text: str) -> str:
    return _marked(text, escape_latex, lambda code: rf"\texttt{{{escape_latex(code)}}}", r"\textbf{{{}}}")


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
