"""Eval runs in numbers: problems, samples, grades of the version that is shown. From counts, so at once."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Float, case, cast, func, select
from sqlalchemy.orm import Session

from evaluator.evals.results import run_answers
from evaluator.evals.sources import Sources, read_sources
from evaluator.evals.tables import GradeCountsRow, RunProblemRow, SampleCountsRow
from evaluator.grading.versions import GraderRow, preference
from service.runs.store import Run


@dataclass(frozen=True)
class ShownGrader:
    """A version of the grader in a run; `complete` where it graded every sample of the run."""

    id: int
    version: str
    complete: bool


@dataclass(frozen=True)
class RunOverview:
    """A run with its numbers; grades are of `grader`, None where nothing is graded yet.

    `groups` is below `problems` where questions stand with their neighbors. `mean` is the mean of the
    problems' rates (pass@1), unknown counted wrong; None unless every problem has a graded sample.
    `fewest` and `most` are samples of a problem, `sources` where in the samples the answers were found.
    """

    run: Run
    grader: ShownGrader | None
    problems: int
    groups: int
    samples: int
    fewest: int
    most: int
    truncated: int
    correct: int
    wrong: int
    unknown: int
    mean: float | None
    sources: Sources

    @property
    def graded(self) -> int:
        return self.correct + self.wrong + self.unknown


def read_overviews(session: Session, runs: Sequence[Run]) -> list[RunOverview]:
    """Return these eval runs with their numbers, in their order."""
    ids = [run.id for run in runs]
    sizes = {row.run_id: row for row in session.execute(_sizes(ids))} if ids else {}
    grades: dict[str, list[Any]] = defaultdict(list)
    for row in session.execute(_grades(ids)) if ids else ():
        grades[row.run_id].append(row)
    found = [_overview(run, sizes.get(run.id), grades[run.id]) for run in runs]
    sources = read_sources(session, {one.run.id: one.grader.id for one in found if one.grader is not None})
    return [replace(one, sources=sources.get(one.run.id, one.sources)) for one in found]


def _sizes(ids: list[str]) -> Any:
    counted = SampleCountsRow
    return (
        select(
            RunProblemRow.run_id,
            func.count().label("problems"),
            func.count(RunProblemRow.group_id.distinct()).label("groups"),
            func.sum(counted.samples).label("samples"),
            func.min(counted.samples).label("fewest"),
            func.max(counted.samples).label("most"),
            func.sum(counted.truncated).label("truncated"),
        )
        .join(counted, counted.run_problem_id == RunProblemRow.id)
        .where(RunProblemRow.run_id.in_(ids))
        .group_by(RunProblemRow.run_id)
    )


def _grades(ids: list[str]) -> Any:
    counted = GradeCountsRow
    graded = counted.correct + counted.wrong + counted.unknown
    return (
        select(
            RunProblemRow.run_id,
            GraderRow.id,
            GraderRow.version,
            func.sum(counted.correct).label("correct"),
            func.sum(counted.wrong).label("wrong"),
            func.sum(counted.unknown).label("unknown"),
            func.sum(graded).label("graded"),
            func.sum(case((graded > 0, 1), else_=0)).label("problems"),
            func.sum(cast(counted.correct, Float) / graded).label("rates"),
        )
        .join(counted, counted.run_problem_id == RunProblemRow.id)
        .join(GraderRow, GraderRow.id == counted.grader_id)
        .where(RunProblemRow.run_id.in_(ids))
        .group_by(RunProblemRow.run_id, GraderRow.id)
    )


def _overview(run: Run, size: Any, grades: Sequence[Any]) -> RunOverview:
    samples = size.samples if size else 0
    complete = [row for row in grades if row.graded == samples]
    # This installation's version if it graded all, else the newest that did, else the newest of any.
    answers = run_answers(run)
    shown = max(
        complete or grades,
        key=lambda row: preference(row.id, row.version, answers, complete=bool(complete)),
        default=None,
    )
    problems = size.problems if size else 0
    return RunOverview(
        run=run,
        grader=None if shown is None else ShownGrader(shown.id, shown.version, bool(complete)),
        problems=problems,
        groups=size.groups if size else 0,
        samples=samples,
        fewest=size.fewest if size else 0,
        most=size.most if size else 0,
        truncated=size.truncated if size else 0,
        correct=shown.correct if shown else 0,
        wrong=shown.wrong if shown else 0,
        unknown=shown.unknown if shown else 0,
        mean=shown.rates / problems if shown and shown.problems == problems else None,
        sources=Sources(),
    )
