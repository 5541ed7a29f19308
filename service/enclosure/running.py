"""Runs programs against tests in bubblewrap, without network, files or privileges."""

import contextlib
import os
import re
import secrets
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from glob import glob
from pathlib import Path

from service.enclosure.channel import MAX_BYTES, pack, parse
from service.program_gold import ProgramGold

GRACE_S = 10.0
"""How long tests may run after the program's time is up."""
_POLL_MS = 20
_PAGE = os.sysconf("SC_PAGE_SIZE")
_FIRST_USER = 0x6A000000  # of no account; each enclosure has its own, so that its processes are counted
_CAN_RUN = threading.Event()

_INSTALL = "Install bubblewrap and libseccomp2 (Debian, Ubuntu: apt-get install bubblewrap libseccomp2)."
_ALLOW = (
    "In a container pass --cap-add SYS_ADMIN and --security-opt seccomp=unconfined (Docker, Podman); "
    "elsewhere allow user namespaces (sysctl user.max_user_namespaces=10000, and on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns=0)."
)


@dataclass(frozen=True)
class Limits:
    """What a program may use.

    Attributes:
        seconds: CPU time of each of its processes.
        wall_seconds: time from its start to the end of its tests.
        memory_mb: memory of each of its processes, and of all of them together.
    """

    seconds: int = 10
    wall_seconds: float = 30.0
    memory_mb: int = 1024


@dataclass(frozen=True)
class ProgramResult:
    """How a program did.

    Attributes:
        value: passed; failed (a test failed), raised (an error), ended (the program exited), too slow, too
            large; bad tests: the tests are invalid; not run: the enclosure failed.
        line: line of the tests where it happened, from 1, if known.
        text: text of the error.
    """

    value: str
    line: int | None = None
    text: str = ""


