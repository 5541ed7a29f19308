"""Responses of evaluations: filter, search, read, grade."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st
from sqlalchemy.orm import Session

from evaluator.benchmarks.catalogue import is_secret
from evaluator.evals.counts import ProblemCounts
from evaluator.evals.human import (
    MAX_COMMENT,
    HumanValue,
    add_human_grade,
    list_human_grades,
    withdraw_human_grade,
)
from evaluator.evals.overview import RunOverview, shown_grader
from evaluator.evals.problems import RunProblem, read_problems
from evaluator.evals.results import human_effect
from evaluator.evals.samples import (
    HUMAN,
    UNGRADED,
    SampleFilters,
    SampleHeader,
    browse_samples,
    read_texts,
)
from evaluator.evals.tables import RunProblemRow
from evaluator.grading import PROGRAM_SOURCES, SOURCES, GradeValue
from evaluator.reports.comparing import SOLVED, Contrast
from evaluator.reports.documents.document import hundredths
from evaluator.reports.published import in_order
from service.errors import InputError, TagrpoError
from service.runs.store import Run, find_run
from ui.characters import one_line
from ui.pages.review.choosing import ask_reviewer
from ui.pages.state import links, settings
from ui.pages.state.database import cached, fetch, review_writer
from ui.pages.text.markup import escaped, show_math_text, show_text
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose, note_absent, search_field, switch
from ui.pages.widgets.pager import found_responses, pager
from ui.pages.widgets.pictures import show_pictures
from ui.pages.widgets.tables import Column, pick_row

MOST_SAMPLES = 256
_ANSWER_MAX = 30
COUNTED = "Position in the run (from 0, with neighbors), for use in commands."
GATED = (
    "The texts of this benchmark are gated. Downloads never include them. The UI shows them only if the "
    "server accepts only local connections (tagrpo ui without --host, for example through a tunnel)."
)

PAGE = 25
ANY, NOWHERE = "", "nowhere"
_GRADES = {ANY: "any grade", HUMAN: "by a person"}
LENGTHS = (0, 1_000, 4_000, 16_000, 32_000)
PLACES = ("from", "sample")
"""Parameters to reset when a filter changes."""

COLUMNS = (
    Column("problem", "problem", "figure", COUNTED),
    Column("sample", "sample", "whole"),
    Column("grade", "grade"),
    Column("human", "by a person"),
    Column("answer", "answer", wide=True),
    Column("source", "found in"),
    Column("reason", "reason"),
    Column("tokens", "tokens", "whole"),
    Column("end", "stop reason"),
)


@dataclass(frozen=True)
class Side:
    label: str
    run_id: str


def is_hidden(*, secret: bool) -> bool:
    """Say whether to hide a benchmark's texts: it is gated, and other machines can reach the server."""
    return secret and not settings.current().is_private


def show_statement(problem: RunProblem, *, secret: bool, words: str = "") -> bool:
    """Show a problem with its gold answer; return whether its responses may be shown too.

    `words` describe its position if a number is not enough.
    """
    words = words or f"problem {problem.position}"
    layout.line(layout.chip(words, "blue"), layout.chip(problem.problem_id))
    if is_hidden(secret=secret):
        st.caption(escaped(GATED))
        return False
    show_math_text(problem.text, f"problem-{problem.id}")
    show_pictures(problem.images)
    st.markdown(f"Gold answer: {escaped(problem.answer) or '(none)'}")
    return True


def show_problem(
    contrast: Contrast, texts: Mapping[int, RunProblem], sides: tuple[Side, Side], *, secret: bool
) -> None:
    """Show a problem, its gold answer, and a response of each run; `texts` are by `run_problem_id`."""
    problem, other = (texts[counts.run_problem_id] for counts in contrast.counts)
    numbers = problem.position, other.position
    places = [f"{number} of {side.label}" for number, side in zip(numbers, sides, strict=True)]
    words = f"problem {', '.join(places)}" if numbers[0] != numbers[1] else ""
    with layout.card():
        if not show_statement(problem, secret=secret, words=words):
            return
        columns = st.columns(2, gap="large")
        for place, (column, side) in enumerate(zip(columns, sides, strict=True)):
            with column:
                _show_side(
                    side,
                    contrast.counts[place],
                    solved=contrast.values[place] >= SOLVED,
                    name=("left", "right")[place],
                )


def _show_side(side: Side, counts: ProblemCounts, *, solved: bool, name: str) -> None:
    filters = SampleFilters(position=counts.position)
    page = fetch(browse_samples, side.run_id, filters, limit=MOST_SAMPLES)
    samples = [header for _, header in page.samples]
    st.markdown(f"**{escaped(side.label)}**")
    if not samples:
        st.caption("No samples.")
        return
    if len(samples) == MOST_SAMPLES:
        st.caption(f"The first {MOST_SAMPLES:d} samples; `tagrpo eval show` shows the others.")
    by_ordinal = {sample.ordinal: sample for sample in samples}
    expected = "correct" if solved else "wrong"
    usual = next((sample for sample in samples if sample.counted == expected), samples[0]).ordinal
    # The parameter contains the problem, so that the choice belongs to it and another problem starts fresh.
    chosen = choose(
        st.selectbox,
        "Response",
        f"{name}-{counts.run_problem_id}",
        list(by_ordinal),
        usual,
        words=lambda ordinal: sample_label(by_ordinal[ordinal]),
    )
    show_response(by_ordinal[chosen], name)


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


