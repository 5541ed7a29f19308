"""Runs grading tasks in worker processes that can be killed, each task within its own limits.

There are two lanes. In the quick one tasks go out in chunks with little time. What looks expensive goes to
the careful one, and so do the tasks of a chunk that died (time, memory, crash): there each runs alone with
all the time it may take, in few workers of low priority, so that hostile answers cannot hold up honest ones
and only the culprit of a chunk is unknown. Pebble starts the clock when a worker takes a chunk, not when it
is queued, and replaces workers it has killed.
"""

import contextlib
import math
import multiprocessing
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

from evaluator.grading.types import CRASHED, MEMORY, TIMEOUT, Grade
from evaluator.grading.workers import worker
from evaluator.grading.workers.tasks import Task
from service.errors import PrerequisiteError

_CHUNK = 24
_CHUNKS_PER_WORKER = 64
"""A worker is replaced after so many chunks, since sympy's caches only grow."""
_CANNOT_START = (
    "the grading workers cannot start (see their error above). They import your script, so save it as a "
    'file and put its code under `if __name__ == "__main__":`'
)
_RESTARTS = 3
_LOOK_S = 1.0
"""How often a pool that returns nothing is checked."""

QUICK, CAREFUL = "quick", "careful"
_QUICK_BUDGET_S = 0.5
_QUICK_LIMIT_S = 2.5


class _Batch(NamedTuple):
    """Tasks that a worker takes together."""

    indices: tuple[int, ...]
    lane: str


class _PoolLostError(Exception):
    """Nothing will come from these pools any more."""

    def __init__(self, *pools: Any) -> None:
        super().__init__()
        self.pools = pools


_Waiting = dict[str, deque[_Batch]]
_Running = dict[Future[list[Grade]], tuple[_Batch, Any]]


