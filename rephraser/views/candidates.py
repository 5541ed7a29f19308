"""Candidates of a run or a question, in pages, with the evidence and the cost of each."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from typing import Any

from sqlalchemy import ColumnElement, Select, exists, func, select, tuple_
from sqlalchemy.orm import Session

from rephraser.checks.finding import FINDINGS, Finding
from rephraser.reviews.status import CandidateStatus, read_status, status_query
from rephraser.reviews.store import find_candidate, reviews_of
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
from rephraser.verdict.successes import Successes, read_successes
from service.answer_kinds import AnswerKind
from service.asks.request import read_reply
from service.asks.tables import ANSWERED, SENT, AskBodyRow, AskRow
from service.errors import InputError, NotFoundError
from service.questions.question import Question
from service.runs.store import Run
from service.runs.tables import PICO_PER_USD, RunRow


@dataclass(frozen=True)
class AnswerClass:
    """Answers that are equal: how often the original and the candidate got one of them."""

    answer: str
    original: int
    candidate: int
    gold: bool


@dataclass(frozen=True)
class Evidence:
    """The evidence for a verdict; answer fields are empty or None if no answers were compared.

    `unparsed` responses have no answer; `unsettled` answers could not be compared in time.
    """

    findings: tuple[Finding, ...]
    classes: tuple[AnswerClass, ...]
    original_unparsed: int
    candidate_unparsed: int
    overlap: int | None
    new_top: int | None
    original_top: int | None
    solvers: tuple[str, ...]
    by_solver: dict[str, dict[str, int]]
    original_unsettled: int = 0
    candidate_unsettled: int = 0


def read_evidence(evidence: Mapping[str, Any]) -> Evidence:
    """Return stored evidence as values. Keys that are missing (an older version, no answers) stay empty."""
    counts = evidence.get("counts") or {}
    numbers: dict[str, Any] = {name: evidence.get(name) for name in ("overlap", "new_top", "original_top")}
    for name in ("original_unparsed", "candidate_unparsed", "original_unsettled", "candidate_unsettled"):
        numbers[name] = counts.get(name, 0)
    classes = zip(*(counts.get(name, ()) for name in ("classes", "original", "candidate")), strict=False)
    return Evidence(
        findings=tuple(Finding(each["name"], each["detail"]) for each in evidence.get("findings", ())),
        classes=tuple(
            AnswerClass(str(answer), original, candidate, place == counts.get("gold"))
            for place, (answer, original, candidate) in enumerate(classes)
        ),
        solvers=tuple(evidence.get("solvers", ())),
        by_solver=dict(evidence.get("by_solver", {})),
        **numbers,
    )


def page_answers(
    session: Session,
    subject_id: str,
    solver_id: str,
    *,
    kind: AnswerKind = AnswerKind.LATEX,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Return the first `limit` responses of a solver to a question or candidate, with their answers."""
    replies = session.scalars(
        select(AskBodyRow.reply)
        .join(AskRow, AskRow.id == AskBodyRow.ask_id)
        .where(
            AskRow.scope == solver_id,
            AskRow.kind == ANSWER,
            AskRow.about == subject_id,
            AskRow.state == ANSWERED,
            AskBodyRow.reply.is_not(None),
        )
        .order_by(AskRow.place)
        .limit(limit)
    )
    choices = [choice for reply in replies if reply is not None for choice in read_reply(reply)[0]]
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
        "text": None if body.reply is None else read_reply(body.reply)[0][0].text,
        "body": body.reply,
    }


@dataclass(frozen=True)
class CandidateFilters:
    """Which candidates are wanted, "pending" ones too; None does not restrict.

    `finding` is the name of a finding of the structural checks, in any verdict of the run.
    """

    run_id: str | None = None
    question_id: str | None = None
    status: str | None = None
    strategy: str | None = None
    finding: str | None = None


