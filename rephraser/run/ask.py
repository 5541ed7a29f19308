"""Turns cells into chat requests: what a proposer, a solver, or a model asked about premises is sent.

A proposer is told earlier candidates and why they failed: one line each, and never an answer.
"""

import textwrap
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.checks import Severity
from rephraser.checks.premises import build_messages as premise_messages
from rephraser.proposing.request import RESPONSE_SCHEMA, Earlier, build_messages
from rephraser.reviews.status import CandidateStatus
from rephraser.run.spec import PremiseSpec, RunSpec, SolverSpec, proposal_ordinal
from rephraser.tables import CandidateRow, ProposalRow, StandingRow, VerdictRow
from service.database import Database, in_parts
from service.models.drawing import LeasedCell, Subject
from service.models.remote import ChatRequest, Message
from service.models.remote.chat import message_with_images
from service.models.remote.sampler import chat_request
from service.models.settings import Sampling
from service.questions.images import load_images
from service.questions.tables import QuestionRow
from service.runs.cells import Cell

EARLIER_SHOWN = 6  # earlier candidates a model is told to keep away from
REASON_LENGTH = 240  # characters
HINTS = 3

# Not which answers: the next rewrite would give them away, or be bent to them.
_BY_ANSWERS = {
    "rejected": "solved, it gives other answers than the problem, so something in it changes the problem",
    "undecided": "solved, it does not clearly give the problem's answers, so it may not say the same",
}
_BY_REVIEW = "a reader found that it is not the same problem"  # the reader's words may hold the answer
# Of these the details tell the answer once more, or number candidates that the proposer does not see.
_WITHOUT_DETAIL = {
    "answer_leaked": "it states the answer",
    "same_as_sibling": "it repeats another rewrite",
    "too_like_sibling": "its words are nearly those of another rewrite",
}


def read_texts(session: Session, ids: Sequence[str]) -> dict[str, str]:
    """Return the texts of questions and candidates by id."""
    wanted = list(dict.fromkeys(ids))
    texts: dict[str, str] = {}
    for part in in_parts(wanted):
        for row in (QuestionRow, CandidateRow):
            texts.update(session.execute(select(row.id, row.text).where(row.id.in_(part))).all())
    return texts


def read_subjects(session: Session, ids: Sequence[str]) -> list[Subject]:
    """Return the subjects of these ids, in their order."""
    texts, images = read_texts(session, ids), read_images(session, ids)
    return [
        Subject(place, place, identity, texts[identity], images.get(identity, ()))
        for place, identity in enumerate(ids)
    ]


def read_images(session: Session, ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the ids of images by question or candidate, which has its question's; without any: not in it."""
    wanted = list(dict.fromkeys(ids))
    images: dict[str, tuple[str, ...]] = {}
    of_candidates = select(CandidateRow.id, QuestionRow.images).join(
        QuestionRow, QuestionRow.id == CandidateRow.question_id
    )
    for query, key in (
        (select(QuestionRow.id, QuestionRow.images), QuestionRow.id),
        (of_candidates, CandidateRow.id),
    ):
        for part in in_parts(wanted):
            rows = session.execute(query.where(key.in_(part), QuestionRow.images.is_not(None)))
            images.update((identity, tuple(held)) for identity, held in rows)
    return images


@dataclass(frozen=True)
class Proposing:
    """What a proposer is asked in a cell: an instruction and a request, in which the question stands.

    `images` are the ids of the question's.
    """

    system: str
    user: str
    question: str
    images: tuple[str, ...]


def read_proposing(db: Database, run_id: str, spec: RunSpec, cells: Sequence[Cell]) -> list[Proposing]:
    """Return what is asked for candidates, one a cell.

    Earlier candidates are those of earlier rounds and of earlier attempts, and why some failed stands in the
    cell: both are fixed when the cell is made, so a continued run asks the same.
    """
    ids = [cell.subject_id for cell in cells]
    with db.read() as session:
        texts, held = read_texts(session, ids), read_images(session, ids)
        earlier = proposed_texts(session, run_id, ids)
        elsewhere = earlier_texts(session, spec, set(ids))
    asked = []
    for cell in cells:
        until = proposal_ordinal(cell.round, 0, cell.attempt, 0)
        reasons = cell.payload.get("reasons", {})
        avoid = [Earlier(text) for text in elsewhere[cell.subject_id]]
        avoid += [
            Earlier(text, reasons.get(str(ordinal)))
            for ordinal, text in earlier[cell.subject_id]
            if ordinal < until
        ]
        question, images = texts[cell.subject_id], held.get(cell.subject_id, ())
        system, user = build_messages(
            spec.strategies[cell.ordinal],
            question,
            int(cell.payload["count"]),
            avoid=avoid[-EARLIER_SHOWN:],
            structured=spec.output == "json",
            images=len(images),
        )
        asked.append(Proposing(system["content"], user["content"], question, images))
    return asked


def proposing_requests(db: Database, run_id: str, spec: RunSpec, cells: Sequence[Cell]) -> list[ChatRequest]:
    """Return the requests for candidates, one a cell."""
    if spec.sampling is None:
        raise ValueError("a run that asks a model needs sampling settings")
    asked = read_proposing(db, run_id, spec, cells)
    with db.read() as session:
        images = load_images(session, [id for each in asked for id in each.images])
    requests = []
    for cell, each in zip(cells, asked, strict=True):
        pictures = [images[id] for id in each.images]
        user = message_with_images(each.user, each.question, pictures)
        schema = RESPONSE_SCHEMA if spec.output == "json" else None
        requests.append(_request(cell, (Message("system", each.system), user), spec.sampling, schema=schema))
    return requests


def solving_requests(db: Database, solver: SolverSpec, cells: Sequence[Cell]) -> list[ChatRequest]:
    """Return the requests for answers, one a cell; each draws several samples."""
    with db.read() as session:
        subjects = read_subjects(session, [cell.subject_id for cell in cells])
        images = load_images(session, [id for subject in subjects for id in subject.images])
    return [
        chat_request(
            solver.drawing,
            LeasedCell(
                cell=cell,
                problem=subject,
                count=int(cell.payload["count"]),
                seeds=(cell.payload["seed"],),
            ),
            images,
        )
        for cell, subject in zip(cells, subjects, strict=True)
    ]


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
        _request(
            cell,
            tuple(Message(m["role"], m["content"]) for m in premise_messages(*texts[cell.subject_id])),
            premises.sampling,
        )
        for cell in cells
    ]


