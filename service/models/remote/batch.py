"""Batch jobs in OpenAI's way: requests sent as a file, answered within a day at half price.

A job whose id was not noted, since the process was killed before, is found again by a tag in its metadata.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from service.errors import InputError, PrerequisiteError
from service.models.remote.chat import (
    BAD_REQUEST,
    FINAL_KINDS,
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
from service.models.remote.connection import EndpointClient
from service.models.remote.faults import Fault, blame, classify, kind_of_status, shorten
from service.models.remote.money import Bill
from service.models.remote.redaction import redact

if TYPE_CHECKING:
    import openai

BATCH_PRICE = 0.5  # of the price of single requests
TAG = "tagrpo"  # name of the metadata entry that holds a job's tag
JOBS_PER_PAGE = 100
OUTAGE_S = 86_400.0  # a job takes a day at most, and is paid for: so long it is asked for
LOOKS = 3  # how often a job is looked for after a submission without an answer: lists may lag behind

WORKING, DONE, FAILED, EXPIRED, CANCELLED = "working", "done", "failed", "expired", "cancelled"
_STATES = {"completed": DONE, "failed": FAILED, "expired": EXPIRED, "cancelled": CANCELLED}

Result = TypeVar("Result")


class NotSentError(PrerequisiteError):
    """A job was refused, or could not be sent, and it is certain that the provider has none of it."""


def has_jobs(model: str) -> bool:
    """Return whether a model may have batch jobs; servers of one's own are asked directly all the same."""
    return not model.startswith("hosted_vllm/")


def check_jobs(endpoint: Endpoint) -> None:
    """See that batch jobs of an endpoint have one place.

    Raises:
        InputError: they would go to several servers.
    """
    if endpoint.other_bases and has_jobs(endpoint.model):
        raise InputError(
            f"{endpoint.model}: a batch job lies at one server; give --api-base once, or leave --batch out."
        )


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

    @property
    def queue_is_full(self) -> bool:
        """Whether nothing was asked, since the account's jobs may hold no more tokens together (OpenAI)."""
        return not self.completed and "enqueued token limit" in (self.message or "").lower()


