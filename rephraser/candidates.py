"""Candidates in the database: checked, stored with their verdicts, edited, and where they stand now.

A candidate's status is the newest verdict of a run, overridden by a review that was not withdrawn.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Row, Select, Table, func, insert, select, update
from sqlalchemy.orm import Session, aliased

from rephraser.checks.structure import CHECKS_VERSION, check_candidate
from rephraser.checks.text import likeness
from rephraser.questions.store import find_question
from rephraser.run.spec import KIND, RunSpec
from rephraser.tables import (
    CandidateFindingRow,
    CandidateRow,
    ProposalRow,
    ReviewRow,
    ReviewWithdrawalRow,
    StandingRow,
    VerdictRow,
)
from rephraser.verdict import Verdict
from service.answer_kinds import AnswerKind
from service.asks.tables import OPEN, AskRow, TaskRow
from service.database import find_by_id, in_parts, upsert, utc_now
from service.errors import InputError, NotFoundError
from service.hashing import canonical_text, content_id
from service.program_gold import read_gold
from service.questions.question import Question
from service.runs.store import Run, find_run

STATUSES = ("accepted", "undecided", "unverified", "rejected")
PENDING = "pending"
"""Status of candidates that their run has not judged yet."""
MENDER = "human"
"""Proposer name of edited candidates."""

_FIRST_MENDED = 1_000_000_000
"""Ordinals from here on belong to edited candidates, after all that a run proposes itself."""


def find_neighbor_run(session: Session, reference: str | None) -> Run:
    """Return the rephrase run of this name or id; without a reference, the only one."""
    return find_run(session, reference, KIND)


def candidate_id(question_id: str, text: str) -> str:
    """Return the content id of a candidate: the hash of its question's id and its canonical text."""
    return content_id("c", {"question": question_id, "text": canonical_text(text)})


def candidate_row(question: Question, text: str) -> dict[str, Any]:
    """Return the row of a candidate of a question."""
    return {
        "id": candidate_id(question.id, text),
        "question_id": question.id,
        "text": canonical_text(text),
        "created_at": utc_now(),
        "likeness": likeness(question.text, text),
    }


class CheckedRow(NamedTuple):
    """A checked candidate as rows; the verdict's lacks its time."""

    candidate: dict[str, Any]
    proposal: dict[str, Any]
    verdict: dict[str, Any]


def check_structure(
    run_id: str,
    spec: RunSpec,
    question: Question,
    text: str,
    siblings: Sequence[str],
    proposal: Mapping[str, Any],
) -> CheckedRow:
    """Check a candidate against its question and its passing siblings; return its rows and first verdict.

    A fatal finding rejects. Other candidates are unverified: with a solver, until their answers are compared;
    without one for good. Without a solver, a candidate with any finding is undecided.
    """
    program = question.kind is AnswerKind.CODE
    findings = check_candidate(
        question.text,
        text,
        answer=question.answer,
        names=read_gold(question.answer).names if program else None,
        siblings=siblings,
        token_limit=spec.token_limit,
        min_distance=spec.min_distance,
    )
    fatal = [finding for finding in findings if finding.severity == "fatal"]
    details = "; ".join(finding.detail for finding in fatal or findings)
    if fatal:
        status, reason = Verdict.REJECTED, details
    elif spec.solvers:
        status, reason = Verdict.UNVERIFIED, "passed the structural checks; waiting for answers"
    elif findings:
        status, reason = Verdict.UNDECIDED, f"no solver compared answers, and {details}"
    else:
        status = Verdict.UNVERIFIED
        reason = "passed the structural checks; answers were not compared, as the run has no solver"
    named = ("name", "severity", "detail")
    evidence = {
        "findings": [{name: getattr(finding, name) for name in named} for finding in findings],
        "versions": {"checks": CHECKS_VERSION},
    }
    row = candidate_row(question, text)
    of_run = {"run_id": run_id, "candidate_id": row["id"]}
    judged = {"status": status.value, "reason": reason, "final": bool(fatal) or not spec.solvers}
    return CheckedRow(
        row,
        {**of_run, "question_id": question.id, **proposal},
        {**of_run, **judged, "evidence": evidence},
    )


def store_checked(
    session: Session, checked: Sequence[CheckedRow], ask_id: int | None = None, outcome: str | None = None
) -> None:
    """Store candidates with their first verdicts, and what parsing found in the reply to an ask.

    A candidate that has a verdict in the run keeps it.
    """
    if checked:
        candidates, proposals, verdicts = map(list, zip(*checked, strict=True))
        table: Any  # bare, since the ORM spends more on a statement than SQLite does
        for table, rows in ((CandidateRow.__table__, candidates), (ProposalRow.__table__, proposals)):
            session.execute(upsert(table).on_conflict_do_nothing(), rows)
        ids, of_run = [row["id"] for row in candidates], VerdictRow.run_id == verdicts[0]["run_id"]
        query = select(VerdictRow.candidate_id).where(of_run, VerdictRow.candidate_id.in_(ids))
        judged = set(session.scalars(query))
        add_verdicts(session, [each for each in verdicts if each["candidate_id"] not in judged])
    if outcome is not None:
        session.execute(update(AskRow).where(AskRow.id == ask_id).values(outcome=outcome))