def proposed_texts(
    session: Session, run_id: str, question_ids: Sequence[str]
) -> dict[str, list[tuple[int, str]]]:
    """Return by question what this run has proposed, with its place, in order."""
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


def earlier_texts(
    session: Session, spec: RunSpec, question_ids: Collection[str], *, standing: bool = False
) -> dict[str, list[str]]:
    """Return by question what the topped-up runs have proposed, in their order; `standing`: not rejected."""
    texts: dict[str, list[str]] = defaultdict(list)
    for run_id in spec.tops_up:
        query = (
            select(ProposalRow.question_id, CandidateRow.text)
            .join(CandidateRow, CandidateRow.id == ProposalRow.candidate_id)
            .where(ProposalRow.run_id == run_id, ProposalRow.question_id.in_(question_ids))
            .order_by(ProposalRow.question_id, ProposalRow.ordinal)
        )
        if standing:
            query = query.join(
                StandingRow,
                (StandingRow.run_id == ProposalRow.run_id)
                & (StandingRow.candidate_id == ProposalRow.candidate_id),
            ).where(StandingRow.status != "rejected")
        for question_id, text in session.execute(query):
            texts[question_id].append(text)
    return texts


def read_reasons(session: Session, run_id: str, candidates: Sequence[CandidateStatus]) -> dict[str, str]:
    """Return by id why those of these candidates failed that did, from the run's newest verdicts."""
    failed = {c.candidate_id: c for c in candidates if c.status in _BY_ANSWERS}
    evidence: dict[str, dict[str, Any]] = {}
    ids = list(failed)
    for part in in_parts(ids):
        query = select(VerdictRow.candidate_id, VerdictRow.evidence).where(
            VerdictRow.run_id == run_id, VerdictRow.candidate_id.in_(part)
        )
        evidence.update(dict(session.execute(query.order_by(VerdictRow.id)).all()))
    return {key: _reason(candidate, evidence.get(key, {})) for key, candidate in failed.items()}


def latest_reasons(candidates: Sequence[CandidateStatus], reasons: Mapping[str, str]) -> dict[str, str]:
    """Return what a new cell tells of these candidates, all of one question, by their ordinal."""
    latest = sorted(candidates, key=lambda candidate: candidate.ordinal)[-EARLIER_SHOWN:]
    return {str(c.ordinal): reasons[c.candidate_id] for c in latest if c.candidate_id in reasons}


def _request(
    cell: Cell,
    messages: tuple[Message, ...],
    sampling: Sampling,
    *,
    schema: dict[str, object] | None = None,
) -> ChatRequest:
    return ChatRequest(
        key=cell.id,
        messages=messages,
        seed=cell.payload["seed"],
        **sampling.decoding,
        response_schema=schema,
    )


def _reason(candidate: CandidateStatus, evidence: Mapping[str, Any]) -> str:
    fatal: list[str] = []
    hints: list[str] = []
    for finding in evidence.get("findings", ()):
        detail = _WITHOUT_DETAIL.get(finding["name"], finding["detail"])
        (fatal if finding["severity"] == Severity.FATAL else hints).append(detail)
    if candidate.reviewed:
        reason = _BY_REVIEW
    else:
        reason = "; ".join(fatal) or _BY_ANSWERS[str(candidate.status)]
    if hints:
        reason += f". Check: {'; '.join(hints[:HINTS])}"
    return textwrap.shorten(reason, REASON_LENGTH, placeholder=" ...")
