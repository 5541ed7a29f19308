"""What was asked, answered and paid, and who works on what. Every write is a handler for many items at once.

Items that arrive while a transaction runs share the next one, so that 64 requests in flight cost a few
commits. At every moment `caps.committed_pico` is the sum of the costs of the runs under a cap, each ask at
its worst case until its cost is known.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Table, bindparam, case, func, insert, select, update
from sqlalchemy.orm import Session

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
from service.process import Process, this_process
from service.runs.tables import CapRow, RunRow, RunSpendingRow

SILENT_S = 900.0
"""A worker of another machine counts as dead after as many seconds without a sign of life."""

ITEMS_PER_COMMIT = 500
"""Other processes want the write lock too, and a statement takes only so many values."""

LEFT = 0.0
"""When a worker was last seen that has left."""

NO_ROOM, ELSEWHERE = "no room", "elsewhere"
"""Why an attempt may not begin: the cap; or another living process sends it or has just been answered."""

Item = TypeVar("Item")
Result = TypeVar("Result")
Handler = Callable[[Session, Sequence[Item]], Sequence[Result]]

_asks: Table = AskRow.__table__  # type: ignore[assignment]
_bodies: Table = AskBodyRow.__table__  # type: ignore[assignment]
_tasks: Table = TaskRow.__table__  # type: ignore[assignment]
_spending: Table = RunSpendingRow.__table__  # type: ignore[assignment]


@dataclass(frozen=True)
class Attempt:
    """An attempt before it is sent. `worst_pico` None: the price is not known."""

    key: bytes
    run_id: str
    scope: str
    kind: str
    about: str
    place: int
    model: str
    worker: int
    worst_pico: int | None
    body: bytes
    job: str | None = None


@dataclass(frozen=True)
class Ended:
    """What became of an attempt. `cost_pico` None: the bill is not known, it counts at its worst case."""

    ask_id: int
    state: str
    cost_pico: int | None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    seeded: bool = True
    reply: bytes | None = None
    error: str | None = None


@dataclass(frozen=True)
class Claim:
    """A wish for up to `count` open tasks of a run, without those at the positions `skip`."""

    run_id: str
    worker: int
    count: int
    skip: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Finished:
    """A task that `worker` lets go of in this state."""

    run_id: str
    position: int
    worker: int
    state: str
    error: str | None = None


class Store:
    """A database as coroutines use it: one thread writes, one reads, each takes all that waits at once."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self._reads = Grouped(partial(self._handle, write=False))
        self._writes = Grouped(partial(self._handle, write=True))

    async def read(self, handler: Handler[Item, Result], item: Item) -> Result:
        """Return the handler's result for one item, as of a transaction that begins after this call."""
        result: Result = await self._reads.do(handler, item)
        return result

    async def write(self, handler: Handler[Item, Result], item: Item) -> Result:
        """Return the handler's result for one item, once it is committed.

        Raises:
            DatabaseError: the disk is full, or the database cannot be written.
        """
        result: Result = await self._writes.do(handler, item)
        return result

    def _handle(self, groups: dict[Any, list[Any]], *, write: bool) -> list[Sequence[Any]]:
        return self.db.repeat(
            lambda session: [handler(session, items) for handler, items in groups.items()], write=write
        )

    def close(self) -> None:
        """End the threads; call after everything was awaited."""
        self._reads.close()
        self._writes.close()