class Enclosure:
    """Keeps a bubblewrap process, in which programs run one after another.

    Only one thread may run programs in it, since the kernel ends bubblewrap together with this thread.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._running = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """End bubblewrap; a program that another thread runs is "not run"."""
        self._closed = True
        if (process := self._process) is not None:
            process.kill()
        with self._running:
            self._end()

    def run(self, sources: Sequence[str], gold: ProgramGold, limits: Limits | None = None) -> ProgramResult:
        """Run a program, and the gold's tests against it. Never raises for what a program does.

        Args:
            sources: programs of which the first is run that is Python and defines one of the gold's names, or
                else the first that is Python.
        """
        limits = limits or Limits()
        token = secrets.token_hex()  # tests cannot answer for those that follow them
        try:
            tests = pack({"tests": gold.tests, "token": token})
        except MemoryError:
            return ProgramResult("bad tests", text="the tests are too long")
        with self._running:
            if self._closed:
                return ProgramResult("not run", text="closed")
            if self._process is None:
                pipe = subprocess.PIPE
                self._process = subprocess.Popen(
                    _command(), stdin=pipe, stdout=pipe, stderr=pipe, env={}, cwd="/", bufsize=0
                )
            process = self._process
            assert process.stdin is not None
            request = {"sources": sources, "helpers": gold.helpers, "names": gold.names, **vars(limits)}
            try:
                program = pack({**request, "user": _FIRST_USER + process.pid % 2**22})
            except MemoryError:
                return ProgramResult("too large", text="the program is too long")
            deadline = time.monotonic() + limits.wall_seconds + GRACE_S
            try:
                process.stdin.write(program)
                _read_line(process, limits, deadline)  # the program's process exists now
                process.stdin.write(tests)
                answer = parse(_read_line(process, limits, deadline))
                if answer["token"] != token:
                    raise ValueError
                return ProgramResult(answer["value"], answer["line"], answer["text"])
            except TimeoutError:
                result = ProgramResult("bad tests", text="the tests did not finish")
            except MemoryError:
                result = ProgramResult("too large")
            except Exception:  # whatever the tests may have answered
                return ProgramResult("not run", text=self._end())
            self._end()
            return result

    def _end(self) -> str:
        """End bubblewrap, if it runs, and return the last line of its errors."""
        process, self._process = self._process, None
        if process is None:
            return ""
        process.kill()
        lines = process.communicate()[1].decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line), "bubblewrap ended without a result")


def refusal() -> tuple[str, str] | None:
    """Return why this machine cannot run programs, and what to do about it; None if it can."""
    if _CAN_RUN.is_set():
        return None
    if not sys.platform.startswith("linux"):
        return f"programs run only on Linux, not on {sys.platform}.", "Use a Linux machine."
    if shutil.which("bwrap") is None:
        return "programs run in bubblewrap, which is not installed.", _INSTALL
    with contextlib.closing(Enclosure()) as enclosure:
        result = enclosure.run(("def double(n): return 2 * n",), ProgramGold("assert double(2) == 4"))
    if result.value != "passed":
        what_to_do = _INSTALL if "seccomp.so" in result.text else _ALLOW
        return f"programs cannot run in bubblewrap here ({result.text}).", what_to_do
    _CAN_RUN.set()
    return None


@cache
def _command() -> list[str]:
    """Return bubblewrap's command line; a program sees only the standard library and its shared libraries."""
    python = os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]
    listing = "import _ctypes, _hashlib, sys; print(*sys.path, open('/proc/self/maps').read(), sep='\\n')"
    bare = subprocess.run(
        [python, "-ISc", listing], env={}, capture_output=True, text=True, check=True
    ).stdout
    stdlib = [line for line in bare.split("\n") if os.path.isdir(line)]
    libraries = {os.path.dirname(os.path.realpath(file)) for file in re.findall(r"/\S+\.so\S*$", bare, re.M)}
    libraries.difference_update(stdlib)
    visible = [*sorted(libraries), *stdlib, python, *glob("/lib*/ld-*.so*")]
    # Otherwise parent folders have the permissions that they have outside, such as those of /root.
    parents = sorted({str(folder) for path in (*visible, "/dev/null") for folder in Path(path).parents})
    packages = [str(path) for folder in stdlib for path in Path(folder).glob("*-packages")]
    # Capabilities are for the server inside; it drops them before it loads a program.
    capabilities, user = ["SYS_ADMIN"], ["--unshare-user", "--uid", "1000", "--gid", "1000"]
    if os.geteuid() == 0:
        capabilities, user = ["SYS_ADMIN", "SETUID", "SETGID", "KILL"], []
    return [
        shutil.which("bwrap") or "bwrap",
        *("--as-pid-1", "--die-with-parent", "--new-session"),
        *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", *user, "--cap-drop", "ALL"),
        *(word for name in capabilities for word in ("--cap-add", f"CAP_{name}")),
        *(word for folder in parents for word in ("--dir", folder)),
        *(word for path in visible for word in ("--ro-bind", path, path)),
        *(word for path in packages for word in ("--tmpfs", path, "--remount-ro", path)),
        *(word for path in ("/dev/null", "/dev/urandom") for word in ("--dev-bind", path, path)),
        *("--ro-bind", str(Path(__file__).parent), "/code/service/enclosure", "--dir", "/tmp"),
        *("--remount-ro", "/", "--chdir", "/", "--setenv", "PYTHONPATH", "/code"),
        *("--setenv", "PYTHONHASHSEED", "0"),  # a program does the same each time
        *("--setenv", "LD_LIBRARY_PATH", ":".join(sorted(libraries))),
        *(python, "-s", "-S", "-P", "-c", "from service.enclosure.inside import main; main()"),
    ]


def _read_line(process: "subprocess.Popen[bytes]", limits: Limits, deadline: float) -> bytes:
    """Return a line of the enclosure.

    Raises TimeoutError after the deadline, and MemoryError if its processes together hold too much.
    """
    assert process.stdout is not None
    output, waiting = process.stdout.fileno(), select.poll()  # `select` fails for file numbers above 1,023
    waiting.register(output, select.POLLIN)
    line = b""
    while not line.endswith(b"\n") and len(line) < MAX_BYTES:
        if time.monotonic() > deadline:
            raise TimeoutError
        if waiting.poll(_POLL_MS):
            line += (part := os.read(output, 2**16))
            if not part:
                raise EOFError
        elif _resident(process.pid) > limits.memory_mb * 2**20:
            raise MemoryError
    return line


def _resident(process: int) -> int:
    """Return the bytes that a process and all its descendants hold in memory."""
    total = 0
    waiting = [process]
    while waiting:
        each = waiting.pop()
        with contextlib.suppress(OSError, IndexError):
            total += int(Path(f"/proc/{each}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
            children = Path(f"/proc/{each}/task/{each}/children").read_text(encoding="ascii")
            waiting += map(int, children.split())
    return total
