"""What stands behind a verdict: evidence, the responses it counted, the exchange that made a candidate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from rephraser.run.ask import proposing_requests
from rephraser.run.read import first_choice, read_choices
from rephraser.run.spec import RunSpec
from service.database import Database, columns_of
from service.runs.cells import read_bodies, read_cells
from service.runs.store import Run
from service.runs.tables import AnswerRow, CellRow


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
        log_bayes_factor: in nats, positive for "same problem".
        solvers: ids of those who drew the answers.
        rule: name of the rule; asks_for_more: groups of findings that made it ask for more agreement.
        original_unsettled, candidate_unsettled: answers that could not be compared in time.
    """

    findings: tuple[FoundFinding, ...]
    classes: tuple[AnswerClass, ...]
    original_unparsed: int
    candidate_unparsed: int
    overlap: int | None
    new_top: int | None
    original_top: int | None
    log_bayes_factor: float | None
    solvers: tuple[str, ...]
    by_solver: dict[str, dict[str, int]]
    rule: str | None = None
    asks_for_more: tuple[str, ...] = ()
    original_unsettled: int = 0
    candidate_unsettled: int = 0


@dataclass(frozen=True)
class AnswerHeader:
    """An answer of a solver to a question or candidate; `read_answer_texts` gives the response."""

    id: int
    solver_id: str
    ordinal: int
    extracted: str | None
    finish_reason: str


@dataclass(frozen=True)
class Exchange:
    """A request for candidates and its answer.

    Attributes:
        prompt: (role, text) of the messages, made again from the run's spec as they were when they were sent.
        text: of the answer's first choice; None while there is no answer.
        body: the answer as the server sent it.
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
        log_bayes_factor=evidence.get("log_bayes_factor"),
        solvers=tuple(evidence.get("solvers", ())),
        by_solver=dict(evidence.get("by_solver", {})),
        rule=(evidence.get("rule") or {}).get("rule"),
        asks_for_more=tuple(evidence.get("asks_for_more", ())),
        original_unsettled=counts.get("original_unsettled", 0),
        candidate_unsettled=counts.get("candidate_unsettled", 0),
    )


def page_answers(session: Session, subject_id: str, solver_id: str, *, limit: int = 50) -> list[AnswerHeader]:
    """Return the first `limit` answers of a solver to a question or candidate."""
    rows = session.execute(
        select(*columns_of(AnswerRow, AnswerHeader))
        .where(AnswerRow.solver_id == solver_id, AnswerRow.subject_id == subject_id)
        .order_by(AnswerRow.ordinal)
        .limit(limit)
    )
    return [AnswerHeader(*row) for row in rows]


def read_answer_texts(session: Session, answer_ids: Sequence[int]) -> dict[int, str]:
    """Return the responses behind answers by id, as the model wrote them; unknown ids are left out."""
    rows = session.execute(
        select(AnswerRow.id, AnswerRow.cell_id, AnswerRow.choice).where(AnswerRow.id.in_(answer_ids))
    ).all()
    bodies = read_bodies(session, sorted({row.cell_id for row in rows}))
    choices = {cell_id: read_choices(body) for cell_id, body in bodies.items()}
    return {
        row.id: choices[row.cell_id][row.choice][0]
        for row in rows
        if row.choice < len(choices.get(row.cell_id, ()))
    }


def proposing_exchange(db: Database, run: Run, cell_id: int) -> Exchange:
    """Return the exchange of a proposing cell of this run."""
    with db.read() as session:
        (cell,) = read_cells(session, CellRow.id == cell_id)
        body = read_bodies(session, [cell_id]).get(cell_id)
    (request,) = proposing_requests(db, run.id, RunSpec.from_json(run.spec), [cell])
    return Exchange(
        prompt=tuple((message.role, message.content) for message in request.messages),
        text=None if body is None else first_choice(body)[0],
        body=body,
    )
