"""The report as small multiples whose points link to their problems, and as a table."""

from typing import Any

import streamlit as st

from ui.charts.eval_curves import MEANINGS, POINT
from ui.pages.curves.choosing import POINT_PARAMETERS, Choice
from ui.pages.curves.data import PageReport, load_document
from ui.pages.state import links
from ui.pages.text.markup import escaped, with_commands
from ui.pages.widgets.charts import show_chart
from ui.pages.widgets.choices import choose, note_absent
from ui.pages.widgets.documents import show_document, show_table
from ui.pages.widgets.tables import download


def show_panels(choice: Choice, report: PageReport) -> None:
    """Show the charts; a click on a point writes it into the address."""
    meaning = MEANINGS.get(choice.metric, "share of problems with at least half of k samples correct")
    st.caption(escaped(f"{choice.metric}: {meaning}. Click a point to see its problems."))
    for note in report.notes:
        st.caption(with_commands(note))  # safe
    columns = st.columns(2 if len(report.specs) > 1 else 1, gap="medium")
    for place, (benchmark, spec) in enumerate(report.specs):
        key = f"curve-{benchmark}"
        with columns[place % len(columns)]:
            show_chart(
                spec,
                f"{choice.metric.replace('@', '-at-').replace('^', '-all-')}-{benchmark}".replace("/", "-"),
                key,
                on_select=lambda key=key, benchmark=benchmark: _clicked(choice, key, benchmark),  # type: ignore[misc]
                rows=[row for row in report.curves if row["benchmark"] == benchmark],
                alt=f"{choice.metric} over k on {benchmark}: {', '.join(choice.labels)}",
            )


def _clicked(choice: Choice, key: str, benchmark: str) -> None:
    points = st.session_state[key]["selection"].get(POINT) or []
    if not points:
        return
    label, k = str(points[0]["label"]), int(points[0]["k"])
    values: dict[str, Any] = {"of": label, "point": benchmark, "k": k}
    if links.text("against") == label:
        values["against"] = None
    links.set_query(**values, **dict.fromkeys(POINT_PARAMETERS))
    st.toast(escaped(f"{label} on {benchmark} at k = {k}: its problems are listed below the charts."))


def show_report(choice: Choice, report: PageReport) -> None:
    """Show the report at a chosen k as a document, and a download of its values at full precision."""
    if report.document is None:
        return
    document, rows = report.document, report.records
    if choice.metric != "maj@k":
        curves: dict[tuple[str, str], set[int]] = {}
        for row in report.curves:
            curves.setdefault((row["label"], row["benchmark"]), set()).add(row["k"])
        ks = sorted(set.intersection(*curves.values()))
        k = choose(st.selectbox, "k", "k", ks, report.k, width=90, resets=POINT_PARAMETERS)
        note_absent("k", ks, "table at k =", f"k = {k}")
        if k != report.k:
            document, rows = load_document(choice.references, choice.metric, choice.interval, k)
    show_document(document, "report")
    download("report", list(rows), key="report-csv", label="CSV, full precision")


def show_sources(report: PageReport) -> None:
    """Show where the answers for the scores were found, with explanations."""
    if report.sources is None:
        return
    with st.expander(escaped(report.sources.title[:1].upper() + report.sources.title[1:])):
        show_table(report.sources, "sources")
    for note in report.sources_notes:
        st.caption(with_commands(note))  # safe