def sample_label(sample: SampleHeader) -> str:
    answer = one_line(sample.extracted or "", _ANSWER_MAX)
    return f"{sample.ordinal}: {sample.counted or 'not graded'}" + (f", {answer}" if answer else "")


@cached
def _grades(session: Session, run_id: str, sample_id: int) -> list[dict[str, Any]]:
    grader = shown_grader(session, run_id)
    return list_human_grades(session, run_id, None if grader is None else grader.id, sample_id)


@cached
def _effect(session: Session, run_id: str) -> list[dict[str, Any]]:
    try:
        return human_effect(session, find_run(session, run_id))
    except InputError:
        return []


def show_human_grades(run: Run, sample: SampleHeader) -> None:
    grades = _grades(run.id, sample.id)
    for grade in grades:
        _show_grade(grade)
    if settings.current().review:
        _ask(run, sample)
    elif not grades:
        st.caption(
            escaped("This response has no human grades. To add some, start the UI with tagrpo ui --review.")
        )
    if grades:
        _show_effect(_effect(run.id))


def _show_grade(grade: dict[str, Any]) -> None:
    with layout.row():
        layout.line(layout.grade_chip(grade["value"]))
        withdrawn = f"; withdrawn {grade['withdrawn_at']}" if grade["withdrawn_at"] else ""
        before = grade["before"] or "none"
        st.caption(escaped(f"{grade['reviewer']}, {grade['created_at']}; before: {before}{withdrawn}"))
    if grade["comment"]:
        show_text(grade["comment"], f"comment-{grade['id']}")


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
        given = {"run": run, "sample": sample, "name": name, "comment": comment}
        values: tuple[HumanValue, ...] = ("correct", "wrong")
        for value in values:
            icon = layout.GRADES[value][1]
            label = f"Grade as {value}"
            st.button(
                escaped(label), key=f"{key}-{value}", icon=icon, on_click=_store, args=(value,), kwargs=given
            )
        if sample.human:
            st.button("Withdraw my grade", key=f"{key}-withdraw", on_click=_store, args=(None,), kwargs=given)
    problem = st.session_state.pop(f"{key}-problem", "")
    if problem:
        layout.error_box("The grade was not stored.", problem)


def _store(value: HumanValue | None, run: Run, sample: SampleHeader, name: str, comment: str) -> None:
    try:
        with review_writer() as session:
            if value is None and withdraw_human_grade(session, sample.id, reviewer=name) is None:
                raise InputError(f"{name or 'this reviewer'} has not graded this response.")
            if value is not None:
                if not name.strip():
                    raise InputError("enter your name first. It is stored with your grade.")
                grader = shown_grader(session, run.id)
                grader_id = None if grader is None else grader.id
                add_human_grade(
                    session, sample.id, value, reviewer=name, comment=comment, grader_id=grader_id
                )
    except TagrpoError as error:
        st.session_state[f"label-{sample.id}-problem"] = str(error)


def _show_effect(effects: list[dict[str, Any]]) -> None:
    if not effects:
        st.caption("Human grades count after the grader has graded the whole run.")
        return
    parts = [
        f"pass@{effect['k']} {hundredths(effect['grader'])} by the grader, "
        f"{hundredths(effect['human'])} with human grades"
        for effect in effects
    ]
    st.caption(escaped(f"Score of the run: {'; '.join(parts)}."))


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
    page = fetch(browse_samples, overview.run.id, filters, after=after, limit=PAGE)
    rows = [_row(position, header) for position, header in page.samples]
    columns = [column for column in COLUMNS if not (secret and column.key == "answer")]
    chosen = ""
    if rows:
        chosen = pick_row(rows, columns, "samples", parameter="sample", value="id", name="responses")
    stopped = bool(filters.text) and page.after is not None and len(page.samples) < PAGE
    pager(
        {"from": f"{page.after[0]}:{page.after[1]}", "sample": None} if page.after else None,
        {"from": None, "sample": None} if links.text("from") else None,
        words=f"{found_responses(len(page.samples), stopped=stopped)}.",
        name="samples-pager",
    )
    header = next((header for _, header in page.samples if str(header.id) == chosen), None)
    if header is not None:
        with layout.card():
            if show_statement(_problem(header.run_problem_id), secret=secret):
                show_response(header, "sample")
                show_human_grades(overview.run, header)


def _filters(problems: int, text: str) -> SampleFilters:
    def asked_position() -> int | None:
        position = links.number("at", -1, low=0, high=problems - 1)
        return None if position < 0 else position

    grades = [ANY, *(str(grade.value) for grade in GradeValue), UNGRADED, HUMAN]
    sources = [ANY, *SOURCES, *PROGRAM_SOURCES, NOWHERE]
    select: Callable[..., Any] = partial(choose, st.selectbox, resets=PLACES)
    with layout.row():
        value: str = select(
            "Grade", "grade", grades, words=lambda value: _GRADES.get(value, value), width=150
        )
        source: str = select(
            "Answer found in", "source", sources, words=lambda value: value or "anywhere", width=160
        )
        tokens: int = select(
            "Length",
            "length",
            LENGTHS,
            words=lambda least: f"at least {least:,} tokens" if least else "any length",
            width=190,
        )
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


def _row(position: int, header: SampleHeader) -> dict[str, Any]:
    return {
        "id": header.id,
        "problem": position,
        "sample": header.ordinal,
        "grade": header.value or "not graded",
        "human": header.human,
        "answer": header.extracted,
        "source": header.source,
        "reason": header.reason,
        "tokens": header.completion_tokens,
        "end": header.stop_reason,
    }
