"""Provider batch jobs as a way to send requests: half the price, slower, equally safe to kill.

What the coroutines wait for is collected and sent as one job. A job is stored before it is sent, with a tag
that the provider keeps. A later process asks for the job by its id, or finds it by the tag if the id was not
stored. A job that the provider never got costs nothing; its requests are sent again.

The openai package does the calls: litellm's own functions make a client per call that nothing closes, and
download the results of a finished job once more to price it.
"""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from service.asks import request as kinds
from service.asks import store as rows
from service.asks.ask import ATTEMPTS, BUDGET, Asker, Stopped, pause_s
from service.asks.faults import classify, fault_of_status, shorten
from service.asks.request import Answer, Fault, Request
from service.asks.servers import Endpoint
from service.errors import InputError, PrerequisiteError

if TYPE_CHECKING:
    from service.asks.remote import RemoteEndpoint

BATCH_PRICE = 0.5  # share of the price of single requests
LINES_PER_JOB = 10_000  # providers take up to 50,000 lines
BYTES_PER_JOB = 150_000_000  # and 200 MB
LINE_BYTES = 120  # of a line, next to the request's body
JOBS_AT_ONCE = 4
LEAST_SHARE = 0.01
"""At the cap, a smaller share of the requests makes no job: days would pass for a few answers."""
QUIET_S = 30.0
"""A job is made after so long without a new request: then all coroutines wait for answers."""
OUTAGE_S = 86_400.0
"""A job is paid for and takes up to a day, so tagrpo asks for it through an outage of a day."""
LOOKS = 3
"""How often a job is looked for after a submission without a reply: a provider's list may lag."""
ENDED = ("completed", "failed", "expired", "cancelled")
PAGE: Literal["/v1/chat/completions"] = "/v1/chat/completions"
TAG = "tagrpo"  # the entry in a job's metadata that holds its tag

_LOG = logging.getLogger("tagrpo.asks")


def check_batch(endpoint: "RemoteEndpoint") -> None:
    """Refuse an endpoint that takes no batch jobs."""
    if len(endpoint.servers) > 1 or (endpoint.base is None and endpoint.provider != "openai"):
        raise InputError(
            f"{endpoint.model}: batch jobs need OpenAI, or one server that supports its batch API. Remove "
            "batch=true, or give one base_url."
        )


