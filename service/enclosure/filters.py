"""System calls that a program is kept from, beside what its namespaces keep from it (seccomp).

Without a privilege most of these fail anyway; what is left out is surface of the kernel, memory that no
limit counts, and other namespaces. No other program can be started, and sockets reach nothing but the process
itself.
"""

import ctypes
import errno
import os

# Numbers of x86-64 and of AArch64, from the kernel's tables.
_NUMBERS = {
    "ptrace": (101, 117),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "execve": (59, 221),
    "execveat": (322, 281),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "mount_setattr": (442, 442),
    "unshare": (272, 97),
    "setns": (308, 268),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
}
_SOCKET, _CLONE, _CLONE3 = (41, 198), (56, 220), (435, 435)
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, the kernel's word for it
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEW*, all of them
_AF_UNIX = 1
_X32 = 0x40000000

# Offsets in struct seccomp_data, and instructions of classic BPF.
_NUMBER, _MACHINE, _FIRST = 0, 4, 16
_LOAD, _EQUAL, _LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("true", ctypes.c_ubyte),
        ("false", ctypes.c_ubyte),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("first", ctypes.POINTER(_Instruction)))


def forbid(libc: ctypes.CDLL) -> None:
    """Keep this process and its children from the calls, and from new privileges, for good.

    Raises:
        OSError: the kernel takes no filter, or is none of the machines whose numbers are known.
    """
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise OSError(errno.ENOSYS, f"no system-call filter for {machine}")
    rules = [_Instruction(*each) for each in _rules(*_MACHINES[machine])]
    program = _Program(len(rules), (_Instruction * len(rules))(*rules))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs")
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def _rules(column: int, word: int) -> list[tuple[int, int, int, int]]:
    fail, absent = _FAIL | errno.EPERM, _FAIL | errno.ENOSYS
    rules = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, word),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
        (_EQUAL, 0, 1, _CLONE3[column]),  # its flags lie in memory; the C library falls back to clone
        (_RETURN, 0, 0, absent),
    ]
    for numbers in _NUMBERS.values():
        rules += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, fail)]
    rules += [
        (_EQUAL, 0, 4, _SOCKET[column]),
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 1, 0, _AF_UNIX),
        (_RETURN, 0, 0, fail),
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 3, _CLONE[column]),
        (_LOAD, 0, 0, _FIRST),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, fail),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return rules
