"""A run's groups: what each step drew, the groups that match the filters, and rescued questions."""

from collections.abc import Sequence
from typing import Any

import streamlit as st
from sqlalchemy.orm import Session

from rephraser.questions.store import find_question, load_questions
from service.errors import NotFoundError
from service.questions.question import Question
from trainer_adapter.record import rescues
from trainer_adapter.record.groups import KINDS, GroupFilters, RolloutGroup, StepGroups
from trainer_adapter.record.reading import Record
from trainer_adapter.record.rescues import OUTCOMES, RescuedQuestion, RescueTotals
from ui.charts.stacked_bars import group_kinds_chart
from ui.charts.training_steps import window_for
from ui.pages.state import links
from ui.pages.state.database import cached
from ui.pages.state.records import recorded
from ui.pages.text.markup import escaped
from ui.pages.widgets import charts, layout
from ui.pages.widgets.choices import choose_several, choose_step, note_absent
from ui.pages.widgets.pager import pager
from ui.pages.widgets.tables import Column, page_table

_TEXT = 160

PAGE = 25
FLAGS = {"timeouts": "grader timed out", "unknown": "unknown grades", "truncated": "truncated"}
PLACES = ("after", "before")
RECORDED = "tagrpo/record/share"  # a step has it where its record holds some of its questions only

RESCUES_PAGE = 10


@cached
def texts_of(session: Session, question_ids: tuple[str, ...]) -> dict[str, str]:
    return {id: question.text[:_TEXT] for id, question in load_questions(session, question_ids).items()}


@cached
def asked(session: Session, question_id: str) -> Question | None:
    try:
        return find_question(session, question_id)
    except NotFoundError:
        return None


@recorded
def run_steps(record: Record, filters: GroupFilters = GroupFilters()) -> list[StepGroups]:
    return record.counts().page_steps(filters)


@recorded
def least_recorded(record: Record) -> float | None:
    """Return the least share of a step's questions that its record holds; None if it holds all."""
    shares = [metrics[RECORDED] for metrics in record.metrics().values() if RECORDED in metrics]
    return min(shares, default=None)


@recorded
def listed(
    record: Record,
    filters: GroupFilters,
    after: tuple[int, str] | None,
    before: tuple[int, str] | None,
    limit: int = PAGE,
) -> tuple[list[RolloutGroup], bool, bool]:
    """Return a page of groups, and whether some come before and after it."""
    page = record.counts().page_groups(filters, after=after, before=before, limit=limit + 1)
    more = len(page) > limit
    if before is not None:
        return (page[1:] if more else page), more, True
    return page[:limit], after is not None, more


def address_filters(steps: Sequence[StepGroups]) -> GroupFilters:
    step, flags = links.number("step", -1), links.values("with", list(FLAGS))
    return GroupFilters(
        step=step if step in [each.step for each in steps] else None,
        kind=links.choice("kind", KINDS, "") or None,
        timeouts="timeouts" in flags,
        unknown="unknown" in flags,
        truncated="truncated" in flags,
    )


def _show_filters(steps: Sequence[StepGroups]) -> None:
    with layout.row():
        choose_step([step.step for step in steps], PLACES, 130)
        st.pills(
            "Groups that are",
            list(KINDS),
            format_func=escaped,
            **links.bind("kind", lambda: links.choice("kind", KINDS, "") or None, resets=PLACES),
        )
        choose_several(
            st.pills, "with responses", "with", list(FLAGS), words=FLAGS.__getitem__, resets=PLACES
        )
    note_absent("kind", list(KINDS), "group that is", "groups of all kinds")


def show(run_id: str, name: str, steps: list[StepGroups]) -> None:
    window = window_for(len(steps))
    rows = []
    for start in range(0, len(steps), window):
        part = steps[start : start + window]
        for kind in KINDS:
            number = sum(getattr(step, kind.replace(" ", "_")) for step in part)
            rows.append({"step": part[0].step, "last": part[-1].step, "kind": kind, "questions": number})
    filters = address_filters(steps)

    def clicked(bar: charts.Clicked) -> None:
        links.set_query(step=int(bar["step"]) if bar else None, after=None, before=None)

    look: dict[str, Any] = {"title": f"Groups of {name} by step", "window": window, "chosen": filters.step}
    charts.draw_chart(group_kinds_chart, rows, f"tagrpo-groups-{name}", "kinds", on_click=clicked, **look)
    _show_filters(steps)
    chosen = run_steps(run_id, filters)
    if not chosen:
        layout.empty_state("No group matches.", "Choose other filters, or another step.")
        return
    fields = ("responses", "questions", "mixed", "correct", "tokens", "truncated", "timeouts")
    total = {field: sum(getattr(step, field) for step in chosen) for field in fields}
    responses, questions = total["responses"], total["questions"]
    layout.numbers(
        ("groups", f"{questions:,}", "questions, counted once per step"),
        ("mixed", f"{total['mixed'] / questions:.1%}", "with a gradient: correct and wrong responses"),
        ("responses", f"{responses:,}"),
        ("correct", f"{total['correct'] / responses:.1%}"),
        ("length", f"{total['tokens'] / responses:,.0f} tokens"),
        ("truncated", f"{total['truncated'] / responses:.1%}"),
        ("grader timeouts", f"{total['timeouts']:,}"),
    )
    if (share := least_recorded(run_id)) is not None:
        layout.caption(
            f"Some steps recorded only {100 * share:g}% of the questions (run.record_share). Numbers "
            "and groups here cover that share; the metrics under Training signal cover all."
        )
    _groups(run_id, name, filters, questions)
    show_rescues(run_id, name)


