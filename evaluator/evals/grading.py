"""Grading an eval run: every sample without a grade of this version of the grader, a few at a time."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from sqlalchemy import Table, exists, select
from sqlalchemy.orm import Session, aliased

from evaluator.benchmarks.catalogue import is_secret
from evaluator.evals.problems import run_problems
from evaluator.evals.samples import read_texts
from evaluator.evals.tables import GradeRow, ProblemRow, RunProblemRow, SampleRow
from evaluator.grading import GRADER_VERSION, Grade, GradeCase, Grader
from evaluator.grading.versions import answers_of, find_grader, grader_id
from service.database import Database, in_parts, upsert
from service.runs.store import Run
from service.telling import TellProgress

SAMPLES_PER_COMMIT = 500
LONGEST_EXTRACTED = 1_000

_INSERT = upsert(cast(Table, GradeRow.__table__)).on_conflict_do_nothing()


def grade_run(
    db: Database,
    run_id: str,
    grader: Grader,
    report: TellProgress,
    *,
    version: str = GRADER_VERSION,
) -> Counter[str]:
    """Grade all samples of a run that have no grade of this version; return the new grades by value.

    Each part is committed at once. Another process may grade the same run: the first grade of a sample stays.
    """
    with db.write() as session:
        grader_row = grader_id(session, version)
    graded = exists().where(GradeRow.sample_id == SampleRow.id, GradeRow.grader_id == grader_row)
    query = (
        select(SampleRow.id, SampleRow.run_problem_id)
        .join(RunProblemRow)
        .where(RunProblemRow.run_id == run_id, ~graded)
        .order_by(RunProblemRow.position, SampleRow.ordinal)  # golds that repeat are parsed once
    )
    with db.read() as session:
        problems = {problem.id: problem for problem in run_problems(session, run_id)}
        waiting = [(id, problems[place]) for id, place in session.execute(query)]
    values: Counter[str] = Counter()
    report(0, len(waiting))
    boxed_only = answers_of(version) == "boxed"
    for part in in_parts(waiting, SAMPLES_PER_COMMIT):
        with db.read() as session:
            texts = read_texts(session, [id for id, _ in part])
        grades = grader.grade_many(
            [
                GradeCase(texts[id], problem.answer, problem.kind, problem.tolerance, boxed_only)
                for id, problem in part
            ]
        )
        rows = [
            grade_row(id, problem.id, grader_row, grade)
            for (id, problem), grade in zip(part, grades, strict=True)
        ]
        with db.write() as session:
            insert_grades(session, rows)
        values.update(grade.value for grade in grades)
        report(values.total(), len(waiting))
    return values


def insert_grades(session: Session, rows: Sequence[dict[str, Any]]) -> list[None]:
    """Write rows of the table of grades; a sample keeps the grade that it has."""
    if rows:
        session.connection().execute(_INSERT, list(rows))
    return [None] * len(rows)


def grade_row(sample_id: int, run_problem_id: int, grader_row: int, grade: Grade) -> dict[str, Any]:
    """Return a row of the table of grades."""
    return {
        "sample_id": sample_id,
        "grader_id": grader_row,
        "run_problem_id": run_problem_id,
        "value": grade.value.value,
        "reason": grade.reason,
        "extracted": shorten_answer(grade.extracted),
        "source": grade.source or None,
    }


def shorten_answer(answer: str | None) -> str | None:
    """Return an extracted answer as it is stored: long ones by their beginning and length."""
    if answer is None or len(answer) <= LONGEST_EXTRACTED:
        return answer
    return f"{answer[:LONGEST_EXTRACTED]}... ({len(answer):,} characters)"


def grade_changes(
    session: Session, run: Run, old: str, new: str, sides: tuple[str, str] = ("old", "new")
) -> list[dict[str, Any]]:
    """Return the samples of a run whose grades by two versions differ, by problem and ordinal.

    Each has both reasons, extracted answers and their sources, by names that begin with `sides`; for a gated
    benchmark no gold and no answers.
    """
    before, after = aliased(GradeRow), aliased(GradeRow)
    parts = {"": "value", "_reason": "reason", "_extracted": "extracted", "_source": "source"}
    columns = [
        getattr(grade, column).label(f"{side}{suffix}")
        for side, grade in zip(sides, (before, after), strict=True)
        for suffix, column in parts.items()
    ]
    rows = session.execute(
        select(
            RunProblemRow.position,
            RunProblemRow.problem_id,
            ProblemRow.answer.label("gold"),
            SampleRow.ordinal,
            *columns,
        )
        .join(after, after.sample_id == before.sample_id)
        .join(SampleRow, SampleRow.id == before.sample_id)
        .join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
        .join(ProblemRow, ProblemRow.id == RunProblemRow.problem_id)
        .where(
            RunProblemRow.run_id == run.id,
            before.grader_id == find_grader(session, old),
            after.grader_id == find_grader(session, new),
            before.value != after.value,
        )
        .order_by(RunProblemRow.position, SampleRow.ordinal)
    )
    hidden = ("gold", *(f"{side}_extracted" for side in sides)) if is_secret(run.spec["problems"]) else ()
    return [{**row, **dict.fromkeys(hidden)} for row in rows.mappings()]
