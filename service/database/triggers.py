"""What SQLite keeps beside the tables: triggers that count and refuse changes, indexes of its own."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import DDL, bindparam, event, text
from sqlalchemy.orm import Session

from service.database.base import Base

Row = TypeVar("Row", bound=type[Base])


def on_creation(row: type[Base], *statements: str) -> None:
    """Have SQLite run these statements (`CREATE TRIGGER ...`) when the table of `row` is made.

    A trigger runs in the transaction that sets it off, so counts kept by triggers are exact whoever writes,
    and however many at once.
    """
    for statement in statements:
        ddl = DDL(statement.replace("%", "%%")).execute_if(dialect="sqlite")  # type: ignore[no-untyped-call]
        event.listen(row.__table__, "after_create", ddl)


def append_only(row: Row) -> Row:
    """Class decorator: SQLite refuses to change and to delete rows of the table."""
    name = row.__tablename__
    on_creation(
        row,
        *(
            f"CREATE TRIGGER {name}_no_{verb.lower()} BEFORE {verb} ON {name} BEGIN "
            f"SELECT RAISE(ABORT, '{name} is append-only'); END"
            for verb in ("UPDATE", "DELETE")
        ),
    )
    return row


@contextmanager
def lift_deletion(session: Session, tables: Sequence[str]) -> Iterator[None]:
    """Let rows of append-only tables be removed meanwhile, within the transaction of `session`."""
    names = [f"{table}_no_delete" for table in tables]
    query = text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name IN :names")
    lifted = session.execute(query.bindparams(bindparam("names", expanding=True)), {"names": names}).all()
    for name, _ in lifted:
        session.execute(text(f"DROP TRIGGER {name}"))
    yield
    for _, statement in lifted:
        session.execute(text(statement))


def sealed_by(row: type[Base], parent: type[Base], key: str) -> None:
    """Have SQLite refuse new rows once their parent, which `key` refers to, is there.

    A publication writes the members first and the parent last (foreign keys are deferred), so that the
    parent's row is the seal.
    """
    name = row.__tablename__
    on_creation(
        row,
        f"CREATE TRIGGER {name}_sealed BEFORE INSERT ON {name} "
        f"WHEN EXISTS (SELECT 1 FROM {parent.__tablename__} WHERE id = NEW.{key}) BEGIN "
        f"SELECT RAISE(ABORT, '{name}: the set is published and cannot change'); END",
    )
