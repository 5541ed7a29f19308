"""The client of every remote model call: retries, time-outs, concurrency, budget and receipts."""

import asyncio
import random
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self

from service.models.remote.chat import (
    BAD_REQUEST,
    BUDGET,
    FINAL_KINDS,
    INTERRUPTED,
    INVALID_ANSWER,
    RATE_LIMITED,
    RETRYABLE_KINDS,
    TIME_OUT,
    Answer,
    ChatRequest,
    ChatResponse,
    Endpoint,
    Failure,
    InvalidAnswerError,
    read_answer,
)
from service.models.remote.endpoint import EndpointCheck, check_endpoint, load_backend
from service.models.remote.fates import Fates
from service.models.remote.faults import Fault, RetryPolicy, blame, classify
from service.models.remote.limit import AdaptiveLimit, Gate, LimitSettings
from service.models.remote.money import Bill, Budget, Price, PriceTable, Reservation
from service.models.remote.redaction import redact, redact_values, secret_values
from service.models.remote.stream import OnResult, RunOutcome, Source, Stream
from service.models.stopping import HALT_AFTER, STALL_S

if TYPE_CHECKING:
    from service.models.remote.backend import Backend

OVERLOADED = (503, 529)
OPTIONAL_FIELDS = 2  # response_format and seed; see `Backend.forget_refused`


