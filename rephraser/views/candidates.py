"""Candidates of a run or a question, in pages, with the evidence and the cost of each."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from sqlalchemy import Row, Select, exists, func, select, tuple_
from sqlalchemy.orm import Session

from rephraser.checks.finding import FINDINGS
from rephraser.reviews.status import PENDING, CandidateStatus, read_status, status_query
from rephraser.reviews.store import Review, find_candidate, reviews_of
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
from service.asks.attempts import unpack
from service.asks.request import read_reply
from service.asks.tables import ANSWERED, SENT, AskBodyRow, AskRow
from service.errors import InputError, NotFoundError
from service.questions.question import Question
from service.runs.store import Run, find_run
from service.runs.tables import PICO_PER_USD, RunRow


@dataclass(frozen=True)
class AnswerClass:
    """Answers that are equal: how often the original and the candidate got one of them."""

    answer: str
    original: int
    candidate: int
    gold: bool


@dataclass(frozen=True)
class FoundFinding:
    """A finding of the structural checks."""

    name: str
    severity: str  # fatal or evidence
    detail: str


@dataclass(frozen=True)
class Evidence:
    """The evidence for a verdict; answer fields are empty or None if no answers were compared.

    Attributes:
        classes: the most frequent answers of both sides first.
        original_unparsed, candidate_unparsed: responses in which no answer was found.
        overlap: answers in common; new_top, original_top: see `rephraser.verdict.judge`.
        solvers: ids of those who drew the answers.
        original_unsettled, candidate_unsettled: answers that could not be compared in time.
    """

    findings: tuple[FoundFinding, ...]
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


@dataclass(frozen=True)
class SolverAnswer:
    """An answer of a solver to a question or candidate: `text` is the response, `extracted` its answer."""

    ordinal: int
    text: str
    extracted: str | None
    finish_reason: str


@dataclass(frozen=True)
class Exchange:
    """A request for candidates and its answer.

    Attributes:
        prompt: (role, text) of the messages that were sent.
        text: text of the reply's first choice; None if there is no reply yet.
        body: the reply as the server sent it.
    """

    prompt: tuple[tuple[str, str], ...]
    text: str | None
    body: str | None


def read_evidence(evidence: Mapping[str, Any]) -> Evidence:
    """Return stored evidence as values. Keys that are missing (an older version, no answers) stay empty."""
    counts = evidence.get("counts") or {}
    gold = counts.get("gold")
    classes = [
        AnswerClass(str(answer), original, candidate, place == gold)
        for place, (answer, original, candidate) in enumerate(
            zip(
                counts.get("classes", ()),
                counts.get("original", ()),
                counts.get("candidate", ()),
                strict=False,
            )
        )
    ]
    return Evidence(
        findings=tuple(
            FoundFinding(str(finding.get("name")), str(finding.get("severity")), str(finding.get("detail")))
            for finding in evidence.get("findings", ())
        ),
        classes=tuple(sorted(classes, key=lambda answers: -(answers.original + answers.candidate))),
        original_unparsed=counts.get("original_unparsed", 0),
        candidate_unparsed=counts.get("candidate_unparsed", 0),
        overlap=evidence.get("overlap"),
        new_top=evidence.get("new_top"),
        original_top=evidence.get("original_top"),
        solvers=tuple(evidence.get("solvers", ())),
        by_solver=dict(evidence.get("by_solver", {})),
        original_unsettled=counts.get("original_unsettled", 0),
        candidate_unsettled=counts.get("candidate_unsettled", 0),
    )


def page_answers(
    session: Session,
    subject_id: str,
    solver_id: str,
    *,
    kind: AnswerKind = AnswerKind.LATEX,
    limit: int = 50,
) -> list[SolverAnswer]:
    """Return the first `limit` answers of a solver to a question or candidate, of this kind of answer."""
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
    choices = [choice for reply in replies if reply is not None for choice in read_reply(unpack(reply))[0]]
    return [
        SolverAnswer(ordinal, choice.text, extract_answer(choice, kind) or None, choice.finish_reason)
        for ordinal, choice in enumerate(choices[:limit])
    ]


def proposing_exchange(session: Session, ask_id: int) -> Exchange:
    """Return a request for candidates and its reply."""
    body = session.get_one(AskBodyRow, ask_id)
    messages = json.loads(unpack(body.request))["messages"]
    reply = None if body.reply is None else unpack(body.reply)
    return Exchange(
        prompt=tuple((message["role"], message["content"]) for message in messages),
        text=None if reply is None else read_reply(reply)[0][0].text,
        body=reply,
    )


@dataclass(frozen=True)
class CandidateFilters:
    """Which candidates are wanted; None does not restrict.

    Attributes:
        status: accepted, rejected, undecided, unverified, or "pending" for those not judged yet.
        finding: name of a finding of the structural checks, in any verdict of the run.
    """

    run_id: str | None = None
    question_id: str | None = None
    status: str | None = None
    strategy: str | None = None
    finding: str | None = None


@dataclass(frozen=True)
class NeighborCard:
    """A proposal with its text, where it stands and why.

    Attributes:
        verdict, verdict_reason: what the run itself says; None and empty while it has not judged.
        ask_id: of the request it came from (`rephraser.views.candidates.proposing_exchange` shows prompt and
            answer); None for rules and files.
        usd, prompt_tokens, completion_tokens: of that request, which all its candidates share.
        reviewer, review_reason: of the newest review.
        likeness: of its wording to the question's, 0 to 1.
        successes: of the solvers on question and candidate; None where answers were not compared.
    """

    proposal_id: int
    run_id: str
    run: str
    standing: CandidateStatus
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

    @property
    def candidate_id(self) -> str:
        """The id of the candidate, which other runs may have proposed too."""
        return self.standing.candidate_id

    @property
    def status(self) -> str:
        """Accepted, rejected, undecided, unverified or pending; the review's where there is one."""
        return self.standing.status or PENDING

    def to_json(self) -> dict[str, Any]:
        """Return the machine-readable form of where it stands."""
        values = asdict(self.standing)
        return {"candidate": values.pop("candidate_id"), **values, "text": self.text}


