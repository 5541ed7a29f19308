"""Batch jobs in OpenAI's way: requests sent as a file, answered within a day at half price.

A job is found again by a tag in its metadata. A process that was killed between sending a job and noting its
id submits the same tag once more and gets the job that is already there.
"""

import asyncio
import importlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from service.errors import BudgetError, InputError, PrerequisiteError
from service.models.remote.answers import InvalidAnswerError, read_body
from service.models.remote.billing import Bill, worst_case_usd
from service.models.remote.budget import Budget, Reservation
from service.models.remote.faults import Fault, classify, kind_of_status, shorten
from service.models.remote.prices import Price, PriceTable
from service.models.remote.redaction import redact, redact_values, secret_values
from service.models.remote.retries import RetryPolicy
from service.models.remote.types import (
    BAD_REQUEST,
    INVALID_ANSWER,
    RETRYABLE_KINDS,
    SERVER_ERROR,
    ChatRequest,
    ChatResponse,
    Endpoint,
    Failure,
)

if TYPE_CHECKING:
    from service.models.remote.backend import Backend
    from service.models.remote.batch_api import BatchApi

BATCH_PRICE = 0.5  # of the price of single requests
TAG = "tagrpo"  # name of the metadata entry that holds a job's tag
LOOKS = 3  # how often a job is looked for after a submission without an answer: lists may lag behind

WORKING, DONE, FAILED, EXPIRED, CANCELLED = "working", "done", "failed", "expired", "cancelled"
_STATES = {"completed": DONE, "failed": FAILED, "expired": EXPIRED, "cancelled": CANCELLED}

Result = TypeVar("Result")


@dataclass(frozen=True)
class BatchStatus:
    """A job as the provider reports it. All states but `working` are final and can be collected."""

    id: str
    state: str
    total: int
    completed: int
    failed: int
    message: str | None
    output_file: str | None
    error_file: str | None


