"""Attempts, their costs and batch jobs: every attempt is stored before it is sent.

At every moment `caps.committed_pico` is the sum of the costs of the runs under a cap, each ask at its worst
case until its cost is known.
"""

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, bindparam, case, insert, select, update
from sqlalchemy.orm import Session

from service.asks.request import Request
from service.asks.store import dead_workers
from service.asks.tables import ANSWERED, FINAL, LOST, SENT, AskBodyRow, AskRow, JobRow
from service.database import upsert
from service.runs.tables import CapRow, RunRow

NO_ROOM, ELSEWHERE = "no room", "elsewhere"
"""Why an attempt may not begin: the cap; or another living process sends it or has just been answered."""

_asks: Table = AskRow.__table__  # type: ignore[assignment]
_bodies: Table = AskBodyRow.__table__  # type: ignore[assignment]


@dataclass(frozen=True)
class Attempt:
    """A request before it is sent, by a process for a run. `worst_pico` None: the price is not known."""

    request: Request
    run_id: str
    worker: int
    worst_pico: int | None
    job: str | None = None

    @property
    def key(self) -> bytes:
        return self.request.key

    @property
    def row(self) -> dict[str, Any]:
        request = self.request
        return {
            **{name: getattr(request, name) for name in ("key", "scope", "kind", "about", "model")},
            **{name: getattr(self, name) for name in ("run_id", "worker", "worst_pico", "job")},
            "place": request.draw,
            "state": SENT,
            "seeded": True,
        }

    @property
    def body(self) -> str:
        """What is kept of the request, without the bytes of its images."""
        request = self.request
        messages = [{"role": each.role, "content": each.content} for each in request.messages]
        named = ("prompt", "sampling", "seed", "n")
        return json.dumps({"messages": messages, **{name: getattr(request, name) for name in named}})


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
        select(_asks.c.key, _asks.c.id, _asks.c.state, _asks.c.error, _asks.c.seeded, _bodies.c.reply)
        .outerjoin(_bodies, _bodies.c.ask_id == _asks.c.id)
        .where(_asks.c.key.in_(set(keys)), _asks.c.state.in_((ANSWERED, FINAL)))
    )
    stored = {bytes(row.key): row for row in session.connection().execute(query)}
    return [stored.get(key) for key in keys]


def is_in_idle_job(session: Session, key: bytes) -> bool:
    """Return whether an ask is in a batch job that no living process waits for."""
    job = select(JobRow.worker).join(AskRow, AskRow.job == JobRow.tag)
    worker = session.scalar(job.where(AskRow.key == key, AskRow.state == SENT))
    return worker is not None and bool(dead_workers(session, {worker}))


def answering_models(session: Session, run_id: str) -> set[str]:
    """Return the models that have answered a run."""
    answered = select(AskRow.model).where(AskRow.state == ANSWERED, AskRow.run_id == run_id)
    return set(session.scalars(answered.distinct()))


def begin(session: Session, attempts: Sequence[Attempt]) -> list[int | str]:
    """Reserve the worst case of attempts of one run and note that they are sent.

    Returns their ids; instead of an id `NO_ROOM` or `ELSEWHERE`, if one may not be sent.
    """
    run_id, granted, connection = attempts[0].run_id, attempts, session.connection()
    if not _commit_money(session, run_id, sum(each.worst_pico or 0 for each in attempts), to_cap=True):
        granted = [
            each for each in attempts if _commit_money(session, run_id, each.worst_pico or 0, to_cap=True)
        ]
    _give_up_lost(session, [attempt.key for attempt in attempts])
    made: dict[bytes, int] = {}
    if granted:
        rows = [each.row for each in sorted(granted, key=lambda each: each.key)]
        added = upsert(_asks).on_conflict_do_nothing().returning(_asks.c.id, _asks.c.key)
        made = {bytes(key): ask_id for ask_id, key in connection.execute(added, rows)}
        _commit_money(session, run_id, -sum(each.worst_pico or 0 for each in granted if each.key not in made))
    if made:
        bodies = [{"ask_id": made[each.key], "request": each.body} for each in granted if each.key in made]
        connection.execute(insert(_bodies), bodies)
    allowed = {attempt.key for attempt in granted}
    return [made.get(each.key, ELSEWHERE) if each.key in allowed else NO_ROOM for each in attempts]


_END = (
    update(_asks)
    .where(_asks.c.id == bindparam("ask_id"))
    .values(
        # An ask that was given up as lost was answered after all: it is paid, and another one has its key.
        state=case((_asks.c.state == LOST, LOST), else_=bindparam("new_state", type_=_asks.c.state.type)),
        key=case((bindparam("keeps_key"), _asks.c.key), else_=None),
    )
)


