"""These runs in a table with a paper's printed figures, what the numbers stand on, and what must be said."""

import streamlit as st

from ui.pages.curves.choosing import OF_A_POINT, Choice
from ui.pages.curves.data import Reported, reported
from ui.pages.text.markup import escaped, with_commands
from ui.pages.widgets.choices import choose
from ui.pages.widgets.documents import show_document, show_table
from ui.pages.widgets.tables import download


def show_report(choice: Choice, report: Reported) -> None:
    """Show the report at a k that is chosen as a document, and a link to its values at full precision."""
    at_k = report if choice.metric == "maj@k" else _at_k(choice, report)
    if at_k.document is None:
        return
    show_document(at_k.document, "report")
    download("report", list(at_k.records), key="report-csv", label="CSV, full precision")


def _at_k(choice: Choice, report: Reported) -> Reported:
    curves: dict[tuple[str, str], set[int]] = {}
    for row in report.curves:
        curves.setdefault((row["label"], row["benchmark"]), set()).add(row["k"])
    ks = sorted(set.intersection(*curves.values()))
    k = choose(st.selectbox, "k", "k", ks, report.k, width=90, resets=OF_A_POINT)
    return (
        report
        if k == report.k
        else reported(choice.references, choice.metric, choice.interval, choice.palette, k)
    )


def show_sources(report: Reported) -> None:
    """Show where the answers behind the scores were found, with what has to be said of it."""
    if report.sources is None:
        return
    with st.expander(escaped(report.sources.title[:1].upper() + report.sources.title[1:])):
        show_table(report.sources, "sources")
    for note in report.sources_notes:
        st.caption(with_commands(note))  # safe
