"""Candidates of a large database for measuring pages: with their requests, verdicts, evidence and answers."""

import json
import random
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from benchmarks.pages.made_texts import Texts
from evaluator.grading import GRADER_VERSION
from rephraser.checks.structure import FATAL, Finding
from rephraser.proposing.strategies import Strategy
from rephraser.reviews.status import update_standings
from rephraser.run.spec import ANSWER, PROPOSE, RunSpec, SolverSpec
from rephraser.tables import candidate_id
from service.asks.attempts import Attempt, Ended, begin, end
from service.asks.request import Message, Request
from service.asks.store import add_tasks
from service.asks.tables import ANSWERED, DONE, FINAL, AskRow, TaskRow
from service.database import Database, utc_now
from service.models.settings import Sampling
from service.questions import Question
from service.runs.store import Run, finish_run, open_run
from service.runs.tables import PICO_PER_USD

STRATEGIES = (
    Strategy("perspectives", "5", "other words, other order", "Say it in other words."),
    Strategy("format", "1", "another layout", "Lay it out in another way."),
    Strategy("rename", "1", "other names", "Use other names."),
)
FINDINGS = ("number_missing", "number_added", "answer_format_changed", "too_like_original", "question_added")
MODELS = ("openai/gpt-4-turbo", "hosted_vllm/Qwen/Qwen2.5-32B-Instruct")


def make_candidates(db: Database, texts: Texts, questions: Sequence[Question]) -> Run:
    """Store a run with three candidates a question, their requests, verdicts with evidence, some answers."""
    chance, now = texts.chance, utc_now()
    solver = SolverSpec(model="hosted_vllm/Qwen/Qwen2.5-7B-Instruct")
    spec = RunSpec(
        questions="math",
        proposer="llm",
        model=MODELS[0],
        strategies=STRATEGIES,
        solvers=(solver,),
        sampling=Sampling(temperature=1.0, top_p=1.0, max_tokens=2048),
    )
    with db.write() as session:
        ids = [question.id for question in questions]
        run, _ = open_run(
            session, name="math-neighbors", kind="propose", spec=spec.to_json(), question_ids=ids, versions={}
        )
        add_tasks(session, run.id, ids)
        asks = begin_asks(session, [_attempt(run, "", PROPOSE, id, 0, MODELS[0], {}) for id in ids])
    rows: dict[str, list[Any]] = {"candidates": [], "proposals": [], "first": [], "last": []}
    replies: list[str] = []
    for question, ask_id in zip(questions, asks, strict=True):
        proposed = []
        for ordinal in range(3):
            strategy = STRATEGIES[ordinal]
            text = f"{texts.prose(80, 420)} Find {question.answer} - 1 + 1."
            identity = candidate_id(question.id, text)
            proposed.append(text)
            rows["candidates"].append((identity, question.id, text, now, 0.5))
            model = MODELS[chance.random() < 0.3]
            proposer = ("llm", strategy.name, strategy.hash, model)
            rows["proposals"].append((run.id, question.id, identity, ask_id, *proposer, 0, ordinal))
            findings = _findings(chance)
            fatal = any(finding["severity"] == "fatal" for finding in findings)
            first = "rejected" if fatal else "unverified"
            evidence = {"findings": findings, "versions": {"checks": "1"}}
            rows["first"].append(
                (identity, run.id, first, "structural checks", fatal, json.dumps(evidence), now)
            )
            if not fatal:
                rows["last"].append((identity, run.id, *_judged(chance, question, findings, solver.id), now))
        replies.append(_reply([json.dumps({"rephrasings": proposed})]))
    answered = list(zip(asks, replies, strict=True))
    with db.write() as session:
        end(session, [_ended(number, ask_id, reply) for number, (ask_id, reply) in enumerate(answered)])
        session.execute(update(AskRow).where(AskRow.state == ANSWERED).values(outcome="ok"))
        session.execute(update(TaskRow).where(TaskRow.run_id == run.id).values(state=DONE))
        connection = session.connection()
        connection.exec_driver_sql(
            "INSERT INTO candidates (id, question_id, text, created_at, likeness) VALUES (?, ?, ?, ?, ?)",
            rows["candidates"],
        )
        connection.exec_driver_sql(
            "INSERT INTO proposals (run_id, question_id, candidate_id, ask_id, proposer, strategy,"
            " strategy_hash, model, round, ordinal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows["proposals"],
        )
        for part in ("first", "last"):
            connection.exec_driver_sql(
                "INSERT INTO verdicts (candidate_id, run_id, status, reason, final, evidence, created_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                rows[part],
            )
        update_standings(session, [row[0] for row in rows["candidates"]])
        finish_run(session, run.id, finished=True)
    _make_answers(db, run, solver, questions[: len(questions) // 20], rows["candidates"], texts)
    return run


def _findings(chance: random.Random) -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "severity": Finding(name, "").severity,
            "detail": f"{name.replace('_', ' ')}: 12 became 13.",
        }
        for name in FINDINGS
        if chance.random() < (0.015 if name in FATAL else 0.1)
    ]


