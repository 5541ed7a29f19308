"""Small multiples: a chart for each benchmark, whose points lead to the problems behind them."""

from typing import Any

import streamlit as st

from ui.charts.eval_curves import MEANINGS, POINT
from ui.pages.curves.choosing import OF_A_POINT, Choice
from ui.pages.curves.data import Reported
from ui.pages.state import links
from ui.pages.text.markup import escaped, with_commands
from ui.pages.widgets import layout
from ui.pages.widgets.charts import show_chart


def show_panels(choice: Choice, report: Reported) -> None:
    """Show the charts; a click on a point writes it into the address."""
    st.caption(escaped(f"{choice.metric}: {_meaning(choice.metric)}. A click on a point shows its problems."))
    for note in report.graded:
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


def _meaning(metric: str) -> str:
    return MEANINGS.get(metric, "share of problems of whose k samples at least half are right")


def _clicked(choice: Choice, key: str, benchmark: str) -> None:
    point = picked(st.session_state.get(key))
    if point is None:
        return
    label, k = point
    against = links.text("against")
    values: dict[str, Any] = {"of": label, "point": benchmark, "k": k}
    if against == label:
        values["against"] = None
    links.put(**values, **dict.fromkeys(OF_A_POINT))
    st.toast(escaped(f"{label} on {benchmark} at k = {k}: its problems stand below the charts."))


def picked(state: Any) -> tuple[str, int] | None:
    """Return label and k of the point that a chart's state holds, None where none is selected."""
    try:
        point = state["selection"][POINT][0]
        return str(point["label"]), int(point["k"])
    except (KeyError, IndexError, TypeError, ValueError):
        return None
