"""Candidates of a run or a question, in pages, with the evidence and the cost of each."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import JSON, ColumnElement, Float, Row, Select, cast, exists, func, literal, select, tuple_
from sqlalchemy.orm import Session

from rephraser.candidates import find_candidate, status_query
from rephraser.checks.structure import FINDINGS
from rephraser.reviews.store import reviews_of
from rephraser.run.judge import extract_answer
from rephraser.run.spec import ANSWER
from rephraser.tables import (
    CandidateFindingRow,
    CandidateRow,
    ProposalRow,
    ReviewRow,
    StandingRow,
    VerdictRow,
)
from service.answer_kinds import AnswerKind
from service.asks.request import read_reply
from service.asks.tables import ANSWERED, SENT, AskBodyRow, AskRow
from service.errors import InputError, NotFoundError, suggest
from service.questions.question import Question
from service.runs.store import Run
from service.runs.tables import PICO_PER_USD, RunRow


def page_answers(
    session: Session, subject_id: str, solver_id: str, *, kind: AnswerKind = AnswerKind.LATEX, limit: int = 50
) -> list[dict[str, Any]]:
    """Return the first `limit` responses of a solver to a question or candidate, with their answers."""
    ask = AskRow
    replies = session.scalars(
        select(AskBodyRow.reply)
        .join(ask, ask.id == AskBodyRow.ask_id)
        .where(ask.scope == solver_id, ask.kind == ANSWER, ask.about == subject_id)
        .where(ask.state == ANSWERED, AskBodyRow.reply.is_not(None))
        .order_by(ask.place)
        .limit(limit)
    )
    choices = [choice for reply in replies if reply is not None for choice in read_reply(reply).choices]
    return [
        {
            "ordinal": ordinal,
            "text": choice.text,
            "extracted": extract_answer(choice, kind) or None,
            "finish_reason": choice.finish_reason,
        }
        for ordinal, choice in enumerate(choices[:limit])
    ]


def proposing_exchange(session: Session, ask_id: int) -> dict[str, Any]:
    """Return a request for candidates: its messages, the text of the reply, and the reply as it was sent."""
    body = session.get_one(AskBodyRow, ask_id)
    return {
        "prompt": json.loads(body.request)["messages"],
        "text": None if body.reply is None else read_reply(body.reply).choices[0].text,
        "body": body.reply,
    }


@dataclass(frozen=True)
class CandidateFilters:
    """Which candidates are wanted, "pending" ones too; None does not restrict."""

    run_id: str | None = None
    question_id: str | None = None
    status: str | None = None
    strategy: str | None = None
    finding: str | None = None  # name of a structural finding, in any verdict of the run


NeighborCard = Row[Any]
"""A proposal with its text, where it stands and why; its columns are those of `_cards`."""

_PROPOSED = ("round", "ordinal", "proposer", "strategy", "strategy_hash", "model")
_STANDING = (*_PROPOSED, "status", "reason", "reviewed", "final", "mended_from", "mended_by")


def standing_record(card: NeighborCard) -> dict[str, Any]:
    """Return the machine-readable form of where a card's proposal stands."""
    names = ("question_id", *_STANDING, "text")
    return {"candidate": card.candidate_id, **{name: getattr(card, name) for name in names}}


def page_candidates(
    session: Session, filters: CandidateFilters, *, after: int | None = None, limit: int = 25
) -> list[NeighborCard]:
    """Return up to `limit` proposals behind the proposal `after`, by question, run, then as proposed."""
    order = (StandingRow.question_id, StandingRow.run_id, StandingRow.ordinal)
    query = _filtered(_cards(), filters).order_by(None).order_by(*order).limit(limit)
    if after is not None:
        of_place = CandidateFilters(run_id=filters.run_id, question_id=filters.question_id)
        place = session.execute(
            _filtered(select(*order).where(StandingRow.proposal_id == after), of_place)
        ).one_or_none()
        if place is None:
            raise NotFoundError(
                f"{after} is not a candidate of question {filters.question_id}. Give one of its candidates."
            )
        query = query.where(tuple_(*order) > tuple(place))
    return list(session.execute(query))


def page_run(
    session: Session, run: Run, filters: CandidateFilters, *, limit: int, after: str | None = None
) -> tuple[list[NeighborCard], int, str | None]:
    """Return up to `limit` candidates of the run behind the candidate `after`, by question and ordinal.

    Also returns how many pass the filters, and the id to go on from, None at the end.
    """
    strategies = sorted(strategy["name"] for strategy in run.spec["strategies"])
    if filters.strategy is not None and filters.strategy not in strategies:
        hint = suggest(filters.strategy, strategies)
        raise InputError(f"run {run.name!r} has no strategy {filters.strategy!r}. {hint}")
    if filters.finding is not None and filters.finding not in FINDINGS:
        raise InputError(f"there is no finding {filters.finding!r}. {suggest(filters.finding, FINDINGS)}")
    total = session.scalar(_filtered(select(func.count(StandingRow.proposal_id)), filters)) or 0
    place = None
    if after is not None:
        id = find_candidate(session, after).id
        place = session.scalar(select(ProposalRow.id).filter_by(run_id=run.id, candidate_id=id))
        if place is None:
            raise InputError(f"{id} is not a candidate of run {run.name!r}. Give one that is.")
    cards = page_candidates(session, filters, after=place, limit=limit + 1)
    return cards[:limit], total, cards[limit - 1].candidate_id if len(cards) > limit else None


