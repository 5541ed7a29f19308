"""Asking a model whether each premise of a question is kept: requests, reading, evidence."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.checks import Severity
from rephraser.checks.premises import UNREADABLE, Premises, build_messages, parse_premises
from rephraser.run.plan import premise_plan
from rephraser.run.read import first_choice
from rephraser.run.spec import PremiseSpec, RunSpec
from rephraser.run.structure import PREMISE_CHANGED, PREMISE_DROPPED, PREMISES
from rephraser.tables import CandidateRow
from service.database import Database
from service.models.remote import ChatRequest, Message
from service.questions.tables import QuestionRow
from service.runs.cells import Cell, add_cells, read_bodies, read_cells, set_outcomes, unparsed_cells
from service.runs.tables import CellRow

_CELLS_PER_READ = 500


def premise_requests(db: Database, premises: PremiseSpec, cells: Sequence[Cell]) -> list[ChatRequest]:
    """Return the requests, one a cell."""
    with db.read() as session:
        rows = session.execute(
            select(CandidateRow.id, QuestionRow.text, CandidateRow.text)
            .join(QuestionRow, QuestionRow.id == CandidateRow.question_id)
            .where(CandidateRow.id.in_([cell.subject_id for cell in cells]))
        ).all()
    texts = {identity: (question, candidate) for identity, question, candidate in rows}
    return [
        ChatRequest(
            key=cell.id,
            messages=tuple(
                Message(role=m["role"], content=m["content"]) for m in build_messages(*texts[cell.subject_id])
            ),
            temperature=premises.sampling.temperature,
            top_p=premises.sampling.top_p,
            max_tokens=premises.sampling.max_tokens,
            seed=int(cell.payload["seed"]),
        )
        for cell in cells
    ]


def collect_premises(session: Session, run_id: str, spec: RunSpec, *, limit: int = _CELLS_PER_READ) -> int:
    """Read up to `limit` filled cells; return how many were read. Unreadable answers are asked for again."""
    if spec.premises is None:
        return 0
    cells = unparsed_cells(session, run_id, PREMISES, limit=limit)
    found = _read(session, cells)
    set_outcomes(session, {cell.id: found[cell.id].outcome for cell in cells})
    retries = [
        premise_plan(spec.premises, cell.subject_id, cell.attempt + 1)
        for cell in cells
        if found[cell.id].outcome == UNREADABLE and cell.attempt + 1 < spec.content_attempts
    ]
    add_cells(session, run_id, retries)
    return len(cells)


def read_premises(session: Session, spec: RunSpec, candidate_ids: Collection[str]) -> dict[str, Premises]:
    """Return what the model said about these candidates; one that is still to be asked is not in it."""
    if spec.premises is None:
        return {}
    cells = read_cells(
        session,
        CellRow.scope == spec.premises.id,
        CellRow.kind == PREMISES,
        CellRow.subject_id.in_(candidate_ids),
        CellRow.outcome.is_not(None),
    )
    latest: dict[str, Cell] = {}
    for cell in sorted(cells, key=lambda one: one.attempt):
        latest[cell.subject_id] = cell
    found = _read(session, list(latest.values()))
    return {
        candidate_id: found[cell.id]
        for candidate_id, cell in latest.items()
        if found[cell.id].outcome != UNREADABLE or cell.attempt + 1 >= spec.content_attempts
    }


def premise_findings(premises: Premises) -> list[dict[str, str]]:
    """Return what was changed or dropped, in the form of findings of the structural checks."""
    pairs = ((PREMISE_DROPPED, premises.dropped), (PREMISE_CHANGED, premises.changed))
    return [
        {"name": name, "severity": Severity.EVIDENCE.value, "detail": "; ".join(said)}
        for name, said in pairs
        if said
    ]


def premise_evidence(spec: PremiseSpec, premises: Premises) -> dict[str, Any]:
    """Return what is kept with the verdict: the model, its settings and the premises by state."""
    return {"id": spec.id, "model": spec.model, "outcome": premises.outcome, **vars(premises)}


def _read(session: Session, cells: Sequence[Cell]) -> dict[int, Premises]:
    bodies = read_bodies(session, [cell.id for cell in cells])
    found = {}
    for cell in cells:
        text, truncated, _ = first_choice(bodies[cell.id])
        found[cell.id] = parse_premises(text, truncated=truncated)
    return found
