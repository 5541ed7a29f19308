"""Where a database may lie, and one process at a time where nothing else is safe."""

import os
import re
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from service.database import Database, filesystem, sqlite
from service.database.filesystem import JOURNAL, file_system_of, is_network
from service.errors import DatabaseError
from service.process import this_process

pytestmark = pytest.mark.sqlite
MOUNTINFO = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:25 / /users rw,relatime shared:2 master:7 - nfs4 filer:/users rw,vers=4.2
31 30 8:2 / /users/me/local\040disk rw - xfs /dev/sdb1 rw
32 22 0:30 / /scratch rw - lustre 10.0.0.1@tcp:/scratch rw
33 22 0:31 / /mnt/share rw - cifs //filer/share rw
34 22 0:32 / /mnt/cloud rw - fuse.s3fs s3fs rw
35 22 0:33 / /over rw - nfs filer:/over rw
36 22 0:34 / /over rw - tmpfs tmpfs rw
37 22 0:35 / /windows rw - fuseblk /dev/sdc1 rw
broken line
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.db"


@pytest.fixture
def on_nfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 8:1 / / rw - ext4 a rw\n2 1 0:9 / {tmp_path} rw - nfs4 filer:/x rw\n")
    monkeypatch.setattr(filesystem, "MOUNTS", mounts)
    monkeypatch.delenv(JOURNAL, raising=False)


@pytest.mark.parametrize(
    ("path", "kind", "network"),
    [
        ("/var/t.db", "ext4", False),
        ("/users/me/t.db", "nfs4", True),
        ("/homework/t.db", "ext4", False),
        ("/users/me/local disk/t.db", "xfs", False),
        ("/scratch/t.db", "lustre", True),
        ("/mnt/share/t.db", "cifs", True),
        ("/mnt/cloud/t.db", "fuse.s3fs", True),
        ("/over/t.db", "tmpfs", False),
        ("/windows/t.db", "fuseblk", False),
    ],
)
def test_the_longest_and_last_mount_counts(path: str, kind: str, network: bool) -> None:
    assert file_system_of(Path(path), MOUNTINFO) == kind
    assert is_network(kind) is network


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
def test_with_a_rollback_journal_one_process_uses_it_at_a_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(JOURNAL, "rollback")
    user = path.with_name("t.db.user")
    with Database.open(path) as db:
        with db.read() as session:
            assert session.execute(text("PRAGMA journal_mode")).scalar() == "delete"
        Database.open(path).close()  # this process again
        code = "import sys; from service.database import Database; Database.open(sys.argv[1])"
        other = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
        assert f"in use by process {os.getpid()} on" in other.stderr
        assert user.exists()
    assert not user.exists()
    user.write_text(str(replace(this_process(), began="1")))  # of a process that has died
    Database.open(path).close()
    user.write_text(str(replace(this_process(), boot="another")))
    with pytest.raises(DatabaseError, match=r"if it has ended, remove .*t\.db\.user"):
        Database.open(path)


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
