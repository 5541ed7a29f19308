"""Looking at eval runs: all of them, a run's problems, a problem's samples, their texts. Paged by key.

Grades are those of one version of the grader: `grader_id` names it (see `evaluator.grading.versions`), else
`shown_grader` chooses. A page that shows several lists asks it once and hands the id to all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import ColumnElement, and_, or_, select
from sqlalchemy.orm import Session

from evaluator.evals.overview import RunOverview, ShownGrader, read_overviews
from evaluator.evals.problems import RunProblem, read_problems
from evaluator.evals.samples import ProblemCounts, count_problems, count_samples
from evaluator.evals.spec import EVAL
from evaluator.evals.tables import (
    GradeRow,
    ProblemRow,
    RunProblemRow,
    SampleRow,
    SampleTextRow,
)
from evaluator.grading import GradeValue
from service.errors import InputError, NotFoundError
from service.runs.store import Run, find_run, list_runs

__all__ = [
    "UNGRADED",
    "CountedProblem",
    "GroupMember",
    "RunOverview",
    "SampleHeader",
    "ShownGrader",
    "group_samples",
    "page_problems",
    "page_samples",
    "read_texts",
    "runs_overview",
    "shown_grader",
]

UNGRADED = "ungraded"
"""What to ask `page_samples` for, beside the grades' values: samples that this version has not graded."""

_PER_STATEMENT = 500


@dataclass(frozen=True)
class SampleHeader:
    """A sample without its text, with its grade; the grade's fields are None where it has none.

    `value` is correct, wrong or unknown; `source` is where the answer was found (boxed, stated, ...).
    """

    id: int
    run_problem_id: int
    ordinal: int
    seed: int | None
    stop_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None
    value: str | None
    reason: str | None
    extracted: str | None
    source: str | None


@dataclass(frozen=True)
class CountedProblem:
    """A problem of a run with its counts."""

    problem: RunProblem
    counts: ProblemCounts

    @property
    def rate(self) -> float | None:
        """Share of correct among graded samples, unknown ones counted wrong; None where none is graded."""
        return self.counts.correct / self.counts.graded if self.counts.graded else None

    @property
    def rate_high(self) -> float | None:
        """The same with unknown ones counted right."""
        counts = self.counts
        return (counts.correct + counts.unknown) / counts.graded if counts.graded else None


@dataclass(frozen=True)
class GroupMember:
    """The original question of a group (variant 0) or one of its neighbors, with its samples in order."""

    problem: RunProblem
    samples: tuple[SampleHeader, ...]


def shown_grader(session: Session, run_id: str) -> ShownGrader | None:
    """Return the version whose grades are shown; None where nothing is graded.

    This installation's if it graded every sample of the run, else the newest that did, as in reports; where
    none did, the newest that graded any.
    """
    return _graded_counts(session, run_id)[0]


def runs_overview(session: Session, runs: Sequence[Run] | None = None) -> list[RunOverview]:
    """Return eval runs with their numbers: these, or all of them, oldest first.

    Takes milliseconds whatever the number of samples: they are counted as they are stored.
    """
    chosen = [run for run in list_runs(session) if run.kind == EVAL] if runs is None else list(runs)
    return read_overviews(session, chosen)


def page_problems(
    session: Session,
    run_id: str,
    *,
    after: int | None = None,
    limit: int = 25,
    order: Literal["position", "rate"] = "position",
    descending: bool = False,
    search: str | None = None,
    grader_id: int | None = None,
) -> list[CountedProblem]:
    """Return up to `limit` problems of the run behind the problem `after`.

    Args:
        after: `problem.id` of the last one of the page before.
        order: by place in the run, or by rate, the hardest first (problems without a grade come last); equal
            rates by place.
        descending: the other way round; problems without a grade still come last.
        search: looked for in text and answer, without regard to the case of ASCII letters.

    Raises:
        NotFoundError: `after` is no problem of the run.
    """
    conditions = [RunProblemRow.run_id == run_id]
    if search is not None:
        conditions.append(
            or_(
                ProblemRow.text.icontains(search, autoescape=True),
                ProblemRow.answer.icontains(search, autoescape=True),
            )
        )
    here = None if after is None else _read_problem(session, run_id, after)
    grader = _grader(session, run_id, grader_id)
    if order == "rate":
        return _by_rate(session, run_id, conditions, here, limit, descending, grader)
    place = RunProblemRow.position
    if here is not None:
        conditions.append(place < here.position if descending else place > here.position)
    problems = read_problems(session, conditions, place.desc() if descending else place, limit)
    counts = {one.run_problem_id: one for one in count_problems(session, [p.id for p in problems], grader)}
    return [CountedProblem(problem, counts[problem.id]) for problem in problems]


