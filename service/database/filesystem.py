"""The file system of a database: WAL needs shared memory, which network file systems lack."""

import os
from pathlib import Path

from service.errors import DatabaseError

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


def network_file_system(path: Path) -> str | None:
    """Return the type of the network file system that holds the path; None: it is local, or not known.

    The mount with the longest path counts, and the last of those on one place.
    """
    import psutil  # takes longer to load than most commands need

    whole = path.resolve()
    mounts = [each for each in psutil.disk_partitions(all=True) if whole.is_relative_to(each.mountpoint)]
    if not mounts:
        return None
    kind: str = max(reversed(mounts), key=lambda each: len(each.mountpoint)).fstype
    return kind if kind in NETWORK or kind.startswith("fuse.") else None


def chosen_journal() -> str:
    """Return `wal`, or `rollback` where the environment says so."""
    journal = os.environ.get(JOURNAL, WAL).lower()
    if journal not in (WAL, ROLLBACK):
        raise DatabaseError(f"{JOURNAL}={journal}: give {WAL} (the default) or {ROLLBACK}.")
    return journal


def check_place(path: Path) -> None:
    """Refuse WAL on a network file system, before SQLite writes anything there."""
    kind = network_file_system(path)
    if kind is not None and chosen_journal() == WAL:
        raise DatabaseError(
            f"{path}: is on a network file system ({kind}), where SQLite's write-ahead log can lose or "
            f"damage data. {WAYS_OUT}."
        )
