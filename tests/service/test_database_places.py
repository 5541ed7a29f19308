"""Where a database may lie, and with which journal."""

import re
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from sqlalchemy import text

from service.database import Database, sqlite
from service.database.sqlite import JOURNAL, network_file_system
from service.errors import DatabaseError

pytestmark = pytest.mark.sqlite
MOUNTS = [
    ("/", "ext4"),
    ("/users", "nfs4"),
    ("/users/me/local disk", "xfs"),
    ("/scratch", "lustre"),
    ("/mnt/share", "cifs"),
    ("/mnt/cloud", "fuse.s3fs"),
    ("/over", "nfs"),
    ("/over", "tmpfs"),
    ("/windows", "fuseblk"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.db"


def mount(monkeypatch: pytest.MonkeyPatch, *mounts: tuple[str, str]) -> None:
    partitions = [SimpleNamespace(mountpoint=place, fstype=kind) for place, kind in mounts]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: partitions)


@pytest.fixture
def on_nfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mount(monkeypatch, ("/", "ext4"), (str(tmp_path), "nfs4"))
    monkeypatch.delenv(JOURNAL, raising=False)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/t.db", None),
        ("/users/me/t.db", "nfs4"),
        ("/homework/t.db", None),
        ("/users/me/local disk/t.db", None),
        ("/scratch/t.db", "lustre"),
        ("/mnt/share/t.db", "cifs"),
        ("/mnt/cloud/t.db", "fuse.s3fs"),
        ("/over/t.db", None),
        ("/windows/t.db", None),
    ],
)
def test_the_longest_and_last_mount_counts(
    monkeypatch: pytest.MonkeyPatch, path: str, kind: str | None
) -> None:
    mount(monkeypatch, *MOUNTS)
    assert network_file_system(Path(path)) == kind


@pytest.mark.usefixtures("on_nfs")
def test_wal_is_refused_on_a_network_file_system_before_anything_is_written(path: Path) -> None:
    with pytest.raises(DatabaseError, match=rf"network file system \(nfs4\).*{JOURNAL}=rollback"):
        Database.open(path)
    assert not path.exists()


def test_what_lies_on_a_network_file_system_and_is_not_written_is_read(
    path: Path, request: pytest.FixtureRequest
) -> None:
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
def test_a_rollback_journal_is_used_there_on_request(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JOURNAL, "rollback")
    with Database.open(path) as db, db.read() as session:
        assert session.execute(text("PRAGMA journal_mode")).scalar() == "delete"


@pytest.mark.parametrize(
    ("words", "way_out"),
    [
        ("locking protocol", "locks do not work .*local disk"),
        ("disk I/O error", "quota, or check in `dmesg`"),
        ("database or disk is full", "Free space on its disk"),
        ("attempt to write a readonly database", "Check the permissions"),
        ("database disk image is malformed", "`tagrpo db check`"),
        ("database is locked", "another process has locked the database"),
    ],
)
def test_errors_of_sqlite_name_a_way_out(path: Path, words: str, way_out: str) -> None:
    error = sqlite.describe_error(sqlite3.OperationalError(words), path)
    assert error is not None
    assert re.search(way_out, str(error))
    assert "\n" not in str(error)
