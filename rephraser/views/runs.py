"""Runs with their size, cost and progress."""

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from rephraser.proposing.parsing import ParseResult
from rephraser.run.spec import KIND, RunSpec
from rephraser.tables import CandidateFindingRow, ProposalRow, StandingRow, VerdictRow
from rephraser.verdict import Verdict
from rephraser.views.questions import find_suspects
from service.asks.tables import AskRow
from service.runs.progress import frequent_errors, known_cost, progress_of
from service.runs.store import Run, list_runs
from service.runs.tables import RunQuestionRow

ERRORS_SHOWN = 20
AWAITING = "awaiting answers"


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
    unreadable = _unreadable_questions(session, run.id, spec)
    questions, by_neighbors, by_status = 0, Counter[int](), Counter[str]()
    unfinished = list[dict[str, Any]]()
    for question_id, rows in groupby(_count_candidates(session, run.id), itemgetter(0)):
        statuses = Counter[str]()
        for _, count, status, final, reviewed in rows:
            statuses[status if final or reviewed else AWAITING] += count
        statuses = +statuses
        neighbors = sum(count for status, count in statuses.items() if status in spec.counting)
        questions += 1
        by_neighbors[min(neighbors, spec.n)] += 1
        by_status.update(statuses)
        if neighbors < spec.n:
            reasons = [f"{count} {status}" for status, count in sorted(statuses.items())] or ["no candidate"]
            if question_id in unreadable:
                reasons.append("too many answers to the question are truncated or cannot be parsed")
            reason = ", ".join(reasons)
            unfinished.append({"question_id": question_id, "neighbors": neighbors, "reason": reason})
    [progress] = progress_of(session, [run])
    outcome = AskRow.outcome
    bad = select(outcome, func.count()).where(AskRow.scope == run.id, outcome != ParseResult.OK.value)
    return {
        "run": run.name,
        "run_id": run.id,
        "questions": questions,
        "complete": by_neighbors[spec.n],
        "wanted": spec.n,
        "compared_answers": bool(spec.solvers),
        "questions_by_neighbors": dict(sorted(by_neighbors.items())),
        "candidates": dict(sorted(by_status.items())),
        "findings": finding_counts(session, run.id),
        "unreadable": {str(name): count for name, count in session.execute(bad.group_by(outcome))},
        "open_questions": progress.open,
        "failed_questions": progress.failed,
        "final_questions": progress.final,
        "errors": frequent_errors(session, run.id, limit=ERRORS_SHOWN),
        "suspects": len(find_suspects(session, run_id=run.id)) if spec.solvers else 0,
        "unreadable_questions": len(unreadable),
        "unfinished": unfinished,
        "ledger": progress.ledger,
    }


def finding_counts(session: Session, run_id: str) -> dict[str, int]:
    """Return the numbers of a run's candidates by finding, frequent ones first."""
    name, counted = CandidateFindingRow.name, func.count(CandidateFindingRow.candidate_id.distinct())
    query = select(name, counted).where(CandidateFindingRow.run_id == run_id).group_by(name)
    return dict(session.execute(query.order_by(counted.desc(), name)).all())


def _count_candidates(session: Session, run_id: str) -> Iterable[Any]:
    """Return the numbers of each question's candidates in the run's order; one row of 0 if it has none.

    Each row is (question id, number, status, whether the verdict is final, whether a review counts).
    """
    standing, of_question = StandingRow, RunQuestionRow.question_id
    keys = (of_question, standing.status, VerdictRow.final, standing.review_id.is_not(None))
    return session.execute(
        select(of_question, func.count(standing.proposal_id), *keys[1:])
        .outerjoin(standing, (standing.question_id == of_question) & (standing.run_id == run_id))
        .outerjoin(VerdictRow, VerdictRow.id == standing.verdict_id)
        .where(RunQuestionRow.run_id == run_id)
        .group_by(RunQuestionRow.position, *keys)
        .order_by(RunQuestionRow.position)
        .execution_options(yield_per=1000)
    )


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
