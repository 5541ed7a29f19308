"""`await asker.ask(request)`: every answer is paid for once, stored before use, and kept."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from service.asks import request as kinds
from service.asks import store as rows
from service.asks.money import cost_pico, worst_pico
from service.asks.request import Answer, Fault, Request, read_reply
from service.asks.servers import Endpoint
from service.asks.store import NO_ROOM, UNSENT, Ended, Store
from service.asks.tables import ANSWERED, FAILED, FINAL
from service.models.access import Budget
from service.runs.progress import read_account

BUDGET, REQUESTS, FAILING, INTERRUPTED, ENOUGH = "budget", "requests", "failing", "interrupted", "enough"
"""Why a run stops before its tasks are done, next to the kinds of fatal faults."""
IN_A_JOB = "in a batch job"
"""Why a request has no answer yet although nothing failed."""

ATTEMPTS = 6
LONGEST_PAUSE_S, LONGEST_RETRY_AFTER_S = 60.0, 300.0
TIME_OUTS = 2
"""A request that ran out of time so often has failed for good."""
ELSEWHERE_POLL_S, LONGEST_LOOK_S = 0.5, 5.0
LOOKS_PER_ATTEMPT = 10
"""After so many looks, every so many looks at what another process sends: an attempt takes the write lock."""
_LOG = logging.getLogger("tagrpo.asks")


def pause_s(fault: Fault, attempt: int, base_s: float) -> float | None:
    """Return the seconds between an attempt that failed and the next one; None: give up.

    Exponential pauses with jitter: attempt k is followed by a pause from [half, 1] of `base_s * 2**(k-1)`
    seconds. A server's Retry-After is a lower bound; a server that asks for more than
    `LONGEST_RETRY_AFTER_S` is given up.
    """
    asked = fault.retry_after_s
    if fault.kind not in kinds.RETRIED or attempt >= ATTEMPTS or (asked or 0) > LONGEST_RETRY_AFTER_S:
        return None
    pause = min(LONGEST_PAUSE_S, base_s * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.0)
    # The jitter on top keeps requests that were refused together from returning together.
    return pause if asked is None else asked + pause * 0.1


class Stopped(Exception):
    """The run sends no more requests: `kind` is the reason in a word, the message a sentence."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Failed(Exception):
    """A request without an answer. A final one fails in the same way whenever it is sent."""

    def __init__(self, kind: str, message: str, *, final: bool) -> None:
        super().__init__(message)
        self.kind, self.final = kind, final


@dataclass(frozen=True)
class Models:
    """The open endpoints of a command by `Request.model`, and the limits of its requests.

    `backends` create the endpoints that send a run's requests in batch jobs. At most `at_once` tasks run at
    a time. `retry_s` is the first pause between two attempts, see `pause_s`.
    """

    endpoints: Mapping[str, Endpoint]
    backends: Mapping[str, Callable[["Asker"], Endpoint]] = field(default_factory=dict)
    budget: Budget = field(default_factory=Budget)
    at_once: int = 256
    retry_s: float = 1.0


@dataclass
class Outcome:
    """What this process did for a run. `stopped` says in a word why it ended before the run was done.

    `done` tasks were finished, `failed` ones need a request that failed for good, `open` ones are left.
    `was_complete`: all tasks were done before.
    """

    done: int = 0
    failed: int = 0
    open: int = 0
    sent: int = 0
    answered: int = 0
    completion_tokens: int = 0
    pico_usd: int = 0
    stopped: str | None = None
    message: str | None = None
    failures: Counter[str] = field(default_factory=Counter)
    was_complete: bool = False


