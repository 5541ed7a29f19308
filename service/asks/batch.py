"""Provider batch jobs as a backend of `ask`: half the price, hours instead of minutes, as safe to kill.

What the coroutines wait for is collected and sent as one job. A job's row and its attempts are stored before
it is sent, with a tag that the provider keeps. A later process asks for the job by its id, or finds it by the
tag if the id was not stored. A job that the provider never got costs nothing; its requests are sent again.

The openai package does the calls: litellm's own functions make a client per call that nothing closes, and
download the results of a finished job once more to price it.
"""

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Literal, TypeVar

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from service.asks import store as rows
from service.asks.ask import BUDGET, INTERRUPTED, REQUESTS, Asker, Failed, Stopped, unpack
from service.asks.faults import blame, classify, kind_of_status, shorten
from service.asks.money import worst_pico
from service.asks.remote import RemoteEndpoint
from service.asks.request import BAD_REQUEST, QUOTA, RETRIED, SERVER_ERROR, Answer, Fault, Reply, Request
from service.asks.store import ELSEWHERE, Attempt
from service.asks.tables import SENT, AskBodyRow, AskRow, JobRow
from service.errors import DatabaseError, InputError, PrerequisiteError
from service.runs.tables import CapRow, RunRow

PAGE: Literal["/v1/chat/completions"] = "/v1/chat/completions"
BATCH_PRICE = 0.5
"""Share of the price of single requests."""
TAG = "tagrpo"
"""The entry in a job's metadata that holds its tag."""
LINES_PER_JOB = 10_000  # providers take up to 50,000 lines
BYTES_PER_JOB = 150_000_000  # and 200 MB
LINE_BYTES = 120
"""What a line of a job has next to the request's body."""
JOBS_AT_ONCE = 4
JOBS_PER_PAGE = 100
LEAST_SHARE = 0.01
"""A smaller share of the waiting requests makes no job: days would pass for a few answers."""
QUIET_S = 30.0
"""A job is made after so long without a new request: then all coroutines wait for answers."""
OUTAGE_S = 86_400.0
"""A job is paid for and takes up to a day, so tagrpo asks for it through an outage of a day."""
LOOKS = 3
"""How often a job is looked for after a submission without a reply: a provider's list may lag."""
CALL_TIMEOUT_S = 120.0
NOBODY = 0
"""The worker of a job that no process waits for."""
STORED_AT_ONCE = 200
_ENDED = ("completed", "failed", "expired", "cancelled")

Result = TypeVar("Result")


class NotSentError(PrerequisiteError):
    """A job was refused or could not be sent; the provider certainly has none of it."""


@dataclass
class _Waiter:
    """A request that waits for a job, and how many jobs failed to answer it."""

    request: Request
    done: asyncio.Future[Answer]
    tries: int = 0


@dataclass
class _Line:
    """A request in a job. `body` is "" in a job of an earlier process."""

    ask_id: int
    key: bytes
    max_tokens: int
    body: str = ""


@dataclass(eq=False)
class _Job:
    """A job with its requests; `is_new` if this process sends it."""

    tag: str
    lines: Sequence[_Line]
    remote_id: str | None = None
    is_new: bool = False
    completed: int = 0


class BatchJobs:
    """Answers the requests for one model by batch jobs; a backend of `ask` for the runs of a command."""

    def __init__(
        self, endpoint: RemoteEndpoint, *, poll_s: float = 60.0, quiet_s: float = QUIET_S, tries: int = 3
    ) -> None:
        """Set up; nothing is sent.

        Args:
            endpoint: The model at OpenAI, or at one server with OpenAI's batch protocol; it is open.
            poll_s: Seconds between two looks at a job.
            quiet_s: A job is made after so long without a new request; never longer than `poll_s`.
            tries: A request fails after so many jobs left it without an answer.

        Raises:
            InputError: the endpoint has several servers.
            PrerequisiteError: the provider has no batch jobs of this kind.
        """
        provider = endpoint.provider
        if len(endpoint.bases) > 1:
            raise InputError(
                f"{endpoint.spelling}: one server holds a batch job. Give --base-url once, or remove "
                f"batch=true."
            )
        if provider.base is None and provider.name != "openai":
            raise PrerequisiteError(
                f"{endpoint.spelling}: {provider.name} has no batch jobs in OpenAI's form. Remove "
                f"batch=true, "
                "or give the --base-url of a server that has them."
            )
        self.endpoint, self.poll_s, self.quiet_s, self.tries = endpoint, poll_s, min(quiet_s, poll_s), tries
        self.price = None if endpoint.price is None else endpoint.price.scaled(BATCH_PRICE)
        self.client = provider.openai_client(CALL_TIMEOUT_S)
        self._runs: dict[Asker, _RunJobs] = {}

    async def obtain(self, request: Request, asker: Asker) -> Answer:
        """Return the answer once a job has brought it.

        Raises:
            Failed: the request has no answer.
            Stopped: the run stops; the provider goes on with its jobs, and the next process collects them.
            PrerequisiteError: the provider refuses batch jobs, or was unreachable for a day.
        """
        if request.prompt is not None:
            raise Failed(
                BAD_REQUEST, "batch jobs take chats only; remove batch=true for raw text", final=False
            )
        if asker not in self._runs:
            self._runs[asker] = _RunJobs(self, asker)
        return await self._runs[asker].obtain(request)

    @property
    def waits_for(self) -> str:
        """How far the jobs of this process are together, in words."""
        jobs = [job for run in self._runs.values() for job in run.jobs.values()]
        done, total = sum(job.completed for job in jobs), sum(len(job.lines) for job in jobs)
        return f"{len(jobs)} batch jobs, {done:,} of {total:,} requests answered"

    async def close(self) -> None:
        """Finish storing results and close the connections; the provider goes on with its jobs.

        Call it after the runs have stopped, and before the store is closed.
        """
        for run in self._runs.values():
            await run.close()
        await self.client.close()


