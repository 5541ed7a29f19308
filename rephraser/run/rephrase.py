"""Rephrase a question: propose, check, compare answers, and again until enough candidates are accepted."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from evaluator.grading import AnswerKind, Grader
from rephraser.checks.premises import UNREADABLE, Premises, parse_premises
from rephraser.proposing.parsing import Outcome, parse_candidates
from rephraser.reviews.status import CandidateStatus
from rephraser.run.judge import (
    Case,
    check_structure,
    extract_answer,
    judge_cases,
    premise_findings,
    too_many_unread,
)
from rephraser.run.requests import EARLIER_SHOWN, Earlier, premise_request, proposing_request, solving_request
from rephraser.run.spec import RunSpec, SolverSpec, proposal_ordinal
from rephraser.run.store import (
    Proposed,
    Subject,
    read_edited,
    read_reasons,
    read_statuses,
    read_subjects,
    store_checked,
    store_looks,
)
from rephraser.tables import candidate_id
from rephraser.verdict import Verdict
from service.asks.ask import ENOUGH, Asker, Failed, NotStored, Stopped
from service.asks.request import Answer
from service.asks.store import Grouped, Store

Source = Callable[[str, str, int], Sequence[str]]
"""Returns the first `count` candidates of a question, given its id, its text and the count."""

Answers = dict[str, list[str | None]]
"""Extracted answers by solver id, in order, without those whose request failed for good."""

FEWEST_JUDGED = 20
"""How many candidates must be judged before a low acceptance rate stops a run."""


@dataclass(frozen=True)
class CheckedCandidate:
    """A candidate of a question. `rejected`: its structural checks, which found `findings`, rejected it."""

    id: str
    text: str
    ordinal: int
    findings: Sequence[Mapping[str, str]]
    rejected: bool
    premises: Premises | None = None


class Rephrasing:
    """One run: `rephrase` is the work of a task, whose item is a question's id."""

    def __init__(
        self,
        store: Store,
        run_id: str,
        spec: RunSpec,
        grader: Grader,
        *,
        source: Source | None = None,
        count_tokens: Callable[[str], int] | None = None,
        stop_below: float | None = None,
    ) -> None:
        """Set up.

        Args:
            store: The database.
            run_id: The run.
            spec: Its settings.
            grader: Compares answers.
            source: Gives the candidates of a run that asks no proposer.
            count_tokens: Counts the tokens of a candidate; by default its length is estimated.
            stop_below: The run stops if a smaller share of its candidates is accepted.
        """
        self.store, self.run_id, self.spec = store, run_id, spec
        self.source, self.count_tokens, self.stop_below = source, count_tokens, stop_below
        self.judging = Grouped(
            lambda groups: [judge_cases(run_id, spec, cases, grader) for cases in groups.values()]
        )
        self._judged = self._accepted = 0

    def close(self) -> None:
        """End the thread that compares answers."""
        self.judging.close()

    async def rephrase(self, asker: Asker, question_id: str) -> None:
        """Propose and judge candidates for a question until enough are accepted or all rounds are used.

        Raises:
            Failed, Stopped: see `Asker.ask`. After a final failure the question is as far as it gets.
        """
        question = await self.store.read(read_subjects, question_id)
        state = _Question(self, asker, question)
        for round_number in range(self.spec.rounds):
            await state.judge_mended()
            missing = await state.missing(round_number)
            if not any(missing["slots"]):
                break
            candidates = await state.propose(round_number, missing["slots"], missing["avoid"])
            await state.settle(candidates)
            if self.source is not None and not candidates:
                break
        else:
            await state.judge_mended()
        await self._count_accepted(asker, question_id)
        if state.failed is not None:
            raise state.failed

    async def judge_stored(
        self, asker: Asker, question: Subject, candidates: Sequence[CheckedCandidate]
    ) -> list[dict[str, Any] | None]:
        """Return the last verdict that stored answers allow on each candidate; None without any.

        `asker` has no endpoints.
        """
        state = _Question(self, asker, question)
        return await asyncio.gather(*map(state.last_verdict, candidates))

    async def _count_accepted(self, asker: Asker, question_id: str) -> None:
        """Stop the run if too few of its candidates are accepted."""
        if self.stop_below is None:
            return
        statuses = await self.store.read(read_statuses, (self.run_id, question_id))
        self._judged += len(statuses)
        self._accepted += sum(status.status in self.spec.counting for status in statuses)
        rate = self._accepted / self._judged if self._judged else 0.0
        if self._judged >= FEWEST_JUDGED and rate < self.stop_below:
            asker.stop(
                ENOUGH,
                f"{self._accepted:,} of {self._judged:,} candidates were accepted ({rate:.1%}), which is "
                f"below stop_below={self.stop_below:g}",
            )