def page_samples(
    session: Session,
    run_id: str,
    run_problem_id: int,
    *,
    after_ordinal: int = -1,
    limit: int | None = 25,
    value: str | None = None,
    stop_reason: str | None = None,
    grader_id: int | None = None,
) -> list[SampleHeader]:
    """Return up to `limit` samples of a problem behind `after_ordinal`, in order; None returns all of them.

    Args:
        value: correct, wrong, unknown or `UNGRADED`; None does not restrict.
        stop_reason: stop, length, or the server's own word.

    Raises:
        NotFoundError: the problem is not of the run.
        InputError: no such value.
    """
    if value is not None and value != UNGRADED and value not in list(GradeValue):
        raise InputError(f"{value!r} is no grade; ask for {', '.join(GradeValue)} or {UNGRADED}.")
    _read_problem(session, run_id, run_problem_id)
    conditions = [SampleRow.ordinal > after_ordinal]
    if value is not None:
        conditions.append(GradeRow.value.is_(None) if value == UNGRADED else GradeRow.value == value)
    if stop_reason is not None:
        conditions.append(SampleRow.stop_reason == stop_reason)
    return _headers(session, run_problem_id, _grader(session, run_id, grader_id), conditions, limit)


def read_texts(session: Session, sample_ids: Sequence[int]) -> dict[int, str]:
    """Return the texts of samples by id.

    Raises:
        NotFoundError: one of them is not stored.
    """
    texts: dict[int, str] = {}
    for start in range(0, len(sample_ids), _PER_STATEMENT):
        part = sample_ids[start : start + _PER_STATEMENT]
        rows = session.execute(
            select(SampleTextRow.sample_id, SampleTextRow.text).where(SampleTextRow.sample_id.in_(part))
        )
        texts.update((id, text) for id, text in rows)
    missing = next((id for id in sample_ids if id not in texts), None)
    if missing is not None:
        raise NotFoundError(f"sample {missing} is not in the database.")
    return texts


def group_samples(
    session: Session,
    run_id: str,
    group_id: str,
    *,
    limit: int | None = None,
    grader_id: int | None = None,
) -> list[GroupMember]:
    """Return a question and its neighbors in a run with their samples, the original first.

    Args:
        limit: samples of each, the first ones; None returns all.

    Raises:
        NotFoundError: the run has no such group.
    """
    members = read_problems(
        session,
        [RunProblemRow.run_id == run_id, RunProblemRow.group_id == group_id],
        RunProblemRow.variant,
        None,
    )
    if not members:
        raise NotFoundError(f"the run has no question {group_id!r}; its groups are named by question ids.")
    grader = _grader(session, run_id, grader_id)
    return [GroupMember(member, tuple(_headers(session, member.id, grader, [], limit))) for member in members]


def _grader(session: Session, run_id: str, grader_id: int | None) -> int | None:
    if grader_id is not None:
        return grader_id
    shown = shown_grader(session, run_id)
    return None if shown is None else shown.id


def _graded_counts(session: Session, run_id: str) -> tuple[ShownGrader | None, list[ProblemCounts]]:
    """Return the version whose grades are shown, and what it counts."""
    shown = read_overviews(session, [find_run(session, run_id)])[0].grader
    return shown, count_samples(session, run_id, None if shown is None else shown.id)


def _by_rate(
    session: Session,
    run_id: str,
    conditions: Sequence[ColumnElement[bool]],
    here: RunProblem | None,
    limit: int,
    descending: bool,
    grader_id: int | None,
) -> list[CountedProblem]:
    """Sort by rate in memory: a run has hundreds of problems, and their rates are counted anyway."""
    problems = {one.id: one for one in read_problems(session, conditions, RunProblemRow.position, None)}
    if here is not None:
        problems[here.id] = here
    counted = [
        CountedProblem(problems[counts.run_problem_id], counts)
        for counts in count_samples(session, run_id, grader_id)
        if counts.run_problem_id in problems
    ]
    counted.sort(key=lambda one: (one.rate is None, (one.rate or 0.0) * (-1 if descending else 1)))
    first = 0 if here is None else [one.problem.id for one in counted].index(here.id) + 1
    return counted[first : first + limit]


def _read_problem(session: Session, run_id: str, run_problem_id: int) -> RunProblem:
    conditions = [RunProblemRow.id == run_problem_id, RunProblemRow.run_id == run_id]
    found = read_problems(session, conditions, RunProblemRow.position, 1)
    if not found:
        raise NotFoundError(f"problem {run_problem_id} is not in the run.")
    return found[0]


def _headers(
    session: Session,
    run_problem_id: int,
    grader_id: int | None,
    conditions: Sequence[ColumnElement[bool]],
    limit: int | None,
) -> list[SampleHeader]:
    rows = session.execute(
        select(
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
        )
        .outerjoin(GradeRow, and_(GradeRow.sample_id == SampleRow.id, GradeRow.grader_id == grader_id))
        .where(SampleRow.run_problem_id == run_problem_id, *conditions)
        .order_by(SampleRow.ordinal)
        .limit(limit)
    )
    return [SampleHeader(*cast(tuple[Any, ...], row)) for row in rows]
