"""Provider batch jobs as a backend of `ask`: half the price, slower, equally safe to kill.

What the coroutines wait for is collected and sent as one job. A job's row and its attempts are stored before
it is sent, with a tag that the provider keeps. A later process asks for the job by its id, or finds it by the
tag if the id was not stored. A job that the provider never got costs nothing; its requests are sent again.

The openai package does the calls: litellm's own functions make a client per call that nothing closes, and
download the results of a finished job once more to price it.
"""

import asyncio
import json
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from service.asks import store as rows
from service.asks.ask import BUDGET, REQUESTS, Asker, Failed, Stopped, pause_s
from service.asks.faults import classify, fault_of_status, shorten
from service.asks.money import worst_pico
from service.asks.request import BAD_REQUEST, QUOTA, RETRIED, SERVER_ERROR, Answer, Fault, Request
from service.database import in_parts
from service.errors import DatabaseError, InputError, PrerequisiteError

if TYPE_CHECKING:
    from service.asks.remote import RemoteEndpoint

BATCH_PRICE = 0.5
"""Share of the price of single requests."""
LINES_PER_JOB = 10_000  # providers take up to 50,000 lines
BYTES_PER_JOB = 150_000_000  # and 200 MB
LINE_BYTES = 120
"""What a line of a job has next to the request's body."""
JOBS_AT_ONCE = 4
LEAST_SHARE = 0.01
"""A smaller share of the waiting requests makes no job: days would pass for a few answers."""
TRIES = 3
"""A request fails after so many jobs left it without an answer."""
QUIET_S = 30.0
"""A job is made after so long without a new request: then all coroutines wait for answers."""
OUTAGE_S = 86_400.0
"""A job is paid for and takes up to a day, so tagrpo asks for it through an outage of a day."""
LOOKS = 3
"""How often a job is looked for after a submission without a reply: a provider's list may lag."""
STORED_AT_ONCE = 200
ENDED = ("completed", "failed", "expired", "cancelled")
PAGE: Literal["/v1/chat/completions"] = "/v1/chat/completions"
TAG = "tagrpo"
"""The entry in a job's metadata that holds its tag."""

Result = TypeVar("Result")


@dataclass(eq=False)
class _Job:
    """A job: the keys of its requests by the ids of their asks; their `bodies` if this process sends it."""

    tag: str
    keys: Mapping[int, bytes]
    remote_id: str | None = None
    bodies: Mapping[int, str] | None = None
    may_have_arrived: bool = True


def check_batch(endpoint: "RemoteEndpoint") -> None:
    """Refuse an endpoint that takes no batch jobs."""
    if len(endpoint.bases) > 1:
        raise InputError(
            f"{endpoint.model}: a batch job uses one server. Give one base_url, or remove batch=true."
        )
    if endpoint.base is None and endpoint.provider != "openai":
        raise PrerequisiteError(
            f"{endpoint.model}: {endpoint.provider} does not support OpenAI's batch API. Remove "
            "batch=true, or give the base_url of a server that supports it."
        )


