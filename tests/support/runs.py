"""Finished runs made of nothing: questions, candidates, verdicts and reviews straight into a database.

`add_run(db, "first", [("1+1=?", "2", [Proposed("What is 1+1?"), ...]), ...])` for hand-made ones,
`open_empty(path)` for a database to put them in.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from rephraser.candidates import candidate_id, update_standings
from rephraser.checks.structure import Finding
from rephraser.proposing.strategies import Strategy
from rephraser.questions.store import store_questions
from rephraser.run.spec import RunSpec, SolverSpec, proposal_ordinal
from rephraser.sets.store import load_set
from rephraser.tables import CandidateRow, ProposalRow, ReviewRow, VerdictRow
from service.asks.request import Message, Request
from service.asks.store import Ended, add_tasks, begin, end
from service.asks.tables import ANSWERED, DONE, TaskRow
from service.database import Database, upsert, utc_now
from service.questions.images import PLACEHOLDER
from service.questions.question import Question, make_question
from service.runs.store import Run, finish_run, open_run
from service.runs.tables import PICO_PER_USD

STRATEGIES = (
    Strategy("perspectives", "5", "other words, other order", "Say it in other words."),
    Strategy("format", "1", "another layout", "Lay it out in another way."),
)


@dataclass(frozen=True)
class Proposed:
    """A candidate with its verdicts, oldest first. An empty tuple: not judged yet."""

    text: str
    verdicts: tuple[str, ...] = ("accepted",)
    strategy: str = "perspectives"
    model: str = "test/proposer"
    round: int = 0
    right: tuple[int, int] | None = None  # answers to the question (of 32) and to this (of 12)
    findings: tuple[str, ...] = ()
    ask_id: int | None = None


Asked = tuple[str, str, Sequence[Proposed]]
"""A question's text, its gold answer, and what was proposed to it, in order."""


def open_empty(path: Path) -> Database:
    """Open a new database at `path`; the schema is copied, since making it takes a quarter of a second."""
    if "TAGRPO_TEST_CLUSTER" not in os.environ:
        path.write_bytes(_empty_database())
    return Database.open(path)


@cache
def _empty_database() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        Database.open(path).close()
        return path.read_bytes()


def make_spec(**changes: Any) -> RunSpec:
    """Return a run's spec with a model, two strategies and a solver."""
    settings: dict[str, Any] = {
        "questions": "test-questions",
        "proposer": "llm",
        "model": "test/proposer",
        "strategies": STRATEGIES,
        "solvers": (SolverSpec(model="test/solver"),),
    }
    return RunSpec(**{**settings, **changes})


def add_run(
    db: Database,
    name: str,
    asked: Sequence[Asked],
    *,
    spec: RunSpec | None = None,
    finished: bool = True,
    level: str | None = "Level 3",
    subject: str | None = "Algebra",
    images: Sequence[str] = (),
) -> Run:
    """Store a run with its questions, proposals and verdicts; what is there already is left alone.

    `images` (ids) are those of each question whose text has a place for them.
    """
    spec = spec or make_spec()
    hashes = {strategy.name: strategy.hash for strategy in spec.strategies}
    questions = [
        make_question(text, answer, level, subject, images=images if PLACEHOLDER in text else ())
        for text, answer, _ in asked
    ]
    proposals: list[dict[str, Any]] = []
    candidates: list[dict[str, Any]] = []
    verdicts: list[dict[str, Any]] = []
    now = utc_now()
    for question, (_, _, proposed) in zip(questions, asked, strict=True):
        for ordinal, item in enumerate(proposed):
            identity = candidate_id(question.id, item.text)
            row = {"id": identity, "question_id": question.id, "text": item.text, "likeness": 0.5}
            candidates.append(row | {"created_at": now})
            proposals.append(
                {
                    "question_id": question.id,
                    "candidate_id": identity,
                    "ask_id": item.ask_id,
                    "proposer": spec.proposer,
                    "strategy": item.strategy,
                    "strategy_hash": hashes.get(item.strategy, ""),
                    "model": item.model,
                    "round": item.round,
                    "ordinal": proposal_ordinal(item.round, 0, 0, ordinal),
                }
            )
            found: dict[str, Any] = {} if item.right is None else evidence(*item.right)
            if item.findings:
                found["findings"] = [
                    {"name": name, "severity": Finding(name, name).severity, "detail": name}
                    for name in item.findings
                ]
            verdicts += [_verdict(identity, status, now, found) for status in item.verdicts]
    with db.write() as session:
        store_questions(session, questions)
        if candidates:
            session.execute(upsert(CandidateRow).on_conflict_do_nothing(), candidates)
        ids, made = [question.id for question in questions], {"tagrpo": "0.0.test"}
        run, _ = open_run(
            session, name=name, kind="propose", spec=spec.to_json(), question_ids=ids, versions=made
        )
        add_tasks(session, run.id, ids)
        if finished:
            session.execute(update(TaskRow).where(TaskRow.run_id == run.id).values(state=DONE))
        for table, rows in ((ProposalRow, proposals), (VerdictRow, verdicts)):
            if rows:
                session.execute(insert(table), [{**row, "run_id": run.id} for row in rows])
        update_standings(session, [row["candidate_id"] for row in proposals])
        finish_run(session, run.id, finished=finished)
    return run