class EndpointClient:
    """What the clients of an endpoint share: budget, price, retries, and litellm once it is opened.

    Use as an asynchronous context manager, within one event loop.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        budget: Budget | None = None,
        prices: PriceTable | None = None,
        retries: RetryPolicy | None = None,
        seed: int | None = None,
        run_name: str = "",
    ) -> None:
        """Set up; nothing is imported or sent before the context is entered.

        Args:
            endpoint: Where to ask.
            budget: Caps and totals; default: no cap. It can be shared by the clients of several endpoints.
            prices: The user's prices; default: litellm's local map.
            retries: When and how often to try again.
            seed: Seed of the jitter between attempts; it has no influence on answers.
            run_name: What the log names beside the requests.
        """
        self.endpoint = endpoint
        self.budget = budget if budget is not None else Budget()
        self.retries = retries if retries is not None else RetryPolicy()
        self._prices = prices if prices is not None else PriceTable()
        self._rng = random.Random(seed)
        self._price: Price | None = None
        self._backend: Backend | None = None
        self._secrets: tuple[str, ...] = ()
        self._fates = Fates(self.where, run_name)

    async def __aenter__(self) -> Self:
        """Load litellm and look up the price.

        Raises:
            BudgetError: the price is not known although the budget has a cap on money.
            PrerequisiteError: litellm does not understand the model's spelling.
        """
        self._backend = await load_backend(self.endpoint)
        self._price = self.budget.price_of(self.endpoint.model, self._prices)
        self._secrets = secret_values()
        return self

    async def __aexit__(self, *error: object) -> None:
        backend, self._backend = self._backend, None
        if backend is not None:
            await backend.close()

    @property
    def where(self) -> str:
        """The endpoint in words, without a password."""
        endpoint = self.endpoint
        return redact(
            endpoint.model if endpoint.api_base is None else f"{endpoint.model} at {endpoint.api_base}"
        )

    @property
    def price(self) -> Price | None:
        """The price in force; None: not known."""
        return self._price

    def _ready(self) -> "Backend":
        if self._backend is None:
            name = type(self).__name__
            raise RuntimeError(f"{name} is used outside of its context: async with {name}(...)")
        return self._backend

    def _response(self, answer: Answer, bill: Bill, latency_s: float) -> ChatResponse:
        prompt_tokens, completion_tokens = answer.usage or (0, 0)
        return ChatResponse(
            choices=answer.choices,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cost_usd=bill.total_usd,
            model=answer.model or self.endpoint.model,
            raw=redact_values(answer.raw, self._secrets),
            attempts=bill.attempts,
            latency_s=latency_s,
            doubtful_usd=bill.doubtful_usd,
        )


class RemoteClient(EndpointClient):
    """Asks one endpoint, each request by itself.

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
            max_concurrency: The most requests in flight; the limit adapts below it.
            halt_after: `run` stops after this many failed requests in a row.
            stall_s: Whoever runs it says what it waits for after as many seconds without an answer.
        """
        super().__init__(
            endpoint, budget=budget, prices=prices, retries=retries, seed=seed, run_name=run_name
        )
        self.limit = AdaptiveLimit(LimitSettings(largest=max_concurrency))
        self.halt_after, self.stall_s = halt_after, stall_s
        self._gate = Gate(self.limit)
        self._streams: set[Stream] = set()

    async def __aenter__(self) -> Self:
        """Load litellm, as it loads more at a first call too, and look up the price: see `EndpointClient`."""
        await super().__aenter__()
        await self._ready().warm_up()
        return self

    async def check(self) -> EndpointCheck:
        """Find out whether the endpoint answers, knows the model and what it supports. Costs nothing."""
        return await check_endpoint(self._ready(), price_known=self._price is not None)

    async def complete(self, request: ChatRequest) -> ChatResponse | Failure:
        """Ask until there is an answer, retrying is pointless or the attempts are used up.

        Failures of the remote side are returned, never raised; kind `budget` with 0 attempts means that the
        budget had no room and nothing was sent.
        """
        answer = await self._ask(request, None)
        if answer is not None:
            return answer
        return Failure(BUDGET, "the budget has no room for this request", 0, retryable=False)

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
        stream = Stream(
            self._ask,
            self.budget,
            lambda: self.limit.value,
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
        self._gate.wake_all()  # else they would wait out a pause that the server asked for
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
        backend = self._ready()
        fault: Fault | None = None
        tries = time_outs = left_out = 0
        while True:
            began = time.monotonic()
            tried = await self._attempt(request, bill, stopping)
            if tried is None:
                return None if fault is None else self._failure(fault, bill)
            took_s = tried.latency_s if isinstance(tried, ChatResponse) else tried.took_s
            tell = partial(
                self._fates.tell,
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
                and backend.forget_refused(request, fault.message)
            ):
                left_out += 1
                tell(fault, next_step="again without the field that the server refused")
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

    async def _attempt(
        self, request: ChatRequest, bill: Bill, stopping: asyncio.Event | None
    ) -> ChatResponse | Fault | None:
        """Send one HTTP request; None where the budget has no room for it or `stopping` is set."""
        # Before the gate: who waits for another one's bill must not keep that one out.
        reservation = await self._reserve(request, bill)
        if reservation is None:
            return None
        await self._gate.enter(stopping)
        try:
            if stopping is not None and stopping.is_set():
                await self._release(request, bill, reservation)
                return None
            return await self._send(request, bill, reservation)
        finally:
            self._gate.leave()

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

    async def _send(self, request: ChatRequest, bill: Bill, reservation: Reservation) -> ChatResponse | Fault:
        backend = self._ready()
        started = time.monotonic()
        bill.attempts += 1
        settled = False

        def settle(usage: tuple[int, int] | None, *, billed: bool = True) -> None:
            nonlocal settled
            settled = True
            usd, doubtful = bill.charge(usage) if billed else (0.0, False)
            self.budget.settle(reservation, usd, doubtful=doubtful)

        try:
            response = await asyncio.wait_for(
                backend.complete(request), self.endpoint.attempt_s(request.max_tokens)
            )
            answer = read_answer(response)
            settle(answer.usage)
        except InvalidAnswerError as error:
            settle(error.usage)
            return Fault(INVALID_ANSWER, str(error), billed=True, took_s=time.monotonic() - started)
        except Exception as error:
            fault = replace(classify(error), took_s=time.monotonic() - started)
            settle(None, billed=fault.billed)
            self._note_overload(fault, started)
            return fault
        finally:
            if not settled:  # cancelled
                settle(None)
        self.limit.on_success(self._gate.in_flight)
        return self._response(answer, bill, time.monotonic() - started)

    def _note_overload(self, fault: Fault, started: float) -> None:
        if fault.kind == RATE_LIMITED or fault.status in OVERLOADED:
            self.limit.on_overload(started, time.monotonic())
        elif fault.kind == TIME_OUT:
            self.limit.on_time_out(started, time.monotonic())
        if fault.retry_after_s is not None:
            self._gate.pause(min(fault.retry_after_s, self.retries.longest_retry_after_s))

    @staticmethod
    def _failure(fault: Fault, bill: Bill, *, final: bool = False) -> Failure:
        return Failure(
            fault.kind,
            fault.message,
            bill.attempts,
            fault.kind in RETRYABLE_KINDS,
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
        await asyncio.wait_for(stopping.wait(), seconds)
    except TimeoutError:
        return True
    return False
