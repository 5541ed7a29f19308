"""The report as small multiples whose points link to their problems, and as a table."""

from typing import Any

import streamlit as st

from ui.charts.eval_curves import MEANINGS, POINT
from ui.pages.curves.choosing import POINT_PARAMETERS, Choice
from ui.pages.curves.data import PageReport, load_document
from ui.pages.state import links
from ui.pages.text.markup import escaped, with_commands
from ui.pages.widgets import layout
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
    layout.hand_over()
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
    point = picked(st.session_state.get(key))
    if point is None:
        return
    label, k = point
    against = links.text("against")
    values: dict[str, Any] = {"of": label, "point": benchmark, "k": k}
    if against == label:
        values["against"] = None
    links.set_query(**values, **dict.fromkeys(POINT_PARAMETERS))
    st.toast(escaped(f"{label} on {benchmark} at k = {k}: its problems are listed below the charts."))


def picked(state: Any) -> tuple[str, int] | None:
    """Return label and k of the point selected in a chart's state, or None."""
    try:
        point = state["selection"][POINT][0]
        return str(point["label"]), int(point["k"])
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def show_report(choice: Choice, report: PageReport) -> None:
    """Show the report at a chosen k as a document, and a download of its values at full precision."""
    if report.document is None:
        return
    document, rows = report.document, report.records
    if choice.metric != "maj@k" and (k := _chosen_k(report)) != report.k:
        document, rows = load_document(choice.references, choice.metric, choice.interval, k)
    show_document(document, "report")
    download("report", list(rows), key="report-csv", label="CSV, full precision")


def _chosen_k(report: PageReport) -> int:
    curves: dict[tuple[str, str], set[int]] = {}
    for row in report.curves:
        curves.setdefault((row["label"], row["benchmark"]), set()).add(row["k"])
    ks = sorted(set.intersection(*curves.values()))
    k: int = choose(st.selectbox, "k", "k", ks, report.k, width=90, resets=POINT_PARAMETERS)
    note_absent("k", ks, "table at k =", f"k = {k}")
    return k


def show_sources(report: PageReport) -> None:
    """Show where the answers for the scores were found, with explanations."""
    if report.sources is None:
        return
    with st.expander(escaped(report.sources.title[:1].upper() + report.sources.title[1:])):
        show_table(report.sources, "sources")
    for note in report.sources_notes:
        st.caption(with_commands(note))  # safe
