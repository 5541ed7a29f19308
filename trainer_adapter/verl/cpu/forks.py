"""Ray's workers as forks of one process that has imported much of what verl needs.

The process that trains imports these packages first, leaves a copy of itself behind, the server, and goes on
to verl. Ray starts this file as a worker's Python (its `py_executable`): it asks the server for a fork of
itself, ends as the fork does, and the fork ends with it. Without a server it becomes the worker itself.

The server must not import Ray, nor verl, which imports it: Ray draws the names of its objects from a
generator that forks would share, and then one worker gets what another one stored.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import shlex
import shutil
import signal
import socket
import sys
import tempfile
import threading
from typing import NoReturn

VARIABLE = "TAGRPO_FORK_SERVER"
"""Names the socket of the server in the environment."""

MODULES = (
    *("tensordict", "peft", "math_verify", "sqlalchemy.orm", "fastapi", "aiohttp", "uvicorn"),
    *("hydra", "datasets"),
)
"""What is imported before: most of what verl and our own parts import, and nothing of Ray."""

_WITHOUT_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}
"""Otherwise pyarrow and numpy would start threads at their import, which a fork would lack."""

_LOOK_S = 1.0


def python_of_workers() -> str:
    """Return the command that Ray's shell starts workers with, for `runtime_env.py_executable`."""
    return shlex.join([sys.executable, "-I", "-S", __file__])


def start() -> None:
    """Import what verl needs, leave the server behind, and name its socket in the environment.

    Nothing is done if `VARIABLE` is set, or if this is not Linux.
    """
    if VARIABLE in os.environ or not sys.platform.startswith("linux"):
        return
    before = {name: os.environ[name] for name in _WITHOUT_THREADS if name in os.environ}
    os.environ |= {VARIABLE: "", **_WITHOUT_THREADS}
    for name in MODULES:
        with contextlib.suppress(ImportError):  # verl says what it lacks
            importlib.import_module(name)
    for name in _WITHOUT_THREADS:
        del os.environ[name]
    os.environ |= before
    if "ray" in sys.modules or len(os.listdir("/proc/self/task")) > 1:
        print("workers cannot be forked: an import loaded Ray or started a thread.", file=sys.stderr)
        return
    folder = tempfile.mkdtemp(prefix="forks-", dir=os.environ.get("RAY_TMPDIR"))
    os.environ[VARIABLE] = os.path.join(folder, "socket")
    gc.collect()
    gc.freeze()  # so that neither writes into the pages that both share
    trainer = os.getpid()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.environ[VARIABLE])
        listening.listen(64)
        if os.fork() == 0:
            try:
                _serve(listening, trainer)
                shutil.rmtree(folder, ignore_errors=True)
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:  # nothing of the process that trains is done by its copy
                os._exit(0)


def _serve(listening: socket.socket, trainer: int) -> None:
    """Fork whoever asks at this socket, until the process that trains has ended."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a fork reports its end to its stand-in
    listening.settimeout(_LOOK_S)
    while os.getppid() == trainer:
        with contextlib.suppress(TimeoutError):
            connection, _ = listening.accept()
            with connection:
                if os.fork() == 0:
                    listening.close()
                    _become_worker(connection)


def _become_worker(connection: socket.socket) -> NoReturn:
    """Run the script asked for as a Python of its own would: its arguments, environment, folder, streams."""
    code = 1
    try:
        import numpy

        _, streams, _, _ = socket.recv_fds(connection, 1, 3)
        request = json.loads(connection.makefile("rb").readline())
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        os.setpgid(0, 0)  # where a worker has died, Ray ends what else is in its process group
        os.setpriority(os.PRIO_PROCESS, 0, request["niceness"])
        numpy.random.seed()  # Python's generator does so itself, and torch's first seed is always the same
        sys.argv = request["arguments"]
        sys.path[0] = os.path.dirname(sys.argv[0])
        connection.sendall(b"forked\n")
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        runpy.run_path(sys.argv[0], run_name="__main__")
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()  # what a Python does at its end, and `os._exit` does not
            sys.stdout.flush()
            sys.stderr.flush()
            connection.sendall(b"%d\n" % code)
        os._exit(code)


def _end_with(connection: socket.socket) -> None:
    """End this process when its stand-in has ended, which Ray may have killed."""
    connection.recv(1)
    os._exit(1)


def _stand_in(arguments: list[str]) -> int | None:
    """Return how the fork ended that ran these arguments; None if nothing was forked."""
    request = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
    }
    with socket.socket(socket.AF_UNIX) as connection:
        answers = connection.makefile("rb")
        try:
            connection.connect(os.environ.get(VARIABLE, ""))
            socket.send_fds(connection, [b"\0"], [0, 1, 2])
            connection.sendall(json.dumps(request).encode() + b"\n")
            if answers.readline() != b"forked\n":
                return None
        except OSError:
            return None
        try:
            return int(answers.readline() or 1)
        except OSError:
            return 1  # a fork that was killed says nothing


if __name__ == "__main__":
    ended = _stand_in(sys.argv[1:])
    if ended is None:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    os._exit(ended)
