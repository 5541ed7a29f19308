"""Paired differences of two methods on the same problems, with intervals and tests."""

import streamlit as st

from evaluator.reports.comparing import comparison_records
from evaluator.reports.comparison_layout import comparison_notes
from evaluator.reports.scores import PASS_AT_K
from ui.charts.intervals import difference_chart
from ui.pages.curves.choosing import Choice
from ui.pages.curves.data import load_comparison
from ui.pages.text.markup import escaped, with_commands
from ui.pages.widgets import layout
from ui.pages.widgets.charts import cached_chart, show_chart
from ui.pages.widgets.choices import choose
from ui.pages.widgets.tables import Column, page_table


def show_differences(choice: Choice) -> None:
    """Show two chosen methods against each other on every benchmark that both have."""
    labels = [label for label in choice.labels if choice.shares(label)]
    if not labels:
        st.caption(
            "These methods have no common benchmark. Choose two methods evaluated on the same benchmark."
        )
        return
    with layout.row():
        first = choose(st.selectbox, "Method", "of", labels, labels[-1], width=200)
        others = choice.shares(first)
        most_shared = max(
            others, key=lambda label: len(choice.benchmarks_of(first) & choice.benchmarks_of(label))
        )
        second = choose(st.selectbox, "against", "against", others, most_shared, width=200)
    comparison, why = load_comparison(choice.references_of(first), choice.references_of(second))
    if comparison is None:
        layout.error_box(f"{first} and {second} cannot be compared.", why)
        return
    rows = comparison_records(comparison)
    st.caption(
        escaped(
            f"pass@k of {first} minus that of {second} on the same problems; above 0, {first} is better. "
            f"Bars: 95% interval for {rows[0]['interval']}."
            + ("" if choice.metric == PASS_AT_K else f" Differences are for pass@k, not for {choice.metric}.")
        )
    )
    reach = max(abs(row[key]) for row in rows for key in ("low", "high"))
    columns = st.columns(2 if len(comparison.parts) > 1 else 1, gap="medium")
    palette = dict(choice.palette)
    for place, part in enumerate(comparison.parts):
        mine = [row for row in rows if row["benchmark"] == part.benchmark]
        with columns[place % len(columns)]:
            show_chart(
                cached_chart(
                    difference_chart,
                    mine,
                    title=part.benchmark,
                    subtitle=f"{len(part.comparison.problem_ids):,} problems",
                    reach=reach,
                    colour=palette[first],
                ),
                f"difference-{part.benchmark}",
                f"difference-{part.benchmark}",
                rows=mine,
            )
    page_table(rows, _columns(first, second), "differences", name="differences")
    st.caption(
        "p: sign-flip test on per-problem differences. p (Holm): adjusted over the benchmarks at the same "
        "k. Better and worse count problems."
    )
    for note in comparison_notes(comparison):
        st.caption(with_commands(note))  # safe


def _columns(first: str, second: str) -> list[Column]:
    return [
        Column("benchmark", "benchmark"),
        Column("k", "k", "whole"),
        Column("value_a", f"{first}: pass@k, %", "share"),
        Column("value_b", f"{second}: pass@k, %", "share"),
        Column("difference", "difference, points", "points", hint="Percentage points."),
        Column("low", "95% interval from, points", "points"),
        Column("high", "to, points", "points"),
        Column("p_value", "p", "p"),
        Column("p_holm", "p (Holm)", "p"),
        Column("wins", "better", "whole"),
        Column("losses", "worse", "whole"),
        Column("ties", "same", "whole"),
    ]
