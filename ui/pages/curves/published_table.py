"""The table of the TA-GRPO paper with these runs in it, what the numbers stand on, and what must be said."""

import streamlit as st

from evaluator.reports.document import Sheet
from ui.pages.curves.data import Reported
from ui.pages.text.markup import escaped, with_commands
from ui.pages.widgets.tables import Column, download, page_table


def show_table(report: Reported) -> None:
    """Show all sheets of the report with its notes."""
    if report.document is None:
        return
    for place, sheet in enumerate(report.document.sheets):
        st.markdown(f"**{escaped(sheet.title[:1].upper() + sheet.title[1:] if place else sheet.title)}**")
        page_table(rows_of(sheet), columns_of(sheet), f"sheet-{place}")
    download("report", list(report.records), key="report-csv", label="CSV, full precision")
    if report.document.notes:
        st.markdown("\n".join(f"- {with_commands(note)}" for note in report.document.notes))  # safe


def show_sources(report: Reported) -> None:
    """Show where the answers behind the scores were found, with what has to be said of it."""
    if report.sources is None:
        return
    with st.expander(escaped(report.sources.title[:1].upper() + report.sources.title[1:])):
        page_table(rows_of(report.sources), columns_of(report.sources), "sources")
    for note in report.sources_notes:
        st.caption(with_commands(note))  # safe


def columns_of(sheet: Sheet) -> list[Column]:
    """Return the columns of a sheet."""
    return [
        Column(str(place), heading, "text" if place < sheet.words else "figure")
        for place, heading in enumerate(sheet.columns)
    ]


def rows_of(sheet: Sheet) -> list[dict[str, str]]:
    """Return the rows of a sheet; a second line of a cell stands behind the first."""
    return [{str(place): cell.replace("\n", " ") for place, cell in enumerate(row)} for row in sheet.rows]
