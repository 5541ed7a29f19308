"""Edit a candidate's text: add a new candidate of the same run, linked to its origin."""

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from rephraser.reviews.status import CandidateStatus, status_query
from rephraser.reviews.store import find_candidate
from rephraser.run.judge import check_structure
from rephraser.run.spec import RunSpec
from rephraser.run.store import find_neighbor_run, read_candidates, read_questions, store_checked
from rephraser.tables import ProposalRow, StandingRow, candidate_id
from service.asks.tables import OPEN, TaskRow
from service.errors import InputError, NotFoundError
from service.hashing import canonical_text
from service.runs.store import Run, find_run

MENDER = "human"
"""Proposer name of edited candidates."""

_FIRST_PLACE = 1_000_000_000
"""Ordinals from here on belong to edited candidates, after all that a run proposes itself."""


def mend_candidate(
    session: Session, reference: str, text: str, *, reviewer: str, run: str | None = None
) -> tuple[CandidateStatus, Run]:
    """Store another text for a candidate as a new candidate, and return its status and run.

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
    [(question, _)] = read_questions(session, [origin.question_id])
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
        "ordinal": max(_FIRST_PLACE, candidates[-1].ordinal + 1),
        "mended_from": origin.id,
        "mended_by": reviewer.strip(),
    }
    spec = RunSpec.from_json(stored.spec)
    siblings = [
        each.text for each in candidates if each.status != "rejected" and each.candidate_id != origin.id
    ]
    checked = check_structure(stored.id, spec, question, text, siblings, columns)
    store_checked(session, [checked], None, None)
    session.execute(
        update(TaskRow)
        .where(TaskRow.run_id == stored.id, TaskRow.item == question.id)
        .values(state=OPEN, error=None)
    )
    status = status_query(stored.id).where(StandingRow.candidate_id == identity)
    return CandidateStatus(*session.execute(status).one()), stored


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
