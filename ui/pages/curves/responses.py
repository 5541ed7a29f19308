"""Responses of evaluations: filter, search, read, grade."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import streamlit as st
from sqlalchemy.orm import Session

from evaluator.benchmarks.catalogue import is_secret
from evaluator.evals.overview import RunOverview
from evaluator.evals.problems import RunProblem, read_problems
from evaluator.evals.results import human_record
from evaluator.evals.samples import (
    HUMAN,
    MAX_COMMENT,
    UNGRADED,
    HumanValue,
    SampleFilters,
    SampleHeader,
    add_human_grade,
    browse_samples,
    list_human_grades,
    read_texts,
    withdraw_human_grade,
)
from evaluator.evals.tables import RunProblemRow
from evaluator.grading import PROGRAM_SOURCES, SOURCES, GradeValue
from evaluator.reports.document import hundredths
from evaluator.reports.published import in_order
from service.errors import InputError, TagrpoError
from service.runs.store import Run, find_run
from ui.pages.review.choosing import ask_reviewer
from ui.pages.state import links, settings
from ui.pages.state.database import cached, fetch, review_writer
from ui.pages.text.markup import escaped, show_math_text, show_text
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose, note_absent, search_field, switch
from ui.pages.widgets.pager import found_responses, pager
from ui.pages.widgets.pictures import show_pictures
from ui.pages.widgets.tables import Column, pick_row

COUNTED = "Position in the run (from 0, with neighbors), for use in commands."
GATED = (
    "The texts of this benchmark are gated. Downloads never include them. The UI shows them only if the "
    "server accepts only local connections (tagrpo ui without --host, for example through a tunnel)."
)

PAGE = 25
ANY, NOWHERE = "", "nowhere"
LENGTHS = {0: "any length", **{n: f"at least {n:,} tokens" for n in (1_000, 4_000, 16_000, 32_000)}}
PLACES = ("from", "sample")
"""Parameters to reset when a filter changes."""

COLUMNS = (
    Column("problem", "problem", "figure", COUNTED),
    Column("ordinal", "sample", "whole"),
    Column("value", "grade"),
    Column("human", "by a person"),
    Column("extracted", "answer", wide=True),
    Column("source", "found in"),
    Column("reason", "reason"),
    Column("completion_tokens", "tokens", "whole"),
    Column("stop_reason", "stop reason"),
)


def is_hidden(*, secret: bool) -> bool:
    """Say whether to hide a benchmark's texts: it is gated, and other machines can reach the server."""
    return secret and not settings.current().is_private


def show_statement(problem: RunProblem, words: str, *, secret: bool) -> bool:
    """Show a problem with its position in words; return whether its responses may be shown too."""
    layout.line(layout.chip(words, "blue"), layout.chip(problem.problem_id))
    if is_hidden(secret=secret):
        layout.caption(GATED)
        return False
    show_math_text(problem.text, f"problem-{problem.id}")
    show_pictures(problem.images)
    st.markdown(f"Gold answer: {escaped(problem.answer) or '(none)'}")
    return True


def show_response(sample: SampleHeader, name: str) -> None:
    """Show a response with its grade; `name` distinguishes it from others on the page."""
    chips = [layout.grade_chip(sample.value or "not graded")]
    if sample.human:
        chips.insert(0, layout.chip(f"{sample.human} by a person", *layout.GRADES[sample.human]))
    if sample.reason:
        chips.append(layout.chip(sample.reason))
    if sample.source:
        chips.append(layout.chip(f"answer found in: {sample.source}"))
    if sample.completion_tokens is not None:
        chips.append(layout.chip(f"{sample.completion_tokens:,} tokens"))
    if sample.stop_reason != "stop":
        chips.append(layout.chip(f"stop reason: {sample.stop_reason}", "orange"))
    layout.line(*chips)
    text = fetch(read_texts, (sample.id,))[sample.id]
    raw = st.toggle(
        "Source text", key=f"raw-{name}", help="Show the response as plain text, without rendering formulas."
    )
    show = show_text if raw else show_math_text
    show(text, f"response-{name}-{sample.id}")


@cached
def _effect(session: Session, run_id: str) -> list[dict[str, Any]]:
    return human_record(session, find_run(session, run_id))["pass_at_k"] or []


def show_human_grades(run: Run, sample: SampleHeader) -> None:
    grades = fetch(list_human_grades, run.id, sample.id)
    for grade in grades:
        with layout.row():
            layout.line(layout.grade_chip(grade["value"]))
            withdrawn = f"; withdrawn {grade['withdrawn_at']}" if grade["withdrawn_at"] else ""
            before = grade["before"] or "none"
            layout.caption(f"{grade['reviewer']}, {grade['created_at']}; before: {before}{withdrawn}")
        if grade["comment"]:
            show_text(grade["comment"], f"comment-{grade['id']}")
    if settings.current().review:
        _ask(run, sample)
    elif not grades:
        layout.caption("This response has no human grades. To add some, start tagrpo ui --review.")
    if grades:
        parts = [
            f"pass@{effect['k']} {hundredths(effect['grader'])} by the grader, "
            f"{hundredths(effect['human'])} with human grades"
            for effect in _effect(run.id)
        ]
        words = f"Score of the run: {'; '.join(parts)}."
        unknown = "Human grades count after the grader has graded the whole run."
        layout.caption(words if parts else unknown)


