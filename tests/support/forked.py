"""Commands as forks of one process that has imported what they need, which takes litellm two seconds.

A fork is as mortal as any process: it has its own pid and group, takes signals, ends with an exit code.
`tests/e2e/test_kills.py` kills processes that nobody forked.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[2]
COMMAND = "from ui.cli.app import main; main()"
QUICK_BATCH = f"""
from service.asks import batch

batch.BatchJobs.__init__.__kwdefaults__["quiet_s"] = 0.3
{COMMAND}
"""
"""A command whose batch jobs are sent soon: it waits for further requests for 0.3 seconds only."""


class Forked:
    """A fork that runs `code` with these arguments, as `python -c` does; what it writes goes to two files."""

    def __init__(self, *arguments: object, code: str = COMMAND) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="forked-"))
        self.returncode: int | None = None
        self.pid: int = _ask(
            code=code,
            arguments=["-c", *map(str, arguments)],
            environment=dict(os.environ),
            cwd=os.getcwd(),
            streams=[str(self._folder / "out"), str(self._folder / "err")],
        )

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self.returncode is None:
            self.returncode = _ask(pid=self.pid)
        return self.returncode

    def end(self, number: int | None = None, timeout: float = 120) -> tuple[int, str, str]:
        """Send this signal to its whole group, await its end; give exit code and what it wrote."""
        if number is not None and self.poll() is None:
            os.killpg(self.pid, number)
        deadline = time.monotonic() + timeout
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if self.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
            raise TimeoutError(f"the command did not end in {timeout} seconds")
        out, err = ((self._folder / name).read_text(encoding="utf-8") for name in ("out", "err"))
        return self.returncode, out, err


@cache
def _forking_process() -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, __file__], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.wait)
    atexit.register(process.kill)
    return process


def _ask(**request: Any) -> Any:
    process = _forking_process()
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def _become(
    code: str, arguments: list[str], environment: dict[str, str], cwd: str, streams: list[str]
) -> NoReturn:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    for number, path in enumerate((os.devnull, *streams)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), number)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    sys.argv = arguments
    ended = 1
    try:
        exec(code, {"__name__": "__main__"})
        ended = 0
    except SystemExit as leaving:
        ended = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # what a Python does at its end
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended)


def _serve() -> None:
    import service.asks.remote
    import ui.cli.app  # noqa: F401

    assert service.asks.remote
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lack the threads that these imports started"
    answers = os.fdopen(os.dup(1), "w")
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        if "code" in request:
            answer = os.fork()
            if answer == 0:
                _become(**request)
            os.setpgid(answer, answer)
        else:
            pid, status = os.waitpid(request["pid"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