class BatchJobs:
    """Answers the requests of one run for one model by batch jobs, a few at a time; a backend of `ask`."""

    def __init__(
        self, endpoint: "RemoteEndpoint", asker: Asker, *, poll_s: float = 60.0, quiet_s: float = QUIET_S
    ) -> None:
        """Set up; nothing is sent. The endpoint is open; `poll_s` is the time between two looks at a job."""
        self._endpoint, self._asker = endpoint, asker
        self._poll_s, self._quiet_s = poll_s, min(quiet_s, poll_s)
        self._price = None if endpoint.price is None else endpoint.price.scaled(BATCH_PRICE)
        self._client = endpoint.openai_client()
        self._largest, self._at_once = LINES_PER_JOB, JOBS_AT_ONCE
        self._waiting: dict[bytes, tuple[Request, asyncio.Future[Any]]] = {}
        self._in_jobs: set[bytes] = set()
        self._error: Exception | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        """One for each job."""
        self._maker = asyncio.create_task(self._make_jobs())

    async def obtain(self, request: Request) -> Answer:
        """Return the answer when a job delivers it.

        If the run stops, the provider goes on with its jobs, and the next process collects them.
        """
        if request.prompt is not None:
            raise Failed(BAD_REQUEST, "batch jobs support chat prompts only; remove batch=true", final=False)
        failures = 0
        while True:
            if self._error is not None:
                raise self._error
            done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._waiting[request.key] = request, done
            try:
                outcome = await done  # an answer, a fault and whether it is final, or None: it was not sent
            finally:
                self._waiting.pop(request.key, None)
            if outcome is None:
                if (stored := await self._asker.find(request)) is not None:
                    return stored
                await self._asker.pause(self._poll_s)
            elif isinstance(outcome, Answer):
                return outcome
            else:
                fault, final = outcome
                failures += 1
                learned = self._endpoint.learn_refused(request, set(), fault)
                if failures >= TRIES or final or not (learned or fault.kind in RETRIED):
                    self._asker.count_failure(fault, request.model)
                    raise Failed(fault.kind, fault.message, final=final)

    async def close(self) -> None:
        """End the tasks and close the connections; the provider's jobs continue."""
        self._maker.cancel()
        if not self._asker.stopping.is_set():  # otherwise they end by themselves, once results are stored
            for task in self._tasks:
                task.cancel()
        await asyncio.gather(self._maker, *self._tasks, return_exceptions=True)
        await self._client.close()

    async def _make_jobs(self) -> None:
        """Take over the jobs of dead processes, then make jobs of what waits, until the run stops."""
        store, mine = self._asker.store, (self._asker.worker, self._endpoint.model)
        try:
            while True:
                for tag in await store.write(rows.take_over, *mine):
                    self._start(_Job(tag, *await store.read(rows.read_job, tag)))
                size = -1
                while not (pending := self._pending()) or size < len(pending) < self._largest:
                    size = len(pending)
                    await self._asker.pause(self._quiet_s)
                if len(self._tasks) >= self._at_once or not await self._make_job():
                    await self._asker.pause(self._quiet_s)
        except Exception as error:
            self._refuse_all(error)

    def _pending(self) -> list[Request]:
        """Return the requests that wait and are in no job."""
        return [request for key, (request, _) in self._waiting.items() if key not in self._in_jobs]

    async def _make_job(self) -> bool:
        """Send as many waiting requests as the caps leave room for as one job; return whether it was made.

        If there is no room, the run stops unless other jobs run, which may turn out cheaper.
        """
        asker, others_run = self._asker, bool(self._tasks)  # a job that ends from here on frees money
        limit = asker.models.budget.max_requests
        most = self._largest if limit is None else min(self._largest, limit - asker.outcome.sent)
        requests = self._pending()[: max(0, most)]
        if not requests:
            if others_run:
                return False
            raise Stopped(REQUESTS, f"the limit max_requests={limit} is reached")
        bodies = await asyncio.to_thread(lambda: [*map(self._endpoint.batch_body, requests)])
        sizes = accumulate(len(body) + LINE_BYTES for body in bodies)
        tag, count = uuid.uuid4().hex, max(1, sum(size <= BYTES_PER_JOB for size in sizes))
        attempts = [
            rows.Attempt(each, asker.run_id, asker.worker, worst_pico(each, self._price), tag)
            for each in requests[:count]
        ]
        least = math.ceil(LEAST_SHARE * len(attempts))
        begun = await asker.store.write(rows.begin_job, tag, attempts, least)
        keys, sent = dict[int, bytes](), dict[int, str]()
        for attempt, ask_id, body in zip(attempts, begun, bodies, strict=False):
            if isinstance(ask_id, int):
                keys[ask_id], sent[ask_id] = attempt.key, body
            elif ask_id == rows.ELSEWHERE:
                self._deliver(attempt.key, None)
        if keys:
            asker.outcome.sent += len(keys)
            self._start(_Job(tag, keys, bodies=sent))
        elif {*begun} == {rows.NO_ROOM} and not others_run:
            covered = f"fewer than {least:,} of {len(attempts):,} requests"
            raise Stopped(BUDGET, f"the remaining budget (--max-usd) covers {covered}")
        return bool(keys)

    def _start(self, job: _Job) -> None:
        self._in_jobs |= {*job.keys.values()}
        task = asyncio.create_task(self._carry_out(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, job: _Job) -> None:
        """Send a new job or find an old one, wait for it, and store its answers."""
        store = self._asker.store
        try:
            if job.remote_id is None:
                job.remote_id = await (self._find(job.tag) if job.bodies is None else self._submit(job))
                if job.remote_id is not None:
                    await store.write(rows.change_job, job.tag, {"remote_id": job.remote_id})
            if job.remote_id is None:
                await self._give_up(job, "the provider never received the batch job")
            else:
                look = partial(self._client.batches.retrieve, job.remote_id)
                while (ended := await self._call(look, OUTAGE_S)).status not in ENDED:
                    await self._asker.pause(self._poll_s)
                message = _error_message(ended)
                answered = ended.request_counts.completed if ended.request_counts else 0
                if "enqueued token limit" in message.lower() and not answered:
                    self._shrink(job, message)
                    await self._give_up(job, message)
                else:
                    await self._collect(ended, job)
            await store.write(rows.change_job, job.tag, {"collected": True})
        except Exception as error:
            self._refuse_all(error)
            if not job.may_have_arrived:  # otherwise the next process asks for it
                with suppress(DatabaseError):
                    await self._give_up(job, str(error))
                    await store.write(rows.change_job, job.tag, {"collected": True})

    def _shrink(self, job: _Job, message: str) -> None:
        """Go on with one job at a time, as the provider's queue has no room for more.

        After a job that was refused while no other ran, jobs have half its size. If it held a single request,
        the run stops.
        """
        if self._at_once > 1 or len(self._tasks) > 1:
            self._at_once = 1
            return
        self._largest = max(1, len(job.keys) // 2)
        if len(job.keys) == 1:
            way_out = "All answers are kept. Resume when other batch jobs have finished."
            self._asker.stop(QUOTA, f"{message.rstrip('.')}. {way_out}")

    async def _collect(self, ended: Any, job: _Job) -> None:
        """Store what a job brought for each of its requests; a second time gives the same."""
        reason = _error_message(ended) or f"the batch job {ended.status} without answering this request"
        entries: dict[str, Any] = {str(ask_id): {"error": {"message": reason}} for ask_id in job.keys}
        for file_id in filter(None, (ended.output_file_id, ended.error_file_id)):
            file = await self._call(partial(self._client.files.content, file_id), OUTAGE_S)
            for line in file.content.splitlines():
                with suppress(ValueError, AttributeError):
                    entry = json.loads(line)
                    if (name := str(entry.get("custom_id"))) in entries:
                        entries[name] = entry
        for part in in_parts([*entries.items()], STORED_AT_ONCE):
            await asyncio.gather(*(self._keep(job, int(name), entry) for name, entry in part))

    async def _keep(self, job: _Job, ask_id: int, entry: Mapping[str, Any]) -> None:
        """Store an answer or a refusal."""
        response = entry.get("response") or {}
        status, body = int(response.get("status_code") or 0), response.get("body") or {}
        outcome: Answer | tuple[Fault, bool]
        try:
            if status != 200:
                refused = {"error": entry["error"]} if entry.get("error") else body
                raise fault_of_status(status or 500, json.dumps(refused), {})
            answer = self._endpoint.read(json.dumps(body), seeded=self._endpoint.takes("seed"))
            outcome = await self._asker.keep(self._endpoint.model, ask_id, answer, self._price)
        except Fault as fault:
            outcome = fault, self._asker.is_final(fault, self._endpoint.model)
            await self._asker.end_failed(ask_id, fault, final=outcome[1])
        self._deliver(job.keys[ask_id], outcome)

    async def _give_up(self, job: _Job, message: str) -> None:
        """Note that no request of a job was sent: they cost nothing, and are sent again."""
        fault = Fault(SERVER_ERROR, message)
        await asyncio.gather(*(self._asker.end_failed(ask_id, fault, final=False) for ask_id in job.keys))
        self._asker.outcome.sent -= 0 if job.bodies is None else len(job.keys)
        for key in job.keys.values():
            self._deliver(key, None)

    def _deliver(self, key: bytes, outcome: Answer | tuple[Fault, bool] | None) -> None:
        self._in_jobs.discard(key)
        if key in self._waiting and not (done := self._waiting.pop(key)[1]).done():
            done.set_result(outcome)

    def _refuse_all(self, error: Exception) -> None:
        self._error = error
        while self._waiting:
            _, done = self._waiting.popitem()[1]
            if not done.done():
                done.set_exception(error)

    # Calls to the provider

    async def _submit(self, job: _Job) -> str:
        """Send a job; return its id at the provider."""
        assert job.bodies is not None
        job.may_have_arrived = False
        text = "".join(
            f'{{"custom_id": "{ask_id}", "method": "POST", "url": "{PAGE}", "body": {body}}}\n'
            for ask_id, body in job.bodies.items()
        )

        async def create(file_id: str) -> str:
            try:
                created = await self._client.batches.create(
                    completion_window="24h", endpoint=PAGE, input_file_id=file_id, metadata={TAG: job.tag}
                )
            except Exception as error:
                fault = classify(error)
                if fault.billed or fault.kind == SERVER_ERROR:
                    job.may_have_arrived = True
                    if (remote_id := await self._find(job.tag)) is not None:
                        return remote_id
                raise fault from None
            job.may_have_arrived = True
            return created.id

        content = (f"{job.tag}.jsonl", text.encode())
        file = await self._call(partial(self._client.files.create, file=content, purpose="batch"))
        return await self._call(partial(create, file.id))

    async def _find(self, tag: str) -> str | None:
        """Return the id of the job with this tag, None if the provider has none."""

        async def search() -> str | None:
            async for remote in self._client.batches.list(limit=100):
                if (remote.metadata or {}).get(TAG) == tag:
                    return remote.id
            return None

        for look in range(LOOKS):
            if look:
                await self._asker.pause(self._asker.models.retry_s)
            if (remote_id := await self._call(search)) is not None:
                return remote_id
        return None

    async def _call(self, call: Callable[[], Awaitable[Result]], outage_s: float = 0.0) -> Result:
        """Call until there is an answer; for `outage_s`, go on as long as waiting may help."""
        began, attempt = time.monotonic(), 0
        while True:
            attempt += 1
            try:
                return await call()
            except Exception as error:
                fault = classify(error)
            pause = pause_s(fault, attempt, self._asker.models.retry_s)
            if pause is None and fault.kind in RETRIED and time.monotonic() - began < outage_s:
                pause = self._poll_s
            if pause is None:
                raise PrerequisiteError(f"batch jobs at {self._endpoint.where}: {fault}")
            await self._asker.pause(pause)


def _error_message(job: Any) -> str:
    """Return the provider's error message for a failed job."""
    errors = getattr(job.errors, "data", None) or []
    return shorten("; ".join(str(error.message) for error in errors))
