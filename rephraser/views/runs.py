"""Runs with their size, cost and progress."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from rephraser.proposing.parsing import ParseResult
from rephraser.reviews.status import CandidateStatus, current_statuses
from rephraser.run.spec import RunSpec
from rephraser.run.store import KIND
from rephraser.tables import CandidateFindingRow, ProposalRow, StandingRow, VerdictRow
from rephraser.verdict import Verdict
from rephraser.views.questions import find_suspects
from service.asks.tables import AskRow
from service.runs.progress import frequent_errors, progress_of
from service.runs.spending import known_cost, read_ledger
from service.runs.store import Run, list_runs, run_question_ids
from service.runs.tables import RunQuestionRow

ERRORS_SHOWN = 20


def list_records(session: Session) -> list[tuple[Run, dict[str, Any]]]:
    """Return all runs that propose candidates, oldest first, with their size and cost.

    The cost is None if a price is not known; the spec is in `runs show`.
    """
    questions, candidates = (
        dict(session.execute(select(row.run_id, func.count()).group_by(row.run_id)).all())
        for row in (RunQuestionRow, ProposalRow)
    )
    records = []
    for run in list_runs(session, KIND):
        record = {
            "questions": questions.get(run.id, 0),
            "proposer": run.spec["proposer"],
            "model": run.spec["model"],
            "solvers": [solver["model"] for solver in run.spec["solvers"]],
            "candidates": candidates.get(run.id, 0),
            "usd": known_cost(session, run.id),
        }
        records.append((run, record))
    return records


def summarize(session: Session, run: Run) -> dict[str, Any]:
    """Return the state of a run as one JSON object.

    `complete` counts questions with all n neighbors (unverified, if no solver). `unreadable` is what was
    wrong with answers of the proposer, `suspects` counts questions whose gold the solvers contradict, and
    `unreadable_questions` those of whose own answers too few can be read for any verdict. `failed_questions`
    lack a request that failed, `final_questions` one that failed for good.
    """
    spec = RunSpec.from_json(run.spec)
    question_ids = run_question_ids(session, run.id)
    statuses: dict[str, list[CandidateStatus]] = {}
    for status in current_statuses(session, run.id):
        statuses.setdefault(status.question_id, []).append(status)
    neighbors = {
        question_id: sum(c.status in spec.counting and c.final for c in statuses.get(question_id, []))
        for question_id in question_ids
    }
    unreadable = _unreadable_questions(session, run.id, spec)
    [progress] = progress_of(session, [run])
    by_status = _count_statuses([each for candidates in statuses.values() for each in candidates])
    unfinished = [
        {"question_id": id, "neighbors": count, "reason": _why(statuses.get(id, []), id in unreadable)}
        for id, count in neighbors.items()
        if count < spec.n
    ]
    outcome = AskRow.outcome
    bad = select(outcome, func.count()).where(AskRow.scope == run.id, outcome != ParseResult.OK.value)
    return {
        "run": run.name,
        "run_id": run.id,
        "questions": len(question_ids),
        "complete": sum(count >= spec.n for count in neighbors.values()),
        "wanted": spec.n,
        "compared_answers": bool(spec.solvers),
        "questions_by_neighbors": dict(sorted(Counter(min(c, spec.n) for c in neighbors.values()).items())),
        "candidates": by_status,
        "findings": finding_counts(session, run.id),
        "unreadable": {str(name): count for name, count in session.execute(bad.group_by(outcome))},
        "open_questions": progress.open,
        "failed_questions": progress.failed,
        "final_questions": progress.final,
        "errors": frequent_errors(session, run.id, limit=ERRORS_SHOWN),
        "suspects": len(find_suspects(session, run_id=run.id)) if spec.solvers else 0,
        "unreadable_questions": len(unreadable),
        "unfinished": unfinished,
        "ledger": read_ledger(session, run.id),
    }


def finding_counts(session: Session, run_id: str) -> dict[str, int]:
    """Return the numbers of a run's candidates by finding, frequent ones first."""
    name, counted = CandidateFindingRow.name, func.count(CandidateFindingRow.candidate_id.distinct())
    query = select(name, counted).where(CandidateFindingRow.run_id == run_id).group_by(name)
    return dict(session.execute(query.order_by(counted.desc(), name)).all())


def _count_statuses(candidates: Iterable[CandidateStatus]) -> dict[str, int]:
    words = (str(each.status) if each.final else "awaiting answers" for each in candidates)
    return dict(sorted(Counter(words).items()))


def _why(candidates: Iterable[CandidateStatus], unreadable: bool) -> str:
    reasons = [f"{count} {status}" for status, count in _count_statuses(candidates).items()]
    reasons = reasons or ["no candidate"]
    if unreadable:
        reasons.append("too many answers to the question are truncated or cannot be parsed")
    return ", ".join(reasons)


def _unreadable_questions(session: Session, run_id: str, spec: RunSpec) -> set[str]:
    """Return the questions of whose own answers too few could be read for any verdict."""
    rows = session.execute(
        select(StandingRow.question_id, VerdictRow.evidence)
        .join(VerdictRow, VerdictRow.id == StandingRow.verdict_id)
        .where(StandingRow.run_id == run_id, VerdictRow.status == Verdict.UNDECIDED)
        .execution_options(yield_per=1000)
    )
    most = spec.rule.max_unparsed_share * spec.rule.original_samples
    return {id for id, evidence in rows if evidence.get("counts", {}).get("original_unparsed", 0) > most}
