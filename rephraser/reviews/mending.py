"""Edit a candidate's text: add a new candidate of the same run, linked to its origin."""

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from rephraser.proposing.tokens import load_token_counter
from rephraser.reviews.status import CandidateStatus, read_status, update_standings
from rephraser.reviews.store import find_candidate
from rephraser.run.judge import check_structure
from rephraser.run.spec import RunSpec
from rephraser.run.start import find_neighbor_run
from rephraser.run.store import Proposed, read_statuses, read_subjects, store_candidates
from rephraser.tables import CandidateRow, ProposalRow, VerdictRow, candidate_id
from service.asks.tables import OPEN, TaskRow
from service.errors import InputError, NotFoundError
from service.hashing import canonical_text
from service.questions.tables import QuestionRow
from service.runs.store import Run, find_run

MENDER = "human"
"""Proposer name of edited candidates."""

_FIRST_PLACE = 1_000_000_000
"""Ordinals from here on belong to edited candidates, after all that a run proposes itself."""


def mend_candidate(
    session: Session, reference: str, text: str, *, reviewer: str, run: str | None = None
) -> tuple[CandidateStatus, Run]:
    """Store another text for a candidate as a new candidate; the old one stays unchanged.

    It keeps the old one's strategy, model and round, and fills its slot in the run if it is accepted. The
    structural checks run at once. `tagrpo resume` compares its answers. Returns its status and its run.

    Args:
        run: name or id of the new candidate's run; optional if only one run has the old one.

    Raises:
        NotFoundError: no such candidate, or not in this run.
        InputError: no name, no text, a text that equals the question or a candidate of the run, or several
            runs have the candidate and none is named.
    """
    if not reviewer.strip():
        raise InputError("an edit needs the editor's name. Pass --reviewer NAME.")
    origin = find_candidate(session, reference)
    if not canonical_text(text):
        raise InputError(f"{origin.id}: the edited text is empty.")
    proposal = _proposal(session, origin.id, run)
    question = session.scalar(select(QuestionRow.text).where(QuestionRow.id == origin.question_id)) or ""
    if canonical_text(text) == canonical_text(question):
        raise InputError(f"{origin.id}: the edited text equals the question. Change its wording.")
    places = select(func.max(ProposalRow.ordinal)).where(
        ProposalRow.run_id == proposal.run_id, ProposalRow.question_id == origin.question_id
    )
    columns = {
        "ask_id": None,
        "proposer": MENDER,
        "strategy": proposal.strategy,
        "strategy_hash": proposal.strategy_hash,
        "model": proposal.model,
        "round": proposal.round,
        "ordinal": max(_FIRST_PLACE, (session.scalar(places) or 0) + 1),
        "mended_from": origin.id,
        "mended_by": reviewer.strip(),
    }
    proposed = Proposed(origin.question_id, question, text, columns)
    [new] = store_candidates(session, proposal.run_id, [proposed])
    stored = find_run(session, proposal.run_id)
    identity = candidate_id(origin.question_id, text)
    if not new:
        same = "exactly this text" if identity == origin.id else f"this text as {identity}"
        raise InputError(f"run {stored.name!r} already has {same}, so nothing was stored.")
    _check(session, stored, identity, origin.id, origin.question_id)
    session.execute(
        update(TaskRow)
        .where(TaskRow.run_id == stored.id, TaskRow.item == origin.question_id)
        .values(state=OPEN, error=None)
    )
    return read_status(session, stored.id, identity), stored


def _check(session: Session, run: Run, candidate: str, mended_from: str, question_id: str) -> None:
    """Store the verdict of the structural checks; answers are compared when the run is resumed."""
    spec = RunSpec.from_json(run.spec)
    [question] = read_subjects(session, [question_id])
    [statuses] = read_statuses(session, [(run.id, question_id)])
    others = [
        each.candidate_id
        for each in statuses
        if each.status != "rejected" and each.candidate_id not in (candidate, mended_from)
    ]
    of_ids = select(CandidateRow.id, CandidateRow.text).where(CandidateRow.id.in_([candidate, *others]))
    texts = {row.id: row.text for row in session.execute(of_ids)}
    siblings = [texts[other] for other in others]
    count_tokens = load_token_counter(spec.tokenizer) if spec.tokenizer else None
    verdict = check_structure(
        run.id, spec, question, candidate, texts[candidate], siblings, count_tokens=count_tokens
    )
    session.execute(insert(VerdictRow), [verdict])
    update_standings(session, [candidate])


def _proposal(session: Session, origin_id: str, run: str | None) -> ProposalRow:
    query = select(ProposalRow).where(ProposalRow.candidate_id == origin_id).order_by(ProposalRow.id)
    proposals = session.scalars(query).all()
    if run is not None:
        wanted = find_neighbor_run(session, run)
        proposals = [proposal for proposal in proposals if proposal.run_id == wanted.id]
        if not proposals:
            raise NotFoundError(f"run {wanted.name!r} has no candidate {origin_id}.")
    if not proposals:
        raise NotFoundError(
            f"no run contains the candidate {origin_id} any more, so an edit cannot be judged."
        )
    if len(proposals) > 1:
        names = ", ".join(find_run(session, proposal.run_id).name for proposal in proposals)
        raise InputError(f"several runs have candidate {origin_id}: {names}. Choose one with --run.")
    return proposals[0]
