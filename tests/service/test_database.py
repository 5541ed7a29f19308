"""The database: schema, version checks, transactions, and what goes wrong with files."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy import text

from service.database import Database, schema
from service.errors import DatabaseError

pytestmark = pytest.mark.sqlite
ROOT = Path(__file__).parents[2]
INSERT_RUN = text(
    "INSERT INTO runs (id, name, kind, spec, versions, created_at) VALUES (:n, :n, 'k', '{}', '{}', 'now')"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.db"


def insert_run(db: Database, name: str) -> None:
    with db.write() as session:
        session.execute(INSERT_RUN, {"n": name})


def read_versions(db: Database) -> list[str]:
    with db.read() as session:
        return list(session.scalars(text("SELECT versions FROM runs")))


def count_runs(db: Database) -> int:
    with db.read() as session:
        return int(session.execute(text("SELECT count(*) FROM runs")).scalar_one())


def test_a_new_database_has_the_tables_of_all_rooms() -> None:
    defined = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for room in ("service", "evaluator", "rephraser", "trainer_adapter", "sandbox", "ui")
        for file in (ROOT / room).rglob("*.py")
        if "    __tablename__ =" in file.read_text()
    }
    assert defined == set(schema.TABLES)


def schema_hash(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    statements = "\n".join(sorted(" ".join(statement.split()) for (statement,) in rows))
    return sha256(statements.encode()).hexdigest()[:12]


def test_another_schema_has_another_revision(path: Path) -> None:
    """Otherwise databases of before would be opened, and fail wherever a column is missing."""
    Database.open(path).close()
    assert (schema.HEAD_REVISION, schema_hash(path)) == ("1.5", "c2e7651385fc"), "add a migration"


@pytest.mark.parametrize("read_only", [True, False])
def test_an_older_database_is_left_alone_until_it_is_to_be_upgraded(path: Path, read_only: bool) -> None:
    with Database.open(path) as db:
        insert_run(db, "a")
    with closing(sqlite3.connect(path)) as connection:  # what the oldest schema has more, and less
        for name in schema.TABLES_GONE:
            connection.execute(f"CREATE TABLE {name} (x)")
        for name in ("ix_questions_subject_level", "ix_standings_counted", "ix_asks_costs"):
            connection.execute(f"DROP INDEX {name}")
        for name in schema.TRIGGERS_GONE:
            connection.execute(f"CREATE TRIGGER {name} AFTER INSERT ON questions BEGIN SELECT 1; END")
        connection.execute("UPDATE alembic_version SET version_num = '1.3'")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match=r"older tagrpo .*run `tagrpo db upgrade`"):
        Database.open(path, read_only=read_only)
    assert path.read_bytes() == before
    Database.open(path, create=False, upgrade=True).close()
    assert schema_hash(path) == "c2e7651385fc"
    with Database.open(path, read_only=True) as db:
        assert count_runs(db) == 1


@pytest.mark.slow
def test_two_processes_may_create_the_database_at_once(path: Path) -> None:
    code = "import sys; from service.database import Database; Database.open(sys.argv[1]).close()"
    workers = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(4)]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0, 0]
    with Database.open(path) as db:
        assert db.integrity_report() == []


@pytest.mark.parametrize("revision", ["2.0", "1.2"])
def test_another_schema_is_refused_and_left_alone(path: Path, revision: str) -> None:
    words = rf"another version of tagrpo \(schema {revision}"
    Database.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(DatabaseError, match=words):
            Database.open(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_damaged_database_is_named(path: Path) -> None:
    with Database.open(path) as db:
        for index in range(200):
            insert_run(db, f"run-{index}-" + "x" * 200)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        page = connection.execute("PRAGMA page_size").fetchone()[0]
        root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").fetchone()[0]
    data = bytearray(path.read_bytes())
    data[(root - 1) * page : root * page] = os.urandom(page)
    path.write_bytes(data)
    with Database.open(path) as db:
        assert db.integrity_report() != []
        with pytest.raises(DatabaseError, match="damaged"):
            read_versions(db)


def test_a_read_only_database_can_be_read_and_says_so_on_writing(path: Path) -> None:
    with Database.open(path) as db:
        insert_run(db, "a")
    with Database.open(path, read_only=True) as db:
        assert count_runs(db) == 1
        with pytest.raises(DatabaseError, match="cannot be written"):
            insert_run(db, "b")