def _ask(run: Run, sample: SampleHeader) -> None:
    key = f"label-{sample.id}"
    with layout.row():
        name = ask_reviewer()
        comment = st.text_input(
            "Comment",
            placeholder="comment",
            width=300,
            max_chars=MAX_COMMENT,
            label_visibility="collapsed",
            key=f"{key}-comment",
        )

        def store(value: HumanValue | None) -> None:
            try:
                with review_writer() as session:
                    if value is None and withdraw_human_grade(session, sample.id, reviewer=name) is None:
                        raise InputError(f"{name or 'this reviewer'} has not graded this response.")
                    if value is not None and not name.strip():
                        raise InputError("enter your name first. It is stored with your grade.")
                    if value is not None:
                        add_human_grade(session, sample.id, value, reviewer=name, comment=comment)
            except TagrpoError as error:
                st.session_state[f"{key}-problem"] = str(error)

        values: tuple[HumanValue, ...] = ("correct", "wrong")
        for value in values:
            label, icon = escaped(f"Grade as {value}"), layout.GRADES[value][1]
            st.button(label, key=f"{key}-{value}", icon=icon, on_click=store, args=(value,))  # safe
        if sample.human:
            st.button("Withdraw my grade", key=f"{key}-withdraw", on_click=store, args=(None,))
    if problem := st.session_state.pop(f"{key}-problem", ""):
        layout.error_box("The grade was not stored.", problem)


@cached
def _problem(session: Session, run_problem_id: int) -> RunProblem:
    return read_problems(session, RunProblemRow.id == run_problem_id)[0]


def show_samples(runs: Mapping[str, Mapping[str, RunOverview]], usual: str) -> None:
    with layout.row():
        label = choose(st.selectbox, "Method", "of", list(runs), usual, width=220, resets=PLACES)
        names = in_order(runs[label])
        benchmark = choose(st.selectbox, "Benchmark", "point", names, width=180, resets=PLACES)
        secret = is_secret(benchmark)
        text = ""
        if not is_hidden(secret=secret):
            text = search_field("text of a response", "text", PLACES, width=240)
    note_absent("of", list(runs), "evaluation of", label)
    note_absent("point", names, "benchmark", benchmark)
    overview = runs[label][benchmark]
    filters = _filters(overview.problems, text)
    place = links.place("from")
    after = (place[0], int(place[1])) if place and place[1].isdecimal() and len(place[1]) < 10 else None
    page, behind = fetch(browse_samples, overview.run.id, filters, after=after, limit=PAGE)
    rows = [
        {**vars(header), "problem": header.position, "value": header.value or "not graded"} for header in page
    ]
    columns = [column for column in COLUMNS if not (secret and column.key == "extracted")]
    chosen = ""
    if rows:
        chosen = pick_row(rows, columns, "samples", parameter="sample", value="id", name="responses")
    stopped = bool(filters.text) and behind is not None and len(page) < PAGE
    words = f"{found_responses(len(page), stopped=stopped)}."
    pager("from", f"{behind[0]}:{behind[1]}" if behind else None, words, resets=["sample"])
    header = next((header for header in page if str(header.id) == chosen), None)
    if header is not None:
        with layout.card():
            problem = _problem(header.run_problem_id)
            if show_statement(problem, f"problem {problem.position}", secret=secret):
                show_response(header, "sample")
                show_human_grades(overview.run, header)


def _filters(problems: int, text: str) -> SampleFilters:
    def asked_position() -> int | None:
        position = links.number("at", -1, low=0, high=problems - 1)
        return None if position < 0 else position

    names = [*(str(grade.value) for grade in GradeValue), UNGRADED]
    grades = {ANY: "any grade", **dict(zip(names, names, strict=True)), HUMAN: "by a person"}
    sources = {ANY: "anywhere", **{name: name for name in (*SOURCES, *PROGRAM_SOURCES, NOWHERE)}}
    select: Callable[..., Any] = partial(choose, st.selectbox, resets=PLACES)
    with layout.row():
        value: str = select("Grade", "grade", list(grades), words=grades.__getitem__, width=150)
        source: str = select("Answer found in", "source", list(sources), words=sources.__getitem__, width=160)
        tokens: int = select("Length", "length", list(LENGTHS), words=LENGTHS.__getitem__, width=190)
        position = st.number_input(
            "Problem",
            min_value=0,
            max_value=problems - 1,
            placeholder="all",
            width=130,
            **links.bind("at", asked_position, resets=PLACES),
        )
        cut = switch("Truncated only", "cut", resets=PLACES)
    return SampleFilters(
        value=value or None,
        source={ANY: None, NOWHERE: ""}.get(source, source),
        truncated=cut,
        tokens=tokens or None,
        position=None if position is None else int(position),
        text=text or None,
    )