class BatchJobs(Endpoint):
    """Sends the requests of one run to one model in batch jobs, a few at a time."""

    model = ""

    def __init__(
        self, endpoint: "RemoteEndpoint", asker: Asker, *, poll_s: float = 60.0, quiet_s: float = QUIET_S
    ) -> None:
        """Set up; nothing is sent. The endpoint is open; `poll_s` is the time between two looks at a job."""
        self._endpoint, self._asker, self.model = endpoint, asker, endpoint.model
        self._poll_s, self._quiet_s = poll_s, min(quiet_s, poll_s)
        self.price = None if endpoint.price is None else endpoint.price.scaled(BATCH_PRICE)
        self._client = endpoint.client
        self._largest, self._at_once = LINES_PER_JOB, JOBS_AT_ONCE
        self._waiting: dict[bytes, tuple[Request, asyncio.Future[Answer]]] = {}
        self._pending: dict[bytes, Request] = {}  # those of them that are in no job
        self._tasks: set[asyncio.Task[None]] = set()  # one for each job
        self._maker = asyncio.create_task(self._make_jobs())

    def slot(self, stopping: asyncio.Event) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def send(self, request: Request, server: None) -> Answer:
        """Return the answer when a job delivers it.

        If the run stops, the provider goes on with its jobs, and the next process collects them.
        """
        if request.prompt is not None:
            raise Fault(kinds.BAD_REQUEST, "batch jobs support chat prompts only; remove batch=true")
        if self._asker.stopped is not None:
            raise self._asker.stopped
        done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[request.key], self._pending[request.key] = (request, done), request
        try:
            return await done
        except Fault as fault:
            if self._endpoint.learn_refused(fault):  # the next job leaves a field out
                raise Fault(kinds.SERVER_ERROR, fault.message) from None
            raise
        finally:
            self._pending.pop(request.key, None)
            del self._waiting[request.key]

    def wake(self) -> None:
        """Let go of all requests, as the run stops."""
        for key in self._waiting:
            self._deliver(key, self._asker.stopped)

    async def close(self) -> None:
        """End the tasks; the provider's jobs continue."""
        tasks = [self._maker, *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _make_jobs(self) -> None:
        """Take over the jobs of dead processes, and make jobs of what waits, until the run stops."""
        asker, size, is_alone = self._asker, 0, False
        try:
            while True:
                for tag, keys, remote_id in await asker.store.write(rows.take_over, asker.worker, self.model):
                    asker.in_flight |= keys.keys()  # their money may become free
                    self._start(tag, keys, remote_id)
                before, size = size, len(self._pending)
                # Twice in a row, as nothing is in flight for a moment when many answers arrive together.
                was_alone, is_alone = is_alone, len(asker.in_flight) <= size
                is_due, most = size >= self._largest or 0 < size == before, asker.at_cap(self.model)
                if is_due and size < LEAST_SHARE * most and was_alone and is_alone:
                    words = f"the remaining budget (--max-usd) covers {size:,} of {most:,} requests"
                    for key in self._pending:
                        self._deliver(key, Stopped(BUDGET, words))
                elif is_due and size >= LEAST_SHARE * most and len(self._tasks) < self._at_once:
                    await self._make_job()
                    continue
                await asker.pause(self._quiet_s)
        except Exception as error:
            self._asker.end(error)

    async def _make_job(self) -> None:
        """Send the first pending requests as one job."""
        requests, tag, asker = [*self._pending.values()][: self._largest], uuid.uuid4().hex, self._asker
        bodies = await asyncio.to_thread(lambda: [*map(self._endpoint.batch_body, requests)])
        sizes = accumulate(len(body) + LINE_BYTES for body in bodies)
        count = max(1, sum(size <= BYTES_PER_JOB for size in sizes))
        keys = [request.key for request in requests[:count]]
        ids = await asker.store.write(rows.open_job, asker.run_id, asker.worker, self.model, tag, keys)
        for key in keys:
            self._pending.pop(key, None)
            if key not in ids:  # this process was silent for so long that another one has it
                self._deliver(key, Fault(kinds.SERVER_ERROR, "another process sends it"))
        sent = {ids[key]: body for key, body in zip(keys, bodies, strict=False) if key in ids}
        if sent:
            remote = await self._submit(tag, sent)
            self._start(tag, {ask_id: key for key, ask_id in ids.items()}, remote.id)

    def _start(self, tag: str, keys: Mapping[int, bytes], remote_id: str | None) -> None:
        task = asyncio.create_task(self._carry_out(tag, keys, remote_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, tag: str, keys: Mapping[int, bytes], remote_id: str | None) -> None:
        """Wait for a job, and hand out its answers. `keys` are those of its requests by their asks' ids."""
        try:
            if remote_id is None:
                if (remote := await self._find(tag)) is None:  # the provider never received it
                    await self._put_back(tag, keys)
                    return
                remote_id = str(remote.id)
            await self._asker.store.write(rows.name_job, tag, remote_id)
            look = partial(self._client.batches.retrieve, remote_id)
            while (ended := await self._call(look)).status not in ENDED:
                await self._asker.pause(self._poll_s)
            message = _error_message(ended)
            answered = ended.request_counts.completed if ended.request_counts else 0
            if "enqueued token limit" in message.lower() and not answered:
                self._shrink(len(keys), message)
                await self._put_back(tag, keys)
            else:
                await self._collect(ended, keys)
        except Exception as error:
            self._asker.end(error)

    async def _put_back(self, tag: str, keys: Mapping[int, bytes]) -> None:
        """Put the requests of a job that was not carried out back among the pending ones."""
        await self._asker.store.write(rows.empty_job, tag)
        for ask_id, key in keys.items():
            if key in self._waiting:
                self._pending[key], _ = self._waiting[key]
            else:  # a dead process had it sent
                self._asker.land(ask_id)

    def _shrink(self, size: int, message: str) -> None:
        """Go on with one job at a time, as the provider's queue has no room for more.

        After a job that was refused while no other ran, jobs have half its size. If it held a single request,
        the run stops.
        """
        if self._at_once > 1 or len(self._tasks) > 1:
            self._at_once = 1
            return
        self._largest = max(1, size // 2)
        if size == 1:
            way_out = "All answers are kept. Resume when other batch jobs have finished."
            self._asker.stop(kinds.QUOTA, f"{message.rstrip('.')}. {way_out}")

    async def _collect(self, ended: Any, keys: Mapping[int, bytes]) -> None:
        """Read the results of a job and deliver one for each of its requests."""
        reason = _error_message(ended) or f"the batch job {ended.status} without answering this request"
        entries: dict[str, Any] = {str(ask_id): {"error": {"message": reason}} for ask_id in keys}
        for file_id in filter(None, (ended.output_file_id, ended.error_file_id)):
            file = await self._call(partial(self._client.files.content, file_id))
            for line in file.content.splitlines():
                with suppress(ValueError, AttributeError):
                    entry = json.loads(line)
                    if (name := str(entry.get("custom_id"))) in entries:
                        entries[name] = entry
        await asyncio.gather(
            *(self._hand_out(ask_id, key, entries[str(ask_id)]) for ask_id, key in keys.items())
        )

    async def _hand_out(self, ask_id: int, key: bytes, entry: Mapping[str, Any]) -> None:
        """Deliver an answer or a refusal; store it if the request is from a dead process."""
        response = entry.get("response") or {}
        status, body = int(response.get("status_code") or 0), response.get("body") or {}
        outcome: Answer | Fault
        try:
            if status != 200:
                refused = {"error": entry["error"]} if entry.get("error") else body
                raise fault_of_status(status or 500, json.dumps(refused), {})
            outcome = self._endpoint.read(json.dumps(body))
        except Fault as fault:
            outcome = fault
        if not self._deliver(key, outcome):
            final = isinstance(outcome, Fault) and outcome.kind in kinds.FINAL
            await self._asker.settle(ask_id, outcome, self.price, final=final)

    def _deliver(self, key: bytes, outcome: Answer | Exception | None) -> bool:
        """Give an outcome to the coroutine that waits for it; return whether there is one."""
        _, done = self._waiting.get(key, (None, None))
        if outcome is None or done is None or done.done():
            return False
        done.set_result(outcome) if isinstance(outcome, Answer) else done.set_exception(outcome)
        return True

    # Calls to the provider

    async def _submit(self, tag: str, bodies: Mapping[int, str]) -> Any:
        """Send a job; return it as the provider describes it. One that cannot have arrived is emptied."""
        text = "".join(
            f'{{"custom_id": "{ask_id}", "method": "POST", "url": "{PAGE}", "body": {body}}}\n'
            for ask_id, body in bodies.items()
        )
        upload = partial(self._client.files.create, file=(f"{tag}.jsonl", text.encode()), purpose="batch")
        may_have_arrived = False

        async def create() -> Any:
            """Send the job, unless it arrived at an earlier call whose reply was lost."""
            nonlocal may_have_arrived
            if may_have_arrived and (remote := await self._find(tag)) is not None:
                return remote
            before, may_have_arrived = may_have_arrived, True
            try:
                return await self._client.batches.create(
                    completion_window="24h", endpoint=PAGE, input_file_id=file.id, metadata={TAG: tag}
                )
            except Exception as error:
                fault = _fault_of(error)
                may_have_arrived = before or fault.billed or fault.kind == kinds.SERVER_ERROR
                raise

        try:
            file = await self._call(upload, is_new=True)
            return await self._call(create, is_new=True)
        except BaseException:
            if not may_have_arrived:
                await self._asker.store.write(rows.empty_job, tag)
            raise

    async def _find(self, tag: str) -> Any:
        """Return the provider's job with this tag, None if it has none."""

        async def search() -> Any:
            ids = set[str]()  # a gateway that ignores `after` repeats its first page for ever
            async for remote in self._client.batches.list(limit=100):
                if (remote.metadata or {}).get(TAG) == tag:
                    return remote
                if remote.id in ids:
                    break
                ids.add(remote.id)
            return None

        for look in range(LOOKS):
            if look:
                await self._asker.pause(self._asker.models.retry_s)
            if (remote := await self._call(search)) is not None:
                return remote
        return None

    async def _call(self, call: Callable[[], Awaitable[Any]], *, is_new: bool = False) -> Any:
        """Call until there is an answer; unless the job is still to be sent, through an outage of a day."""
        began, attempt = time.monotonic(), 0
        while True:
            attempt += 1
            try:
                reply = await call()
                if isinstance(reply, str) or getattr(reply, "id", "") is None:
                    raise Fault(kinds.INVALID_ANSWER, "the reply has no id", billed=True)
                return reply
            except (Stopped, PrerequisiteError):
                raise
            except Exception as error:
                fault = _fault_of(error)
            pause = pause_s(fault, attempt, self._asker.models.retry_s)
            is_patient = not is_new and time.monotonic() - began < OUTAGE_S
            if pause is None and fault.kind in kinds.RETRIED and is_patient:
                pause = self._poll_s
            if pause is None:
                raise PrerequisiteError(f"batch jobs at {self._endpoint.where}: {fault}")
            if attempt == ATTEMPTS:
                _LOG.warning("batch jobs at %s: %s; tagrpo goes on trying", self._endpoint.where, fault)
            await self._asker.pause(pause)


def _fault_of(error: Exception) -> Fault:
    """Classify a failed call; openai's client raises these types for a reply that is not a JSON object."""
    if isinstance(error, TypeError | AttributeError):
        return Fault(kinds.INVALID_ANSWER, f"the reply cannot be read: {error!r}", billed=True)
    return classify(error)


def _error_message(job: Any) -> str:
    """Return the provider's error message for a failed job."""
    errors = getattr(job.errors, "data", None) or []
    return shorten("; ".join(str(error.message) for error in errors))