def _judged(
    chance: random.Random, question: Question, findings: list[dict[str, str]], solver: str
) -> tuple[str, str, bool, str]:
    status = chance.choices(("accepted", "undecided", "rejected"), (0.75, 0.15, 0.1))[0]
    shared = {"accepted": chance.randint(6, 12), "undecided": chance.randint(1, 3), "rejected": 0}[status]
    evidence = {
        "counts": {
            "classes": [question.answer, "7", "12", "-1"],
            "original": [20, 6, 4, 0],
            "candidate": [shared, 0, 0, 12 - shared],
            "gold": 0,
            "original_unparsed": 2,
            "candidate_unparsed": 0,
            "unknown_pairs": 0,
        },
        "by_solver": {"hosted_vllm/Qwen/Qwen2.5-7B-Instruct": {"original": 32, "candidate": 12}},
        "findings": findings,
        "overlap": shared,
        "new_top": 12 - shared,
        "original_top": 20,
        "solvers": [solver],
        "versions": {"grader": GRADER_VERSION, "checks": "1"},
    }
    return (
        status,
        f"{shared} of 12 answers are shared.",
        True,
        json.dumps(evidence),
    )


def _make_answers(
    db: Database,
    run: Run,
    solver: SolverSpec,
    questions: Sequence[Question],
    candidates: Sequence[tuple[Any, ...]],
    texts: Texts,
) -> None:
    """Draw 32 answers to a twentieth of the questions and 12 to their candidates, four to a request."""
    of_candidates = [row[0] for row in candidates[: 3 * len(questions)]]
    wanted = [(question.id, 32) for question in questions] + [(id, 12) for id in of_candidates]
    reply = _reply([f"{texts.prose(600, 900)} So it is \\boxed{{7}}."] * 4)
    with db.write() as session:
        asks = begin_asks(
            session,
            [
                _attempt(run, solver.id, ANSWER, subject, first, solver.model, {"n": 4})
                for subject, number in wanted
                for first in range(0, number, 4)
            ],
        )
        cost = round(0.0005 * PICO_PER_USD)
        end(session, [Ended(id, ANSWERED, cost, 200, 1600, 9.0, reply=reply) for id in asks])


def begin_asks(session: Session, attempts: Sequence[Attempt]) -> list[int]:
    """Store attempts as sent; return their ids."""
    return [_known(ask_id) for ask_id in begin(session, attempts)]


def _known(ask_id: int | str) -> int:
    if isinstance(ask_id, str):
        raise ValueError(f"an attempt was not stored: {ask_id}")
    return ask_id


def _attempt(
    run: Run, scope: str, kind: str, about: str, place: int, model: str, fields: dict[str, Any]
) -> Attempt:
    messages = (Message("user", f"A request about {about}."),)
    request = Request(model, messages, scope=scope, kind=kind, about=about, draw=place, **fields)
    return Attempt(request, run.id, 0, PICO_PER_USD)


def _ended(number: int, ask_id: int, reply: str) -> Ended:
    if number % 200 == 199:
        return Ended(ask_id, FINAL, 0, error="context length: the prompt is too long")
    return Ended(ask_id, ANSWERED, round(0.019 * PICO_PER_USD), 700, 400, 4.2, reply=reply)


def _reply(texts: Iterable[str]) -> str:
    choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in texts]
    return json.dumps({"choices": choices, "model": "m"})
