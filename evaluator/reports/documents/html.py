"""A document as one HTML file that loads nothing: styles and pictures stand in it, light and dark."""

import re
from collections.abc import Mapping, Sequence
from html import escape

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

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MARKED = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")
_ID = re.compile(r'(\bid="|url\(#|href="#)')

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1f2430; --muted: #5d6472; --grid: #e6e8ec;
  --soft: #f5f6f8 }
@media (prefers-color-scheme: dark) { :root { --paper: #14171d; --ink: #e6e8ee; --muted: #9ba3b2;
  --grid: #2d333f; --soft: #1c2028 } }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 Liberation Sans, Arial, Helvetica, sans-serif }
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem }
h1 { font-size: 1.8rem; line-height: 1.25; margin: 0 0 1rem }
h2 { font-size: 1.25rem; margin: 2.75rem 0 .75rem; padding-top: 1.1rem; border-top: 1px solid var(--grid) }
p, ul { margin: .75rem 0 } li { margin: .3rem 0 }
.table, figure { overflow-x: auto; margin: 1.1rem 0 }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums }
caption { text-align: left; font-weight: 600; padding-bottom: .35rem }
th, td { padding: .35rem .8rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--grid) }
th { color: var(--muted); font-weight: 600 }
.word { text-align: left }
th:first-child, td:first-child { padding-left: 0 }
figure svg { max-width: 100%; height: auto; display: block }
.dark { display: none }
@media (prefers-color-scheme: dark) { .light { display: none } .dark { display: block } }
code, pre { font: .86em/1.5 ui-monospace, Menlo, Consolas, monospace; background: var(--soft) }
code { padding: .1em .35em; border-radius: 4px }
pre { padding: .9rem 1rem; border-radius: 6px; overflow-x: auto }
@media print { .light { display: block } .dark { display: none } pre { white-space: pre-wrap } }
"""
"""Its colours and font are those of `ui.charts.theme`, whose pictures stand in it (tested)."""


def render_html(
    document: Document, light: Mapping[str, str] | None = None, dark: Mapping[str, str] | None = None
) -> str:
    """Return the document as a page of its own.

    Args:
        light: the SVG of each picture by its name; without it a picture's words stand in its place.
        dark: the same for a dark screen.
    """
    parts = [f"<h1>{escape(document.title)}</h1>"] if document.title else []
    parts += [_block(block, light or {}, dark or {}) for block in document.blocks]
    if document.notes:
        parts.append(_items(document.notes))
    lines = (
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(document.title or 'tagrpo')}</title>",
        f"<style>{STYLE}</style></head>",
        "<body><main>",
        *parts,
        "</main></body></html>",
    )
    return "\n".join(lines) + "\n"


def _block(block: Block, light: Mapping[str, str], dark: Mapping[str, str]) -> str:
    match block:
        case Heading(text):
            return f"<h2>{escape(text)}</h2>"
        case Text(text):
            return f"<p>{_inline(text)}</p>"
        case Points(texts):
            return _items(texts)
        case Commands(lines):
            return f"<pre>{escape(chr(10).join(lines))}</pre>"
        case Picture(name, alt, _):
            drawn = "".join(
                f'<div class="{mode}">{_own_ids(svgs[name], f"{name}-{mode}-")}</div>'
                for mode, svgs in (("light", light), ("dark", dark))
                if name in svgs
            )
            return f'<figure role="img" aria-label="{escape(alt)}">{drawn or escape(alt)}</figure>'
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    caption = f"<caption>{escape(table.title)}</caption>\n" if table.title else ""
    body = "\n".join(_row(row, table.words, "td") for row in table.rows)
    return (
        f'<div class="table"><table>\n{caption}<thead>{_row(table.columns, table.words, "th")}</thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _row(cells: Sequence[str], words: int, tag: str) -> str:
    made = [
        f"<{tag}{' class=word' if place < words else ''}>{escape(cell).replace(chr(10), '<br>')}</{tag}>"
        for place, cell in enumerate(cells)
    ]
    return f"<tr>{''.join(made)}</tr>"


def _items(texts: Sequence[str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{_inline(text)}</li>" for text in texts) + "\n</ul>"


def _inline(text: str) -> str:
    def marked(part: re.Match[str]) -> str:
        return f"<code>{part[1]}</code>" if part[1] is not None else f"<strong>{part[2]}</strong>"

    return _MARKED.sub(marked, escape(text))


def _own_ids(svg: str, prefix: str) -> str:
    """Return a picture whose ids differ from those of all others on the page."""
    return _ID.sub(rf"\g<1>{prefix}", svg)
