"""The database for coroutines: attempts and their costs, batch jobs, workers, tasks, values computed once.

Every access is a handler of many items: those that arrive while a transaction runs share the next one, so
that 64 requests in flight cost a few commits. Every attempt is stored before it is sent, and at every moment
`caps.committed_pico` is the sum of the costs of the runs under a cap, each ask at its worst case until its
cost is known.
"""

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, TypeVarTuple

from sqlalchemy import ColumnElement, bindparam, case, delete, func, insert, or_, select, update
from sqlalchemy.orm import Session

from service.asks.request import Request
from service.asks.tables import (
    ANSWERED,
    FAILED,
    FAILED_TASK,
    FINAL,
    LOST,
    OPEN,
    SENT,
    AskBodyRow,
    AskRow,
    JobRow,
    NoteRow,
    TaskRow,
    WorkerRow,
)
from service.database import Database, in_parts, upsert
from service.process import has_ended, this_process
from service.runs.tables import CapRow, RunRow

SILENT_S = 900.0
"""A worker of another machine counts as dead after as many seconds without a sign of life."""

ITEMS_PER_COMMIT = 500
"""Other processes want the write lock too, and a statement takes only so many values."""

LEFT = 0.0
"""When a worker was last seen that has left."""

NO_ROOM, ELSEWHERE = "no room", "elsewhere"
"""Why an attempt may not begin: the cap; or another living process sends it or has just been answered."""

UNSENT = "unsent"
"""In place of the tag of a batch job: the attempt waits for one, and costs nothing if its process dies."""

Arguments = TypeVarTuple("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")
Handler = Callable[[Session, Sequence[Item]], Sequence[Result]]
_Call = tuple[Handler[Any, Any], Any]


class Grouped(Generic[Item, Result]):
    """Hands a thread of its own all items that arrived while it was busy.

    `handle` gets a list of items and returns a list of their results.
    """

    def __init__(self, handle: Callable[[list[Item]], Sequence[Result]]) -> None:
        self._handle, self._thread = handle, ThreadPoolExecutor(1)
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._running: asyncio.Task[None] | None = None

    async def do(self, item: Item) -> Result:
        """Return the result for one item."""
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._drain())
        return await done

    def close(self) -> None:
        self._thread.shutdown()

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting[:ITEMS_PER_COMMIT], self._waiting[ITEMS_PER_COMMIT:]
            results: Sequence[Result | Exception]
            try:
                results = await loop.run_in_executor(self._thread, self._handle, [item for item, _ in batch])
            except Exception as error:
                results = [error] * len(batch)
            for (_, done), result in zip(batch, results, strict=True):
                if done.done():
                    continue
                if isinstance(result, Exception):
                    done.set_exception(result)
                else:
                    done.set_result(result)


