"""Contents of the database: the numbers at the top, and neighbors by verdict."""

from dataclasses import dataclass

import streamlit as st
from sqlalchemy.orm import Session

from rephraser.reviews.status import PENDING, STATUSES, standing_counts
from rephraser.sets.store import list_sets
from service.questions.browsing import count_labels
from service.questions.browsing import list_sets as list_question_sets
from service.runs.progress import count_runs, spent_in_all
from ui.charts.stacked_bars import VERDICT_COLOURS, stacked_bars
from ui.pages.state.database import cached
from ui.pages.widgets import layout
from ui.pages.widgets.beginnings import no_neighbors
from ui.pages.widgets.charts import cached_chart, show_chart
from ui.pages.widgets.tables import Column, page_table


@dataclass(frozen=True)
class Holdings:
    """Counts of a database.

    `verdicts` are (strategy, status, candidates); `question_sets` (name, questions, held back);
    `neighbor_sets` (name and version, questions, neighbors, published at), newest last.
    """

    questions: int
    verdicts: tuple[tuple[str, str, int], ...]
    question_sets: tuple[tuple[str, int, int], ...]
    neighbor_sets: tuple[tuple[str, int, int, str], ...]
    runs: dict[str, int]
    usd: float
    unpriced: int

    def candidates(self, *statuses: str) -> int:
        """Return the number of candidates with one of these verdicts; without any, of all."""
        return sum(count for _, status, count in self.verdicts if not statuses or status in statuses)


@cached
def read_holdings(session: Session) -> Holdings:
    """Read the stored counts, which takes milliseconds."""
    by: dict[tuple[str, str], int] = {}
    for standing in standing_counts(session):
        key = standing.strategy, standing.status
        by[key] = by.get(key, 0) + standing.candidates
    usd, unpriced = spent_in_all(session)
    return Holdings(
        questions=sum(label.questions for label in count_labels(session)),
        verdicts=tuple((strategy, status, count) for (strategy, status), count in sorted(by.items())),
        question_sets=tuple(
            (stored.name, members, held) for stored, members, held in list_question_sets(session)
        ),
        neighbor_sets=tuple(
            (header.ref, header.counts["questions"], header.counts["neighbors"], header.created_at)
            for header in list_sets(session)
        ),
        runs=count_runs(session),
        usd=usd,
        unpriced=unpriced,
    )


def show_numbers(holdings: Holdings) -> None:
    """Show the row of numbers."""
    candidates, accepted = holdings.candidates(), holdings.candidates("accepted")
    runs = ", ".join(f"{count:,} {kind}" for kind, count in sorted(holdings.runs.items()))
    layout.numbers(
        [
            layout.Number(
                "questions",
                f"{holdings.questions:,}",
                hint=f"In {_plural(len(holdings.question_sets), 'set')}.",
            ),
            layout.Number(
                "accepted neighbors",
                f"{accepted:,}",
                f"of {candidates:,}",
                "Accepted by answers or by a reviewer, of all proposed candidates.",
            ),
            layout.Number("neighbor sets", f"{len(holdings.neighbor_sets):,}", hint="Published versions."),
            layout.Number("runs", f"{sum(holdings.runs.values()):,}", hint=f"{runs}." if runs else None),
            layout.Number(
                "spent, at least" if holdings.unpriced else "spent",
                f"{holdings.usd:,.2f}",
                "USD",
                f"Excludes {_plural(holdings.unpriced, 'request')} without a known price."
                if holdings.unpriced
                else "At the prices of the models; local models count as free.",
            ),
        ]
    )


def show_holdings(holdings: Holdings) -> None:
    """Show neighbors by verdict, and the sets."""
    layout.hand_over()
    left, right = st.columns([3, 2], gap="large")
    with left:
        if holdings.verdicts:
            rows = [
                {"name": strategy, "part": status, "count": count}
                for strategy, status, count in holdings.verdicts
            ]
            chart = cached_chart(
                stacked_bars,
                rows,
                title="Candidates by strategy and verdict",
                colours=colours_of(holdings),
                unit="candidates",
            )
            show_chart(chart, "neighbors-by-verdict", "holdings-verdicts", rows=rows)
        else:
            no_neighbors("No neighbors yet.")
    with right:
        _sets(holdings)


def colours_of(holdings: Holdings) -> dict[str, str]:
    """Return the colours of the verdicts present, in order; candidates may still be pending."""
    there = {status for _, status, _ in holdings.verdicts}
    return {name: VERDICT_COLOURS[name] for name in (*STATUSES, PENDING) if name in there}


def _sets(holdings: Holdings) -> None:
    rows = [
        {"set": name, "kind": "questions", "questions": members, "neighbors": None}
        for name, members, _ in holdings.question_sets
    ]
    rows += [
        {"set": ref, "kind": "neighbor set", "questions": questions, "neighbors": neighbors}
        for ref, questions, neighbors, _ in reversed(holdings.neighbor_sets[-20:])
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