@dataclass(frozen=True)
class Cost:
    """Requests with their tokens; `usd` counts known prices only, `unpriced` says how many had none."""

    requests: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    unpriced: int


@dataclass(frozen=True)
class Proposal:
    """A candidate in one run: who proposed it, what the run says about it, what asking for it cost.

    Attributes:
        ask_id: of the request it came from; None for rules and files.
        siblings: candidates of the same request, itself included, which share its cost.
    """

    run: Run
    standing: CandidateStatus
    ask_id: int | None
    siblings: int
    cost: Cost | None
    verdicts: Sequence[Row[Any]]  # status, reason, final, evidence, created_at


@dataclass(frozen=True)
class Detail:
    """All that is known about a candidate. `answering` is what drawing answers to it cost, in all runs."""

    candidate: CandidateRow
    question: Question
    proposals: tuple[Proposal, ...]
    reviews: tuple[Review, ...]
    answering: Cost

    def to_json(self, exchanges: Sequence[Exchange | None] = ()) -> dict[str, Any]:
        """Return the machine-readable form; exchanges stand beside the proposals, if there are any."""
        question = self.question
        runs = []
        for index, proposal in enumerate(self.proposals):
            standing = asdict(proposal.standing)
            del standing["question_id"], standing["candidate_id"]
            entry = {
                "run": proposal.run.name,
                "run_id": proposal.run.id,
                **standing,
                "cost": None if proposal.cost is None else asdict(proposal.cost),
                "candidates_of_request": proposal.siblings,
                "verdicts": [verdict._asdict() for verdict in proposal.verdicts],
            }
            exchange = exchanges[index] if exchanges else None
            if exchange is not None:
                messages = [{"role": role, "content": text} for role, text in exchange.prompt]
                entry["exchange"] = {"prompt": messages, "text": exchange.text, "body": exchange.body}
            runs.append(entry)
        return {
            "candidate": self.candidate.id,
            "text": self.candidate.text,
            "created_at": self.candidate.created_at,
            "likeness": self.candidate.likeness,
            "question": {
                "id": question.id,
                "text": question.text,
                "answer": question.answer,
                "level": question.level,
                "subject": question.subject,
                "kind": str(question.kind),
                "images": list(question.images),
            },
            "runs": runs,
            "answers_cost": asdict(self.answering),
            "reviews": [asdict(review) for review in self.reviews],
        }