class Store:
    """A database as coroutines use it: one thread writes, one reads, each takes all that waits at once."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._reads: Grouped[_Call, Any] = Grouped(partial(self._handle, write=False))
        self._writes: Grouped[_Call, Any] = Grouped(partial(self._handle, write=True))

    async def read(self, function: Callable[[Session, *Arguments], Result], *arguments: *Arguments) -> Result:
        """Return `function(session, *arguments)`, as of a transaction that begins after this call."""
        return await self.read_together(_call_each, lambda session: function(session, *arguments))

    async def write(
        self, function: Callable[[Session, *Arguments], Result], *arguments: *Arguments
    ) -> Result:
        """Return `function(session, *arguments)`, once it is committed."""
        return await self.write_together(_call_each, lambda session: function(session, *arguments))

    async def read_together(self, handler: Handler[Item, Result], item: Item) -> Result:
        """Read as `read` does, by a handler of all items that wait, for one item."""
        result: Result = await self._reads.do((handler, item))
        return result

    async def write_together(self, handler: Handler[Item, Result], item: Item) -> Result:
        """Write as `write` does, by a handler of all items that wait, for one item."""
        result: Result = await self._writes.do((handler, item))
        return result

    def _handle(self, calls: Sequence[_Call], *, write: bool) -> list[Any]:
        items: dict[Handler[Any, Any], list[Any]] = {}
        for handler, item in calls:
            items.setdefault(handler, []).append(item)
        results = self.db.repeat(
            lambda session: {handler: iter(handler(session, each)) for handler, each in items.items()},
            write=write,
        )
        return [next(results[handler]) for handler, _ in calls]

    def close(self) -> None:
        """End the threads; call after everything was awaited."""
        self._reads.close()
        self._writes.close()


def _call_each(session: Session, calls: Sequence[Callable[[Session], Result]]) -> list[Result]:
    return [call(session) for call in calls]


# Attempts: looked up, begun, ended.


@dataclass(frozen=True)
class Ended:
    """The outcome of an attempt. `cost_pico` None: the bill is not known, it counts at its worst case."""

    ask_id: int
    state: str
    cost_pico: int | None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    seeded: bool = True
    reply: str | None = None
    error: str | None = None


def find(session: Session, keys: Sequence[bytes]) -> list[Any]:
    """Return (key, id, state, error, seeded, reply) of each answered or finally failed ask, else None."""
    query = (
        select(AskRow.key, AskRow.id, AskRow.state, AskRow.error, AskRow.seeded, AskBodyRow.reply)
        .outerjoin(AskBodyRow, AskBodyRow.ask_id == AskRow.id)
        .where(AskRow.key.in_(set(keys)), AskRow.state.in_((ANSWERED, FINAL)))
    )
    stored = {row.key: row for row in session.connection().execute(query)}
    return [stored.get(key) for key in keys]


def is_in_idle_job(session: Session, key: bytes) -> bool:
    """Return whether an ask is in a batch job that no living process waits for."""
    job = select(JobRow.worker).join(AskRow, AskRow.job == JobRow.tag)
    worker = session.scalar(job.where(AskRow.key == key, AskRow.state == SENT))
    return worker is not None and bool(dead_workers(session, {worker}))


def has_answered(session: Session, run_id: str, model: str) -> bool:
    """Return whether a model has answered a request of a run."""
    answered = select(AskRow.id).where(AskRow.run_id == run_id, AskRow.model == model)
    return session.scalar(answered.where(AskRow.state == ANSWERED).limit(1)) is not None


def begin(
    run_id: str, worker: int, session: Session, attempts: Sequence[tuple[Request, int | None, str | None]]
) -> list[int | str]:
    """Reserve the worst case of a run's attempts and note that a process sends them.

    Each has a request, its worst case in picodollars (None: not known), and `UNSENT` if it waits for a batch
    job. Returns their ids; instead of an id `NO_ROOM` or `ELSEWHERE`, if one may not be sent.
    """
    connection, keys = session.connection(), [request.key for request, _, _ in attempts]
    _give_up_lost(session, keys)
    # A transaction that writes has the write lock, so what it reads of the cap holds until it commits.
    room = select(CapRow.max_pico - CapRow.committed_pico).join(RunRow, RunRow.cap_id == CapRow.id)
    capped = session.scalar(room.where(RunRow.id == run_id))
    left, granted = math.inf if capped is None else capped, dict[bytes, tuple[Request, int]]()
    rows, held = [], set(session.scalars(select(AskRow.key).where(AskRow.key.in_(keys))))
    for request, worst, job in attempts:
        if request.key not in held and (worst or 0) <= left:
            left -= worst or 0
            granted[request.key] = request, worst or 0
            row = {name: getattr(request, name) for name in ("key", "scope", "kind", "about", "model")}
            row |= {"place": request.draw, "run_id": run_id, "worker": worker, "worst_pico": worst}
            rows.append({**row, "job": job, "state": SENT, "seeded": True})
    ids = dict[bytes, int]()
    if rows:
        added = upsert(AskRow).on_conflict_do_nothing().returning(AskRow.key, AskRow.id)
        ids = {key or b"": ask_id for key, ask_id in connection.execute(added, rows)}
        _commit_money(session, run_id, sum(granted[key][1] for key in ids))
        bodies = [{"ask_id": ask_id, "request": _body(granted[key][0])} for key, ask_id in ids.items()]
        connection.execute(insert(AskBodyRow), bodies)
    return [ELSEWHERE if key in held else ids.get(key, NO_ROOM) for key in keys]


def _body(request: Request) -> str:
    """Return what is kept of a request, without the bytes of its images."""
    messages = [{"role": each.role, "content": each.content} for each in request.messages]
    named = ("prompt", "sampling", "seed", "n")
    return json.dumps({"messages": messages, **{name: getattr(request, name) for name in named}})


_END = (
    update(AskRow)
    .where(AskRow.id == bindparam("ask_id"))
    .values(
        # An ask that was given up as lost was answered after all: it is paid, and another one has its key.
        state=case((AskRow.state == LOST, LOST), else_=bindparam("new_state", type_=AskRow.state.type)),
        key=case((bindparam("keeps_key"), AskRow.key), else_=None),
    )
)


def end(session: Session, ended: Sequence[Ended]) -> list[None]:
    """Store the outcomes of attempts, settle their costs; a second time changes nothing."""
    connection, changes, now = session.connection(), Counter[str](), time.time()
    counted = func.coalesce(AskRow.cost_pico, AskRow.worst_pico, 0).label("counted")
    query = select(AskRow.id, AskRow.run_id, AskRow.job, counted)
    rows_begun = connection.execute(query.where(AskRow.id.in_([each.ask_id for each in ended])))
    begun = {row.id: row for row in rows_begun}
    rows = []
    for each in ended:
        row = begun[each.ask_id]
        if row.run_id is not None and each.cost_pico is not None:
            changes[row.run_id] += each.cost_pico - row.counted
        columns = {name: value for name, value in vars(each).items() if name not in ("state", "reply")}
        keeps_key = each.state in (ANSWERED, FINAL)
        rows.append({**columns, "new_state": each.state, "keeps_key": keeps_key, "ended_at": now})
    for run_id, pico in changes.items():
        _commit_money(session, run_id, pico)
    connection.execute(_END, rows)
    if replies := [{"body_of": each.ask_id, "reply": each.reply} for each in ended if each.reply is not None]:
        connection.execute(update(AskBodyRow).where(AskBodyRow.ask_id == bindparam("body_of")), replies)
    if jobs := {row.job for row in begun.values()} - {None}:
        _close_jobs(session, JobRow.tag.in_(jobs))
    return [None] * len(ended)


def _commit_money(session: Session, run_id: str | None, pico: int) -> None:
    """Add to what the runs under a run's cap cost."""
    if pico:
        of_run = select(RunRow.cap_id).where(RunRow.id == run_id).scalar_subquery()
        raised = CapRow.committed_pico + pico
        session.connection().execute(update(CapRow).where(CapRow.id == of_run).values(committed_pico=raised))