def add_verdict(db: Database, run: Run, question: Question, text: str, status: str) -> None:
    """Append a verdict on a candidate."""
    row = _verdict(candidate_id(question.id, text), status, utc_now(), {})
    with db.write() as session:
        session.execute(insert(VerdictRow).values(run_id=run.id, **row))
        update_standings(session, [row["candidate_id"]])


def add_review(db: Database, question: Question, text: str, decision: str, reason: str = "read it") -> None:
    """Append a human decision on a candidate."""
    with db.write() as session:
        row = {"candidate_id": candidate_id(question.id, text), "decision": decision, "reason": reason}
        more = {"reviewer": "tester", "audit_id": None, "created_at": utc_now()}
        session.execute(insert(ReviewRow).values(**row, **more))
        update_standings(session, [candidate_id(question.id, text)])


def neighbor_texts(db: Database, reference: str) -> dict[str, list[str]]:
    """Return the texts of a published version's neighbors by the text of their question."""
    with db.read() as session:
        entries = load_set(session, reference).entries
    return {entry.question.text: [neighbor.text for neighbor in entry.neighbors] for entry in entries}


def _verdict(candidate: str, status: str, now: str, evidence: dict[str, Any]) -> dict[str, Any]:
    row = {"candidate_id": candidate, "status": status, "reason": f"{status} by the test"}
    return row | {"final": True, "evidence": evidence, "created_at": now}


def evidence(question: int, candidate: int) -> dict[str, Any]:
    """Return the evidence of a verdict with these correct answers (of 32 and of 12)."""
    counts = {
        "classes": ["gold", "other"],
        "original": [question, 31 - question],
        "candidate": [candidate, 12 - candidate],
        "gold": 0,
        "original_unparsed": 1,
        "candidate_unparsed": 0,
        "unknown_pairs": 0,
    }
    return {"counts": counts, "original_top": max(question, 31 - question)}


def add_ask(
    session: Session,
    run_id: str,
    reply: str | None,
    *,
    prompt: Sequence[tuple[str, str]] = (("user", "asked"),),
    tokens: tuple[int, int] = (1, 1),
    usd: float | None = 0.0,
    state: str = ANSWERED,
    error: str | None = None,
    **columns: Any,
) -> int:
    """Store a request that has ended, with its bodies; by default an answer in the scope of the run."""
    messages = tuple(Message(role, content) for role, content in prompt)
    fields = {"scope": run_id, "model": "m", "seed": int.from_bytes(os.urandom(6))} | columns
    cost = None if usd is None else round(usd * PICO_PER_USD)
    [ask_id] = begin(run_id, 0, session, [(Request(messages=messages, **fields), cost, None)])
    assert isinstance(ask_id, int)
    end(session, [Ended(ask_id, state, cost, *tokens, reply=reply, error=error)])
    return ask_id


def completion(*texts: str) -> str:
    """Return a server's reply with these texts."""
    choices = [{"message": {"content": each}, "finish_reason": "stop"} for each in texts]
    return json.dumps({"choices": choices})
