"""Details of a verdict: evidence, counted responses, and the request that produced the candidate."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.run.judge import extract_answer
from rephraser.run.spec import ANSWER
from service.answer_kinds import AnswerKind
from service.asks.attempts import unpack
from service.asks.request import read_reply
from service.asks.tables import ANSWERED, AskBodyRow, AskRow


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
    """What stands behind a verdict; answer fields are empty or None where answers were not compared.

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
        text: of the reply's first choice; None while there is no reply.
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
        SolverAnswer(ordinal, choice.text, extract_answer(choice, kind), choice.finish_reason)
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
