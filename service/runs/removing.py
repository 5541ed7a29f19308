"""Removing and renaming runs, of every kind: with all that hangs on them, and nothing that others need.

What a run owns follows from the tables' foreign keys, so a room that adds a table adds nothing here. Texts
addressed by their content (questions, candidates, problems), reviews and published sets stay.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import ColumnElement, Table, delete, exists, func, select, update
from sqlalchemy.orm import Session

from service.asks.store import dead_workers
from service.asks.tables import AskRow, JobRow, TaskRow
from service.database.base import Base
from service.database.schema import load_tables
from service.database.triggers import lifted
from service.errors import InputError
from service.runs.spending import spent_usd
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
    return Holdings(rows, spent_usd(session, run.id), tuple(_obstacles(session, run)))


def remove_run(session: Session, run: Run) -> None:
    """Remove the run and its data within the transaction of `session`.

    Answers that runs share stay, and are no longer paid by any run.
    """
    obstacles = list(_obstacles(session, run))
    if obstacles:
        raise InputError(f"run {run.name!r} cannot be removed: {'; '.join(obstacles)}.")
    owned = dict(_owned(run.id))
    with lifted(session, {f"{table.name}_no_delete" for table in owned}.__contains__):
        for table, condition in owned.items():
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
    conditions: dict[str, ColumnElement[bool]] = {
        "runs": _RUNS.c.id == run_id,
        "asks": _ASKS.c.scope == run_id,
    }
    for table in Base.metadata.sorted_tables:
        if table.name not in conditions and (parents := _parents(table)):
            _add_condition(table, parents, conditions)
    children = [table for table in reversed(Base.metadata.sorted_tables) if table.name in conditions]
    counts = [table for table in Base.metadata.sorted_tables if table.name not in conditions]
    for table in counts:
        _add_condition(table, _counted(table), conditions)
    for table in [*counts, *children]:
        if table.name in conditions:
            yield table, conditions[table.name]


def _parents(table: Table) -> list[tuple[ColumnElement[Any], str]]:
    """Return the required foreign keys, each with the table that it refers to."""
    return [
        (column, key.column.table.name)
        for column in table.columns
        if not column.nullable
        for key in column.foreign_keys
    ]


def _counted(table: Table) -> list[tuple[ColumnElement[Any], str]]:
    """Return the same for a table kept by triggers, without foreign keys."""
    return [(column, _COUNTED_BY[column.name]) for column in table.columns if column.name in _COUNTED_BY]


def _add_condition(
    table: Table, parents: list[tuple[ColumnElement[Any], str]], conditions: dict[str, ColumnElement[bool]]
) -> None:
    for column, name in parents:
        if name in conditions:
            of_run = select(Base.metadata.tables[name].c.id).where(conditions[name])
            conditions[table.name] = column.in_(of_run)
            return


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
