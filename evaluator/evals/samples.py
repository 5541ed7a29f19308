"""Samples of an eval run: planned as cells, stored with their texts, counted by grade."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import ColumnElement, Table, and_, func, insert, select
from sqlalchemy.orm import Session

from evaluator.evals.problems import RunProblem
from evaluator.evals.tables import (
    GradeCountsRow,
    RunProblemRow,
    SampleCountsRow,
    SampleRow,
    SampleTextRow,
)
from service.models.work import Drawn, DrawnCell, SampleRequest, SamplingWork, sample_seed
from service.runs.cells import FILLED, Cell, CellPlan, add_cells, fill_cell
from service.runs.tables import CellRow

SAMPLE = "sample"
"""The kind of the cells of an eval run; one cell draws `count` samples from ordinal `first` on."""

TRUNCATED = "length"
"""The stop reason of a response that was cut at the limit of tokens."""

_LAST_SAMPLE = select(func.max(SampleRow.id))
_INSERT_SAMPLES = insert(cast(Table, SampleRow.__table__))
_INSERT_TEXTS = insert(cast(Table, SampleTextRow.__table__))


def plan_samples(
    session: Session, run_id: str, problems: Sequence[RunProblem], n: int, samples_per_request: int
) -> int:
    """Make cells for what is missing of `n` samples a problem; return the number of new cells.

    What is drawn or planned already stays, so a run of 32 samples grows to 128 by 96, and responses that a
    server left out of an answer are asked for again.
    """
    covered: dict[int, set[int]] = defaultdict(set)
    drawn = (
        select(SampleRow.run_problem_id, SampleRow.ordinal)
        .join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
        .where(RunProblemRow.run_id == run_id)
    )
    for run_problem_id, ordinal in session.execute(drawn):
        covered[run_problem_id].add(ordinal)
    attempts: dict[tuple[int, int], int] = defaultdict(int)
    cells = select(CellRow.payload, CellRow.state).where(CellRow.scope == run_id, CellRow.kind == SAMPLE)
    for payload, state in session.execute(cells):
        run_problem_id, first, count = payload["run_problem"], payload["first"], payload["count"]
        attempts[run_problem_id, first] += 1
        if state != FILLED:  # still to be drawn
            covered[run_problem_id].update(range(first, first + count))
    plans = [
        CellPlan(
            scope=run_id,
            kind=SAMPLE,
            subject_id=problem.problem_id,
            round=problem.position,  # the same problem may stand in two groups of a neighbor set
            ordinal=first,
            attempt=attempts[problem.id, first],
            payload={"run_problem": problem.id, "first": first, "count": count},
        )
        for problem in problems
        for first, count in _gaps(covered[problem.id], n, samples_per_request)
    ]
    add_cells(session, run_id, plans)
    return len(plans)


def store_samples(session: Session, cell: Cell, drawn: Sequence[Drawn], seeds: Sequence[int | None]) -> None:
    """Write what a cell brought: headers and texts. Fewer than the cell's count is fine, more is not.

    Raises:
        ValueError: more responses than the cell asked for.
    """
    count, first, run_problem = cell.payload["count"], cell.payload["first"], cell.payload["run_problem"]
    if len(drawn) > count:
        raise ValueError(f"{len(drawn)} responses for a cell of {count}")
    if not drawn:
        return
    # The write lock is held, so nobody takes these ids in between; asking for them back row by row is slow.
    next_id = (session.connection().execute(_LAST_SAMPLE).scalar() or 0) + 1
    headers = [
        {
            "id": next_id + place,
            "run_problem_id": run_problem,
            "ordinal": first + place,
            "cell_id": cell.id,
            "seed": seed,
            "stop_reason": response.stop_reason,
            "prompt_tokens": response.prompt_tokens,
            "completion_tokens": response.completion_tokens,
        }
        for place, (response, seed) in enumerate(zip(drawn, seeds, strict=False))
    ]
    connection = session.connection()
    connection.execute(_INSERT_SAMPLES, headers)
    texts = [
        {"sample_id": header["id"], "text": response.text}
        for header, response in zip(headers, drawn, strict=False)
    ]
    connection.execute(_INSERT_TEXTS, texts)


@dataclass(frozen=True)
class EvalWork(SamplingWork):
    """The empty cells of an eval run, and how to fill them."""

    def request(self, cell: Cell) -> SampleRequest:
        """Return the request of a cell; a seed follows from the run's, the problem and the ordinal."""
        problem = self.problems[cell.payload["run_problem"]]
        first, count = cell.payload["first"], cell.payload["count"]
        seeds = tuple(
            sample_seed(self.spec.sampling.seed, problem.problem_id, ordinal)
            for ordinal in range(first, first + count)
        )
        return SampleRequest(cell, problem, problem.text, count, seeds)

    def keep(self, session: Session, drawn: DrawnCell) -> None:
        """Fill a cell and write its samples in the transaction of `session`."""
        if fill_cell(session, drawn.request.cell.id, drawn.raw, drawn.receipt):
            request = drawn.request
            seeds = request.seeds if drawn.seeded else [None] * request.count
            store_samples(session, request.cell, drawn.responses, seeds)


@dataclass(frozen=True)
class ProblemCounts:
    """What is there of one problem of a run: samples drawn, cut at the limit of tokens, and their grades.

    `graded` = correct + wrong + unknown, by one version of the grader; `samples - graded` are ungraded.
    """

    run_problem_id: int
    problem_id: str
    group_id: str
    variant: int
    strategy: str | None
    samples: int
    truncated: int
    correct: int
    wrong: int
    unknown: int

    @property
    def graded(self) -> int:
        return self.correct + self.wrong + self.unknown


def count_samples(session: Session, run_id: str, grader_id: int | None) -> list[ProblemCounts]:
    """Return the counts of every problem of a run in order, with the grades of one version of the grader."""
    return _count(session, RunProblemRow.run_id == run_id, grader_id)


def count_problems(
    session: Session, run_problem_ids: Sequence[int], grader_id: int | None
) -> list[ProblemCounts]:
    """Return the counts of some problems of a run, in the order of the run."""
    return _count(session, RunProblemRow.id.in_(run_problem_ids), grader_id)


def _count(session: Session, wanted: ColumnElement[bool], grader_id: int | None) -> list[ProblemCounts]:
    graded = and_(GradeCountsRow.run_problem_id == RunProblemRow.id, GradeCountsRow.grader_id == grader_id)
    rows = session.execute(
        select(
            RunProblemRow.id,
            RunProblemRow.problem_id,
            RunProblemRow.group_id,
            RunProblemRow.variant,
            RunProblemRow.strategy,
            SampleCountsRow.samples,
            SampleCountsRow.truncated,
            func.coalesce(GradeCountsRow.correct, 0),
            func.coalesce(GradeCountsRow.wrong, 0),
            func.coalesce(GradeCountsRow.unknown, 0),
        )
        .join(SampleCountsRow, SampleCountsRow.run_problem_id == RunProblemRow.id)
        .outerjoin(GradeCountsRow, graded)
        .where(wanted)
        .order_by(RunProblemRow.position)
    )
    return [ProblemCounts(*cast(tuple[Any, ...], row)) for row in rows]


def _gaps(covered: set[int], n: int, longest: int) -> Iterator[tuple[int, int]]:
    """Yield (first, count) of the ordinals below `n` that are not covered, `longest` at most in one."""
    first = None
    for ordinal in range(n + 1):
        missing = ordinal < n and ordinal not in covered
        if missing and first is None:
            first = ordinal
        elif first is not None and (not missing or ordinal - first == longest):
            yield first, ordinal - first
            first = ordinal if missing else None
