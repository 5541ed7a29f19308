"""The parts of a report and their numbers as text; documents in Markdown and in LaTeX, rows as CSV."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

ABSENT = "-"
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
    """Cells as they are shown."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # a cell may have a second line after a line break
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

    @property
    def tables(self) -> list[Table]:
        return [block for block in self.blocks if isinstance(block, Table)]

    @property
    def pictures(self) -> list[Picture]:
        return [block for block in self.blocks if isinstance(block, Picture)]


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
    parts += [_latex_table(table) + "\n" for table in document.tables]
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


def render_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of one set of keys as CSV that no spreadsheet takes for formulas.

    Numbers stand at full precision, None as an empty field; see `guarded`.
    """
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([guarded(name) for name in rows[0]])
    writer.writerows([guarded(value) for value in row.values()] for row in rows)
    return text.getvalue()


def guarded(value: Any) -> Any:
    """Return a cell that a spreadsheet shows and never computes.

    A text that begins like a formula gets a leading apostrophe; numbers, also those written as text, stay.
    """
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
