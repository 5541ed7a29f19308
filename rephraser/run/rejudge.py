"""Judging stored answers again with another rule: nobody is asked, and earlier verdicts stay."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from evaluator.grading import Grader
from rephraser.reviews.status import CandidateStatus, current_statuses
from rephraser.run.check import Report
from rephraser.run.judge import CANDIDATES_PER_BATCH, judge_cases, ready_cases
from rephraser.run.spec import RunSpec
from rephraser.tables import StandingRow, VerdictRow
from rephraser.verdict import Rule, Verdict, rule_spec
from service.database import Database, in_parts
from service.errors import InputError
from service.runs.store import Run


@dataclass(frozen=True)
class Change:
    """A candidate whose verdict is another one under the new rule.

    `reviewed` says that a human decision stands above both.
    """

    candidate_id: str
    question_id: str
    before: str
    after: str
    reason: str
    reviewed: bool


@dataclass(frozen=True)
class Rejudged:
    """What judging a run again came to.

    Attributes:
        judged: candidates whose stored answers were judged.
        waiting: candidates that the run has not decided yet; they are left to it.
        without_answers: candidates rejected by structure or never compared.
        too_few: candidates with fewer stored answers than the rule's first look asks for; left as they are.
        after: candidates by status, as the run's verdicts have them now; `before`, as they had them.
        changes: in the order of questions and proposals.
        stored: verdicts that were added; 0 in a dry run, or where each was judged so before.
    """

    judged: int
    waiting: int
    without_answers: int
    too_few: int
    before: dict[str, int]
    after: dict[str, int]
    changes: tuple[Change, ...]
    stored: int


@dataclass(frozen=True)
class _Standing:
    """The newest verdict of a run on a candidate."""

    status: str
    final: bool
    compared: bool
    same_rule: bool


def judge_again(
    db: Database, run: Run, rule: Rule, grader: Grader, *, dry_run: bool = False, report: Report
) -> Rejudged:
    """Judge the stored answers of a run by `rule`, look by look, as far as answers are stored.

    Verdicts are added, none is replaced; sets that were published keep theirs. What the run decides later
    (open slots that are proposed again) it decides by its own rule.

    Raises:
        InputError: the run compares no answers.
    """
    spec = RunSpec.from_json(run.spec)
    if not spec.solvers:
        raise InputError(
            f"run {run.name!r} has no solver, so no answers are stored; start one with --solver."
        )
    spec = replace(spec, rule=rule)
    with db.read() as session:
        statuses = current_statuses(session, run.id)
        standings = _standings(session, run.id, rule)
    judged = [status for status in statuses if status.candidate_id in standings]
    waiting = [status for status in judged if not standings[status.candidate_id].final]
    compared = [s for s in judged if standings[s.candidate_id].final and standings[s.candidate_id].compared]
    before = {status.candidate_id: standings[status.candidate_id].status for status in judged}
    after: dict[str, str] = {}
    changes: list[Change] = []
    stored = looked_at = 0
    for batch in in_parts(compared, CANDIDATES_PER_BATCH):
        rows = _judge(db, run.id, spec, batch, grader)
        fresh = [
            row
            for candidate_id, row in rows.items()
            if row["status"] != before[candidate_id] or not standings[candidate_id].same_rule
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


def _judge(
    db: Database, run_id: str, spec: RunSpec, batch: Sequence[CandidateStatus], grader: Grader
) -> dict[str, dict[str, Any]]:
    """Return the last verdict that the stored answers of each candidate allow; without any it is left out."""
    rows: dict[str, dict[str, Any]] = {}
    open_ = list(batch)
    look = 0
    while open_:
        with db.read() as session:
            cases = ready_cases(
                session, run_id, spec, open_, dict.fromkeys((s.candidate_id for s in open_), look)
            )
        judged = judge_cases(run_id, spec, cases, grader)
        rows |= {row["candidate_id"]: {**row, "final": True} for row in judged}
        undecided = {
            row["candidate_id"] for row in judged if row["status"] == Verdict.UNDECIDED and not row["final"]
        }
        open_ = [status for status in open_ if status.candidate_id in undecided]
        look += 1
    return rows


def _standings(session: Session, run_id: str, rule: Rule) -> dict[str, _Standing]:
    query = (
        select(VerdictRow.candidate_id, VerdictRow.status, VerdictRow.final, VerdictRow.evidence)
        .join(StandingRow, StandingRow.verdict_id == VerdictRow.id)
        .where(StandingRow.run_id == run_id)
    )
    wanted = rule_spec(rule)
    return {
        candidate_id: _Standing(status, final, "counts" in evidence, evidence.get("rule") == wanted)
        for candidate_id, status, final, evidence in session.execute(query.execution_options(yield_per=1000))
    }


def _counted(statuses: dict[str, str]) -> dict[str, int]:
    return dict(sorted(Counter(statuses.values()).items()))
