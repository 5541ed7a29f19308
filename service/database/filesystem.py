"""The file system of a database: WAL needs shared memory, which network file systems lack."""

import os
import re
from pathlib import Path

from service.errors import DatabaseError

MOUNTS = Path("/proc/self/mountinfo")
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "afs", "pvfs2"}
    | {"orangefs", "panfs", "wekafs", "ocfs2", "gfs2", "ncpfs", "davfs", "fuse"}
)
JOURNAL = "TAGRPO_JOURNAL"
ROLLBACK, WAL = "rollback", "wal"
WAYS_OUT = (
    "Copy it to a local disk with `tagrpo db backup FILE` and pass the copy with --db, or set "
    f"{JOURNAL}={ROLLBACK} to use it here with one process at a time"
)

_OCTAL = re.compile(r"\\([0-7]{3})")


def file_system_of(path: Path, mountinfo: str) -> str | None:
    """Return the type of the file system that holds an absolute path, by the text of /proc/self/mountinfo.

    Of mounts the one with the longest prefix counts, and the last of those on one place. None: no mount.
    """
    longest, kind = -1, None
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields = before.split()
        if not separator or len(fields) < 5 or not after.split():
            continue
        mount = Path(_OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        if path.is_relative_to(mount) and len(mount.parts) >= longest:
            longest, kind = len(mount.parts), after.split()[0]
    return kind


def is_network(kind: str) -> bool:
    """Say whether a type of file system may be shared by machines; FUSE ones mostly are."""
    return kind in NETWORK or kind.startswith("fuse.")


def network_file_system(path: Path) -> str | None:
    """Return the type of the network file system that holds the path; None: it is local, or not known."""
    try:
        mountinfo = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    kind = file_system_of(path.resolve(), mountinfo)
    return kind if kind is not None and is_network(kind) else None


def chosen_journal() -> str:
    """Return `wal`, or `rollback` where the environment says so.

    Raises:
        DatabaseError: it says something else.
    """
    journal = os.environ.get(JOURNAL, WAL).lower()
    if journal not in (WAL, ROLLBACK):
        raise DatabaseError(f"{JOURNAL}={journal}: give {WAL} (the default) or {ROLLBACK}.")
    return journal


def check_place(path: Path) -> None:
    """Refuse WAL on a network file system, before SQLite writes anything there.

    Raises:
        DatabaseError: the path lies on one; the ways out are named.
    """
    kind = network_file_system(path)
    if kind is not None and chosen_journal() == WAL:
        raise DatabaseError(
            f"{path}: is on a network file system ({kind}), where SQLite's write-ahead log can lose or "
            f"damage data. {WAYS_OUT}."
        )
