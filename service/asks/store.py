"""The database for coroutines: workers, tasks, and values that are computed once.

Every access is a handler of many items: those that arrive while a transaction runs share the next one, so
that 64 requests in flight cost a few commits.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any, Generic, TypeVar, TypeVarTuple

from sqlalchemy import Table, bindparam, func, insert, select, update
from sqlalchemy.orm import Session

from service.asks.tables import FAILED, FAILED_TASK, FINAL, OPEN, AskRow, NoteRow, TaskRow, WorkerRow
from service.database import Database, in_parts, upsert
from service.process import Process, this_process

SILENT_S = 900.0
"""A worker of another machine counts as dead after as many seconds without a sign of life."""

ITEMS_PER_COMMIT = 500
"""Other processes want the write lock too, and a statement takes only so many values."""

LEFT = 0.0
"""When a worker was last seen that has left."""

Arguments = TypeVarTuple("Arguments")
Item = TypeVar("Item")
Result = TypeVar("Result")
Handler = Callable[[Session, Sequence[Item]], Sequence[Result]]
_Call = tuple[Handler[Any, Any], Any]

_tasks: Table = TaskRow.__table__  # type: ignore[assignment]


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


# Workers and tasks. A process has one row that it keeps fresh; what a dead one holds is free.


def enter(session: Session) -> int:
    """Register this process; return its number."""
    values = {"process": str(this_process()), "seen_at": time.time()}
    return int(session.execute(insert(WorkerRow).returning(WorkerRow.id), values).scalar_one())


def beat(session: Session, worker: int) -> None:
    """Note that a worker is alive."""
    session.execute(update(WorkerRow).where(WorkerRow.id == worker).values(seen_at=time.time()))


def leave(session: Session, worker: int) -> None:
    """Release the tasks and unanswered requests of a worker that ends."""
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
        ended = Process.parse(process).has_ended()
        if seen_at > (long_ago if ended is None else LEFT) and not ended:
            alive.add(worker)
    return set(workers) - alive


def claim(session: Session, run_id: str, me: int, most: int, skip: Collection[int]) -> list[tuple[int, str]]:
    """Take open tasks of a run for a worker, without these positions; return (position, item) in order."""
    is_open = (TaskRow.run_id == run_id, TaskRow.state == OPEN)
    holders = select(TaskRow.worker).where(*is_open, TaskRow.worker != me).distinct()
    if dead := dead_workers(session, set(session.scalars(holders))):
        session.execute(
            update(TaskRow)
            .where(*is_open, TaskRow.worker.in_(dead))
            .values(worker=None)
            .execution_options(synchronize_session=False)
        )
    first = (
        select(TaskRow.position)
        .where(*is_open, TaskRow.worker.is_(None), TaskRow.position.not_in(skip))
        .order_by(TaskRow.position)
        .limit(most)
        .with_for_update(skip_locked=True)
    )
    taking = update(_tasks).where(_tasks.c.run_id == run_id, _tasks.c.position.in_(first.scalar_subquery()))
    rows = session.connection().execute(taking.values(worker=me).returning(_tasks.c.position, _tasks.c.item))
    return sorted((position, item) for position, item in rows)


def others_hold(session: Session, run_id: str, worker: int) -> bool:
    """Return whether other workers are at open tasks of the run."""
    theirs = select(TaskRow.position).where(TaskRow.run_id == run_id, TaskRow.state == OPEN)
    return session.scalar(theirs.where(TaskRow.worker != worker).limit(1)) is not None


def finish(session: Session, finished: Sequence[tuple[str, int, int, str, str | None]]) -> list[None]:
    """Store the state of tasks that their workers still hold, and release them.

    Each is (run, position, worker, state, error).
    """
    held = {"run": _tasks.c.run_id, "place": _tasks.c.position, "holder": _tasks.c.worker}
    query = update(_tasks).where(*(column == bindparam(name) for name, column in held.items()))
    names = (*held, "state", "error")
    rows = [dict(zip(names, each, strict=True)) for each in finished]
    session.connection().execute(query.values(worker=None), rows)
    return [None] * len(finished)


def add_tasks(session: Session, run_id: str, items: Sequence[str]) -> int:
    """Give a run those of these tasks that it does not have yet, in order; return how many are new."""
    there = set(session.scalars(select(TaskRow.item).where(TaskRow.run_id == run_id)))
    last = session.scalar(select(func.max(TaskRow.position)).where(TaskRow.run_id == run_id))
    new = [item for item in dict.fromkeys(items) if item not in there]
    places = count(0 if last is None else last + 1)
    for part in in_parts(new):
        rows = [{"run_id": run_id, "position": next(places), "item": item, "state": OPEN} for item in part]
        session.connection().execute(upsert(_tasks).on_conflict_do_nothing(), rows)
    return len(new)


def reopen_failed(session: Session, run_id: str) -> int:
    """Let final failures and failed tasks of a run be tried again; return how many tasks."""
    session.execute(
        update(AskRow).where(AskRow.run_id == run_id, AskRow.state == FINAL).values(state=FAILED, key=None)
    )
    reopened: Any = session.execute(
        update(TaskRow)
        .where(TaskRow.run_id == run_id, TaskRow.state == FAILED_TASK)
        .values(state=OPEN, error=None)
    )
    return int(reopened.rowcount)


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