def read_cards(session: Session, candidate_id: str) -> list[NeighborCard]:
    """Return a candidate as each run has it, with the evidence of its verdicts; empty where none has."""
    query = _cards().where(StandingRow.candidate_id == candidate_id)
    return list(session.execute(query.order_by(None).order_by(StandingRow.proposal_id)))


def candidate_record(
    session: Session, candidate: CandidateRow, question: Question, *, raw: bool = False
) -> dict[str, Any]:
    """Return all that is known about a stored candidate of this question, as one JSON object.

    `raw` adds the exchanges with the proposer. `answers_cost` is the cost of its answers in all runs.
    """
    runs = []
    for card in read_cards(session, candidate.id):
        row = VerdictRow
        judged = select(row.status, row.reason, row.final, row.evidence, row.created_at).order_by(row.id)
        verdicts = session.execute(judged.where(row.run_id == card.run_id, row.candidate_id == candidate.id))
        of_ask = select(func.count()).where(ProposalRow.ask_id == card.ask_id)
        entry = {
            **{name: getattr(card, name) for name in ("run", "run_id", *_STANDING)},
            "cost": None if card.ask_id is None else _cost(session, AskRow.id == card.ask_id),
            "candidates_of_request": 1 if card.ask_id is None else session.scalar(of_ask),
            "verdicts": [verdict._asdict() for verdict in verdicts],
        }
        if raw and card.ask_id is not None:
            entry["exchange"] = proposing_exchange(session, card.ask_id)
        runs.append(entry)
    return {
        "candidate": candidate.id,
        **{name: getattr(candidate, name) for name in ("text", "created_at", "likeness")},
        "question": asdict(question),
        "runs": runs,
        "answers_cost": _cost(session, AskRow.kind == ANSWER, AskRow.about == candidate.id),
        "reviews": reviews_of(session, candidate.id),
    }


def _cards() -> Select[*tuple[Any, ...]]:
    """Return the query of proposals with the evidence of their verdicts: the cards that pages show."""
    return (
        status_query()
        .add_columns(
            *(StandingRow.proposal_id, StandingRow.run_id, RunRow.name.label("run"), CandidateRow.likeness),
            # of the request, which all its candidates share; null for rules and files
            *(ProposalRow.ask_id, AskRow.prompt_tokens, AskRow.completion_tokens),
            (cast(AskRow.cost_pico, Float) / PICO_PER_USD).label("usd"),
            VerdictRow.status.label("verdict"),  # the run's own; null while it has not judged
            func.coalesce(VerdictRow.reason, "").label("verdict_reason"),
            func.coalesce(VerdictRow.evidence, literal({}, JSON)).label("evidence"),
            *(ReviewRow.reviewer, ReviewRow.reason.label("review_reason")),
        )
        .join(RunRow, RunRow.id == StandingRow.run_id)
        .outerjoin(AskRow, AskRow.id == ProposalRow.ask_id)
    )


def _filtered(query: Any, filters: CandidateFilters) -> Any:
    for name in ("run_id", "question_id", "status", "strategy"):
        if (value := getattr(filters, name)) is not None:
            query = query.where(getattr(StandingRow, name) == value)
    if filters.finding is not None:
        row = CandidateFindingRow
        of_proposal = (row.run_id == StandingRow.run_id, row.candidate_id == StandingRow.candidate_id)
        query = query.where(exists().where(row.name == filters.finding, *of_proposal))
    return query


def _cost(session: Session, *asks: ColumnElement[bool]) -> dict[str, float]:
    """Return requests with their tokens; `usd` counts known prices only, `unpriced` the other requests."""
    row = AskRow
    pico = func.coalesce(row.cost_pico, row.worst_pico)
    sums = (func.coalesce(func.sum(each), 0) for each in (row.prompt_tokens, row.completion_tokens, pico))
    counted = select(func.count(), *sums, func.count(pico)).where(*asks, row.state != SENT)
    requests, prompt, completion, cost, priced = session.execute(counted).one()
    tokens = {"prompt_tokens": int(prompt), "completion_tokens": int(completion)}
    cost = int(cost) / PICO_PER_USD
    return {"requests": requests, **tokens, "usd": cost, "unpriced": requests - priced}
