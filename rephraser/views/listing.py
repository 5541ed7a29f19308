"""All runs with their sizes and cost, without judging where each one stands."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from rephraser.tables import ProposalRow
from service.runs.ledger import read_ledger
from service.runs.store import Run, list_runs
from service.runs.tables import RunQuestionRow


@dataclass(frozen=True)
class RunHeader:
    """A run with its numbers of questions and candidates, and its cost; None where a price is not known."""

    run: Run
    questions: int
    candidates: int
    usd: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form; the spec is in `runs show`."""
        return {
            "run": self.run.name,
            "run_id": self.run.id,
            "kind": self.run.kind,
            "questions": self.questions,
            "proposer": self.run.spec["proposer"],
            "model": self.run.spec["model"],
            "solvers": [solver["model"] for solver in self.run.spec["solvers"]],
            "candidates": self.candidates,
            "usd": self.usd,
            "created_at": self.run.created_at,
            "finished_at": self.run.finished_at,
        }


def list_headers(session: Session) -> list[RunHeader]:
    """Return all runs that propose candidates, oldest first."""
    questions, candidates = _count_by_run(session, RunQuestionRow), _count_by_run(session, ProposalRow)
    return [
        RunHeader(run, questions.get(run.id, 0), candidates.get(run.id, 0), _usd(session, run))
        for run in list_runs(session)
        if run.kind == "propose"
    ]


def _usd(session: Session, run: Run) -> float | None:
    ledger = read_ledger(session, run.id)
    return None if any(line.unpriced for line in ledger) else sum((line.usd for line in ledger), 0.0)


def _count_by_run(session: Session, table: type[RunQuestionRow] | type[ProposalRow]) -> dict[str, int]:
    counted = select(table.run_id, func.count().label("number")).group_by(table.run_id)
    return {row.run_id: row.number for row in session.execute(counted)}
