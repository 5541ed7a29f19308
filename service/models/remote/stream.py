"""One pass over many requests: taken lazily, finished in any order, stopped for good reasons only."""

import asyncio
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass

from service.models.remote.chat import (
    CONTENT_FILTER,
    CONTEXT_LENGTH,
    SETTINGS,
    ChatRequest,
    ChatResponse,
    Failure,
)
from service.models.remote.money import Budget

OnResult = Callable[[ChatRequest, ChatResponse | Failure], Awaitable[None] | None]
Source = AsyncIterable[ChatRequest] | Iterable[ChatRequest]
Ask = Callable[[ChatRequest, asyncio.Event], Awaitable[ChatResponse | Failure | None]]

FAILING = "failing"


@dataclass(frozen=True)
class RunOutcome:
    """What `RemoteClient.run` did.

    `stopped` is None when all requests were asked, else why no more were: budget, requests, authentication,
    unknown model, quota, settings, failing, interrupted; `message` says it in a sentence.
    """

    answered: int
    failed: int
    stopped: str | None
    message: str | None


class Stream:
    """The state of one `RemoteClient.run`.

    Requests that are refused as too long say nothing about the next one, unless nothing was ever answered:
    then it may be `max_tokens` that leaves no room for any prompt. So after `halt_after` of them no more is
    sent before one of those in flight is answered; where none is, the run stops.
    """

    def __init__(
        self,
        ask: Ask,
        budget: Budget,
        room: Callable[[], int],
        on_result: OnResult,
        halt_after: int,
        *,
        answered_before: bool,
    ) -> None:
        self._ask, self._budget, self._room = ask, budget, room
        self._on_result, self._halt_after = on_result, halt_after
        self._answered = self._failed = self._failed_in_a_row = self._too_long = 0
        self._answered_before = answered_before
        self._stopped: str | None = None
        self._message: str | None = None
        self._last_refusal = ""
        self._error: Exception | None = None
        self._stopping = asyncio.Event()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._delivering: set[asyncio.Task[None] | None] = set()

    def stop(self, reason: str, message: str, *, pauses: bool = True) -> None:
        """Take no further request; those in flight are finished, `pauses` between attempts end at once."""
        if self._stopped is None:
            self._stopped, self._message = reason, message
        if pauses:
            self._stopping.set()
        self._changed.set()

    async def drive(self, source: Source) -> RunOutcome:
        """Do it all; see `RemoteClient.run`."""
        requests = _iterate(source)
        try:
            await self._take(requests)
            await self._finish()
            self._stop_if_all_too_long()
        except asyncio.CancelledError:
            for task in self._tasks - self._delivering:
                task.cancel()
            await self._finish()
            raise
        except Exception as error:
            self._fail(error)
            await self._finish()
        finally:
            if inspect.isasyncgen(requests):
                await requests.aclose()
        if self._error is not None:
            raise self._error
        return RunOutcome(self._answered, self._failed, self._stopped, self._message)

    async def _take(self, requests: AsyncIterator[ChatRequest]) -> None:
        while not self._is_stopped():
            if len(self._tasks) >= self._room() or (self._tasks and self._all_too_long()):
                self._changed.clear()
                await self._changed.wait()
                continue
            if self._stop_if_all_too_long():
                return
            if (spent := self._budget.exhausted) is not None:
                self._stop_for_budget(spent)
                return
            try:
                request = await anext(requests)
            except StopAsyncIteration:
                return
            if self._is_stopped():
                return
            task = asyncio.create_task(self._one(request))
            self._tasks.add(task)
            task.add_done_callback(self._end)

    def _all_too_long(self) -> bool:
        return not self._answered and not self._answered_before and self._too_long >= self._halt_after

    def _stop_if_all_too_long(self) -> bool:
        if self._all_too_long():
            self.stop(
                SETTINGS,
                f"the first {self._too_long} requests were all refused as too long for the model's context "
                f"and none was answered, the last: {self._last_refusal}",
            )
        return self._all_too_long()

    def _is_stopped(self) -> bool:
        return self._stopped is not None

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._delivering.discard(task)
        self._changed.set()

    async def _finish(self) -> None:
        """Wait for everything under way; a second cancellation does not interrupt calls of `on_result`."""
        while self._tasks:
            try:
                await asyncio.wait(set(self._tasks))
            except asyncio.CancelledError:
                for task in self._tasks - self._delivering:
                    task.cancel()
                if not self._delivering:
                    raise

    async def _one(self, request: ChatRequest) -> None:
        try:
            answer = await self._ask(request, self._stopping)
            if answer is None:
                self._stop_for_budget(self._budget.exhausted or "budget")
                return
            self._delivering.add(asyncio.current_task())
            delivered = self._on_result(request, answer)
            if delivered is not None:
                await delivered
            self._count(answer)
        except Exception as error:
            self._fail(error)

    def _count(self, answer: ChatResponse | Failure) -> None:
        if isinstance(answer, ChatResponse):
            self._answered += 1
            self._failed_in_a_row = 0
            return
        self._failed += 1
        if answer.fatal:
            self.stop(answer.kind, answer.message)
        elif answer.kind == CONTEXT_LENGTH:
            self._too_long += 1
            self._last_refusal = answer.message
        elif answer.kind != CONTENT_FILTER:  # which says nothing about the next request
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= self._halt_after:
                self.stop(
                    FAILING, f"{self._failed_in_a_row} requests in a row failed, the last: {answer.message}"
                )

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        self.stop("error", str(error))

    def _stop_for_budget(self, what: str) -> None:
        # What has its money already is sent, and tried again.
        budget = self._budget
        if what == "requests":
            self.stop("requests", f"--max-requests {budget.max_requests} is reached", pauses=False)
            return
        self.stop(
            "budget",
            f"{budget.describe()}, and the next request might cost more than the rest",
            pauses=False,
        )


async def _iterate(source: Source) -> AsyncIterator[ChatRequest]:
    if isinstance(source, AsyncIterable):
        async for request in source:
            yield request
    else:
        for request in source:
            yield request
