"""A run's groups: what each step drew, and the list of groups that the filters leave."""

from collections.abc import Sequence

import streamlit as st

from trainer_adapter.record.groups import KINDS, GroupFilters, RolloutGroup, StepGroups
from trainer_adapter.record.reading import Record
from ui.charts.rollout_groups import STEP, group_kinds_chart
from ui.charts.training_steps import window_for
from ui.pages.rollouts import rescues
from ui.pages.rollouts.asked import texts_of
from ui.pages.state import links
from ui.pages.state.records import recorded
from ui.pages.text.markup import escaped
from ui.pages.widgets import charts, layout
from ui.pages.widgets.choices import choose, choose_several, note_absent
from ui.pages.widgets.pager import pager
from ui.pages.widgets.tables import Column, page_table

PAGE = 25
FLAGS = {"timeouts": "grader timed out", "unknown": "unknown grades", "truncated": "truncated"}
ALL = -1  # no step; None would leave the choice empty
PLACES = ("after", "before")
RECORDED = "tagrpo/record/share"  # a step has it where its record holds some of its questions only


@recorded
def run_steps(record: Record, filters: GroupFilters = GroupFilters()) -> list[StepGroups]:
    """Return the steps of a run, counted over the groups that match."""
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


def filters_of_address(steps: list[StepGroups]) -> GroupFilters:
    """Show the filters; return what they say."""
    numbers = [step.step for step in steps]
    with layout.row(gap="medium"):
        step = choose(
            st.selectbox,
            "Step",
            "step",
            [ALL, *numbers],
            words=lambda number: "all steps" if number == ALL else f"step {number}",
            resets=PLACES,
            width=130,
        )
        kind = st.pills(
            "Groups that are",
            list(KINDS),
            format_func=escaped,
            **links.bind("kind", _kind, resets=PLACES),
        )
        flags = choose_several(
            st.pills, "with responses", "with", list(FLAGS), words=FLAGS.__getitem__, resets=PLACES
        )
    note_absent("step", [ALL, *numbers], "step", "all steps")
    note_absent("kind", list(KINDS), "group that is", "groups of all kinds")
    return _filters(None if step == ALL else step, kind, flags)


def address_filters(numbers: list[int]) -> GroupFilters:
    """Return the filters of the address without showing them."""
    flags = links.values("with", list(FLAGS))
    return _filters(_step(numbers), _kind(), flags)


def _filters(step: int | None, kind: str | None, flags: Sequence[str]) -> GroupFilters:
    return GroupFilters(
        step=step,
        kind=kind,
        timeouts="timeouts" in flags,
        unknown="unknown" in flags,
        truncated="truncated" in flags,
    )


def _kind() -> str | None:
    return links.choice("kind", KINDS, "") or None


def _step(numbers: list[int]) -> int | None:
    asked = links.number("step", -1)
    return asked if asked in numbers else None


def show(run_id: str, name: str, steps: list[StepGroups]) -> None:
    """Show what each step drew, then the groups."""
    window, key = window_for(len(steps)), "kinds"
    rows = []
    for start in range(0, len(steps), window):
        part = steps[start : start + window]
        for kind in KINDS:
            number = sum(getattr(step, kind.replace(" ", "_")) for step in part)
            rows.append({"step": part[0].step, "last": part[-1].step, "kind": kind, "questions": number})
    chosen_step = _step([step.step for step in steps])

    def clicked() -> None:
        picked = st.session_state[key]["selection"].get(STEP) or []
        links.set_query(step=int(picked[0]["step"]) if picked else None, after=None, before=None)

    title = f"Groups of {name} by step"
    spec = charts.cached_chart(group_kinds_chart, rows, title=title, window=window, chosen=chosen_step)
    charts.show_chart(spec, f"tagrpo-groups-{name}", key, rows=rows, on_select=clicked)
    filters = filters_of_address(steps)
    chosen = run_steps(run_id, filters)
    if not chosen:
        layout.empty_state("No group matches.", "Choose other filters, or another step.")
        return
    _numbers(chosen)
    if (share := least_recorded(run_id)) is not None:
        words = (
            f"Some steps recorded only {100 * share:g}% of the questions (run.record_share). Numbers "
            "and groups here cover that share; the metrics under Training signal cover all."
        )
        st.caption(escaped(words))
    _groups(run_id, name, filters, sum(step.questions for step in chosen))
    rescues.show(run_id, name)


def _numbers(steps: list[StepGroups]) -> None:
    responses = sum(step.responses for step in steps)
    questions = sum(step.questions for step in steps)
    mixed = sum(step.mixed for step in steps)
    correct = sum(step.correct for step in steps)
    layout.numbers(
        [
            layout.Number("groups", f"{questions:,}", hint="questions, counted once per step"),
            layout.Number(
                "mixed", f"{mixed / questions:.1%}", hint="with a gradient: correct and wrong responses"
            ),
            layout.Number("responses", f"{responses:,}"),
            layout.Number("correct", f"{correct / responses:.1%}"),
            layout.Number("length", f"{sum(s.tokens for s in steps) / responses:,.0f}", "tokens"),
            layout.Number("truncated", f"{sum(s.truncated for s in steps) / responses:.1%}"),
            layout.Number("grader timeouts", f"{sum(s.timeouts for s in steps):,}"),
        ]
    )


def key_of(text: str) -> tuple[int, str] | None:
    """Return the key (step, question) that an address holds as "12:q_1"; None for anything else."""
    step, colon, question = text.partition(":")
    return (int(step), question) if colon and step.isascii() and step.isdigit() and len(step) < 10 else None


def key_text(group: RolloutGroup) -> str:
    """Return a group's key for an address."""
    return f"{group.step}:{group.question_id}"


def _groups(run_id: str, name: str, filters: GroupFilters, most: int) -> None:
    after = key_of(links.text("after"))
    before = None if after else key_of(links.text("before"))
    page, earlier, later = listed(run_id, filters, after, before)
    if not page:
        layout.empty_state("No more groups.", "Choose a filter or a step to start the list again.")
        return
    texts = texts_of(tuple(group.question_id for group in page))
    rows = [
        {
            "step": group.step,
            "question": texts.get(group.question_id) or group.question_id,
            "kind": group.kind,
            "correct": group.correct / group.responses,
            "original": _original(group),
            "responses": group.responses,
            "tokens": group.tokens / group.responses,
            "truncated": group.truncated,
            "timeouts": group.timeouts,
            "question_id": group.question_id,
        }
        for group in page
    ]

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
            Column("timeouts", "time-outs", "whole"),
        ],
        "groups",
        name=f"tagrpo-groups-{name}",
        on_choose=opened,
        leads_away=True,
    )
    pager(
        {"after": key_text(page[-1]), "before": None} if later else None,
        {"before": key_text(page[0]), "after": None} if earlier else None,
        words=f"{len(page)} of {most:,} groups. Click a row to see its responses",
        to_start=False,
    )


def _original(group: RolloutGroup) -> float | None:
    drawn = group.original_correct + group.original_wrong + group.original_unknown
    return group.original_correct / drawn if drawn else None