class Grouped:
    """Hands a thread of its own all items that arrived while it was busy, by handler.

    `handle` gets lists of items by handler and returns a list of results for each.
    """

    def __init__(self, handle: Callable[[dict[Any, list[Any]]], list[Sequence[Any]]]) -> None:
        self._handle, self._thread = handle, ThreadPoolExecutor(1)
        self._waiting: dict[Any, list[tuple[Any, asyncio.Future[Any]]]] = {}
        self._running: asyncio.Task[None] | None = None

    async def do(self, handler: Any, item: Any) -> Any:
        """Return the result for one item."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(handler, []).append((item, done))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._drain())
        return await done

    def close(self) -> None:
        self._thread.shutdown()

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            groups = {handler: group[:ITEMS_PER_COMMIT] for handler, group in self._waiting.items()}
            rest = {handler: group[ITEMS_PER_COMMIT:] for handler, group in self._waiting.items()}
            self._waiting = {handler: group for handler, group in rest.items() if group}
            items = {handler: [item for item, _ in group] for handler, group in groups.items()}
            try:
                results = await loop.run_in_executor(self._thread, self._handle, items)
            except Exception as error:
                _fail(groups, error)
                continue
            for group, group_results in zip(groups.values(), results, strict=True):
                for (_, done), result in zip(group, group_results, strict=True):
                    if not done.done():
                        done.set_result(result)


def _fail(groups: dict[Any, list[tuple[Any, asyncio.Future[Any]]]], error: Exception) -> None:
    for group in groups.values():
        for _, done in group:
            if not done.done():
                done.set_exception(error)


# Asks: looked up, begun, ended.

_FIND = (
    select(_asks.c.key, _asks.c.id, _asks.c.state, _asks.c.error, _asks.c.seeded, _bodies.c.reply)
    .outerjoin(_bodies, _bodies.c.ask_id == _asks.c.id)
    .where(_asks.c.key.in_(bindparam("keys", expanding=True)), _asks.c.state.in_((ANSWERED, FINAL)))
)
_END = (
    update(_asks)
    .where(_asks.c.id == bindparam("ask"))
    .values(
        # An ask that was given up as lost was answered after all: it is paid, and another one has its key.
        state=case((_asks.c.state == LOST, LOST), else_=bindparam("new_state", type_=_asks.c.state.type)),
        key=case((bindparam("keeps_key"), _asks.c.key), else_=None),
        **{
            name: bindparam(f"new_{name}")
            for name in ("cost_pico", "prompt_tokens", "completion_tokens", "seconds", "seeded", "error")
        },
        ended_at=bindparam("new_ended_at"),
    )
)
_REPLY = update(_bodies).where(_bodies.c.ask_id == bindparam("ask")).values(reply=bindparam("new_reply"))
_BEGUN = select(
    _asks.c.id, _asks.c.run_id, _asks.c.kind, _asks.c.model, _asks.c.state, _asks.c.worst_pico
).where(_asks.c.id.in_(bindparam("ids", expanding=True)))


def find(session: Session, keys: Sequence[bytes]) -> list[Any]:
    """Return (key, id, state, error, seeded, reply) of each answered or finally failed ask, else None."""
    rows = session.connection().execute(_FIND, {"keys": list(set(keys))})
    stored = {bytes(row.key): row for row in rows}
    return [stored.get(key) for key in keys]


def are_in_idle_jobs(session: Session, keys: Sequence[bytes]) -> list[bool]:
    """Return which asks are in a batch job that no living process waits for."""
    held = session.execute(
        select(AskRow.key, JobRow.worker)
        .join(JobRow, JobRow.tag == AskRow.job)
        .where(AskRow.key.in_(keys), AskRow.state == SENT)
    ).all()
    dead = dead_workers(session, {worker for _, worker in held})
    idle = {bytes(key) for key, worker in held if key is not None and worker in dead}
    return [key in idle for key in keys]


def have_answers(session: Session, run_ids: Sequence[str]) -> list[bool]:
    """Return which runs have paid for an answer."""
    answered = select(AskRow.id).where(AskRow.state == ANSWERED).limit(1)
    return [session.scalar(answered.where(AskRow.run_id == run_id)) is not None for run_id in run_ids]


def begin(session: Session, attempts: Sequence[Attempt]) -> list[int | str]:
    """Reserve the worst case of attempts and note that they are sent.

    Returns their ids; instead of an id `NO_ROOM` or `ELSEWHERE`, if one may not be sent.
    """
    granted = _reserve(session, attempts)
    _give_up_lost(session, [attempt.key for attempt in attempts])
    rows = sorted((_ask_row(attempt) for attempt in granted), key=lambda row: row["key"])
    made: dict[bytes, int] = {}
    if rows:
        added = upsert(_asks).on_conflict_do_nothing().returning(_asks.c.id, _asks.c.key)
        made = {bytes(key): ask_id for ask_id, key in session.connection().execute(added, rows)}
    bodies = [
        {"ask_id": made[attempt.key], "request": attempt.body} for attempt in granted if attempt.key in made
    ]
    if bodies:
        session.connection().execute(insert(_bodies), bodies)
    refused = [attempt for attempt in granted if attempt.key not in made]
    _commit_money(session, ((each.run_id, -(each.worst_pico or 0)) for each in refused))
    allowed = {attempt.key for attempt in granted}
    return [made.get(each.key, ELSEWHERE) if each.key in allowed else NO_ROOM for each in attempts]


def _ask_row(attempt: Attempt) -> dict[str, Any]:
    return {
        "key": attempt.key,
        "run_id": attempt.run_id,
        "scope": attempt.scope,
        "kind": attempt.kind,
        "about": attempt.about,
        "place": attempt.place,
        "model": attempt.model,
        "state": SENT,
        "worker": attempt.worker,
        "job": attempt.job,
        "seeded": True,
        "worst_pico": attempt.worst_pico,
    }


def end(session: Session, ended: Sequence[Ended]) -> list[None]:
    """Store what became of attempts, settle their cost and count them."""
    connection = session.connection()
    begun = {row.id: row for row in connection.execute(_BEGUN, {"ids": [each.ask_id for each in ended]})}
    known = [(begun[each.ask_id], each) for each in ended if begun[each.ask_id].run_id is not None]
    # Money first, as `begin` does: two processes that take rows in one order never wait for each other.
    _commit_money(
        session,
        (
            (ask.run_id, each.cost_pico - (ask.worst_pico or 0))
            for ask, each in known
            if each.cost_pico is not None
        ),
    )
    names = ("state", "cost_pico", "prompt_tokens", "completion_tokens", "seconds", "seeded", "error")
    now = time.time()
    connection.execute(
        _END,
        [
            {"ask": each.ask_id, "keeps_key": each.state in (ANSWERED, FINAL), "new_ended_at": now}
            | {f"new_{name}": getattr(each, name) for name in names}
            for each in ended
        ],
    )
    replies = [{"ask": each.ask_id, "new_reply": each.reply} for each in ended if each.reply is not None]
    if replies:
        connection.execute(_REPLY, replies)
    _count(session, known)
    return [None] * len(ended)


def _count(session: Session, ended: Iterable[tuple[Any, Ended]]) -> None:
    """Add ended asks to what their runs have spent, by kind and model."""
    sums: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0] * 6)
    for ask, each in ended:
        worst = ask.worst_pico or 0
        was_lost = ask.state == LOST  # and was counted at its worst case then
        cost, doubtful = (worst, worst) if each.cost_pico is None else (each.cost_pico, 0)
        if was_lost:
            cost, doubtful = cost - worst, doubtful - worst
        unpriced = int(ask.worst_pico is None and each.cost_pico is None and not was_lost)
        added = (int(not was_lost), each.prompt_tokens, each.completion_tokens, cost, doubtful, unpriced)
        mine = sums[ask.run_id, ask.kind, ask.model]
        mine[:] = [before + more for before, more in zip(mine, added, strict=True)]
    names = ("requests", "prompt_tokens", "completion_tokens", "pico_usd", "doubtful_pico_usd", "unpriced")
    rows = [
        dict(zip(("run_id", "kind", "model"), key, strict=True)) | dict(zip(names, values, strict=True))
        for key, values in sorted(sums.items())
    ]
    if rows:
        adding = upsert(_spending)
        totals = {name: _spending.c[name] + adding.excluded[name] for name in names}
        session.connection().execute(
            adding.on_conflict_do_update(index_elements=["run_id", "kind", "model"], set_=totals), rows
        )


def _reserve(session: Session, attempts: Sequence[Attempt]) -> list[Attempt]:
    """Commit the money of as many attempts as fit: all of a run by one statement if they do."""
    granted: list[Attempt] = []
    for run_id in sorted({attempt.run_id for attempt in attempts}):
        mine = [attempt for attempt in attempts if attempt.run_id == run_id]
        groups = [mine] if _fits(session, mine) else [[each] for each in mine if _fits(session, [each])]
        granted += [attempt for group in groups for attempt in group]
    return granted


def _fits(session: Session, attempts: Sequence[Attempt]) -> bool:
    cap_id = session.scalar(select(RunRow.cap_id).where(RunRow.id == attempts[0].run_id))
    if cap_id is None:
        return True
    committed = CapRow.committed_pico + sum(attempt.worst_pico or 0 for attempt in attempts)
    reserving = update(CapRow).where(CapRow.id == cap_id, committed <= CapRow.max_pico)
    result: Any = session.execute(
        reserving.values(committed_pico=committed), execution_options={"synchronize_session": False}
    )
    return bool(result.rowcount)


def _commit_money(session: Session, changes: Iterable[tuple[str, int]]) -> None:
    sums: dict[str, int] = defaultdict(int)
    for run_id, pico in changes:
        sums[run_id] += pico
    for run_id, pico in sorted(sums.items()):
        if pico:
            cap_id = select(RunRow.cap_id).where(RunRow.id == run_id).scalar_subquery()
            session.execute(
                update(CapRow)
                .where(CapRow.id == cap_id)
                .values(committed_pico=CapRow.committed_pico + pico)
                .execution_options(synchronize_session=False)
            )


def _give_up_lost(session: Session, keys: Sequence[bytes]) -> None:
    """Free the keys of asks whose process is dead; what they may have cost stays spent."""
    sent = session.execute(
        select(AskRow.id, AskRow.worker).where(
            AskRow.key.in_(keys), AskRow.state == SENT, AskRow.job.is_(None)
        )
    ).all()
    if sent:
        dead = dead_workers(session, {worker for _, worker in sent})
        _lose(session, [ask_id for ask_id, worker in sent if worker in dead])


def _lose(session: Session, ask_ids: Sequence[int]) -> None:
    if not ask_ids:
        return
    connection = session.connection()
    begun = connection.execute(_BEGUN, {"ids": list(ask_ids)}).all()
    connection.execute(
        update(_asks).where(_asks.c.id.in_(ask_ids)).values(state=LOST, key=None, ended_at=time.time())
    )
    _count(session, ((ask, Ended(ask.id, LOST, None)) for ask in begun if ask.run_id is not None))


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


# Workers and tasks. A process has one row that it keeps fresh; what a dead one holds is free.


def enter(session: Session, processes: Sequence[str]) -> list[int]:
    """Register this process for each item; return its numbers."""
    row = insert(WorkerRow).returning(WorkerRow.id)
    values = {"process": str(this_process()), "seen_at": time.time()}
    return [session.execute(row, values).scalar_one() for _ in processes]


def beat(session: Session, workers: Sequence[int]) -> list[None]:
    """Note that workers are alive."""
    session.execute(update(WorkerRow).where(WorkerRow.id.in_(workers)).values(seen_at=time.time()))
    return [None] * len(workers)


def leave(session: Session, workers: Sequence[int]) -> list[None]:
    """Let go of the tasks of workers that end, and of what they have not answered."""
    session.execute(update(TaskRow).where(TaskRow.worker.in_(workers)).values(worker=None))
    session.execute(update(WorkerRow).where(WorkerRow.id.in_(workers)).values(seen_at=LEFT))
    return [None] * len(workers)


def dead_workers(session: Session, workers: Collection[int]) -> set[int]:
    """Return those of these workers that have left, or whose process has ended.

    A process on another machine counts as dead after `SILENT_S` without a sign of life.
    """
    long_ago, alive = time.time() - SILENT_S, set()
    query = select(WorkerRow.id, WorkerRow.process, WorkerRow.seen_at)
    for worker, process, seen_at in session.execute(query.where(WorkerRow.id.in_(workers))):
        ended = Process.parse(process).has_ended()
        if seen_at > (long_ago if ended is None else LEFT) and not ended:
            alive.add(worker)
    return set(workers) - alive


def claim(session: Session, claims: Sequence[Claim]) -> list[list[tuple[int, str]]]:
    """Take open tasks of runs for workers; return (position, item) of each, in order."""
    claimed = []
    for wish in claims:
        is_open = (TaskRow.run_id == wish.run_id, TaskRow.state == OPEN)
        holders = select(TaskRow.worker).where(*is_open, TaskRow.worker != wish.worker).distinct()
        if dead := dead_workers(session, set(session.scalars(holders))):
            session.execute(
                update(TaskRow)
                .where(*is_open, TaskRow.worker.in_(dead))
                .values(worker=None)
                .execution_options(synchronize_session=False)
            )
        first = (
            select(TaskRow.position)
            .where(*is_open, TaskRow.worker.is_(None), TaskRow.position.not_in(wish.skip))
            .order_by(TaskRow.position)
            .limit(wish.count)
            .with_for_update(skip_locked=True)
        )
        taking = update(_tasks).where(
            _tasks.c.run_id == wish.run_id, _tasks.c.position.in_(first.scalar_subquery())
        )
        rows = session.connection().execute(
            taking.values(worker=wish.worker).returning(_tasks.c.position, _tasks.c.item)
        )
        claimed.append(sorted((position, item) for position, item in rows))
    return claimed


def others_hold(session: Session, workers: Sequence[tuple[str, int]]) -> list[bool]:
    """Return for each (run, worker) whether other workers are at open tasks of the run."""
    return [
        session.scalar(
            select(TaskRow.position)
            .where(TaskRow.run_id == run_id, TaskRow.state == OPEN, TaskRow.worker != worker)
            .limit(1)
        )
        is not None
        for run_id, worker in workers
    ]


def finish(session: Session, finished: Sequence[Finished]) -> list[None]:
    """Note the state of tasks that their workers still hold, and let go of them."""
    session.connection().execute(
        update(_tasks)
        .where(
            _tasks.c.run_id == bindparam("run"),
            _tasks.c.position == bindparam("place"),
            _tasks.c.worker == bindparam("holder"),
        )
        .values(worker=None, state=bindparam("new_state"), error=bindparam("new_error")),
        [
            {
                "run": each.run_id,
                "place": each.position,
                "holder": each.worker,
                "new_state": each.state,
                "new_error": each.error,
            }
            for each in finished
        ],
    )
    return [None] * len(finished)


def add_tasks(session: Session, run_id: str, items: Sequence[str]) -> int:
    """Give a run those of these tasks that it does not have yet, in order; return how many are new."""
    there = set(session.scalars(select(TaskRow.item).where(TaskRow.run_id == run_id)))
    last = session.scalar(select(func.max(TaskRow.position)).where(TaskRow.run_id == run_id))
    start = 0 if last is None else last + 1
    fresh = [item for item in dict.fromkeys(items) if item not in there]
    for part in in_parts(list(enumerate(fresh, start))):
        rows = [
            {"run_id": run_id, "position": place, "item": item, "state": OPEN, "worker": None}
            for place, item in part
        ]
        session.connection().execute(upsert(_tasks).on_conflict_do_nothing(), rows)
    return len(fresh)


def count_tasks(session: Session, run_ids: Sequence[str]) -> list[dict[str, int]]:
    """Return the number of tasks by state, for each run."""
    rows = session.execute(
        select(TaskRow.run_id, TaskRow.state, func.count())
        .where(TaskRow.run_id.in_(run_ids))
        .group_by(TaskRow.run_id, TaskRow.state)
    )
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for run_id, state, number in rows:
        counts[run_id][state] = number
    return [counts[run_id] for run_id in run_ids]


# Notes: what was computed once.


def note(session: Session, named: Sequence[tuple[str, str, Any]]) -> list[Any]:
    """Keep values by (run, name) unless there are some; return those that are kept."""
    rows = [{"run_id": run_id, "name": name, "value": {"": value}} for run_id, name, value in named]
    session.connection().execute(upsert(NoteRow).on_conflict_do_nothing(), rows)
    return read_notes(session, [(run_id, name) for run_id, name, _ in named])


def read_notes(session: Session, names: Sequence[tuple[str, str]]) -> list[Any]:
    """Return the values kept by (run, name); None if there is none."""
    rows = session.execute(
        select(NoteRow.run_id, NoteRow.name, NoteRow.value).where(
            NoteRow.name.in_([name for _, name in names]), NoteRow.run_id.in_({run for run, _ in names})
        )
    )
    kept = {(run_id, name): value[""] for run_id, name, value in rows}
    return [kept.get(key) for key in names]