class BatchClient(EndpointClient):
    """Submits, polls and collects batch jobs of one endpoint; its price is half that of single requests.

    Through the openai package, which litellm is built on: litellm's own functions for batch jobs make a
    client for each call that nobody closes, and download the results of a finished job once more to price it.
    """

    _client: "openai.AsyncOpenAI | None" = None

    async def __aenter__(self) -> Self:
        """Load litellm and look up the price: see `EndpointClient`.

        Raises:
            InputError: the endpoint has several servers.
            PrerequisiteError: the provider has no batch jobs of this kind.
        """
        check_jobs(self.endpoint)
        await super().__aenter__()
        backend = self._ready()
        self._price = None if self._price is None else self._price.scaled(BATCH_PRICE)
        if backend.base is None and backend.provider != "openai":
            raise PrerequisiteError(
                f"batch jobs for {self.endpoint.model}: {backend.provider} does not offer them in OpenAI's "
                "way; leave --batch out, or give --api-base of a server that does."
            )
        self._client = backend.openai_client()
        return self

    async def __aexit__(self, *error: object) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        await super().__aexit__(*error)

    async def submit(self, tag: str, requests: Sequence[ChatRequest]) -> BatchStatus:
        """Send the requests as one job with this tag (up to 64 characters), which no job has yet.

        What it may cost has been reserved by the caller.

        Raises:
            InputError: two requests have the same key.
            NotSentError: the endpoint cannot be reached or refuses; the message says why.
            PrerequisiteError: so it is, but an earlier try may have come through; `find` tells later.
        """
        lines = {str(request.key): request for request in requests}
        if len(lines) != len(requests) or not requests:
            raise InputError(
                "the requests of a batch job need keys that differ, and there must be one at least"
            )
        return await self._send(tag, lines)

    def line_bytes(self, request: ChatRequest) -> int:
        """Return how large the request is in the file of a job."""
        return len(_line(str(request.key), self._ready().body(request)))

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
        """Return the state of a job, however long the provider cannot be reached (a day at most)."""
        return _status(await self._call(partial(self._openai.batches.retrieve, job_id), OUTAGE_S))

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

        Reading a job twice gives the same.
        """
        open_requests = {str(request.key): request for request in requests}
        for file_id in filter(None, (status.output_file, status.error_file)):
            file = await self._call(partial(self._openai.files.content, file_id), OUTAGE_S)
            for line in file.content.splitlines():
                entry = _parse(line)
                request = open_requests.pop(str(entry.get("custom_id")), None)
                if request is not None:
                    answer = self._read(request, entry)
                    self._fates.tell(request.key, 1, answer, next_step=f"batch job {status.id}")
                    yield request, answer
        reason = status.message or f"the batch job ended as {status.state} without an answer to this request"
        for request in open_requests.values():
            yield request, Failure(SERVER_ERROR, reason, 0)

    async def _send(self, tag: str, lines: dict[str, ChatRequest]) -> BatchStatus:
        body, client = self._ready().body, self._openai
        content = b"".join(_line(key, body(request)) for key, request in lines.items())
        upload = partial(client.files.create, file=(f"{tag}.jsonl", content), purpose="batch")
        try:
            file = await self._call(upload)
        except PrerequisiteError as error:
            raise NotSentError(str(error)) from error
        create = partial(
            client.batches.create,
            completion_window="24h",
            endpoint="/v1/chat/completions",
            input_file_id=file.id,
            metadata={TAG: tag},
        )
        attempt, is_certain = 0, True
        while True:
            attempt += 1
            tried = await self._try(create)
            if not isinstance(tried, Fault):
                return _status(tried)
            if tried.billed or tried.kind == SERVER_ERROR:  # it may have come through without its answer
                is_certain = False
                if (job := await self._look_for(tag)) is not None:
                    return job
            await self._pause(tried, attempt, NotSentError if is_certain else PrerequisiteError)

    async def _look_for(self, tag: str) -> BatchStatus | None:
        for look in range(LOOKS):
            if (job := await self.find(tag)) is not None:
                return job
            if look < LOOKS - 1:
                await asyncio.sleep(self.retries.base_s)
        return None

    async def _call(self, make: Callable[[], Awaitable[Result]], outage_s: float = 0.0) -> Result:
        """Call until there is an answer; with `outage_s`, try on for so long where waiting may help."""
        began = time.monotonic()
        attempt = 0
        while True:
            attempt += 1
            tried = await self._try(make)
            if not isinstance(tried, Fault):
                return tried
            if tried.kind in RETRYABLE_KINDS and time.monotonic() - began < outage_s:
                await asyncio.sleep(self.retries.back_off(min(attempt, self.retries.attempts), self._rng))
            else:
                await self._pause(tried, attempt)

    async def _try(self, make: Callable[[], Awaitable[Result]]) -> Result | Fault:
        try:
            # `asyncio.wait_for` of Python 3.11 drops a cancellation that comes together with the answer.
            async with asyncio.timeout(self.endpoint.attempt_s(0)):
                return await make()
        except Exception as error:
            return classify(error)

    async def _pause(
        self, fault: Fault, attempt: int, error: type[PrerequisiteError] = PrerequisiteError
    ) -> None:
        pause = self.retries.delay(fault.kind, attempt, self._rng, fault.retry_after_s)
        if pause is None:
            where = redact(self.endpoint.api_base or self.endpoint.model)
            raise error(f"batch jobs at {where}: {fault.kind}: {fault.message}")
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
            return Failure(INVALID_ANSWER, str(error), 1, bill.total_usd, bill.doubtful_usd)
        bill.charge(answer.usage)
        return self._response(answer, bill, latency_s=0.0)

    def _refused(self, request: ChatRequest, status: int, error: dict[str, Any]) -> Failure:
        words = error.get("error", error)
        text = words.get("message") if isinstance(words, dict) else None
        message = shorten(redact(str(text or words)))
        kind = kind_of_status(status, message) if status else SERVER_ERROR
        fault = blame(Fault(kind, message, billed=False), request.max_tokens)
        if fault.kind == BAD_REQUEST:
            self._ready().forget_refused(request, message)
        return Failure(fault.kind, fault.message, 1, final=fault.kind in FINAL_KINDS)

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
