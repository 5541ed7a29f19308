"""Human grades of a response: a list, a form to add one, and their effect on the score."""

import streamlit as st
from sqlalchemy.orm import Session

from evaluator.evals.human import (
    MAX_COMMENT,
    HumanGrade,
    HumanValue,
    add_human_grade,
    list_human_grades,
    withdraw_human_grade,
)
from evaluator.evals.overview import shown_grader
from evaluator.evals.results import Effect, human_effect
from evaluator.evals.samples import SampleHeader
from evaluator.reports.documents.document import hundredths
from service.errors import InputError, TagrpoError
from service.runs.store import Run, find_run
from ui.pages.review.choosing import ask_reviewer
from ui.pages.state import settings
from ui.pages.state.database import cached, review_writer
from ui.pages.text.markup import escaped, show_text
from ui.pages.widgets import layout


@cached
def _grades(session: Session, run_id: str, sample_id: int) -> list[HumanGrade]:
    grader = shown_grader(session, run_id)
    return list_human_grades(session, run_id, None if grader is None else grader.id, sample_id)


@cached
def _effect(session: Session, run_id: str) -> list[Effect]:
    try:
        return human_effect(session, find_run(session, run_id))
    except InputError:
        return []


def show_human_grades(run: Run, sample: SampleHeader) -> None:
    """Show the human grades of a response, a form if the server accepts grades, and their effect."""
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


def _show_grade(grade: HumanGrade) -> None:
    with layout.row():
        layout.line(layout.grade_chip(grade.value))
        withdrawn = f"; withdrawn {grade.withdrawn_at}" if grade.withdrawn_at else ""
        st.caption(
            escaped(f"{grade.reviewer}, {grade.created_at}; before: {grade.before or 'none'}{withdrawn}")
        )
    if grade.comment:
        show_text(grade.comment, f"comment-{grade.id}")


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


def _show_effect(effects: list[Effect]) -> None:
    if not effects:
        st.caption("Human grades count after the grader has graded the whole run.")
        return
    parts = [
        f"pass@{effect.k} {hundredths(effect.grader)} by the grader, "
        f"{hundredths(effect.human)} with human grades"
        for effect in effects
    ]
    st.caption(escaped(f"Score of the run: {'; '.join(parts)}."))
