"""A report as Markdown, its pictures beside it."""

from collections.abc import Sequence

from ui.demo_report.document import Block, Commands, Page, Picture, Points, Table, Text


def render_markdown(page: Page, pictures: str) -> str:
    """Return the page; `pictures` is the folder of its SVG files, relative to it."""
    parts = [f"# {page.title}", *(_block(block, pictures) for block in page.intro)]
    for section in page.sections:
        parts += [f"## {section.title}", *(_block(block, pictures) for block in section.blocks)]
    return "\n\n".join(parts) + "\n"


def _block(block: Block, pictures: str) -> str:
    match block:
        case Text(text):
            return text
        case Points(texts):
            return "\n".join(f"- {text}" for text in texts)
        case Commands(lines):
            return "\n".join(("```bash", *lines, "```"))
        case Picture(name, alt, _):
            return f"![{alt}]({pictures}/{name}.svg)"
        case Table(columns, rows):
            ends = ["---", *("---:" for _ in columns[1:])]
            return "\n".join(_row(cells) for cells in (columns, ends, *rows))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
