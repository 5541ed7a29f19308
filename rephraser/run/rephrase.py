"""Rephrase a question: propose, check, compare answers, and again until enough candidates are accepted."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from sqlalchemy import Row
from sqlalchemy.orm import Session

from evaluator.grading import AnswerKind, Grader
from rephraser.candidates import (
    CheckedRow,
    candidate_id,
    check_structure,
    read_candidates,
    store_checked,
    store_verdict,
)
from rephraser.checks.premises import UNREADABLE, Premises, parse_premises
from rephraser.checks.premises import build_messages as premise_messages
from rephraser.proposing.file import FileCandidates
from rephraser.proposing.parsing import ParseResult, parse_candidates
from rephraser.proposing.rules import propose_by_rules
from rephraser.proposing.strategies import RESPONSE_SCHEMA, Earlier, build_messages, failure_reason
from rephraser.questions.store import load_questions
from rephraser.run.judge import Answers, Case, cannot_read, extract_answer, judge_cases
from rephraser.run.spec import ANSWER, PREMISES, PROPOSE, PremiseSpec, RunSpec, SolverSpec, proposal_ordinal
from rephraser.verdict import Verdict
from service.asks.ask import ENOUGH, Asker, Failed, Models, Outcome, Stopped
from service.asks.request import Answer, Request, prompt_request
from service.asks.store import Grouped
from service.asks.work import work_on_run
from service.database import Database
from service.hashing import derive_seed
from service.questions.images import Image, load_images
from service.questions.question import Question
from service.runs.store import Run
from service.telling import TellStage

EARLIER_SHOWN = 6
"""How many earlier candidates the proposer gets to keep away from."""

FEWEST_JUDGED = 20
"""How many candidates must be judged before a low acceptance rate stops a run."""


async def rephrase_run(
    db: Database,
    run: Run,
    models: Models,
    report: TellStage,
    *,
    candidates: FileCandidates | None = None,
    stop_below: float | None = None,
    retry_final: bool = False,
    grader_workers: int | None = None,
) -> Outcome:
    """Work on a run until it is done, stopped by a cap, or only failed requests are left.

    Args:
        candidates: Those of a run that proposes from a file.
        stop_below: The run stops if a smaller share of its candidates is accepted.
    """
    spec, judged, accepted = RunSpec.from_json(run.spec), 0, 0

    def propose_without_model(question: Question, count: int) -> Sequence[str]:
        """Return the first `count` candidates from the file or by the rules."""
        if candidates is not None:
            return candidates.by_question.get(question.id, ())[:count]
        return propose_by_rules(question.text, count, seed=derive_seed("seed", spec.seed, question.id) or 0)

    async def rephrase(asker: Asker, question_id: str) -> None:
        """Propose and judge candidates for a question until enough are accepted or all rounds are used."""
        nonlocal judged, accepted
        question, images = await asker.store.read_together(_read_questions, question_id)
        asked = QuestionWork(run.id, spec, judging, asker, question, images)
        for round_number in range(spec.rounds):
            await asked.compare()
            slots, avoid = await asked.missing(round_number)
            if not (wanted := sum(slots)):
                break
            if spec.proposer == "llm":
                for strategy, count in enumerate(slots):
                    await asked.propose(round_number, strategy, count, avoid)
                continue
            texts = propose_without_model(question, len(asked.proposed) + wanted)
            if not await asked.add(texts, round_number):
                break
        await asked.compare()
        if stop_below is not None:
            stored = await asked.read_candidates()
            judged += len(stored)
            accepted += sum(each.status in spec.counting for each in stored)
            if judged >= FEWEST_JUDGED and accepted < stop_below * judged:
                asker.stop(
                    ENOUGH,
                    f"{accepted:,} of {judged:,} candidates were accepted ({accepted / judged:.1%}), "
                    f"which is below stop_below={stop_below:g}",
                )
        if asked.failed is not None:
            raise asked.failed

    with (
        Grader(workers=grader_workers) as grader,
        closing(Grouped(partial(judge_cases, spec, grader))) as judging,
    ):
        return await work_on_run(
            db, run.id, rephrase, models, partial(report, "questions"), retry_final=retry_final
        )


def _read_questions(session: Session, ids: Sequence[str]) -> list[tuple[Question, tuple[Image, ...]]]:
    """Return the questions of these ids with their images, in their order."""
    questions = load_questions(session, ids)
    images = load_images(session, (id for each in questions.values() for id in each.images))
    return [(questions[id], tuple(images[image] for image in questions[id].images)) for id in ids]


@dataclass
class QuestionWork:
    """The work on one question. A replay takes the same way: what may differ goes through `asker.once`.

    `judging` judges the cases of several questions together. `proposed` are the candidates by id, in order.
    `failed` is the first request that failed for good; the question goes on without it.
    """

    run_id: str
    spec: RunSpec
    judging: Grouped[Case, dict[str, Any]]
    asker: Asker
    question: Question
    images: tuple[Image, ...]
    proposed: dict[str, CheckedRow] = field(default_factory=dict)
    failed: Failed | None = None
    _failed_strategies: set[int] = field(default_factory=set)

    @cached_property
    def original(self) -> asyncio.Task[Answers]:
        """The answers to the question itself, sampled once they are needed."""
        samples = self.spec.rule.original_samples
        return asyncio.create_task(self._answers(self.question.id, self.question.text, samples))

    async def read_candidates(self) -> Sequence[Row[Any]]:
        """Return the candidates of the question as they are stored, edited ones too."""
        return await self.asker.store.read(read_candidates, self.run_id, self.question.id)

    async def missing(self, round_number: int) -> tuple[list[int], list[Earlier]]:
        """Return how many candidates each strategy still has to propose, and what to keep away from.

        The latter are the latest proposed candidates, with the reason why one failed.
        """

        async def look() -> dict[str, Any]:
            stored = await self.read_candidates()
            reasons = {
                each.ordinal: failure_reason(
                    each.status, each.evidence.get("findings", ()), reviewed=each.reviewed
                )
                for each in stored
            }
            latest = [each.proposal["ordinal"] for each in self.proposed.values()][-EARLIER_SHOWN:]
            filled = [each.strategy for each in stored if each.status in self.spec.counting]
            strategies = zip(self.spec.strategies, self.spec.slots(), strict=True)
            missing = [max(0, wanted - filled.count(made_by.name)) for made_by, wanted in strategies]
            compared = any("counts" in each.evidence for each in stored)
            closed = compared and cannot_read(await asyncio.shield(self.original), self.spec.rule)
            useless = range(len(missing)) if closed else self._failed_strategies
            slots = [0 if place in useless else count for place, count in enumerate(missing)]
            return {"slots": slots, "avoid": {str(ordinal): reasons.get(ordinal) for ordinal in latest}}

        result: dict[str, Any] = await self.asker.once(f"round {round_number} of {self.question.id}", look)
        texts = {str(each.proposal["ordinal"]): each.candidate["text"] for each in self.proposed.values()}
        avoid = [(texts[place], reason) for place, reason in result["avoid"].items() if place in texts]
        return result["slots"], avoid

    async def propose(self, round_number: int, strategy: int, count: int, avoid: Sequence[Earlier]) -> None:
        """Add up to `count` candidates by one strategy; unusable replies are asked for again.

        A request names what to avoid of earlier rounds, and what its own strategy proposed in this one, so
        that it stays the same if another strategy's request is sent again.
        """
        spec, question, earlier = self.spec, self.question, list(avoid)
        for attempt in range(spec.content_attempts):
            if not count:
                return
            assert spec.sampling is not None
            messages = build_messages(
                spec.strategies[strategy],
                question.text,
                count,
                avoid=earlier[-EARLIER_SHOWN:],
                structured=spec.output == "json",
                images=self.images,
            )
            request = Request(
                spec.model_identity,
                messages,
                sampling=spec.sampling.decoding,
                seed=derive_seed("seed", spec.seed, question.id, round_number, strategy, attempt),
                draw=(round_number * 100 + strategy) * 100 + attempt,
                response_schema=RESPONSE_SCHEMA if spec.output == "json" else None,
                scope=self.run_id,
                kind=PROPOSE,
                about=question.id,
            )
            [answer] = await self._finish([self.asker.ask(request)])
            if answer is None:
                self._failed_strategies.add(strategy)
                return
            texts, outcome = parse_candidates(answer.choices[0], question=question.text, count=count)
            new = await self.add(texts, round_number, strategy, attempt, answer, outcome)
            count -= len(new)
            earlier += [(each.candidate["text"], None) for each in new]

    async def add(
        self,
        texts: Sequence[str],
        round_number: int,
        strategy: int = 0,
        attempt: int = 0,
        answer: Answer | None = None,
        outcome: ParseResult | None = None,
    ) -> list[CheckedRow]:
        """Check texts and store those that are new to the question, with their first verdicts."""
        made_by, ask_id = self.spec.strategies[strategy], answer.ask_id if answer else None
        origin = {
            "ask_id": ask_id,
            "proposer": self.spec.proposer,
            "strategy": made_by.name,
            "strategy_hash": made_by.hash,
            "model": (answer and answer.model) or self.spec.model,
            "round": round_number,
        }
        new: list[CheckedRow] = []
        for index, text in enumerate(texts):
            if (id := candidate_id(self.question.id, text)) in self.proposed:
                continue
            passing = (each for each in self.proposed.values() if each.verdict["status"] != Verdict.REJECTED)
            siblings = [each.candidate["text"] for each in passing]
            proposal = {**origin, "ordinal": proposal_ordinal(round_number, strategy, attempt, index)}
            self.proposed[id] = await asyncio.to_thread(
                check_structure, self.run_id, self.spec, self.question, text, siblings, proposal
            )
            new.append(self.proposed[id])
        if outcome is ParseResult.OK and len(new) < len(texts):
            outcome = ParseResult.PARTIAL
        await self.asker.store.write(store_checked, new, ask_id, outcome.value if outcome else None)
        return new

    async def compare(self) -> None:
        """Compare the answers to candidates that wait for this, edited ones too, with the question's."""
        stored = await self.read_candidates()
        # Reviews count in every run. Only for edited texts does a review replace the comparison of answers.
        waiting = [each for each in stored if not (each.final if each.mended_from else each.verdict_final)]
        await self._finish(
            [self._compare(each.candidate_id, each.text, each.evidence["findings"]) for each in waiting]
        )

    async def _compare(self, id: str, text: str, findings: Sequence[Mapping[str, str]]) -> None:
        spec, premises = self.spec, None
        if spec.premises is not None and self.question.kind is not AnswerKind.CODE:
            premises = await self._ask_premises(spec.premises, id, text)
        findings = [each for each in findings if not each["name"].startswith("premise_")]
        original = await asyncio.shield(self.original)
        closed = cannot_read(original, spec.rule)
        for look, samples in enumerate(spec.rule.looks):
            drawn = await self._answers(id, text, 0 if closed else samples)
            last = closed or samples == spec.rule.looks[-1]
            judged = await self.judging.do(Case(self.question, findings, premises, last, original, drawn))
            verdict = {"run_id": self.run_id, "candidate_id": id, **judged}
            if await self.asker.store.write(store_verdict, look, verdict):
                return

    async def _ask_premises(self, spec: PremiseSpec, id: str, text: str) -> Premises:
        """Return what a model says about the premises; none if no reply can be read."""
        for attempt in range(self.spec.content_attempts):
            request = Request(
                spec.model,
                premise_messages(self.question.text, text),
                sampling=spec.sampling.decoding,
                seed=derive_seed("seed", spec.seed, spec.id, id, attempt),
                draw=attempt,
                scope=spec.id,
                kind=PREMISES,
                about=id,
            )
            [answer] = await self._finish([self.asker.ask(request)])
            if answer is None:
                break
            premises = parse_premises(answer.choices[0])
            if premises.outcome != UNREADABLE:
                return premises
        return Premises()

    async def _answers(self, subject_id: str, text: str, samples: int) -> Answers:
        """Return each solver's share of the first `samples` answers to a text."""

        async def draw(solver: SolverSpec, share: int) -> list[str | None]:
            starts = range(0, share, solver.samples_per_request)
            blocks = await self._finish([self._block(solver, subject_id, text, start) for start in starts])
            return [answer for block in blocks for answer in block or ()][:share]

        shares = zip(self.spec.solvers, self.spec.shares(samples), strict=True)
        return await self._finish([draw(solver, share) for solver, share in shares])

    async def _block(self, solver: SolverSpec, subject_id: str, text: str, start: int) -> list[str | None]:
        """Return the answers of one block; a server that sends fewer is asked again for the rest.

        A block has `samples_per_request` answers whatever a rule needs of the last one, so that runs with
        other rules share it.
        """
        answers: list[str | None] = []
        block_seed = derive_seed("seed", solver.seed, solver.id, subject_id, start, 0)
        while (done := len(answers)) < solver.samples_per_request:
            request = prompt_request(
                solver.model_identity,
                solver.prompt_spec,
                solver.sampling,
                text,
                self.images,
                seed=derive_seed("seed", block_seed, done) if done else block_seed,
                n=solver.samples_per_request - done,
                draw=start + done,
                scope=solver.id,
                kind=ANSWER,
                about=subject_id,
            )
            answer = await self.asker.ask(request)
            answers += [extract_answer(each, self.question.kind) for each in answer.choices[: request.n]]
        return answers

    async def _finish(self, asked: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Await all, then raise any other error; the result of a request that failed for good is None."""
        ended = await asyncio.gather(*asked, return_exceptions=True)
        errors = [error for error in ended if isinstance(error, BaseException)]
        for error in sorted(errors, key=lambda error: isinstance(error, Stopped | Failed)):
            if not (isinstance(error, Failed) and error.final):
                raise error
            self.failed = self.failed or error
        return [None if isinstance(result, BaseException) else result for result in ended]
