"""The database: schema, version checks, places, journals, and what goes wrong with files."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from sqlalchemy import text

from service.database import Database, schema, sqlite
from service.database.sqlite import JOURNAL, network_file_system
from service.errors import DatabaseError

pytestmark = pytest.mark.sqlite
ROOT = Path(__file__).parents[2]
INSERT_RUN = text(
    "INSERT INTO runs (id, name, kind, spec, versions, created_at) VALUES (:n, :n, 'k', '{}', '{}', 'now')"
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.db"


def insert_run(db: Database, name: str) -> None:
    with db.write() as session:
        session.execute(INSERT_RUN, {"n": name})


def test_a_new_database_has_the_tables_of_all_rooms():
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


def test_another_schema_has_another_revision(path):
    """Otherwise databases of before would be opened, and fail wherever a column is missing."""
    Database.open(path).close()
    assert (schema.HEAD_REVISION, schema_hash(path)) == ("1.6", "6f871d6ed4bc"), "add a migration"


@pytest.mark.parametrize("read_only", [True, False])
def test_an_older_database_is_left_alone_until_it_is_to_be_upgraded(path, read_only):
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
    assert schema_hash(path) == "6f871d6ed4bc"
    with Database.open(path, read_only=True) as db, db.read() as session:
        assert session.scalars(text("SELECT count(*) FROM runs")).all() == [1]


@pytest.mark.slow
def test_two_processes_may_create_the_database_at_once(path):
    code = "import sys; from service.database import Database; Database.open(sys.argv[1]).close()"
    workers = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(4)]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0, 0]
    with Database.open(path) as db:
        assert db.integrity_report() == []


@pytest.mark.parametrize("revision", ["2.0", "1.2"])
def test_another_schema_is_refused_and_left_alone(path, revision):
    words = rf"another version of tagrpo \(schema {revision}"
    Database.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(DatabaseError, match=words):
            Database.open(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_damaged_database_is_named(path):
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
        with pytest.raises(DatabaseError, match="damaged"), db.read() as session:
            session.execute(text("SELECT versions FROM runs")).all()


MOUNTS = [("/", "ext4"), ("/users", "nfs4"), ("/users/me/local disk", "xfs"), ("/mnt/cloud", "fuse.s3fs")]
MOUNTS += [("/over", "nfs"), ("/over", "tmpfs"), ("/windows", "fuseblk")]


def mount(monkeypatch: pytest.MonkeyPatch, *mounts: tuple[str, str]) -> None:
    partitions = [SimpleNamespace(mountpoint=place, fstype=kind) for place, kind in mounts]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: partitions)


@pytest.fixture
def on_nfs(tmp_path, monkeypatch):
    mount(monkeypatch, ("/", "ext4"), (str(tmp_path), "nfs4"))
    monkeypatch.delenv(JOURNAL, raising=False)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/t.db", None),
        ("/users/me/t.db", "nfs4"),
        ("/homework/t.db", None),
        ("/users/me/local disk/t.db", None),
        ("/mnt/cloud/t.db", "fuse.s3fs"),
        ("/over/t.db", None),
        ("/windows/t.db", None),
    ],
)
def test_the_longest_and_last_mount_counts(monkeypatch, path, kind):
    mount(monkeypatch, *MOUNTS)
    assert network_file_system(Path(path)) == kind


@pytest.mark.usefixtures("on_nfs")
def test_wal_is_refused_on_a_network_file_system_before_anything_is_written(path):
    with pytest.raises(DatabaseError, match=rf"network file system \(nfs4\).*{JOURNAL}=rollback"):
        Database.open(path)
    assert not path.exists()


def test_what_lies_on_a_network_file_system_and_is_not_written_is_read(path, request):
    Database.open(path).close()
    request.getfixturevalue("on_nfs")
    before = sorted(path.parent.iterdir())
    with Database.open(path, read_only=True) as db, db.read() as session:
        assert session.execute(text("SELECT count(*) FROM runs")).scalar() == 0
    assert sorted(path.parent.iterdir()) == before
    path.with_name("t.db-wal").touch()
    with pytest.raises(DatabaseError, match="network file system"):
        Database.open(path, read_only=True)


@pytest.mark.usefixtures("on_nfs")
def test_a_rollback_journal_is_used_there_on_request(path, monkeypatch):
    monkeypatch.setenv(JOURNAL, "roll back")
    with pytest.raises(DatabaseError, match="give wal"):
        Database.open(path)
    assert not path.exists()
    monkeypatch.setenv(JOURNAL, "Rollback")
    with Database.open(path) as db, db.read() as session:
        assert session.execute(text("PRAGMA journal_mode")).scalar() == "delete"


def test_a_locked_database_is_not_called_damaged(path, monkeypatch):
    monkeypatch.setenv(JOURNAL, "rollback")
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0)
    with Database.open(path) as db, closing(sqlite3.connect(path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(DatabaseError, match="has locked"):
            db.integrity_report()


@pytest.mark.parametrize(
    ("words", "way_out"),
    [
        ("locking protocol", "locks do not work .*local disk"),
        ("disk I/O error", "quota, check in `dmesg`"),
        ("database or disk is full", "Free space on its disk"),
        ("attempt to write a readonly database", "Check the permissions"),
        ("database disk image is malformed", "`tagrpo db check`"),
        ("database is locked", "another process has locked the database"),
    ],
)
def test_errors_of_sqlite_name_a_way_out(path, words, way_out):
    error = sqlite.describe_error(sqlite3.OperationalError(words), path)
    assert re.search(way_out, str(error))
    assert "\n" not in str(error)
