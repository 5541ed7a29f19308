"""Confines this process: namespaces of its own, a file system of the standard library alone, no privileges.

Asks the kernel itself, so that neither a container tool nor util-linux need be there. A user who may not make
namespaces makes them in a user namespace of his own; root makes them as root, and then becomes a user who
owns nothing.
"""

import ctypes
import errno
import os
import re
import resource
import sysconfig
from dataclasses import dataclass
from pathlib import Path

_NEWNS, _NEWUTS, _NEWIPC = 0x00020000, 0x04000000, 0x08000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_REMOUNT, _BIND, _REC, _PRIVATE = 32, 4096, 16384, 1 << 18
_NOATIME, _NODIRATIME, _RELATIME = 1024, 2048, 1 << 21
_DETACH = 2
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION, _PR_CAPBSET_DROP, PR_SET_PDEATHSIG = 0x20080522, 24, 1
_FIRST_USER = 0x6A000000  # of no account; one of these for each process, so that its processes are counted
_NOBODY = 65534
_INSIDE = 1000

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Limits:
    """What a program may take.

    Attributes:
        seconds: of a CPU, for each of its processes.
        wall_seconds: between its start and the end of its tests.
        memory_mb: for each of its processes; and for all of them together, as they hold it.
        file_mb: for all of its files, which lie in memory.
        processes: threads included.
    """

    seconds: int = 10
    wall_seconds: float = 30.0
    memory_mb: int = 1024
    file_mb: int = 8
    processes: int = 16


def separate() -> None:
    """Let the next child be the first process of a namespace of processes, made as root or as a user.

    Raises:
        OSError: the system allows neither.
    """
    user, group = os.geteuid(), os.getegid()
    if user == 0 and libc.unshare(_NEWPID) == 0:
        return
    _check(libc.unshare(_NEWUSER | _NEWPID), "a user namespace")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{_INSIDE} {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{_INSIDE} {group} 1", encoding="ascii")


def confine(limits: Limits, number: int) -> None:
    """Give up all that lies outside; the next child is the first of yet another namespace of processes.

    Args:
        number: of the process outside; no other one has it.

    Raises:
        OSError: the system refuses a step; the message names it.
    """
    _check(libc.unshare(_NEWNS | _NEWNET | _NEWIPC | _NEWUTS), "mount and network namespaces")
    _change_root(limits)
    _check(libc.unshare(_NEWPID), "a process namespace")
    _drop_privileges(number)
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_FSIZE, limits.file_mb * 2**20),
        (resource.RLIMIT_AS, limits.memory_mb * 2**20),
    ):
        _lower(kind, value)
    # When the process outside is gone, so is all that is inside.
    _check(libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0), "ending with the parent process")


def limit_program(limits: Limits) -> None:
    """Set the limits that are the program's alone; to be called in its own process."""
    _lower(resource.RLIMIT_CPU, limits.seconds)
    _lower(resource.RLIMIT_NPROC, limits.processes)


def _lower(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _change_root(limits: Limits) -> None:
    """Make a root of the standard library and the libraries it needs, read only, and of a small /tmp."""
    stdlib = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    folders = [*sorted(_library_folders() - stdlib), *sorted(stdlib)]
    _mount(None, "/", None, _REC | _PRIVATE, "private mounts")
    size = f"size={limits.file_mb}m,nr_inodes=2048,mode=755"
    _mount("tmpfs", "/tmp", "tmpfs", _NOSUID | _NODEV, "an in-memory file system", size)
    os.mkdir("/tmp/old")
    pivot = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if pivot is None:
        raise OSError(errno.ENOSYS, f"not known on {os.uname().machine}")
    _check(libc.syscall(pivot, b"/tmp", b"/tmp/old"), "changing the root folder")
    os.chdir("/")
    for folder in folders:
        _show(folder)
    for library in stdlib:
        for name in ("site-packages", "dist-packages"):
            if os.path.isdir(f"{library}/{name}"):
                hidden = _RDONLY | _NOSUID | _NODEV
                _mount("tmpfs", f"{library}/{name}", "tmpfs", hidden, "hidden packages", "size=4k,mode=555")
    os.mkdir("/dev", 0o755)
    for name in ("null", "urandom"):
        Path("/dev", name).touch()
        _mount(f"/old/dev/{name}", f"/dev/{name}", None, _BIND, f"/dev/{name}")
    os.mkdir("/tmp")
    os.chmod("/tmp", 0o1777)
    _check(libc.umount2(b"/old", _DETACH), "unmounting the old root folder")
    os.rmdir("/old")
    os.chdir("/tmp")


def _show(folder: str) -> None:
    """Bind a folder of the old root at its own place, read only."""
    os.makedirs(folder, 0o755, exist_ok=True)
    _mount(f"/old{folder}", folder, None, _BIND | _REC, folder)
    # Flags of the old mount may not be taken away.
    had = os.statvfs(folder).f_flag
    kept = had & (_NOSUID | _NODEV | _NOEXEC | _NOATIME | _NODIRATIME) | (_RELATIME if had & 4096 else 0)
    flags = _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV | kept
    _mount(None, folder, None, flags, f"{folder}, read only")


def _library_folders() -> set[str]:
    """The folders of the shared libraries that are loaded; the system's own is among them."""
    import _ctypes
    import _hashlib  # noqa: F401

    text = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    files = set(re.findall(r"/\S+\.so\S*$", text, re.MULTILINE)) - {_ctypes.__file__}
    folders = {os.path.realpath(os.path.dirname(file)) for file in files}
    inside = {os.path.realpath(sysconfig.get_path("stdlib"))}
    return {folder for folder in folders if not any(folder.startswith(each) for each in inside)}


def _drop_privileges(number: int) -> None:
    if os.geteuid() == 0:
        user = _FIRST_USER + number % 2**22
        os.setgroups([])
        try:
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        except OSError:  # a user namespace that does not have so many users
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    for capability in range(64):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails beyond the last one
    head = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    number_of_call = _SYS_CAPSET[os.uname().machine]
    _check(libc.syscall(number_of_call, ctypes.byref(head), ctypes.byref(none)), "dropping capabilities")


def _mount(
    source: str | None, target: str, kind: str | None, flags: int, what: str, options: str | None = None
) -> None:
    words = [None if each is None else os.fsencode(each) for each in (source, target, kind, options)]
    _check(libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), what)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
