"""Code that runs in a worker process: its limits, their supervision, and one task after the other."""

import os
import resource
import signal
import sys
import threading
from multiprocessing import connection, parent_process
from typing import Any

from evaluator.grading.compare import WorkerTask, do_task
from evaluator.grading.types import CRASHED, MEMORY, Grade, GradeCase
from evaluator.grading.workers.own import grade_by_own

_LOW_PRIORITY = 2  # more would let a busy machine time honest cases out
MEMORY_EXIT = 77
"""Exit status of a worker that went over its memory limit."""


def serve(pipe: Any, memory_limit_mb: int, own: str | None, low_priority: bool) -> None:
    """Load the algebra, set the limits, send None, and then a grade for each task that comes.

    A worker ends itself when its peak memory passes the limit or when the process that owns the pool is
    gone. Where the system supports it, address space beyond twice the limit is refused, so that one huge
    allocation cannot outrun the watch.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import evaluator.grading.algebra  # noqa: F401

    if low_priority:
        os.nice(_LOW_PRIORITY)
    most_bytes = memory_limit_mb * 2**20 + _resident_peak()
    threading.Thread(target=_watch, args=[most_bytes], name="grader-watch", daemon=True).start()
    # Address space runs ahead of memory in use by a few arenas.
    _limit_address_space((2 * memory_limit_mb + 256) * 2**20)
    pipe.send(None)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        grade = run_task(task, own)
        _end_if_over_limit(most_bytes)
        pipe.send(grade)


def _limit_address_space(extra: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = used + extra if hard == resource.RLIM_INFINITY else min(used + extra, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _resident_peak() -> int:
    """Peak resident memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _watch(most_bytes: int) -> None:
    parent = parent_process()
    assert parent is not None
    while not connection.wait([parent.sentinel], timeout=0.05):
        _end_if_over_limit(most_bytes)
    os._exit(0)


def _end_if_over_limit(most_bytes: int) -> None:
    """End the process if its memory has ever passed the limit, so that a fresh one takes over."""
    if _resident_peak() > most_bytes:
        os._exit(MEMORY_EXIT)


def run_task(task: WorkerTask, own: str | None = None) -> Grade:
    """Run one task, a case by the `own` grader if there is one.

    Whatever goes wrong inside it is an unknown grade, never an exception.
    """
    from evaluator.grading import algebra

    try:
        if own is not None and isinstance(task, GradeCase):
            return grade_by_own(own, task)
        return do_task(task, algebra.compare_expressions)
    except MemoryError:
        return MEMORY
    except Exception:  # sympy raises anything; the case is unknown and the worker goes on
        return CRASHED
