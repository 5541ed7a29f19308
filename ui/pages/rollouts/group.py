"""A question's joint group at a step, next to another step, and during training."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import streamlit as st

from service.errors import TagrpoError
from trainer_adapter.record.groups import GroupFilters, RolloutGroup
from trainer_adapter.record.reading import FoundRollout, GroupColumn, JointGroup, Record
from trainer_adapter.record.rollout import TokenRatios
from ui.charts.training_steps import step_chart
from ui.pages.rollouts import token_shading
from ui.pages.rollouts.overview import asked, listed
from ui.pages.state import links
from ui.pages.state.records import recorded
from ui.pages.text.markup import escaped, show_math_text, show_text
from ui.pages.widgets import charts, layout
from ui.pages.widgets.choices import choose, note_absent, switch
from ui.pages.widgets.pictures import show_pictures
from ui.pages.widgets.tables import Column, download, pick_row

MARKS = {"correct": "✓", "wrong": "✗", "unknown": "?"}

_LOG_RATIO = "nats per token: how much more likely the response is under the anchor"
RESPONSES = (
    Column("response", "response"),
    Column("extracted", "answer", "code"),
    Column("reward", "reward", "number"),
    Column("advantage", "advantage", "fixed"),
    Column("tokens", "tokens", "whole"),
    Column("log_ratio", "log-ratio", "fixed", _LOG_RATIO),
)

NONE = -1

joint_group = recorded(Record.joint_group)
rollout = recorded(Record.rollout)


@recorded
def history(record: Record, question_id: str) -> list[RolloutGroup]:
    return record.counts().question_history(question_id)


def show(run_id: str, name: str, question_id: str, filters: GroupFilters, having: Sequence[str] = ()) -> None:
    visits = history(run_id, question_id)
    with layout.row():
        st.button(
            "All groups",
            icon=":material/arrow_back:",
            key="group-back",
            on_click=lambda: links.set_query(q=None, at=None, to=None, **_no_responses()),
        )
        if visits:
            _show_ways(run_id, filters, question_id, visits)
        if (question := asked(question_id)) is not None:
            words = "Question and neighbors"
            links.link(words, "questions", icon=":material/arrow_forward:", id=question_id)
    if not visits:
        words = "these runs have some:" if having else "no other run has any."
        layout.empty_state("This question has no rollouts in this run.", f"{question_id}: {words}")
        for run in having:
            links.link(run, "rollouts", run=run, q=question_id)
        return
    steps = [visit.step for visit in visits]
    step, other = _steps(visits, steps)
    note_absent("at", steps, "group of this question at step", f"step {step}")
    with layout.or_stop("The group cannot be shown."):
        every = [joint_group(run_id, at, question_id) for at in (step, other) if at != NONE]
    with layout.card():
        if question is None:
            layout.caption(f"{question_id}: the database does not contain this question.")
        else:
            show_math_text(question.text, "group-question")
            show_pictures(question.images)
            if question.answer is not None:
                layout.line(layout.chip(f"answer {question.answer}", "blue"))
    for joint in every:
        group = joint.group
        words = f"{group.correct} of {group.responses} correct, mean reward {group.reward:.3g}"
        words += f" (from {group.reward_least:g} to {group.reward_most:g})"
        if group.kind != "mixed" and group.reward_least == group.reward_most:
            words += "; all rewards are equal, so there is no gradient"
        words += f"; {group.truncated} truncated" if group.truncated else ""
        words += f"; {group.timeouts} grader timeouts" if group.timeouts else ""
        kind = layout.chip(group.kind, "green" if group.kind == "mixed" else "orange")
        st.markdown(f"{layout.chip(f'step {group.step}', 'violet')} {kind} :gray[{escaped(words)}]")  # safe
        if joint.problem:
            layout.error_box("The texts of this step cannot be read.", joint.problem)
    hint = "Color the tokens of a response by how much more likely they are under the anchor."
    with layout.row():
        with_prompts = switch("Show prompts", "prompts")
        has_tokens = any(joint.has_tokens for joint in every)
        shaded = has_tokens and switch("Shade tokens by log-ratio", "shade", help=hint)
    if shaded:
        token_shading.show_key()
    _columns(run_id, every, with_prompts=with_prompts)
    headers = [header for joint in every for column in joint.columns for header in column.rollouts]
    rows = [{**asdict(header), "log_ratio": header.mean_log_ratio} for header in headers]
    download(f"tagrpo-{name}-{question_id}", rows, key="group-csv", label="These responses as CSV")
    _signal(name, question_id, visits)


def _no_responses() -> dict[str, None]:
    return {name: None for name in st.query_params if name.startswith("r") and name != "run"}


def _show_ways(run_id: str, filters: GroupFilters, question_id: str, visits: list[RolloutGroup]) -> None:
    """Show the way to the groups before and behind this one in the list that the filters leave."""
    key = (links.number("at", visits[-1].step), question_id)
    for label, icon, after, before in (
        ("Previous group", ":material/chevron_left:", None, key),
        ("Next group", ":material/chevron_right:", key, None),
    ):
        groups, *_ = listed(run_id, filters, after, before, limit=1)
        there = groups[0] if groups else None
        st.button(
            escaped(label),
            icon=icon,
            key=f"group-{label}",
            type="tertiary",
            disabled=there is None,
            on_click=lambda there=there: links.set_query(
                q=there.question_id, at=there.step, to=None, **_no_responses()
            ),
        )


def _steps(visits: list[RolloutGroup], steps: list[int]) -> tuple[int, int]:
    words = {NONE: "no other step"}
    for visit in visits:
        counts = f"{visit.correct} of {visit.responses} correct"
        words[visit.step] = f"step {visit.step}: {counts}, {visit.kind}"
    look: dict[str, Any] = {"words": words.__getitem__, "resets": list(_no_responses())}
    with layout.row():
        step = choose(st.selectbox, "Step", "at", steps, steps[-1], **look)
        options = [NONE, *(other for other in steps if other != step)]
        hint = "The same question at another step of this training run."
        other = choose(
            st.selectbox, "Compare with", "to", options, help=hint, disabled=len(steps) < 2, **look
        )
    return step, other


def _columns(run_id: str, every: Sequence[JointGroup], *, with_prompts: bool) -> None:
    sides = [({column.variant: column for column in joint.columns}, joint.group.step) for joint in every]
    variants = dict.fromkeys(variant for columns, _ in sides for variant in columns)
    cells = [
        (columns.get(variant), step, f"r{variant}{'b' * place}")
        for variant in variants
        for place, (columns, step) in enumerate(sides)
    ]
    for column, step, key in layout.in_columns(cells, gap="small", border=True):
        if column is None:
            st.caption("This step has no responses to this prompt.")
        else:
            at = f", step {step}" if len(every) > 1 else ""
            _card(run_id, column, key, at, with_prompt=with_prompts)


@st.fragment
def _card(run_id: str, column: GroupColumn, key: str, at: str, *, with_prompt: bool) -> None:
    """Show a prompt's responses; `key` names its widgets and the response that the address chooses."""
    rollouts = column.rollouts
    heading = ("Original" if column.variant == 0 else f"Neighbor {column.variant}") + at
    right = sum(rollout.grade == "correct" for rollout in rollouts)
    layout.line(
        layout.strong(heading),
        *([layout.chip(column.strategy)] if column.strategy else []),
        layout.chip(f"{right} of {len(rollouts)} correct", "green" if 0 < right < len(rollouts) else "gray"),
    )
    if with_prompt and column.prompt is None:
        st.caption("This run did not record prompts.")
    elif with_prompt:
        show_text(column.prompt or "", f"{key}-prompt")
    rows = [
        {
            **asdict(rollout),
            "place": place,
            "response": f"{MARKS.get(rollout.grade, '')} {place}" + ", cut" * rollout.truncated,
            "log_ratio": rollout.mean_log_ratio,
        }
        for place, rollout in enumerate(rollouts, start=1)
    ]
    given = {key for row in rows for key, value in row.items() if value is not None}
    chosen = pick_row(
        rows,
        [column for column in RESPONSES if column.key in given or column.key == "extracted"],
        f"responses-{key}",
        parameter=key,
        value="place",
        words="Choose a response to read it.",
        framed=False,
    )
    for row, rollout in zip(rows, rollouts, strict=True):
        if str(row["place"]) == chosen:
            _read(run_id, rollout, key)


