"""A process's identity, by which others tell whether it still runs, whatever clocks and names do.

On Linux it holds the boot's id, the pid namespace, the host, the pid, and the start in ticks since the boot.
Two containers of a machine differ in their namespace, and a later process with the same pid in its start.
Elsewhere the host's name replaces the boot's id, and psutil knows the start.
"""

import os
import socket
from pathlib import Path

PROC = Path("/proc")
DEAD_STATES = frozenset("ZXx")  # a zombie's pid is still taken


def this_process() -> str:
    """Return the identity of this process (after a fork it is another one)."""
    pid, host = os.getpid(), socket.gethostname()
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = f"host:{host}"
    try:
        namespace = os.readlink(PROC / "self/ns/pid")
    except OSError:
        namespace = "-"
    return f"{boot}|{namespace}|{host}|{pid}|{_start(pid) or '?'}"


def has_ended(process: str) -> bool | None:
    """Return whether the process with this identity has ended; None if this cannot be seen from here."""
    boot, namespace, _, pid, start = process.split("|")
    if start == "?" or [boot, namespace] != this_process().split("|")[:2]:
        return None
    return _start(int(pid)) != start


def _start(pid: int) -> str | None:
    """Return when a process started; None if there is none with this pid, or only a zombie."""
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None if (PROC / "self/stat").exists() else _start_elsewhere(pid)
    state, *fields = stat.rpartition(")")[2].split()  # the name before may hold blanks and brackets
    return None if state in DEAD_STATES else fields[18]


def _start_elsewhere(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None
