"""Who is working on a cell: a process, recognised even after it was killed."""

import os
import socket

import psutil

LEASE_S = 900.0  # a live process renews its leases well before; only another machine's death waits this long


def this_owner(task: str) -> str:
    """Return `host|pid|start time|task`; a later process with the same pid is another owner."""
    return f"{socket.gethostname()}|{os.getpid()}|{psutil.Process().create_time():.2f}|{task}"


def is_dead(owner: str) -> bool:
    """Return whether `owner` was a process of this machine that no longer runs.

    A process of another machine cannot be seen from here and counts as alive until its lease ends.
    """
    host, pid, started, _ = owner.rsplit("|", 3)
    if host != socket.gethostname():
        return False
    try:
        process = psutil.Process(int(pid))
        return f"{process.create_time():.2f}" != started or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