class _RunJobs:
    """The batch jobs of one run for one model, a few at a time."""

    def __init__(self, settings: BatchJobs, asker: Asker) -> None:
        self.jobs: dict[str, _Job] = {}
        self._settings, self._endpoint, self._client = settings, settings.endpoint, settings.client
        self._asker, self._retries = asker, asker.models.retries
        self._largest, self._at_once = LINES_PER_JOB, JOBS_AT_ONCE
        self._waiters: dict[bytes, _Waiter] = {}
        self._pending: dict[bytes, Request] = {}
        self._in_jobs: set[bytes] = set()
        self._alone: _Job | None = None
        """The job that runs while no other ran, from its start on."""
        self._error: Exception | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._maker = asyncio.create_task(self._make_jobs())

    async def obtain(self, request: Request) -> Answer:
        if self._error is not None:
            raise self._error
        waiter = _Waiter(request, asyncio.get_running_loop().create_future())
        self._waiters[request.key] = waiter
        if request.key not in self._in_jobs:
            self._pending[request.key] = request
        try:
            return await waiter.done
        finally:
            del self._waiters[request.key]
            self._pending.pop(request.key, None)

    async def close(self) -> None:
        self._asker.stop(INTERRUPTED, "the command ends")  # ends the wait for jobs
        self._maker.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _make_jobs(self) -> None:
        """Take over the jobs of dead processes, then make jobs of what waits, until the run stops."""
        store, mine = self._asker.store, (self._asker.worker, self._endpoint.model)
        try:
            while True:
                for tag in await store.write(take_over, mine):
                    self._start(await store.read(read_job, tag))
                size = -1
                while not self._pending or size < len(self._pending) < self._largest:
                    size = len(self._pending)
                    await self._asker.pause(self._settings.quiet_s)
                if len(self.jobs) >= self._at_once or not await self._make_job():
                    await self._asker.pause(self._settings.quiet_s)
        except Exception as error:
            self._refuse_all(error)

    async def _make_job(self) -> bool:
        """Send as many waiting requests as the caps leave room for as one job; return whether it was made.

        Raises:
            Stopped: the caps leave no room, and no job runs that may turn out cheaper.
        """
        requests = list(self._pending.values())[: self._largest]
        bodies = await asyncio.to_thread(lambda: [self._body(request) for request in requests])
        sizes = accumulate(len(body) + LINE_BYTES for body in bodies)
        in_one_file = max(1, sum(size <= BYTES_PER_JOB for size in sizes))
        worst = [worst_pico(request, self._settings.price) for request in requests]
        left = await self._asker.store.read(money_left, self._asker.run_id)
        fitting = sum(left is None or total <= left for total in accumulate(each or 0 for each in worst))
        enough = fitting >= LEAST_SHARE * len(requests)
        count = min(fitting, in_one_file) if enough else 0
        if self._asker.models.max_requests is not None:
            count = min(count, self._asker.models.max_requests - self._asker.totals.sent)
        if count <= 0:
            if self.jobs:
                return False
            if enough:
                raise Stopped(REQUESTS, f"max_requests={self._asker.models.max_requests} is reached")
            few = f"{fitting:,} of {len(requests):,} requests"
            raise Stopped(BUDGET, f"what is left under --max-usd is enough for {few}")
        tag = uuid.uuid4().hex
        attempts = [
            self._asker.attempt(request, pico, tag)
            for request, pico in zip(requests[:count], worst, strict=False)
        ]
        begun = await self._asker.store.write(begin_job, NewJob(tag, attempts))
        lines: list[_Line] = []
        for request, ask_id, body in zip(requests, begun, bodies, strict=False):
            if isinstance(ask_id, int):
                lines.append(_Line(ask_id, request.key, request.max_tokens, body))
            elif ask_id == ELSEWHERE:
                self._follow(asyncio.create_task(self._await_other_process(request)))
        if lines:
            self._asker.totals.sent += len(lines)
            self._start(_Job(tag, lines, is_new=True))
        return bool(lines)

    def _body(self, request: Request) -> str:
        body = self._endpoint.provider.body(request, self._endpoint.leave_out(request))
        return json.dumps(body)

    async def _await_other_process(self, request: Request) -> None:
        """Wait while another process sends a request; it may die."""
        self._pending.pop(request.key, None)
        try:
            if (answer := await self._asker.find(request)) is not None:
                self._finish(request.key, answer)
                return
            await self._asker.pause(self._settings.poll_s)
            self._send_again(request.key)
        except (Failed, Stopped) as error:
            self._finish(request.key, error)

    def _start(self, job: _Job) -> None:
        self._in_jobs.update(line.key for line in job.lines)
        for line in job.lines:
            self._pending.pop(line.key, None)
        self._alone = None if self.jobs else job
        self.jobs[job.tag] = job
        self._follow(asyncio.create_task(self._carry_out(job)))

    def _follow(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, job: _Job) -> None:
        """Send a new job or find an old one, wait for it, and store its answers."""
        try:
            if job.remote_id is None:
                job.remote_id = await (self._submit(job) if job.is_new else self._find(job.tag))
                if job.remote_id is not None:
                    await self._asker.store.write(name_job, (job.tag, job.remote_id))
            if job.remote_id is None:
                await self._give_up(job, "the batch job was never sent")
            else:
                ended = await self._wait(job)
                message = _message(ended)
                if "enqueued token limit" in message.lower() and not job.completed:
                    await self._give_up(job, message)
                    self._shrink(job, message)
                else:
                    await self._collect(ended, job.lines)
            await self._asker.store.write(close_job, job.tag)
        except NotSentError as error:
            await self._give_up(job, str(error))
            await self._asker.store.write(close_job, job.tag)
            self._refuse_all(error)
        except Exception as error:
            self._refuse_all(error)
            with suppress(DatabaseError):
                await self._asker.store.write(release_job, job.tag)
        finally:
            del self.jobs[job.tag]

    def _shrink(self, job: _Job, message: str) -> None:
        """Go on with one job at a time, as the provider's queue has no room for more.

        After a job that was refused while no other ran, jobs have half its size. If it held a single request,
        the run stops.
        """
        self._at_once = 1
        if job is not self._alone:
            return
        self._largest = max(1, len(job.lines) // 2)
        if len(job.lines) == 1:
            way_out = "Nothing is lost; resume when other batch jobs have ended."
            self._asker.stop(QUOTA, f"{message.rstrip('.')}. {way_out}")

    async def _submit(self, job: _Job) -> str:
        """Send a job and return its id at the provider.

        Raises:
            NotSentError: the provider refuses it, or cannot be reached.
            PrerequisiteError: as before, but an earlier attempt may have arrived; `_find` tells later.
        """
        content = "".join(
            f'{{"custom_id": "{line.ask_id}", "method": "POST", "url": "{PAGE}", "body": {line.body}}}\n'
            for line in job.lines
        )
        upload = partial(
            self._client.files.create, file=(f"{job.tag}.jsonl", content.encode()), purpose="batch"
        )
        try:
            file = await self._call(upload)
        except PrerequisiteError as error:
            raise NotSentError(str(error)) from error
        attempt, may_have_arrived = 0, False
        while True:
            attempt += 1
            try:
                created = await self._client.batches.create(
                    completion_window="24h",
                    endpoint=PAGE,
                    input_file_id=file.id,
                    metadata={TAG: job.tag},
                )
                return str(created.id)
            except Exception as error:
                fault = classify(error)
            if fault.billed or fault.kind == SERVER_ERROR:
                may_have_arrived = True
                if (remote_id := await self._find(job.tag)) is not None:
                    return remote_id
            pause_s = self._retries.pause_s(fault, attempt)
            if pause_s is None:
                raise (PrerequisiteError if may_have_arrived else NotSentError)(self._words(fault))
            await self._asker.pause(pause_s)

    async def _find(self, tag: str) -> str | None:
        """Return the id of the job with this tag, None if the provider has none."""
        for look in range(LOOKS):
            if look:
                await self._asker.pause(self._retries.base_s)
            after: dict[str, Any] = {}
            while True:
                page = await self._call(partial(self._client.batches.list, **after, limit=JOBS_PER_PAGE))
                for remote in page.data:
                    if (remote.metadata or {}).get(TAG) == tag:
                        return str(remote.id)
                if not page.data or not getattr(page, "has_more", False):
                    break
                after = {"after": page.data[-1].id}
        return None

    async def _wait(self, job: _Job) -> Any:
        retrieve = partial(self._client.batches.retrieve, str(job.remote_id))
        while True:
            state = await self._call(retrieve, OUTAGE_S)
            job.completed = state.request_counts.completed if state.request_counts else 0
            if state.status in _ENDED:
                return state
            await self._asker.pause(self._settings.poll_s)

    async def _call(self, call: Callable[[], Awaitable[Result]], outage_s: float = 0.0) -> Result:
        """Call until there is an answer; for `outage_s`, go on as long as waiting may help."""
        began, attempt = time.monotonic(), 0
        while True:
            attempt += 1
            try:
                return await call()
            except Exception as error:
                fault = classify(error)
            pause_s = self._retries.pause_s(fault, attempt)
            if pause_s is None and fault.kind in RETRIED and time.monotonic() - began < outage_s:
                pause_s = self._retries.longest_s
            if pause_s is None:
                raise PrerequisiteError(self._words(fault))
            await self._asker.pause(pause_s)

    def _words(self, fault: Fault) -> str:
        return f"batch jobs at {self._endpoint.where}: {fault}"

    async def _collect(self, ended: Any, lines: Sequence[_Line]) -> None:
        """Store what a job brought for each of its requests; a second time gives the same."""
        left = {str(line.ask_id): line for line in lines}
        for file_id in filter(None, (ended.output_file_id, ended.error_file_id)):
            file = await self._call(partial(self._client.files.content, file_id), OUTAGE_S)
            entries = [(left.pop(str(each.get("custom_id")), None), each) for each in _entries(file.content)]
            known = [(line, entry) for line, entry in entries if line is not None]
            for start in range(0, len(known), STORED_AT_ONCE):
                part = known[start : start + STORED_AT_ONCE]
                await asyncio.gather(*(self._keep(line, entry) for line, entry in part))
        reason = _message(ended) or f"the batch job {ended.status} without an answer to this request"
        for line in left.values():
            await self._fail(line, Fault(SERVER_ERROR, reason))

    async def _keep(self, line: _Line, entry: dict[str, Any]) -> None:
        """Store an answer or a refusal."""
        response = entry.get("response") or {}
        status, body = response.get("status_code"), response.get("body") or {}
        if status != 200:
            await self._fail(line, _refusal(int(status or 0), entry.get("error") or body))
            return
        reply = Reply(self._endpoint.redact(json.dumps(body)), seeded=self._endpoint.takes("seed"))
        try:
            self._finish(line.key, await self._asker.keep(line.ask_id, reply, self._settings.price))
        except Fault as fault:
            await self._fail(line, fault)

    async def _fail(self, line: _Line, fault: Fault) -> None:
        """Store a failed attempt; send the request again if that may help."""
        fault = blame(fault, line.max_tokens)
        final = self._asker.is_final(fault)
        await self._asker.end_failed(line.ask_id, fault, final=final)
        self._in_jobs.discard(line.key)
        waiter = self._waiters.get(line.key)
        if waiter is None:
            return
        waiter.tries += 1
        learned = self._endpoint.learn_refused(waiter.request, set(), fault)
        if waiter.tries < self._settings.tries and (learned or (fault.kind in RETRIED and not final)):
            self._send_again(line.key)
        else:
            self._asker.count_failure(fault)
            self._finish(line.key, Failed(fault.kind, fault.message, final=final))

    async def _give_up(self, job: _Job, message: str) -> None:
        """Note that no request of a job was sent: they cost nothing, and are sent again."""
        fault = Fault(SERVER_ERROR, message)
        await asyncio.gather(*(self._asker.end_failed(line.ask_id, fault, final=False) for line in job.lines))
        self._asker.totals.sent -= len(job.lines) if job.is_new else 0
        for line in job.lines:
            self._send_again(line.key)

    def _send_again(self, key: bytes) -> None:
        self._in_jobs.discard(key)
        if key in self._waiters:
            self._pending[key] = self._waiters[key].request

    def _finish(self, key: bytes, outcome: Answer | Exception) -> None:
        self._in_jobs.discard(key)
        waiter = self._waiters.get(key)
        if waiter is None or waiter.done.done():
            return
        if isinstance(outcome, Exception):
            waiter.done.set_exception(outcome)
        else:
            waiter.done.set_result(outcome)

    def _refuse_all(self, error: Exception) -> None:
        self._error = error
        for key in self._waiters:
            self._finish(key, error)


def _message(job: Any) -> str:
    errors = getattr(job.errors, "data", None) or []
    return shorten("; ".join(str(error.message) for error in errors))


def _entries(content: bytes) -> list[dict[str, Any]]:
    entries = []
    for line in content.splitlines():
        with suppress(ValueError):
            if isinstance(entry := json.loads(line), dict):
                entries.append(entry)
    return entries


def _refusal(status: int, error: dict[str, Any]) -> Fault:
    inner = error.get("error", error)
    message = shorten(str((inner.get("message") if isinstance(inner, dict) else None) or inner))
    return Fault(kind_of_status(status, message) if status else SERVER_ERROR, message, status=status or None)


# Handlers of the store.


@dataclass(frozen=True)
class NewJob:
    """A job about to be sent, with an attempt at least; they name its run, worker and model."""

    tag: str
    attempts: Sequence[Attempt]


def begin_job(session: Session, new_jobs: Sequence[NewJob]) -> list[list[int | str]]:
    """Store jobs with those of their attempts that may be sent; see `store.begin`."""
    begun = []
    for job in new_jobs:
        begun.append(rows.begin(session, job.attempts))
        if any(isinstance(each, int) for each in begun[-1]):
            first = job.attempts[0]
            session.execute(
                insert(JobRow).values(
                    tag=job.tag, run_id=first.run_id, model=first.model, worker=first.worker, collected=False
                )
            )
    return begun


def take_over(session: Session, workers: Sequence[tuple[int, str]]) -> list[list[str]]:
    """Give each (worker, model) the jobs that no living process waits for, of all runs; return their tags."""
    taken = []
    for worker, model in workers:
        of_model = select(JobRow.worker).where(JobRow.model == model, JobRow.collected.is_(False))
        holders = set(session.scalars(of_model))
        tags = session.scalars(
            update(JobRow)
            .where(JobRow.model == model, JobRow.collected.is_(False))
            .where(JobRow.worker.in_(rows.dead_workers(session, holders)))
            .values(worker=worker)
            .returning(JobRow.tag)
        )
        taken.append(list(tags))
    return taken


def release_job(session: Session, tags: Sequence[str]) -> list[None]:
    """Let others wait for jobs."""
    session.execute(update(JobRow).where(JobRow.tag.in_(tags)).values(worker=NOBODY))
    return [None] * len(tags)


def read_job(session: Session, tags: Sequence[str]) -> list[_Job]:
    """Return jobs with their requests that have no answer."""
    jobs = []
    for tag in tags:
        remote_id = session.scalar(select(JobRow.remote_id).where(JobRow.tag == tag))
        sent = session.execute(
            select(AskRow.id, AskRow.key, AskBodyRow.request)
            .join(AskBodyRow, AskBodyRow.ask_id == AskRow.id)
            .where(AskRow.job == tag, AskRow.state == SENT)
            .order_by(AskRow.id)
        )
        lines = [
            _Line(ask_id, key or b"", int(json.loads(unpack(body))["sampling"]["max_tokens"]))
            for ask_id, key, body in sent
        ]
        jobs.append(_Job(tag, lines, remote_id))
    return jobs


def name_job(session: Session, names: Sequence[tuple[str, str]]) -> list[None]:
    """Store the ids that the provider gave to jobs, by tag."""
    for tag, remote_id in names:
        session.execute(update(JobRow).where(JobRow.tag == tag).values(remote_id=remote_id))
    return [None] * len(names)


def close_job(session: Session, tags: Sequence[str]) -> list[None]:
    """Note that jobs need nothing more."""
    session.execute(update(JobRow).where(JobRow.tag.in_(tags)).values(collected=True))
    return [None] * len(tags)


def money_left(session: Session, run_ids: Sequence[str]) -> list[int | None]:
    """Return the picodollars left under the caps of runs; None without a cap."""
    left = select(CapRow.max_pico - CapRow.committed_pico).join(RunRow, RunRow.cap_id == CapRow.id)
    return [session.scalar(left.where(RunRow.id == run_id)) for run_id in run_ids]
