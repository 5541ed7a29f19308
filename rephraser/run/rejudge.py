"""Judge stored answers again by another rule: no request is sent, and earlier verdicts stay."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from evaluator.grading import Grader
from rephraser.checks.premises import Premises
from rephraser.reviews.status import CandidateStatus, current_statuses
from rephraser.run.judge import Case, extract_answer, judge_cases, too_many_unread
from rephraser.run.spec import ANSWER, RunSpec
from rephraser.run.store import Subject, read_subjects
from rephraser.tables import StandingRow, VerdictRow
from rephraser.verdict import OverlapRule, Verdict, rule_spec
from service.asks.ask import unpack
from service.asks.request import read_reply
from service.asks.tables import ANSWERED, AskBodyRow, AskRow
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


@dataclass(frozen=True)
class _Standing:
    """The newest verdict of a run on a candidate."""

    status: str
    final: bool
    evidence: Mapping[str, Any]


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
        rows = _judge(db, run.id, spec, batch, standings, grader)
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


def _judge(
    db: Database,
    run_id: str,
    spec: RunSpec,
    batch: Sequence[CandidateStatus],
    standings: Mapping[str, _Standing],
    grader: Grader,
) -> dict[str, dict[str, Any]]:
    """Return the last verdict that the stored answers of each candidate allow; without any it is left out."""
    with db.read() as session:
        ids = list(dict.fromkeys(status.question_id for status in batch))
        questions = dict(zip(ids, read_subjects(session, ids), strict=True))
        kinds = {status.candidate_id: questions[status.question_id].kind for status in batch}
        kinds |= {id: question.kind for id, question in questions.items()}
        answers = stored_answers(session, spec, kinds)
    rows: dict[str, dict[str, Any]] = {}
    open_, look = list(batch), 0
    while open_:
        made = [
            _case(spec, status, questions[status.question_id], standings, answers, look) for status in open_
        ]
        judged = judge_cases(run_id, spec, [case for case in made if case is not None], grader)
        rows |= {row["candidate_id"]: {**row, "final": True} for row in judged}
        undecided = {
            row["candidate_id"] for row in judged if row["status"] == Verdict.UNDECIDED and not row["final"]
        }
        open_ = [status for status in open_ if status.candidate_id in undecided]
        look += 1
    return rows


_Stored = Mapping[tuple[str, str], Sequence[str | None]]
"""Answers by solver and subject."""


def _case(
    spec: RunSpec,
    status: CandidateStatus,
    question: Subject,
    standings: Mapping[str, _Standing],
    answers: _Stored,
    look: int,
) -> Case | None:
    """Return the candidate's answers for a look; None if some were never drawn."""
    evidence = standings[status.candidate_id].evidence
    looks = spec.rule.looks
    if look >= len(looks):
        return None
    own = _shares(spec, answers, question.id, spec.rule.original_samples)
    drawn = _shares(spec, answers, status.candidate_id, looks[look])
    closed = too_many_unread([answer for part in own or () for answer in part], spec)
    if own is None or (drawn is None and not closed):
        return None
    drawn = drawn or [() for _ in spec.solvers]
    premises = evidence.get("premises")
    states = ("kept", "changed", "dropped")
    return Case(
        candidate_id=status.candidate_id,
        look=look,
        gold=question.answer,
        original=tuple(answer for part in own for answer in part),
        candidate=tuple(answer for part in drawn for answer in part),
        by_solver={
            solver.model: {"original": len(mine), "candidate": len(theirs)}
            for solver, mine, theirs in zip(spec.solvers, own, drawn, strict=True)
        },
        findings=evidence["findings"],
        premises=premises and Premises(**{state: tuple(premises[state]) for state in states}),
        kind=question.kind,
        closed=closed,
    )


def _shares(
    spec: RunSpec, answers: _Stored, subject_id: str, samples: int
) -> list[Sequence[str | None]] | None:
    parts = [
        answers.get((solver.id, subject_id), ())[:share]
        for solver, share in zip(spec.solvers, spec.shares(samples), strict=True)
    ]
    return parts if sum(map(len, parts)) >= samples else None


def stored_answers(session: Session, spec: RunSpec, kinds: Mapping[str, Any]) -> _Stored:
    """Return the stored answers of the run's solvers to questions and candidates, by kind of answer."""
    drawn: dict[tuple[str, str], list[str | None]] = {}
    for part in in_parts(list(kinds)):
        rows = session.execute(
            select(AskRow.scope, AskRow.about, AskBodyRow.reply)
            .join(AskBodyRow, AskBodyRow.ask_id == AskRow.id)
            .where(
                AskRow.scope.in_([solver.id for solver in spec.solvers]),
                AskRow.kind == ANSWER,
                AskRow.about.in_(part),
                AskRow.state == ANSWERED,
            )
            .order_by(AskRow.place)
        )
        for solver_id, about, reply in rows:
            choices = read_reply(unpack(reply))[0] if reply is not None else ()
            answers = [extract_answer(choice, kinds[about]) for choice in choices]
            drawn.setdefault((solver_id, about), []).extend(answers)
    return drawn


def _standings(session: Session, run_id: str) -> dict[str, _Standing]:
    query = (
        select(VerdictRow.candidate_id, VerdictRow.status, VerdictRow.final, VerdictRow.evidence)
        .join(StandingRow, StandingRow.verdict_id == VerdictRow.id)
        .where(StandingRow.run_id == run_id)
    )
    rows = session.execute(query.execution_options(yield_per=1000))
    return {
        candidate_id: _Standing(status, final, evidence) for candidate_id, status, final, evidence in rows
    }


def _counted(statuses: dict[str, str]) -> dict[str, int]:
    return dict(sorted(Counter(statuses.values()).items()))
