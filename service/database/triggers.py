"""What a database keeps beside the tables: triggers that count and refuse changes.

A trigger runs in the transaction that sets it off, so counts kept by triggers are exact whoever writes, and
however many at once. SQLite runs triggers row by row. PostgreSQL keeps every version of a row that is counted
up until its transaction ends, so rows that come in thousands are counted once a statement there.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import DDL, event, text
from sqlalchemy.orm import Session

from service.database.base import Base

Row = TypeVar("Row", bound=type[Base])


def on_creation(row: type[Base], *statements: str, dialect: str = "sqlite") -> None:
    """Have these statements (`CREATE TRIGGER ...`) run when the table of `row` is made on this dialect."""
    for statement in statements:
        ddl = DDL(statement.replace("%", "%%")).execute_if(dialect=dialect)  # type: ignore[no-untyped-call]
        event.listen(row.__table__, "after_create", ddl)


def count_new_rows(
    row: type[Base], name: str, into: str, keys: Mapping[str, str], sums: Mapping[str, str]
) -> None:
    """Keep sums over the rows of a table in another one, by keys, while rows are added.

    Args:
        into: the table of sums; its columns are those of `keys` and `sums`.
        keys: SQL over NEW by column.
        sums: SQL over NEW by column: a number, or a condition, which counts 1.
    """
    names, added = ", ".join([*keys, *sums]), ", ".join(f"{s} = {into}.{s} + excluded.{s}" for s in sums)
    on_conflict = f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {added};"
    values = ", ".join([*keys.values(), *sums.values()])
    on_creation(
        row,
        f"CREATE TRIGGER {name} AFTER INSERT ON {row.__tablename__} BEGIN "
        f"INSERT INTO {into} ({names}) VALUES ({values}) {on_conflict} END",
    )
    summed = ", ".join([*keys.values(), *(f"SUM(CAST({value} AS INTEGER))" for value in sums.values())])
    places = ", ".join(str(place) for place in range(1, len(keys) + 1))
    counted = f"SELECT {summed} FROM new_rows AS made GROUP BY {places} ORDER BY {places} {on_conflict}"
    on_creation(
        row,
        _function(name, f"INSERT INTO {into} ({names}) {counted.replace('NEW.', 'made.')} RETURN NULL;"),
        f"CREATE TRIGGER {name} AFTER INSERT ON {row.__tablename__} REFERENCING NEW TABLE AS new_rows "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {name}()",
        dialect="postgresql",
    )


def _function(name: str, body: str) -> str:
    return (
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $body$ "
        f"#variable_conflict use_column\nBEGIN {body} END $body$"
    )


def refusing(row: type[Base], name: str, when: str, words: str, condition: str | None = None) -> None:
    """Have a change refused with these words, on both dialects; `when` is `BEFORE INSERT` or the like."""
    table = row.__tablename__
    sqlite_when = f"WHEN {condition} " if condition else ""
    on_creation(
        row,
        f"CREATE TRIGGER {name} {when} ON {table} {sqlite_when}BEGIN SELECT RAISE(ABORT, '{words}'); END",
    )
    fails = f"RAISE integrity_constraint_violation USING MESSAGE = '{words}';"
    body = f"IF {condition} THEN {fails} END IF; RETURN NEW;" if condition else f"{fails} RETURN NULL;"
    on_creation(
        row,
        _function(name, body),
        f'CREATE TRIGGER {name} {when} ON "{table}" FOR EACH ROW EXECUTE FUNCTION {name}()',
        dialect="postgresql",
    )


def append_only(row: Row) -> Row:
    """Class decorator: the database refuses to change and to delete rows of the table."""
    name = row.__tablename__
    words = f"{name} is append-only"
    for verb in ("UPDATE", "DELETE"):
        refusing(row, f"{name}_no_{verb.lower()}", f"BEFORE {verb}", words)
    on_creation(
        row,
        f'CREATE TRIGGER {name}_no_truncate BEFORE TRUNCATE ON "{name}" '
        f"FOR EACH STATEMENT EXECUTE FUNCTION {name}_no_delete()",
        dialect="postgresql",
    )
    return row


def sealed_by(row: type[Base], parent: type[Base]) -> None:
    """Have the database refuse new rows once their parent, which `set_id` refers to, is there.

    A publication writes the members first and the parent last (foreign keys are deferred), so that the
    parent's row is the seal.
    """
    name = row.__tablename__
    refusing(
        row,
        f"{name}_sealed",
        "BEFORE INSERT",
        f"{name}: the set is published and cannot change",
        f"EXISTS (SELECT 1 FROM {parent.__tablename__} WHERE id = NEW.set_id)",
    )


@contextmanager
def lifted(session: Session, wanted: Callable[[str], bool]) -> Iterator[None]:
    """Switch triggers of these names off meanwhile, within the transaction of `session`."""
    if session.get_bind().dialect.name == "postgresql":
        query = "SELECT tgrelid::regclass, tgname FROM pg_trigger WHERE NOT tgisinternal"
        switched = [tuple(row) for row in session.execute(text(query)) if wanted(row.tgname)]
        for table, name in switched:
            session.execute(text(f"ALTER TABLE {table} DISABLE TRIGGER {name}"))
        yield
        session.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))  # a table with checks to come is not altered
        for table, name in switched:
            session.execute(text(f"ALTER TABLE {table} ENABLE TRIGGER {name}"))
        return
    triggers = session.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")).all()
    dropped = [trigger for trigger in triggers if wanted(trigger.name)]
    for name, _ in dropped:
        session.execute(text(f"DROP TRIGGER {name}"))
    yield
    for _, statement in dropped:
        session.connection().exec_driver_sql(statement)
