"""Rephrase a question: propose, check, compare answers, and again until enough candidates are accepted."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evaluator.grading import AnswerKind
from rephraser.checks.premises import UNREADABLE, Premises, parse_premises
from rephraser.checks.premises import build_messages as premise_messages
from rephraser.proposing.parsing import ParseResult, parse_candidates
from rephraser.run.judge import Answers, Case, CheckedCandidate, cannot_read, check_structure, extract_answer
from rephraser.run.requests import RESPONSE_SCHEMA, Earlier, build_messages, failure_reason
from rephraser.run.spec import ANSWER, PREMISES, PROPOSE, RunSpec, SolverSpec, proposal_ordinal
from rephraser.run.store import CheckedRow, read_candidates, read_questions, store_checked, store_look
from rephraser.tables import candidate_id
from rephraser.verdict import Verdict
from service.asks.ask import ENOUGH, Asker, Failed, Stopped
from service.asks.request import Answer, Request, prompt_request
from service.asks.store import Grouped
from service.hashing import derive_seed
from service.questions import Question
from service.questions.images import Image

Source = Callable[[str, str, int], Sequence[str]]
"""Returns the first `count` candidates of a question, given its id, its text and the count."""

EARLIER_SHOWN = 6
"""How many earlier candidates the proposer gets to keep away from."""

FEWEST_JUDGED = 20
"""How many candidates must be judged before a low acceptance rate stops a run."""


@dataclass
class Rephrasing:
    """One run: `rephrase` is the work of a task, whose item is a question's id.

    Attributes:
        judging: Judges cases by `judge_cases`, those of several questions together.
        source: Gives the candidates of a run that asks no proposer.
        stop_below: The run stops if a smaller share of its candidates is accepted.
    """

    run_id: str
    spec: RunSpec
    judging: Grouped[Case, dict[str, Any]]
    source: Source | None = None
    stop_below: float | None = None
    _judged: int = 0
    _accepted: int = 0

    async def rephrase(self, asker: Asker, question_id: str) -> None:
        """Propose and judge candidates for a question until enough are accepted or all rounds are used.

        Raises:
            Failed, Stopped: see `Asker.ask`. After a final failure the question is as far as it gets.
        """
        question = QuestionWork(self, asker, *await asker.store.read_together(read_questions, question_id))
        for round_number in range(self.spec.rounds):
            await question.compare(await question.read_edited())
            missing = await question.missing(round_number)
            if not any(missing["slots"]):
                break
            candidates = await question.propose(round_number, missing["slots"], missing["avoid"])
            await question.compare(candidates)
            if self.source is not None and not candidates:
                break
        await question.compare(await question.read_edited())
        await self._count_accepted(asker, question_id)
        if question.failed is not None:
            raise question.failed

    async def _count_accepted(self, asker: Asker, question_id: str) -> None:
        """Stop the run if too few of its candidates are accepted."""
        if self.stop_below is None:
            return
        candidates = await asker.store.read(read_candidates, self.run_id, question_id)
        self._judged += len(candidates)
        self._accepted += sum(each.status in self.spec.counting for each in candidates)
        rate = self._accepted / self._judged if self._judged else 0.0
        if self._judged >= FEWEST_JUDGED and rate < self.stop_below:
            asker.stop(
                ENOUGH,
                f"{self._accepted:,} of {self._judged:,} candidates were accepted ({rate:.1%}), which is "
                f"below stop_below={self.stop_below:g}",
            )


class QuestionWork:
    """The work on one question. A replay takes the same way: what may differ goes through `asker.once`.

    `failed` is the first request that failed for good; the question goes on without it.
    """

    def __init__(self, run: Rephrasing, asker: Asker, question: Question, images: tuple[Image, ...]) -> None:
        self._run, self._asker, self._question, self._images = run, asker, question, images
        self._spec, self._store = run.spec, asker.store
        self._proposed: list[CheckedCandidate] = []
        self._failed_strategies: set[int] = set()
        self._original: asyncio.Task[Answers] | None = None
        self.failed: Failed | None = None

    async def missing(self, round_number: int) -> dict[str, Any]:
        """Return how many candidates each strategy still has to propose, and what to keep away from.

        The latter are the latest proposed candidates, with the reason why one failed.
        """

        async def look() -> dict[str, Any]:
            stored = await self._store.read(read_candidates, self._run.run_id, self._question.id)
            reasons = {each.ordinal: failure_reason(each) for each in stored}
            latest = [each.ordinal for each in self._proposed[-EARLIER_SHOWN:]]
            filled = [each.strategy for each in stored if each.status in self._spec.counting]
            strategies = zip(self._spec.strategies, self._spec.slots(), strict=True)
            missing = [max(0, wanted - filled.count(made_by.name)) for made_by, wanted in strategies]
            closed = self._original is not None and cannot_read(await self._original, self._spec)
            useless = range(len(missing)) if closed else self._failed_strategies
            slots = [0 if place in useless else count for place, count in enumerate(missing)]
            return {"slots": slots, "avoid": {str(ordinal): reasons.get(ordinal) for ordinal in latest}}

        result: dict[str, Any] = await self._asker.once(f"round {round_number} of {self._question.id}", look)
        return result

    async def propose(
        self, round_number: int, slots: Sequence[int], avoid: Mapping[str, str | None]
    ) -> list[CheckedCandidate]:
        """Return the new candidates of a round, checked and stored.

        A request names what to avoid of earlier rounds, and what its own strategy proposed in this one, so
        that it stays the same if another strategy's request is sent again.
        """
        if self._run.source is not None:
            seen = {each.text for each in self._proposed}
            texts = self._run.source(self._question.id, self._question.text, len(seen) + sum(slots))
            return await self._add([text for text in texts if text not in seen][: sum(slots)], round_number)
        texts_of = {str(each.ordinal): each.text for each in self._proposed}
        to_avoid = [(texts_of[place], reason) for place, reason in avoid.items() if place in texts_of]
        return [
            candidate
            for strategy, count in enumerate(slots)
            for candidate in await self._propose_by(strategy, count, round_number, to_avoid)
        ]

    async def _propose_by(
        self, strategy: int, count: int, round_number: int, avoid: Sequence[Earlier]
    ) -> list[CheckedCandidate]:
        """Return up to `count` new candidates by one strategy; unusable replies are asked for again."""
        spec, question = self._spec, self._question
        earlier, proposed = list(avoid), list[CheckedCandidate]()
        for attempt in range(spec.content_attempts if count else 0):
            assert spec.sampling is not None
            messages = build_messages(
                spec.strategies[strategy],
                question.text,
                count - len(proposed),
                avoid=earlier[-EARLIER_SHOWN:],
                structured=spec.output == "json",
                images=self._images,
            )
            request = Request(
                spec.model_identity,
                messages,
                sampling=spec.sampling.decoding,
                seed=derive_seed("seed", spec.seed, question.id, round_number, strategy, attempt),
                draw=(round_number * 100 + strategy) * 100 + attempt,
                response_schema=RESPONSE_SCHEMA if spec.output == "json" else None,
                scope=self._run.run_id,
                kind=PROPOSE,
                about=question.id,
            )
            [answer] = await self._finish([self._asker.ask(request)])
            if answer is None:
                self._failed_strategies.add(strategy)
                break
            choice = answer.choices[0]
            texts, outcome = parse_candidates(
                choice.text,
                question=question.text,
                count=count - len(proposed),
                truncated=choice.finish_reason == "length",
            )
            if choice.finish_reason in {"content_filter", "refusal"}:
                outcome = ParseResult.REFUSED
            new = await self._add(texts, round_number, strategy, attempt, answer, outcome)
            proposed += new
            earlier += [(each.text, None) for each in new]
            if len(proposed) == count:
                break
        return proposed

    async def _add(
        self,
        texts: Sequence[str],
        round_number: int,
        strategy: int = 0,
        attempt: int = 0,
        answer: Answer | None = None,
        outcome: ParseResult | None = None,
    ) -> list[CheckedCandidate]:
        """Check texts and store those that are new to the question, with their first verdicts."""
        question, made_by = self._question, self._spec.strategies[strategy]
        new: list[CheckedCandidate] = []
        checked: list[CheckedRow] = []
        for index, text in enumerate(texts):
            identity = candidate_id(question.id, text)
            if identity in {each.id for each in self._proposed}:
                continue
            siblings = [each.text for each in self._proposed if not each.rejected]
            proposal = {
                "ask_id": answer and answer.ask_id,
                "proposer": self._spec.proposer,
                "strategy": made_by.name,
                "strategy_hash": made_by.hash,
                "model": (answer and answer.model) or self._spec.model,
                "round": round_number,
                "ordinal": proposal_ordinal(round_number, strategy, attempt, index),
            }
            rows = await asyncio.to_thread(
                check_structure, self._run.run_id, self._spec, question, text, siblings, proposal
            )
            checked.append(rows)
            findings = rows.verdict["evidence"]["findings"]
            rejected = rows.verdict["status"] == Verdict.REJECTED
            new.append(CheckedCandidate(identity, text, rows.proposal["ordinal"], findings, rejected))
            self._proposed.append(new[-1])
        if outcome is ParseResult.OK and len(new) < len(texts):
            outcome = ParseResult.PARTIAL
        ask_id = None if answer is None else answer.ask_id
        await self._store.write(store_checked, checked, ask_id, None if outcome is None else outcome.value)
        return new

    async def read_edited(self) -> list[CheckedCandidate]:
        """Return the texts that people wrote for candidates of this question and that wait for answers."""
        stored = await self._store.read(read_candidates, self._run.run_id, self._question.id)
        return [CheckedCandidate.stored(each) for each in stored if each.mended_from and not each.final]

    async def compare(self, candidates: Sequence[CheckedCandidate]) -> None:
        """Compare the answers to candidates that passed the structural checks with the question's."""
        if self._spec.solvers:
            await self._finish([self._compare(each) for each in candidates if not each.rejected])

    async def _compare(self, candidate: CheckedCandidate) -> None:
        question = self._question
        if self._spec.premises is not None and question.kind is not AnswerKind.CODE:
            premises = await self._ask_premises(candidate)
            findings = [*candidate.findings, *premises.findings]
            candidate = replace(candidate, findings=findings, premises=premises)
        if self._original is None:
            samples = self._spec.rule.original_samples
            self._original = asyncio.create_task(self._answers(question.id, question.text, samples))
        original = await asyncio.shield(self._original)
        closed = cannot_read(original, self._spec)
        for look, samples in enumerate(self._spec.rule.looks):
            drawn = await self._answers(candidate.id, candidate.text, 0 if closed else samples)
            case = Case(question, candidate, look, original, drawn)
            verdict = await self._run.judging.do(case)  # with those of other candidates
            if await self._store.write(store_look, f"look {look} at {candidate.id}", verdict):
                return

    async def _answers(self, subject_id: str, text: str, samples: int) -> Answers:
        """Return each solver's share of the first `samples` answers to a text."""

        async def draw(solver: SolverSpec, share: int) -> list[str | None]:
            starts = range(0, share, solver.samples_per_request)
            blocks = await self._finish([self._block(solver, subject_id, text, start) for start in starts])
            return [answer for block in blocks for answer in block or ()][:share]

        shares = zip(self._spec.solvers, self._spec.shares(samples), strict=True)
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
                self._images,
                seed=derive_seed("seed", block_seed, done) if done else block_seed,
                n=solver.samples_per_request - done,
                draw=start + done,
                scope=solver.id,
                kind=ANSWER,
                about=subject_id,
            )
            answer = await self._asker.ask(request)
            answers += [extract_answer(each, self._question.kind) for each in answer.choices[: request.n]]
        return answers

    async def _ask_premises(self, candidate: CheckedCandidate) -> Premises:
        """Return what a model says about the premises; nothing readable if it never said any."""
        spec = self._spec.premises
        assert spec is not None
        for attempt in range(self._spec.content_attempts):
            request = Request(
                spec.model,
                premise_messages(self._question.text, candidate.text),
                sampling=spec.sampling.decoding,
                seed=derive_seed("seed", spec.seed, spec.id, candidate.id, attempt),
                draw=attempt,
                scope=spec.id,
                kind=PREMISES,
                about=candidate.id,
            )
            [answer] = await self._finish([self._asker.ask(request)])
            if answer is None:
                break
            choice = answer.choices[0]
            premises = parse_premises(choice.text, truncated=choice.finish_reason == "length")
            if premises.outcome != UNREADABLE:
                return premises
        return Premises()

    async def _finish(self, asked: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Await all, then raise any other error; the result of a request that failed for good is None."""
        ended = await asyncio.gather(*asked, return_exceptions=True)
        errors = [error for error in ended if isinstance(error, BaseException)]
        for error in sorted(errors, key=lambda error: isinstance(error, Stopped | Failed)):
            if not (isinstance(error, Failed) and error.final):
                raise error
            self.failed = self.failed or error
        return [None if isinstance(result, BaseException) else result for result in ended]