def end(session: Session, ended: Sequence[Ended]) -> list[None]:
    """Store the outcomes of attempts, settle their costs."""
    connection, changes, now = session.connection(), Counter[str](), time.time()
    query = select(_asks.c.id, _asks.c.run_id, _asks.c.worst_pico)
    begun = connection.execute(query.where(_asks.c.id.in_([each.ask_id for each in ended])))
    payers = {ask_id: (run_id, worst or 0) for ask_id, run_id, worst in begun}
    for each in ended:
        run_id, worst = payers[each.ask_id]
        if run_id is not None and each.cost_pico is not None:
            changes[run_id] += each.cost_pico - worst
    # Money first, as `begin` does: two processes that take rows in one order never wait for each other.
    for run_id, pico in sorted(changes.items()):
        _commit_money(session, run_id, pico)
    rows = []
    for each in ended:
        columns = {name: value for name, value in vars(each).items() if name not in ("state", "reply")}
        keeps_key = each.state in (ANSWERED, FINAL)
        rows.append({**columns, "new_state": each.state, "keeps_key": keeps_key, "ended_at": now})
    connection.execute(_END, rows)
    if replies := [{"body_of": each.ask_id, "reply": each.reply} for each in ended if each.reply is not None]:
        connection.execute(update(_bodies).where(_bodies.c.ask_id == bindparam("body_of")), replies)
    return [None] * len(ended)


def _commit_money(session: Session, run_id: str, pico: int, *, to_cap: bool = False) -> bool:
    """Add to what the runs under a run's cap cost; with `to_cap` return False if it would exceed the cap."""
    if not pico and not to_cap:
        return True
    cap_id = session.scalar(select(RunRow.cap_id).where(RunRow.id == run_id))
    if cap_id is None:
        return True
    committed = CapRow.committed_pico + pico
    change = update(CapRow).where(CapRow.id == cap_id).values(committed_pico=committed)
    if to_cap:
        change = change.where(committed <= CapRow.max_pico)
    result: Any = session.execute(change, execution_options={"synchronize_session": False})
    return bool(result.rowcount)


def _give_up_lost(session: Session, keys: Sequence[bytes]) -> None:
    """Free the keys of asks whose process is dead; what they may have cost stays spent."""
    connection = session.connection()
    is_sent = (_asks.c.key.in_(keys), _asks.c.state == SENT, _asks.c.job.is_(None))
    dead = dead_workers(session, set(connection.scalars(select(_asks.c.worker).where(*is_sent))))
    if not dead:
        return
    lost = list(connection.scalars(select(_asks.c.id).where(*is_sent, _asks.c.worker.in_(dead))))
    connection.execute(
        update(_asks).where(_asks.c.id.in_(lost)).values(state=LOST, key=None, ended_at=time.time())
    )


# Batch jobs: stored before a job is sent, so that none is paid for twice.


def begin_job(session: Session, tag: str, attempts: Sequence[Attempt]) -> list[int | str]:
    """Store a job with those of these attempts that may be sent; see `begin`."""
    begun = begin(session, attempts)
    if any(isinstance(each, int) for each in begun):
        first = attempts[0]
        values = {"run_id": first.run_id, "model": first.request.model, "worker": first.worker}
        session.execute(insert(JobRow).values(tag=tag, collected=False, **values))
    return begun


def take_over(session: Session, worker: int, model: str) -> list[str]:
    """Give a worker a model's jobs that no living process waits for, of all runs; return their tags."""
    is_open = (JobRow.model == model, JobRow.collected.is_(False))
    dead = dead_workers(session, set(session.scalars(select(JobRow.worker).where(*is_open))))
    taking = update(JobRow).where(*is_open, JobRow.worker.in_(dead)).values(worker=worker)
    return list(session.scalars(taking.returning(JobRow.tag)))


def read_job(session: Session, tag: str) -> tuple[dict[int, bytes], str | None]:
    """Return the keys of a job's requests without an answer by their ids, and its id at the provider."""
    sent = select(AskRow.id, AskRow.key).where(AskRow.job == tag, AskRow.state == SENT).order_by(AskRow.id)
    keys = {ask_id: key or b"" for ask_id, key in session.execute(sent)}
    return keys, session.scalar(select(JobRow.remote_id).where(JobRow.tag == tag))


def change_job(session: Session, tag: str, values: dict[str, Any]) -> None:
    """Set columns of the job with a tag."""
    session.execute(update(JobRow).where(JobRow.tag == tag).values(values))
