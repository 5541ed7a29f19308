"""Drives a run until nothing is left to do: plan, fill, read, check, judge, and again for what is missing."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from evaluator.grading import Grader
from rephraser.run.ask import premise_requests, proposing_requests, solving_requests
from rephraser.run.check import check_structure
from rephraser.run.judge import judge_answers
from rephraser.run.local.drawing import draw_cells, proposer_cells, solver_cells
from rephraser.run.local.proposals import Source, propose_locally
from rephraser.run.plan import add_planned, plan_answers, plan_proposals
from rephraser.run.read import collect_answers, collect_premises, collect_proposals
from rephraser.run.spec import RunSpec
from rephraser.run.waves import LOW_RATE, Waves
from service.database import Database
from service.models.drawing import Sampler
from service.models.remote import BatchClient, BatchStatus, ChatResponse, Failure, RemoteClient
from service.models.remote.chat import BUDGET
from service.models.stopping import GRACE_S, INTERRUPTED, finish_on_signals
from service.runs.batching import fill_by_batch
from service.runs.cells import CellPlan, is_complete, open_cells, reopen_failed_cells
from service.runs.filling import BuildRequests, CellsToAsk, Filled, fill_cells
from service.runs.leases import OTHERS_POLL_S, release_dead_leases, this_owner
from service.runs.progress import count_states
from service.runs.store import Run, finish_run
from service.runs.tables import EMPTY
from service.telling import TellStage

PROPOSER = "proposer"
"""The key of the proposer's sampler among those of the solvers."""

Client = RemoteClient | BatchClient
OpenClient = Callable[[str], Client]
"""Returns the client for a model, given its name: one for single requests, or one for batch jobs."""


@dataclass
class Invocation(Filled):
    """What one invocation did in all its passes."""

    notices: list[str] = field(default_factory=list)  # what samplers of this machine have to say

    def add(self, filled: Filled) -> None:
        self.answered += filled.answered
        self.failed += filled.failed
        self.stopped = self.stopped or filled.stopped
        self.message = self.message or filled.message
        for kind, count in filled.failures.items():
            self.failures[kind] = self.failures.get(kind, 0) + count


