"""Responses of other tools as runs: brought into a database, and what an export of them has to bring back."""

from typing import Any

from sqlalchemy import select

from evaluator.evals.tables import ProblemRow, RunProblemRow, SampleRow, SampleTextRow
from evaluator.exchange.files import ResponseFile
from evaluator.exchange.importing import FromFile, Matcher, import_responses, survey
from service.database import Database
from service.runs.store import Run
from service.telling import TellProgress


def nothing(done: int, total: int) -> None:
    """Report to nobody."""


def bring(
    db: Database,
    file: ResponseFile,
    name: str = "run",
    matcher: Matcher | None = None,
    report: TellProgress = nothing,
) -> tuple[Run, int, int]:
    """Import a file as the command does, by default its own questions; return run, new and old samples."""
    matcher = matcher or FromFile("own")
    read = survey(file.read(), matcher)
    spec = {"problems": "own", "size": len(read.problems), "source": {}, "model": "m"}
    return import_responses(db, name, file, matcher, read, report, **spec)


def stored(db: Database, run: Run) -> list[tuple[Any, ...]]:
    """All that an export has to bring back, in order."""
    query = (
        select(
            RunProblemRow.position,
            RunProblemRow.group_id,
            RunProblemRow.variant,
            RunProblemRow.source_id,
            RunProblemRow.strategy,
            ProblemRow.id,
            SampleRow.ordinal,
            SampleRow.stop_reason,
            SampleRow.prompt_tokens,
            SampleRow.completion_tokens,
            SampleRow.seed,
            SampleTextRow.text,
        )
        .join(ProblemRow, ProblemRow.id == RunProblemRow.problem_id)
        .join(SampleRow, SampleRow.run_problem_id == RunProblemRow.id)
        .join(SampleTextRow, SampleTextRow.sample_id == SampleRow.id)
        .where(RunProblemRow.run_id == run.id)
        .order_by(RunProblemRow.position, SampleRow.ordinal)
    )
    with db.read() as session:
        return [tuple(row) for row in session.execute(query)]
