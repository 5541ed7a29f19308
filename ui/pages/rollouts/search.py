"""Responses of a training that hold a text, as a list whose rows open their groups."""

from typing import Any

import streamlit as st

from evaluator.grading import GradeValue
from trainer_adapter.record.listing import RolloutFilters, RolloutsPage, list_rollouts
from trainer_adapter.record.reading import Record
from ui.pages.rollouts.group import joint_group
from ui.pages.state import links
from ui.pages.state.records import recorded
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose, choose_step
from ui.pages.widgets.pager import found_responses, pager
from ui.pages.widgets.tables import Column, page_table

PAGE = 25
PLACES = ("from",)
COLUMNS = (
    Column("id", "rollout"),
    Column("step", "step", "whole"),
    Column("question_id", "question"),
    Column("prompt", "prompt"),
    Column("grade", "grade"),
    Column("extracted", "answer", wide=True),
    Column("reward", "reward", "number"),
    Column("tokens", "tokens", "whole"),
)


@recorded
def _page(record: Record, filters: RolloutFilters, after: str | None) -> RolloutsPage:
    return list_rollouts(record, filters, after=after, limit=PAGE)


def show(run_id: str, text: str, steps: list[int]) -> None:
    with layout.row():
        step = choose_step(steps, PLACES, 150)
        look: dict[str, Any] = {"words": lambda grade: grade or "any grade", "width": 150, "resets": PLACES}
        grades = ["", *(str(grade.value) for grade in GradeValue)]
        grade = choose(st.selectbox, "Grade", "grade", grades, **look)
    filters = RolloutFilters(step=step, grade=grade or None, text=text)
    with layout.or_stop("The responses cannot be read."):
        page = _page(run_id, filters, links.text("from") or None)
    if page.problems:
        layout.error_box("Some files could not be searched.", "\n".join(page.problems))
    rows = []
    for each in page.rollouts:
        prompt = f"neighbor {each.variant}" if each.variant else "original"
        rows.append({**vars(each), "prompt": prompt, "grade": each.grade})

    def opened(place: int) -> None:
        header = page.rollouts[place]
        chosen: dict[str, Any] = {}
        for column in joint_group(run_id, header.step, header.question_id).columns:
            ids = [rollout.id for rollout in column.rollouts]
            if header.id in ids:
                chosen[f"r{column.variant}"] = ids.index(header.id) + 1
        links.set_query(q=header.question_id, at=header.step, **chosen)

    if rows:
        page_table(rows, COLUMNS, "found-rollouts", name="tagrpo-rollouts", on_choose=opened)
    number = len(page.rollouts)
    words = found_responses(number, stopped=page.after is not None and number < PAGE)
    pager("from", page.after, f"{words}." + " Click a row to see the response in its group." * bool(number))
