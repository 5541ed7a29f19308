"""Removing runs, of every kind: with all that hangs on them, and nothing that others need.

Texts addressed by their content (questions, candidates, problems), reviews and published sets stay.
"""

import json
from collections.abc import Iterator

from sqlalchemy import ColumnElement, Table, delete, exists, func, select, update
from sqlalchemy.orm import Session

from service.asks.store import dead_workers
from service.asks.tables import JobRow, TaskRow
from service.database.schema import load_tables
from service.errors import InputError
from service.runs.store import Run, list_runs

_COUNTED_BY = {"run_id": "runs", "run_problem_id": "run_problems"}
"""Columns of counts and standings, which have no foreign keys."""


def count_rows(session: Session, run_id: str) -> dict[str, int]:
    """Return how many rows would go with the run, by table."""
    counts = {
        table.name: session.scalar(select(func.count()).select_from(table).where(owned)) or 0
        for table, owned in _owned(run_id)
        if table.name != "runs"
    }
    return {name: count for name, count in counts.items() if count}


def remove_run(session: Session, run: Run) -> None:
    """Remove the run and its data within the transaction of `session`.

    Answers that runs share stay, and are no longer paid by any run.
    """
    check_removable(session, run)
    for table, owned in _owned(run.id):
        session.execute(delete(table).where(owned))
        if table.name == "asks":
            session.execute(update(table).where(table.c.run_id == run.id).values(run_id=None))


def check_removable(session: Session, run: Run) -> None:
    """Refuse to remove a run that is in use or that others need."""
    if obstacles := [*_obstacles(session, run)]:
        raise InputError(f"run {run.name!r} cannot be removed: {'; '.join(obstacles)}.")


def _owned(run_id: str) -> list[tuple[Table, ColumnElement[bool]]]:
    """Return the tables with rows of a run and the condition for them, children first.

    They follow from foreign keys, so a room that adds a table adds nothing here.
    """
    metadata = load_tables()
    tables = metadata.tables
    parents_first = sorted(metadata.sorted_tables, key=lambda table: not table.foreign_keys)
    owned = {"runs": tables["runs"].c.id == run_id, "asks": tables["asks"].c.scope == run_id}
    for table in parents_first:
        for column in table.columns:
            refers_to = (key.column.table.name for key in column.foreign_keys)
            parent = next(refers_to, _COUNTED_BY.get(column.name, ""))
            if parent in owned and not column.nullable and table.name not in owned:
                owned[table.name] = column.in_(select(tables[parent].c.id).where(owned[parent]))
    return [(table, owned[table.name]) for table in reversed(parents_first) if table.name in owned]


def _obstacles(session: Session, run: Run) -> Iterator[str]:
    others = [other for other in list_runs(session) if other.id != run.id]
    if builders := [other.name for other in others if run.id in json.dumps(other.spec)]:
        yield f"{', '.join(builders)} depends on it"
    holders = select(TaskRow.worker).where(TaskRow.run_id == run.id, TaskRow.worker.is_not(None)).distinct()
    workers = {worker for worker in session.scalars(holders) if worker is not None}
    if workers - dead_workers(session, workers):
        yield "a process is working on it"
    elif session.scalar(select(exists().where(JobRow.run_id == run.id, ~JobRow.collected))):
        yield "one of its batch jobs is still running; resume the run to collect it"
    tables = load_tables().tables
    audits, reviews = tables["audits"], tables["reviews"]
    decided = select(func.count()).select_from(reviews.join(audits, audits.c.id == reviews.c.audit_id))
    if count := session.scalar(decided.where(audits.c.run_id == run.id)):
        yield f"its audits contain human decisions ({count}), which are never deleted"