class Asker:
    """Sends requests to models for a run in this process."""

    def __init__(self, store: Store, run_id: str, worker: int, models: Models) -> None:
        """Set up; `run_id` pays, `worker` is this process as `store.enter` numbered it."""
        self.store, self.run_id, self.worker, self.models = store, run_id, worker, models
        self.stopping = asyncio.Event()
        self.stopped: Exception | None = None
        self.outcome = Outcome()
        self.last_answer_s = time.monotonic()
        self._under_way: dict[bytes, asyncio.Task[Answer]] = {}
        self.in_flight: set[int] = set()  # attempts that wait for a reply
        self._begin_rows = partial(rows.begin, run_id, worker)
        self._failed_in_a_row: Counter[str] = Counter()  # requests by model
        self._at_cap, self._settled = asyncio.Lock(), asyncio.Event()
        self._backends = {model: make(self) for model, make in models.backends.items()}

    async def ask(self, request: Request) -> Answer:
        """Return the answer, from the store if it is there; raise `Failed` or `Stopped`.

        An ask goes on if its caller is cancelled: what was sent is paid, and so it is stored.
        """
        task = self._under_way.get(request.key)
        if task is None:
            task = asyncio.create_task(self._ask(request), name=request.model)
            self._under_way[request.key] = task
            task.add_done_callback(lambda _: self._under_way.pop(request.key))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # a caller may be gone
        return await asyncio.shield(task)

    async def once(self, name: str, compute: Callable[[], Awaitable[Any]]) -> Any:
        """Return what `compute()` gave when the run first met this name; the value must fit into JSON.

        Whatever can differ at a replay goes through here, so that a replay sends the same requests.
        """
        kept = await self.store.read(rows.read_note, self.run_id, name)
        if kept is not None:
            return kept
        return await self.store.write(rows.note, self.run_id, name, await compute())

    def stop(self, kind: str, message: str) -> None:
        """Stop sending; in-flight requests finish, and pauses between attempts end immediately."""
        self.end(Stopped(kind, message))

    def end(self, error: Exception) -> None:
        """Stop as `stop` does; whatever would be sent from now on raises this error."""
        self.stopped = self.stopped or error
        self.stopping.set()
        self._settled.set()
        for sender in (*self.models.endpoints.values(), *self._backends.values()):
            sender.wake()

    def at_cap(self, model: str) -> int:
        """Return the number of a model's requests under way, if any request waits at the cap; otherwise 0."""
        names = [task.get_name() for task in self._under_way.values()]
        return names.count(model) if self._at_cap.locked() else 0

    async def finish(self) -> None:
        """Wait for everything in flight."""
        while self._under_way:
            await asyncio.wait(self._under_way.values())

    async def close(self) -> None:
        """End the backends of the run, before the store is closed."""
        for backend in self._backends.values():
            await backend.close()

    def cancel(self) -> None:
        """Drop in-flight requests and count them at their worst-case cost."""
        for task in self._under_way.values():
            task.cancel()

    async def _ask(self, request: Request) -> Answer:
        """Look up, or send until there is an answer."""
        faults, looks = list[Fault](), 0
        while (stored := await self.store.read_together(rows.find, request.key)) is None:
            is_due = looks < LOOKS_PER_ATTEMPT or looks % LOOKS_PER_ATTEMPT == 0
            sent = await self._attempt(request, faults) if is_due else None
            if isinstance(sent, Answer):
                return sent
            looks = looks + 1 if sent is None else 0
            await self.pause(min(looks * ELSEWHERE_POLL_S, LONGEST_LOOK_S) if sent is None else sent)
        if stored.state == FINAL:
            kind, _, message = stored.error.partition(": ")
            raise Failed(kind, message, final=True)
        return replace(read_reply(stored.reply, seeded=stored.seeded), ask_id=stored.id, body="")

    async def _attempt(self, request: Request, faults: list[Fault]) -> Answer | float | None:
        """Reserve, send once, store; the slot is free again as soon as the reply has come.

        Returns the answer, the pause before the next attempt, or None: another process sends the request.
        """
        backend = self._backends.get(request.model)
        sender = backend or self.models.endpoints[request.model]
        async with sender.slot(self.stopping) as server:
            worst = worst_pico(request, sender.price)
            ask_id = await self._begin((request, worst, UNSENT if backend else None))
            if ask_id is None:
                if backend is None and await self.store.read(rows.is_in_idle_job, request.key):
                    raise Failed(IN_A_JOB, "resume with batch=true", final=False)
                return None
            self.in_flight.add(ask_id)
            began = time.monotonic()
            try:
                answer = await sender.send(request, server)
            except Fault as fault:
                # Before the slot is free, so that nothing is sent after the last failure that is allowed.
                return await self._fail(request, ask_id, fault, faults)
            except Exception:  # requests that wait at the cap must not wait for this one
                self.land(ask_id)
                raise
        self._failed_in_a_row[request.model], self.last_answer_s = 0, time.monotonic()
        seconds = self.last_answer_s - began
        await self.settle(ask_id, answer, sender.price, seconds=seconds)
        done = f"{seconds:.2f} s, tokens: prompt {answer.prompt_tokens}, response {answer.completion_tokens}"
        _LOG.info("%s request to %s, id %d: answered in %s", request.kind, request.model, ask_id, done)
        return replace(answer, ask_id=ask_id, body="")

    async def _fail(self, request: Request, ask_id: int, fault: Fault, faults: list[Fault]) -> float:
        """Store a failed attempt after the earlier `faults`; return the pause before the next, or give up.

        Stops the run if every other request would fail too. As long as the model has answered nothing,
        `max_tokens` may be what is too long for every prompt.
        """
        faults.append(fault)
        model, is_final = request.model, fault.kind in kinds.FINAL
        if fault.kind == kinds.CONTEXT_LENGTH:
            is_final = await self.store.read(rows.has_answered, self.run_id, model)
        time_outs = sum(each.kind == kinds.TIME_OUT for each in faults)
        final = is_final or time_outs >= TIME_OUTS
        gives_up = final or self.stopping.is_set()
        attempts = len(faults) * (2 if model in self._backends else 1)  # a batch job may take a day
        pause = None if gives_up else pause_s(fault, attempts, self.models.retry_s)
        if pause is None:
            self.outcome.failures[fault.kind] += 1
            self._failed_in_a_row[model] += not is_final
            failed = self._failed_in_a_row[model]
            if fault.kind in kinds.FATAL:
                self.stop(fault.kind, fault.message)
            elif not is_final and failed >= self.models.budget.halt_after:
                words = f"{failed} consecutive requests failed, last: {fault.message}"
                if fault.kind == kinds.CONTEXT_LENGTH:
                    words += ". Lower max_tokens, or serve the model with a longer context."
                self.stop(FAILING, words)
        then = "not retried" if pause is None else f"retrying in {pause:.1f} s"
        _LOG.info("%s request to %s, id %d: %s; %s", request.kind, model, ask_id, fault, then)
        await self.settle(ask_id, fault, None, final=final)
        if pause is None:
            raise Failed(fault.kind, fault.message, final=final)
        return pause

    async def _begin(self, attempt: tuple[Request, int | None, str | None]) -> int | None:
        """Reserve money and note that it is sent; at the cap, wait for what is in flight to cost less."""
        if (begun := await self._try(attempt)) == NO_ROOM:
            async with self._at_cap:  # one at a time tries again
                others = True
                while others and begun == NO_ROOM:
                    self._settled.clear()
                    others = bool(self.in_flight)
                    begun = await self._try(attempt)
                    await asyncio.sleep(0)  # what was begun together with it notes that it is in flight
                    others = others or bool(self.in_flight)
                    if begun == NO_ROOM and others:
                        await self._settled.wait()
        if begun == NO_ROOM:
            cap_usd, spent_usd = await self.store.read(read_account, self.run_id)
            spent = f"${spent_usd:.4f} of --max-usd {cap_usd} is spent"
            raise Stopped(BUDGET, f"{spent}, and the next request might cost more than what is left")
        return begun if isinstance(begun, int) else None

    async def _try(self, attempt: tuple[Request, int | None, str | None]) -> int | str:
        if self.stopped is not None:
            raise self.stopped
        limit = self.models.budget.max_requests
        if limit is not None and self.outcome.sent >= limit:
            raise Stopped(REQUESTS, f"the limit max_requests={limit} is reached")
        self.outcome.sent += 1
        begun = await self.store.write_together(self._begin_rows, attempt)
        self.outcome.sent -= not isinstance(begun, int)
        return begun

    async def settle(
        self, ask_id: int, outcome: Answer | Fault, price: Any, *, final: bool = False, seconds: float = 0.0
    ) -> None:
        """Store the outcome of an attempt and its cost before anyone can use it.

        A possible bill of a failed one counts at its worst case.
        """
        if isinstance(outcome, Fault):
            cost, state = None if outcome.billed else 0, FINAL if final else FAILED
            ended = Ended(ask_id, state, cost, error=str(outcome))
        else:
            tokens = outcome.prompt_tokens, outcome.completion_tokens
            cost = cost_pico(price, *tokens) if any(tokens) else None
            ended = Ended(ask_id, ANSWERED, cost, *tokens, seconds, outcome.seeded, outcome.body)
        try:
            await self.store.write_together(rows.end, ended)
        finally:
            self.land(ask_id)
        self.outcome.answered += ended.state == ANSWERED
        self.outcome.completion_tokens += ended.completion_tokens
        self.outcome.pico_usd += cost or 0

    def land(self, ask_id: int) -> None:
        """Note that an attempt is no longer in flight."""
        self.in_flight.discard(ask_id)
        self._settled.set()

    async def pause(self, seconds: float) -> None:
        """Wait; raise `Stopped` if the run stops meanwhile."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        if self.stopped is not None:
            raise self.stopped