class BatchClient:
    """Submits, polls and collects batch jobs of one endpoint. Use as an asynchronous context manager."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        budget: Budget | None = None,
        prices: PriceTable | None = None,
        retries: RetryPolicy | None = None,
        seed: int | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.budget = budget if budget is not None else Budget()
        self.retries = retries if retries is not None else RetryPolicy()
        self._prices = prices if prices is not None else PriceTable()
        self._rng = random.Random(seed)
        self._price: Price | None = None
        self._backend: Backend | None = None
        self._api: BatchApi | None = None
        self._reserved: dict[str, Reservation] = {}

    async def __aenter__(self) -> Self:
        """Load litellm and look up the price.

        Raises:
            BudgetError: the price is not known although the budget has a cap on money.
            PrerequisiteError: litellm does not understand the model's spelling, or its provider has no batch
                jobs of this kind.
        """
        backend = await asyncio.to_thread(importlib.import_module, "service.models.remote.backend")
        batch_api = await asyncio.to_thread(importlib.import_module, "service.models.remote.batch_api")
        self._backend = backend.open_backend(self.endpoint)
        model = self.endpoint.model
        capped = self.budget.max_usd is not None
        price = self._prices.require(model) if capped else self._prices.price(model)
        self._price = None if price is None else price.scaled(BATCH_PRICE)
        key = self._backend.key() or backend.NO_KEY
        self._api = batch_api.BatchApi(self.endpoint, self._backend.provider, key)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        api, self._api = self._api, None
        if api is not None:
            await api.close()

    @property
    def price(self) -> Price | None:
        """The price in force, half that of single requests; None: not known."""
        return self._price

    def worst_case_usd(self, requests: Sequence[ChatRequest]) -> float | None:
        """Return the most that a job of these requests can cost; None where the price is not known."""
        if self._price is None:
            return None
        return sum(worst_case_usd(request, self._price) or 0.0 for request in requests)

    async def submit(self, tag: str, requests: Sequence[ChatRequest]) -> BatchStatus:
        """Send the requests as one job, or return the job that already has this tag.

        The tag (up to 64 characters) must belong to exactly these requests. The job's worst case stays
        reserved in the budget until it is collected.

        Raises:
            BudgetError: the worst case of the job does not fit under the cap; nothing was sent.
            InputError: two requests have the same key.
            PrerequisiteError: the endpoint cannot be reached or refuses; the message says why.
        """
        lines = {str(request.key): request for request in requests}
        if len(lines) != len(requests) or not requests:
            raise InputError(
                "the requests of a batch job need keys that differ, and there must be one at least"
            )
        worst = self.worst_case_usd(requests)
        job = await self.find(tag)
        if job is not None:
            self._reserved[job.id] = self.budget.adopt(worst, count=len(requests))
            return job
        reservation = self.budget.reserve(worst, count=len(requests))
        if reservation is None:
            raise BudgetError(
                f"a batch job of {len(requests)} requests may cost ${worst or 0:.2f}, more than the budget "
                "has left: raise --max-usd or --max-requests, or send fewer questions."
            )
        try:
            job = await self._send(tag, lines)
        except BaseException:
            self.budget.release(reservation)
            raise
        self._reserved[job.id] = reservation
        return job

    async def find(self, tag: str) -> BatchStatus | None:
        """Return the job with this tag, or None."""
        after: str | None = None
        while True:
            page = await self._call(partial(self._ready().page, after))
            for job in page.data:
                if (job.metadata or {}).get(TAG) == tag:
                    return _status(job)
            if not page.data or not getattr(page, "has_more", False):
                return None
            after = page.data[-1].id

    async def poll(self, job_id: str) -> BatchStatus:
        """Return the state of a job."""
        return _status(await self._call(partial(self._ready().read, job_id)))

    async def wait(
        self, job_id: str, *, every_s: float = 30.0, report: Callable[[BatchStatus], None] | None = None
    ) -> BatchStatus:
        """Poll until the job has ended."""
        while True:
            status = await self.poll(job_id)
            if report is not None:
                report(status)
            if status.state != WORKING:
                return status
            await asyncio.sleep(every_s)

    async def collect(
        self, status: BatchStatus, requests: Sequence[ChatRequest]
    ) -> AsyncIterator[tuple[ChatRequest, ChatResponse | Failure]]:
        """Yield every request of an ended job with its answer, or with a failure where there is none.

        Reading a job twice gives the same; the budget is charged once by each client.
        """
        open_requests = {str(request.key): request for request in requests}
        secrets = secret_values()
        total: float | None = 0.0
        for file_id in filter(None, (status.output_file, status.error_file)):
            content = await self._call(partial(self._ready().download, file_id))
            for line in content.splitlines():
                found = _parse(line)
                request = open_requests.pop(str(found.get("custom_id")), None)
                if request is None:
                    continue
                answer = self._read(request, found, secrets)
                total = None if total is None or answer.cost_usd is None else total + answer.cost_usd
                yield request, answer
        reason = status.message or f"the batch job ended as {status.state} without an answer to this request"
        for request in open_requests.values():
            yield request, Failure(SERVER_ERROR, reason, 0, retryable=True)
        reservation = self._reserved.pop(status.id, None) or self.budget.adopt(0.0, count=0)
        self.budget.settle(reservation, total)

    async def _send(self, tag: str, lines: dict[str, ChatRequest]) -> BatchStatus:
        api, backend = self._ready(), self._backend
        assert backend is not None
        content = b"".join(_line(key, backend.body(request)) for key, request in lines.items())
        file_id = await self._call(partial(api.upload, f"{tag}.jsonl", content))
        attempt = 0
        while True:
            attempt += 1
            tried = await self._try(partial(api.create, file_id, {TAG: tag}))
            if not isinstance(tried, Fault):
                return _status(tried)
            if (job := await self._find_after_fault(tag, tried)) is not None:
                return job
            await self._pause(tried, attempt)

    async def _find_after_fault(self, tag: str, fault: Fault) -> BatchStatus | None:
        """Return the job where the creation came through although its answer did not."""
        if not (fault.billed or fault.kind == SERVER_ERROR):
            return None
        for look in range(LOOKS):
            if (job := await self.find(tag)) is not None:
                return job
            if look < LOOKS - 1:
                await asyncio.sleep(self.retries.base_s)
        return None

    async def _call(self, make: Callable[[], Awaitable[Result]]) -> Result:
        attempt = 0
        while True:
            attempt += 1
            tried = await self._try(make)
            if not isinstance(tried, Fault):
                return tried
            await self._pause(tried, attempt)

    async def _try(self, make: Callable[[], Awaitable[Result]]) -> Result | Fault:
        try:
            return await asyncio.wait_for(make(), self.endpoint.timeout_s)
        except Exception as error:
            return classify(error)

    async def _pause(self, fault: Fault, attempt: int) -> None:
        pause = self.retries.delay(fault.kind, attempt, self._rng, fault.retry_after_s)
        if pause is None:
            where = redact(self.endpoint.api_base or self.endpoint.model)
            raise PrerequisiteError(f"batch jobs at {where}: {fault.kind}: {fault.message}")
        await asyncio.sleep(pause)

    def _read(
        self, request: ChatRequest, found: dict[str, Any], secrets: Sequence[str]
    ) -> ChatResponse | Failure:
        response = found.get("response") or {}
        body = response.get("body") or {}
        if response.get("status_code") != 200:
            return self._refused(request, int(response.get("status_code") or 0), found.get("error") or body)
        bill = Bill(self._price, worst_case_usd(request, self._price), attempts=1)
        try:
            answer = read_body(body)
        except InvalidAnswerError as error:
            bill.charge(error.usage)
            return Failure(INVALID_ANSWER, str(error), 1, retryable=True, cost_usd=bill.total_usd)
        bill.charge(answer.usage)
        prompt_tokens, completion_tokens = answer.usage or (0, 0)
        return ChatResponse(
            choices=answer.choices,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            cost_usd=bill.total_usd,
            model=answer.model or self.endpoint.model,
            raw=redact_values(answer.raw, secrets),
            attempts=1,
            latency_s=0.0,
            doubtful_usd=bill.doubtful_usd,
        )

    def _refused(self, request: ChatRequest, status: int, error: dict[str, Any]) -> Failure:
        words = error.get("error", error)
        text = words.get("message") if isinstance(words, dict) else None
        message = shorten(redact(str(text or words)))
        kind = kind_of_status(status, message) if status else SERVER_ERROR
        again = kind in RETRYABLE_KINDS
        if kind == BAD_REQUEST:
            again = self._backend is not None and self._backend.forget_refused(request, message)
        return Failure(kind, message, 1, retryable=again)

    def _ready(self) -> "BatchApi":
        if self._api is None:
            raise RuntimeError("BatchClient is used outside of its context: async with BatchClient(...)")
        return self._api


def _line(key: str, body: dict[str, Any]) -> bytes:
    line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _parse(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _status(job: Any) -> BatchStatus:
    counts = job.request_counts
    errors = getattr(job.errors, "data", None) or []
    message = "; ".join(str(error.message) for error in errors) or None
    return BatchStatus(
        id=str(job.id),
        state=_STATES.get(job.status, WORKING),
        total=counts.total if counts else 0,
        completed=counts.completed if counts else 0,
        failed=counts.failed if counts else 0,
        message=None if message is None else shorten(redact(message)),
        output_file=job.output_file_id,
        error_file=job.error_file_id,
    )
