"""Runs a program against tests in an enclosure and returns the result."""

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.enclosure.channel import MOST_BYTES, Malformed, receive
from service.enclosure.namespaces import Limits

_ROOT = str(Path(__file__).resolve().parents[2])
_START = f"import sys; sys.path.insert(0, {_ROOT!r}); from service.enclosure.launcher import main; main()"
GRACE_S = 10.0
_CAN_RUN = threading.Event()

WAY_OUT = (
    "programs run only if Linux lets this process create namespaces. In a container pass --cap-add SYS_ADMIN "
    "and --security-opt seccomp=unconfined (Docker, Podman); elsewhere allow user namespaces (sysctl "
    "user.max_user_namespaces=10000, and on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)."
)


@dataclass(frozen=True)
class Program:
    """What is run.

    Attributes:
        candidates: sources of which the first that is Python and defines one of the names is taken; where
            none does, the first that is Python.
        helpers: source of what the question itself defines, run before it and beside the tests.
        names: functions that are asked for; the program's, although Python may have some of that name.
    """

    candidates: tuple[str, ...]
    helpers: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProgramResult:
    """How a program did.

    Attributes:
        value: passed; failed (a test said no), raised (an error), ended (by itself), too slow, too large: the
            program's fault. bad tests: they cannot be run. not run: there is no enclosure here.
        line: of the tests where it happened, from 1, where known.
        text: the error's.
    """

    value: str
    line: int | None = None
    text: str = ""


class Enclosures:
    """Keeps the processes that launch programs, one for each thread that runs them; a context manager.

    A fork of this process starts launchers of its own.
    """

    def __init__(self) -> None:
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._lock, self._process = threading.Lock(), os.getpid()
        self._idle: list[subprocess.Popen[bytes]] = []
        self._busy: set[subprocess.Popen[bytes]] = set()

    def __enter__(self) -> "Enclosures":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all launchers; programs that run are "not run"."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
            for launcher in self._busy:
                launcher.kill()  # whoever waits for it ends it
        for launcher in idle:
            _end(launcher)

    def run(self, program: Program, tests: str, limits: Limits | None = None) -> ProgramResult:
        """Run a program, and the tests against it; see `ProgramResult`.

        Never raises for what a program does; safe to call from several threads.
        """
        limits = limits or Limits()
        try:
            content = _framed({"tests": tests, "helpers": program.helpers, "names": program.names})
        except Malformed:
            return ProgramResult("bad tests", text="the tests are too long")
        try:
            content = _framed({"program": vars(program), "limits": vars(limits)}) + content
        except Malformed:
            return ProgramResult("too large", text="the program is too long")
        if self._process != os.getpid():
            self._begin()
        with self._lock:
            if self._closed:
                return ProgramResult("not run", text="closed")
            launcher = self._idle.pop() if self._idle else _start()
            self._busy.add(launcher)
        result = None
        try:
            result = _ask(launcher, content, time.monotonic() + limits.wall_seconds + GRACE_S)
        finally:
            with self._lock:
                self._busy.discard(launcher)
                again = result is not None and result.get("next") is True and not self._closed
                if again:
                    self._idle.append(launcher)
            if not again:
                _end(launcher)
        if result is None:
            return ProgramResult("not run", text="the sandbox process ended without a result")
        line = result.get("line")
        return ProgramResult(
            str(result["result"]), line if isinstance(line, int) else None, str(result.get("text", ""))
        )


def refusal() -> str | None:
    """Return why no program can be run here, with the way out; None where one can. Tries it until it can."""
    if _CAN_RUN.is_set():
        return None
    if not sys.platform.startswith("linux"):
        return f"programs cannot be run on {sys.platform}: {WAY_OUT}"
    with Enclosures() as enclosures:
        result = enclosures.run(Program(("def double(n): return 2 * n",)), "assert double(2) == 4")
    if result.value != "passed":
        return f"programs cannot be run here ({result.text}): {WAY_OUT}"
    _CAN_RUN.set()
    return None


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-s", "-S", "-P", "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONHASHSEED": "0"},  # a program does the same each time
        cwd="/",
        bufsize=0,
    )


def _end(launcher: "subprocess.Popen[bytes]") -> None:
    launcher.kill()
    with launcher:  # closes its pipes and waits
        pass


def _ask(launcher: "subprocess.Popen[bytes]", content: bytes, deadline: float) -> dict[str, Any] | None:
    """Return the result; None where none comes. One of tests that do not end is made here."""
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    output, waiting = launcher.stdout.fileno(), select.poll()  # `select` knows no number of 1,024 or more
    waiting.register(output, select.POLLIN)

    def read(size: int) -> bytes:
        if not waiting.poll(1000 * max(0.0, deadline - time.monotonic())):
            raise TimeoutError
        return os.read(output, size)

    try:
        with contextlib.suppress(BrokenPipeError):  # what it said before it ended counts
            launcher.stdin.write(content)
        return receive(read)
    except TimeoutError:
        return {"result": "bad tests", "text": "the tests did not finish"}
    except (OSError, Malformed):
        return None


def _framed(message: dict[str, object]) -> bytes:
    content = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass")
    if len(content) > MOST_BYTES:
        raise Malformed(f"{len(content):,} bytes")
    return len(content).to_bytes(4, "big") + content