def _give_up_lost(session: Session, keys: Sequence[bytes]) -> None:
    """Free the keys of asks whose process is dead; what those that were sent may have cost stays spent.

    The others leave the ledger. They stay stored, as a process that was silent may still end them.
    """
    connection, in_no_job = session.connection(), or_(AskRow.job.is_(None), AskRow.job == UNSENT)
    held = select(AskRow.id, AskRow.worker).where(AskRow.key.in_(keys), AskRow.state == SENT, in_no_job)
    holders = dict(connection.execute(held).all())
    dead = dead_workers(session, set(holders.values()))
    if lost := [ask_id for ask_id, worker in holders.items() if worker in dead]:
        are_lost = AskRow.id.in_(lost)
        _return_money(session, are_lost, AskRow.job == UNSENT)
        payer = case((AskRow.job == UNSENT, None), else_=AskRow.run_id)
        freed = {"state": LOST, "key": None, "ended_at": time.time(), "run_id": payer}
        connection.execute(update(AskRow).where(are_lost).values(freed))


def _return_money(session: Session, *conditions: ColumnElement[bool]) -> None:
    """Take back what was reserved for attempts."""
    reserved = select(AskRow.run_id, func.sum(AskRow.worst_pico)).where(*conditions).group_by(AskRow.run_id)
    for run_id, pico in session.execute(reserved).all():
        _commit_money(session, run_id, -(pico or 0))


