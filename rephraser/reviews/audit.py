"""Audits in the database: drawn once, read again, reported as far as they are reviewed."""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import Select, insert, select
from sqlalchemy.orm import Session

from rephraser.reviews.rates import STRATA, AuditMember, draw, draw_groups, error_rates, group_rate
from rephraser.reviews.store import read_reviews
from rephraser.tables import AuditMemberRow, AuditRow, CandidateRow, ReviewRow, StandingRow, VerdictRow
from service.database import Database, columns_of, utc_now
from service.errors import InputError, NotFoundError
from service.runs.store import Run
from service.runs.tables import RunRow

Kind = Literal["candidates", "groups"]
_AUDITS: Select[*tuple[Any, ...]] = (
    select(
        AuditRow.id, RunRow.id, RunRow.name, AuditRow.kind, AuditRow.seed, AuditRow.size, AuditRow.created_at
    )
    .join(RunRow, RunRow.id == AuditRow.run_id)
    .order_by(AuditRow.id)
)


@dataclass(frozen=True)
class Audit:
    """A drawn audit of candidates, or of questions ("groups") with all their accepted neighbors.

    `members` are in the order of review, which is independent of their verdicts.
    """

    id: int
    run_id: str
    run_name: str
    kind: Kind
    seed: int
    size: int
    created_at: str
    members: tuple[AuditMember, ...] = ()


def open_audit(
    db: Database, run: Run, *, kind: Kind = "candidates", size: int, seed: int
) -> tuple[Audit, bool]:
    """Return the audit of this run, kind, seed and size, drawn if there is none yet, and whether it is new.

    It is drawn from all candidates whose newest verdict in the run is final, by the verdict alone: earlier
    reviews do not move a candidate to another stratum. Once drawn it stays as it is.
    """
    with db.write() as session:
        drawing: dict[str, Any] = {"run_id": run.id, "kind": kind, "seed": seed, "size": size}
        number = session.scalar(select(AuditRow.id).filter_by(**drawing))
        if number is not None:
            return get_audit(session, number), False
        strata: dict[str, list[str]] = {name: [] for name in STRATA}
        accepted: dict[str, list[str]] = defaultdict(list)
        verdicts = session.execute(
            select(StandingRow.question_id, VerdictRow.candidate_id, VerdictRow.status)
            .join(StandingRow, StandingRow.verdict_id == VerdictRow.id)
            .where(StandingRow.run_id == run.id, VerdictRow.final.is_(True))
        )
        for question_id, candidate_id, status in verdicts:
            strata[status].append(candidate_id)
            if status == "accepted":
                accepted[question_id].append(candidate_id)
        groups = kind == "groups"
        members = (
            draw_groups(accepted, size=size, seed=seed) if groups else draw(strata, size=size, seed=seed)
        )
        if not members:
            lacks = "accepted candidate" if groups else "candidate with a final verdict"
            raise InputError(
                f"run {run.name!r} has no {lacks}, so there is nothing to audit. `tagrpo runs show "
                f"{run.name}` reports its state."
            )
        row = AuditRow(**drawing, created_at=utc_now())
        session.add(row)
        session.flush()
        ids = {"audit_id": row.id}
        rows = [{**ids, "position": place, **vars(member)} for place, member in enumerate(members)]
        session.execute(insert(AuditMemberRow), rows)
        return get_audit(session, row.id), True


def get_audit(session: Session, audit_id: int) -> Audit:
    """Return an audit by number."""
    stored = session.execute(_AUDITS.where(AuditRow.id == audit_id)).one_or_none()
    if stored is None:
        audits_there = ", ".join(f"{id} (of {run})" for id, _, run, *_ in session.execute(_AUDITS))
        hint = audits_there or "none yet. Create one with `tagrpo rephrase audit`"
        raise NotFoundError(f"there is no audit {audit_id}. Available: {hint}.")
    members = session.execute(
        select(*columns_of(AuditMemberRow, AuditMember))
        .where(AuditMemberRow.audit_id == audit_id)
        .order_by(AuditMemberRow.position)
    )
    return replace(Audit(*stored), members=tuple(AuditMember(*member) for member in members))


def list_audits(session: Session, run_id: str) -> list[Audit]:
    """Return the audits of a run, oldest first, without their members."""
    return [Audit(*row) for row in session.execute(_AUDITS.where(AuditRow.run_id == run_id))]


def audit_rates(session: Session, audit: Audit) -> dict[str, Any]:
    """Return the error rates from the decisions made for this audit so far.

    `groups` is the share of groups with a broken neighbor; None for an audit of candidates.
    """
    reviews, groups = read_reviews(session, ReviewRow.audit_id == audit.id), None
    if audit.kind == "groups":
        row, member = CandidateRow, AuditMemberRow
        query = select(row.id, row.question_id).join(member, member.candidate_id == row.id)
        questions = dict(session.execute(query.where(member.audit_id == audit.id)).all())
        groups = group_rate(audit.members, questions, reviews)
    return {**error_rates(audit.members, reviews), "groups": groups}


def audit_record(audit: Audit, rates: dict[str, Any], *, new: bool) -> dict[str, Any]:
    """Return an audit and its rates as one JSON object; members are in the order of review.

    Verdicts, and which groups are broken, are left out until the audit is complete. Errors within a question
    may be correlated, so in an audit of groups the rate of neighbors has no interval.
    """
    hidden = set[str]() if rates["complete"] else {"false_accepts", "false_rejects", "broken_groups"}
    record = dict(rates)
    groups = record.pop("groups")
    if groups is not None:
        hidden |= {"strata", "broken", "false_accept", "false_reject", "false_rejects"}
        record["broken_neighbors"] = {name: rates["false_accept"][name] for name in ("count", "reviewed")}
        record["groups"] = {name: value for name, value in groups.items() if name not in hidden - {"broken"}}
    visible = None if rates["complete"] else {"candidate_id"}
    return {
        "audit": audit.id,
        "run": audit.run_name,
        "run_id": audit.run_id,
        "kind": audit.kind,
        "sample": audit.size,
        "seed": audit.seed,
        "created_at": audit.created_at,
        "new": new,
        "complete": rates["complete"],
        **{name: value for name, value in record.items() if name not in hidden},
        "members": [
            {name: value for name, value in vars(member).items() if visible is None or name in visible}
            for member in audit.members
        ],
    }