class WorkerPool:
    """Two lanes of killable workers, each started at first use; safe to share between threads.

    The quick lane has `workers` processes, the careful one half as many (at least two, so that an honest case
    that looks expensive need not wait for a hostile one).
    """

    def __init__(self, workers: int, time_limit_s: float, memory_limit_mb: int) -> None:
        self._workers = {QUICK: workers, CAREFUL: max(2, workers // 2)}
        self._time_limit_s = time_limit_s
        self._memory_limit_mb = memory_limit_mb
        self._lock = threading.Lock()
        self._pools: dict[str, Any] = {}
        self._closed = False

    def run(
        self,
        tasks: Sequence[Task],
        on_finished: Callable[[Sequence[Task]], None],
        deadline: float = math.inf,
    ) -> list[Grade]:
        """Return the grade of each task, in order; `on_finished` is called with newly finished tasks.

        A task without a grade when `time.monotonic()` reaches the deadline is a time-out.
        Raises RuntimeError after `close`. Never hangs: if nothing finishes for far longer than the limits
        allow, the workers are restarted, and after three restarts the rest is "crashed".
        Raises PrerequisiteError if no worker can be started at all.
        """
        grades: dict[int, Grade] = {}
        waiting: _Waiting = {QUICK: deque(), CAREFUL: deque()}
        quick = []
        for index, task in enumerate(tasks):
            if task.what != "response" and (looks_expensive(task.first) or looks_expensive(task.second)):
                waiting[CAREFUL].append(_Batch((index,), CAREFUL))
            else:
                quick.append(index)
        size = max(1, min(_CHUNK, -(-len(quick) // (2 * self._workers[QUICK]))))
        for start in range(0, len(quick), size):
            waiting[QUICK].append(_Batch(tuple(quick[start : start + size]), QUICK))
        running: _Running = {}
        restarts = 0
        try:
            while (running or any(waiting.values())) and restarts <= _RESTARTS:
                if time.monotonic() >= deadline:
                    return [grades.get(index, TIMEOUT) for index in range(len(tasks))]
                try:
                    self._submit(tasks, waiting, running)
                    for future in self._wait(running, deadline):
                        newly = self._collect(future, running, waiting)
                        grades |= newly
                        on_finished([tasks[index] for index in newly])
                except _PoolLostError as lost:
                    restarts += 1
                    for future in [future for future, (_, pool) in running.items() if pool in lost.pools]:
                        batch, _ = running.pop(future)
                        waiting[batch.lane].append(batch)
                    self.check_open()
                    self._drop(lost.pools)
            if restarts > _RESTARTS and not grades:
                raise PrerequisiteError(_CANNOT_START)
        finally:
            for future in running:
                future.cancel()
        return [grades.get(index, CRASHED) for index in range(len(tasks))]

    def check_open(self) -> None:
        """Raises RuntimeError after `close`."""
        if self._closed:
            raise RuntimeError("the grader is closed")

    def close(self) -> None:
        """Stops all workers and waits for them; running tasks are abandoned."""
        with self._lock:
            pools, self._pools, self._closed = list(self._pools.values()), {}, True
        for pool in pools:
            pool.stop()
            pool.join()

    def _submit(self, tasks: Sequence[Task], waiting: _Waiting, running: _Running) -> None:
        """Hand out batches, two for each quick worker and one for each careful one."""
        for lane, batches in waiting.items():
            room = self._workers[lane] * (2 if lane == QUICK else 1)
            room -= sum(batch.lane == lane for batch, _ in running.values())
            budget_s, limit_s = 0.0, self._time_limit_s
            if lane == QUICK:
                budget_s = min(_QUICK_BUDGET_S, self._time_limit_s)
                limit_s = min(_QUICK_LIMIT_S, budget_s + self._time_limit_s)
            while batches and room > 0:
                with self._lock:
                    self.check_open()
                    if lane not in self._pools:
                        self._pools[lane] = self._start(lane)
                    pool = self._pools[lane]
                chunk = [tasks[index] for index in batches[0].indices]
                try:
                    future = pool.schedule(worker.run_chunk, args=(chunk, budget_s), timeout=limit_s)
                except RuntimeError as error:
                    raise _PoolLostError(pool) from error
                running[future] = (batches.popleft(), pool)
                room -= 1

    def _wait(self, running: _Running, deadline: float) -> set[Future[list[Grade]]]:
        """Wait for batches and return those that ended; at the deadline there may be none.

        A pool that breaks forgets the batch that it was just given, and its future never ends.
        """
        # Batches may wait for other callers' ones; starting a worker on a busy machine takes seconds.
        give_up = time.monotonic() + 60.0 + 4 * self._time_limit_s
        while (now := time.monotonic()) < give_up:
            look_s = max(0.0, min(_LOOK_S, deadline - now))
            finished, _ = wait(running, timeout=look_s, return_when=FIRST_COMPLETED)
            if finished or now >= deadline:
                return finished
            if broken := [pool for _, pool in running.values() if not pool.active]:
                raise _PoolLostError(*broken)
        raise _PoolLostError(*[pool for _, pool in running.values()])

    def _collect(self, future: Future[list[Grade]], running: _Running, waiting: _Waiting) -> dict[int, Grade]:
        """Return what a batch brought, by task, and put the rest of it back."""
        from pebble import ProcessExpired

        batch, pool = running[future]
        try:
            results = future.result()
        except BrokenProcessPool as error:
            raise _PoolLostError(pool) from error
        except (FutureTimeoutError, ProcessExpired, MemoryError, OSError) as error:
            if batch.lane == QUICK:
                del running[future]
                waiting[CAREFUL].extend(_Batch((index,), CAREFUL) for index in batch.indices)
                return {}
            memory = isinstance(error, MemoryError) or getattr(error, "exitcode", 0) == worker.MEMORY_EXIT
            results = [TIMEOUT if isinstance(error, FutureTimeoutError) else MEMORY if memory else CRASHED]
        del running[future]
        if rest := batch.indices[len(results) :]:
            waiting[batch.lane].appendleft(_Batch(rest, batch.lane))
        return dict(zip(batch.indices, results, strict=False))

    def _drop(self, broken: Sequence[Any]) -> None:
        with self._lock:
            mine = {lane: pool for lane, pool in self._pools.items() if pool in broken}
            for lane in mine:
                del self._pools[lane]
        for pool in mine.values():
            with contextlib.suppress(RuntimeError):
                pool.stop()
                pool.join()

    def _start(self, lane: str) -> Any:
        from evaluator.grading.workers.processes import Processes

        if sys.platform == "win32":
            context: Any = multiprocessing.get_context("spawn")
        else:  # fork servers are safe with threads, and a replaced worker starts with the algebra loaded
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload(["math_verify", "pebble", "evaluator.grading.workers.warming"])
        return Processes(
            max_workers=self._workers[lane],
            max_tasks=_CHUNKS_PER_WORKER,
            initializer=worker.start_worker,
            initargs=[self._memory_limit_mb, lane == CAREFUL],
            context=context,
        )


_LONG = 400
_DEEP = 16
_EXPENSIVE = re.compile(
    r"\\(?:int|iint|oint|sum|prod|lim)(?![A-Za-z])"
    r"|\\(?:binom|choose)(?![A-Za-z]).{0,60}(?:\d{3}|\^)"
    r"|\d{60}"  # a long number
    r"|\^ ?\{[^{}]{0,40}[\^!]|\^ ?\w ?[\^!]"  # a tower of powers
    r"|\^ ?\{? ?\d{4}|\d{4} ?\)? ?\^ ?\{?\d{3}"  # a large power
    r"|\)\^ ?\{? ?\d{2}"  # a power that multiplies out into many terms
    r"|\^[^!]{1,20}\) ?!|\d{3} ?\)? ?!|! ?\)? ?!"  # a large factorial, a factorial of a factorial
)


def looks_expensive(text: str) -> bool:
    """Tells from the text of an answer that comparing it may take long; a hint, never a verdict.

    True for long or deeply nested texts, integrals and sums, towers of powers and large factorials.
    """
    if len(text) > _LONG:
        return True
    depth = deepest = 0
    for char in text:
        if char in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")}]":
            depth -= 1
    return deepest > _DEEP or _EXPENSIVE.search(text) is not None
