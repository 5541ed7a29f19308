"""Judge stored answers again by another rule: no request is sent, and earlier verdicts stay."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from evaluator.grading import Grader
from rephraser.checks.premises import Premises
from rephraser.reviews.status import CandidateStatus, current_statuses
from rephraser.run.rephrase import CheckedCandidate, Rephrasing
from rephraser.run.spec import RunSpec
from rephraser.run.store import read_subjects, read_texts
from rephraser.tables import StandingRow, VerdictRow
from rephraser.verdict import OverlapRule, rule_spec
from service.asks.ask import Asker, Models
from service.asks.store import Store
from service.database import Database, in_parts
from service.errors import InputError
from service.runs.store import Run
from service.telling import TellProgress

CANDIDATES_PER_BATCH = 100


@dataclass(frozen=True)
class Change:
    """A candidate whose verdict differs under the new rule.

    `reviewed`: a human decision overrides both.
    """

    candidate_id: str
    question_id: str
    before: str
    after: str
    reason: str
    reviewed: bool


@dataclass(frozen=True)
class Rejudged:
    """The result of judging a run again.

    Attributes:
        judged: candidates whose stored answers were judged.
        waiting: candidates that the run has not decided yet; they are left to it.
        without_answers: candidates rejected by structure or never compared.
        too_few: candidates with fewer stored answers than the rule's first look needs; they stay as they are.
        after: candidates by status, as the run's verdicts have them now; `before`, as they had them.
        changes: in the order of questions and proposals.
        stored: verdicts that were added; 0 in a dry run, or if each was judged so before.
    """

    judged: int
    waiting: int
    without_answers: int
    too_few: int
    before: dict[str, int]
    after: dict[str, int]
    changes: tuple[Change, ...]
    stored: int


def judge_again(
    db: Database, run: Run, rule: OverlapRule, grader: Grader, *, dry_run: bool = False, report: TellProgress
) -> Rejudged:
    """Judge the stored answers of a run by `rule`, look by look, as far as answers are stored.

    Verdicts are added, none is replaced; published sets keep theirs. What the run decides later it decides by
    its own rule.

    Raises:
        InputError: the run compares no answers.
    """
    spec = RunSpec.from_json(run.spec)
    if not spec.solvers:
        raise InputError(
            f"run {run.name!r} has no solver, so no answers are stored. Start a run with --solver."
        )
    spec = replace(spec, rule=rule)
    with db.read() as session:
        statuses = current_statuses(session, run.id)
        standings = _standings(session, run.id)
    judged = [status for status in statuses if status.candidate_id in standings]
    waiting = [status for status in judged if not standings[status.candidate_id].final]
    compared = [
        status
        for status in judged
        if standings[status.candidate_id].final and "counts" in standings[status.candidate_id].evidence
    ]
    before = {status.candidate_id: standings[status.candidate_id].status for status in judged}
    after: dict[str, str] = {}
    changes: list[Change] = []
    stored = looked_at = 0
    for batch in in_parts(compared, CANDIDATES_PER_BATCH):
        rows = asyncio.run(_judge(db, run.id, spec, batch, standings, grader))
        fresh = [
            row
            for candidate_id, row in rows.items()
            if row["status"] != before[candidate_id]
            or standings[candidate_id].evidence.get("rule") != rule_spec(rule)
        ]
        if fresh and not dry_run:
            with db.write() as session:
                session.execute(insert(VerdictRow), fresh)
            stored += len(fresh)
        after |= {candidate_id: row["status"] for candidate_id, row in rows.items()}
        changes += [
            Change(
                candidate_id=status.candidate_id,
                question_id=status.question_id,
                before=before[status.candidate_id],
                after=after[status.candidate_id],
                reason=rows[status.candidate_id]["reason"],
                reviewed=status.reviewed,
            )
            for status in batch
            if after.get(status.candidate_id, before[status.candidate_id]) != before[status.candidate_id]
        ]
        looked_at += len(batch)
        report(looked_at, len(compared))
    return Rejudged(
        judged=len(after),
        waiting=len(waiting) + len(statuses) - len(judged),
        without_answers=len(judged) - len(waiting) - len(compared),
        too_few=len(compared) - len(after),
        before=_counted(before),
        after=_counted(before | after),
        changes=tuple(changes),
        stored=stored,
    )


async def _judge(
    db: Database,
    run_id: str,
    spec: RunSpec,
    batch: Sequence[CandidateStatus],
    standings: Mapping[str, Any],
    grader: Grader,
) -> dict[str, dict[str, Any]]:
    """Return the last verdict that the stored answers of each candidate allow; without any it is left out."""
    by_question: dict[str, list[CheckedCandidate]] = {}
    with db.read() as session:
        texts = read_texts(session, [status.candidate_id for status in batch])
        for status in batch:
            id, evidence = status.candidate_id, standings[status.candidate_id].evidence
            by_question.setdefault(status.question_id, []).append(
                CheckedCandidate(
                    id, texts[id], status.ordinal, evidence["findings"], False, _premises(evidence)
                )
            )
        subjects = read_subjects(session, list(by_question))
    store = Store(db)
    rephrasing, replay = Rephrasing(store, run_id, spec, grader), Asker(store, run_id, 0, Models({}))
    try:
        judged = await asyncio.gather(
            *(rephrasing.judge_stored(replay, each, by_question[each.id]) for each in subjects)
        )
    finally:
        rephrasing.close()
        store.close()
    return {row["candidate_id"]: {**row, "final": True} for rows in judged for row in rows if row is not None}


def _premises(evidence: Mapping[str, Any]) -> Premises | None:
    stored, states = evidence.get("premises"), ("kept", "changed", "dropped")
    return None if stored is None else Premises(*(tuple(stored[state]) for state in states))


def _standings(session: Session, run_id: str) -> dict[str, Any]:
    """Return status, final and evidence of the run's newest verdict on each candidate."""
    query = (
        select(VerdictRow.candidate_id, VerdictRow.status, VerdictRow.final, VerdictRow.evidence)
        .join(StandingRow, StandingRow.verdict_id == VerdictRow.id)
        .where(StandingRow.run_id == run_id)
    )
    return {row.candidate_id: row for row in session.execute(query.execution_options(yield_per=1000))}


def _counted(statuses: dict[str, str]) -> dict[str, int]:
    return dict(sorted(Counter(statuses.values()).items()))