@dataclass(frozen=True)
class Engine:
    """One invocation of a run.

    `source` gives local candidates, `open_client` reaches remote models, `samplers` draw for models on this
    machine (by the solver's id, for the proposer as `PROPOSER`). `waves` says how far into the run's
    questions is asked. `retry_final`: what failed for good is asked again.
    """

    db: Database
    run: Run
    spec: RunSpec
    report: TellStage
    open_client: OpenClient
    waves: Waves
    samplers: Mapping[str, Sampler] = field(default_factory=dict)
    source: Source | None = None
    count_tokens: Callable[[str], int] | None = None
    grader_workers: int | None = None
    batch_poll_s: float = 60.0
    grace_s: float = GRACE_S
    retry_final: bool = False
    _jobs: set[asyncio.Task[Filled]] = field(default_factory=set, init=False)
    _dropped: threading.Event = field(default_factory=threading.Event, init=False)
    _tally: "Tally" = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tally", Tally(self.report))

    async def drive(self) -> Invocation:
        """Work until the run is done, the budget is spent, or only failed requests are left.

        At the cap all that came is read and judged, and what costs nothing, or still fits, is asked.
        """
        outcome = Invocation()
        with self.db.write() as session:
            reopen_failed_cells(session, self.run.id, final=self.retry_final)
            finish_run(session, self.run.id, finished=False)
        async with AsyncExitStack() as stack:
            grader = stack.enter_context(Grader(workers=self.grader_workers))
            for sampler in self.samplers.values():
                stack.callback(sampler.close)
            clients: dict[str, Client] = {}
            stack.enter_context(
                finish_on_signals(lambda: self._interrupt(clients.values()), grace_s=self.grace_s)
            )
            while True:
                began = time.monotonic()
                # What another process fills while this one reads and judges is to be read once more.
                unfilled = self._open_cells()
                try:
                    planned = await asyncio.to_thread(self._work_locally, grader)
                except asyncio.CancelledError:  # the thread goes on, and the process ends after it
                    self._dropped.set()
                    raise
                local_s = time.monotonic() - began
                fillers = self._fillers()
                for model, _, _ in fillers:
                    if model not in clients:
                        clients[model] = await stack.enter_async_context(self.open_client(model))
                answered, asked = outcome.answered, outcome.answered + outcome.failed
                fillings = await self._fill(fillers, clients)
                for filled in fillings:
                    outcome.add(filled)
                if outcome.stopped is None:
                    self._draw(outcome)
                elif {filled.stopped for filled in fillings} <= {
                    None,
                    BUDGET,
                } and outcome.answered > answered:
                    outcome.stopped = outcome.message = None
                if outcome.stopped:
                    return outcome
                # Planned cells that nobody was asked for were answered for another run: they are read next.
                if planned or outcome.answered + outcome.failed > asked:
                    continue
                elsewhere = self._open_cells()
                if elsewhere:
                    self.report("waiting for another process", 0, None, f"{elsewhere} requests")
                    await asyncio.sleep(max(OTHERS_POLL_S, 4 * local_s))
                elif not unfilled:
                    if not self.waves.more or self._in_batch_jobs():
                        break
                    outcome.message = self.waves.too_low()
                    if outcome.message is not None:
                        outcome.stopped = LOW_RATE
                        return outcome
                    self.waves.begin_next()
        with self.db.write() as session:
            finish_run(session, self.run.id, finished=is_complete(session, self.run.id))
        return outcome

    def _open_cells(self) -> int:
        with self.db.read() as session:
            return open_cells(session, self.run.id)

    def _in_batch_jobs(self) -> bool:
        """Say whether requests wait in jobs that only a later invocation, with batch jobs, collects."""
        with self.db.read() as session:
            states = count_states(session, self.run.id)
        return any(count for (_, state), count in states.items() if state == EMPTY)

    def _work_locally(self, grader: Grader) -> int:
        """Do all that needs no request and plan every cell that can be; return how many cells are new."""
        with self.db.write() as session:
            release_dead_leases(session, self.run.id)
        while True:
            self._read()
            check_structure(
                self.db,
                self.run.id,
                self.spec,
                count_tokens=self.count_tokens,
                report=partial(self._stage, "checking structure"),
            )
            judge_answers(
                self.db, self.run.id, self.spec, grader, report=partial(self._stage, "comparing answers")
            )
            if self.source is not None and propose_locally(
                self.db,
                self.run.id,
                self.spec,
                self.source,
                reach=self.waves.reach,
                report=partial(self._stage, "proposing"),
            ):
                continue
            plans = self._plan()
            if not self.waves.has_room(len(plans)):
                break
            self.waves.begin_next()
        add_planned(self.db, self.run.id, plans)
        return len(plans)

    def _plan(self) -> list[CellPlan]:
        with self.db.read() as session:
            plans = []
            if self.source is None:
                plans += plan_proposals(session, self.run.id, self.spec, reach=self.waves.reach)
            return plans + plan_answers(session, self.run.id, self.spec)

    def _read(self) -> None:
        collectors: tuple[Callable[[Session, str], int], ...] = (
            partial(collect_proposals, spec=self.spec),
            collect_answers,
            partial(collect_premises, spec=self.spec),
        )
        done = 0
        for collect in collectors:
            while cells := self._read_some(collect):
                done += cells
                self._stage("reading answers", done, None)

    def _read_some(self, collect: Callable[[Session, str], int]) -> int:
        """Read a few cells: the write lock is held for a moment only, other processes wait for it."""
        with self.db.write() as session:
            return collect(session, self.run.id)

    def _stage(self, stage: str, done: int, total: int | None) -> None:
        """Report behind each few candidates, all of which are stored: the place to end where nobody waits."""
        if self._dropped.is_set():
            raise _DroppedError
        self.report(stage, done, total)

    def _fillers(self) -> list[tuple[str, str, BuildRequests]]:
        """Return (model, scope, request builder) of everything that remote models may be asked."""
        fillers: list[tuple[str, str, BuildRequests]] = []
        if self.spec.asks_proposer:
            build = partial(proposing_requests, self.db, self.run.id, self.spec)
            fillers.append((self.spec.model, self.run.id, build))
        for solver in self.spec.solvers:
            if solver.id in self.samplers:
                continue
            fillers.append((solver.model, solver.id, partial(solving_requests, self.db, solver)))
        if (premises := self.spec.premises) is not None:
            fillers.append((premises.model, premises.id, partial(premise_requests, self.db, premises)))
        return fillers

    async def _fill(
        self, fillers: list[tuple[str, str, BuildRequests]], clients: Mapping[str, Client]
    ) -> list[Filled]:
        return await fill_together(
            [self._fill_scope(clients[model], scope, build) for model, scope, build in fillers],
            lambda: self._interrupt(clients.values()),
        )

    async def _fill_scope(self, client: Client, scope: str, build: BuildRequests) -> Filled:
        owner, count = this_owner(scope), self._tally.count
        cells = CellsToAsk(self.db, self.run.id, scope, owner, build, on_answer=count)
        if isinstance(client, RemoteClient):
            return await fill_cells(cells, client)
        job = asyncio.create_task(fill_by_batch(cells, client, report=self._job, poll_s=self.batch_poll_s))
        self._jobs.add(job)
        try:
            await asyncio.wait([job])
            return Filled(stopped=INTERRUPTED) if job.cancelled() else job.result()
        finally:
            job.cancel()
            self._jobs.discard(job)

    def _interrupt(self, clients: Iterable[Client]) -> bool:
        """Let requests in flight come to their end; a batch job goes on without its process anyway."""
        stopped = [client.interrupt() for client in clients if isinstance(client, RemoteClient)]
        for job in self._jobs:
            job.cancel()
        return any(stopped) or bool(self._jobs)

    def _draw(self, outcome: Invocation) -> None:
        """Let the models on this machine draw, one after the other.

        In the event loop's own thread, which alone gets signals, and after what is remote: nothing is in
        flight meanwhile.
        """
        finders = {PROPOSER: partial(proposer_cells, self.db, self.run.id, self.spec)}
        finders |= {
            solver.id: partial(solver_cells, self.db, self.run.id, solver) for solver in self.spec.solvers
        }
        for key, find in finders.items():
            sampler = self.samplers.get(key)
            if sampler is None or outcome.stopped is not None:
                continue
            stage = "drawing candidates" if key == PROPOSER else "drawing answers"
            outcome.add(draw_cells(find, sampler, self.report, stage))
            outcome.notices += [notice for notice in sampler.notices if notice not in outcome.notices]
            if any(other is not sampler for other in self.samplers.values()):
                sampler.close()  # the next one's weights take its place on the GPU

    def _job(self, status: BatchStatus) -> None:
        self.report("waiting for a batch job", status.completed + status.failed, status.total or None)


