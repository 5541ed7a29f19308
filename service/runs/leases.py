"""Who is working on a cell: leases, kept while their process lives, free as soon as it is known to be dead.

A process of this machine (and container) is looked up, and no clock is asked. One of another container of
this machine loses its leases where it did not renew them for `LEASE_S` by the machine's uptime, which no
correction moves; one of another machine, or of before a reboot, by the wall clock, as there is no other in
common.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import ColumnElement, and_, func, not_, or_, select, update
from sqlalchemy.orm import Session

from service.database import Database
from service.errors import DatabaseError
from service.process import Process, this_process
from service.runs.tables import EMPTY, CellRow, RunCellRow

OTHERS_POLL_S = 1.0  # between looks at requests that other processes have leased
LEASE_S = 900.0  # a live process renews its leases well before
NO_LEASE: Mapping[str, None] = {"lease_owner": None, "lease_until": None, "lease_uptime": None}


def this_owner(task: str) -> str:
    """Return this process with a task of it, told apart from all others."""
    return f"{this_process()}|{task}"


def is_dead(owner: str) -> bool:
    """Return whether `owner` was a process that can be looked up from here and no longer runs."""
    return Process.parse(owner.rpartition("|")[0]).has_ended() is True


def new_lease(owner: str) -> dict[str, Any]:
    """Return the columns of a cell that is leased to `owner` from now on."""
    return {
        "lease_owner": owner,
        "lease_until": time.time() + LEASE_S,
        "lease_uptime": time.monotonic() + LEASE_S,
    }


def is_free() -> ColumnElement[bool]:
    """Return the condition that nobody holds a cell, or nobody who is known to live."""
    here, owner = this_process(), CellRow.lease_owner
    of_this_boot = owner.startswith(f"{here.boot}|", autoescape=True)
    of_these_pids = owner.startswith(f"{here.boot}|{here.namespace}|", autoescape=True)
    return or_(
        owner.is_(None),
        and_(of_this_boot, not_(of_these_pids), CellRow.lease_uptime < time.monotonic()),
        and_(not_(of_this_boot), CellRow.lease_until < time.time()),
    )


def renew_leases(session: Session, owner: str) -> None:
    """Push the end of all leases of `owner` into the future."""
    session.execute(
        update(CellRow).where(CellRow.lease_owner == owner, CellRow.state == EMPTY).values(**new_lease(owner))
    )


def release_leases(session: Session, owner: str) -> None:
    """Give back the empty cells of `owner`: at its end, or found dead.

    What it has sent for them and not settled may be billed, and is spent at its worst case. A batch job goes
    on without its process, and so does what it may cost.
    """
    mine = and_(CellRow.lease_owner == owner, CellRow.state == EMPTY)
    charge_lost(session, and_(mine, CellRow.batch_id.is_(None)))
    session.execute(update(CellRow).where(mine).values(**NO_LEASE))


def charge_lost(session: Session, condition: ColumnElement[bool]) -> None:
    """Count requests whose answer nobody waits for any more as spent, at their worst case."""
    session.execute(
        update(CellRow)
        .where(condition, CellRow.reserved_usd.is_not(None))
        .values(
            cost_usd=func.coalesce(CellRow.cost_usd, 0.0) + CellRow.reserved_usd,
            doubtful_usd=func.coalesce(CellRow.doubtful_usd, 0.0) + CellRow.reserved_usd,
            attempts=func.coalesce(CellRow.attempts, 0) + 1,
            reserved_usd=None,
        )
    )


def needed_by(run_id: str) -> ColumnElement[bool]:
    """Return the condition that a run needs the cell, to be looked up cell by cell.

    As a value, of which no join is made: PostgreSQL would walk over all cells of the run that are done.
    """
    needed = select(RunCellRow.run_id).where(RunCellRow.run_id == run_id, RunCellRow.cell_id == CellRow.id)
    return needed.correlate(CellRow).scalar_subquery().is_not(None)


def release_dead_leases(session: Session, run_id: str) -> int:
    """Give back cells leased to processes that are known to run no more; return how many."""
    owners = session.scalars(
        select(CellRow.lease_owner)
        .where(CellRow.lease_owner.is_not(None), CellRow.state == EMPTY, needed_by(run_id))
        .distinct()
    ).all()
    released = 0
    for owner in owners:
        if owner is not None and is_dead(owner):
            count = select(func.count()).where(CellRow.lease_owner == owner, CellRow.state == EMPTY)
            released += session.scalar(count) or 0
            release_leases(session, owner)
    return released


@contextmanager
def keep_leases(db: Database, owner: str, *, every_s: float = LEASE_S / 10) -> Iterator[None]:
    """Renew the leases of `owner` in a thread, however long an answer takes or an engine computes."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(every_s):
            with suppress(DatabaseError), db.write() as session:  # the next beat comes in time
                renew_leases(session, owner)

    thread = threading.Thread(target=beat, name="leases", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
