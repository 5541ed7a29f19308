"""The schema of a new database as text, to see what a change does to it on each dialect.

`PYTHONPATH=. python tests/support/schema_text.py` writes `tests/service/schema/` anew.
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from service.database import Database

FOLDER = Path(__file__).parents[1] / "service" / "schema"
RENEW = "PYTHONPATH=. python tests/support/schema_text.py"
# name, table, statement without its body, body
_TRIGGERS = {
    "sqlite": "SELECT name, tbl_name, substr(sql, 1, instr(sql, 'BEGIN') - 1), "
    "substr(sql, instr(sql, 'BEGIN')) FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname, relname, pg_get_triggerdef(t.oid), prosrc FROM pg_trigger t "
    "JOIN pg_class c ON c.oid = tgrelid JOIN pg_proc p ON p.oid = tgfoid WHERE NOT tgisinternal",
}
_INDEXES = {
    "sqlite": "SELECT tbl_name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
    "postgresql": "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'",
}


def schema_text(database: Database) -> str:
    """Return tables in order of name, each with columns, keys, indexes and triggers."""
    with database.read() as session:
        return "\n".join(_lines(session.connection())) + "\n"


def _lines(connection: Connection) -> Iterator[str]:
    dialect, looked = connection.dialect.name, inspect(connection)
    indexes = sorted(tuple(row) for row in connection.execute(text(_INDEXES[dialect])))
    triggers = sorted(tuple(row) for row in connection.execute(text(_TRIGGERS[dialect])))
    for table in sorted(looked.get_table_names()):
        yield f"table {table}"
        for column in looked.get_columns(table):
            kind = column["type"].compile(connection.dialect).replace("COLLATE", "collate")
            default = f" default {column['default']}" if column.get("default") is not None else ""
            yield f"  {column['name']} {kind}{'' if column['nullable'] else ' not null'}{default}"
        yield f"  primary key ({', '.join(looked.get_pk_constraint(table)['constrained_columns'])})"
        for key in sorted(looked.get_foreign_keys(table), key=lambda key: key["constrained_columns"]):
            deferred = " deferred" if key["options"].get("initially") == "DEFERRED" else ""
            yield f"  key ({', '.join(key['constrained_columns'])}) of {key['referred_table']}{deferred}"
        for check in sorted(looked.get_check_constraints(table), key=lambda check: str(check["name"])):
            yield f"  check {_flat(check['sqltext'])}"
        if dialect == "sqlite":  # which has no statement of their indexes
            for unique in sorted(
                looked.get_unique_constraints(table), key=lambda unique: str(unique["name"])
            ):
                yield f"  unique ({', '.join(unique['column_names'])})"
        for on, statement in indexes:
            if on == table:
                yield f"  {_flat(statement.removeprefix('CREATE ').replace('public.', ''))}"
        for name, on, head, body in triggers:
            if on == table:
                when = re.split(rf" ON (?:public\.)?\"?{table}\"?", _flat(head).partition(f" {name} ")[2])
                digest = sha256(_flat(body).encode()).hexdigest()[:8]
                yield f"  trigger {name} {' '.join(part.strip() for part in when if part.strip())} [{digest}]"


def _flat(statement: str) -> str:
    return " ".join(statement.split())


def renew() -> None:
    from tempfile import TemporaryDirectory

    from postgres_cluster import start_cluster

    with TemporaryDirectory() as folder, Database.open(Path(folder) / "t.db") as db:
        (FOLDER / "sqlite.txt").write_text(schema_text(db), encoding="utf-8")
    with start_cluster() as cluster, Database.open(cluster.empty()) as db:
        (FOLDER / "postgresql.txt").write_text(schema_text(db), encoding="utf-8")


if __name__ == "__main__":
    renew()
