"""Batch jobs in OpenAI's way: requests sent as a file, answered within a day at half price.

A job is found again by a tag in its metadata. A process that was killed between sending a job and noting its
id submits the same tag once more and gets the job that is already there.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from service.errors import BudgetError, InputError, PrerequisiteError
from service.models.remote.chat import (
    BAD_REQUEST,
    INVALID_ANSWER,
    RETRYABLE_KINDS,
    SERVER_ERROR,
    ChatRequest,
    ChatResponse,
    Endpoint,
    Failure,
    InvalidAnswerError,
    read_body,
)
from service.models.remote.client import EndpointClient
from service.models.remote.faults import Fault, RetryPolicy, classify, kind_of_status, shorten
from service.models.remote.money import Bill, Budget, PriceTable, Reservation, worst_case_usd
from service.models.remote.redaction import redact

if TYPE_CHECKING:
    import openai

BATCH_PRICE = 0.5  # of the price of single requests
TAG = "tagrpo"  # name of the metadata entry that holds a job's tag
JOBS_PER_PAGE = 100
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


class BatchClient(EndpointClient):
    """Submits, polls and collects batch jobs of one endpoint; its price is half that of single requests.

    Through the openai package, which litellm is built on: litellm's own functions for batch jobs make a
    client for each call that nobody closes, and download the results of a finished job once more to price it.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        budget: Budget | None = None,
        prices: PriceTable | None = None,
        retries: RetryPolicy | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(endpoint, budget=budget, prices=prices, retries=retries, seed=seed)
        self._client: openai.AsyncOpenAI | None = None
        self._reserved: dict[str, Reservation] = {}

    async def __aenter__(self) -> Self:
        """Load litellm and look up the price: see `EndpointClient`.

        Raises:
            PrerequisiteError: the provider has no batch jobs of this kind.
        """
        await super().__aenter__()
        backend = self._ready()
        self._price = None if self._price is None else self._price.scaled(BATCH_PRICE)
        if self.endpoint.api_base is None and backend.provider != "openai":
            raise PrerequisiteError(
                f"batch jobs for {self.endpoint.model}: {backend.provider} does not offer them in OpenAI's "
                "way; leave --batch out, or give --api-base of a server that does."
            )
        self._client = backend.openai_client(self.endpoint.api_base)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        await super().__aexit__(kind, error, trace)

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
            which: dict[str, Any] = {"after": after} if after else {}
            page = await self._call(partial(self._openai.batches.list, **which, limit=JOBS_PER_PAGE))
            for job in page.data:
                if (job.metadata or {}).get(TAG) == tag:
                    return _status(job)
            if not page.data or not getattr(page, "has_more", False):
                return None
            after = page.data[-1].id

    async def poll(self, job_id: str) -> BatchStatus:
        """Return the state of a job."""
        return _status(await self._call(partial(self._openai.batches.retrieve, job_id)))

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
        total: float | None = 0.0
        for file_id in filter(None, (status.output_file, status.error_file)):
            file = await self._call(partial(self._openai.files.content, file_id))
            for line in file.content.splitlines():
                entry = _parse(line)
                request = open_requests.pop(str(entry.get("custom_id")), None)
                if request is None:
                    continue
                answer = self._read(request, entry)
                total = None if total is None or answer.cost_usd is None else total + answer.cost_usd
                yield request, answer
        reason = status.message or f"the batch job ended as {status.state} without an answer to this request"
        for request in open_requests.values():
            yield request, Failure(SERVER_ERROR, reason, 0, retryable=True)
        reservation = self._reserved.pop(status.id, None) or self.budget.adopt(0.0, count=0)
        self.budget.settle(reservation, total)

    async def _send(self, tag: str, lines: dict[str, ChatRequest]) -> BatchStatus:
        body, client = self._ready().body, self._openai
        content = b"".join(_line(key, body(request)) for key, request in lines.items())
        upload = partial(client.files.create, file=(f"{tag}.jsonl", content), purpose="batch")
        create = partial(
            client.batches.create,
            completion_window="24h",
            endpoint="/v1/chat/completions",
            input_file_id=(await self._call(upload)).id,
            metadata={TAG: tag},
        )
        attempt = 0
        while True:
            attempt += 1
            tried = await self._try(create)
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
            return await asyncio.wait_for(make(), self.endpoint.attempt_s(0))
        except Exception as error:
            return classify(error)

    async def _pause(self, fault: Fault, attempt: int) -> None:
        pause = self.retries.delay(fault.kind, attempt, self._rng, fault.retry_after_s)
        if pause is None:
            where = redact(self.endpoint.api_base or self.endpoint.model)
            raise PrerequisiteError(f"batch jobs at {where}: {fault.kind}: {fault.message}")
        await asyncio.sleep(pause)

    def _read(self, request: ChatRequest, entry: dict[str, Any]) -> ChatResponse | Failure:
        response = entry.get("response") or {}
        body = response.get("body") or {}
        if response.get("status_code") != 200:
            return self._refused(request, int(response.get("status_code") or 0), entry.get("error") or body)
        bill = Bill(request, self._price)
        bill.attempts = 1
        try:
            answer = read_body(body)
        except InvalidAnswerError as error:
            bill.charge(error.usage)
            return Failure(INVALID_ANSWER, str(error), 1, retryable=True, cost_usd=bill.total_usd)
        bill.charge(answer.usage)
        return self._response(answer, bill, latency_s=0.0)

    def _refused(self, request: ChatRequest, status: int, error: dict[str, Any]) -> Failure:
        words = error.get("error", error)
        text = words.get("message") if isinstance(words, dict) else None
        message = shorten(redact(str(text or words)))
        kind = kind_of_status(status, message) if status else SERVER_ERROR
        again = kind in RETRYABLE_KINDS
        if kind == BAD_REQUEST:
            again = self._ready().forget_refused(request, message)
        return Failure(kind, message, 1, retryable=again)

    @property
    def _openai(self) -> "openai.AsyncOpenAI":
        self._ready()
        assert self._client is not None
        return self._client


def _line(key: str, body: dict[str, Any]) -> bytes:
    line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"


def _parse(line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


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
