"""Contents of the database: the numbers at the top, and neighbors by verdict."""

from collections import Counter

import streamlit as st
from sqlalchemy.orm import Session

from rephraser.reviews.status import standing_counts
from rephraser.sets.store import list_sets
from service.questions.browsing import count_labels
from service.questions.browsing import list_sets as list_question_sets
from service.runs.progress import count_runs, spent_in_all
from ui.charts.stacked_bars import VERDICT_COLOURS, stacked_bars
from ui.pages.state.database import cached, fetch
from ui.pages.widgets import layout
from ui.pages.widgets.beginnings import no_neighbors
from ui.pages.widgets.charts import cached_chart, show_chart
from ui.pages.widgets.tables import Column, page_table


@cached
def _verdicts(session: Session) -> Counter[tuple[str, str]]:
    """Return the number of candidates by strategy and verdict."""
    counts: Counter[tuple[str, str]] = Counter()
    for standing in standing_counts(session):
        counts[standing.strategy, standing.status] += standing.candidates
    return counts


def _questions() -> int:
    return sum(label.questions for label in fetch(count_labels))


def is_empty() -> bool:
    """Say whether the database has neither questions nor runs."""
    return not _questions() and not fetch(count_runs)


def show_numbers() -> None:
    """Show the row of numbers."""
    verdicts, by_kind = _verdicts(), fetch(count_runs)
    accepted = sum(count for (_, status), count in verdicts.items() if status == "accepted")
    runs = ", ".join(f"{count:,} {kind}" for kind, count in sorted(by_kind.items()))
    usd, unpriced = fetch(spent_in_all)
    layout.numbers(
        [
            layout.Number(
                "questions", f"{_questions():,}", hint=f"In {_plural(len(fetch(list_question_sets)), 'set')}."
            ),
            layout.Number(
                "accepted neighbors",
                f"{accepted:,}",
                f"of {verdicts.total():,}",
                "Candidates accepted by the verdict or a reviewer.",
            ),
            layout.Number("neighbor sets", f"{len(fetch(list_sets)):,}", hint="Published versions."),
            layout.Number("runs", f"{sum(by_kind.values()):,}", hint=f"{runs}." if runs else None),
            layout.Number(
                "spent, at least" if unpriced else "spent",
                f"{usd:,.2f}",
                "USD",
                f"Excludes {_plural(unpriced, 'request')} without a known price."
                if unpriced
                else "Computed from model prices; local models are free.",
            ),
        ]
    )


def show_holdings() -> None:
    """Show neighbors by verdict, and the sets."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        verdicts = sorted(_verdicts().items())
        if verdicts:
            rows = [{"name": name, "part": status, "count": count} for (name, status), count in verdicts]
            chart = cached_chart(
                stacked_bars,
                rows,
                title="Candidates by strategy and verdict",
                colours=VERDICT_COLOURS,
                unit="candidates",
            )
            show_chart(chart, "neighbors-by-verdict", "holdings-verdicts", rows=rows)
        else:
            no_neighbors("No neighbors yet.")
    with right:
        _sets()


def _sets() -> None:
    rows = [
        {"set": stored.name, "kind": "questions", "questions": members, "neighbors": None}
        for stored, members, _ in fetch(list_question_sets)
    ]
    rows += [
        {"set": header.ref, "kind": "neighbor set"}
        | {name: header.counts[name] for name in ("questions", "neighbors")}
        for header in reversed(fetch(list_sets)[-20:])
    ]
    if rows:
        page_table(
            rows,
            [
                Column("set", "set"),
                Column("kind", "kind"),
                Column("questions", "questions", "whole"),
                Column("neighbors", "neighbors", "whole"),
            ],
            "holdings-sets",
            name="sets",
        )


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