def _read(run_id: str, header: FoundRollout, key: str) -> None:
    cut = [layout.chip("truncated", "orange")] if header.truncated else []
    layout.line(layout.grade_chip(header.grade), layout.chip(header.reason), *cut)
    try:
        whole = rollout(run_id, header.id)
    except TagrpoError as error:
        layout.error_box("The response cannot be read.", str(error))
        return
    key, shaded = f"{key}-{header.id}", links.flag("shade")
    if shaded and whole.token_ratios is not None:
        ratios = TokenRatios.from_text(whole.token_ratios)
        token_shading.show_tokens(whole.response, ratios, key, header.log_ratio)
        return
    show_math_text(whole.response, key)
    if shaded:
        st.caption("Not shaded, because this response has no recorded token log-ratios.")


def _signal(name: str, question_id: str, visits: list[RolloutGroup]) -> None:
    if len(visits) < 2:
        layout.caption(f"{name} sampled this question only once, so there is no history yet.")
        return
    rows = []
    for group in visits:
        own = group.original_correct + group.original_wrong + group.original_unknown
        others = group.responses - own
        if own:
            rows.append({"label": "original", "step": group.step, "value": group.original_correct / own})
        if others:
            share = (group.correct - group.original_correct) / others
            rows.append({"label": "neighbors", "step": group.step, "value": share})
    charts.draw_chart(
        step_chart,
        rows,
        f"tagrpo-question-{question_id}",
        "history",
        title="This question during training",
        y_title="share of correct responses",
        scale="share",
        span=(0.0, 1.0),
        dots=True,
    )
