"""A report's document on a page."""

import streamlit as st

from evaluator.reports.document import Commands, Document, Heading, Points, Table, Text
from evaluator.reports.published import printed_list
from ui.pages.text.markup import escaped, with_commands
from ui.pages.widgets import layout
from ui.pages.widgets.tables import Column, page_table


def show_document(document: Document, key: str) -> None:
    """Show the blocks of a document and its notes; `key` distinguishes its tables."""
    if document.title:
        layout.section(document.title)
    for place, block in enumerate(document.blocks):
        match block:
            case Heading(text):
                layout.section(text)
            case Text(text):
                st.markdown(with_commands(text))  # safe
            case Points(texts):
                _points(texts)
            case Commands(lines):
                st.code("\n".join(lines), language="bash")
            case Table():
                if block.title:
                    st.markdown(f"**{escaped(block.title)}**")
                show_table(block, f"{key}-{place}")
    _points(document.notes)


def show_printed(name: str) -> None:
    """Show published figures that are not scores, collapsed, with their source."""
    key = f"printed-{name.replace(' ', '-')}"
    expander = st.expander("Published figures", key=key, on_change="rerun")
    if expander.open:
        with expander:
            show_document(printed_list(name), key)


def show_table(table: Table, key: str) -> None:
    """Show a table without its title; the second line of a cell follows the first."""
    rows = [{str(place): cell.replace("\n", " ") for place, cell in enumerate(row)} for row in table.rows]
    columns = [
        Column(str(place), heading, "text" if place < table.words else "figure")
        for place, heading in enumerate(table.columns)
    ]
    page_table(rows, columns, key)


def _points(texts: tuple[str, ...]) -> None:
    if texts:
        st.markdown("\n".join(f"- {with_commands(text)}" for text in texts))  # safe
