"""What runs in bubblewrap: a server that stays, and for each program a process of its tests and its own.

The server reads programs with their limits. It forks the tests' process, which forks the program's process
before the tests are sent, so that the program's memory never holds them. The program is alone in a process
namespace: it can neither name another process nor signal it.
"""

import contextlib
import ctypes
import errno
import os
import random
import resource
import select
import signal
import socket
import struct
import sys
import time
from io import BufferedRWPair, RawIOBase
from typing import IO, Any

from service.enclosure.channel import receive, send
from service.enclosure.program import serve
from service.enclosure.testing import run_tests

_NEW_MOUNTS, _NEW_USERS, _NEW_PROCESSES = 0x00020000, 0x10000000, 0x20000000
_NOSUID, _NODEV = 2, 4
_CAPABILITY_VERSION = 0x20080522
_NOBODY = 65534
_OPEN_FILES = 64
PROCESSES = 16
"""Processes and threads that a program may have."""
FILE_MB = 8
"""Size of all its files, which are in memory."""

# Isolation does not cover these system calls: memory that no limit counts, keys, other programs, parts of the
# kernel that a program does not need.
_FORBIDDEN = """
    add_key bpf execve execveat io_uring_setup kcmp keyctl memfd_create memfd_secret mq_open msgget
    perf_event_open process_vm_readv process_vm_writev ptrace request_key semget shmget userfaultfd
"""
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_NOT_EQUAL, _ALL_BITS = 1, 7

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Run programs one after another. Raises EOFError when standard input ends."""
    _forbid_calls()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    requests, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    for number in range(3):
        os.dup2(os.open("/dev/null", os.O_RDWR), number)
    sys.path.pop(0)  # the folder of this package
    compile("", "", "exec")  # the first call takes milliseconds, in every fork unless it is made here
    while True:
        request = receive(requests)
        tests = os.fork()
        if tests == 0:
            with contextlib.suppress(BaseException):
                _run(request, requests, results)
                os._exit(0)
            os._exit(1)
        if os.waitpid(tests, 0)[1] != 0:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # all that the program and its tests have started
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()


def _forbid_calls() -> None:
    """Keep this process and its children from system calls, by libseccomp."""
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(seccomp.seccomp_init(_ALLOW))

    def forbid(name: str, code: int = errno.EPERM, compare: int = _NOT_EQUAL, *values: int) -> None:
        call = seccomp.seccomp_syscall_resolve_name(name.encode())
        first = struct.pack("IIQQ", 0, compare, *values) if values else b""
        if call >= 0:  # this libseccomp and this processor know it
            failed = seccomp.seccomp_rule_add_array(rules, _FAIL | code, call, len(first) // 24, first)
            assert failed == 0, f"no rule for {name}: {os.strerror(-failed)}"

    for each in _FORBIDDEN.split():
        forbid(each)
    forbid("clone3", errno.ENOSYS)  # its flags lie in memory; the C library falls back to clone
    for each in ("clone", "unshare"):
        forbid(each, errno.EPERM, _ALL_BITS, _NEW_USERS, _NEW_USERS)
    forbid("socket", errno.EPERM, _NOT_EQUAL, socket.AF_UNIX, 0)
    forbid("prlimit64", errno.EPERM, _NOT_EQUAL, 0, 0)  # of other processes
    failed = seccomp.seccomp_load(rules)
    assert failed == 0, f"seccomp: {os.strerror(-failed)}"


def _run(request: dict[str, Any], requests: IO[bytes], results: IO[bytes]) -> None:
    """Confine this process, fork the program's, read the tests, run them and send the result."""
    _check(_libc.unshare(_NEW_MOUNTS | _NEW_PROCESSES))
    size = f"size={FILE_MB}m,nr_inodes=2048,mode=1777".encode()
    _check(_libc.mount(b"tmpfs", b"/tmp", b"tmpfs", ctypes.c_ulong(_NOSUID | _NODEV), size))
    os.chdir("/tmp")
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_FSIZE, FILE_MB * 2**20),
    ):
        _lower(kind, value)
    random.seed(0)  # a program does the same each time
    mine, other = socket.socketpair()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.dup2(other.detach(), 3)
            os.closerange(4, _OPEN_FILES)
            os.setsid()
            _drop_privileges(request["user"], request["memory_mb"])
            _lower(resource.RLIMIT_CPU, request["seconds"])
            with socket.socket(fileno=3).makefile("rwb") as end:
                serve(end, request["sources"], request["helpers"], request["names"])
        os._exit(0)
    other.close()
    timed = _Timed(mine, time.monotonic() + request["wall_seconds"])
    send(results, {})  # now the tests may come
    _drop_privileges(request["user"], request["memory_mb"])
    sys.setrecursionlimit(2_000)
    message = receive(requests)
    requests.close()
    token = message.pop("token")
    end = BufferedRWPair(timed, timed)  # never closed: that fails if the program no longer reads
    result = run_tests(end, message["tests"], request["helpers"], request["names"])
    if result["value"] == "ended":
        os.kill(child, signal.SIGKILL)  # it may only have closed its end or sent nonsense
        _, status, usage = os.wait4(child, 0)
        # The kernel counts in ticks for the limit: on a busy machine, it kills before the time is used up.
        used_up = usage.ru_utime + usage.ru_stime >= 0.5 * request["seconds"]
        if used_up and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            result["value"] = "too slow"
    send(results, {**result, "token": token})


class _Timed(RawIOBase):
    """Reads and writes until a time of `time.monotonic()`, whatever signals and timers the tests use."""

    def __init__(self, end: socket.socket, deadline: float) -> None:
        end.setblocking(False)  # a timeout of the socket would take twice as many system calls
        self._end, self._deadline, self._ready = end, deadline, select.poll()

    def readable(self) -> bool:
        return True

    writable = readable

    def readinto(self, buffer: Any) -> int:
        self._wait(select.POLLIN)
        return self._end.recv_into(buffer)

    def write(self, data: Any) -> int:
        while True:
            try:
                return self._end.send(data)
            except BlockingIOError:
                self._wait(select.POLLOUT)

    def _wait(self, event: int) -> None:
        self._ready.register(self._end, event)
        left = self._deadline - time.monotonic()
        if left <= 0 or not self._ready.poll(left * 1000):
            raise TimeoutError


def _drop_privileges(user: int, memory_mb: int) -> None:
    """Become a user without privileges, whose processes are few and small."""
    if os.geteuid() == 0:
        os.setgroups([])
        try:
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        except OSError:  # a user namespace with fewer users
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    _check(_libc.capset(struct.pack("II", _CAPABILITY_VERSION, 0), bytes(24)))
    _lower(resource.RLIMIT_AS, memory_mb * 2**20)
    _lower(resource.RLIMIT_NPROC, PROCESSES)


def _lower(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
