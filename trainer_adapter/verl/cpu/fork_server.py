"""Ray's workers as forks of one process that has imported much of what verl needs.

A run on the CPU starts one worker after another, and each takes time and memory to import torch, transformers
and what else verl needs (`benchmarks.speed.verl_start`). Here the process that trains starts a server, which
imports these packages while Ray starts. What Ray starts as "Python" (its `py_executable`) is
`fork_worker.py`, which asks the server for a fork of itself and stays as the fork's stand-in. The server ends
with the process that trains. Without a server, or where it cannot fork, a worker starts as it would have.
On two idle cores a training of one step takes 44 seconds with it and 79 without.

The server must not import Ray, nor verl, which imports it: Ray draws the names of its objects from a
generator that forks would share, and then one worker gets what another one stored.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, NoReturn

from trainer_adapter.verl.cpu.fork_worker import HEADER_BYTES, VARIABLE

START = "start"
"""Value of `VARIABLE` that asks the process that trains for a server; then it is the path of its socket."""

MODULES = ("tensordict", "peft", "math_verify", "sqlalchemy.orm", "fastapi", "aiohttp")
"""What the server imports: most of what verl and our own parts import, and nothing of Ray."""

WITHOUT_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}
"""The server's own environment: pyarrow and numpy would start threads when they are imported."""

_WORKER = Path(__file__).with_name("fork_worker.py")
_PATIENCE_S = 10.0


def python_of_workers() -> str:
    """Return the command that Ray's shell starts workers with, for `runtime_env.py_executable`."""
    return shlex.join([sys.executable, "-I", "-S", str(_WORKER)])


def start() -> None:
    """Start a server where the environment asks for one, and name its socket there instead."""
    if os.environ.get(VARIABLE) != START:
        return
    os.environ[VARIABLE] = ""
    if not hasattr(os, "pidfd_open"):
        return  # not Linux
    path = os.path.join(tempfile.mkdtemp(prefix="forks-", dir=os.environ.get("RAY_TMPDIR")), "socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)  # who asks before the server is ready waits
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", __name__, str(listening.fileno()), str(os.getpid())],
            env={**os.environ, **WITHOUT_THREADS},
            stdin=subprocess.DEVNULL,
            pass_fds=[listening.fileno()],
            start_new_session=True,
        )
    os.environ[VARIABLE] = path


def serve(listening: socket.socket, owner: int) -> None:
    """Fork whoever asks at this socket, until the process `owner` ends.

    Raises:
        RuntimeError: an import has brought Ray along, or started a thread, which a fork would lack.
    """
    watched = os.pidfd_open(owner)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a fork reports its end to its stand-in
    try:
        for name in MODULES:
            importlib.import_module(name)
        if "ray" in sys.modules or len(os.listdir("/proc/self/task")) > 1:
            raise RuntimeError(
                "workers are not forked: an import has brought Ray along, or started a thread."
            )
        gc.collect()
        gc.freeze()
        waited: list[Any] = [listening, watched]
        while watched not in select.select(waited, [], [])[0]:
            _answer(listening)
    finally:
        shutil.rmtree(os.path.dirname(listening.getsockname()), ignore_errors=True)


def _answer(listening: socket.socket) -> None:
    """Answer one request with a fork, which never returns."""
    connection, _ = listening.accept()
    with connection:
        connection.settimeout(_PATIENCE_S)
        try:
            request, streams = _receive(connection)
        except (OSError, ValueError):
            return  # whoever asked is gone
        if os.fork() == 0:
            try:
                listening.close()
                _become(request, streams, connection)
            finally:  # nothing of the server's is done by a fork
                os._exit(1)
        for stream in streams:
            os.close(stream)


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    header, streams, _, _ = socket.recv_fds(connection, HEADER_BYTES, 3)
    length, body = int.from_bytes(header, "big"), bytearray()
    while len(body) < length and (part := connection.recv(length - len(body))):
        body += part
    return json.loads(body), streams


def _become(request: dict[str, Any], streams: list[int], connection: socket.socket) -> NoReturn:
    """Run the script asked for as a Python of its own would: its arguments, environment, folder, streams."""
    import numpy

    connection.settimeout(None)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    os.setpgid(0, 0)  # where a worker has died, Ray ends what else is in its process group
    os.setpriority(os.PRIO_PROCESS, 0, request["niceness"])
    numpy.random.seed()  # Python's own generator does so itself, and torch's first seed is always the same
    sys.argv = request["arguments"]
    sys.path[0] = os.path.dirname(sys.argv[0])
    connection.sendall(b"forked\n")
    threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
    code = 1
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()  # what a Python does at its end, and `os._exit` does not
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(b"%d\n" % code)
        os._exit(code)


def _end_with(connection: socket.socket) -> None:
    """End this process when its stand-in has ended, which Ray may have killed."""
    while connection.recv(1):
        pass
    os._exit(1)


__all__ = ["START", "VARIABLE", "python_of_workers", "serve", "start"]

if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