def store_verdict(session: Session, look: int, verdict: Mapping[str, Any]) -> bool:
    """Store the verdict of a look at a candidate unless it has one; return whether the newest is final."""
    query = select(VerdictRow.final, VerdictRow.evidence).filter_by(
        run_id=verdict["run_id"], candidate_id=verdict["candidate_id"]
    )
    stored = session.execute(query.order_by(VerdictRow.id)).all()
    if sum("counts" in each.evidence for each in stored) > look:
        return bool(stored[-1].final)
    add_verdicts(session, [verdict])
    return bool(verdict["final"])


def add_verdicts(session: Session, verdicts: Sequence[Mapping[str, Any]]) -> None:
    """Add verdicts of now; the earlier ones stay."""
    if verdicts:
        now = {"created_at": utc_now()}
        session.execute(insert(VerdictRow), [{**verdict, **now} for verdict in verdicts])
        update_standings(session, [verdict["candidate_id"] for verdict in verdicts])


def status_query(run_id: str | None = None) -> Select[*tuple[Any, ...]]:
    """Return the query of proposals (of a run, or of all) with their status, by question and ordinal.

    The status is the review's, which applies in every run, or else the verdict's; None until the run judges
    it. `final`: no more answers will be drawn.
    """
    standing = StandingRow
    reviewed: ColumnElement[bool] = standing.review_id.is_not(None)
    query = (
        select(
            *(standing.question_id, standing.candidate_id, ProposalRow.round, standing.ordinal),
            *(standing.proposer, standing.strategy, standing.strategy_hash, standing.model),
            func.nullif(StandingRow.status, PENDING).label("status"),
            func.coalesce(ReviewRow.reason, VerdictRow.reason, "").label("reason"),
            reviewed.label("reviewed"),
            (reviewed | func.coalesce(VerdictRow.final, False)).label("final"),
            *(ProposalRow.mended_from, ProposalRow.mended_by, CandidateRow.text),
        )
        .join(ProposalRow, ProposalRow.id == StandingRow.proposal_id)
        .join(CandidateRow, CandidateRow.id == StandingRow.candidate_id)
        .outerjoin(VerdictRow, VerdictRow.id == StandingRow.verdict_id)
        .outerjoin(ReviewRow, ReviewRow.id == StandingRow.review_id)
        .order_by(StandingRow.question_id, StandingRow.ordinal)
    )
    return query if run_id is None else query.where(StandingRow.run_id == run_id)


def read_candidates(session: Session, run_id: str, question_id: str | None = None) -> Sequence[Row[Any]]:
    """Return a run's candidates (of a question) with their status, and their newest verdict's evidence."""
    verdict = (VerdictRow.status.label("verdict"), VerdictRow.final.label("verdict_final"))
    query = status_query(run_id).add_columns(*verdict, VerdictRow.evidence)
    if question_id is not None:
        query = query.where(StandingRow.question_id == question_id)
    return session.execute(query).all()


def find_candidate(session: Session, reference: str) -> CandidateRow:
    """Return the candidate whose id begins with `reference` (with or without its `c_`)."""
    hint = "`tagrpo rephrase list --run RUN` lists the ids."
    row: CandidateRow = find_by_id(session, CandidateRow, reference, "candidate", hint)
    return row


