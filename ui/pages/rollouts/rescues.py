"""Rescued questions: all-wrong questions of a training run, and the neighbors that rescued them."""

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
        "If all first responses to a question are wrong, training samples its neighbors. The question is "
        "rescued if a neighbor gets a correct response.",
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
        layout.empty_state("No question matches.", "Choose another outcome, or start the list again.")
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
            Column("visits", "steps", "whole", "steps that sampled the question"),
            Column("dead", "all wrong", "whole", "steps that sampled its neighbors"),
            Column("revived", "rescued", "whole", "steps at which a neighbor got a correct response"),
            Column("neighbors", "correct responses to neighbors"),
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
        words=f"{len(questions)} questions, most often all wrong first. Click a row for its last such step",
        name="rescues-pager",
    )


def _numbers(stages: RescueTotals) -> None:
    items = [
        layout.Number("all wrong", _percent(stages.dead_share), hint="of all groups"),
        layout.Number("rescued", _percent(stages.revived_share), hint="of groups with sampled neighbors"),
        layout.Number("first stage", f"{stages.first:,}", hint="to every question"),
        layout.Number("more to questions", f"{stages.more:,}", hint="second stage of groups not all wrong"),
        layout.Number("to neighbors", f"{stages.to_neighbors:,}", hint="second stage of all-wrong groups"),
    ]
    if stages.weight is not None:
        items += [
            layout.Number("weight", f"{stages.weight:.3f}", hint="mean of wrong responses to neighbors"),
            layout.Number("effective", _percent(stages.effective), hint="effective share of these responses"),
        ]
    layout.numbers(items)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