def _groups(run_id: str, name: str, filters: GroupFilters, most: int) -> None:
    after = links.place("after")
    before = None if after else links.place("before")
    page, earlier, later = listed(run_id, filters, after, before)
    if not page:
        layout.empty_state("No more groups.", "Choose a filter or a step to start the list again.")
        return
    texts = texts_of(tuple(group.question_id for group in page))
    rows = []
    for group in page:
        own = group.original_correct + group.original_wrong + group.original_unknown
        cells = {
            "question": texts.get(group.question_id) or group.question_id,
            "correct": group.correct / group.responses,
            "original": group.original_correct / own if own else None,
            "tokens": group.tokens / group.responses,
        }
        rows.append({**vars(group), **cells})

    def opened(place: int) -> None:
        links.set_query(q=page[place].question_id, at=page[place].step)

    page_table(
        rows,
        [
            Column("step", "step", "whole"),
            Column("question", "question", wide=True),
            Column("kind", "group"),
            Column("correct", "correct", "share", "over all responses of the joint group"),
            Column("original", "original alone", "share", "over responses to the question itself"),
            Column("responses", "responses", "whole"),
            Column("tokens", "tokens", "whole", "mean per response"),
            Column("truncated", "truncated", "whole"),
            Column("timeouts", "timeouts", "whole"),
        ],
        "groups",
        name=f"tagrpo-groups-{name}",
        on_choose=opened,
    )
    pager(
        "after",
        f"{page[-1].step}:{page[-1].question_id}" if later else None,
        f"{len(page)} of {most:,} groups. Click a row to see its responses.",
        earlier=f"{page[0].step}:{page[0].question_id}" if earlier else "",
    )


@recorded
def totals(record: Record) -> RescueTotals | None:
    """Return what the stages of a training did; None for one that draws the same for every question."""
    spec = record.run.spec
    return rescues.rescue_totals(record.counts(), spec) if rescues.samples_in_stages(spec) else None


@recorded
def listed_rescues(record: Record, outcome: str | None, after: str | None) -> list[RescuedQuestion]:
    """Return a page of dead questions and the first of the next."""
    counts, spec = record.counts(), record.run.spec
    return rescues.page_rescues(counts, spec, outcome=outcome, after=after, limit=RESCUES_PAGE + 1)


def show_rescues(run_id: str, name: str) -> None:
    """Show whom neighbors rescued; nothing for a training that rescues nobody."""
    stages = totals(run_id)
    if stages is None:
        return
    layout.section(
        "Rescued questions",
        "If all first responses to a question are wrong, training samples its neighbors. The question is "
        "rescued if a neighbor gets a correct response.",
    )
    items = [
        ("all wrong", _percent(stages.dead_share), "of all groups"),
        ("rescued", _percent(stages.revived_share), "of groups with sampled neighbors"),
        ("first stage", f"{stages.first:,}", "to every question"),
        ("more to questions", f"{stages.more:,}", "second stage, groups not all wrong"),
        ("to neighbors", f"{stages.to_neighbors:,}", "second stage, all-wrong groups"),
    ]
    if stages.weight is not None:
        items.append(("weight", f"{stages.weight:.3f}", "mean of wrong responses to neighbors"))
        items.append(("effective", _percent(stages.effective), "effective share of these responses"))
    layout.numbers(*items)
    outcome = st.pills(
        "Questions that were",
        list(OUTCOMES),
        format_func=escaped,
        **links.bind("outcome", lambda: links.choice("outcome", OUTCOMES, "") or None, resets=["following"]),
    )
    page = listed_rescues(run_id, outcome, links.text("following") or None)
    if not page:
        layout.empty_state("No question matches.", "Choose another outcome, or start the list again.")
        return
    questions = page[:RESCUES_PAGE]
    texts = texts_of(tuple(question.question_id for question in questions))

    def opened(place: int) -> None:
        links.set_query(q=questions[place].question_id, at=questions[place].last_step)

    page_table(
        [
            {
                **vars(question),
                "question": texts.get(question.question_id) or question.question_id,
                "outcome": question.outcome,
                "neighbors": question.in_words(),
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
    )
    pager(
        "following",
        questions[-1].question_id if len(page) > RESCUES_PAGE else None,
        f"{len(questions)} questions, most often all wrong first. Click a row for its last such step.",
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
