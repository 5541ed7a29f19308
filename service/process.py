"""A process's identity, by which others tell whether it still runs, whatever clocks and names do.

Linux: the boot's id, the pid namespace, the pid, and when it began in ticks since the boot. Two containers
of a machine differ in their namespace, and a later process with the same pid in its beginning. Elsewhere
the machine's name stands for the boot, and psutil says when the process began.
"""

import os
import socket
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
DEAD_STATES = frozenset("ZXx")  # a zombie's pid is still taken


@dataclass(frozen=True)
class Process:
    """A process; `namespace` is within what its pid means something."""

    boot: str
    namespace: str
    host: str
    pid: int
    began: str

    def __str__(self) -> str:
        return f"{self.boot}|{self.namespace}|{self.host}|{self.pid}|{self.began}"

    @classmethod
    def parse(cls, text: str) -> "Process":
        """Return the process that `str` gave.

        Raises:
            ValueError: it is not of this form.
        """
        boot, namespace, host, pid, began = text.split("|")
        return cls(boot, namespace, host, int(pid), began)

    def has_ended(self) -> bool | None:
        """Return whether the process runs no more; None where that cannot be seen from here."""
        here = this_process()
        if (self.boot, self.namespace) != (here.boot, here.namespace):
            return None
        return _began(self.pid) != self.began


def this_process() -> Process:
    """Return this process (after a fork it is another one)."""
    pid = os.getpid()
    return Process(_boot(), _namespace(), socket.gethostname(), pid, _began(pid) or "?")


def _boot() -> str:
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"host:{socket.gethostname()}"


def _namespace() -> str:
    try:
        return os.readlink(PROC / "self/ns/pid")
    except OSError:
        return "-"


def _began(pid: int) -> str | None:
    """Return when a process began; None where there is none of this pid, or only its remains."""
    try:
        stat = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None if (PROC / "self/stat").exists() else _began_elsewhere(pid)
    state, *fields = stat.rpartition(")")[2].split()  # the name before may hold blanks and brackets
    return None if state in DEAD_STATES else fields[18]


def _began_elsewhere(pid: int) -> str | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return None