class _DroppedError(Exception):
    """Ends the thread of local work once a signal has ended the run."""


class Tally:
    """Counts the answers of an invocation as they come, for the progress line."""

    def __init__(self, report: TellStage) -> None:
        self._report = report
        self._answered = self._failed = 0
        self._usd = 0.0

    def count(self, answer: ChatResponse | Failure) -> None:
        if isinstance(answer, Failure):
            self._failed += 1
        else:
            self._answered += 1
        self._usd += answer.cost_usd or 0.0
        spent = f"${self._usd:.2f}" if self._usd else ""
        failed = f"{self._failed} failed" if self._failed else ""
        self._report(
            "asking models", self._answered + self._failed, None, " ".join(filter(None, (spent, failed)))
        )


async def fill_together(
    fillings: Sequence[Coroutine[Any, Any, Filled]], interrupt: Callable[[], object]
) -> list[Filled]:
    """Await all fillings; where one fails, the others send no more and what they have in flight comes home.

    Raises:
        Exception: the first error of a filling, once all have ended.
    """

    async def fill(filling: Coroutine[Any, Any, Filled]) -> Filled:
        try:
            return await filling
        except Exception:
            interrupt()
            raise

    ended = await asyncio.gather(*(fill(filling) for filling in fillings), return_exceptions=True)
    for error in ended:
        if isinstance(error, BaseException):
            raise error
    return [filled for filled in ended if isinstance(filled, Filled)]
