"""The client of every remote model call: retries, time-outs, concurrency, budget and receipts."""

import asyncio
import time
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Self

from service.models.remote.chat import (
    BAD_REQUEST,
    BUDGET,
    FINAL_KINDS,
    INTERRUPTED,
    INVALID_ANSWER,
    SERVER_ERROR,
    TIME_OUT,
    ChatRequest,
    ChatResponse,
    Endpoint,
    Failure,
    InvalidAnswerError,
    read_answer,
)
from service.models.remote.connection import EndpointClient
from service.models.remote.endpoint import EndpointCheck, check_endpoint, find_serving, load_backend
from service.models.remote.fates import Fates
from service.models.remote.faults import Fault, RetryPolicy, blame, classify
from service.models.remote.money import Bill, Budget, PriceTable, Reservation
from service.models.remote.redaction import redact
from service.models.remote.servers.limit import AdaptiveLimit, LimitSettings
from service.models.remote.servers.looking import Look, Serving
from service.models.remote.servers.pool import PASSING, REFUSING, Pool
from service.models.remote.servers.server import Server
from service.models.remote.stream import OnResult, RunOutcome, Source, Stream
from service.models.stopping import HALT_AFTER, STALL_S
from service.process import this_process
from service.runs.watchdog import Watchdog

OPTIONAL_FIELDS = 2  # response_format and seed; see `Backend.forget_refused`


