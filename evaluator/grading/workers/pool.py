"""Runs grading tasks in worker processes that can be killed, each task within its own limits.

Threads hand the tasks out, each to a process of its own. In the quick lane a task has little time; what
exceeds it or ends its process goes to the careful one: few workers of low priority, where a task has all the
time it may take. So hostile answers cannot hold up honest ones for long. Programs have a lane of enclosures.
"""

import math
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from multiprocessing import resource_tracker
from typing import Any, Literal

from evaluator.grading.compare import WorkerTask
from evaluator.grading.programs import ProgramWorker
from evaluator.grading.types import CRASHED, MEMORY, TIMEOUT, Grade
from evaluator.grading.workers import worker
from service.errors import PrerequisiteError

_TASKS_PER_WORKER: dict[str, int] = {"quick": 1500, "careful": 64}
"""A worker is replaced after so many tasks, since sympy's caches only grow."""
_CANNOT_START = (
    "the grading workers cannot start (see their error above). They import your script, so save it as a "
    'file and put its code under `if __name__ == "__main__":`'
)
_STARTS = 3
_START_S = 60.0
_QUICK_LIMIT_S = 1.0

Lane = Literal["quick", "careful", "programs"]


class WorkerPool:
    """Lanes of killable workers, each started at first use; safe to share between threads.

    The careful lane has half as many processes as the others (at least two, so that an honest case that takes
    long need not wait for a hostile one).
    """

    def __init__(self, workers: int, time_limit_s: float, memory_limit_mb: int, own: str | None) -> None:
        careful = max(2, workers // 2)
        self._sizes: dict[Lane, int] = {"quick": workers, "careful": careful, "programs": workers}
        self._limits_s: dict[Lane, float] = {
            "quick": min(_QUICK_LIMIT_S, time_limit_s / 4),
            "careful": time_limit_s,
            "programs": time_limit_s,
        }
        self._settings = memory_limit_mb, own
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._mine = threading.local()  # the worker of a thread
        self._workers: set[_Worker | ProgramWorker] = set()
        self._lanes = {
            lane: ThreadPoolExecutor(size, thread_name_prefix=f"grading-{lane}")
            for lane, size in self._sizes.items()
        }
        self._process = os.getpid()  # last: who sees it sees the rest

    def run(
        self,
        tasks: Iterator[WorkerTask],
        report: Callable[[dict[WorkerTask, Grade]], None],
        deadline: float = math.inf,
        first: Lane = "quick",
    ) -> None:
        """Take tasks as workers become free, until there are no more, and report grades as they come.

        Tasks without a grade when `time.monotonic()` reaches the deadline are not reported.
        Raises RuntimeError after `close`, and PrerequisiteError if no worker can be started.
        """
        if self._process != os.getpid():  # a fork has neither the threads nor their workers
            self._begin()
        careful: deque[WorkerTask] = deque()
        running: dict[Future[Grade | None], tuple[Lane, WorkerTask]] = {}
        try:
            while True:
                killed = (careful.popleft() for _ in range(len(careful)))
                lanes: dict[Lane, Iterator[WorkerTask]] = {first: tasks, "careful": killed}
                for lane, source in lanes.items():
                    room = 2 * self._sizes[lane] - sum(each == lane for each, _ in running.values())
                    for task in islice(source, max(0, room)):  # few at a time, so that callers take turns
                        self.check_open()
                        running[self._lanes[lane].submit(self._grade, lane, task, deadline)] = lane, task
                left_s = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
                finished, _ = wait(running, left_s, FIRST_COMPLETED)
                if not finished:
                    break
                ended = {}
                for future in finished:
                    _, task = running.pop(future)
                    grade = future.result()
                    if grade is None:
                        careful.append(task)
                    else:
                        ended[task] = grade
                report(ended)
        finally:
            for future in running:
                future.cancel()

    def check_open(self) -> None:
        """Raises RuntimeError after `close`."""
        if self._closed:
            raise RuntimeError("the grader is closed")

    def close(self) -> None:
        """Stops all workers and waits for them; running tasks are abandoned."""
        if self._process != os.getpid():
            self._closed = True
            return
        with self._lock:
            self._closed = True
        for threads in self._lanes.values():
            threads.shutdown(wait=False)  # what waits in them ends in `check_open`
        for each in list(self._workers):
            each.stop()

    def _grade(self, lane: Lane, task: WorkerTask, deadline: float) -> Grade | None:
        """Return the grade of a task, None if it did not survive the quick lane."""
        self.check_open()
        if time.monotonic() >= deadline:
            return TIMEOUT
        mine = self._own_worker(lane)
        left_s = deadline - time.monotonic()
        if left_s <= 0:  # its start took too long
            return TIMEOUT
        grade = mine.receive(min(self._limits_s[lane], left_s), task)
        self.check_open()  # which kills the workers
        if mine.is_used_up:
            self._end(mine)
        return None if mine.died and lane == "quick" else grade

    def _own_worker(self, lane: Lane) -> "_Worker | ProgramWorker":
        """Return the worker of this thread, started if it has none."""
        mine: _Worker | ProgramWorker | None = getattr(self._mine, "worker", None)
        if mine is not None:
            if not mine.is_used_up:
                return mine
            self._end(mine)
        for _ in range(_STARTS):
            with self._lock:
                self.check_open()
                is_program = lane == "programs"
                limits = self._limits_s[lane], self._settings[0]
                mine = ProgramWorker(*limits) if is_program else _Worker(lane, *self._settings)
                self._mine.worker = mine
                self._workers.add(mine)
            if mine.receive(_START_S) is None:
                return mine
            self._end(mine)
        raise PrerequisiteError(_CANNOT_START)

    def _end(self, ended: "_Worker | ProgramWorker") -> None:
        ended.stop()
        self._workers.discard(ended)


class _Worker:
    """A process that grades one task at a time, and the pipe to it."""

    def __init__(self, lane: Lane, *settings: Any) -> None:
        # Fork servers are safe with threads, and a replaced worker starts with the algebra loaded.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["math_verify", "evaluator.grading.workers.warming"])
        self._pipe, end = context.Pipe()
        self._process = context.Process(
            target=worker.serve, args=(end, *settings, lane == "careful"), daemon=True
        )
        # Ctrl-C reaches every process of a terminal; the fork server ignores it only after its imports.
        resource_tracker.ensure_running()  # its start would unblock the signal
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        end.close()
        self._tasks_left = _TASKS_PER_WORKER[lane]
        self.died = False

    @property
    def is_used_up(self) -> bool:
        return self.died or self._tasks_left <= 0 or not self._process.is_alive()

    def receive(self, limit_s: float, task: WorkerTask | None = None) -> Grade | None:
        """Return the grade of a task, or why it is unknown if the process dies of it.

        Without a task, return None once the process has loaded the algebra.
        """
        try:
            if task is not None:
                self._tasks_left -= 1
                self._pipe.send(task)
            if self._pipe.poll(limit_s):
                sent: Grade | None = self._pipe.recv()
                return sent
            reason = TIMEOUT
        except (EOFError, OSError):
            self.stop()
            reason = MEMORY if self._process.exitcode == worker.MEMORY_EXIT else CRASHED
        self.died = True
        return reason

    def stop(self) -> None:
        """Kill the process and wait for its end."""
        self._process.kill()
        self._process.join()
