"""Removing and renaming runs, of every kind: with all that hangs on them, and nothing that others need.

What a run owns follows from the tables' foreign keys, so a room that adds a table adds nothing here. Texts
addressed by their content (questions, candidates, problems), reviews and published sets stay.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from sqlalchemy import ColumnElement, Table, delete, exists, func, select, update
from sqlalchemy.orm import Session

from service.asks.store import dead_workers
from service.asks.tables import AskRow, JobRow, TaskRow
from service.database.base import Base
from service.database.schema import load_tables
from service.errors import InputError
from service.runs.spending import sum_costs
from service.runs.store import Run, check_name, list_runs
from service.runs.tables import RunRow

_RUNS, _ASKS = cast(Table, RunRow.__table__), cast(Table, AskRow.__table__)
_COUNTED_BY = {"run_id": "runs", "run_problem_id": "run_problems"}
"""Columns of counts and standings, which have no foreign keys."""


@dataclass(frozen=True)
class Holdings:
    """What hangs on a run: rows by table, what they cost, and why the run cannot be removed."""

    rows: dict[str, int]
    usd: float
    obstacles: tuple[str, ...]


def holdings(session: Session, run: Run) -> Holdings:
    """Return what would go with the run."""
    counts = {
        table.name: session.scalar(select(func.count()).select_from(table).where(owned)) or 0
        for table, owned in _owned(run.id)
        if table is not _RUNS
    }
    rows = {name: count for name, count in counts.items() if count}
    return Holdings(rows, sum_costs(session, AskRow.run_id == run.id)[0], tuple(_obstacles(session, run)))


def remove_run(session: Session, run: Run) -> None:
    """Remove the run and its data within the transaction of `session`.

    Answers that runs share stay, and are no longer paid by any run.
    """
    obstacles = list(_obstacles(session, run))
    if obstacles:
        raise InputError(f"run {run.name!r} cannot be removed: {'; '.join(obstacles)}.")
    for table, condition in _owned(run.id):
        session.execute(delete(table).where(condition))
        if table is _ASKS:
            session.execute(update(_ASKS).where(_ASKS.c.run_id == run.id).values(run_id=None))


def rename_run(session: Session, run: Run, name: str) -> None:
    """Rename the run; its id and references to it stay."""
    check_name(name)
    if session.scalar(select(RunRow.id).where(RunRow.name == name)) is not None:
        raise InputError(f"a run {name!r} already exists. Choose another name or remove that run.")
    session.execute(update(RunRow).where(RunRow.id == run.id).values(name=name))


def _owned(run_id: str) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """Yield tables with rows of this run and the condition for them, children first."""
    load_tables()

    def by_name(table: Table) -> list[str]:
        """Return the columns that refer to a run by name only."""
        return [each.name for each in table.columns if each.name in _COUNTED_BY and not each.foreign_keys]

    tables = sorted(Base.metadata.sorted_tables, key=lambda table: bool(by_name(table)))
    conditions = {"runs": _RUNS.c.id == run_id, "asks": _ASKS.c.scope == run_id}
    for table in tables:
        columns = [column for column in table.columns if not column.nullable]
        parents = [(each, key.column.table.name) for each in columns for key in each.foreign_keys]
        for column, parent in [*parents, *((table.c[name], _COUNTED_BY[name]) for name in by_name(table))]:
            if parent in conditions and table.name not in conditions:
                of_run = select(Base.metadata.tables[parent].c.id).where(conditions[parent])
                conditions[table.name] = column.in_(of_run)
    for table in reversed(tables):
        if table.name in conditions:
            yield table, conditions[table.name]


def _obstacles(session: Session, run: Run) -> Iterator[str]:
    """Yield why the run cannot be removed."""
    builders = [
        other.name for other in list_runs(session) if other.id != run.id and run.id in json.dumps(other.spec)
    ]
    if builders:
        yield f"{', '.join(builders)} depends on it"
    holders = select(TaskRow.worker).where(TaskRow.run_id == run.id, TaskRow.worker.is_not(None)).distinct()
    workers = {worker for worker in session.scalars(holders) if worker is not None}
    if workers - dead_workers(session, workers):
        yield "a process is working on it"
    elif session.scalar(select(exists().where(JobRow.run_id == run.id, ~JobRow.collected))):
        yield "one of its batch jobs is still running; resume the run to collect it"
    audits, reviews = Base.metadata.tables["audits"], Base.metadata.tables["reviews"]
    decided = select(func.count()).where(
        reviews.c.audit_id.in_(select(audits.c.id).where(audits.c.run_id == run.id))
    )
    if count := session.scalar(decided):
        yield f"its audits contain human decisions ({count}), which are never deleted"
