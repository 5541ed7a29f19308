"""Rows of batch jobs, stored before a job is sent so that none is paid for twice."""

import json
from collections.abc import Sequence

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from service.asks.ask import unpack
from service.asks.attempts import Attempt, begin
from service.asks.store import dead_workers, one_by_one
from service.asks.tables import SENT, AskBodyRow, AskRow, JobRow
from service.runs.tables import CapRow, RunRow

NOBODY = 0
"""The worker of a job that no process waits for."""


@one_by_one
def begin_job(session: Session, job: tuple[str, Sequence[Attempt]]) -> list[int | str]:
    """Store a job (tag, attempts) with those of its attempts that may be sent; see `attempts.begin`."""
    tag, attempts = job
    begun = begin(session, attempts)
    if any(isinstance(each, int) for each in begun):
        first = attempts[0]
        values = {"run_id": first.run_id, "model": first.model, "worker": first.worker}
        session.execute(insert(JobRow).values(tag=tag, collected=False, **values))
    return begun


@one_by_one
def take_over(session: Session, waiter: tuple[int, str]) -> list[str]:
    """Give (worker, model) the jobs that no living process waits for, of all runs; return their tags."""
    worker, model = waiter
    is_open = (JobRow.model == model, JobRow.collected.is_(False))
    dead = dead_workers(session, set(session.scalars(select(JobRow.worker).where(*is_open))))
    taking = update(JobRow).where(*is_open, JobRow.worker.in_(dead)).values(worker=worker)
    return list(session.scalars(taking.returning(JobRow.tag)))


@one_by_one
def read_job(session: Session, tag: str) -> tuple[str | None, list[tuple[int, bytes, int]]]:
    """Return the provider's id of a job, and (id, key, max_tokens) of its requests without an answer."""
    remote_id = session.scalar(select(JobRow.remote_id).where(JobRow.tag == tag))
    sent = session.execute(
        select(AskRow.id, AskRow.key, AskBodyRow.request)
        .join(AskBodyRow, AskBodyRow.ask_id == AskRow.id)
        .where(AskRow.job == tag, AskRow.state == SENT)
        .order_by(AskRow.id)
    )
    lines = [(id, key or b"", json.loads(unpack(body))["sampling"]["max_tokens"]) for id, key, body in sent]
    return remote_id, lines


@one_by_one
def name_job(session: Session, named: tuple[str, str]) -> None:
    """Store the id that the provider gave to a job, by (tag, id)."""
    tag, remote_id = named
    session.execute(update(JobRow).where(JobRow.tag == tag).values(remote_id=remote_id))


@one_by_one
def close_job(session: Session, tag: str) -> None:
    """Mark a job as done."""
    session.execute(update(JobRow).where(JobRow.tag == tag).values(collected=True))


@one_by_one
def release_job(session: Session, tag: str) -> None:
    """Let other processes take over a job."""
    session.execute(update(JobRow).where(JobRow.tag == tag).values(worker=NOBODY))


@one_by_one
def money_left(session: Session, run_id: str) -> int | None:
    """Return the picodollars left under the cap of a run; None without a cap."""
    left = select(CapRow.max_pico - CapRow.committed_pico).join(RunRow, RunRow.cap_id == CapRow.id)
    return session.scalar(left.where(RunRow.id == run_id))
