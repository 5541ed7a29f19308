"""Candidates of a large database for measuring pages: with their requests, verdicts, evidence and answers."""

import json
import random
from collections.abc import Sequence
from typing import Any

from benchmarks.pages.made_texts import Texts
from evaluator.grading import GRADER_VERSION
from rephraser.checks import FATAL, Finding
from rephraser.proposing.strategies import Strategy
from rephraser.run.spec import RunSpec, SolverSpec
from rephraser.tables import candidate_id
from service.database import Database, utc_now
from service.models.settings import Sampling
from service.questions import Question
from service.runs.cells import CellPlan, Receipt, add_cells, claim_cells, fail_cell, fill_cell, set_outcomes
from service.runs.store import Run, finish_run, open_run

STRATEGIES = (
    Strategy("perspectives", "5", "other words, other order", "Say it in other words."),
    Strategy("format", "1", "another layout", "Lay it out in another way."),
    Strategy("rename", "1", "other names", "Use other names."),
)
FINDINGS = ("number_changed", "answer_format_lost", "formula_changed", "too_similar", "unit_lost")
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
        plans = [
            CellPlan(run.id, "propose", id, 0, 0, 0, {"count": 3, "seed": n}) for n, id in enumerate(ids)
        ]
        add_cells(session, run.id, plans)
        cells = {}
        for cell in claim_cells(session, run.id, run.id, owner="benchmark", limit=len(plans)):
            cells[cell.subject_id] = cell.id
    rows: dict[str, list[Any]] = {"candidates": [], "proposals": [], "first": [], "last": []}
    bodies: dict[int, str] = {}
    for question in questions:
        proposed = []
        for ordinal in range(3):
            strategy = STRATEGIES[ordinal]
            text = f"{texts.prose(80, 420)} Find {question.answer} - 1 + 1."
            identity = candidate_id(question.id, text)
            proposed.append(text)
            rows["candidates"].append((identity, question.id, text, now, 0.5))
            cell = cells[question.id]
            model = MODELS[chance.random() < 0.3]
            rows["proposals"].append(
                (run.id, question.id, identity, cell, "llm", strategy.name, strategy.hash, model, 0, ordinal)
            )
            findings = _findings(chance)
            fatal = any(finding["severity"] == "fatal" for finding in findings)
            first = "rejected" if fatal else "unverified"
            evidence = {"findings": findings, "versions": {"checks": "1"}}
            rows["first"].append(
                (identity, run.id, first, None, "structural checks", fatal, json.dumps(evidence), now)
            )
            if not fatal:
                rows["last"].append((identity, run.id, *_judged(chance, question, findings, solver.id), now))
        bodies[cells[question.id]] = json.dumps(
            {
                "choices": [
                    {"message": {"content": json.dumps({"rephrasings": proposed})}, "finish_reason": "stop"}
                ]
            }
        )
    with db.write() as session:
        for number, (cell, body) in enumerate(bodies.items()):
            if number % 200 == 199:
                fail_cell(session, cell, "RateLimitError: 429 after 6 attempts", attempts=6, cost_usd=None)
            else:
                fill_cell(session, cell, body, Receipt(MODELS[0], 700, 400, 0.019, 1, 4.2))
        set_outcomes(session, dict.fromkeys(bodies, "ok"))
        connection = session.connection()
        connection.exec_driver_sql(
            "INSERT INTO candidates (id, question_id, text, created_at, likeness) VALUES (?, ?, ?, ?, ?)",
            rows["candidates"],
        )
        connection.exec_driver_sql(
            "INSERT INTO proposals (run_id, question_id, candidate_id, cell_id, proposer, strategy,"
            " strategy_hash, model, round, ordinal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows["proposals"],
        )
        for part in ("first", "last"):
            connection.exec_driver_sql(
                "INSERT INTO verdicts (candidate_id, run_id, status, posterior, reason, final, evidence,"
                " created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows[part],
            )
        finish_run(session, run.id, finished=True)
    _make_answers(db, run, solver, questions[: len(questions) // 20], rows["candidates"], texts)
    return run


def _findings(chance: random.Random) -> list[dict[str, str]]:
    return [
        {
            "name": name,
            "severity": Finding(name, "").severity.value,
            "detail": f"{name.replace('_', ' ')}: 12 became 13.",
        }
        for name in FINDINGS
        if chance.random() < (0.015 if name in FATAL else 0.1)
    ]


def _judged(
    chance: random.Random, question: Question, findings: list[dict[str, str]], solver: str
) -> tuple[str, float, str, bool, str]:
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
        round(chance.random(), 4),
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
    response = f"{texts.prose(600, 900)} So it is \\boxed{{7}}."
    choices = [{"message": {"content": response}, "finish_reason": "stop"}] * 4
    body = json.dumps({"choices": choices})
    with db.write() as session:
        plans = [
            CellPlan(solver.id, "answer", subject, 0, first, 0, {"count": 4})
            for subject, number in wanted
            for first in range(0, number, 4)
        ]
        add_cells(session, run.id, plans)
        answers = []
        for cell in claim_cells(session, run.id, solver.id, owner="benchmark", limit=len(plans)):
            fill_cell(session, cell.id, body, Receipt(solver.model, 200, 1600, 0.0005, 1, 9.0))
            answers += [
                (cell.id, solver.id, cell.subject_id, cell.ordinal + choice, choice, "7", "stop")
                for choice in range(4)
            ]
        session.connection().exec_driver_sql(
            "INSERT INTO answers (cell_id, solver_id, subject_id, ordinal, choice, extracted, finish_reason)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            answers,
        )
