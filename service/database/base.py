"""The declarative base that every room's tables share, and the column types they need."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from typing import Any, ClassVar, TypeVar

import zstandard
from sqlalchemy import JSON, BigInteger, Dialect, Executable, Integer, LargeBinary, MetaData, String, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import DeclarativeBase, Session
from sqlalchemy.types import TypeDecorator

from service.errors import InputError, NotFoundError

upsert = postgresql.insert
"""An INSERT that may have an ON CONFLICT; that of the one dialect compiles for both."""

ZSTD_LEVEL = 3
BY_KEY_ALONE = {"sqlite_with_rowid": False}
"""For `__table_args__`: rows lie in the primary key's own tree, without a second one by number."""

PER_STATEMENT = 2000  # values in one statement; a database takes some 30,000

Item = TypeVar("Item")


def in_parts(items: Iterable[Item], size: int = PER_STATEMENT) -> Iterator[Sequence[Item]]:
    """Yield the items in order, `size` at a time, the last ones fewer."""
    rest = iter(items)
    while part := [*islice(rest, size)]:
        yield part


def columns_of(row: type["Base"], value: type) -> tuple[Any, ...]:
    """Return the columns of a table that a dataclass has as fields, in the order of its fields."""
    return tuple(getattr(row, field.name) for field in fields(value))


def find_by_id(session: Session, row: Any, reference: str, kind: str, hint: str) -> Any:
    """Return the row of a table whose id begins with `reference`, with or without its prefix (`q_`, `c_`)."""
    prefix = f"{kind[0]}_"
    wanted = reference if reference.startswith(prefix) else prefix + reference
    # A range, since a pattern would not use the index; "g" sorts after every hex digit.
    ids = (row.id >= wanted, row.id < f"{wanted}g")
    rows = session.scalars(select(row).where(*ids).order_by(row.id).limit(4)).all()
    if not rows:
        raise NotFoundError(f'no {kind} has an id that starts with "{reference}". {hint}')
    if len(rows) > 1:
        some = ", ".join([each.id for each in rows[:3]] + ["..."] * (len(rows) > 3))
        raise InputError(
            f'several {kind}s have ids that start with "{reference}": {some}. Give more characters.'
        )
    return rows[0]


def add_counts(session: Session, sums: type["Base"], rows: Iterable[Mapping[str, Any]]) -> None:
    """Add numbers to a table of sums by its primary key, in the transaction that writes what they count."""
    keys, statement = _raise_by_key(sums)
    added: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        if before := added.get(key):
            row = {name: value if name in keys else value + before[name] for name, value in row.items()}
        added[key] = row
    if added:
        session.connection().execute(statement, list(added.values()))


@cache
def _raise_by_key(sums: type["Base"]) -> tuple[Sequence[str], Executable]:
    table: Any = sums.__table__
    keys, statement = table.primary_key.columns.keys(), upsert(table)
    raised = {each.name: each + statement.excluded[each.name] for each in table.c if each.name not in keys}
    return keys, statement.on_conflict_do_update(index_elements=keys, set_=raised)


def utc_now() -> str:
    """Return the current time as ISO 8601 in UTC, to the second (`2026-01-31T12:00:00Z`)."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class CompressedText(TypeDecorator[str]):
    """Text stored as a zstd frame: long responses take about a quarter of their size."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        if value is None:
            return None
        return zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(value.encode("utf-8", "surrogatepass"))

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return zstandard.ZstdDecompressor().decompress(value).decode("utf-8", "surrogatepass")


class ServerText(TypeDecorator[str]):
    """Text on PostgreSQL: ordered by code points, as SQLite does; it cannot hold the character 0."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else value.replace("\0", "\ufffd")


TEXT = String().with_variant(ServerText(collation="C"), "postgresql")
_INTEGER = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers rows by INTEGER alone


class Base(DeclarativeBase):
    """Every table of tagrpo hangs on this one metadata, whichever room defines it."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        dict[str, Any]: JSON,
        list[Any]: JSON,
        str: TEXT,
        int: _INTEGER,
    }
