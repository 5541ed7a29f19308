"""Runs with open tasks, as the overview shows them."""

from datetime import UTC, datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from rephraser.run.spec import KIND, PROPOSE
from service.asks.request import Request
from service.asks.store import Ended, add_tasks, begin, end
from service.asks.tables import ANSWERED, DONE, OPEN, AskRow, TaskRow
from service.database import Database
from service.runs.store import Run, open_run
from service.runs.tables import RunRow


def add_active_run(db: Database, name: str, at: datetime, *, done: int = 40, open_tasks: int = 60) -> Run:
    """Store a rephrase run that began at this time and has answered one request per finished task since."""
    with db.write() as session:
        run, _ = open_run(
            session, name=name, kind=KIND, spec={"questions": name}, question_ids=[], versions={}
        )
        created = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        session.execute(update(RunRow).where(RunRow.id == run.id).values(created_at=created))
        add_tasks(session, run.id, [f"{name} {number}" for number in range(done + open_tasks)])
        _finish_tasks(session, run, done, at)
    return run


def finish_tasks(db: Database, run: Run, count: int) -> None:
    """Answer a request of each of the next `count` open tasks now."""
    with db.write() as session:
        _finish_tasks(session, run, count, datetime.now(UTC))


def _finish_tasks(session: Session, run: Run, count: int, at: datetime) -> None:
    is_open = (TaskRow.run_id == run.id, TaskRow.state == OPEN)
    ready = select(TaskRow.position).where(*is_open).order_by(TaskRow.position).limit(count)
    positions = session.scalars(ready).all()
    requests = [Request("m", prompt=f"{run.id} {place}", kind=PROPOSE) for place in positions]
    ids = begin(run.id, 0, session, [(request, 0, None) for request in requests])
    asks = [ask_id for ask_id in ids if isinstance(ask_id, int)]
    end(session, [Ended(ask_id, ANSWERED, 0, 20, 25, 0.5) for ask_id in asks])
    session.execute(update(AskRow).where(AskRow.id.in_(asks)).values(ended_at=at.timestamp()))
    done = (TaskRow.run_id == run.id, TaskRow.position.in_(positions))
    session.execute(update(TaskRow).where(*done).values(state=DONE))
