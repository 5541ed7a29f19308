"""Copy all rows of a database to another one: from a file to a server, back, or between two of a kind."""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from sqlalchemy import Table, func, insert, select, text
from sqlalchemy.orm import Session

from service.database.engine import Database
from service.database.place import Place, absolute, parse_place
from service.database.schema import load_tables
from service.errors import DatabaseError
from service.telling import TellStage

Content = tuple[int, int]
"""The number of a table's rows, and the sum of their hashes, which knows no order."""


def copy_database(source: str | Place, target: str | Place, *, report: TellStage) -> Mapping[str, int]:
    """Copy all rows as they are at one moment into an empty database; return their number by table.

    All of it or nothing: the target commits once each table has been read back, with as many rows of the same
    content.
    """
    source, target = parse_place(source), parse_place(target)
    if absolute(source) == absolute(target):
        raise DatabaseError(f"{target}: is the source database itself. Choose another target.")
    # A set comes after its members: rows of a set that is there are refused.
    last = ("neighbor_sets", "neighbor_set_tags")
    tables = sorted(load_tables().sorted_tables, key=lambda table: table.name in last)
    with (
        Database.open(source, create=False, read_only=True) as reading,
        Database.open(target) as writing,
        reading.read() as rows,
        writing.write() as copy,
    ):
        for table in tables:
            if copy.execute(select(*table.primary_key).limit(1)).first() is not None:
                raise DatabaseError(
                    f"{target}: already contains rows ({table.name}). Choose an empty database."
                )
        if copy.get_bind().dialect.name == "sqlite":
            copy.execute(text("PRAGMA defer_foreign_keys = ON"))
        contents = {table.name: _copy(rows, table, report, copy) for table in tables}
        for table in tables:
            if _copy(copy, table, report) != contents[table.name]:
                raise DatabaseError(
                    f"{target}: the copied content of {table.name} differs from {source}, so nothing was "
                    "copied. PostgreSQL strings cannot contain the NUL character; remove it from the source."
                )
        _go_on_numbering(copy)
    return {name: rows for name, (rows, _) in contents.items()}


def _copy(source: Session, table: Table, report: TellStage, target: Session | None = None) -> Content:
    """Return what a table holds, after copying it to the target if there is one."""
    # A set comes behind the one it was made from.
    order = [table.c[name] for name in ("created_at", "version") if table.name == "neighbor_sets"]
    size = 10 if table.name == "images" else 1_000  # an image has up to 20 MB
    query = select(table).order_by(*order).execution_options(yield_per=size)
    rows, total = 0, 0
    for part in source.execute(query).partitions():
        if target is not None:
            target.connection().execute(insert(table), [row._asdict() for row in part])
        rows, total = rows + len(part), total + sum(map(_hash, part))
        report(table.name if target else f"{table.name}, compared", rows, None)
    return rows, total


def _hash(row: Any) -> int:
    content = repr([json.dumps(each) if isinstance(each, dict | list) else each for each in row])
    return int.from_bytes(blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).digest())


def _go_on_numbering(session: Session) -> None:
    """Have the server number new rows from behind those that came with a number."""
    if session.get_bind().dialect.name != "postgresql":
        return
    for table in load_tables().sorted_tables:
        if (column := table.autoincrement_column) is not None:
            sequence = func.pg_get_serial_sequence(f'"{table.name}"', column.name)
            session.execute(select(func.setval(sequence, func.max(column))))  # without rows it does nothing
