"""The processes outside: one that is kept, and for each program one that makes the two inside.

`running` starts the first, writes two messages to its standard input for each program (the program with its
limits, the tests) and reads one from its standard output, the result. First inside is the process of the
tests, which makes that of the program before it reads the tests. They lie in namespaces of their own, one
inside the other: the program's process can neither name the other one nor read its memory.

A result with `next` says that both messages were read, so that another program may follow.
"""

import json
import os
import random
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from service.enclosure.channel import receive
from service.enclosure.filters import forbid
from service.enclosure.namespaces import PR_SET_PDEATHSIG, Limits, confine, libc, limit_program, separate
from service.enclosure.program import serve
from service.enclosure.testing import quiet, run_tests

_LOOK_S = 0.02
_LEFT_ALONE_S = 15.0  # longer than `running` waits: after that it is gone
_PAGE = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Run programs one after another, until standard input ends."""
    del sys.path[0]  # nothing of the package's folder is to be imported later on
    while (asked := receive(lambda size: os.read(0, size))) is not None:
        child = os.fork()
        if child == 0:
            try:
                _launch(asked["program"], Limits(**asked["limits"]))
            finally:
                os._exit(0)
        os.waitpid(child, 0)


def _launch(asked: dict[str, Any], limits: Limits) -> None:
    """Make the processes inside, and wait for their end, which comes where nobody waits any more too."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        separate()
    except OSError as error:
        _tell({"result": "not run", "text": str(error.strerror)})
        return
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        _inside(asked, limits, reads, writes)
    os.write(writes, child.to_bytes(8, "big"))
    os.close(0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    until = time.monotonic() + limits.wall_seconds + _LEFT_ALONE_S
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        is_late = time.monotonic() > until
        if is_late or _resident(child) > limits.memory_mb * 2**20:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            if not is_late:
                _tell({"result": "too large"})
            return
        signal.sigtimedwait({signal.SIGCHLD}, _LOOK_S)


def _inside(asked: dict[str, Any], limits: Limits, reads: int, writes: int) -> NoReturn:
    """Confine this process, make the program's, run the tests and tell the result."""
    try:
        number = int.from_bytes(os.read(reads, 8), "big")
        os.close(reads)
        os.close(writes)
        try:
            confine(limits, number)
            mine, other = socket.socketpair()
            program = os.fork()
            if program == 0:
                _program(asked, limits, other)
            other.close()
            forbid(libc)
            random.seed(0)
        except OSError as error:
            _tell({"result": "not run", "text": str(error.strerror)})
            os._exit(0)
        quiet()
        deadline = time.monotonic() + limits.wall_seconds
        message = receive(lambda size: os.read(0, size))
        if message is not None:
            result = run_tests(mine, message["tests"], message["helpers"], message["names"], deadline)
            if result["result"] == "ended":
                result["result"] = _end_of(program, limits)
            _tell({**result, "next": True})
    finally:
        os._exit(0)


def _program(asked: dict[str, Any], limits: Limits, end: socket.socket) -> NoReturn:
    """Leave nothing open but the way to the tests, and load and serve the program."""
    try:
        nothing = os.open("/dev/null", os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        os.dup2(end.fileno(), 3)
        os.closerange(4, 64)
        end.detach()
        os.setsid()
        limit_program(limits)
        forbid(libc)
        random.seed(0)  # a program does the same each time
        serve(socket.socket(fileno=3), **asked)
    finally:
        os._exit(0)


def _end_of(program: int, limits: Limits) -> str:
    """Say why a program's process ended: its time was up, or anything else."""
    os.kill(program, signal.SIGKILL)  # where it lives on, it only closed its end or sent nonsense
    usage = os.wait4(program, 0)[2]
    return "too slow" if usage.ru_utime + usage.ru_stime >= 0.9 * limits.seconds else "ended"


def _tell(result: dict[str, Any]) -> None:
    content = json.dumps(result).encode("utf-8", "surrogatepass")
    os.write(1, len(content).to_bytes(4, "big") + content)


def _resident(process: int) -> int:
    """Return the bytes in memory of a process and all below it."""
    total = 0
    waiting = [process]
    while waiting:
        each = waiting.pop()
        try:
            total += int(Path(f"/proc/{each}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
            children = Path(f"/proc/{each}/task/{each}/children").read_text(encoding="ascii")
        except (OSError, IndexError):
            continue
        waiting += map(int, children.split())
    return total
