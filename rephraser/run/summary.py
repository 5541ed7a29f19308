"""Where a run stands: how many questions have their neighbors, what happened to the rest, what it cost."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from rephraser.run.plan import PROPOSE, statuses_by_question
from rephraser.run.spec import RunSpec
from rephraser.run.topping import counted_neighbors
from rephraser.tables import VerdictRow
from rephraser.views.suspects import find_suspects
from service.runs.cells import EMPTY, FAILED, count_states
from service.runs.ledger import LedgerLine, read_ledger
from service.runs.store import Run, find_run, run_question_ids
from service.runs.tables import CellRow, RunCellRow

UNFINISHED_SHOWN = 20


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
    findings: dict[str, int]  # of the structural checks, by name
    unreadable: dict[str, int]  # what was wrong with answers of the proposer
    open_requests: int
    failed_requests: int
    errors: dict[str, int]
    suspects: int  # questions whose gold the solvers contradict
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
    states = count_states(session, run.id)
    by_status = Counter(
        "awaiting answers" if not c.final else str(c.status) for cs in statuses.values() for c in cs
    )
    unfinished = [
        Unfinished(question_id, count, _why(statuses.get(question_id, [])))
        for question_id, count in neighbors.items()
        if count < spec.n
    ]
    return RunSummary(
        run=run.name,
        run_id=run.id,
        tops_up=tuple(find_run(session, one).name for one in spec.tops_up),
        questions=len(question_ids),
        complete=sum(count >= spec.n for count in neighbors.values()),
        wanted=spec.n,
        compared_answers=bool(spec.solvers),
        questions_by_neighbors=dict(sorted(Counter(min(c, spec.n) for c in neighbors.values()).items())),
        candidates=dict(sorted(by_status.items())),
        findings=_findings(session, run.id),
        unreadable=_unreadable(session, run.id),
        open_requests=sum(count for (_, state), count in states.items() if state == EMPTY),
        failed_requests=sum(count for (_, state), count in states.items() if state == FAILED),
        errors=_errors(session, run.id),
        suspects=len(find_suspects(session, run_id=run.id)) if spec.solvers else 0,
        unfinished=tuple(unfinished),
        ledger=tuple(read_ledger(session, run.id)),
    )


def _why(candidates: list[Any]) -> str:
    if not candidates:
        return "no candidate"
    counts = Counter("awaiting answers" if not c.final else str(c.status) for c in candidates)
    return ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def _findings(session: Session, run_id: str) -> dict[str, int]:
    """Count the findings of each candidate's first verdict, which is the structural one."""
    first = (
        select(func.min(VerdictRow.id)).where(VerdictRow.run_id == run_id).group_by(VerdictRow.candidate_id)
    )
    counts: Counter[str] = Counter()
    for evidence in session.scalars(select(VerdictRow.evidence).where(VerdictRow.id.in_(first))):
        counts.update({finding["name"] for finding in evidence.get("findings", [])})
    return dict(counts.most_common())


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


def _errors(session: Session, run_id: str) -> dict[str, int]:
    rows = session.execute(
        select(CellRow.error, func.count())
        .join(RunCellRow, RunCellRow.cell_id == CellRow.id)
        .where(RunCellRow.run_id == run_id, CellRow.state == FAILED)
        .group_by(CellRow.error)
        .order_by(func.count().desc())
        .limit(UNFINISHED_SHOWN)
    )
    return {str(error): count for error, count in rows}