def mend_candidate(
    session: Session, reference: str, text: str, *, reviewer: str, run: str | None = None
) -> tuple[Row[Any], Run]:
    """Store another text for a candidate as a new candidate; return it, as `read_candidates`, and its run.

    It keeps the old one's strategy, model and round, and fills its slot in the run if it is accepted. The
    structural checks run at once. `run` is optional if only one run has the old candidate.
    """
    if not reviewer.strip():
        raise InputError("an edit needs the editor's name. Pass --reviewer NAME.")
    origin = find_candidate(session, reference)
    text = canonical_text(text)
    if not text:
        raise InputError(f"{origin.id}: the edited text is empty.")
    proposal = _proposal(session, origin.id, run)
    question = find_question(session, origin.question_id)
    if text == canonical_text(question.text):
        raise InputError(f"{origin.id}: the edited text equals the question. Change its wording.")
    stored, identity = find_run(session, proposal.run_id), candidate_id(question.id, text)
    candidates = read_candidates(session, stored.id, question.id)
    if identity in {each.candidate_id for each in candidates}:
        same = "exactly this text" if identity == origin.id else f"this text as {identity}"
        raise InputError(f"run {stored.name!r} already has {same}, so nothing was stored.")
    columns = {
        **{name: getattr(proposal, name) for name in ("strategy", "strategy_hash", "model", "round")},
        "proposer": MENDER,
        "ordinal": max(_FIRST_MENDED, candidates[-1].ordinal + 1),
        "mended_from": origin.id,
        "mended_by": reviewer.strip(),
    }
    spec = RunSpec.from_json(stored.spec)
    siblings = [
        each.text for each in candidates if each.status != "rejected" and each.candidate_id != origin.id
    ]
    checked = check_structure(stored.id, spec, question, text, siblings, columns)
    store_checked(session, [checked])
    session.execute(
        update(TaskRow)
        .where(TaskRow.run_id == stored.id, TaskRow.item == question.id)
        .values(state=OPEN, error=None)
    )
    candidates = read_candidates(session, stored.id, question.id)
    return next(each for each in candidates if each.candidate_id == identity), stored


def _proposal(session: Session, origin_id: str, run: str | None) -> ProposalRow:
    query = select(ProposalRow).where(ProposalRow.candidate_id == origin_id).order_by(ProposalRow.id)
    if run is not None:
        query = query.where(ProposalRow.run_id == find_neighbor_run(session, run).id)
    proposals = session.scalars(query).all()
    if not proposals:
        where = f"run {run!r} has no" if run else "no run has the"
        raise NotFoundError(f"{where} candidate {origin_id}, so an edit cannot be judged.")
    if len(proposals) > 1:
        names = ", ".join(find_run(session, proposal.run_id).name for proposal in proposals)
        raise InputError(f"several runs have candidate {origin_id}: {names}. Choose one with --run.")
    return proposals[0]


def standing_counts(session: Session, run_id: str | None = None) -> Sequence[Any]:
    """Return how many `candidates` have a status, by run and who proposed them; of one run or of all.

    Overviews and filters use the verdicts, strategies and models that occur.
    """
    row = StandingRow
    keys = (row.run_id, row.proposer, row.strategy, row.strategy_hash, row.model, row.status)
    query = select(*keys, func.count().label("candidates")).group_by(*keys).order_by(*keys)
    return session.execute(query if run_id is None else query.where(row.run_id == run_id)).all()


def update_standings(session: Session, candidate_ids: Collection[str]) -> None:
    """Note where the proposals of these candidates stand now, and the findings of their verdicts.

    Whoever adds a proposal, a verdict, a review or its withdrawal calls this in the same transaction.
    """
    verdict, review = aliased(VerdictRow), aliased(ReviewRow)
    newest = select(func.max(verdict.id)).where(
        verdict.run_id == ProposalRow.run_id, verdict.candidate_id == ProposalRow.candidate_id
    )
    counted = select(func.max(review.id)).where(
        review.candidate_id == ProposalRow.candidate_id,
        review.id.not_in(select(ReviewWithdrawalRow.review_id)),
    )
    table = cast(Table, StandingRow.__table__)
    changing = ("status", "verdict_id", "review_id")
    shared = [each.name for each in table.columns if each.name not in ("proposal_id", *changing)]
    standings = (
        select(
            ProposalRow.id,
            *(getattr(ProposalRow, name) for name in shared),
            func.coalesce(ReviewRow.decision, VerdictRow.status, PENDING),
            VerdictRow.id,
            ReviewRow.id,
        )
        .select_from(ProposalRow)
        .outerjoin(VerdictRow, VerdictRow.id == newest.scalar_subquery())
        .outerjoin(ReviewRow, ReviewRow.id == counted.scalar_subquery())
    )
    verdicts = select(
        VerdictRow.candidate_id, VerdictRow.run_id, VerdictRow.evidence, CandidateRow.question_id
    ).join(CandidateRow, CandidateRow.id == VerdictRow.candidate_id)
    for part in in_parts(sorted(set(candidate_ids))):
        adding = upsert(table).from_select(
            ["proposal_id", *shared, *changing], standings.where(ProposalRow.candidate_id.in_(part))
        )
        now = {name: adding.excluded[name] for name in changing}
        session.connection().execute(adding.on_conflict_do_update(index_elements=["proposal_id"], set_=now))
        findings = [
            {"name": finding["name"], "question_id": question, "candidate_id": candidate, "run_id": run}
            for candidate, run, evidence, question in session.execute(
                verdicts.where(VerdictRow.candidate_id.in_(part))
            )
            for finding in evidence.get("findings", ())
        ]
        if findings:
            session.execute(upsert(CandidateFindingRow).on_conflict_do_nothing(), findings)
