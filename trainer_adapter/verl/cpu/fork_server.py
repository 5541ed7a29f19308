"""Ray's workers as forks of one process that has imported much of what verl needs.

The process that trains imports these packages first, leaves a copy of itself behind, the server, and goes on
to verl. What Ray starts as "Python" (its `py_executable`) is `fork_worker.py`, which asks the server for a
fork of itself and stays as the fork's stand-in. Without a server, a worker starts as it would have.

The server must not import Ray, nor verl, which imports it: Ray draws the names of its objects from a
generator that forks would share, and then one worker gets what another one stored.
"""

from __future__ import annotations

import atexit
import contextlib
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
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, NoReturn

from trainer_adapter.verl.cpu.fork_worker import HEADER_BYTES, VARIABLE

MODULES = (
    *("tensordict", "peft", "math_verify", "sqlalchemy.orm", "fastapi", "aiohttp", "uvicorn"),
    *("hydra", "datasets"),
)
"""What is imported before: most of what verl and our own parts import, and nothing of Ray."""

_WITHOUT_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}
"""The environment of these imports: pyarrow and numpy would start threads, which a fork would lack."""

_WORKER = Path(__file__).with_name("fork_worker.py")
_PATIENCE_S = 10.0


def python_of_workers() -> str:
    """Return the command that Ray's shell starts workers with, for `runtime_env.py_executable`."""
    return shlex.join([sys.executable, "-I", "-S", str(_WORKER)])


def start() -> None:
    """Import what verl needs, leave the server behind, and name its socket in the environment.

    Nothing is done if `VARIABLE` is set, or if this is not Linux.
    """
    if VARIABLE in os.environ or not hasattr(os, "pidfd_open"):
        return
    os.environ[VARIABLE] = ""
    own = dict(os.environ)
    os.environ.update(_WITHOUT_THREADS)
    for name in MODULES:
        with contextlib.suppress(ImportError):  # verl says what it lacks
            importlib.import_module(name)
    for name in _WITHOUT_THREADS:
        del os.environ[name]
    os.environ.update({name: own[name] for name in _WITHOUT_THREADS if name in own})
    if "ray" in sys.modules or len(os.listdir("/proc/self/task")) > 1:
        print("workers cannot be forked: an import loaded Ray or started a thread.", file=sys.stderr)
        return
    path = os.path.join(tempfile.mkdtemp(prefix="forks-", dir=os.environ.get("RAY_TMPDIR")), "socket")
    gc.collect()
    gc.freeze()  # so that neither writes into the pages that both share
    watched = os.pidfd_open(os.getpid())
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        if os.fork() == 0:
            try:
                _serve(listening, watched)
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:  # nothing of the process that trains is done by its copy
                os._exit(0)
    os.close(watched)
    os.environ[VARIABLE] = path


def _serve(listening: socket.socket, watched: int) -> None:
    """Fork whoever asks at this socket, until the process ends that the descriptor `watched` stands for."""
    os.setsid()
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a fork reports its end to its stand-in
    try:
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
