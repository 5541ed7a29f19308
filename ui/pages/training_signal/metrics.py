"""Any metric that trainings have logged, as curves."""

from collections.abc import Sequence

import streamlit as st

from ui.pages.text.markup import escaped
from ui.pages.training_signal import lines
from ui.pages.training_signal.lines import Panel
from ui.pages.training_signal.policy import METRICS, choose_logged, method_lines
from ui.pages.training_signal.runs import Run
from ui.pages.widgets.choices import choose_several

MOST = 12
_USUAL = 2


def show(runs: Sequence[Run]) -> None:
    """Show the choice of metrics and a chart for each."""
    chosen, logged = choose_logged(runs)
    if not logged:
        return
    names = sorted({name for of_run in logged.values() for name in of_run})
    known = [metric for metric, *_ in METRICS if metric in names]
    usual = (known or names)[:_USUAL]
    metrics = choose_several(
        st.multiselect,
        "Metrics",
        "metric",
        names,
        usual,
        most=MOST,
        placeholder="Choose among all that was logged",
        pinned=True,
    )
    if not metrics:
        st.caption(escaped(f"{len(names):,} metrics were logged. Choose up to {MOST}."))
        return
    panels = tuple(
        Panel(
            f"metric-{name.replace('/', '-')}",
            name,
            "as logged",
            "linear",
            method_lines(chosen, logged, name),
        )
        for name in metrics
    )
    lines.show_methods(panels, chosen, min(len(panels), 2))
