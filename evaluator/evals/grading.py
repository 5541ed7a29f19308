"""Grading an eval run: every sample without a grade of this version of the grader, a few at a time."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Table, and_, exists, func, select
from sqlalchemy.orm import Session, aliased

from evaluator.benchmarks.catalogue import is_secret
from evaluator.evals.problems import RunProblem, run_problems
from evaluator.evals.samples import read_texts
from evaluator.evals.tables import (
    GradeCountsRow,
    GradeRow,
    RunProblemRow,
    SampleCountsRow,
    SampleRow,
)
from evaluator.grading import GRADER_VERSION, Grade, GradeCase, Grader
from evaluator.grading.versions import answers_of, find_grader, grader_id
from service.database import Database, in_parts, upsert
from service.runs.store import Run
from service.telling import TellProgress

SAMPLES_PER_COMMIT = 500
CHARACTERS_PER_COMMIT = 8_000_000
LONGEST_EXTRACTED = 1_000

_GRADES = cast(Table, GradeRow.__table__)


@dataclass(frozen=True)
class Graded:
    """What grading did: new grades by value."""

    correct: int
    wrong: int
    unknown: int

    @property
    def samples(self) -> int:
        return self.correct + self.wrong + self.unknown


def grade_run(
    db: Database,
    run_id: str,
    grader: Grader,
    report: TellProgress,
    *,
    version: str = GRADER_VERSION,
) -> Graded:
    """Grade all samples of a run that have no grade of this version; each part is committed at once.

    The version says which answers count, see `version_taking`. Another process may grade the same run: the
    first grade of a sample stays. Of an answer of more than 1,000 characters its beginning and its length are
    kept.
    """
    with db.write() as session:
        grader_row = grader_id(session, version)
    with db.read() as session:
        ungraded = _ungraded(session, run_id, grader_row)
        problems = [problem for problem in run_problems(session, run_id) if ungraded[problem.id]]
    total = sum(ungraded.values())
    values: Counter[str] = Counter()
    done = 0
    report(done, total)
    boxed_only = answers_of(version) == "boxed"
    parts = _parts(db, problems, grader_row, boxed_only=boxed_only)
    for part, cases in parts:
        grades = grader.grade_many(cases)
        rows = [
            grade_row(sample_id, problem.id, grader_row, grade)
            for (sample_id, problem), grade in zip(part, grades, strict=True)
        ]
        with db.write() as session:
            session.execute(upsert(_GRADES).on_conflict_do_nothing(), rows)
        values.update(grade.value for grade in grades)
        done += len(part)
        report(done, max(total, done))
    return Graded(values["correct"], values["wrong"], values["unknown"])


_Samples = list[tuple[int, RunProblem]]
_Part = tuple[_Samples, list[GradeCase]]


def _parts(
    db: Database, problems: Sequence[RunProblem], grader_row: int, *, boxed_only: bool
) -> Iterator[_Part]:
    """Yield samples without a grade, problem by problem; golds that repeat are parsed once."""
    samples: _Samples = []
    cases: list[GradeCase] = []
    characters = 0
    for problem in problems:
        with db.read() as session:
            graded = exists().where(GradeRow.sample_id == SampleRow.id, GradeRow.grader_id == grader_row)
            of_problem = select(SampleRow.id).where(SampleRow.run_problem_id == problem.id, ~graded)
            waiting = session.scalars(of_problem.order_by(SampleRow.ordinal)).all()
        for part in in_parts(waiting, SAMPLES_PER_COMMIT):
            with db.read() as session:
                texts = read_texts(session, part)
            for sample_id in part:
                text = texts[sample_id]
                samples.append((sample_id, problem))
                cases.append(GradeCase(text, problem.answer, problem.kind, problem.tolerance, boxed_only))
                characters += len(text)
                if len(samples) >= SAMPLES_PER_COMMIT or characters >= CHARACTERS_PER_COMMIT:
                    yield samples, cases
                    samples, cases, characters = [], [], 0
    if samples:
        yield samples, cases


def _ungraded(session: Session, run_id: str, grader_row: int) -> dict[int, int]:
    """Return by problem of the run how many samples have no grade of this version, from the counts."""
    graded = and_(GradeCountsRow.run_problem_id == RunProblemRow.id, GradeCountsRow.grader_id == grader_row)
    grades = GradeCountsRow.correct + GradeCountsRow.wrong + GradeCountsRow.unknown
    rows = session.execute(
        select(RunProblemRow.id, (SampleCountsRow.samples - func.coalesce(grades, 0)).label("ungraded"))
        .join(SampleCountsRow, SampleCountsRow.run_problem_id == RunProblemRow.id)
        .outerjoin(GradeCountsRow, graded)
        .where(RunProblemRow.run_id == run_id)
    )
    return {row.id: row.ungraded for row in rows}


def grade_row(sample_id: int, run_problem_id: int, grader_row: int, grade: Grade) -> dict[str, object]:
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


def grade_changes(session: Session, run: Run, old: str, new: str) -> list[dict[str, Any]]:
    """Return the samples of a run whose grades by two versions differ, by problem and ordinal.

    Each has both reasons, extracted answers and their sources; for a gated benchmark no gold and no answers.
    """
    before, after = aliased(GradeRow), aliased(GradeRow)
    old_row, new_row = find_grader(session, old) or -1, find_grader(session, new) or -1
    problems = {problem.id: problem for problem in run_problems(session, run.id)}
    parts = {"": "value", "_reason": "reason", "_extracted": "extracted", "_source": "source"}
    columns = [
        getattr(grade, column).label(f"{side}{suffix}")
        for side, grade in (("old", before), ("new", after))
        for suffix, column in parts.items()
    ]
    rows = session.execute(
        select(before.run_problem_id, SampleRow.ordinal, *columns)
        .join(after, after.sample_id == before.sample_id)
        .join(SampleRow, SampleRow.id == before.sample_id)
        .join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
        .where(
            RunProblemRow.run_id == run.id,
            before.grader_id == old_row,
            after.grader_id == new_row,
            before.value != after.value,
        )
        .order_by(RunProblemRow.position, SampleRow.ordinal)
    )
    secret = is_secret(run.spec["problems"])
    changes = []
    for row in rows.mappings():
        problem = problems[row["run_problem_id"]]
        change = {
            "position": problem.position,
            "problem_id": problem.problem_id,
            "gold": problem.answer,
            **row,
        }
        del change["run_problem_id"]
        if secret:
            change |= dict.fromkeys(("gold", "old_extracted", "new_extracted"))
        changes.append(change)
    return changes
