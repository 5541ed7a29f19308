"""A server of forks, as a process that trains leaves it behind, and scripts that run in its forks."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from trainer_adapter.verl.cpu import fork_server
from trainer_adapter.verl.cpu.fork_worker import VARIABLE

_OWNER = """
import os, sys
from trainer_adapter.verl.cpu import fork_server
fork_server.MODULES = (*(%s), "colorsys")
fork_server.start()
print(os.environ.get(fork_server.VARIABLE, ""), flush=True)
sys.stdin.read()
"""


class Forks:
    """A process that trains, which waits, and the server that it has left behind."""

    def __init__(self, folder: Path, modules: str) -> None:
        self.folder, self.script = folder, folder / "script.py"
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        self.owner = subprocess.Popen(
            [sys.executable, "-c", _OWNER % modules],
            env={**environment, "RAY_TMPDIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "owner.log").open("w"),
            text=True,
        )
        assert self.owner.stdout is not None
        self.socket = Path(self.owner.stdout.readline().strip())
        self.servers = psutil.Process(self.owner.pid).children()

    def worker(
        self, *arguments: str, script: Path | None = None, **environment: str
    ) -> "subprocess.Popen[str]":
        """Start a script in its folder, without the variables of verl in this process's own environment."""
        script = script or self.script
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("VERL_")}
        return subprocess.Popen(
            [*shlex.split(fork_server.python_of_workers()), str(script), *arguments],
            cwd=script.parent,
            env={**inherited, VARIABLE: str(self.socket), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: os.nice(3),
        )

    def run(self, *arguments: str, **started: Any) -> tuple[int, dict[str, Any], str]:
        """Run one to its end; give its exit code, the last line that it printed, as JSON, and its errors."""
        worker = self.worker(*arguments, **started)
        out, err = worker.communicate(timeout=60)
        return worker.returncode, json.loads(out.splitlines()[-1]), err

    def end(self) -> None:
        self.owner.kill()
        self.owner.communicate()
        assert all(gone(server.pid) for server in self.servers)


@contextmanager
def started_forks(folder: Path, modules: str = "()") -> Iterator[Forks]:
    """Start a process that waits, with a server that has imported these modules, an expression; end both."""
    forks = Forks(folder, modules)
    try:
        yield forks
    finally:
        forks.end()


def gone(pid: int) -> bool:
    """Wait for a process to end."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False