def page_candidates(
    session: Session, filters: CandidateFilters, *, after: int | None = None, limit: int = 25
) -> list[NeighborCard]:
    """Return up to `limit` proposals behind the proposal `after`, by question, run, then as proposed.

    Raises:
        NotFoundError: `after` is no proposal that fits question and run.
    """
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

    Raises:
        InputError: no such finding or strategy, or `after` is not of this run.
        NotFoundError: `after` is no candidate.
    """
    if filters.strategy is not None:
        _check_strategy(session, run, filters.strategy)
    if filters.finding is not None:
        _check_finding(filters.finding)
    fitting = _filtered(select(StandingRow.proposal_id), filters).subquery()
    total = session.scalar(select(func.count()).select_from(fitting)) or 0
    place = None if after is None else _proposal_id(session, run, after)
    cards = page_candidates(session, filters, after=place, limit=limit + 1)
    return cards[:limit], total, cards[limit - 1].candidate_id if len(cards) > limit else None


def read_cards(session: Session, candidate_id: str) -> list[NeighborCard]:
    """Return a candidate as each run has it, with what stands behind its verdicts; empty where none has."""
    query = _cards().where(StandingRow.candidate_id == candidate_id)
    return [_card(row) for row in session.execute(query.order_by(None).order_by(StandingRow.proposal_id))]


def read_detail(session: Session, candidate: CandidateRow, question: Question) -> Detail:
    """Return all that is known about a stored candidate of this question."""
    rows = session.execute(
        select(ProposalRow.run_id, ProposalRow.ask_id)
        .join(RunRow, RunRow.id == ProposalRow.run_id)
        .where(ProposalRow.candidate_id == candidate.id)
        .order_by(RunRow.created_at, ProposalRow.id)
    ).all()
    answering = select(AskRow.id).where(AskRow.kind == ANSWER, AskRow.about == candidate.id)
    return Detail(
        candidate=candidate,
        question=question,
        proposals=tuple(_proposal(session, candidate, run_id, ask_id) for run_id, ask_id in rows),
        reviews=tuple(reviews_of(session, candidate.id)),
        answering=_cost(session, answering),
    )


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
            VerdictRow.reason.label("verdict_reason"),
            VerdictRow.evidence,
            ReviewRow.reviewer,
            ReviewRow.reason.label("review_reason"),
        )
        .join(RunRow, RunRow.id == StandingRow.run_id)
        .outerjoin(AskRow, AskRow.id == ProposalRow.ask_id)
        .join(CandidateRow, CandidateRow.id == StandingRow.candidate_id)
    )


def _card(row: Any) -> NeighborCard:
    evidence = row.evidence or {}
    return NeighborCard(
        proposal_id=row.proposal_id,
        run_id=row.run_id,
        run=row.run,
        standing=CandidateStatus(*(getattr(row, field.name) for field in fields(CandidateStatus))),
        text=row.text,
        ask_id=row.ask_id,
        usd=None if row.cost_pico is None else row.cost_pico / PICO_PER_USD,
        prompt_tokens=row.prompt_tokens,
        completion_tokens=row.completion_tokens,
        verdict=row.verdict,
        verdict_reason=row.verdict_reason or "",
        evidence=read_evidence(evidence),
        reviewer=row.reviewer,
        review_reason=row.review_reason,
        likeness=row.likeness,
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


def _proposal(session: Session, candidate: CandidateRow, run_id: str, ask_id: int | None) -> Proposal:
    verdicts = session.execute(
        select(
            VerdictRow.status,
            VerdictRow.reason,
            VerdictRow.final,
            VerdictRow.evidence,
            VerdictRow.created_at,
        )
        .where(VerdictRow.run_id == run_id, VerdictRow.candidate_id == candidate.id)
        .order_by(VerdictRow.id)
    )
    of_ask = select(func.count()).select_from(ProposalRow).where(ProposalRow.ask_id == ask_id)
    return Proposal(
        run=find_run(session, run_id),
        standing=read_status(session, run_id, candidate.id),
        ask_id=ask_id,
        siblings=1 if ask_id is None else session.scalar(of_ask) or 1,
        cost=None if ask_id is None else _cost(session, select(AskRow.id).where(AskRow.id == ask_id)),
        verdicts=verdicts.all(),
    )


def _cost(session: Session, ask_ids: Select[int]) -> Cost:
    rows = session.execute(
        select(AskRow.prompt_tokens, AskRow.completion_tokens, AskRow.cost_pico, AskRow.worst_pico).where(
            AskRow.id.in_(ask_ids), AskRow.state != SENT
        )
    ).all()
    return Cost(
        requests=len(rows),
        prompt_tokens=sum(prompt or 0 for prompt, _, _, _ in rows),
        completion_tokens=sum(completion or 0 for _, completion, _, _ in rows),
        usd=sum((worst or 0) if cost is None else cost for _, _, cost, worst in rows) / PICO_PER_USD,
        unpriced=sum(worst is None and cost is None for _, _, cost, worst in rows),
    )


def _proposal_id(session: Session, run: Run, after: str) -> int:
    candidate = find_candidate(session, after)
    proposal_id = session.scalar(
        select(ProposalRow.id).where(ProposalRow.run_id == run.id, ProposalRow.candidate_id == candidate.id)
    )
    if proposal_id is None:
        raise InputError(
            f"{candidate.id} is not a candidate of run {run.name!r}. Give one of its candidates."
        )
    return proposal_id


def _check_strategy(session: Session, run: Run, strategy: str) -> None:
    strategies = session.scalars(
        select(ProposalRow.strategy).where(ProposalRow.run_id == run.id).distinct()
    ).all()
    if strategy not in strategies:
        names = ", ".join(sorted(strategies)) or "none yet"
        raise InputError(f"run {run.name!r} has no candidates of strategy {strategy!r}. Available: {names}.")


def _check_finding(finding: str) -> None:
    if finding not in FINDINGS:
        from difflib import get_close_matches

        near = get_close_matches(finding, FINDINGS, n=4, cutoff=0.4) or list(FINDINGS)
        raise InputError(f"there is no finding {finding!r}. Similar: {', '.join(near)}.")
