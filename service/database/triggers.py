"""Triggers that refuse changes, whoever makes them."""

from typing import TypeVar

from sqlalchemy import DDL, event

from service.database.base import Base

Row = TypeVar("Row", bound=type[Base])


def on_creation(row: type[Base], *statements: str, dialect: str = "sqlite") -> None:
    """Have these statements (`CREATE TRIGGER ...`) run when the table of `row` is made on this dialect."""
    for statement in statements:
        ddl = DDL(statement.replace("%", "%%")).execute_if(dialect=dialect)  # type: ignore[no-untyped-call]
        event.listen(row.__table__, "after_create", ddl)


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
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN {body} END $body$",
        f'CREATE TRIGGER {name} {when} ON "{table}" FOR EACH ROW EXECUTE FUNCTION {name}()',
        dialect="postgresql",
    )


def write_once(row: Row) -> Row:
    """Class decorator: the database refuses changed rows; only removing their run deletes rows."""
    name = row.__tablename__
    refusing(row, f"{name}_no_update", "BEFORE UPDATE", f"{name} is append-only")
    return row


def append_only(row: Row) -> Row:
    """Class decorator: the database refuses to change and to delete rows of the table."""
    name = row.__tablename__
    refusing(write_once(row), f"{name}_no_delete", "BEFORE DELETE", f"{name} is append-only")
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
