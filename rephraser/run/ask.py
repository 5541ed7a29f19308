"""Turns cells into chat requests: what a proposer or a solver is sent for them."""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.proposing.request import RESPONSE_SCHEMA, Earlier, build_messages
from rephraser.run.read import proposal_ordinal
from rephraser.run.reasons import EARLIER_SHOWN
from rephraser.run.spec import RunSpec, Sampling, SolverSpec
from rephraser.run.subjects import read_subjects, read_texts
from rephraser.run.topping import earlier_texts
from rephraser.tables import CandidateRow, ProposalRow
from service.database import Database
from service.models.drawing import LeasedCell
from service.models.remote import ChatRequest, Message
from service.models.remote.sampler import chat_request
from service.runs.cells import Cell


def proposing_requests(db: Database, run_id: str, spec: RunSpec, cells: Sequence[Cell]) -> list[ChatRequest]:
    """Return the requests for candidates, one a cell.

    Earlier candidates are those of earlier rounds and of earlier attempts, and why some failed stands in the
    cell: both are fixed when the cell is made, so a continued run asks the same.
    """
    if spec.sampling is None:
        raise ValueError("a run that asks a model needs sampling settings")
    with db.read() as session:
        texts = read_texts(session, [cell.subject_id for cell in cells])
        earlier = _earlier(session, run_id, [cell.subject_id for cell in cells])
        elsewhere = earlier_texts(session, spec, {cell.subject_id for cell in cells})
    requests = []
    for cell in cells:
        until = proposal_ordinal(cell.round, 0, cell.attempt, 0)
        reasons = cell.payload.get("reasons", {})
        avoid = [Earlier(text) for text in elsewhere[cell.subject_id]]
        avoid += [
            Earlier(text, reasons.get(str(ordinal)))
            for ordinal, text in earlier[cell.subject_id]
            if ordinal < until
        ]
        structured = spec.output == "json"
        messages = build_messages(
            spec.strategies[cell.ordinal],
            texts[cell.subject_id],
            int(cell.payload["count"]),
            avoid=avoid[-EARLIER_SHOWN:],
            structured=structured,
        )
        requests.append(
            _request(cell, messages, spec.sampling, schema=RESPONSE_SCHEMA if structured else None)
        )
    return requests


def solving_requests(db: Database, solver: SolverSpec, cells: Sequence[Cell]) -> list[ChatRequest]:
    """Return the requests for answers, one a cell; each draws several samples."""
    with db.read() as session:
        subjects = read_subjects(session, [cell.subject_id for cell in cells])
    return [
        chat_request(
            solver.drawing,
            LeasedCell(
                cell=cell,
                problem=subject,
                count=int(cell.payload["count"]),
                seeds=(int(cell.payload["seed"]),),
            ),
        )
        for cell, subject in zip(cells, subjects, strict=True)
    ]


def _request(
    cell: Cell,
    messages: tuple[dict[str, str], ...],
    sampling: Sampling,
    *,
    schema: dict[str, object] | None,
) -> ChatRequest:
    return ChatRequest(
        key=cell.id,
        messages=tuple(Message(role=m["role"], content=m["content"]) for m in messages),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_tokens=sampling.max_tokens,
        seed=int(cell.payload["seed"]),
        response_schema=schema,
    )


def _earlier(session: Session, run_id: str, question_ids: Sequence[str]) -> dict[str, list[tuple[int, str]]]:
    rows = session.execute(
        select(ProposalRow.question_id, ProposalRow.ordinal, CandidateRow.text)
        .join(CandidateRow, CandidateRow.id == ProposalRow.candidate_id)
        .where(ProposalRow.run_id == run_id, ProposalRow.question_id.in_(set(question_ids)))
        .order_by(ProposalRow.question_id, ProposalRow.ordinal)
    )
    grouped: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for question_id, ordinal, text in rows:
        grouped[question_id].append((ordinal, text))
    return grouped
