"""Runs: all of them with their sizes and cost, and where each one stands.

How many questions of a run have their neighbors, what happened to the rest, what it cost.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from rephraser.reviews.status import statuses_by_question
from rephraser.run.plan import counted_neighbors, unreadable_questions
from rephraser.run.spec import PROPOSE, RunSpec
from rephraser.run.start import KIND
from rephraser.tables import ProposalRow
from rephraser.views.questions import finding_counts
from rephraser.views.suspects import find_suspects
from service.runs.progress import count_states, frequent_errors
from service.runs.spending import LedgerLine, known_cost, read_ledger
from service.runs.store import Run, find_run, list_runs, run_question_ids
from service.runs.tables import EMPTY, FAILED, FINAL, CellRow, RunQuestionRow

ERRORS_SHOWN = 20


@dataclass(frozen=True)
class RunHeader:
    """A run with its numbers of questions and candidates, and its cost; None where a price is not known."""

    run: Run
    questions: int
    candidates: int
    usd: float | None

    @property
    def proposed_by(self) -> str:
        return proposed_by(self.run.spec)

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form; the spec is in `runs show`."""
        return {
            "questions": self.questions,
            "proposer": self.run.spec["proposer"],
            "model": self.run.spec["model"],
            "solvers": [solver["model"] for solver in self.run.spec["solvers"]],
            "candidates": self.candidates,
            "usd": self.usd,
        }


def proposed_by(spec: Mapping[str, Any]) -> str:
    """Return the model of a run's spec, or "rules" or "file"."""
    return str(spec["model"] if spec["proposer"] == "llm" else spec["proposer"])


def list_headers(session: Session) -> list[RunHeader]:
    """Return all runs that propose candidates, oldest first."""
    questions, candidates = _count_by_run(session, RunQuestionRow), _count_by_run(session, ProposalRow)
    return [
        RunHeader(run, questions.get(run.id, 0), candidates.get(run.id, 0), known_cost(session, run.id))
        for run in list_runs(session)
        if run.kind == KIND
    ]


@dataclass(frozen=True)
class Unfinished:
    """A question with fewer neighbors than wanted, and why."""

    question_id: str
    neighbors: int
    reason: str


@dataclass(frozen=True)
class RunSummary:
    """A run in numbers. `complete` counts questions with all n neighbors (unverified, if no solver).

    Neighbors in the runs that it tops up count.
    """

    run: str
    run_id: str
    tops_up: tuple[str, ...]  # names of runs
    questions: int
    complete: int
    wanted: int
    compared_answers: bool
    questions_by_neighbors: dict[int, int]
    candidates: dict[str, int]  # by status
    findings: dict[str, int]  # candidates by the findings of their structural checks
    unreadable: dict[str, int]  # what was wrong with answers of the proposer
    open_requests: int
    failed_requests: int
    final_requests: int  # failed for good: not asked again
    errors: dict[str, int]
    suspects: int  # questions whose gold the solvers contradict
    unreadable_questions: int  # of whose own answers too few can be read for any verdict
    unfinished: tuple[Unfinished, ...]
    ledger: tuple[LedgerLine, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form."""
        return asdict(self)


def summarize(session: Session, run: Run) -> RunSummary:
    """Return the state of a run as the database has it."""
    spec = RunSpec.from_json(run.spec)
    question_ids = run_question_ids(session, run.id)
    statuses = statuses_by_question(session, run.id)
    elsewhere = counted_neighbors(session, spec)
    neighbors = {
        question_id: len(elsewhere.get(question_id, ()))
        + sum(c.status in spec.counting and c.final for c in statuses.get(question_id, []))
        for question_id in question_ids
    }
    unreadable = unreadable_questions(session, spec, question_ids)
    states = count_states(session, run.id)
    by_status = Counter(
        "awaiting answers" if not c.final else str(c.status) for cs in statuses.values() for c in cs
    )
    unfinished = [
        Unfinished(question_id, count, _why(statuses.get(question_id, []), question_id in unreadable))
        for question_id, count in neighbors.items()
        if count < spec.n
    ]
    return RunSummary(
        run=run.name,
        run_id=run.id,
        tops_up=tuple(find_run(session, reference).name for reference in spec.tops_up),
        questions=len(question_ids),
        complete=sum(count >= spec.n for count in neighbors.values()),
        wanted=spec.n,
        compared_answers=bool(spec.solvers),
        questions_by_neighbors=dict(sorted(Counter(min(c, spec.n) for c in neighbors.values()).items())),
        candidates=dict(sorted(by_status.items())),
        findings=dict(finding_counts(session, run_id=run.id, limit=None)),
        unreadable=_unreadable(session, run.id),
        open_requests=sum(count for (_, state), count in states.items() if state == EMPTY),
        failed_requests=sum(count for (_, state), count in states.items() if state == FAILED),
        final_requests=sum(count for (_, state), count in states.items() if state == FINAL),
        errors={each.error: each.cells for each in frequent_errors(session, run.id, limit=ERRORS_SHOWN)},
        suspects=len(find_suspects(session, run_id=run.id)) if spec.solvers else 0,
        unreadable_questions=len(unreadable),
        unfinished=tuple(unfinished),
        ledger=tuple(read_ledger(session, run.id)),
    )


def _count_by_run(session: Session, table: type[RunQuestionRow] | type[ProposalRow]) -> dict[str, int]:
    counted = select(table.run_id, func.count().label("number")).group_by(table.run_id)
    return {row.run_id: row.number for row in session.execute(counted)}


def _why(candidates: list[Any], unreadable: bool) -> str:
    counts = Counter("awaiting answers" if not c.final else str(c.status) for c in candidates)
    reasons = [f"{count} {status}" for status, count in sorted(counts.items())] or ["no candidate"]
    return ", ".join(reasons + ["its own answers are unreadable"] * unreadable)


def _unreadable(session: Session, run_id: str) -> dict[str, int]:
    rows = session.execute(
        select(CellRow.outcome, func.count())
        .where(
            CellRow.scope == run_id,
            CellRow.kind == PROPOSE,
            CellRow.outcome.is_not(None),
            CellRow.outcome != "ok",
        )
        .group_by(CellRow.outcome)
    )
    return {str(outcome): count for outcome, count in rows}
