"""The responses of one evaluation: filter, search, read."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import streamlit as st
from sqlalchemy.orm import Session

from evaluator.benchmarks.catalogue import is_secret
from evaluator.evals.overview import RunOverview
from evaluator.evals.problems import RunProblem, read_problems
from evaluator.evals.samples import (
    HUMAN,
    UNGRADED,
    Place,
    SampleFilters,
    SampleHeader,
    browse_samples,
)
from evaluator.evals.tables import RunProblemRow
from evaluator.grading import PROGRAM_SOURCES, SOURCES, GradeValue
from evaluator.reports.published import in_order
from ui.pages.curves.human_grades import show_human_grades
from ui.pages.curves.responses import COUNTED, is_hidden, show_response, show_statement
from ui.pages.state import links
from ui.pages.state.database import cached, fetch
from ui.pages.widgets import layout
from ui.pages.widgets.choices import choose, note_absent, switch
from ui.pages.widgets.pager import found_responses, pager
from ui.pages.widgets.tables import Column, pick_row

PAGE = 25
ANY, NOWHERE = "", "nowhere"
_GRADES = {ANY: "any grade", HUMAN: "by a person"}
LENGTHS = (0, 1_000, 4_000, 16_000, 32_000)
PLACES = ("from", "sample")
"""Parameters to reset when a filter changes."""


@cached
def _problem(session: Session, run_problem_id: int) -> RunProblem:
    return read_problems(session, RunProblemRow.id == run_problem_id)[0]


def show_samples(runs: Mapping[str, Mapping[str, RunOverview]], usual: str) -> None:
    """Show one method's responses on one benchmark, and the clicked one; `usual` is the default method."""
    with layout.row():
        label = choose(st.selectbox, "Method", "of", list(runs), usual, width=220, resets=PLACES)
        names = in_order(runs[label])
        benchmark = choose(st.selectbox, "Benchmark", "point", names, width=180, resets=PLACES)
        secret = is_secret(benchmark)
        text = "" if is_hidden(secret=secret) else _search()
    note_absent("of", list(runs), "evaluation of", label)
    note_absent("point", names, "benchmark", benchmark)
    overview = runs[label][benchmark]
    filters = _filters(overview.problems, text)
    page = fetch(browse_samples, overview.run.id, filters, after=_place(links.text("from")), limit=PAGE)
    rows = [_row(position, header) for position, header in page.samples]
    columns = [column for column in COLUMNS if not (secret and column.key == "answer")]
    chosen = ""
    if rows:
        chosen = pick_row(rows, columns, "samples", parameter="sample", value="id", name="responses")
    stopped = bool(filters.text) and page.after is not None and len(page.samples) < PAGE
    pager(
        {"from": f"{page.after[0]}.{page.after[1]}", "sample": None} if page.after else None,
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


def _search() -> str:
    text: str = st.text_input(
        "Search",
        placeholder="text of a response",
        icon=":material/search:",
        width=240,
        **links.bind("text", lambda: links.text("text"), resets=PLACES),
    )
    return text.strip()


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


def _place(written: str) -> Place | None:
    """Return the position in the address, as `position.ordinal`; None for the start."""
    numbers = written.split(".")
    if len(numbers) != 2 or not all(number.isdecimal() and len(number) < 10 for number in numbers):
        return None
    return int(numbers[0]), int(numbers[1])
