"""A report as one HTML file that loads nothing: styles and pictures stand in it, light and dark."""

import re
from collections.abc import Mapping
from html import escape

from ui.charts.theme import DARK_PAPER, FONT, GRID, INK, MUTED, PALETTE, PAPER
from ui.demo_report.document import Block, Commands, Page, Picture, Points, Table, Text

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_MARKED = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")
_ID = re.compile(r'(\bid="|url\(#|href="#)')

_STYLE = f"""
:root {{ color-scheme: light dark; --paper: {PAPER}; --ink: {INK}; --muted: {MUTED}; --grid: {GRID};
  --soft: #f5f6f8; --accent: {PALETTE[0]} }}
@media (prefers-color-scheme: dark) {{ :root {{ --paper: {DARK_PAPER}; --ink: #e6e8ee; --muted: #9ba3b2;
  --grid: #2d333f; --soft: #1c2028; --accent: #4aa8e0 }} }}
body {{ margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 {FONT} }}
main {{ max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem }}
h1 {{ font-size: 1.8rem; line-height: 1.25; margin: 0 0 1rem }}
h2 {{ font-size: 1.25rem; margin: 2.75rem 0 .75rem; padding-top: 1.1rem; border-top: 1px solid var(--grid) }}
p, ul {{ margin: .75rem 0 }} li {{ margin: .3rem 0 }}
.table, figure {{ overflow-x: auto; margin: 1.1rem 0 }}
table {{ border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums }}
th, td {{ padding: .35rem .8rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--grid) }}
th {{ color: var(--muted); font-weight: 600 }}
th:first-child, td:first-child {{ text-align: left; padding-left: 0 }}
figure svg {{ max-width: 100%; height: auto; display: block }}
.dark {{ display: none }}
@media (prefers-color-scheme: dark) {{ .light {{ display: none }} .dark {{ display: block }} }}
code, pre {{ font: .86em/1.5 ui-monospace, Menlo, Consolas, monospace; background: var(--soft) }}
code {{ padding: .1em .35em; border-radius: 4px }}
pre {{ padding: .9rem 1rem; border-radius: 6px; overflow-x: auto }}
@media print {{ .light {{ display: block }} .dark {{ display: none }} pre {{ white-space: pre-wrap }} }}
"""


def render_html(page: Page, light: Mapping[str, str], dark: Mapping[str, str]) -> str:
    """Return the page; `light` and `dark` hold the SVG of each picture by its name."""

    def block(one: Block) -> str:
        match one:
            case Text(text):
                return f"<p>{_inline(text)}</p>"
            case Points(texts):
                return "<ul>\n" + "\n".join(f"<li>{_inline(text)}</li>" for text in texts) + "\n</ul>"
            case Commands(lines):
                return f"<pre>{escape(chr(10).join(lines))}</pre>"
            case Picture(name, alt, _):
                shown = "".join(
                    f'<div class="{mode}">{_own_ids(svgs[name], f"{name}-{mode}-")}</div>'
                    for mode, svgs in (("light", light), ("dark", dark))
                )
                return f'<figure role="img" aria-label="{escape(alt)}">{shown}</figure>'
            case Table(columns, rows):
                head = "".join(f"<th>{_inline(cell)}</th>" for cell in columns)
                body = "\n".join(
                    "<tr>" + "".join(f"<td>{_inline(cell)}</td>" for cell in row) + "</tr>" for row in rows
                )
                return (
                    f'<div class="table"><table>\n<thead><tr>{head}</tr></thead>\n'
                    f"<tbody>\n{body}\n</tbody></table></div>"
                )

    parts = [f"<h1>{escape(page.title)}</h1>", *map(block, page.intro)]
    for section in page.sections:
        parts += [f"<h2>{escape(section.title)}</h2>", *map(block, section.blocks)]
    lines = (
        "<!DOCTYPE html>",
        '<html lang="en">',
        '<head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(page.title)}</title>",
        f"<style>{_STYLE}</style></head>",
        "<body><main>",
        *parts,
        "</main></body></html>",
    )
    return "\n".join(lines) + "\n"


def _inline(text: str) -> str:
    def marked(found: re.Match[str]) -> str:
        return f"<code>{found[1]}</code>" if found[1] is not None else f"<strong>{found[2]}</strong>"

    return _MARKED.sub(marked, escape(text))


def _own_ids(svg: str, prefix: str) -> str:
    """Return a picture whose ids differ from those of all others on the page."""
    return _ID.sub(rf"\g<1>{prefix}", svg)