class RemoteClient(EndpointClient):
    """Asks one endpoint, each request by itself, at the least loaded of its servers.

    One owner of retries, time-outs and concurrency: litellm's own are off.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        budget: Budget | None = None,
        prices: PriceTable | None = None,
        max_concurrency: int = 64,
        retries: RetryPolicy | None = None,
        seed: int | None = None,
        run_name: str = "",
        halt_after: int = HALT_AFTER,
        stall_s: float = STALL_S,
    ) -> None:
        """Set up, as `EndpointClient` does.

        Args:
            max_concurrency: The most requests in flight at a server; its limit adapts below it.
            halt_after: `run` stops after this many failed requests in a row.
            stall_s: Whoever runs it says what it waits for after as many seconds without an answer.
        """
        super().__init__(
            endpoint, budget=budget, prices=prices, retries=retries, seed=seed, run_name=run_name
        )
        self.halt_after, self.stall_s = halt_after, stall_s
        self._max_concurrency = max_concurrency
        self._pool = Pool((), 0.0)
        self._look: Look | None = None
        self._streams: set[Stream] = set()

    async def __aenter__(self) -> Self:
        """Load litellm, as it loads more at a first call too, and look up the price: see `EndpointClient`.

        Several servers are asked what they serve.

        Raises:
            PrerequisiteError: servers serve different things, or one refuses the key or lacks the model.
        """
        await super().__aenter__()
        first = self._ready()
        others = [await load_backend(endpoint) for endpoint in self.endpoint.alone()[1:]]
        servers = []
        for backend in (first, *others):
            backend.refused = first.refused  # what one of them does not take is sent to none
            where = redact(backend.endpoint.api_base or self.endpoint.model)
            whole = self.where if not others else redact(f"{self.endpoint.model} at {where}")
            servers.append(
                Server(
                    backend,
                    AdaptiveLimit(LimitSettings(largest=self._max_concurrency)),
                    Fates(whole, self._run_name),
                    where,
                    Watchdog(whole, this_process().words, self.stall_s) if others else None,
                )
            )
        self._pool = Pool(servers, self.retries.longest_retry_after_s)
        await first.warm_up()
        if self._pool.several:
            try:
                self._look = await self._pool.survey()
            except BaseException:
                await self.__aexit__()
                raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._pool.close()
        await super().__aexit__(*error)

    async def check(self) -> EndpointCheck:
        """Find out whether the endpoint answers, knows the model and what it supports. Costs nothing."""
        backend, price_known = self._ready(), self._price is not None
        if not self._pool.several:
            return await check_endpoint(backend, price_known=price_known)
        problem = None
        if self._look is None:
            faults = [each.fault.message for each in self._pool.servers if each.fault is not None]
            problem = f"none of {len(faults)} servers answers: {'; '.join(faults)}"
        return EndpointCheck(backend.sends("response_format"), price_known, problem)

    async def serving(self) -> Serving:
        """Return what an own server tells of itself; several servers serve the same.

        Raises:
            PrerequisiteError: the server cannot be reached.
        """
        return await find_serving(self.endpoint) if self._look is None else self._look.serving

    def complaints(self) -> list[str]:
        """Return what is to be said now about each of several servers that has requests and is silent."""
        return self._pool.complaints()

    async def complete(self, request: ChatRequest) -> ChatResponse | Failure:
        """Ask until there is an answer, retrying is pointless or the attempts are used up.

        Failures of the remote side are returned, never raised; kind `budget` with 0 attempts means that the
        budget had no room and nothing was sent.
        """
        answer = await self._ask(request, None)
        if answer is not None:
            return answer
        return Failure(BUDGET, "the budget has no room for this request", 0)

    async def run(
        self, requests: Source, on_result: OnResult, *, answered_before: bool = False
    ) -> RunOutcome:
        """Ask for all requests, as many at once as the adaptive limit allows.

        Requests are taken from the source only when they can be sent, so a source of any length is held in
        constant memory. `on_result` gets each answer as soon as it is there and may be asynchronous; its
        request counts as under way until it returns. No further request is taken when the budget is spent,
        when every other would fail too, after too many failures in a row, or after `interrupt()`; those in
        flight are finished. On cancellation those are dropped, while calls of `on_result` end normally.
        `answered_before`: the endpoint has answered requests with these settings.

        Raises:
            Exception: the first exception of `on_result` or of the source, once all in flight has ended.
        """
        self._pool.announce()
        stream = Stream(
            self._ask,
            self.budget,
            lambda: self._pool.room,
            on_result,
            self.halt_after,
            answered_before=answered_before,
        )
        self._streams.add(stream)
        try:
            return await stream.drive(requests)
        finally:
            self._streams.discard(stream)

    def interrupt(self) -> bool:
        """Let `run` take no further request and return once those in flight are done; for Ctrl-C.

        Returns whether there was a `run` to stop.
        """
        for stream in self._streams:
            stream.stop(INTERRUPTED, "interrupted")
        self._pool.wake_all()  # else they would wait out a pause that the server asked for
        return bool(self._streams)

    def sends(self, field: str) -> bool:
        """Return whether a field of a request (seed, n, ...) reaches the server, as far as is known."""
        return self._ready().sends(field)

    async def _ask(
        self, request: ChatRequest, stopping: asyncio.Event | None
    ) -> ChatResponse | Failure | None:
        """Return the answer or failure; None where nothing was sent: no budget, or `stopping` is set."""
        bill = Bill(request, self._price)
        try:
            return await self._ask_until_answered(request, bill, stopping)
        except BaseException:
            if self.budget.ledger is not None:  # nobody is to wait for this one's bill any more
                self.budget.ledger.settled([request.key])
            raise

    async def _ask_until_answered(
        self, request: ChatRequest, bill: Bill, stopping: asyncio.Event | None
    ) -> ChatResponse | Failure | None:
        pool = self._pool
        fault: Fault | None = None
        failed: set[Server] = set()  # servers, in this round
        tries = time_outs = left_out = 0
        while True:
            began = time.monotonic()
            attempt = await self._attempt(request, bill, stopping, failed)
            if attempt is None:
                return None if fault is None else self._failure(fault, bill)
            server, tried = attempt
            took_s = tried.latency_s if isinstance(tried, ChatResponse) else tried.took_s
            tell = partial(
                server.fates.tell,
                request.key,
                bill.attempts,
                took_s=took_s,
                waited_s=time.monotonic() - began - took_s,
            )
            if isinstance(tried, ChatResponse):
                tell(tried)
                return tried
            fault = blame(tried, request.max_tokens)
            if (
                fault.kind == BAD_REQUEST
                and left_out < OPTIONAL_FIELDS  # a complaint may name a field that was not sent any more
                and server.backend.forget_refused(request, fault.message)
            ):
                left_out += 1
                tell(fault, next_step="again without the field that the server refused")
                continue
            if pool.several:
                fault = self._of_one(server, fault)
                failed.add(server)
                if fault.kind in PASSING and pool.others(failed):
                    tell(fault, next_step="again at another server")
                    continue
            tries += 1
            time_outs += fault.kind == TIME_OUT
            pause = self.retries.delay(fault.kind, tries, self._rng, fault.retry_after_s)
            final = fault.kind in FINAL_KINDS or time_outs >= self.retries.time_outs
            if final or pause is None:
                tell(fault, next_step="failed for good" if final else "failed")
                return self._failure(fault, bill, final=final)
            tell(fault, next_step=f"again in {pause:.1f} s")
            if not await _sleep(pause, stopping):
                return self._failure(fault, bill)
            if not pool.others(failed):
                failed.clear()

    def _of_one(self, server: Server, fault: Fault) -> Fault:
        """Return the fault with the server's name; what one of several refuses, another may answer."""
        kind = SERVER_ERROR if fault.kind in REFUSING and not self._pool.refusing else fault.kind
        named = fault.message if server.where in fault.message else f"{server.where}: {fault.message}"
        return replace(fault, kind=kind, message=named)

    async def _attempt(
        self,
        request: ChatRequest,
        bill: Bill,
        stopping: asyncio.Event | None,
        failed: Collection[Server],
    ) -> tuple[Server, ChatResponse | Fault] | None:
        """Send one HTTP request; None where the budget has no room for it or `stopping` is set."""
        # Before the pool: who waits for another one's bill must not keep that one out.
        reservation = await self._reserve(request, bill)
        if reservation is None:
            return None
        server = await self._pool.enter(stopping, failed)
        if server is None:
            await self._release(request, bill, reservation)
            return None
        try:
            if stopping is not None and stopping.is_set():
                await self._release(request, bill, reservation)
                return None
            # All are left alone: whether this one is the same server still is found out before it is asked.
            if server.fault is not None and (fault := await self._pool.try_again(server)) is not None:
                await self._release(request, bill, reservation)
                return server, fault
            if server.watchdog is not None:
                server.watchdog.sent(str(request.key))
            return server, await self._send(request, bill, reservation, server)
        finally:
            if server.watchdog is not None:
                server.watchdog.came(str(request.key))
            self._pool.leave(server)

    async def _reserve(self, request: ChatRequest, bill: Bill) -> Reservation | None:
        """Reserve what one more attempt may cost beside those before it, on disk where there is a ledger."""
        reservation = await self.budget.reserve_or_wait(bill.worst_usd)
        if reservation is None or self.budget.ledger is None or not bill.worst_usd:
            return reservation
        if await self.budget.ledger.reserve(request.key, bill.usd + bill.worst_usd):
            return reservation
        self.budget.release(reservation)
        return None

    async def _release(self, request: ChatRequest, bill: Bill, reservation: Reservation) -> None:
        self.budget.release(reservation)
        if self.budget.ledger is not None and not bill.attempts:
            await self.budget.ledger.release(request.key)

    async def _send(
        self, request: ChatRequest, bill: Bill, reservation: Reservation, server: Server
    ) -> ChatResponse | Fault:
        started = time.monotonic()
        bill.attempts += 1
        settled = False

        def settle(usage: tuple[int, int] | None, *, billed: bool = True) -> None:
            nonlocal settled
            settled = True
            usd, doubtful = bill.charge(usage) if billed else (0.0, False)
            self.budget.settle(reservation, usd, doubtful=doubtful)

        try:
            async with asyncio.timeout(self.endpoint.attempt_s(request.max_tokens)):
                response = await server.backend.complete(request)
            answer = read_answer(response)
            settle(answer.usage)
        except InvalidAnswerError as error:
            settle(error.usage)
            fault = Fault(INVALID_ANSWER, str(error), billed=True, took_s=time.monotonic() - started)
            self._pool.on_fault(server, fault, started)
            return fault
        except Exception as error:
            fault = replace(classify(error), took_s=time.monotonic() - started)
            settle(None, billed=fault.billed)
            self._pool.on_fault(server, fault, started)
            return fault
        finally:
            if not settled:  # cancelled
                settle(None)
        self._pool.on_answer(server)
        return self._response(answer, bill, time.monotonic() - started)

    @staticmethod
    def _failure(fault: Fault, bill: Bill, *, final: bool = False) -> Failure:
        return Failure(
            fault.kind,
            fault.message,
            bill.attempts,
            bill.total_usd,
            bill.doubtful_usd,
            final,
        )


async def _sleep(seconds: float, stopping: asyncio.Event | None) -> bool:
    """Sleep; return False as soon as `stopping` is set."""
    if stopping is None:
        await asyncio.sleep(seconds)
        return True
    try:
        async with asyncio.timeout(seconds):
            await stopping.wait()
    except TimeoutError:
        return True
    return False