@dataclass(frozen=True, kw_only=True)
class NeighborCard(CandidateStatus):
    """A proposal with its text, where it stands and why.

    Attributes:
        verdict, verdict_reason: what the run itself says; None and empty while it has not judged.
        ask_id: of the request it came from; None for rules and files.
        usd, prompt_tokens, completion_tokens: of that request, which all its candidates share.
        likeness: of its wording to the question's, 0 to 1.
    """

    proposal_id: int
    run_id: str
    run: str
    text: str
    ask_id: int | None
    usd: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    verdict: str | None
    verdict_reason: str
    evidence: Evidence
    reviewer: str | None
    review_reason: str | None
    likeness: float
    successes: Successes | None

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form of where it stands."""
        values = {field.name: getattr(self, field.name) for field in fields(CandidateStatus)}
        return {"candidate": values.pop("candidate_id"), **values, "text": self.text}


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
    return [_card(row) for row in session.execute(query)]


def page_run(
    session: Session, run: Run, filters: CandidateFilters, *, limit: int, after: str | None = None
) -> tuple[list[NeighborCard], int, str | None]:
    """Return up to `limit` candidates of the run behind the candidate `after`, by question and ordinal.

    Also returns how many pass the filters, and the id to go on from, None at the end.
    """
    if filters.strategy is not None:
        used = session.scalars(select(ProposalRow.strategy).where(ProposalRow.run_id == run.id).distinct())
        if filters.strategy not in (strategies := sorted(used)):
            raise InputError(
                f"run {run.name!r} has no candidates of strategy {filters.strategy!r}. Available: "
                f"{', '.join(strategies) or 'none yet'}."
            )
    if filters.finding is not None and filters.finding not in FINDINGS:
        near = get_close_matches(filters.finding, FINDINGS, n=4, cutoff=0.4) or list(FINDINGS)
        raise InputError(f"there is no finding {filters.finding!r}. Similar: {', '.join(near)}.")
    fitting = _filtered(select(StandingRow.proposal_id), filters).subquery()
    total = session.scalar(select(func.count()).select_from(fitting)) or 0
    place = None
    if after is not None:
        candidate = find_candidate(session, after)
        in_run = (ProposalRow.run_id == run.id, ProposalRow.candidate_id == candidate.id)
        place = session.scalar(select(ProposalRow.id).where(*in_run))
        if place is None:
            raise InputError(f"{candidate.id} is not a candidate of run {run.name!r}. Give one that is.")
    cards = page_candidates(session, filters, after=place, limit=limit + 1)
    return cards[:limit], total, cards[limit - 1].candidate_id if len(cards) > limit else None


def read_cards(session: Session, candidate_id: str) -> list[NeighborCard]:
    """Return a candidate as each run has it, with what stands behind its verdicts; empty where none has."""
    query = _cards().where(StandingRow.candidate_id == candidate_id)
    return [_card(row) for row in session.execute(query.order_by(None).order_by(StandingRow.proposal_id))]


def candidate_record(
    session: Session, candidate: CandidateRow, question: Question, *, raw: bool = False
) -> dict[str, Any]:
    """Return all that is known about a stored candidate of this question, as one JSON object.

    `raw` adds the exchanges with the proposer. `answers_cost` is the cost of its answers in all runs.
    """
    runs = []
    for run_id, name, ask_id in session.execute(
        select(ProposalRow.run_id, RunRow.name, ProposalRow.ask_id)
        .join(RunRow, RunRow.id == ProposalRow.run_id)
        .where(ProposalRow.candidate_id == candidate.id)
        .order_by(RunRow.created_at, ProposalRow.id)
    ).all():
        row = VerdictRow
        verdicts = session.execute(
            select(row.status, row.reason, row.final, row.evidence, row.created_at)
            .where(row.run_id == run_id, row.candidate_id == candidate.id)
            .order_by(row.id)
        )
        standing = asdict(read_status(session, run_id, candidate.id))
        del standing["question_id"], standing["candidate_id"]
        of_ask = select(func.count()).where(ProposalRow.ask_id == ask_id)
        entry = {
            "run": name,
            "run_id": run_id,
            **standing,
            "cost": None if ask_id is None else _cost(session, AskRow.id == ask_id),
            "candidates_of_request": 1 if ask_id is None else session.scalar(of_ask),
            "verdicts": [verdict._asdict() for verdict in verdicts],
        }
        if raw and ask_id is not None:
            entry["exchange"] = proposing_exchange(session, ask_id)
        runs.append(entry)
    return {
        "candidate": candidate.id,
        "text": candidate.text,
        "created_at": candidate.created_at,
        "likeness": candidate.likeness,
        "question": asdict(question),
        "runs": runs,
        "answers_cost": _cost(session, AskRow.kind == ANSWER, AskRow.about == candidate.id),
        "reviews": [asdict(review) for review in reviews_of(session, candidate.id)],
    }


def _cards() -> Select[*tuple[Any, ...]]:
    return (
        status_query()
        .add_columns(
            StandingRow.proposal_id,
            StandingRow.run_id,
            RunRow.name.label("run"),
            CandidateRow.text,
            CandidateRow.likeness,
            ProposalRow.ask_id,
            AskRow.cost_pico,
            AskRow.prompt_tokens,
            AskRow.completion_tokens,
            VerdictRow.status.label("verdict"),
            func.coalesce(VerdictRow.reason, "").label("verdict_reason"),
            VerdictRow.evidence,
            ReviewRow.reviewer,
            ReviewRow.reason.label("review_reason"),
        )
        .join(RunRow, RunRow.id == StandingRow.run_id)
        .outerjoin(AskRow, AskRow.id == ProposalRow.ask_id)
        .join(CandidateRow, CandidateRow.id == StandingRow.candidate_id)
    )


def _card(row: Any) -> NeighborCard:
    values = row._asdict()
    cost_pico, evidence = values.pop("cost_pico"), values.pop("evidence") or {}
    return NeighborCard(
        **values,
        usd=None if cost_pico is None else cost_pico / PICO_PER_USD,
        evidence=read_evidence(evidence),
        successes=read_successes(evidence.get("counts"), evidence.get("by_solver", ())),
    )


def _filtered(query: Any, filters: CandidateFilters) -> Any:
    for column, value in (
        (StandingRow.run_id, filters.run_id),
        (StandingRow.question_id, filters.question_id),
        (StandingRow.status, filters.status),
        (StandingRow.strategy, filters.strategy),
    ):
        if value is not None:
            query = query.where(column == value)
    if filters.finding is not None:
        row = CandidateFindingRow
        of_proposal = (row.run_id == StandingRow.run_id, row.candidate_id == StandingRow.candidate_id)
        query = query.where(exists().where(row.name == filters.finding, *of_proposal))
    return query


def _cost(session: Session, *asks: ColumnElement[bool]) -> dict[str, float]:
    """Return requests with their tokens; `usd` counts known prices only, `unpriced` the other requests."""
    rows = session.execute(
        select(AskRow.prompt_tokens, AskRow.completion_tokens, AskRow.cost_pico, AskRow.worst_pico).where(
            *asks, AskRow.state != SENT
        )
    ).all()
    return {
        "requests": len(rows),
        "prompt_tokens": sum(prompt or 0 for prompt, _, _, _ in rows),
        "completion_tokens": sum(completion or 0 for _, completion, _, _ in rows),
        "usd": sum((worst or 0) if cost is None else cost for _, _, cost, worst in rows) / PICO_PER_USD,
        "unpriced": sum(worst is None and cost is None for _, _, cost, worst in rows),
    }
