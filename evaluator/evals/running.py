"""Drives an eval run: plan what is missing, have it drawn, look again, grade."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from evaluator.evals.grading import Graded, grade_run
from evaluator.evals.problems import run_problems
from evaluator.evals.samples import EvalWork, plan_samples
from evaluator.evals.spec import MAX_SAMPLES, EvalSpec
from evaluator.evals.tables import RunProblemRow, SampleRow
from evaluator.grading import Grader
from evaluator.grading.versions import version_taking
from service.database import Database
from service.errors import InputError
from service.models.protocol import Sampler
from service.runs.cells import open_cells, release_dead_leases, reopen_failed_cells
from service.runs.store import Run, finish_run

OTHERS_POLL_S = 1.0

Report = Callable[[str, int, int | None, str], None]
"""Told a stage (sampling, waiting, grading), how much is done, of how much, and a few words."""


@dataclass(frozen=True)
class EvalOutcome:
    """What one invocation did.

    `drawn` samples are new, those of other processes included; `missing` are still to be drawn of `n` for
    each problem. `stopped` says why sampling stopped before (budget, interrupted, failing, ...), `message` in
    a sentence; `failures` counts failed requests by kind.
    """

    drawn: int
    missing: int
    graded: Graded
    stopped: str | None = None
    message: str | None = None
    failures: dict[str, int] = field(default_factory=dict)


def run_eval(
    db: Database, run: Run, sampler: Sampler, n: int, report: Report, *, grader: Grader
) -> EvalOutcome:
    """Draw what is missing of `n` samples a problem, then grade all samples.

    Several processes may work on one run. Samples there already are never drawn again, so a larger `n` draws
    only the difference. Grading happens whatever stopped the sampling, except an interruption.

    Raises:
        InputError: `n` is less than 1 or more than 100,000.
    """
    check_n(n)
    drawing = _draw(db, run, sampler, n, report)
    graded = Graded(0, 0, 0)
    if drawing.stopped != "interrupted":
        graded = grade_run(
            db,
            run.id,
            grader,
            lambda done, total: report("grading", done, total, ""),
            version=version_taking(EvalSpec.from_json(run.spec).answers),
        )
    return EvalOutcome(
        drawing.drawn,
        drawing.missing,
        graded,
        drawing.stopped,
        drawing.message,
        dict(drawing.failures),
    )


def check_n(n: int) -> None:
    """Raise `InputError` where `n` samples a problem cannot be drawn."""
    if not 1 <= n <= MAX_SAMPLES:
        raise InputError(f"{n} samples a problem; give 1 to {MAX_SAMPLES:,}.")


def samples_missing(session: Session, run_id: str, n: int) -> int:
    """Return how many of `n` samples for each problem of a run are not there."""
    problems = session.scalar(
        select(func.count()).select_from(RunProblemRow).where(RunProblemRow.run_id == run_id)
    )
    there = session.scalar(
        select(func.count())
        .select_from(SampleRow)
        .join(RunProblemRow, RunProblemRow.id == SampleRow.run_problem_id)
        .where(RunProblemRow.run_id == run_id, SampleRow.ordinal < n)
    )
    return (problems or 0) * n - (there or 0)


@dataclass
class _Drawing:
    drawn: int = 0
    missing: int = 0
    stopped: str | None = None
    message: str | None = None
    failures: Counter[str] = field(default_factory=Counter)


def _draw(db: Database, run: Run, sampler: Sampler, n: int, report: Report) -> _Drawing:
    spec = EvalSpec.from_json(run.spec)
    with db.write() as session:
        release_dead_leases(session, run.id)
        reopen_failed_cells(session, run.id)
        finish_run(session, run.id, finished=False)
        problems = run_problems(session, run.id)
        missing = samples_missing(session, run.id, n)
    work = EvalWork(db, run.id, spec, {problem.id: problem for problem in problems})
    begun, total = missing, n * len(problems)
    found = _Drawing()
    while missing:
        with db.write() as session:
            release_dead_leases(session, run.id)
            plan_samples(session, run.id, problems, n, spec.sampling.samples_per_request)
        filled = sampler.fill(work, _Progress(report, total - missing, total))
        found.failures.update(filled.failures)
        before = missing
        with db.read() as session:
            missing = samples_missing(session, run.id, n)
            elsewhere = open_cells(session, run.id)
        if filled.stopped is not None:
            found.stopped, found.message = filled.stopped, filled.message
            break
        if missing < before:
            continue
        if not elsewhere:
            break  # only requests that failed are left
        report("waiting for another process", total - missing, total, f"{elsewhere:,} requests")
        time.sleep(OTHERS_POLL_S)
    found.drawn, found.missing = begun - missing, missing
    with db.write() as session:
        finish_run(session, run.id, finished=missing == 0)
    return found


class _Progress:
    """Turns a sampler's steps into the state of the run."""

    def __init__(self, report: Report, there: int, total: int) -> None:
        self._report, self._there, self._total = report, there, total

    def __call__(self, drawn: int, words: str) -> None:
        self._there += drawn
        self._report("sampling", min(self._there, self._total), self._total, words)
