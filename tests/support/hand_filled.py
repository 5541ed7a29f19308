"""A run filled by hand: a database with one run, its cells answered by the test. No server, no model."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import select

from evaluator.grading import Grader
from rephraser.proposing.strategies import load_strategy
from rephraser.run.ask import solving_requests
from rephraser.run.check import check_structure
from rephraser.run.judge import judge_answers
from rephraser.run.plan import add_planned, plan_answers, plan_proposals
from rephraser.run.read import collect_answers, collect_premises, collect_proposals
from rephraser.run.spec import RunSpec, SolverSpec
from rephraser.tables import CandidateRow, VerdictRow
from service.database import Database
from service.models.settings import Sampling
from service.questions import Question, make_question, store_questions
from service.runs.cells import Cell, Receipt, claim_cells, fail_cell, fill_cell
from service.runs.store import Run, open_run

QUESTION = make_question("If $x + 7 = 19$, what is the value of $x$?", "12")
OTHER = make_question(
    "A pen costs $12$ dollars and a pad costs $5$ dollars. How many dollars do they cost together?", "17"
)
# The same numbers, units and words: only answers show that it is another problem.
CHANGED = (
    "They cost $12$ dollars together, a pen and a pad, and one pad costs $5$ dollars. How many dollars does "
    "the pen cost?"
)
GOOD = ("What is the value of $x$ if $x + 7 = 19$?", "Given that $x + 7 = 19$, find the value of $x$.")
BAD_NUMBER = "If $x + 8 = 19$, what is the value of $x$?"
RECEIPT = Receipt("test-model", 10, 20, 0.01, 1, 0.1)


def make_spec(**changes: Any) -> RunSpec:
    spec = RunSpec(
        questions="q",
        proposer="llm",
        model="m",
        strategies=(load_strategy("perspectives"),),
        n=2,
        rounds=2,
        content_attempts=2,
        sampling=Sampling(1.0, 1.0, 100),
        solvers=(SolverSpec("s"),),
    )
    return replace(spec, **changes)


class World:
    """A database with one run, and hands to fill its cells."""

    def __init__(self, path: Path, spec: RunSpec, questions: tuple[Question, ...] = (QUESTION,)) -> None:
        self.db, self.spec = Database.open(path / "t.db"), spec
        with self.db.write() as session:
            store_questions(session, questions)
            self.run: Run
            self.run, _ = open_run(
                session,
                name="run",
                kind="propose",
                spec=spec.to_json(),
                question_ids=[question.id for question in questions],
                versions={},
            )

    def plan(self) -> int:
        with self.db.read() as session:
            plans = plan_proposals(session, self.run.id, self.spec)
            plans += plan_answers(session, self.run.id, self.spec)
        add_planned(self.db, self.run.id, plans)
        return len(plans)

    def claim(self, scope: str | None = None) -> list[Cell]:
        with self.db.write() as session:
            return claim_cells(
                session, self.run.id, scope or self.run.id, owner="boot|pids|elsewhere|1|1|t", limit=999
            )

    def fill(self, cell: Cell, *texts: str, finish: str = "stop") -> None:
        choices = [{"message": {"content": text}, "finish_reason": finish} for text in texts]
        with self.db.write() as session:
            fill_cell(session, cell.id, json.dumps({"choices": choices}), RECEIPT)

    def propose(self, text: str) -> None:
        """Answer the first open request for proposals with one candidate, and read it."""
        self.plan()
        self.fill(self.claim()[0], proposals((text,)))
        self.read()

    def give_up(self, cell: Cell) -> None:
        """Let the request fail for good."""
        with self.db.write() as session:
            fail_cell(session, cell.id, "context length: too long", attempts=1, cost_usd=0.0, final=True)

    def read(self) -> None:
        with self.db.write() as session:
            collect_proposals(session, self.run.id, self.spec)
        with self.db.write() as session:
            collect_answers(session, self.run.id)
        with self.db.write() as session:
            collect_premises(session, self.run.id, self.spec)
        check_structure(self.db, self.run.id, self.spec, count_tokens=None, report=lambda *_: None)

    def solve(self, answers: dict[str, str]) -> None:
        """Answer every open solver cell; `answers` maps a part of the text to the answer."""
        cells = self.claim(self.spec.solvers[0].id)
        for cell, request in zip(cells, solving_requests(self.db, self.spec.solvers[0], cells), strict=True):
            text = request.messages[0].content
            given = next(value for part, value in answers.items() if part in text)
            self.fill(cell, *[f"So it is $\\boxed{{{given}}}$."] * request.n)
        self.read()

    def judge(self, grader: Grader) -> int:
        return judge_answers(self.db, self.run.id, self.spec, grader, report=lambda *_: None)

    def evidence(self) -> dict[str, Any]:
        """The evidence of the newest verdict."""
        with self.db.read() as session:
            return session.scalars(select(VerdictRow.evidence).order_by(VerdictRow.id.desc())).first() or {}

    def statuses(self) -> list[tuple[str, str, bool]]:
        with self.db.read() as session:
            rows = session.execute(
                select(CandidateRow.text, VerdictRow.status, VerdictRow.final)
                .join(VerdictRow, VerdictRow.candidate_id == CandidateRow.id)
                .order_by(VerdictRow.id)
            )
            return [(text, status, final) for text, status, final in rows]


def proposals(texts: tuple[str, ...]) -> str:
    return json.dumps({"rephrasings": list(texts)})