# Batch jobs. One is open as long as a request in it has no outcome.


def open_job(
    session: Session, run_id: str, worker: int, model: str, tag: str, keys: Sequence[bytes]
) -> dict[bytes, int]:
    """Store a job of attempts that wait for one; return their ids by key."""
    session.execute(
        insert(JobRow).values(tag=tag, run_id=run_id, worker=worker, model=model, collected=False)
    )
    unsent = (AskRow.key.in_(keys), AskRow.worker == worker, AskRow.job == UNSENT, AskRow.state == SENT)
    added = update(AskRow).where(*unsent).values(job=tag).returning(AskRow.key, AskRow.id)
    return {key or b"": ask_id for key, ask_id in session.connection().execute(added)}


def empty_job(session: Session, tag: str) -> None:
    """Let the requests of a job that was not carried out wait for another job."""
    session.execute(update(AskRow).where(AskRow.job == tag, AskRow.state == SENT).values(job=UNSENT))
    _close_jobs(session, JobRow.tag == tag)


def _close_jobs(session: Session, *conditions: ColumnElement[bool]) -> None:
    sent = select(AskRow.id).where(AskRow.job == JobRow.tag, AskRow.state == SENT)
    session.connection().execute(update(JobRow).where(*conditions, ~sent.exists()).values(collected=True))


def take_over(session: Session, worker: int, model: str) -> list[tuple[str, dict[int, bytes], str | None]]:
    """Give a worker a model's jobs that no living process waits for, of all runs.

    Returns the tag of each, the keys of its requests by the ids of their asks, and its id at the provider.
    """
    is_open = (JobRow.model == model, JobRow.collected.is_(False))
    _close_jobs(session, *is_open)  # where an earlier version was killed
    dead = dead_workers(session, set(session.scalars(select(JobRow.worker).where(*is_open))))
    taking = update(JobRow).where(*is_open, JobRow.worker.in_(dead)).values(worker=worker)
    taken = []
    for tag, remote_id in session.execute(taking.returning(JobRow.tag, JobRow.remote_id)).all():
        sent = select(AskRow.id, AskRow.key).where(AskRow.job == tag, AskRow.state == SENT)
        taken.append((tag, {ask_id: key or b"" for ask_id, key in session.execute(sent)}, remote_id))
    return taken


def name_job(session: Session, tag: str, remote_id: str) -> None:
    """Keep the id of a job at the provider."""
    session.execute(update(JobRow).where(JobRow.tag == tag).values(remote_id=remote_id))


# Workers and tasks. A process has one row that it keeps fresh; what a dead one holds is free.


def enter(session: Session) -> int:
    """Register this process; return its number."""
    values = {"process": this_process(), "seen_at": time.time()}
    return int(session.execute(insert(WorkerRow).returning(WorkerRow.id), values).scalar_one())


def beat(session: Session, worker: int) -> None:
    """Note that a worker is alive."""
    session.execute(update(WorkerRow).where(WorkerRow.id == worker).values(seen_at=time.time()))


def leave(session: Session, worker: int) -> None:
    """Release the tasks and unanswered requests of a worker that ends."""
    unsent = (AskRow.worker == worker, AskRow.job == UNSENT, AskRow.state == SENT)
    _return_money(session, *unsent)
    session.execute(delete(AskRow).where(*unsent))
    session.execute(update(TaskRow).where(TaskRow.worker == worker).values(worker=None))
    session.execute(update(WorkerRow).where(WorkerRow.id == worker).values(seen_at=LEFT))


def dead_workers(session: Session, workers: Collection[int]) -> set[int]:
    """Return those of these workers that have left, or whose process has ended.

    A process on another machine counts as dead after `SILENT_S` without a sign of life.
    """
    if not workers:
        return set()
    long_ago, alive = time.time() - SILENT_S, set()
    query = select(WorkerRow.id, WorkerRow.process, WorkerRow.seen_at)
    for worker, process, seen_at in session.execute(query.where(WorkerRow.id.in_(workers))):
        ended = has_ended(process)
        if seen_at > (long_ago if ended is None else LEFT) and not ended:
            alive.add(worker)
    return set(workers) - alive


