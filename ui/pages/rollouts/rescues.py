"""Whom neighbors rescued: the dead questions of a training that samples in stages, and what revived them."""

import streamlit as st

from trainer_adapter.record import rescues
from trainer_adapter.record.reading import Record
from trainer_adapter.record.rescues import OUTCOMES, RescuedQuestion, RescueTotals
from ui.pages.rollouts.asked import texts_of
from ui.pages.state import links
from ui.pages.state.records import recorded
from ui.pages.text.markup import escaped
from ui.pages.widgets import layout
from ui.pages.widgets.pager import pager
from ui.pages.widgets.tables import Column, page_table

PAGE = 10


@recorded
def totals(record: Record) -> RescueTotals | None:
    """Return what the stages of a training did; None for one that draws the same for every question."""
    spec = record.run.spec
    return rescues.rescue_totals(record.counts(), spec) if rescues.samples_in_stages(spec) else None


@recorded
def listed(record: Record, outcome: str | None, after: str | None) -> list[RescuedQuestion]:
    """Return a page of dead questions and the first of the next."""
    counts, spec = record.counts(), record.run.spec
    return rescues.page_rescues(counts, spec, outcome=outcome, after=after, limit=PAGE + 1)


def show(run_id: str, name: str) -> None:
    """Show whom neighbors rescued; nothing for a training that rescues nobody."""
    stages = totals(run_id)
    if stages is None:
        return
    layout.section(
        "Rescued questions",
        "Dead: no response to the question itself was right, so its neighbors were asked. Rescued: one of "
        "theirs was.",
    )
    _numbers(stages)
    outcome = st.pills(
        "Questions that were",
        list(OUTCOMES),
        format_func=escaped,
        **links.bind("outcome", lambda: links.choice("outcome", OUTCOMES, "") or None, resets=["following"]),
    )
    page = listed(run_id, outcome, links.text("following") or None)
    if not page:
        layout.empty_state("No question is like that.", "Choose the others, or start the list again.")
        return
    questions = page[:PAGE]
    texts = texts_of(tuple(question.question_id for question in questions))

    def opened(place: int) -> None:
        links.set_query(q=questions[place].question_id, at=questions[place].last_step)

    page_table(
        [
            {
                "question": texts.get(question.question_id) or question.question_id,
                "outcome": question.outcome,
                "visits": question.visits,
                "dead": question.dead,
                "revived": question.revived,
                "neighbors": question.in_words(),
                "question_id": question.question_id,
            }
            for question in questions
        ],
        [
            Column("question", "question", wide=True),
            Column("outcome", "outcome"),
            Column("visits", "steps", "whole", "at which it was drawn"),
            Column("dead", "dead", "whole", "steps at which its neighbors were asked"),
            Column("revived", "revived", "whole", "steps at which a neighbor's response was right"),
            Column("neighbors", "right of neighbors' responses"),
        ],
        "rescues",
        name=f"tagrpo-rescued-{name}",
        on_choose=opened,
        leads_away=True,
    )
    following = questions[-1].question_id if len(page) > PAGE else None
    pager(
        {"following": following} if following else None,
        {"following": None} if links.text("following") else None,
        words=f"{len(questions)} questions, most often dead first; a click on a row shows its last dead step",
        name="rescues-pager",
    )


def _numbers(stages: RescueTotals) -> None:
    items = [
        layout.Number("dead", _percent(stages.dead_share), hint="of all groups"),
        layout.Number(
            "revived", _percent(stages.revived_share), hint="of the dead whose neighbors were asked"
        ),
        layout.Number("first responses", f"{stages.first:,}", hint="to every question"),
        layout.Number("more to questions", f"{stages.more:,}", hint="the second stage of the others"),
        layout.Number("to neighbors", f"{stages.to_neighbors:,}", hint="the second stage of the dead"),
    ]
    if stages.weight is not None:
        items += [
            layout.Number("weight", f"{stages.weight:.3f}", hint="mean of a neighbor's wrong response"),
            layout.Number("effective", _percent(stages.effective), hint="share of these, by their weights"),
        ]
    layout.numbers(items)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
