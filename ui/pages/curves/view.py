"""The page "Curves"."""

import streamlit as st

from ui.pages.curves import choosing, reports
from ui.pages.curves.point_problems import show_point_problems
from ui.pages.curves.responses import show_samples
from ui.pages.state import settings
from ui.pages.state.database import show_page
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose, note_absent

VIEWS = {
    "curves": "Curves",
    "samples": "Responses",
    "differences": "Differences",
    "table": "Table",
    "cost": "Cost",
}


def body() -> None:
    evaluated = choosing.read_methods()
    drawn = choosing.sampled_runs(evaluated)
    if not drawn:
        layout.empty_state(
            "No evaluations yet.",
            "Sample and grade responses to a benchmark, or open the demo's results:",
            commands=(settings.command("eval run aime24 --n 32 --model MODEL"), "tagrpo ui --demo"),
        )
    elif not any(method.runs for method in evaluated):
        st.caption("No evaluation is completely graded, so there are no curves yet. You can read responses.")
        choosing.show_ungraded(evaluated)
        show_samples(drawn, next(reversed(drawn)))
    else:
        choice = choosing.choose_methods(evaluated)
        if choice is None:
            choosing.show_ungraded(evaluated)
            st.caption("Choose at least one method.")
            return
        view = choose(st.segmented_control, "View", "view", list(VIEWS), words=VIEWS.__getitem__)
        if view == "samples":
            show_samples(drawn, choice.labels[-1])
            return
        for name in ("of", "against"):
            note_absent(name, choice.labels, "method", "one of the methods above")
        if view == "differences":
            reports.show_differences(choice)
            return
        with layout.or_stop("These runs cannot be reported together."):
            report = reports.read_report(choice)
        if view == "table":
            reports.show_report(choice, report)
        elif view == "cost":
            reports.show_cost(choice, report)
        else:
            reports.show_panels(choice, report)
            reports.show_sources(report)
            show_point_problems(choice, report.k)


show_page("Curves", "pass@k of evaluated models, and which problems they solve.", body)