def claim(session: Session, run_id: str, me: int, most: int, skip: Collection[int]) -> list[tuple[int, str]]:
    """Take open tasks of a run for a worker, without these positions; return (position, item) in order."""
    is_open = (TaskRow.run_id == run_id, TaskRow.state == OPEN)
    holders = select(TaskRow.worker).where(*is_open, TaskRow.worker != me).distinct()
    if dead := dead_workers(session, set(session.scalars(holders))):
        session.connection().execute(
            update(TaskRow).where(*is_open, TaskRow.worker.in_(dead)).values(worker=None)
        )
    first = (
        select(TaskRow.position)
        .where(*is_open, TaskRow.worker.is_(None), TaskRow.position.not_in(skip))
        .order_by(TaskRow.position)
        .limit(most)
    )
    taking = update(TaskRow).where(TaskRow.run_id == run_id, TaskRow.position.in_(first))
    rows = session.connection().execute(taking.values(worker=me).returning(TaskRow.position, TaskRow.item))
    return sorted((position, item) for position, item in rows)


def others_hold(session: Session, run_id: str, worker: int) -> bool:
    """Return whether other workers are at open tasks of the run."""
    theirs = select(TaskRow.position).where(TaskRow.run_id == run_id, TaskRow.state == OPEN)
    return session.scalar(theirs.where(TaskRow.worker != worker).limit(1)) is not None


def finish(session: Session, finished: Sequence[Mapping[str, Any]]) -> list[None]:
    """Store the `state` and `error` of tasks if their `holder` still has them, and release them."""
    task = (TaskRow.run_id == bindparam("of_run"), TaskRow.position == bindparam("place"))
    query = update(TaskRow).where(*task, TaskRow.worker == bindparam("holder"))
    session.connection().execute(query.values(worker=None), finished)
    return [None] * len(finished)


def add_tasks(session: Session, run_id: str, items: Iterable[str]) -> None:
    """Give a run those of these tasks that it does not have yet, in order."""
    last = session.scalar(select(func.max(TaskRow.position)).where(TaskRow.run_id == run_id))
    places = enumerate(items, 0 if last is None else last + 1)
    for part in in_parts(places):
        rows = [{"run_id": run_id, "position": place, "item": item, "state": OPEN} for place, item in part]
        session.connection().execute(upsert(TaskRow).on_conflict_do_nothing(), rows)


def reopen_failed(session: Session, run_id: str) -> None:
    """Let final failures and failed tasks of a run be tried again."""
    session.execute(
        update(AskRow).where(AskRow.run_id == run_id, AskRow.state == FINAL).values(state=FAILED, key=None)
    )
    failed = update(TaskRow).where(TaskRow.run_id == run_id, TaskRow.state == FAILED_TASK)
    session.execute(failed.values(state=OPEN, error=None))


def count_tasks(session: Session, run_id: str) -> dict[str, int]:
    """Return the number of tasks of a run by state."""
    counts = select(TaskRow.state, func.count()).where(TaskRow.run_id == run_id).group_by(TaskRow.state)
    return dict(session.execute(counts).all())


# Notes: what was computed once.


def note(session: Session, run_id: str, name: str, value: Any) -> Any:
    """Keep a value for a run unless there is one; return the one that is kept."""
    row = {"run_id": run_id, "name": name, "value": {"": value}}
    session.connection().execute(upsert(NoteRow).on_conflict_do_nothing(), row)
    return read_note(session, run_id, name)


def read_note(session: Session, run_id: str, name: str) -> Any:
    """Return the value kept for a run; None if there is none."""
    kept = session.scalar(select(NoteRow.value).where(NoteRow.run_id == run_id, NoteRow.name == name))
    return None if kept is None else kept[""]
