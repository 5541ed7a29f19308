"""A rephrase run whose models answer by a script: no server, no network, no weights.

`World(path, spec, proposed=[...], answers={...}).work()` carries the run out; then look at it.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from asking import Said, ScriptedEndpoint
from runs import open_empty
from sqlalchemy import select

from rephraser.proposing.strategies import load_strategy
from rephraser.questions.store import store_questions
from rephraser.run.rephrase import rephrase_run
from rephraser.run.spec import ANSWER, KIND, PREMISES, PROPOSE, RunSpec, SolverSpec
from rephraser.tables import CandidateRow, VerdictRow
from service.asks.ask import Models, Outcome
from service.asks.request import Request
from service.asks.store import add_tasks
from service.models.access import Budget
from service.models.settings import Sampling
from service.questions.question import Question, make_question
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


def make_spec(**changes: Any) -> RunSpec:
    """Return settings with a proposer "m", a solver "s", two neighbors and two rounds."""
    spec = RunSpec(
        questions="q",
        proposer="llm",
        model="m",
        strategies=(load_strategy("perspectives"),),
        n=2,
        rounds=2,
        content_attempts=2,
        sampling=Sampling(temperature=1.0, top_p=1.0, max_tokens=100),
        solvers=(SolverSpec("s"),),
    )
    return replace(spec, **changes)


def proposals(*texts: str) -> str:
    """Return a proposer's reply with these candidates."""
    return json.dumps({"rephrasings": texts})


class World:
    """A database with one run and the script of its models.

    Attributes:
        proposed: what the proposer says, one request after the other; by question id if there are several.
        answers: what the solver answers to a text that contains a key; the first key that fits counts. Texts
            without `\\boxed` are put into a box.
        premises: what the model that is asked about premises says, one request after the other.
    """

    def __init__(
        self,
        path: Path,
        spec: RunSpec,
        questions: Sequence[Question] = (QUESTION,),
        *,
        proposed: Sequence[Said] | Mapping[str, Sequence[Said]] = (),
        answers: Mapping[str, Said] | None = None,
        premises: Sequence[Said] = (),
    ) -> None:
        self.db, self.spec, self.questions = open_empty(path / "t.db"), spec, tuple(questions)
        by_question = proposed if isinstance(proposed, Mapping) else {questions[0].id: proposed}
        self.proposed = {key: list(said) for key, said in by_question.items()}
        self.answers, self.premises = dict(answers or {"": "12"}), list(premises)
        self.endpoints = {
            model: ScriptedEndpoint(self._say, model, tokens=(10, 20))
            for model in (
                spec.model,
                *(solver.model for solver in spec.solvers),
                *([spec.premises.model] if spec.premises else ()),
            )
        }
        with self.db.write() as session:
            store_questions(session, self.questions)
        self.run = self.open("run", spec)

    def open(self, name: str, spec: RunSpec) -> Run:
        """Start a run over the same questions and work on it from now on."""
        ids = [question.id for question in self.questions]
        with self.db.write() as session:
            self.run, _ = open_run(
                session, name=name, kind=KIND, spec=spec.to_json(), question_ids=ids, versions={}
            )
            add_tasks(session, self.run.id, ids)
        return self.run

    def work(self, *, max_requests: int | None = None, **options: Any) -> Outcome:
        """Carry the run out until it is done or stopped."""
        budget = Budget(max_requests=max_requests)
        models = Models(self.endpoints, budget=budget, at_once=4, retry_s=0.001)
        return asyncio.run(
            rephrase_run(self.db, self.run, models, lambda *_: None, grader_workers=1, **options)
        )

    def asked(self, kind: str) -> list[Request]:
        """Return the requests of a kind that were sent, in order."""
        sent = [request for endpoint in self.endpoints.values() for request in endpoint.sent]
        return [request for request in sent if request.kind == kind]

    def prompts(self) -> list[str]:
        """Return what the proposer was asked, in order."""
        return [request.messages[1].content for request in self.asked(PROPOSE)]

    def statuses(self) -> list[tuple[str, str, bool]]:
        """Return (text, status, final) of all verdicts, oldest first."""
        with self.db.read() as session:
            rows = session.execute(
                select(CandidateRow.text, VerdictRow.status, VerdictRow.final)
                .join(VerdictRow, VerdictRow.candidate_id == CandidateRow.id)
                .order_by(VerdictRow.id)
            )
            return [tuple(row) for row in rows]

    def final(self) -> dict[str, str]:
        """Return the final status by text."""
        return {text: status for text, status, final in self.statuses() if final}

    def evidence(self) -> dict[str, Any]:
        """Return the evidence of the newest verdict."""
        with self.db.read() as session:
            return session.scalars(select(VerdictRow.evidence).order_by(VerdictRow.id.desc())).first() or {}

    def _say(self, request: Request) -> Said:
        if request.kind == PROPOSE:
            return self.proposed[request.about].pop(0)
        if request.kind == PREMISES:
            return self.premises.pop(0)
        assert request.kind == ANSWER
        said = next(said for part, said in self.answers.items() if part in request.messages[0].content)
        if isinstance(said, str) and len(said) < 20 and "\\boxed" not in said:
            return f"So it is $\\boxed{{{said}}}$."
        return said
