"""What runs inside a worker process: limits, the watch over them, and chunks of cases."""

import os
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing import connection, parent_process
from typing import Literal, NamedTuple

from evaluator.grading.compare import compare
from evaluator.grading.extraction import answer_of, gold_answer
from evaluator.grading.kinds import Algebra, judge
from evaluator.grading.types import (
    CRASHED,
    MEMORY,
    NO_ANSWER,
    NO_GOLD,
    AnswerKind,
    GradeCase,
    GradeValue,
    Outcome,
)
from evaluator.grading.workers.own import grade_by_own

_LOW_PRIORITY = 2  # more would let a busy machine time honest cases out
MEMORY_EXIT = 77
"""Exit status of a worker that went over its memory limit."""


class Task(NamedTuple):
    """What to do with two answers: grade the second against the first, compare both ways, read the first.

    Of a `response` the second is all of it: its answer is found first, or the user's `own` grader reads it.
    """

    what: Literal["grade", "equal", "read", "response"]
    first: str
    second: str = ""
    kind: AnswerKind = AnswerKind.LATEX
    tolerance: str | None = None
    boxed_only: bool = False
    own: str | None = None


READABLE = Outcome(GradeValue.CORRECT, "symbolic")
UNREADABLE = Outcome(GradeValue.UNKNOWN, "unparsable")

_limit_bytes = sys.maxsize


def start_worker(memory_limit_mb: int, low_priority: bool = False) -> None:
    """Loads the algebra, sets the limits and starts the watch; runs before the worker takes a case.

    A worker ends itself when its peak memory passes the limit or when the process that owns the pool is
    gone. Where the system supports it, address space beyond twice the limit is refused, so that one huge
    allocation cannot outrun the watch.
    """
    global _limit_bytes
    import signal

    # Pebble's handler runs Python code, which a worker stuck in one long operation never reaches.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import evaluator.grading.workers.symbolic  # noqa: F401

    if low_priority and hasattr(os, "nice"):
        os.nice(_LOW_PRIORITY)
    _limit_bytes = memory_limit_mb * 2**20 + _resident_peak()
    threading.Thread(target=_watch, name="grader-watch", daemon=True).start()
    # Address space runs ahead of memory in use by a few arenas.
    _limit_address_space((2 * memory_limit_mb + 256) * 2**20)


def _limit_address_space(extra: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = used + extra
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _resident_peak() -> int:
    """Peak resident memory of this process in bytes (the present one where the system keeps no peak)."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    import psutil

    return int(psutil.Process().memory_info().rss)


def _watch() -> None:
    parent = parent_process()
    sentinel = [parent.sentinel] if parent is not None else []
    while True:
        if sentinel:
            if connection.wait(sentinel, timeout=0.05):
                os._exit(0)
        else:
            time.sleep(0.05)
        end_if_over_limit()


def end_if_over_limit() -> None:
    """Ends the process when its memory has ever passed the limit, so that a fresh one takes over."""
    if _resident_peak() > _limit_bytes:
        os._exit(MEMORY_EXIT)


def run_chunk(tasks: Sequence[Task], budget_s: float) -> list[Outcome]:
    """Runs tasks in order until the budget is used up.

    Returns the outcomes of those it got to, at least one.
    """
    started = time.monotonic()
    outcomes: list[Outcome] = []
    for task in tasks:
        outcomes.append(run_task(task))
        end_if_over_limit()
        if time.monotonic() - started > budget_s:
            break
    return outcomes


def run_task(task: Task) -> Outcome:
    """Runs one task; whatever goes wrong inside it is an unknown outcome, never an exception."""
    from evaluator.grading.workers import symbolic

    first, second = task.first, task.second
    algebra = Algebra(symbolic.compare_expressions, symbolic.number_value)
    try:
        if task.what == "read":
            return READABLE if symbolic.readable(first) else UNREADABLE
        if task.own is not None:
            return grade_by_own(task.own, second, first, kind=task.kind.value, tolerance=task.tolerance)
        if task.what == "response":
            return _grade_response(task, algebra)
        if task.what == "grade":
            return judge(first, second, task.kind, task.tolerance, algebra) or CRASHED
        forward = compare(first, second, symbolic.compare_expressions)
        if forward is None or forward.value is not GradeValue.CORRECT:
            return forward or CRASHED
        return compare(second, first, symbolic.compare_expressions) or CRASHED
    except MemoryError:
        return MEMORY
    except Exception:  # sympy raises anything; the case is unknown and the worker goes on
        return CRASHED


def _grade_response(task: Task, algebra: Algebra) -> Outcome:
    case = GradeCase(task.second, task.first, task.kind, task.tolerance, task.boxed_only)
    answer = answer_of(case)
    if answer is None:
        return NO_ANSWER if case.gold.strip() else NO_GOLD
    outcome = judge(gold_answer(case.gold), answer.text, case.kind, case.tolerance, algebra) or CRASHED
    return Outcome(outcome.value, outcome.reason, answer.text, answer.source)