class _Question:
    """The work on one question. A replay takes the same way: what may differ goes through `asker.once`.

    `failed` is the first request that failed for good; the question goes on without it.
    """

    def __init__(self, run: Rephrasing, asker: Asker, question: Subject) -> None:
        self._run, self._asker, self._question = run, asker, question
        self._spec, self._store = run.spec, run.store
        self._proposed: list[CheckedCandidate] = []
        self._failed_strategies: set[int] = set()
        self._original: asyncio.Task[Answers] | None = None
        self.failed: Failed | None = None

    async def missing(self, round_number: int) -> dict[str, Any]:
        """Return how many candidates each strategy still has to propose, and what to keep away from.

        The latter are the latest candidates by ordinal, with the reason why one failed.
        """

        async def look() -> dict[str, Any]:
            key = self._run.run_id, self._question.id
            statuses = await self._store.read(read_statuses, key)
            reasons = await self._store.read(read_reasons, key) if self._proposed else {}
            latest = [str(each.ordinal) for each in self._proposed[-EARLIER_SHOWN:]]
            avoid = {ordinal: reasons.get(ordinal) for ordinal in latest}
            return {"slots": await self._slots(statuses), "avoid": avoid}

        result: dict[str, Any] = await self._asker.once(f"round {round_number} of {self._question.id}", look)
        return result

    async def _slots(self, statuses: Sequence[CandidateStatus]) -> list[int]:
        if self._original is not None and too_many_unread(_flat(await self._original), self._spec):
            return [0] * len(self._spec.strategies)
        names = [strategy.name for strategy in self._spec.strategies]
        filled = [
            names.index(each.strategy)
            for each in statuses
            if each.status in self._spec.counting and each.strategy in names
        ]
        return [
            0 if place in self._failed_strategies else max(0, wanted - filled.count(place))
            for place, wanted in enumerate(self._spec.slots())
        ]

    async def propose(
        self, round_number: int, slots: Sequence[int], avoid: Mapping[str, str | None]
    ) -> list[CheckedCandidate]:
        """Return the new candidates of a round, checked and stored.

        A request names what to avoid of earlier rounds, and what its own strategy proposed in this one, so
        that it stays the same if another strategy's request is sent again.
        """
        if self._run.source is not None:
            return await self._propose_from_source(self._run.source, round_number, sum(slots))
        missing = {strategy: count for strategy, count in enumerate(slots) if count}
        texts = {str(each.ordinal): each.text for each in self._proposed}
        to_avoid = [Earlier(texts[ordinal], reason) for ordinal, reason in avoid.items() if ordinal in texts]
        earlier = {strategy: list(to_avoid) for strategy in missing}
        candidates: list[CheckedCandidate] = []
        for attempt in range(self._spec.content_attempts):
            requests = {
                strategy: proposing_request(
                    self._run.run_id,
                    self._spec,
                    self._question.id,
                    self._question.text,
                    self._question.images,
                    round_number=round_number,
                    strategy=strategy,
                    attempt=attempt,
                    count=count,
                    avoid=earlier[strategy][-EARLIER_SHOWN:],
                )
                for strategy, count in missing.items()
            }
            answers = await self._finish([self._asker.ask(request) for request in requests.values()])
            for strategy, answer in zip(list(missing), answers, strict=True):
                if answer is None:
                    self._failed_strategies.add(strategy)
                    del missing[strategy]
                    continue
                choice = answer.choices[0]
                parsed = parse_candidates(
                    choice.text,
                    question=self._question.text,
                    count=missing[strategy],
                    truncated=choice.finish_reason == "length",
                )
                refused = choice.finish_reason in {"content_filter", "refusal"}
                outcome = Outcome.REFUSED if refused else parsed.outcome
                new = await self._add(parsed.candidates, round_number, strategy, attempt, answer, outcome)
                candidates += new
                earlier[strategy] += [Earlier(each.text) for each in new]
                missing[strategy] -= len(new)
                if not missing[strategy]:
                    del missing[strategy]
            if not missing:
                break
        return candidates

    async def _propose_from_source(
        self, source: Source, round_number: int, count: int
    ) -> list[CheckedCandidate]:
        seen = {each.text for each in self._proposed}
        texts = source(self._question.id, self._question.text, len(seen) + count)
        fresh = [text for text in texts if text not in seen][:count]
        return await self._add(fresh, round_number)

    async def _add(
        self,
        texts: Sequence[str],
        round_number: int,
        strategy: int = 0,
        attempt: int = 0,
        answer: Answer | None = None,
        outcome: Outcome | None = None,
    ) -> list[CheckedCandidate]:
        """Check texts and store those that are new to the question, with their first verdicts."""
        made_by = self._spec.strategies[strategy]
        seen = {each.id for each in self._proposed}
        proposed, new, verdicts = [], list[CheckedCandidate](), list[dict[str, Any]]()
        for index, text in enumerate(texts):
            identity = candidate_id(self._question.id, text)
            ordinal = proposal_ordinal(round_number, strategy, attempt, index)
            if identity in seen:
                continue
            seen.add(identity)
            verdict = await asyncio.to_thread(
                check_structure,
                self._run.run_id,
                self._spec,
                self._question,
                identity,
                text,
                [each.text for each in self._proposed if not each.rejected],
                count_tokens=self._run.count_tokens,
            )
            rejected = verdict["status"] == Verdict.REJECTED
            new.append(CheckedCandidate(identity, text, ordinal, verdict["evidence"]["findings"], rejected))
            self._proposed.append(new[-1])
            verdicts.append(verdict)
            row = {
                "ask_id": answer and answer.ask_id,
                "proposer": self._spec.proposer,
                "strategy": made_by.name,
                "strategy_hash": made_by.hash,
                "model": (answer and answer.model) or self._spec.model,
                "round": round_number,
                "ordinal": ordinal,
            }
            proposed.append(Proposed(self._question.id, self._question.text, text, row))
        if outcome is Outcome.OK and len(new) < len(texts):
            outcome = Outcome.PARTIAL
        outcomes = {} if answer is None or outcome is None else {answer.ask_id: outcome.value}
        await self._store.write(store_checked, (self._run.run_id, proposed, verdicts, outcomes))
        return new

    async def judge_mended(self) -> None:
        """Judge the texts that people wrote for candidates of this question."""
        mended = await self._store.read(read_edited, (self._run.run_id, self._question.id))
        await self.settle(
            [CheckedCandidate(id, text, place, findings, False) for id, text, place, findings in mended]
        )

    async def settle(self, candidates: Sequence[CheckedCandidate]) -> None:
        """Compare the answers to candidates that passed the structural checks with the question's."""
        if self._spec.solvers:
            await self._finish([self._compare(each) for each in candidates if not each.rejected])

    async def _compare(self, candidate: CheckedCandidate) -> None:
        premises = await self._ask_premises(candidate)
        if premises is not None:
            findings = [*candidate.findings, *premise_findings(premises)]
            candidate = replace(candidate, findings=findings, premises=premises)
        async for look, verdict in self._looks(candidate):
            kept = await self._store.write(store_looks, (f"look {look} at {candidate.id}", verdict))
            if kept["final"]:
                return

    async def last_verdict(self, candidate: CheckedCandidate) -> dict[str, Any] | None:
        """Return the last verdict that stored answers allow; None without any."""
        verdict = None
        with suppress(NotStored):
            async for _, verdict in self._looks(candidate):
                if verdict["final"]:
                    break
        return verdict

    async def _looks(self, candidate: CheckedCandidate) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        """Yield the verdict of each look, which asks for the answers that it needs."""
        if self._original is None:
            samples = self._spec.rule.original_samples
            self._original = asyncio.create_task(
                self._answers(self._question.id, self._question.text, samples)
            )
        original = await asyncio.shield(self._original)
        closed = too_many_unread(_flat(original), self._spec)
        for look, samples in enumerate(self._spec.rule.looks):
            drawn: Answers = {}
            if not closed:
                drawn = await self._answers(candidate.id, candidate.text, samples)
            by_solver = {
                solver.model: {
                    "original": len(original[solver.id]),
                    "candidate": len(drawn.get(solver.id, ())),
                }
                for solver in self._spec.solvers
            }
            case = Case(
                candidate_id=candidate.id,
                look=look,
                gold=self._question.answer,
                original=_flat(original),
                candidate=_flat(drawn),
                by_solver=by_solver,
                findings=candidate.findings,
                premises=candidate.premises,
                kind=self._question.kind,
                closed=closed,
            )
            yield look, await self._run.judging.do("judge", case)  # with those of other candidates

    async def _answers(self, subject_id: str, text: str, samples: int) -> Answers:
        """Return each solver's share of the first `samples` answers to a text."""
        blocks = [
            (solver, start)
            for solver, share in zip(self._spec.solvers, self._spec.shares(samples), strict=True)
            for start in range(0, share, solver.samples_per_request)
        ]
        drawn = await self._finish([self._block(solver, subject_id, text, start) for solver, start in blocks])
        answers: Answers = {solver.id: [] for solver in self._spec.solvers}
        for (solver, _), block in zip(blocks, drawn, strict=True):
            answers[solver.id] += block or []
        shares = zip(self._spec.solvers, self._spec.shares(samples), strict=True)
        return {solver.id: answers[solver.id][:share] for solver, share in shares}

    async def _block(self, solver: SolverSpec, subject_id: str, text: str, start: int) -> list[str | None]:
        """Return the answers of one block; a server that sends fewer is asked again for the rest."""
        answers: list[str | None] = []
        while len(answers) < solver.samples_per_request:
            request = solving_request(
                solver, subject_id, text, self._question.images, start=start, first=start + len(answers)
            )
            answer = await self._asker.ask(request)
            answers += [extract_answer(each, self._question.kind) for each in answer.choices[: request.n]]
        return answers

    async def _ask_premises(self, candidate: CheckedCandidate) -> Premises | None:
        """Return what a model says about the premises; nothing readable if it never said any."""
        if self._spec.premises is None or self._question.kind is AnswerKind.CODE:
            return None
        for attempt in range(self._spec.content_attempts):
            request = premise_request(
                self._spec.premises, self._question.text, candidate.id, candidate.text, attempt
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
        """Await all; return the results, None for a request that failed for good.

        Raises:
            Stopped, Failed, Exception: the first error, after everything has ended.
        """
        ended = await asyncio.gather(*asked, return_exceptions=True)
        errors = [error for error in ended if isinstance(error, BaseException)]
        for error in sorted(errors, key=lambda error: isinstance(error, Stopped | Failed)):
            if not (isinstance(error, Failed) and error.final):
                raise error
            self.failed = self.failed or error
        return [None if isinstance(result, BaseException) else result for result in ended]


def _flat(answers: Answers) -> tuple[str | None, ...]:
    return tuple(answer for drawn in answers.values() for answer in drawn)
