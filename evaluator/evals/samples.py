"""Samples of an eval run as they are stored: paged, read with their grades and texts.

Grades are those of one version of the grader, by its id; see `evaluator.evals.overview.shown_grader`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, func, or_, select
from sqlalchemy.orm import Session

from evaluator.evals.human import newest_grades
from evaluator.evals.overview import shown_grader
from evaluator.evals.tables import (
    GradeCountsRow,
    GradeRow,
    GradeSourcesRow,
    HumanGradeRow,
    RunProblemRow,
    SampleCountsRow,
    SampleRow,
    SampleTextRow,
)
from evaluator.grading import GradeValue
from service.database import in_parts
from service.database.searching import page_of_rows
from service.errors import InputError, NotFoundError

UNGRADED, HUMAN = "ungraded", "human"
"""What to ask `browse_samples` for, beside the grades' values: samples that neither this version of the
grader nor a person graded, and those that a person did."""


@dataclass(frozen=True)
class SampleHeader:
    """A sample without its text, with its grade."""

    id: int
    run_problem_id: int
    ordinal: int
    seed: int | None
    stop_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None
    value: str | None  # correct, wrong or unknown; None without a grade, as the next three
    reason: str | None
    extracted: str | None
    source: str | None  # where the answer was found, one of `SOURCES`
    human: str | None = None  # what a person says, correct or wrong

    @property
    def counted(self) -> str | None:
        """The grade that counts: a person's, else the grader's."""
        return self.human or self.value


def read_headers(
    session: Session, condition: ColumnElement[bool], grader_id: int | None
) -> list[SampleHeader]:
    """Return samples in order, with the grades of one version of the grader."""
    query = _headers(grader_id).join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
    query = query.where(condition).order_by(RunProblemRow.position, SampleRow.ordinal)
    return [SampleHeader(*row) for row in session.execute(query)]


def _headers(grader_id: int | None, *more: Any) -> Select[Any]:
    """Return the query for headers of samples, with the grades of one version, and further columns."""
    columns: list[Any] = [
        SampleRow.id,
        SampleRow.run_problem_id,
        SampleRow.ordinal,
        SampleRow.seed,
        SampleRow.stop_reason,
        SampleRow.prompt_tokens,
        SampleRow.completion_tokens,
        GradeRow.value,
        GradeRow.reason,
        GradeRow.extracted,
        GradeRow.source,
        HumanGradeRow.value,
    ]
    graded = and_(GradeRow.sample_id == SampleRow.id, GradeRow.grader_id == grader_id)
    by_human = and_(HumanGradeRow.sample_id == SampleRow.id, HumanGradeRow.id.in_(newest_grades()))
    query = select(*columns, *more).select_from(SampleRow).outerjoin(GradeRow, graded)
    return query.outerjoin(HumanGradeRow, by_human)


@dataclass(frozen=True)
class SampleFilters:
    """Which samples of a run are meant; None and False do not restrict."""

    value: str | None = None  # the grade that counts: correct, wrong, unknown; or `UNGRADED` or `HUMAN`
    # where the answer was found, one of `SOURCES`; "" for those in which none was found
    source: str | None = None
    truncated: bool = False  # those cut at the limit of tokens only
    tokens: int | None = None  # the fewest completion tokens
    position: int | None = None  # of the problem in the run, from 0
    text: str | None = None  # what the response holds, whatever the case of its letters


Place = tuple[int, int]
"""Of a sample in its run: the problem's position and the sample's ordinal."""


@dataclass(frozen=True)
class SamplesPage:
    """Samples with the positions of their problems; `after` is the place to go on from, None at the end."""

    samples: tuple[tuple[int, SampleHeader], ...]
    after: Place | None


def browse_samples(
    session: Session, run_id: str, filters: SampleFilters, *, after: Place | None = None, limit: int = 25
) -> SamplesPage:
    """Return up to `limit` samples of a run after a place, in order of problems; texts are not read.

    Where a text is searched for the page may be short, even empty, and still have an `after`; see
    `page_of_rows`.
    """
    if filters.value not in (None, UNGRADED, HUMAN, *GradeValue):
        raise InputError(
            f"{filters.value!r} is not a grade. Choose from {', '.join(GradeValue)}, {UNGRADED} or {HUMAN}."
        )
    grader = shown_grader(session, run_id)
    grader_id = None if grader is None else grader.id
    query = (
        _headers(grader_id, RunProblemRow.position)
        .join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
        .where(RunProblemRow.run_id == run_id, *_conditions(filters, grader_id))
        .order_by(RunProblemRow.position, SampleRow.ordinal)
    )

    def read(place: Place | None, size: int) -> list[tuple[int, SampleHeader]]:
        part = query
        if place is not None:
            position, ordinal = place
            part = query.where(
                RunProblemRow.position >= position,
                or_(RunProblemRow.position > position, SampleRow.ordinal > ordinal),
            )
        return [(row[-1], SampleHeader(*row[:-1])) for row in session.execute(part.limit(size))]

    def texts_of(rows: Sequence[tuple[int, SampleHeader]]) -> list[str]:
        texts = read_texts(session, [header.id for _, header in rows])
        return [texts[header.id] for _, header in rows]

    samples, behind = page_of_rows(
        read,
        lambda row: (row[0], row[1].ordinal),
        after=after,
        limit=limit,
        texts_of=texts_of if filters.text else None,
        sought=filters.text or "",
    )
    return SamplesPage(tuple(samples), behind)


def _conditions(filters: SampleFilters, grader_id: int | None) -> list[ColumnElement[bool]]:
    """Return conditions on samples, and on their problems: those without any such sample are passed over."""
    counts, sources = GradeCountsRow, GradeSourcesRow
    of_problem = counts.run_problem_id == RunProblemRow.id, counts.grader_id == grader_id
    samples = exists().where(SampleCountsRow.run_problem_id == RunProblemRow.id)
    graded = select(counts.correct + counts.wrong + counts.unknown).where(*of_problem)
    graded_number = func.coalesce(graded.correlate(RunProblemRow).scalar_subquery(), 0)
    ungraded = samples.where(SampleCountsRow.samples > graded_number)
    by_people = exists().where(HumanGradeRow.run_problem_id == RunProblemRow.id)
    by_people = by_people.correlate_except(HumanGradeRow)
    counted = func.coalesce(HumanGradeRow.value, GradeRow.value)
    conditions: list[ColumnElement[bool]] = []
    if filters.value == UNGRADED:
        conditions += [counted.is_(None), ungraded]
    elif filters.value == HUMAN:
        conditions += [HumanGradeRow.value.is_not(None), by_people]
    elif filters.value is not None:
        some = exists().where(*of_problem, getattr(counts, filters.value) > 0)
        conditions += [counted == filters.value, or_(some, by_people)]
    if filters.source is not None:
        from_there = exists().where(
            sources.run_problem_id == RunProblemRow.id,
            sources.grader_id == grader_id,
            sources.source == filters.source,
        )
        conditions.append(func.coalesce(GradeRow.source, "") == filters.source)
        conditions.append(from_there if filters.source else or_(from_there, ungraded))
    if filters.truncated:
        conditions += [SampleRow.stop_reason == "length", samples.where(SampleCountsRow.truncated > 0)]
    if filters.tokens is not None:
        conditions.append(SampleRow.completion_tokens >= filters.tokens)
    if filters.position is not None:
        conditions.append(RunProblemRow.position == filters.position)
    return conditions


def read_texts(session: Session, sample_ids: Sequence[int]) -> dict[int, str]:
    """Return the texts of samples by id.

    Raises:
        NotFoundError: one of them is not stored.
    """
    texts: dict[int, str] = {}
    for part in in_parts(sample_ids):
        rows = session.execute(
            select(SampleTextRow.sample_id, SampleTextRow.text).where(SampleTextRow.sample_id.in_(part))
        )
        texts.update((id, text) for id, text in rows)
    missing = next((id for id in sample_ids if id not in texts), None)
    if missing is not None:
        raise NotFoundError(f"sample {missing} is not in the database.")
    return texts
