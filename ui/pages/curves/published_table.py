"""The table of the TA-GRPO paper with these runs in it, what the numbers stand on, and what must be said."""

import streamlit as st

from ui.pages.curves.data import Reported
from ui.pages.text.markup import escaped, with_commands
from ui.pages.widgets.documents import show_document, show_table
from ui.pages.widgets.tables import download


def show_report(report: Reported) -> None:
    """Show the report as a document, and a link to its values at full precision."""
    if report.document is None:
        return
    show_document(report.document, "report")
    download("report", list(report.records), key="report-csv", label="CSV, full precision")


def show_sources(report: Reported) -> None:
    """Show where the answers behind the scores were found, with what has to be said of it."""
    if report.sources is None:
        return
    with st.expander(escaped(report.sources.title[:1].upper() + report.sources.title[1:])):
        show_table(report.sources, "sources")
    for note in report.sources_notes:
        st.caption(with_commands(note))  # safe
